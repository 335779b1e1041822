"""How much of scores and slopes remains within their bounds, and the bounds that are best for a round.

Everything here is computed for normal scores of simulated units, from public numbers. Distances between
parameters are in units in which one record has Fisher information 1.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pymc_dp.bounds import check_relation, check_target
from pymc_dp.likelihood.comparisons import TYPICAL, VARIANCE_WEIGHT
from pymc_dp.likelihood.measurements import Comparison
from pymc_dp.privacy.accounting import gaussian

# Bounds of scores that are tried, over sqrt(coordinates of a record).
_CLIPS = np.geomspace(0.15, 4.0, 17)
# Bounds of slopes that are tried, over the average norm of a unit's slope.
_OF_SLOPES = 1.0, 1.5, 2.0, 3.0
# Least fraction of a round's budget for the slope.
_LEAST_SLOPE = 0.06
# Number of simulated units, and number of simulated scores of each.
_PLAIN = 400, 64
# Limits of the ratio of a score's variance to its slope.
_SHARES = 0.05, 1.0
# Standard deviation of the logarithm of a simulated unit's scale.
_UNEQUAL = 0.3


class Efficiency(NamedTuple):
    """What remains of normal scores within their bounds.

    Attributes
    ----------
    slope, variance : float
        Fractions of the slope and of the variance that remain.
    bound : float
        Bound of slopes.
    """

    slope: float
    variance: float
    bound: float


@cache
def _squares(size: int, rank: int) -> np.ndarray:
    """Simulate squared normal scores by predictor, shape (m, k, rank): 1 for each coordinate, on average.

    Predictors are orthogonal. Each has one coordinate, and the first also has all coordinates beyond the
    number of predictors. The scale of a unit's scores has a log-normal distribution.
    """
    rng, more = np.random.default_rng(0), max(size - rank, 0)
    squares = rng.normal(size=(*_PLAIN, min(rank, size))) ** 2
    squares[..., 0] *= 1 + (rng.chisquare(more, _PLAIN[0])[:, None] if more else 0.0)
    scale = np.exp(2 * _UNEQUAL * rng.permutation(ndtri((np.arange(_PLAIN[0]) + 0.5) / _PLAIN[0])))
    return squares * (scale / scale.mean())[:, None, None]


@cache
def efficiencies(clip: float, size: int, rank: int) -> Sequence[Efficiency]:
    """Compute what bounds leave of normal scores, for units whose information differs.

    The simulated scores are clipped as `comparisons.compare` does.

    Parameters
    ----------
    clip : float
        Bound of scores, over the root of `size`.
    size, rank : int
        Coordinates and predictors of a record.

    Returns
    -------
    sequence of Efficiency
        For each bound of slopes that is tried.
    """
    squares, each = _squares(size, rank), np.arange(_PLAIN[0])
    length = squares.sum(2)
    factor = np.minimum(1.0, clip * math.sqrt(size) / np.sqrt(length))
    slopes, farthest = (factor[..., None] * squares).mean(1), length.argmax(1)
    others = slopes - (factor[each, farthest, None] * squares[each, farthest]) / _PLAIN[1]
    variances = (factor[..., None] ** 2 * squares).mean(1)
    # The first predictor's variance v is v x_e^2 / |x|^2 by coordinate, with a norm of about sqrt(3 / m) v if
    # the m numbers x_e are normal.
    own = variances.copy()
    own[:, 0] *= min(1.0, math.sqrt(3 / (1 + max(size - rank, 0))))
    extra = VARIANCE_WEIGHT * np.linalg.norm(own, axis=1)
    # The norm that the bound of slopes limits: of a unit's slope together with the variances; and the same
    # without its longest score, over `TYPICAL`, on which its weight depends.
    norm, typical = (np.hypot(np.linalg.norm(one, axis=1), extra) for one in (slopes, others))
    slope, variance, found = slopes.sum(1), variances.sum(1), []
    for most in _OF_SLOPES:
        bound = most * float(norm.mean())
        weight = np.minimum(1.0, bound / (typical / TYPICAL))
        cut = np.minimum(1.0, bound / (weight * norm))
        left = float((cut * weight * slope).mean()), float((cut * weight**2 * variance).mean())
        found.append(Efficiency(left[0] / size, left[1] / size, bound))
    return found


class Sharpest(NamedTuple):
    """The bounds of a round at which its estimate has the least variance.

    Attributes
    ----------
    variance : float
        Variance of the estimate of a coordinate about which each record has Fisher information 1.
    clip : float
        Bound of scores, over the root of a record's coordinates.
    part : float
        Fraction of the round's budget that is spent on the slope.
    efficiency : Efficiency
        What remains within these bounds.
    """

    variance: float
    clip: float
    part: float
    efficiency: Efficiency


def sharpest_bounds(n: float, mu: float, size: float, rank: int, distance: float) -> Sharpest:
    """Choose bounds of scores and slopes, and the slope's part of the budget, for the least variance.

    Parameters
    ----------
    n, mu : float
        Number of records, and Gaussian differential privacy budget of the round.
    size : float
        Coordinates of a record, on average.
    rank : int
        Most predictors of a record.
    distance : float
        Distance from the point to the parameters: an error of the slope is multiplied with it.

    Notes
    -----
    The estimate has the score's noise, about ``a / sqrt(1 - part)``, and the slope's noise times the
    distance, about ``b / sqrt(part)``. The sum of their squares is least, ``(a + b)**2``, where part is
    ``b / (a + b)``.
    """
    best = Sharpest(math.inf, 1.0, 0.5, Efficiency(1.0, 1.0, 1.0))
    for clip in _CLIPS:
        for left in efficiencies(float(clip), max(round(size), 1), rank):
            noises = 2 * clip * math.sqrt(size) / mu, math.sqrt(2.0) * left.bound * distance / mu
            part = max(noises[1] / max(sum(noises), 1e-300), _LEAST_SLOPE)
            noise = noises[0] ** 2 / (1 - part) + noises[1] ** 2 / part
            variance = (noise + n * left.variance) / (n * left.slope) ** 2
            best = min(best, Sharpest(variance, float(clip), part, left))
    return best


def share_of(seen: Comparison) -> float:
    """Return the ratio of the score's variance to its slope, of all coordinates together."""
    return float(np.clip(seen.trace / max(float(np.trace(seen.slope)), 1e-300), *_SHARES))


