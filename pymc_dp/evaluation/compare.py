"""compare(): compare released posteriors by expected log predictive density, within a budget."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import ndtr
from xarray import DataTree

from pymc_dp.bounds import check_target
from pymc_dp.evaluation import differences
from pymc_dp.evaluation.differences import Total, total_of
from pymc_dp.evaluation.fitted import EvaluationFacts, evaluation_facts, fitted
from pymc_dp.privacy.budget.call import check_ledger
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.spending import Spending, cost_in_words
from pymc_dp.privacy.budget.words import warn_weak
from pymc_dp.records import gate, graph
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import guarded
from pymc_dp.records.units import unit_of


@dataclass(frozen=True, repr=False)
class Comparison:
    """Expected log predictive densities, in nats, with the noise of their release; print it.

    Attributes
    ----------
    reference : str
        Name of the model with which the others are compared.
    totals : dict of str to Total
        For the reference, its own density; for the others, the difference from the reference.
    n : int or None
        Number of records (persons); None where it is private.
    facts : dict
        Cost of the comparison, the privacy unit (row or person), and the number of draws used of each model.

    Notes
    -----
    **Privacy.** All of it is released: it may be published (docs/proofs/check).
    """

    reference: str
    totals: dict[str, Total]
    n: int | None
    facts: EvaluationFacts

    @property
    def table(self) -> pd.DataFrame:
        """Data frame with one row for each model, best first.

        Columns: `elpd` (of all records together, nats); `elpd_diff` (difference from the reference, positive
        if better); `dse` (standard error of the difference over data sets); `noise` (standard deviation of
        the noise that was added to the difference); `cut` (nats by which clipping may have changed it, in
        either direction); `p_better` (probability of being better than the reference, from all three);
        `clip_bound` (nats for each record), `clipped_above`, `clipped_below` (noisy numbers of records beyond
        it).
        """
        base = self.totals[self.reference]
        rows = {}
        for name, total in self.totals.items():
            if name == self.reference:
                different = (0.0, 0.0, 0.0, 0.0, math.nan)
            else:
                different = (total.sum, total.sampling, total.noise, total.cut, self.probability_better(name))
            rows[name] = (base.sum + different[0], *different, total.bound, total.above, total.below)
        columns = ["elpd", "elpd_diff", "dse", "noise", "cut", "p_better"]
        columns += ["clip_bound", "clipped_above", "clipped_below"]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
        return table.sort_values("elpd_diff", ascending=False)

    def probability_better(self, name: str) -> float:
        """Return the probability that a model is better than the reference, given the released numbers."""
        total = self.totals[name]
        return float(ndtr(total.sum / math.hypot(total.sampling, total.noise, total.cut)))

    @property
    def warnings(self) -> list[str]:
        """Sentences about records beyond the clip bound, which make the numbers less reliable."""
        said = []
        for name, total in self.totals.items():
            what = "elpd" if name == self.reference else "difference"
            for side, more, count in (("above", "larger", total.above), ("below", "smaller", total.below)):
                if count > total.hidden:
                    bound = total.bound if side == "above" else -total.bound
                    said.append(
                        f"{name}: about {count:.0f} records lie {side} {bound:g} nats and are counted with "
                        f"that: as far as they go, the {what} is {more} than shown."
                    )
        return said

    def __str__(self) -> str:
        shown = self.table.drop(columns=["clipped_above", "clipped_below"])
        lines = [
            "Comparison by expected log predictive density (nats; higher is better)",
            shown.to_string(float_format=lambda value: f"{value:.4g}"),
            f"Guarantee: {cost_in_words(self.facts, self.facts['unit'])}",
            *(f"Note: {sentence}" for sentence in self.warnings),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>Note: {sentence}</p>" for sentence in self.warnings)
        cost = cost_in_words(self.facts, self.facts["unit"])
        return f"{self.table.to_html(float_format='{:.4g}'.format)}<p>Guarantee: {cost}</p>{notes}"


def compare(
    models: Mapping[str, tuple[DataTree, pm.Model]],
    *,
    epsilon: float,
    delta: float | None = None,
    ledger: Ledger | None = None,
    reference: str | None = None,
    privacy_unit: object = None,
    draws: int = 400,
    label: str = "compare",
    debug_seed: int | None = None,
) -> Comparison:
    """Compare released posteriors by how well they predict a record, within a budget.

    Parameters
    ----------
    models : mapping of str to (DataTree, pymc.Model)
        Results of private sampling, each with the model that it was made with. All of the same records: row i
        of every array of every model is about record i.
    epsilon, delta : float
        Budget of this comparison. `delta` may be left out with a ledger.
    ledger : Ledger, optional
        Charged before a row is read. Without one, add the cost to that of the fits.
    reference : str, optional
        Name of the model with which the others are compared. Default: the first.
    privacy_unit : array_like, shape (n_rows,), or mapping, optional
        Ids of persons, as they were given for the fits. A person's rows are then one record.
    draws : int
        Largest number of draws of each posterior that are used, evenly spaced. More draws cost time, but no
        budget.
    label : str
        Name of the ledger's entry.
    debug_seed : int, optional
        Makes the noise reproducible, and the result not private.

    Returns
    -------
    Comparison

    Raises
    ------
    PrivacyError
        A result is not private, or is of another model; the models' observed values differ.
    PrivacyBudgetExceeded
        The comparison does not fit the ledger's remaining budget.
    TooFewRecordsError
        Noise hides the differences, or would hide them.
    ValueError
        The models differ in the number of records, in the observed variables, or in the neighbouring
        relation.

    Notes
    -----
    The score of a record is ``log mean_s p(y_i | theta_s) - var_s log p(y_i | theta_s)`` over the draws
    (WAIC, Watanabe 2010): an expected log predictive density, corrected for using the data twice. Differences
    of two models' scores are computed first and then clipped, at a bound that is chosen from a noisy
    histogram of them.

    **Privacy.** Released: for the reference's score and for each difference from it a histogram, a clipped
    sum and a sum of squares, with Gaussian noise; (epsilon, delta)-DP together (docs/proofs/check, Theorem
    1). The cost adds to that of the posteriors.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> y = np.random.default_rng(1).normal(0.5, 1, size=5_000)
    >>> fits = {}
    >>> for name, mean in [("free", None), ("zero", 0.0)]:
    ...     with pm.Model() as model:
    ...         mu = pm.Normal("mu", 0, 2) if mean is None else mean
    ...         sd = pm.HalfNormal("sd", 2)
    ...         _ = pm.Normal("y", mu, sd, observed=y)
    ...         idata = dp.sample(draws=100, epsilon=2, delta=1e-6, chains=1, quiet=True)
    ...     fits[name] = idata, model
    >>> dp.compare(fits, epsilon=1, delta=1e-6).table.index[0]
    'free'
    """
    if not models:
        raise ValueError("there is nothing to compare: models is a mapping of a name to (idata, model).")
    first = next(iter(models)) if reference is None else reference
    if first not in models:
        raise ValueError(f"reference={first!r} is none of {list(models)}.")
    check_ledger(ledger, unit=unit_of(privacy_unit)[0])
    check_target(epsilon, 0.5 if delta is None else delta)
    free = math.isinf(epsilon) or debug_seed is not None
    fits = {
        name: fitted(*models[name], draws, privacy_unit=privacy_unit, may_be_public=free)
        for name in [first, *(name for name in models if name != first)]
    }
    relation = _same(
        {name: fit.records.neighboring_relation for name, fit in fits.items()}, "neighbouring relation"
    )
    units = _same({name: fit.records.n for name, fit in fits.items()}, "number of records")
    _same({name: fit.records.n_rows for name, fit in fits.items()}, "number of rows")
    n = units if relation == "substitute" else None
    spending = Spending(epsilon, delta, shares(len(fits)), relation, ledger, label, debug_seed)
    warn_weak(spending.epsilon, spending.delta, n)
    for number in range(len(fits)):
        differences.check_enough(spending, n, number * len(differences.SHARES))
    for name in fits:
        _comparable(models[first][1], models[name][1])
    entry = spending.pay()
    observed = observed_values(models[first][1])
    base = log_scores(fits[first].records, fits[first].points)
    totals = {first: total_of(base, np.zeros(units, dtype=bool), spending, n)}
    for name, fit in fits.items():
        if name == first:
            continue
        scores = log_scores(fit.records, fit.points)
        difference = guarded(np.subtract, scores, base)
        void = differing(fit.records, observed, observed_values(models[name][1]))
        totals[name] = total_of(difference, void, spending, n)
    spending.confirm(entry)
    looked_at = {name: len(fit.points) for name, fit in fits.items()}
    return Comparison(first, totals, n, evaluation_facts(spending, privacy_unit, looked_at))


def shares(models: int) -> list[float]:
    """Return the shares of the budget of all releases, in their order."""
    # Share of the budget for the reference's own density: small, as the differences are the purpose.
    of_reference = 0.1
    own = 1.0 if models == 1 else of_reference
    each = [own, *[(1.0 - own) / (models - 1) for _ in range(models - 1)]]
    return [share * part for share in each for part in differences.SHARES]


def _same[T](values: Mapping[str, T], what: str) -> T:
    if len(set(values.values())) > 1:
        # Without the values: the number of rows is private under "add_remove", and where persons have
        # several.
        raise ValueError(f"The models have a different {what}: they are compared on the same records.")
    return next(iter(values.values()))


def _comparable(first: pm.Model, second: pm.Model) -> None:
    """Refuse models with different observed variables or shapes; both are public."""
    names, others = observed_shapes(first), observed_shapes(second)
    if len(names) != len(others) or (len(names) > 1 and set(names) != set(others)):
        raise ValueError(
            f"The models have other observed variables ({', '.join(names)}; {', '.join(others)}): log "
            "densities of different things are not compared."
        )
    for name, one, other in _pairs(names, others):
        known = [(x, y) for x, y in zip(one, other, strict=False) if None not in (x, y)]
        if len(one) != len(other) or any(x != y for x, y in known):
            raise ValueError(
                f"The observed values of {name!r} have different shapes for a record, {one[1:]} and "
                f"{other[1:]}: log densities of different things are not compared."
            )


def _pairs[T](first: Mapping[str, T], second: Mapping[str, T]) -> list[tuple[str, T, T]]:
    """Pair the two models' entries of each observed variable; if there is only one, names may differ."""
    names = zip(first, second, strict=True) if len(first) == 1 else ((name, name) for name in first)
    return [(a, first[a], second[b]) for a, b in names]


