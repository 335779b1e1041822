"""Shares of the budget: of each search, and within a search of each count of score sizes and each round.

Observed variables that have no coordinate in common have orthogonal scores. A single search would
nevertheless divide a record's clipping bound C between the scores of T such variables, so that the noise of
each would be T times as large relative to its scores. With a search for each, and a portion of the budget
for each search, it is only sqrt(T) times as large.
"""

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.identified import IdentifiedCoordinates
from pymc_dp.likelihood.measurements import AllSums, Comparison, NoisySums, Shapes
from pymc_dp.likelihood.score_sizes import Scales

# Least share of the budget for a count of score sizes.
_LEAST_SIZES = 0.002
# Largest share of the budget for a count of score sizes.
_MOST_SIZES = 0.06
# A round whose share would be at least this fraction of the remaining budget is the last one: it gets all.
_MOST_OF_REST = 0.5


def of_sizes(mu: float, records: float, touched: float) -> float:
    """Return the share of the first count of score sizes.

    Parameters
    ----------
    mu : float
        Of the whole budget.
    records : float
        Number of records.
    touched : float
        Most coordinates that a unit touches.
    """
    # The first count of score sizes gets a share at which the noise of a count has this standard deviation,
    # relative to the number of records: counts of all records then stand out of it.
    count_noise = 0.05
    return min(max(2 * touched / (mu * count_noise * records) ** 2, _LEAST_SIZES), _MOST_SIZES)


def of_sizes_again(share: float, left: float) -> float | None:
    """Return the share of a repeated count, where the last one, of this share, did not show all coordinates.

    None if the repetition would cost too much.
    """
    # If the count of some coordinate does not stand out of the noise, sizes are counted again with this many
    # times the share.
    recount_factor = 3.0
    more = recount_factor * share
    return more if is_left_after(more, left) and more <= _MOST_SIZES else None


def of_sizes_beside(first: float, share: float) -> float | None:
    """Return the share of a later count, beside a round of this share; None if it would cost too much."""
    # A later count, beside a round, gets this fraction of the first count's share.
    later_count = 0.25
    part = max(later_count * first, _LEAST_SIZES)
    # A later count is made only if its share is at most this fraction of the share of the round that follows.
    most_of_round = 0.125
    return part if part <= most_of_round * share else None


def is_left_after(share: float, left: float) -> bool:
    """Whether a count of this share leaves enough of the budget for the rounds."""
    # A count with the full share is repeated only if more than this share of the budget remains after it.
    left_for_rounds = 0.62
    return left - share > left_for_rounds


def of_first_round(mu: float, records: float, touched: float) -> float:
    """Return the share of the first round, of p = `touched` coordinates of a record on average.

    The noise of its step is ``sqrt(p) 2 C / (mu sqrt(share) n)``, with C about ``sqrt(p)``.
    """
    # The first round gets a share at which its step has about this error, as a distance: in units in which
    # one record has Fisher information 1.
    step_noise = 0.4
    level = (2 * touched / (0.8 * step_noise * mu * records)) ** 2
    # Least share of the budget for the first round.
    least_early = 0.004
    # Largest share of the budget for the first round.
    most_early = 0.06
    return min(max(level, least_early), most_early)


def of_next_round(share: float, step: float, longest: float) -> float:
    """Return the share of the round that follows one of this share and a step of this length.

    A step of the length `longest` or more does not count as short, since it was shortened to that.
    """
    # Length below which a step is short, in units in which one record has Fisher information 1.
    short = 0.5
    # After a short step the next round has this many times the share of the last one.
    growth_after_short = 2.0
    # After a longer step the next round has this many times the share of the last one.
    growth_after_long = 1.15
    return share * (growth_after_short if step < min(short, longest) else growth_after_long)


def of_far_round(share: float, left: float, is_far: bool, group_is_far: bool) -> float:
    """Return the share, limited where the search, or that for a group, is still far from the parameters.

    The limit makes sure that another round can follow; it holds while enough of the budget remains. The last
    round shows slopes best: single groups do not take it most of the budget.
    """
    # While all records are far away the limit holds only if more than this share of the budget remains.
    least_last = 0.06
    # The same while only a single group is far away.
    least_beside_groups = 0.5
    least = least_last if is_far else least_beside_groups if group_is_far else 1.0
    # While the sum of scores is a large part of what bounds allow (`Round.is_far`), a round gets at most this
    # fraction of the remaining budget, so that another one can follow.
    most_while_far = 0.12
    return min(share, most_while_far * left) if left > least else share


def is_last(share: float, left: float) -> bool:
    """Whether a round that would have this share is the last one, which gets the whole remaining budget."""
    return share >= _MOST_OF_REST * left


def at_most(share: float, left: float) -> float:
    """Return a round's share, or half of the remaining budget if that is less.

    A count beside the round is compared with it: the share at which a round becomes the last one.
    """
    return min(share, _MOST_OF_REST * left)


class Portion:
    """`NoisySums` in the coordinates that records see, which spend only a portion of the budget.

    Parameters
    ----------
    measurements : NoisySums
        Noisy sums in all coordinates, with the whole budget.
    source : IdentifiedCoordinates
    share : float
        The portion, as a share of the whole budget. Shares of the search that uses it are relative to it.
    others : float
        Share of the whole budget that is reserved for the portions that come later.

    Notes
    -----
    **Privacy.** Asks for sums in a metric that is zero for the coordinates that are left out.
    """

    def __init__(
        self,
        measurements: NoisySums,
        source: IdentifiedCoordinates,
        share: float = 1.0,
        others: float = 0.0,
    ):
        self._measure, self._seen, self._share, self._others = measurements, source, share, others
        self.source: Shapes = source

    @property
    def left(self) -> float:
        """Remaining budget, as a share of the portion."""
        return (self._measure.left - self._others) / self._share

    def scales(self, phi: np.ndarray, twins: int, share: float) -> Scales:
        """See `Measurements.scales`."""
        seen = self._measure.scales(self._seen.phi(phi), twins, self._share * share)
        return seen._replace(counts=seen.counts[self._seen.kept])

    def compare(
        self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int, shares: tuple[float, float]
    ) -> Comparison:
        """See `Measurements.compare`."""
        kept, p = self._seen.kept, self._measure.source.size
        whole, places = np.zeros((p, p)), np.ix_(kept, kept)
        whole[places] = metric
        own = self._share * shares[0], self._share * shares[1]
        seen = self._measure.compare(self._seen.phi(phi), whole, bounds, twins, own)
        return seen._replace(score=seen.score[kept], slope=seen.slope[places], variances=seen.variances[kept])


def portions(measurements: AllSums) -> list[tuple[NoisySums, float, float]]:
    """Divide the remaining budget among observed variables that have no likelihood coordinate in common.

    Those that have coordinates in common are one portion. Returned are the arguments of each `Portion`: its
    noisy sums, its share of the budget, and the share of those that come later.
    """
    apart, left = measurements.apart, measurements.left
    # Portions of the budget are in proportion to the number of coordinates that a unit touches in each, plus
    # this number. In proportion to the coordinates alone, each coordinate would have the same noise; the
    # addition is for the early rounds that a search of few coordinates needs as well.
    coordinates_to_begin = 2
    weights = np.array([one.source.touched + coordinates_to_begin for one in apart], dtype=float)
    shares = weights / weights.sum() if len(apart) > 1 else np.ones(1)
    later = left * (1 - np.cumsum(shares)).clip(0.0)
    return [*zip(apart, shares.tolist(), later.tolist(), strict=True)]
