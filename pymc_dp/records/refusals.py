"""Refusals in words: what was found, why it would leak, how to fix it."""

from collections.abc import Mapping, Sequence

from pymc_dp.errors import ModelRefusedError

#: Reasons why outcomes that can be drawn are not compared with drawn ones.
MOVES = "a bound of its distribution depends on a parameter"
UNKNOWN = "a bound that censors it may be infinite for some records"


def refuse_public_observed(label: str) -> ModelRefusedError:
    """Build the error for observed values that are declared public."""
    return ModelRefusedError(
        f"public= names {label!r}, which are observed values.",
        "they are the records.",
        "leave them out of public=.",
    )


def refuse_discrete_bound() -> ModelRefusedError:
    """Build the error for a bound of counts by which PyMC chooses their type."""
    return ModelRefusedError(
        "Counts are censored by an array of real numbers.",
        "PyMC takes outcomes for whole numbers if all entries are infinite, and for real ones if not: one "
        "record decides.",
        "give the bounds as pm.Data, or as an array of whole numbers.",
    )


def refuse_constant_probabilities() -> ModelRefusedError:
    """Build the error for probabilities of categories that PyMC looked at."""
    return ModelRefusedError(
        "Probabilities of a Categorical or Multinomial distribution are an array with a row for each record.",
        "PyMC divides all rows by their sums if those of one record are not one.",
        "give them as pm.Data.",
    )


def refuse_shape_by_numbers() -> ModelRefusedError:
    """Build the error for a distribution with a shape that depends on the entries of an array."""
    return ModelRefusedError(
        "A distribution is made of arrays whose length is known by the numbers of an array of records, or by "
        "how many there are where that is private.",
        "how many records there are, or a mask takes, is about each of them, and would be taken for public.",
        "give the model every row, and masks as numbers that terms are multiplied by; write how many there "
        "are as a number.",
    )


def refuse_view(label: str) -> ModelRefusedError:
    """Build the error for a part of the records under another name."""
    return ModelRefusedError(
        f"The array {label!r} is a part of an array of records.",
        "it has other entries than one a record, and would be taken as public.",
        "give the model arrays with one entry a record.",
    )


def refuse_shifted(label: str, other: str) -> ModelRefusedError:
    """Build the error for lagged data."""
    return ModelRefusedError(
        f"The arrays {label!r} and {other!r} are views of one array, in which a record of one is another "
        "record of the other."
        if label != other
        else f"Records of the array {label!r} share memory with each other (windows, a repeated record).",
        "a person's values stand in two rows (a lag, a difference), so that one person moves two terms.",
        "use independent records, one row each; for several series, one row a series.",
    )


def refuse_inner(label: str) -> ModelRefusedError:
    """Build the error for records inside of an Op."""
    return ModelRefusedError(
        f"The array {label!r} is inside of an operation (a function that a distribution or transform was "
        "given, an OpFromGraph, a scan).",
        "there it cannot be followed, and what is derived from it may depend on its values.",
        f"pass it as an argument, not from the surrounding code; if it holds no record: public=[{label!r}].",
    )


def refuse_computed(label: str) -> ModelRefusedError:
    """Build the error for positions that the graph computes, where their number is private."""
    return ModelRefusedError(
        f"The array {label!r} is computed inside the graph, from the number of records (pt.arange(len(y))).",
        "which of its entries a record has depends on the records before it, and one that is added or "
        "removed moves all others.",
        "give the model what belongs to each record as an array of data, one entry each.",
    )


def refuse_changing(names: Sequence[str | None]) -> ModelRefusedError:
    """Build the error for shared variables with a `default_update`."""
    return ModelRefusedError(
        f"The model reads shared variables that have a default_update ({', '.join(map(repr, names))}).",
        "PyTensor sets them to another value each time that they are read: to an exact sum of the records, "
        "say, or to how often they were read, and no noise is added.",
        "give the model a number or an array, which does not change (pm.Data).",
    )


