"""Scores of records under released draws: each a function of one record and of public numbers."""

import numpy as np
import pymc as pm

from pymc_dp.records import gate, graph
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import guarded


def log_scores(records: RecordModel, points: np.ndarray) -> np.ndarray:
    """Expected log predictive density of each record, corrected for using it twice (WAIC).

    Parameters
    ----------
    records : RecordModel
    points : ndarray, shape (S, d)
        Released draws, S >= 2.

    Returns
    -------
    ndarray, shape (n,)
        ``log mean_s exp l_i(theta_s) - var_s l_i(theta_s)``, in nats. Minus infinity where a draw rules the
        record out, infinity where a density is infinite, NaN where one is not a number. Private.

    Notes
    -----
    **Privacy.** Entry i depends on record i and the draws alone (docs/proofs/check, Lemma 1).
    """
    return guarded(_log_scores, records, points, what="The scores could not be computed")


def _log_scores(records: RecordModel, points: np.ndarray) -> np.ndarray:
    n = records.n
    top, total = np.full(n, -np.inf), np.zeros(n)
    mean, squares = np.zeros(n), np.zeros(n)
    lowest, highest, invalid = (np.zeros(n, dtype=bool) for _ in range(3))
    for s, theta in enumerate(points, start=1):
        rows = records.full_batch.rows(theta)
        lowest |= rows == -np.inf
        highest |= rows == np.inf
        invalid |= np.isnan(rows)
        rows = np.where(np.isfinite(rows), rows, 0.0)
        larger = np.maximum(top, rows)
        total = total * np.exp(top - larger) + np.exp(rows - larger)
        top = larger
        step = rows - mean
        mean += step / s
        squares += step * (rows - mean)
    scores = top + np.log(total / len(points)) - squares / (len(points) - 1)
    scores = np.where(lowest, -np.inf, np.where(highest, np.inf, scores))
    return np.where(invalid | (lowest & highest), np.nan, scores)


def observed_shapes(model: pm.Model) -> dict[str, tuple[int | None, ...]]:
    """Shapes of the observed values by variable, which are public; None where a graph computes them."""
    values = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    return {
        name: np.shape(graph.leaf_value(value)) if value.owner is None else value.type.shape
        for name, value in values.items()
    }


def observed_values(model: pm.Model) -> dict[str, np.ndarray]:
    """Observed values by variable, one row a row of the data. Private."""
    values = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    return {
        name: guarded(lambda value=value: gate.evaluate(value), what="The observed values could not be read")
        for name, value in values.items()
    }


def differing(
    records: RecordModel, first: dict[str, np.ndarray], second: dict[str, np.ndarray]
) -> np.ndarray:
    """Whether any of a unit's observed values differ between two models, shape (n,). Private.

    `first` and `second` have the same variables and shapes; one variable may have two names.
    """
    names = zip(first, second, strict=True) if len(first) == 1 else ((name, name) for name in first)
    pairs = [(first[a], second[b]) for a, b in names]
    void = np.zeros(records.n_rows, dtype=bool)
    for a, b in pairs:
        same = guarded(lambda a=a, b=b: (a == b) | ((a != a) & (b != b)))
        void |= ~same.reshape(len(same), -1).all(axis=1)
    if records.unit_of_row is None:
        return void
    return np.bincount(records.unit_of_row, weights=void, minlength=records.n) > 0
