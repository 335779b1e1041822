"""What bounds of scores and slopes leave of them, and the bounds of a round that tell most."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pymc_dp.likelihood.comparisons import TYPICAL, trace_weight

# Bounds of scores that are tried, over sqrt(coordinates of a record).
_CLIPS = np.geomspace(0.15, 4.0, 17)
# Bounds of slopes that are tried, over what they are on average.
_OF_SLOPES = 1.0, 1.5, 2.0, 3.0
# Least part of a round for the slope.
_LEAST_SLOPE = 0.06
# Bounds in the same units, within which nearly all scores and slopes are.
_WIDE_CLIP = 100.0
_WIDE_SLOPE = 100.0
# The way to the parameters that is reckoned with is at least ``_HIDDEN_WAY / (n mu)``,
_HIDDEN_WAY = 150.0
# where that is within these,
_LEAST_WAY = 0.02, 0.3
# and at most this.
_MOST_WAY = 1.0
# A share of variance that is less than the usual one by no more than this is a usual one, and noise.
_SHARE_HIDDEN = 0.05
# Records are taken to tell at most so many times more than their slope shows.
_MOST_MORE = 2.0
# Units, and scores of each, that are simulated for it.
_PLAIN = 400, 64
# Standard deviation of the logarithm of a unit's scale.
_UNEQUAL = 0.3


class Efficiency(NamedTuple):
    """What bounds leave of the slope, and of the variance, of usual scores; and the bound of slopes."""

    slope: float
    variance: float
    bound: float


class _Clipped(NamedTuple):
    """Of simulated units within a bound of scores: traces and norms of slopes, and variances; shape (m,)."""

    slope: np.ndarray
    variance: np.ndarray
    norm: np.ndarray
    typical: np.ndarray


@cache
def _squares(size: int, rank: int) -> np.ndarray:
    """Squared normal scores of unequal units, 1 of each coordinate on average: shape (m, k, rank).

    Predictors are at right angles. The first has as many coordinates as there are more than predictors;
    and a unit's scores have a scale, with a log-normal law.
    """
    rng, more = np.random.default_rng(0), max(size - rank, 0)
    squares = rng.normal(size=(*_PLAIN, min(rank, size))) ** 2
    squares[..., 0] *= 1 + (rng.chisquare(more, _PLAIN[0])[:, None] if more else 0.0)
    scale = np.exp(2 * _UNEQUAL * rng.permutation(ndtri((np.arange(_PLAIN[0]) + 0.5) / _PLAIN[0])))
    return squares * (scale / scale.mean())[:, None, None]


@cache
def _clipped(clip: float, size: int, rank: int) -> _Clipped:
    """As `comparisons.compare` does it: the weight goes by the slope without the farthest point."""
    squares, each = _squares(size, rank), np.arange(_PLAIN[0])
    length = squares.sum(2)
    factor = np.minimum(1.0, clip * math.sqrt(size) / np.sqrt(length))
    slope, farthest = (factor[..., None] * squares).mean(1), length.argmax(1)
    others = slope - (factor[each, farthest, None] * squares[each, farthest]) / _PLAIN[1]
    variance = (factor**2 * length).mean(1)
    norm, typical = (
        np.hypot(np.linalg.norm(one, axis=1), trace_weight(size) * variance) for one in (slope, others)
    )
    return _Clipped(slope.sum(1), variance, norm, typical / TYPICAL)


@cache
def efficiency(clip: float, size: int, rank: int, most: float) -> Efficiency:
    """What bounds leave of normal scores of units that tell unequally.

    Parameters
    ----------
    clip : float
        Bound of scores, over the root of `size`.
    size, rank : int
        Coordinates and predictors of a record.
    most : float
        Bound of slopes over their average norm.
    """
    units = _clipped(clip, size, rank)
    bound = most * float(units.norm.mean())
    weight = np.minimum(1.0, bound / units.typical)
    cut = np.minimum(1.0, bound / (weight * units.norm))
    slope, variance = (cut * weight * units.slope).mean(), (cut * weight**2 * units.variance).mean()
    return Efficiency(float(slope) / size, float(variance) / size, bound)


class Sharpest(NamedTuple):
    """The bounds of a round that tell most.

    Attributes
    ----------
    variance : float
        Of the estimate of a coordinate of which each record tells 1.
    clip : float
        Of scores, over the root of a record's coordinates.
    part : float
        Of the round's budget, for the slope.
    left : Efficiency
    """

    variance: float
    clip: float
    part: float
    left: Efficiency


def sharpest_bounds(n: float, mu: float, size: float, rank: int, way: float) -> Sharpest:
    """Bounds of scores and slopes, and what the slope has of the budget, that tell most of the parameters.

    Parameters
    ----------
    n, mu : float
        Number of records; of the round.
    size : float
        Coordinates of a record, on average.
    rank : int
        Most predictors of a record.
    way : float
        From the point to the parameters, in units of what one record tells: a slope that is off counts by it.

    Notes
    -----
    The score's noise, about ``a / sqrt(1 - part)``, is beside that of the slope times the way, about
    ``b / sqrt(part)``: their squares have the least sum, ``(a + b)**2``, where part is ``b / (a + b)``.
    """
    best = Sharpest(math.inf, 1.0, 0.5, Efficiency(1.0, 1.0, 1.0))
    for most in _OF_SLOPES:
        for clip in _CLIPS:
            left = efficiency(float(clip), max(round(size), 1), rank, most)
            noises = 2 * clip * math.sqrt(size) / mu, math.sqrt(2.0) * left.bound * way / mu
            part = max(noises[1] / max(sum(noises), 1e-300), _LEAST_SLOPE)
            noise = noises[0] ** 2 / (1 - part) + noises[1] ** 2 / part
            variance = (noise + n * left.variance) / (n * left.slope) ** 2
            best = min(best, Sharpest(variance, float(clip), part, left))
    return best


def more_than_usual(share: float, clip: float, size: float, rank: int) -> float:
    """How many times more records tell than their slope shows, where clips take more than of usual ones.

    Of units that tell very unequally they do: of the variance more than of the slope, which shows it.

    Parameters
    ----------
    share : float
        Variance of clipped scores over their slope, as released.
    clip : float
        Bound of scores, over the root of `size`.
    size : float
        Coordinates of a record, on average.
    rank : int
        Most predictors of a record.
    """
    each = [efficiency(float(one), max(round(size), 1), rank, _OF_SLOPES[-1]) for one in _CLIPS]
    slopes, shares = np.array([(one.slope, one.variance / one.slope) for one in each]).T
    if share > np.interp(clip, _CLIPS, shares) - _SHARE_HIDDEN:
        return 1.0
    return float(min(np.interp(clip, _CLIPS, slopes) / np.interp(share, shares, slopes), _MOST_MORE))


def wide_bounds(size: float) -> Sharpest:
    """Bounds that cut nothing: where there is no noise, the result is that of all scores as they are.

    Parameters
    ----------
    size : float
        Coordinates of a record, on average.
    """
    return Sharpest(0.0, _WIDE_CLIP, _LEAST_SLOPE, Efficiency(1.0, 1.0, _WIDE_SLOPE * size))


def way_reckoned_with(n: float, mu: float, way: float) -> float:
    """How far the parameters may be, where a way is believed.

    A slope that noise hides seems steep, and the way short: it is no shorter than noise can make it seem.

    Parameters
    ----------
    n, mu : float
        Number of records; of the whole budget.
    way : float
        In units of what one record tells.
    """
    least = float(np.clip(_HIDDEN_WAY / (n * mu), *_LEAST_WAY))
    return min(max(way, least), _MOST_WAY)