def refuse_two_axes(labels: Sequence[str], n_rows: int) -> ModelRefusedError:
    """Build the error for arrays that could be read in two ways."""
    return ModelRefusedError(
        f"Which axis of {', '.join(map(repr, labels))} holds the records cannot be told: two have length "
        f"{n_rows}.",
        "an array that is read along the wrong axis, or is about pairs, would be protected in the wrong way.",
        "give the other axis another length (drop a reference level), or, if the array holds no record, name "
        "it in public=.",
    )


def refuse_prior(name: str, why: str, kind: str = "The prior of") -> ModelRefusedError:
    """Build the error for a prior or Potential that reads records."""
    return ModelRefusedError(
        f"{kind} {name!r} reads private records ({why}).",
        "it is evaluated exactly, without clipping or noise, and would leak them.",
        "a factor of the likelihood belongs into an observed variable (pm.CustomDist; for censoring, "
        "pm.Censored); a prior must be chosen without the data. A number that was computed from the data "
        "outside the graph cannot be detected: see docs/limits; dp.Prepare releases scales, levels and "
        "bounds of columns.",
    )


def refuse_start(name: str, why: str) -> ModelRefusedError:
    """Build the error for an initial value that reads records."""
    return ModelRefusedError(
        f"The initial value of {name} reads private records ({why}).",
        "a chain starts there, exactly, and short chains show it.",
        "pass initval= numbers that were chosen without the data.",
    )


def refuse_dim(name: str, why: str) -> ModelRefusedError:
    """Build the error for a dimension whose length is computed from records."""
    return ModelRefusedError(
        f"The length of dimension {name!r} is computed from private records ({why}).",
        "shapes of what is released would show it.",
        "give the length as a number that was chosen without the data.",
    )


def refuse_latent(name: str, shape: Sequence[int]) -> ModelRefusedError:
    """Build the error for a free variable with an entry for each record or privacy unit."""
    return ModelRefusedError(
        f"Free variable {name!r} has an entry for each record: shape {tuple(shape)}.",
        "its draws would describe single records or persons, under coordinates that identify them.",
        "dp.release_likelihood and dp.sample(epsilon=...) integrate an effect that rows look up by the "
        f'pm.Data with ids of persons: {name}[person], with person = pm.Data("person", ids) that count from '
        'zero (not person - 1), and privacy_unit="person", the name and not the array. Else integrate it '
        "yourself (a normal effect beside a normal outcome is a wider sigma), or share it between records. "
        "If the rows are totals over many persons, the records to protect are the persons: give the model "
        f"one row a person and an index of the group. If the number is a coincidence: public=[{name!r}].",
    )


def refuse_effect(name: str | None, why: str) -> ModelRefusedError:
    """Build the error for an effect of persons that cannot be integrated in each person's likelihood."""
    return ModelRefusedError(
        f"The effect {name!r} {why}.",
        "an effect with an entry for each person is integrated within that person's likelihood, which is "
        "possible where persons are independent given the parameters, and where a person's rows alone read "
        "its entry (a spatial or a Gaussian process over persons, pairs of them, a second array of persons "
        "couple them).",
        "give the effect a prior with an entry for each person, independent of the others and with the same "
        "parameters for all, of a shape that is a number (a mixture of several laws as one effect is not "
        "followed), and look it up as effect[person] alone, with person the pm.Data that "
        "privacy_unit= names; numbers that differ between persons belong into the rows.",
    )


def refuse_integrated(name: str | None) -> ModelRefusedError:
    """Build the error for a step with an effect of persons that is integrated."""
    return ModelRefusedError(
        f"{name!r} has an entry for each person, and is integrated within the person's likelihood.",
        "pymc.sample keeps a draw of every free variable of its model, and nothing is known of these.",
        "use dp.sample(epsilon=...), or dp.release_likelihood and pm.sample with the model that it releases.",
    )


def refuse_many_effects(name: str | None, most: int) -> ModelRefusedError:
    """Build the error for more effects of a person than are integrated."""
    return ModelRefusedError(
        f"A person has more than {most} effects, or how many is not known: {name!r} is one of them.",
        "the points at which the integral is computed are a power of their number.",
        f"keep at most {most} numbers a person, and let the others be parameters that persons share.",
    )


