"""Whether outcomes are spread as the model says: places of records among their twins, counted with noise."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from pymc_dp.likelihood.centre import compiled, length_of
from pymc_dp.likelihood.mixtures import Message, Normal, inverse, symmetric
from pymc_dp.privacy.budget.known import Fit
from pymc_dp.privacy.mechanisms.randomness import histogram_sensitivity
from pymc_dp.records.twins import Chunk, TermScores

# Numba's cache sees no change of what is compiled in: 138c25a3a582ad09 (centre.py).
#: Twins of each record here: with its own outcome twenty, so that the farthest is the outermost twentieth.
FIT_TWINS = 19
# Upper ends of the cells of places, but for the last; and the part of the records that the model says are in
# each: the nearer half, and on to the outermost twentieth.
_ENDS = np.array([0.5, 0.8, 0.95])
_EXPECTED = np.diff(np.concatenate([[0.0], _ENDS, [1.0]]))
#: Number of cells.
CELLS = len(_EXPECTED)
# Counts have noise of so much of the records,
_NOISE = 0.01
# where that costs at least
_LEAST = 0.001
# and at most so much of the budget.
_MOST = 0.025
# Counts with noise of more than this of the records are not released.
_TOO_MUCH = 0.06
# Counts say something where their sum is beyond so many standard deviations of its noise.
_STANDS_OUT = 4.0
# A direction is hardly known where more than this is left of the prior's variance: how far off the point is
# there is not known either.
_HARDLY = 0.5
# This, times the part of the directions that are hardly known, is the part of the records that may then be in
# another cell.
_ELSEWHERE = 0.5
# Distances that differ by less, relatively, are those of one outcome.
_TIE = 1e-9
# Of a unit with several rows the one that is looked at comes after each with this probability: the third on
# average, so that four of ten units of three rows count nothing, and one of ten of six.
_LAST = 1 / 3
# What a row adds to how far the rows of a unit go together, in standard deviations of its own.
_PULL = 0.4
# Whether they go together is looked at in this part of the units with several rows: a missing effect of
# persons is the likeliest fault of such a model.
_TOGETHER = 0.75


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
    """Part of the budget for these counts, from public numbers; 0 where they would show nothing.

    Parameters
    ----------
    n : float
        Number of records, or about that.
    mu : float
        Of the whole budget.
    neighboring_relation : {"substitute", "add_remove"}
    """
    sensitivity = histogram_sensitivity(neighboring_relation)
    share = min(max((sensitivity / (mu * _NOISE * n)) ** 2, _LEAST), _MOST)
    return share if sensitivity / (mu * math.sqrt(share)) <= _TOO_MUCH * n else 0.0


@np.errstate(all="ignore")
def count_places(chunk: Chunk, metric: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Counts of how far out records are among their twins: what one pass adds.

    Parameters
    ----------
    chunk : Chunk
    metric : ndarray, shape (p, p)
        Distances are norms of scores in it.
    random : numpy.random.Generator
        Secret.

    Returns
    -------
    ndarray, shape (CELLS,)

    Notes
    -----
    The place of a record is the part of the group that is not as far out, with a uniform part of those that
    are as far: uniform on (0, 1) where the record is exchangeable with its twins, or has the probabilities of
    all outcomes. Of several terms one is looked at, which is drawn without looking.

    Of a unit with several rows either one is looked at, whose number is drawn without looking as well (a unit
    that has fewer counts nothing), or whether they go together: see `_find_together`.

    **Privacy.** A unit adds 1 to one cell, or nothing where a number is not finite.
    """
    m = len(chunk.terms[0].own)
    first = np.arange(m) if chunk.first is None else chunk.first
    units, at, together = len(first), first, np.zeros(len(first), dtype=bool)
    looked_at = np.floor(random.random(units) * len(chunk.terms)).astype(int)
    if chunk.first is not None:
        at = first + random.geometric(_LAST, units) - 1
        at[at >= np.append(first[1:], m)] = -1
        together = random.random(units) < _TOGETHER
    counts = np.zeros(CELLS)
    for k, term in enumerate(chunk.terms):
        place = _places(term, metric, random.random(units), at)
        if together.any():
            place[together] = _of_together(term, metric, random, first)[together]
        seen = np.isfinite(place) & (looked_at == k)
        counts += np.bincount(np.searchsorted(_ENDS, place[seen], side="right"), minlength=CELLS)
    return counts


def _compared(term: TermScores) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Own scores, those of the group, and weights of these."""
    group = np.asarray(term.group, dtype=np.float64)
    weights = np.full((1, 1), 1 / len(group)) if term.weights is None else np.asarray(term.weights)
    return np.asarray(term.own, dtype=np.float64), group, weights


def _places(term: TermScores, metric: np.ndarray, uniform: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Places of these rows among their twins; NaN where there is none."""
    found = np.full(len(at), np.nan)
    if len(term.group):
        _find_places(*_compared(term), term.rows(metric), uniform, at, found)
    return found


