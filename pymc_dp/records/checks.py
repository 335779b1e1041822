"""Refusals: what in a PyMC model would make a private sampler leak or its guarantee wrong.

Every check raises `ModelRefusedError` with the variable, the reason and the fix, before anything is sampled.
The numerical checks evaluate the likelihood on the data in hand; they raise or they do not, and no
value they computed appears in a message.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
import pymc as pm
from pymc.distributions.distribution import PartialObservedRV
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.graph import axes_of_length, data_leaves, leaf_value

# Python thunks: no C compiler, no JIT. These functions are called a few times, on a few rows.
CHECK_MODE = Mode(linker="py", optimizer="fast_compile")

_OUTSIDE_GRAPH = (
    "A number that was computed from the data outside the graph cannot be detected: see docs/limits."
)


def supported(model: pm.Model) -> None:
    """Refuse models that cannot be records + parameters, from their declarations alone."""
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
            "pass the data with observed=..., or sample a prior with pm.sample_prior_predictive.",
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


def observed_term(name: str, ndim: int, shape: Sequence[int]) -> None:
    """Refuse an observed variable whose log-likelihood is not one number a record."""
    if ndim == 0 or len(shape) == 0:
        raise ModelRefusedError(
            f"The log-likelihood of observed variable {name!r} is a single number for all the data.",
            "it does not factorise over records (time series such as AR and GaussianRandomWalk are of this "
            "kind; so is "
            "one scalar observation): changing one record can change it without bound.",
            "use a likelihood of independent records, one row each; for several series, one row a series.",
        )
    if shape[0] == 0:
        raise ModelRefusedError(
            f"Observed variable {name!r} is empty.", "there are no records.", "pass observed data with rows."
        )
    if shape[0] == 1:
        raise ModelRefusedError(
            f"Observed variable {name!r} has one record.",
            "nothing about a single record can be released privately and be of use.",
            "records are rows: observed data of shape (n,) or (n, k), n of them on the first axis.",
        )


def same_records(lengths: dict[str, int]) -> None:
    """Refuse observed variables that do not share the record dimension."""
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r}: {length}" for name, length in lengths.items())
        raise ModelRefusedError(
            f"Observed variables have different lengths on their first axis ({listed}).",
            "which rows belong to one record, and so the sensitivity, is not defined.",
            "give them the same record dimension (one row a record in each); a person's several rows are "
            "joined "
            "with privacy_unit=.",
        )


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


def private_leaves(
    outputs: Iterable[Variable],
    sizes: Collection[int],
    roots: Collection[Variable],
    public: Collection[Variable],
) -> list[Variable]:
    """Data leaves in `outputs` that may hold records.

    One entry a row or a privacy unit, at least as many entries as there are rows (the records may be among
    them), or memory in common with the records.
    """
    rows = [leaf_value(root) for root in roots]

    def private(leaf: Variable) -> bool:
        value = np.asarray(leaf_value(leaf))
        return (
            any(length in sizes or length >= max(sizes) for length in value.shape)
            or (value.ndim > 0 and value.size >= max(sizes))
            or (value.ndim > 0 and any(np.may_share_memory(value, row) for row in rows))
        )

    return [leaf for leaf in data_leaves(outputs) if leaf not in public and private(leaf)]


def only_records_and_small_tables(others: Iterable[Variable], n_rows: int) -> None:
    """Refuse a likelihood that takes its records out of a longer array inside the graph."""
    for leaf in others:
        if any(length > n_rows for length in np.shape(leaf_value(leaf))):
            name = repr(leaf.name) if leaf.name else "an array"
            raise ModelRefusedError(
                f"The likelihood reads {name}, which is longer than the {n_rows} records.",
                "records may be among its entries (rows selected inside the graph), where what one of them "
                "does "
                "cannot be followed, and whatever else reads the array would store it exactly.",
                "select the rows outside the model; give the model one entry a record.",
            )


def no_unit_arrays(public: Iterable[Variable], units: int) -> None:
    """Refuse a likelihood that reads an array with one entry a privacy unit instead of one a row."""
    for leaf in public:
        if axes_of_length(leaf, units):
            name = repr(leaf.name) if leaf.name else "an array"
            raise ModelRefusedError(
                f"The likelihood reads {name} with {units} entries, one for each privacy unit.",
                "it is private, and only arrays with one entry a row are followed through the graph: what "
                "one unit "
                "does to it could not be bounded.",
                "give each row its unit's values (values[ids], outside the model); if it is not about the "
                "units, give "
                "it another length (drop a reference level, pad).",
            )


def nothing_else_reads_records(
    model: pm.Model,
    priors: dict[str, Variable],
    sizes: Collection[int],
    roots: Collection[Variable],
    public: Collection[Variable],
    exclude: Collection[str],
) -> None:
    """Refuse priors, Potentials and Deterministics that reach private rows."""
    potentials = {p.name for p in model.potentials}
    for name, term in priors.items():
        if private_leaves([term], sizes, roots, public):
            kind = "Potential" if name in potentials else "The prior of"
            raise ModelRefusedError(
                f"{kind} {name!r} reads an array with one entry a record.",
                "the prior is evaluated exactly, without clipping or noise, and would leak it.",
                "a factor of the likelihood belongs into an observed variable (pm.CustomDist); a prior must "
                "be chosen "
                f"without the data. {_OUTSIDE_GRAPH}",
            )
    known = {d.name for d in model.deterministics}
    unknown = set(exclude) - known
    if unknown:
        raise ValueError(f"exclude_deterministics names {sorted(unknown)}, which the model does not have.")
    for deterministic in model.deterministics:
        if deterministic.name in exclude:
            continue
        if private_leaves([deterministic], sizes, roots, public):
            raise ModelRefusedError(
                f"Deterministic {deterministic.name!r} reads an array with one entry a record.",
                "PyMC stores its exact value at every draw, from which the rows can be solved (mu / beta is "
                "X).",
                f"remove it (OrderedLogistic and its like: compute_p=False), or pass "
                f"exclude_deterministics=[{deterministic.name!r}] and publish only what dp.sample or "
                "dp.release returns. "
                f"{_OUTSIDE_GRAPH}",
            )


def no_per_record_latents(
    shapes: dict[str, tuple[int, ...]], sizes: Collection[int], units_moved_by: Callable[[str, int], int]
) -> None:
    """Refuse free variables that have an entry for each record, or for each privacy unit.

    Parameters
    ----------
    shapes : dict of str to tuple
        Shape of each free variable in value space.
    sizes : collection of int
        Numbers of rows and of privacy units.
    units_moved_by : callable
        ``units_moved_by(name, entry)``: of how many units does that entry of the flat variable change the
        log-likelihood?
    """
    for name, shape in shapes.items():
        if not any(size in sizes for size in shape):
            continue
        entries = int(np.prod(shape))
        if all(units_moved_by(name, entry) == 1 for entry in {0, entries // 2, entries - 1}):
            raise ModelRefusedError(
                f"Free variable {name!r} has one entry for each record.",
                "its draws would describe single records or persons, under coordinates that identify them.",
                "integrate the per-record variable out of the likelihood (for a normal random effect: a "
                "wider "
                "sigma), or share it between records.",
            )


def coupling(full: np.ndarray, part: np.ndarray, changed: Sequence[np.ndarray], record: int) -> str | None:
    """Say what is wrong with the claim that rows depend on their own record alone, or None.

    Parameters
    ----------
    full, part : ndarray, shape (b,)
        The same rows from the full graph and from the graph of those records only.
    changed : sequence of ndarray, shape (b,)
        `part` again after the record at position `record` was replaced.
    record : int
        Position of the replaced record.
    """
    if part.shape != full.shape:
        return "the rows of a few records cannot be computed from those records"
    if not np.allclose(part, full, rtol=1e-6, atol=1e-8, equal_nan=True):
        return "the log-likelihood of a row depends on which other records are in the data"
    if any(np.any(np.delete(differ(part, rows), record)) for rows in changed):
        return "replacing one record changes the log-likelihood of other records"
    return None


def differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Entries that are not the same, NaN being the same as NaN."""
    return ~((a == b) | (np.isnan(a) & np.isnan(b)))


def refuse_nowhere_finite() -> ModelRefusedError:
    """Build the error for a likelihood that is not finite near the initial point."""
    return ModelRefusedError(
        "The log-likelihood is not finite for any record that was tried near the initial point.",
        "the sampler could not move, and would spend its budget for nothing.",
        "check the initial point (initval=...), the support of the likelihood and the data types.",
    )


def refuse_coupled(reason: str) -> ModelRefusedError:
    """Build the error for a likelihood that does not factorise."""
    return ModelRefusedError(
        f"The log-likelihood does not factorise over records: {reason}.",
        "clipping a record's own term does not bound what that record does to the others' (a mean or "
        "maximum over the "
        "column inside the graph, a lagged value, an autoregression).",
        "compute such numbers beforehand from public information, and write the likelihood of a record from "
        "its own row.",
    )