def refuse_position() -> ModelRefusedError:
    """Build the error for rows that depend on the place of a record, or on how many there are."""
    return ModelRefusedError(
        "The log-likelihood of a record depends on its place among the others, or on their number.",
        "rows are computed for some records at a time, in any order (what depends on the place: a vector "
        "such as pt.arange(n), an array repeated to length n, or n itself as a factor).",
        "give what belongs to a record as an array of data with one entry a record, and write n as a number.",
    )


def refuse_coupled(name: str, why: str) -> ModelRefusedError:
    """Build the error for a likelihood that does not factorise."""
    return ModelRefusedError(
        f"The log-likelihood of observed variable {name!r} does not factorise over records: {why}.",
        "clipping a record's own term does not bound what that record does to the others' (a mean or maximum "
        "over the column inside the graph, a lagged value, an autoregression).",
        "take such numbers from public information or from dp.Prepare, which pays for scales, levels and "
        "bounds once, and write the likelihood of a record from its own row (numbers by its place, as time "
        "since the first, are a column of data); an Op that acts on each record by itself can be named in "
        "trusted_ops=.",
    )


def refuse_derivative(op: object) -> ModelRefusedError:
    """Build the error for a derivative that PyTensor does not have."""
    return ModelRefusedError(
        f"PyTensor has no derivative of {op}",
        "what is released is made of first derivatives of each record's log-likelihood.",
        "use a step that needs none: DPPenaltyMH, DPBarker, DPFastMH.",
    )


def check_seen(touched: int) -> None:
    """Refuse a release if no record carries information about the parameters."""
    if touched < 1:
        raise ModelRefusedError(
            "No record's likelihood depends on a parameter.",
            "there is nothing to release: the budget would be spent for nothing.",
            "make the observed variable's distribution depend on a variable with a prior.",
        )


def refuse_steps(names: Sequence[str]) -> ModelRefusedError:
    """Build the error for parameters of which all derivatives are zero."""
    return ModelRefusedError(
        f"The likelihood depends on {', '.join(map(repr, names))} through comparisons alone, as in "
        "switch(t < tau, a, b).",
        "a release consists of first derivatives of each record's log-likelihood, and these are zero here: "
        "nothing would be learnt about the parameter, and whatever depends on it would be wrong.",
        "write a smooth step, pm.math.sigmoid((t - tau) / width) in place of t >= tau, with a width that is "
        "public. Or run a step method, as dp.sample(step=dp.DPPenaltyMH(...)).",
    )


def check_generative(unlike: Mapping[str, str]) -> None:
    """Refuse a release if outcomes of some observed variables cannot be drawn: with names and reasons."""
    for name, why in sorted(unlike.items()):
        if why == MOVES:
            raise ModelRefusedError(
                f"Of observed variable {name!r} {why}.",
                "the range of the outcomes is informative about that parameter, and not the derivatives of "
                "log-likelihoods, which are all that is released: the result would be wrong.",
                "take a distribution without a sharp bound, or a public bound. A step, as "
                "dp.sample(step=dp.DPPenaltyMH(...)), evaluates the likelihood as it is.",
            )
        if why == UNKNOWN:
            raise ModelRefusedError(
                f"Of observed variable {name!r} {why}.",
                "if it depends on the outcome, a record is unlike the outcomes that the model draws for it, "
                "and the result would be wrong. Supported is an upper bound of a vector of outcomes with a "
                "density, with lower=None and without effects of persons.",
                "give every record the bound that was planned for it, even if it was not reached.",
            )
        raise ModelRefusedError(
            f"No outcomes can be drawn for observed variable {name!r}: {why}.",
            "its records are compared with outcomes that the model itself draws; without these, clipping "
            "would bias the result by more than it says.",
            "give the distribution as pm.CustomDist(..., dist=function), made of PyMC's distributions; a "
            'function random= is taken with trusted_ops=["CustomDist_NAME"], if it draws each record by '
            "itself. Or run a step, as dp.sample(step=dp.DPPenaltyMH(...)).",
        )