def _of_together(
    term: TermScores, metric: np.ndarray, random: np.random.Generator, first: np.ndarray
) -> np.ndarray:
    """Places, in the outer half the likelier the more rows of a unit go together; NaN where there is none."""
    found = np.full(len(first), np.nan)
    if len(term.group):
        _find_together(*_compared(term), term.rows(metric), np.append(first, len(term.own)), found)
    outer = random.random(len(first)) < (1 + found) / 2
    return np.where(np.isnan(found), np.nan, (outer + random.random(len(first))) / 2)


@compiled
def _find_places(own, group, weights, rows, uniform, at, out):
    """Put each row's place into (units,); NaN where a number is not finite, or there is no such row."""
    number, m, k = group.shape
    gram = np.zeros((k, k))
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
            if abs(length - mine) <= _TIE * mine:
                place += uniform[unit] * weight
            elif length < mine:
                place += weight
        out[unit] = place if math.isfinite(mine) else np.nan


@compiled
def _find_together(own, group, weights, rows, first, out):
    """Put into (units,) how far the rows of each go together: from -1 to 1, zero on average.

    Each row adds the product of its score with the sum of those before, less the mean of these products of
    its group: in its standard deviations, and by as much that no point of the group leads beyond -1 or 1.
    """
    number, m, k = group.shape
    before, along, products = np.zeros(rows.shape[2]), np.zeros(k), np.zeros(number)
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
                scale = min(_PULL / math.sqrt(variance), (1 - q) / high, (1 + q) / -low)
                q = min(max(q + scale * (mine - mean), -1.0), 1.0)
            for e in range(rows.shape[2]):
                for a in range(k):
                    before[e] += own[i, a] * rows[a, row, e]
        out[unit] = q


def where_to_look(
    message: Message, information: np.ndarray, prior: Normal
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """The posterior's mean, in which metric scores are looked at there, and how far off it may be.

    Parameters
    ----------
    message : Message
        What was found.
    information : ndarray, shape (p, p)
        What records tell without privacy.
    prior : Normal

    Returns
    -------
    mean : ndarray, shape (p,)
        In the released coordinates.
    metric : ndarray, shape (p, p)
        A score has the norm ``(s' V s)^1/2``, V the posterior's covariance.
    wider : ndarray, shape (p,)
    hardly : float
        See `judge_fit`.

    Raises
    ------
    LinAlgError
        What was found is no matrix of finite numbers.

    Notes
    -----
    **Privacy.** Functions of what was released.
    """
    covariance = inverse(message.information + prior.precision)
    unit = np.sqrt(np.diag(covariance))  # parameters may have any scale
    values, vectors = np.linalg.eigh(covariance / np.outer(unit, unit))
    root = unit[:, None] * vectors * np.sqrt(np.maximum(values, 0.0))
    mean = covariance @ (message.vector + prior.precision @ prior.mean)
    wider = np.maximum(np.linalg.eigvalsh(root.T @ symmetric(information) @ root), 0.0)
    left = np.linalg.eigvalsh(root.T @ prior.precision @ root)
    return mean, root.T, wider, float(np.mean(left > _HARDLY))


def judge_fit(found: Spread | None, wider: np.ndarray | None = None, hardly: float = 0.0) -> Fit:
    """What counts say of the model.

    Parameters
    ----------
    found : Spread, optional
        Default: nothing was counted.
    wider : ndarray, shape (p,), optional
        Squared standard deviations of the parameters at which places were taken over those without privacy,
        in directions at right angles: a right model at parameters that are off has counts that are off.
    hardly : float
        Part of these directions of which hardly more is known than by the prior.

    Returns
    -------
    Fit
        `said`, in words; `tail`, how many times as many records as the model says are in its outermost
        twentieth, with `error`, its standard deviation if the model is right; `p_value`, of all counts
        together. None where nothing is known.

    Notes
    -----
    Counts less what the model says of their sum, ``D``, have, if the model is right, the covariance of noise
    and at most ``n f`` times that of one record's cell. ``f`` holds ``max wider`` for parameters that are off
    (the most that a linear function of n scores moves counts by, by Cauchy and Schwarz), what differences
    are too small to be told, and what they may be where parameters are hardly known.

    **Privacy.** Post-processing.
    """
    total = 0.0 if found is None else float(found.counts.sum())
    if found is None or wider is None or total <= _STANDS_OUT * found.noise * math.sqrt(CELLS):
        return {"said": "not tested", "tail": None, "error": None, "p_value": None}
    away = np.eye(CELLS) - _EXPECTED[:, None]
    # Less one cell, as differences add up to zero.
    differences = (away @ found.counts)[1:]
    # Parameters that are off by w standard deviations, each, move counts like so many times sum w^2 records.
    by_parameters = 0.5
    # A model is not said to be wrong for differences this small (of a cell's records .01 / sqrt(.05), 4%).
    too_small = 0.01
    off = total * (too_small**2 + (_ELSEWHERE * hardly) ** 2) + (by_parameters * wider.sum()) ** 2 / total
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
    # Of right models so many are said to be wrong, at most.
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
