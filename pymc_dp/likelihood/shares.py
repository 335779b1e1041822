"""How much of the budget each search has, and in it each count of sizes and each round.

A record's scores of two observed variables that have no coordinate in common are at right angles. In one
search the bound C of a record would be divided between them, as if both could point in one direction: noise
of T variables would be T times as large for each. With a portion of the budget each it is sqrt(T) times as
large.
"""

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.measurements import AllSums, Comparison, NoisySums
from pymc_dp.likelihood.octaves import Scales

# Sizes are counted with so much that the counts of all records stand out: noise of a count over the number of
# records,
_COUNT_NOISE = 0.05
# at least
_LEAST_SIZES = 0.002
# and at most so much of the budget.
_MOST_SIZES = 0.06
# Where some coordinate does not stand out, they are counted again with so much more.
_MORE = 3.0
# They are counted once more, later, with this part of the first count's share,
_ROUGHLY = 0.25
# beside a round of whose share that is at most this part.
_BESIDE = 0.125
# A count is left out where less than that would be left.
_LATE = 0.62
# An early round has so much that its step is known to this distance, in units of what one record tells,
_STEP_NOISE = 0.4
# at least
_LEAST_EARLY = 0.004
# and at most so much of the budget.
_MOST_EARLY = 0.06
# After a step that was shorter than this
_SHORT = 0.5
# the next round has so many times the last one's share,
_GROWTH = 2.0
# and else so many times.
_AGAIN = 1.15
# The last round is that which would have more than this part of what is left.
_MOST_OF_REST = 0.5
# Where records still pull, a round has at most this part of what is left, so that another follows,
_BEFORE = 0.12
# as long as this is left.
_LEAST_LAST = 0.06
# Noise of a coordinate is the same in all portions if each has as much of the budget as a unit touches
# coordinates there, and so many more: of few coordinates a search has to be begun as well.
_TO_BEGIN = 2


def of_sizes(mu: float, records: float, touched: float) -> float:
    """Of the first count, with this many coordinates of a record."""
    return min(max(2 * touched / (mu * _COUNT_NOISE * records) ** 2, _LEAST_SIZES), _MOST_SIZES)


def of_sizes_again(share: float, left: float) -> float | None:
    """Of a second count, where the first did not show all; None if it would be too much."""
    more = _MORE * share
    return more if is_left_after(more, left) and more <= _MOST_SIZES else None


def of_sizes_beside(first: float, share: float) -> float | None:
    """Of a count beside a round with this share; None if it would be too much."""
    part = max(_ROUGHLY * first, _LEAST_SIZES)
    return part if part <= _BESIDE * share else None


def is_left_after(share: float, left: float) -> bool:
    """Whether a count with this share leaves enough for the rounds."""
    return left - share > _LATE


def of_first_round(mu: float, records: float, touched: float) -> float:
    """Noise of its step is ``sqrt(p) 2 C / (mu sqrt(share) n)``, with C about ``sqrt(p)``."""
    level = (2 * touched / (0.8 * _STEP_NOISE * mu * records)) ** 2
    return min(max(level, _LEAST_EARLY), _MOST_EARLY)


def of_next_round(share: float, step: float, longest: float) -> float:
    """After one with this share and a step of this length; what is longer than the longest was cut short."""
    return share * (_GROWTH if step < min(_SHORT, longest) else _AGAIN)


def of_far_round(share: float, left: float, is_far: bool) -> float:
    """The share, or where records still pull so little that another round follows, while there is enough."""
    return min(share, _BEFORE * left) if is_far and left > _LEAST_LAST else share


def is_last(share: float, left: float) -> bool:
    """Whether a round that would have this share has all that is left."""
    return share >= _MOST_OF_REST * left


def at_most(share: float, left: float) -> float:
    """A round's share, if it is the last one or not: what counts beside it go by."""
    return min(share, _MOST_OF_REST * left)


class Portion:
    """The `NoisySums` of a part of the budget.

    Parameters
    ----------
    measurements : NoisySums
    share : float
        The part; shares of a search are of it.
    others : float
        Share of the whole budget that is for those that come later.

    Attributes
    ----------
    source : Shapes
    share : float
    """

    def __init__(self, measurements: NoisySums, share: float, others: float):
        self._measure, self.share, self._others = measurements, share, others
        self.source = measurements.source

    @property
    def left(self) -> float:
        """Share of the portion that is not spent."""
        return (self._measure.left - self._others) / self.share

    def scales(self, phi: np.ndarray, twins: int, share: float) -> Scales:
        """See `Measurements.scales`."""
        return self._measure.scales(phi, twins, self.share * share)

    def compare(
        self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int, shares: tuple[float, float]
    ) -> Comparison:
        """See `Measurements.compare`."""
        of_score, of_slope = shares
        return self._measure.compare(
            phi, metric, bounds, twins, (self.share * of_score, self.share * of_slope)
        )


def portions(measurements: AllSums) -> list[Portion]:
    """One for each of those that have no coordinate in common, with all of what is left of the budget."""
    apart, left = measurements.apart, measurements.left
    weights = np.array([one.source.touched + _TO_BEGIN for one in apart], dtype=float)
    shares = weights / weights.sum() if len(apart) > 1 else np.ones(1)
    later = left * (1 - np.cumsum(shares)).clip(0.0)
    return [Portion(*one) for one in zip(apart, map(float, shares), map(float, later), strict=True)]
