"""check(): test, within a budget, whether the data look like the model's predictions."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.truncated import TruncatedRV
from pytensor.tensor.random.op import RandomVariable
from scipy.stats import chi2
from xarray import DataTree

from pymc_dp.bounds import check_count, check_target
from pymc_dp.errors import ModelRefusedError, TooFewRecordsError
from pymc_dp.evaluation.fitted import EvaluationFacts, evaluation_facts, fitted
from pymc_dp.privacy.budget.call import check_ledger
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.spending import Spending, cost_in_words
from pymc_dp.privacy.budget.words import warn_weak
from pymc_dp.privacy.mechanisms.randomness import ExactSum, histogram_sensitivity
from pymc_dp.records import graph
from pymc_dp.records.lengths import tables_of
from pymc_dp.records.model import RecordModel
from pymc_dp.records.several_tables import check_tables
from pymc_dp.records.sums import GRID, LARGEST_N, compiled, guarded
from pymc_dp.records.units import unit_of


class Pit(NamedTuple):
    """Distribution functions at the observed values, averaged over released draws. Private.

    Attributes
    ----------
    lower, upper : ndarray, shape (n_rows, k)
        ``mean_s F_s(y - 1)`` and ``mean_s F_s(y)`` for whole numbers; otherwise both are ``mean_s F_s(y)``.
    """

    lower: np.ndarray
    upper: np.ndarray


def distribution_functions(records: RecordModel, name: str) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Compile the distribution functions of an observed variable's rows at a point.

    Parameters
    ----------
    records : RecordModel
    name : str
        Name of the observed variable.

    Returns
    -------
    callable
        From a flat vector of parameters to [F(y)], or for whole numbers to [F(y), F(y - 1)].

    Raises
    ------
    ModelRefusedError
        The variable has no distribution function of which each row depends on one record.

    Notes
    -----
    **Privacy.** Derived like the log-likelihood: arrays of records are in shared variables, checks of values
    are removed, indices are kept within the tables that they index, and row i depends on record i alone, as
    the types of the graph's variables show.
    """
    opaque, reading = records.reading.opaque, records.reading
    rv, value = opaque.observed[name], opaque.values[opaque.observed[name]]
    if not isinstance(rv.owner.op, RandomVariable | TruncatedRV):
        raise _refusal(name, "is made of other distributions by PyMC, as a mixture or pm.Weibull is")
    whole = rv.type.dtype.startswith(("int", "uint", "bool"))
    try:
        with opaque.noting():
            cdfs = [pm.logcdf(rv, value)] + ([pm.logcdf(rv, pt.sub(value, 1))] if whole else [])
        flat = graph.flatten(opaque.on_values(cdfs))
        if reading.data.unknown(opaque, flat):
            raise ValueError("a function reads an array of its own")
    except ModelRefusedError:
        raise
    except Exception as error:
        raise _refusal(name, f"has no distribution function in PyMC ({type(error).__name__})") from None
    if not reading.are_rows(flat):
        raise _refusal(name, "has one that does not depend on one record a row")
    rows = [pm.math.exp(row) for row in records._on_vector(flat)]
    return compiled([records._theta], rows, records.compile_kwargs, private=reading.roots)


def pit_of(function: Callable[[np.ndarray], list[np.ndarray]], points: np.ndarray, n_rows: int) -> Pit:
    """Average the distribution functions over draws. Private."""

    def average() -> np.ndarray:
        found = (np.array([np.reshape(v, (n_rows, -1)) for v in function(theta)]) for theta in points)
        return sum(found, start=np.zeros(())) / len(points)

    mean = guarded(average, what="The distribution functions could not be computed")
    return Pit(mean[-1], mean[0])


def masses(pit: Pit, cells: int) -> np.ndarray:
    """Compute the mass of each row in each cell of [0, 1], in whole multiples of ``1 / GRID``.

    Returns
    -------
    ndarray of float, shape (n_rows, cells)
        Whole numbers, whose sum over a row is at most `GRID`. For a row with several entries, their mean, in
        which an invalid entry (such as NaN) counts as zero. Private.
    """
    edges = np.arange(cells + 1) / cells
    n_rows, entries = pit.upper.shape
    mass = np.zeros((n_rows, cells))
    for ends in zip(pit.lower.T, pit.upper.T, strict=True):
        valid = (ends[0] >= 0) & (ends[1] <= 1 + 1e-9) & (ends[0] <= ends[1])
        lower, upper = (np.where(valid, end, 0.0).clip(0, 1)[:, None] for end in ends)
        inside = np.clip(upper, edges[:-1], edges[1:]) - np.clip(lower, edges[:-1], edges[1:])
        narrow = upper - lower < 1e-9
        own = np.minimum((upper * cells).astype(np.int64), cells - 1) == np.arange(cells)
        part = np.where(narrow, own, inside / np.where(narrow, 1.0, upper - lower))
        mass += np.where(valid[:, None], part, 0.0)
    mass /= entries
    # Rounded down, so that no row's sum exceeds `GRID`, whatever the rounding errors of that sum are.
    total = np.maximum(mass.sum(axis=1, keepdims=True), 1.0)
    return np.floor(np.clip(mass / total * (1 - 2.0**-40), 0.0, 1.0) * GRID)