def log_scores(records: RecordModel, points: np.ndarray) -> np.ndarray:
    """Compute the expected log predictive density of each record, corrected for using it twice (WAIC).

    Parameters
    ----------
    records : RecordModel
    points : ndarray, shape (S, d)
        Released draws, S >= 2.

    Returns
    -------
    ndarray, shape (n,)
        ``log mean_s exp l_i(theta_s) - var_s l_i(theta_s)``, in nats. Minus infinity where the record's
        density is zero at a draw, infinity where a density is infinite, NaN where one is NaN. Private.

    Notes
    -----
    **Privacy.** Entry i depends on record i and the draws alone (docs/proofs/check, Lemma 1).
    """
    return guarded(_log_scores, records, points, what="The scores could not be computed")


def _log_scores(records: RecordModel, points: np.ndarray) -> np.ndarray:
    n = records.n
    total = np.full(n, -np.inf)
    mean, squares, infinite = np.zeros((3, n))
    for s, theta in enumerate(points, start=1):
        rows = records.full_batch.rows(theta)
        infinite += np.where(np.isfinite(rows), 0.0, rows)  # NaN if infinities of both signs, or NaN, occur
        rows = np.where(np.isfinite(rows), rows, 0.0)
        total = np.logaddexp(total, rows)
        step = rows - mean
        mean += step / s
        squares += step * (rows - mean)
    scores = total - np.log(len(points)) - squares / (len(points) - 1)
    return np.where(infinite == 0, scores, infinite)