def shares_of(seen: Comparison) -> np.ndarray:
    """Return the same ratio for each coordinate, shape (p,), shrunk to that of all as far as noise hides it.

    A clip takes more from a coordinate whose scores have tails, as those of degrees of freedom do.
    """
    slope, share = np.maximum(np.diag(seen.slope), 1e-300), share_of(seen)
    noise = np.hypot(seen.variance_noise, share * seen.slope_noise) / slope
    # Prior standard deviation of coordinates' ratios around that of all.
    unlike = 0.25
    return np.clip(share + (seen.variances / slope - share) / (1 + (noise / unlike) ** 2), *_SHARES)


def more_than_usual(share: float, clip: float, size: float, rank: int) -> float:
    """Estimate how many times more information records have than their slope suggests.

    If the information of units is very unequal, a clip removes more than it does of normal scores. It then
    removes more of the variance than of the slope, so that the ratio of the two shows it.

    Parameters
    ----------
    share : float
        Trace of the variance of clipped scores over that of their slope, as released.
    clip : float
        Bound of scores, over the root of `size`.
    size : float
        Coordinates of a record, on average.
    rank : int
        Most predictors of a record.
    """
    each = [efficiencies(float(one), max(round(size), 1), rank)[-1] for one in _CLIPS]
    slopes, shares = np.array([(one.slope, one.variance / one.slope) for one in each]).T
    # A ratio of variance to slope that is below the expected one by no more than this is taken to be the
    # expected one, with noise.
    share_hidden = 0.05
    if share > np.interp(clip, _CLIPS, shares) - share_hidden:
        return 1.0
    # Largest factor by which the information of records is taken to exceed what their slope shows.
    most_more = 2.0
    return float(min(np.interp(clip, _CLIPS, slopes) / np.interp(share, shares, slopes), most_more))