def counts_of(mass: np.ndarray, unit_of_row: np.ndarray | None, n: int) -> np.ndarray:
    """Sum the records' masses exactly, in units of ``1 / GRID``; a person's mass is the mean of her rows'."""
    if unit_of_row is not None:
        rows = np.bincount(unit_of_row, minlength=n)
        sums = np.stack([np.bincount(unit_of_row, weights=c, minlength=n) for c in mass.T], axis=1)
        mass = np.floor(sums / rows[:, None])
    return mass.astype(np.int64).sum(axis=0)


def _refusal(name: str, what: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"Observed variable {name!r} {what}.",
        "where a value lies in its predictive distribution is then not a number of that record alone.",
        "check another observed variable, var_name=; compare models by their densities, dp.compare.",
    )


@dataclass(frozen=True, repr=False)
class Check:
    """Noisy histogram of where observed values lie in their predictive distributions; print it.

    Attributes
    ----------
    variable : str
        Name of the observed variable.
    counts : ndarray, shape (m,)
        Noisy numbers of records in m equal cells of [0, 1]; all about the same if the model is right.
    noise : float
        Standard deviation of the noise of each count.
    n : int or None
        Number of records (persons) in the variable's table; None where it is private.
    whole : bool
        Whether the values are whole numbers. Each is then spread over the cells from F(y - 1) to F(y).
    facts : dict
        Cost of the check, the privacy unit (row or person), and the number of draws used.

    Notes
    -----
    **Privacy.** All of it is released: it may be published (docs/proofs/check).
    """

    variable: str
    counts: np.ndarray
    noise: float
    n: int | None
    whole: bool
    facts: EvaluationFacts

    @property
    def edges(self) -> np.ndarray:
        """Edges of the cells, shape (m + 1,)."""
        return np.linspace(0.0, 1.0, self.counts.size + 1)

    @property
    def expected(self) -> float:
        """Expected records in each cell if the model is right; from the noisy counts where n is private."""
        total = float(self.n) if self.n is not None else max(float(self.counts.sum()), 1.0)
        return total / self.counts.size

    @property
    def std(self) -> float:
        """Standard deviation of a count if the model is right: sampling of the records, and noise."""
        return math.sqrt(self.expected * (1 - 1 / self.counts.size) + self.noise**2)

    @property
    def p_value(self) -> float:
        """Probability of counts that differ by as much or more if the model is right."""
        residuals = self.counts - self.counts.mean()
        return float(chi2.sf(residuals @ residuals / (self.expected + self.noise**2), self.counts.size - 1))

    @property
    def largest(self) -> tuple[float, float]:
        """Largest departure of a count, as a share of the expected count, and its standard error."""
        residuals = (self.counts - self.expected) / self.expected
        return float(residuals[np.argmax(np.abs(residuals))]), self.std / self.expected

    def __str__(self) -> str:
        far, error = self.largest
        counts = ", ".join(f"{count:.0f}" for count in self.counts)
        return (
            f"Check of {self.variable}: where observed values lie in their predictive distributions\n"
            f"Records in {self.counts.size} equal cells of [0, 1]: {counts}\n"
            f"Expected {self.expected:.1f} in each if the model is right, +- {self.std:.1f} (noise "
            f"{self.noise:.1f})\n"
            f"p-value {self.p_value:.3g}; largest departure {far:+.0%} +- {error:.0%}\n"
            f"Guarantee: {cost_in_words(self.facts, self.facts['unit'])}"
        )

    __repr__ = __str__