def observed_shapes(model: pm.Model) -> dict[str, tuple[int | None, ...]]:
    """Return the shapes of the observed variables, which are public; None for a length that is not known."""
    values = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    return {
        name: np.shape(graph.leaf_value(value)) if value.owner is None else value.type.shape
        for name, value in values.items()
    }


def observed_values(model: pm.Model) -> dict[str, np.ndarray]:
    """Return the values of the observed variables, whose rows are those of the data. Private."""
    return {
        rv.name: guarded(gate.evaluate, model.rvs_to_values[rv], what="The observed values could not be read")
        for rv in model.observed_RVs
    }


def differing(
    records: RecordModel, first: dict[str, np.ndarray], second: dict[str, np.ndarray]
) -> np.ndarray:
    """Find units of which any observed value differs between two models: bool, shape (n,). Private.

    `first` and `second` have the same variables and shapes; one variable may have two names.
    """
    void = np.zeros(records.n_rows, dtype=bool)
    for _, a, b in _pairs(first, second):
        same = guarded(lambda a=a, b=b: (a == b) | ((a != a) & (b != b)))
        void |= ~same.reshape(len(same), -1).all(axis=1)
    if records.unit_of_row is None:
        return void
    return np.bincount(records.unit_of_row, weights=void, minlength=records.n) > 0
