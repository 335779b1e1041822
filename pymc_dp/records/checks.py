"""Refusals: what in a PyMC model would make a private sampler leak or its guarantee wrong.

Every error names the variable, gives the reason and a fix. Checks use the graph, shapes and names only.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from weakref import WeakSet

import numpy as np
import pymc as pm
from pymc.distributions.distribution import PartialObservedRV
from pytensor.graph import Variable, ancestors
from pytensor.graph.type import HasShape
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Shape, Shape_i

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import gate
from pymc_dp.records.graph import data_leaves
from pymc_dp.records.row_types.ops import length_along

# Handler of a refusal: raises it, or collects it.
Refuse = Callable[[ModelRefusedError], None]


# An array without an axis of records that has more entries than this is public only if `public=` names it.
SMALL = 30
ALL_ROWS = (
    "give the model every row, one entry each: for censoring pm.Censored with every row's bound, reached or "
    "not, for other parts of the data a mask a row, as pt.switch(censored, log_survival, log_density) in "
    "a pm.CustomDist"
)

#: Bambi's name for the dimension of records; no other library uses it.
OBSERVATIONS = "__obs__"
_ACCEPTED: "WeakSet[pm.Model]" = WeakSet()


def accept_bambi(model: pm.Model) -> None:
    """Note that a Bambi model was made of public numbers alone."""
    _ACCEPTED.add(model)


def supported(model: pm.Model) -> None:
    """Refuse models that cannot be read as records and parameters, from their declarations alone."""
    if OBSERVATIONS in model.coords and model not in _ACCEPTED:
        raise ModelRefusedError(
            "The model was made by Bambi.",
            "its automatic priors, the centring of predictors and the levels of categories are computed from "
            "the data, and cannot be told from public numbers afterwards.",
            "pass dp.from_bambi(bambi_model), which builds it or names what reads the data; it leaves out p "
            "and mu, so that exclude_deterministics= is not needed.",
        )
    if not model.free_RVs:
        raise ModelRefusedError(
            "The model has no free variables.",
            "there is nothing to sample.",
            "give at least one parameter a prior.",
        )
    if not model.observed_RVs:
        raise ModelRefusedError(
            "The model has no observed variables.",
            "there are no records to protect, and the privacy accounting would be meaningless.",
            "pass the data with observed=... (data inside a pm.Potential: pm.CustomDist(..., logp=...), or "
            "pm.Censored), or sample a prior with pm.sample_prior_predictive.",
        )
    free_names = {rv.name for rv in model.free_RVs}
    for rv in model.basic_RVs:
        imputed = isinstance(rv.owner.op, PartialObservedRV)
        stem = (rv.name or "").removesuffix("_observed")
        if imputed or (stem != rv.name and f"{stem}_unobserved" in free_names):
            raise ModelRefusedError(
                f"Observed variable {stem!r} has missing values (NaN or masked).",
                "PyMC turns each missing value into a parameter of its own: a per-record latent variable, "
                "whose "
                "draws and whose number are about single records.",
                "drop or impute incomplete records by a rule that looks at one record only, or model "
                "missingness with "
                "an indicator column.",
            )
    for rv in model.free_RVs:
        if model.rvs_to_values[rv].dtype != "float64":
            raise ModelRefusedError(
                f"Free variable {rv.name!r} has type {model.rvs_to_values[rv].dtype}.",
                "these steps move in a continuous space, and the exact sums that bound the sensitivity need "
                "float64.",
                "marginalise a discrete variable out (pm.Mixture, or pymc_extras.marginalize); "
                "set pytensor.config.floatX to 'float64'.",
            )


def known_names(model: pm.Model, exclude: Collection[str]) -> None:
    """Raise ValueError if Deterministics are to be excluded that the model does not have."""
    if isinstance(exclude, str):
        raise ValueError(f"exclude_deterministics is a list of names: [{exclude!r}].")
    unknown = set(exclude) - {d.name for d in model.deterministics}
    if unknown:
        raise ValueError(f"exclude_deterministics names {sorted(unknown)}, which the model does not have.")


def observed_term(name: str, ndim: int, n_rows: int) -> None:
    """Refuse an observed variable whose log-likelihood is not one number a record."""
    if ndim == 0:
        raise _refuse_single(name)
    if n_rows == 0:
        raise ModelRefusedError(
            f"Observed variable {name!r} is empty.", "there are no records.", "pass observed data with rows."
        )
    if n_rows == 1:
        raise ModelRefusedError(
            f"Observed variable {name!r} has one record.",
            "nothing about a single record can be released privately and be of use.",
            "records are rows: observed data of shape (n,) or (n, k), n of them on the first axis.",
        )


def _refuse_single(name: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"The log-likelihood of observed variable {name!r} is a single number for all the data.",
        "it does not factorise over records (time series such as AR and GaussianRandomWalk are of this kind; "
        "so is one scalar observation): changing one record can change it without bound.",
        "use a likelihood of independent records, one row each; for several series, one row a series.",
    )


def same_records(lengths: Mapping[str, int | None]) -> int:
    """Return the number of records of the observed variables, which must share it."""
    for name, length in lengths.items():
        if length is None:
            raise _refuse_single(name)
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r}: {length}" for name, length in lengths.items())
        names, sizes = list(lengths), list(lengths.values())
        raise ModelRefusedError(
            f"Observed variables have different lengths on their first axis ({listed}).",
            "these are several tables of records, and here one is taken (dp.release_likelihood and "
            "dp.sample(epsilon=...) take several); which rows of two belong to one record is not known.",
            "if these are groups of persons (A and B), use the long format, one row a person: "
            f"value = np.concatenate([{', '.join(names)}]); "
            f"group = np.repeat({list(range(len(names)))}, {sizes}); then one observed variable of all, as "
            'pm.Normal("value", mu[group], sigma[group], observed=value). If they are '
            "about the same persons, give each one row a person; several rows of one person are "
            "joined with privacy_unit=.",
        )
    return int(next(iter(lengths.values())) or 0)


def length_from_shapes(name: str | None, value: Variable) -> int:
    """Return the length of the first axis of an expression, from the shapes of arrays alone."""
    if value.type.shape[0] is not None:
        return int(value.type.shape[0])
    length = length_along(value, 0)
    nodes = [v.owner for v in ancestors([length]) if v.owner is not None]
    by_value = {i for node in nodes if not isinstance(node.op, Shape | Shape_i) for i in node.inputs}
    arrays = (v for v in data_leaves([length]) if isinstance(v.type, HasShape) and v.type.ndim)
    if any(v in by_value for v in arrays):
        raise ModelRefusedError(
            f"The number of records of observed variable {name!r} is computed from their values.",
            "how many records are selected inside the graph depends on what is in them.",
            f"{ALL_ROWS}.",
        )
    return int(gate.evaluate(length))


def deterministic_likelihood(name: str, term: Variable) -> None:
    """Refuse a log-likelihood that draws random numbers."""
    for variable in ancestors([term]):
        if variable.owner is not None and isinstance(variable.owner.op, RandomVariable):
            raise ModelRefusedError(
                f"The likelihood of observed variable {name!r} draws random numbers (pm.Minibatch, "
                "pm.Simulator).",
                "PyMC would draw them with its own, reproducible generator, and the accounting would not "
                "know it.",
                "give the model all the data and a likelihood with a density; a step that works on batches "
                "draws them itself.",
            )


def public_arrays(
    shapes: Mapping[str, Sequence[int]], n_rows: int, units: int, private: Collection[int], refuse: Refuse
) -> None:
    """Refuse arrays without an axis of records, unless they are small and have no size of such an array.

    `private` has the sizes of arrays of records. A single refusal lists all arrays that `public=` must name.
    """
    asked = {}
    for label, shape in shapes.items():
        if units != n_rows and units in shape:
            refuse(
                ModelRefusedError(
                    f"The model reads {label!r} with {units} entries, one for each privacy unit.",
                    "it is private, and only arrays with one entry a row are followed through the graph: "
                    "what one unit does to it could not be bounded.",
                    "give each row its unit's values (values[ids], outside the model); if it is not about "
                    f"the units, say so: public=[{label!r}].",
                )
            )
        elif (what := _size_in_words(shape, n_rows, private)) is not None:
            asked[label] = f"{label!r}{what}, in shape {tuple(shape)}"
    if not asked:
        return
    refuse(
        ModelRefusedError(
            f"The model reads {'; and '.join(asked.values())}.",
            "it would be taken as public, and its entries may be of records, in another shape, chosen inside "
            "the graph, or a part of the table (y[censored] beside y[~censored]): what they do would reach "
            "the draws without clipping and noise.",
            f"if it holds no record (knots, weights of neighbours, numbers of groups), say so: "
            f"public={list(asked)!r}. If it does: {ALL_ROWS}.",
        )
    )


def _size_in_words(shape: Sequence[int], n_rows: int, private: Collection[int]) -> str | None:
    """Describe why an array of this shape may hold records; None if it may be taken as public."""
    size = int(np.prod(shape, dtype=np.int64))
    if any(length > n_rows for length in shape):
        return f", longer than the {n_rows} records"
    if size == n_rows or size in private:
        return f" with {size} entries, as many as an array of the {n_rows} records has"
    if size > SMALL:
        return f" with {size} entries, which are not one for each of the {n_rows} records"
    return None


def check_start(point: Mapping[str, np.ndarray]) -> None:
    """Refuse a starting point with an entry that is not finite; it is public, and so is this refusal.

    Raises
    ------
    ValueError
        With the names of the variables.
    """
    bad = [name for name, value in point.items() if not np.all(np.isfinite(value))]
    if bad:
        raise ValueError(
            f"The starting value of {', '.join(bad)} is not finite.\n"
            "  Why this is refused: nothing can leave such a point. No row was read, no ledger charged.\n"
            "  How to fix it: give finite initial values (initval=, initvals=) within each variable's "
            "support (sigma_log__ is not finite where sigma is negative), and make a new step if there was "
            "one."
        )
