"""The test of the fit: noisy counts of records by their places among their twins."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import stats

from pymc_dp.likelihood.centre import compiled, length_of
from pymc_dp.likelihood.mixtures import Message, Normal, symmetric
from pymc_dp.privacy.budget.known import Fit
from pymc_dp.privacy.mechanisms.randomness import histogram_sensitivity
from pymc_dp.records.twins import Chunk, TermScores

# Numba's cache sees no change of what is compiled in: 07c8eda0f1dc04db (centre.py).
#: Number of twins of each record in this test. With the record's own outcome there are twenty points, so that
#: the farthest one is the outermost twentieth.
FIT_TWINS = 19
# Upper ends of the cells of places, except for the last one, which ends at 1: the nearer half of the
# records is in the first cell, and the outermost twentieth in the last.
_ENDS = np.array([0.5, 0.8, 0.95])
# Fraction of the records that is in each cell if the model is right.
_EXPECTED = np.diff(np.concatenate([[0.0], _ENDS, [1.0]]))
#: Number of cells.
CELLS = len(_EXPECTED)


class Spread(NamedTuple):
    """Noisy counts of records by their places among their twins.

    Attributes
    ----------
    counts : ndarray, shape (CELLS,)
    noise : float
        Standard deviation of each count's noise.
    """

    counts: np.ndarray
    noise: float


def share_of_fit(n: float, mu: float, neighboring_relation: str) -> float:
    """Return the share of the budget for these counts, from public numbers; 0 if they would show nothing.

    Parameters
    ----------
    n : float
        Public number of records, exact or approximate.
    mu : float
        Gaussian differential privacy of the whole budget.
    neighboring_relation : {"substitute", "add_remove"}
    """
    sensitivity = histogram_sensitivity(neighboring_relation)
    # The share of the budget is chosen such that the noise of a count has this standard deviation, relative
    # to the number of records.
    noise = 0.01
    # Least share of the budget for these counts.
    least = 0.001
    # Largest share of the budget for these counts.
    most = 0.025
    share = min(max((sensitivity / (mu * noise * n)) ** 2, least), most)
    # Counts are not released if their noise would be more than this fraction of the records.
    too_much = 0.06
    return share if sensitivity / (mu * math.sqrt(share)) <= too_much * n else 0.0


@np.errstate(all="ignore")
def count_places(chunk: Chunk, metric: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Count the records of a chunk by their places among their twins.

    Parameters
    ----------
    chunk : Chunk
    metric : ndarray, shape (p, p)
        Distances are the norms of scores in it.
    random : numpy.random.Generator
        Secret.

    Returns
    -------
    ndarray, shape (CELLS,)

    Notes
    -----
    The place of a record is the part of its group whose scores are shorter than its own, plus a uniformly
    drawn part of those that are equally long. It is uniform on (0, 1) if the record is exchangeable with
    its twins, or if the outcome has the probabilities of the group. Of several terms only one is tested,
    which is drawn independently of the data.

    For a unit with several rows, one of two tests is chosen at random. Either one row is tested, whose
    number is also drawn independently of the data (a unit with fewer rows counts nowhere), or the agreement
    of all rows: see `_find_together`.

    **Privacy.** A unit adds 1 to one cell, or nothing where a number is not finite.
    """
    m = len(chunk.terms[0].own)
    first = np.arange(m) if chunk.first is None else chunk.first
    units, at, together = len(first), first, np.zeros(len(first), dtype=bool)
    looked_at = np.floor(random.random(units) * len(chunk.terms)).astype(int)
    # The agreement of rows is tested in this fraction of the units with several rows: a missing effect of
    # persons is the likeliest fault of such a model.
    of_agreement = 0.75
    # Of a unit with several rows, the row that is tested is drawn from the geometric distribution with this
    # probability: it is the third on average, so that four of ten units of three rows count nowhere, and one
    # of ten units of six.
    stop = 1 / 3
    if chunk.first is not None:
        at = first + random.geometric(stop, units) - 1
        at[at >= np.append(first[1:], m)] = -1
        together = random.random(units) < of_agreement
    counts = np.zeros(CELLS)
    for k, term in enumerate(chunk.terms):
        place = _written_by(_find_places, term, metric, units, random.random(units), at)
        if together.any():
            # A place by the agreement Q of rows is in the outer half with probability (1 + Q) / 2.
            agreement = _written_by(_find_together, term, metric, units, np.append(first, m))
            outer = random.random(units) < (1 + agreement) / 2
            by_rows = (outer + random.random(units)) / 2
            place[together] = np.where(np.isnan(agreement), np.nan, by_rows)[together]
        seen = np.isfinite(place) & (looked_at == k)
        counts += np.bincount(np.searchsorted(_ENDS, place[seen], side="right"), minlength=CELLS)
    return counts