def check(
    idata: DataTree,
    model: pm.Model,
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Ledger | None = None,
    var_name: str | None = None,
    privacy_unit: object = None,
    cells: int = 10,
    draws: int = 200,
    label: str = "check",
    debug_seed: int | None = None,
) -> Check:
    """Check a model against its data, by where each value lies in its predictive distribution.

    Parameters
    ----------
    idata : DataTree
        Result of private sampling.
    model : pymc.Model
        The model that it was made with.
    epsilon, delta : float
        Budget of this check. `delta` may be left out with a ledger.
    ledger : Ledger, optional
        Charged before a row is read. Without one, add the cost to that of the fit.
    var_name : str, optional
        Observed variable; needed if there are several.
    privacy_unit : array_like, shape (n_rows,), or mapping, optional
        Ids of persons, as they were given for the fit. A person counts as one record, spread over the cells
        of her rows.
    cells : int
        Number of cells of the histogram, 2 to 100. The noise of a cell does not depend on it.
    draws : int
        Largest number of draws that are used, evenly spaced. More draws cost time, but no budget.
    label : str
        Name of the ledger's entry.
    debug_seed : int, optional
        Makes the noise reproducible, and the result not private.

    Returns
    -------
    Check
        Plot it with `plot_check`.

    Raises
    ------
    PrivacyError
        The result is not private, or is of another model.
    ModelRefusedError
        The variable has no distribution function for each record (mixtures, censored or multivariate
        variables).
    PrivacyBudgetExceeded
        The check does not fit the ledger's remaining budget.
    TooFewRecordsError
        Noise would hide the counts.

    Notes
    -----
    Probability integral transform (Dawid 1984), for whole numbers without randomisation (Czado, Gneiting &
    Held 2009), averaged over the draws. In a U-shaped histogram predictions are too narrow, in a hump-shaped
    one too wide, in a sloping one shifted. A wrong model may still have a flat histogram: it averages over
    covariates, and shows little of an outcome of zeros and ones.

    **Privacy.** Released: counts with Gaussian noise, which one record moves by at most sqrt(2) in Euclidean
    norm (1 if added or removed): docs/proofs/check, Theorem 2. Its cost adds to that of the posterior.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> y = np.random.default_rng(1).uniform(-1, 1, size=20_000)
    >>> with pm.Model() as model:
    ...     sd = pm.HalfNormal("sd", 2)
    ...     _ = pm.Normal("y", pm.Normal("mu", 0, 2), sd, observed=y)
    ...     idata = dp.sample(draws=100, epsilon=2, delta=1e-6, chains=1, quiet=True)
    >>> dp.check(idata, model, epsilon=1, delta=1e-6).p_value < 1e-6
    True
    """
    check_ledger(ledger, unit=unit_of(privacy_unit)[0])
    check_count("cells", cells, 2)
    if cells > 100:
        raise ValueError(f"cells must be 2 to 100, got {cells!r}.")
    names = [rv.name for rv in model.observed_RVs]
    name = names[0] if var_name is None and len(names) == 1 else var_name
    if name is None or name not in names:
        raise ValueError(f"var_name must be one of the observed variables {names}, got {var_name!r}.")
    check_target(epsilon, 0.5 if delta is None else delta)
    free = math.isinf(epsilon) or debug_seed is not None
    groups = tables_of(model)
    check_tables(groups, privacy_unit)
    (table,) = [of_one for of_one in groups.values() if name in of_one]
    records, points = fitted(
        idata, model, draws, privacy_unit=privacy_unit, may_be_public=free, observed=table
    )
    if records.n > LARGEST_N:
        raise ValueError("more than 2**33 records: their sum would not be exact.")
    relation = records.neighboring_relation
    n = records.n if relation == "substitute" else None
    spending = Spending(epsilon, delta, [1.0], relation, ledger, label, debug_seed)
    warn_weak(spending.epsilon, spending.delta, n)
    noise = spending.noise(histogram_sensitivity(relation))
    if n is not None and n / cells < 2 * noise:
        raise TooFewRecordsError(
            f"{n} records in {cells} cells would be hidden by noise of {noise:.3g} in each. Nothing was "
            "spent. Take fewer cells, or a larger epsilon."
        )
    function = distribution_functions(records, name)
    entry = spending.pay()
    found = pit_of(function, points, records.n_rows)
    counts, noise = released_counts(found, cells, records.unit_of_row, records.n, spending)
    spending.confirm(entry)
    whole = records.reading.opaque.observed[name].type.dtype.startswith(("int", "uint", "bool"))
    return Check(name, counts, noise, n, whole, evaluation_facts(spending, privacy_unit, len(points)))


def released_counts(
    found: Pit, cells: int, unit_of_row: np.ndarray | None, n: int, spending: Spending
) -> tuple[np.ndarray, float]:
    """Release noisy counts, and return them with the standard deviation of their noise.

    Notes
    -----
    **Privacy.** The only release of a check: docs/proofs/check, Theorem 2.
    """
    total = counts_of(masses(found, cells), unit_of_row, n)
    return spending.release(ExactSum(total / GRID), histogram_sensitivity(spending.neighboring_relation))
