"""Whether few records tell nearly all: what a clip leaves of their scores, beside what was counted of all."""

import math

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.efficiency import Efficiency
from pymc_dp.likelihood.information import DRIFT
from pymc_dp.likelihood.measurements import Comparison
from pymc_dp.likelihood.octaves import Counted

# A count is used where twice its noise is at most this part of it.
_WELL = 0.3
# Beyond this distance from where they were counted sizes are others: of few counts beside many, say, by e.
_NEAR = 0.3
# Sizes are believed to be off by at most this factor at once.
_MOST_FACTOR = 16.0
# Let r be what the clip leaves of these scores over what it leaves of normal ones, as released numbers show.
# Without few records that tell, r is 1 give or take this.
_NORMAL = 0.15
# r is believed where it is further from 1 than so many of its errors, and is raised by as many.
_CERTAIN = 2.0
# What is returned is (r / _FEW_TELL)**_POWER, between the least value and 1: some 1 / r is common.
_FEW_TELL = 0.6
_POWER = 1.25
_LEAST_REST = 0.02
# The variance of a sum of scores is what it is for normal scores give or take this part of it, before it is
# seen; and no less than this part of it after.
_VARIANCE = 0.5
_LEAST_VARIANCE = 0.05


class Sizes:
    """Information about each coordinate, as counted at a point.

    Parameters
    ----------
    counted : Counted
        At a point.

    Attributes
    ----------
    since : float
        Distance from where it was counted.
    """

    def __init__(self, counted: Counted):
        self._counted, self._known = counted, counted.touched > 2 * counted.noise / _WELL
        self.since = 0.0

    def factor(self, information: np.ndarray) -> tuple[float, float]:
        """How much larger sizes are than an information, (p, p), says; and the relative error of that."""
        factor, error = self._counted.over(information, self._known)
        return float(np.clip(factor, 1 / _MOST_FACTOR, _MOST_FACTOR)), error

    def rest(
        self,
        seen: Comparison,
        left: Efficiency,
        metric: np.ndarray,
        information: np.ndarray,
        order: np.ndarray,
    ) -> float:
        """What a clip leaves of these scores, over what it leaves of normal ones; at most 1.

        Where few records tell nearly all, each of them much, a clip leaves a part of its own bound over their
        size, of the slope and again of the variance; and the records that tell are so few, by the square. It
        is seen in the variance over the slope, and in the slope over what was counted.

        Parameters
        ----------
        seen : Comparison
        left : Efficiency
            Of normal scores.
        metric : ndarray, shape (p, p)
        information : ndarray, shape (p, p)
            As it is believed to be.
        order : ndarray of int, shape (p,)
            The coordinate that each of the metric is about.
        """
        slope = max(float(np.trace(seen.slope)), seen.slope_noise, 1e-300)
        off = seen.slope_noise * math.sqrt(len(seen.slope)) / slope
        normal = left.slope / left.variance
        ratio, error = seen.trace / slope * normal, math.hypot(normal * seen.trace_noise / slope, off)
        told = self._known[order]
        if told.any() and self.since < _NEAR:
            factor, own = self.factor(information)
            whole = np.diag(metric @ information @ metric.T)[told].sum() * factor
            counted = max(left.slope * float(whole), 1e-300)
            again = float(np.diag(seen.slope)[told].sum()) / counted
            off = math.sqrt(told.sum()) * seen.slope_noise / counted
            sizes = own + DRIFT * self.since
            other = math.hypot(off, sizes * min(max(again, 0.0), 1.0))
            if other < error:
                ratio, error = again, other
        # No less than what is seen and its error: that few records tell has to be sure.
        apart = max(_NORMAL**2, (ratio - 1) ** 2 - (_CERTAIN * error) ** 2)
        least = min(max(ratio, 0.0) + _CERTAIN * error, 1.0)
        believed = max(1 + (ratio - 1) * apart / (apart + error**2), least)
        return float(np.clip((believed / _FEW_TELL) ** _POWER, _LEAST_REST, 1.0))


def full_pulls(seen: Comparison, normal: Efficiency, bounds: Bounds, n: float, size: float) -> float:
    """How many times its bound a sum of scores can be, as the sum's variance and its error show.

    A score psi within C has mean zero at the truth, so that the parts where it is positive and where it is
    negative are alike, and together ``E |psi| >= E psi^2 / C``. Where outcomes are all on one side of what is
    expected (all are ones; a plane separates them), the sum is about that much, and it is no larger however
    far the parameters are.

    Parameters
    ----------
    seen : Comparison
    normal : Efficiency
        Of normal scores, within these bounds.
    bounds : Bounds
    n, size : float
        Number of records, and coordinates of each: in the metric a record tells `size`, and records are
        clipped from what leaves this of the slope.
    """
    expected = max(float(np.trace(seen.slope)), seen.slope_noise, 1e-300) * normal.variance / normal.slope
    before, noise = (_VARIANCE * expected) ** 2, seen.trace_noise**2
    hidden = noise / max(before + noise, 1e-300)
    variance = seen.trace + hidden * (expected - seen.trace) + math.sqrt(hidden * before)
    most = n * min(1.0, normal.slope**2 * size / bounds.score**2)
    return min(most, max(variance, _LEAST_VARIANCE * expected) / bounds.score**2)