def _written_by(
    find: Callable[..., None], term: TermScores, metric: np.ndarray, units: int, *arguments: np.ndarray
) -> np.ndarray:
    """Return what a compiled function writes for each unit, shape (units,); NaN where there is nothing."""
    found = np.full(units, np.nan)
    if len(term.group):
        own, group = (np.asarray(scores, dtype=np.float64) for scores in (term.own, term.group))
        weights = np.full((1, 1), 1 / len(group)) if term.weights is None else np.asarray(term.weights)
        find(own, group, weights, term.rows(metric), *arguments, found)
    return found


@compiled
def _find_places(own, group, weights, rows, uniform, at, out):
    """Write each row's place into (units,); NaN where a number is not finite, or there is no such row."""
    number, m, k = group.shape
    gram = np.zeros((k, k))
    # Distances with a relative difference of less than this are taken to be equal: those of the same outcome.
    tie = 1e-9
    for unit in range(len(at)):
        i = at[unit]
        if i < 0:
            continue
        row = i if rows.shape[1] == m else 0
        gram[:] = 0.0
        for a in range(k):
            for b in range(k):
                for e in range(rows.shape[2]):
                    gram[a, b] += rows[a, row, e] * rows[b, row, e]
        mine = length_of(own[i], gram)
        place = 0.0
        for j in range(number):
            weight = weights[0, 0] if weights.size == 1 else weights[j, i]
            length = length_of(group[j, i], gram)
            if not (math.isfinite(length) and math.isfinite(weight) and weight >= 0):
                place = np.nan
            if abs(length - mine) <= tie * mine:
                place += uniform[unit] * weight
            elif length < mine:
                place += weight
        out[unit] = place if math.isfinite(mine) else np.nan


@compiled
def _find_together(own, group, weights, rows, first, out):
    """Write into (units,) the agreement of each unit's rows: from -1 to 1, of mean zero in a right model.

    Each row adds the inner product of its score with the sum of the scores before, less the mean of these
    products over its group. The product is scaled to the standard deviation `pull`, or less: such that no
    point of the group would lead beyond -1 or 1.
    """
    number, m, k = group.shape
    before, along, products = np.zeros(rows.shape[2]), np.zeros(k), np.zeros(number)
    # The agreement of a unit's rows is a sum with one term for each row: the largest standard deviation of a
    # term.
    pull = 0.4
    for unit in range(len(first) - 1):
        before[:] = 0.0
        q = 0.0
        for i in range(first[unit], first[unit + 1]):
            row = i if rows.shape[1] == m else 0
            along[:] = 0.0
            mine, mean, square = 0.0, 0.0, 0.0
            for a in range(k):
                for e in range(rows.shape[2]):
                    along[a] += before[e] * rows[a, row, e]
                mine += own[i, a] * along[a]
            for j in range(number):
                weight = weights[0, 0] if weights.size == 1 else weights[j, i]
                products[j] = 0.0
                for a in range(k):
                    products[j] += group[j, i, a] * along[a]
                mean += weight * products[j]
                square += weight * products[j] * products[j]
            low, high = mine, mine
            for product in products:
                low, high = min(low, product), max(high, product)
            low, high = low - mean, high - mean
            if not (math.isfinite(square) and math.isfinite(low) and math.isfinite(high)):
                continue
            variance = square - mean * mean
            if low < 0 < high and variance > 1e-12 * square:
                scale = min(pull / math.sqrt(variance), (1 - q) / high, (1 + q) / -low)
                q = min(max(q + scale * (mine - mean), -1.0), 1.0)
            for e in range(rows.shape[2]):
                for a in range(k):
                    before[e] += own[i, a] * rows[a, row, e]
        out[unit] = q