def wide_bounds(size: float) -> Sharpest:
    """Return bounds that cut nearly nothing, for releases without noise: scores then enter as they are.

    Parameters
    ----------
    size : float
        Coordinates of a record, on average.
    """
    # Bound of scores that clips nearly none of them, over sqrt(coordinates of a record).
    wide_clip = 100.0
    # Bound of slopes that cuts nearly none of them, over the coordinates of a record.
    wide_slope = 100.0
    return Sharpest(0.0, wide_clip, _LEAST_SLOPE, Efficiency(1.0, 1.0, wide_slope * size))


def expected_distance(n: float, mu: float, distance: float) -> float:
    """Limit an estimated distance to the parameters, for the choice of bounds.

    A slope that is hidden in noise may seem too steep, and the distance therefore too short: it is taken to
    be at least what noise can hide.

    Parameters
    ----------
    n, mu : float
        Number of records, and Gaussian differential privacy budget of the whole search.
    distance : float
        Estimated distance.
    """
    # The distance to the parameters is taken to be at least this over n mu: noise can hide that much.
    hidden_distance = 150.0
    # That least distance is held between these two numbers.
    least_distance = 0.02, 0.3
    least = float(np.clip(hidden_distance / (n * mu), *least_distance))
    # The distance to the parameters is taken to be at most this.
    most_distance = 1.0
    return min(max(distance, least), most_distance)


def expected_width(
    n: float,
    parameters: int,
    epsilon: float,
    delta: float = 1e-6,
    *,
    predictors: int = 1,
    neighboring_relation: str = "substitute",
) -> float:
    """Predict the width of intervals of `release_likelihood`, over the width without privacy.

    Parameters
    ----------
    n : float
        Number of records that have information about a parameter: for a group's level, the records of the
        group.
    parameters : int
        Number of parameters that a record has information about: of the levels of groups, one.
    epsilon, delta : float
        Budget of the release.
    predictors : int
        Of each record: 1 for logistic regressions and counts, 2 where a scale is estimated, ...
    neighboring_relation : {"substitute", "add_remove"}

    Returns
    -------
    float
        At least 1. It is computed from the noise and the clipping at the end of a search, for normal scores
        of units whose information differs somewhat. It is right within 15% up to 1.4, and a lower bound
        beyond (docs/planning has a table). The prior, which limits the width of a posterior, is not taken
        into account.

    Raises
    ------
    TypeError, ValueError
        A number is out of range.

    Notes
    -----
    **Privacy.** Reads nothing.

    Examples
    --------
    >>> import pymc_dp as dp
    >>> print(f"{dp.expected_width(5000, parameters=6, epsilon=1):.1f}")
    1.4
    """
    check_target(epsilon, delta)
    check_relation(neighboring_relation)
    if not (n > 0 and parameters >= 1 and predictors >= 1):
        raise ValueError("n is positive, and there is at least one parameter and one predictor.")
    if math.isinf(epsilon):
        return 1.0
    mu = float(gaussian.mu(epsilon, delta))
    # A record that is added or removed moves a sum half as much as one that is replaced, as if mu were
    # twice as large.
    mu *= 1.0 if neighboring_relation == "substitute" else 2.0
    # Expected distance to the parameters in the last round, where one record has Fisher information 1.
    way = 0.1
    # Share of the budget that the last round is expected to have.
    last_share = 0.6
    found = sharpest_bounds(n, mu * math.sqrt(last_share), parameters, min(predictors, parameters), way)
    return max(math.sqrt(n * found.variance), 1.0)