def where_to_look(
    message: Message, information: np.ndarray, prior: Normal
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return the point and the metric of the test, and how far the point may be from the true parameters.

    Parameters
    ----------
    message : Message
        The released likelihood.
    information : ndarray, shape (p, p)
        Estimated information of the records without privacy.
    prior : Normal

    Returns
    -------
    mean : ndarray, shape (p,)
        The posterior mean, in the released coordinates.
    metric : ndarray, shape (p, p)
        A score s has the norm ``(s' V s)^1/2``, with the posterior covariance V.
    wider : ndarray, shape (p,)
    hardly : float
        See `judge_fit`.

    Raises
    ------
    LinAlgError
        The posterior covariance has numbers that are not finite.

    Notes
    -----
    **Privacy.** Functions of what was released.
    """
    mean, covariance = message.moments(prior)
    unit = np.sqrt(np.diag(covariance))  # parameters may have any scale
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    root = unit[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    wider = np.maximum(np.linalg.eigvalsh(root.T @ symmetric(information) @ root), 0.0)
    left = np.linalg.eigvalsh(root.T @ prior.precision @ root)
    # A direction of the parameters is hardly known if its posterior variance is more than this fraction of
    # its prior variance: the error of the point in that direction is not known either.
    most_of_prior = 0.5
    return mean, root.T, wider, float(np.mean(left > most_of_prior))


def judge_fit(found: Spread | None, wider: np.ndarray | None = None, hardly: float = 0.0) -> Fit:
    """Test the model by the counts.

    Parameters
    ----------
    found : Spread, optional
        Default: nothing was counted.
    wider : ndarray, shape (p,), optional
        Variances of the parameters at which places were taken, over those without privacy, in orthogonal
        directions: counts differ from the expected ones if parameters do, even though the model is right.
    hardly : float
        Fraction of these directions in which the posterior is hardly narrower than the prior.

    Returns
    -------
    Fit
        `said`, in words; `tail`, the number of records in the model's outermost twentieth, over the number
        that is expected there, with `error`, its standard deviation if the model is right; `p_value`, of all
        counts together. None where nothing is known.

    Notes
    -----
    Let ``D`` be the counts less their sum times the expected fractions. If the model is right, the
    covariance of ``D`` is that of the noise plus at most ``n f`` times that of one record's cell. The
    factor ``f`` is the sum of ``max wider``, which allows for errors of the parameters to first order (by
    Cauchy and Schwarz, the most by which a linear function of n scores moves counts), and of allowances for
    errors of second order, for misfits that are too small to be reported, and for directions that are
    hardly known.

    **Privacy.** Post-processing.
    """
    total = 0.0 if found is None else float(found.counts.sum())
    # The model is tested only if the sum of all counts is beyond this many standard deviations of its noise.
    stands_out = 4.0
    if found is None or wider is None or total <= stands_out * found.noise * math.sqrt(CELLS):
        return {"said": "not tested", "tail": None, "error": None, "p_value": None}
    away = np.eye(CELLS) - _EXPECTED[:, None]
    # One cell is left out, since the differences add up to zero.
    differences = (away @ found.counts)[1:]
    # Parameters with errors of w standard deviations move about this times sum w^2 records, to second order.
    by_parameters = 0.5
    # A model is not reported as wrong for differences this small (for the outermost cell .01 / sqrt(.05),
    # or 4%, of its records).
    too_small = 0.01
    # The part of the records that an error of the point may move to another cell is this times the part of
    # the directions that are hardly known.
    elsewhere = 0.5
    off = total * (too_small**2 + (elsewhere * hardly) ** 2) + (by_parameters * wider.sum()) ** 2 / total
    one = np.diag(_EXPECTED) - np.outer(_EXPECTED, _EXPECTED)
    covariance = found.noise**2 * away @ away.T + total * (max(wider.max(), 1.0) + off) * one
    covariance = covariance[1:, 1:]
    p_value = float(stats.chi2.sf(differences @ np.linalg.solve(covariance, differences), CELLS - 1))
    expected = _EXPECTED[-1] * total
    tail, error = 1 + differences[-1] / expected, math.sqrt(covariance[-1, -1]) / expected
    return {
        "said": _in_words(p_value, tail, error),
        "tail": float(max(tail, 0.0)),
        "error": float(error),
        "p_value": p_value,
    }


def _in_words(p_value: float, tail: float, error: float) -> str:
    # Largest probability with which a right model is reported as wrong.
    level = 0.01
    if p_value >= level:
        return "outcomes are spread as the model says, as far as can be told"
    beyond = f"{max(tail, 0.0):.2g} times as many as expected are beyond its 5% tails"
    if tail > 1 + error:
        return (
            f"records lie further out than the model says: {beyond}; consider NegativeBinomial for Poisson, "
            "StudentT for Normal, a covariate that is missing, or an effect for each person"
        )
    if tail < 1 - error:
        return f"records lie closer in than the model says: {beyond}"
    return f"outcomes are not spread as the model says, though {beyond}"
