"""Whether a few records have nearly all of the information.

Clipping then leaves less of the scores than it leaves of normal ones. This is seen by comparing clipped
scores with counts of the sizes of scores (`score_sizes`), which no clip has shortened.
"""

import math

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.efficiency import Efficiency
from pymc_dp.likelihood.information import DRIFT
from pymc_dp.likelihood.measurements import Comparison
from pymc_dp.likelihood.score_sizes import Counted


class Sizes:
    """Information about each coordinate, from counts of the sizes of scores at a point.

    Parameters
    ----------
    counted : Counted

    Attributes
    ----------
    since : float
        Distance that the search has moved since the count; the search adds to it.
    """

    def __init__(self, counted: Counted):
        # A coordinate's count is used if twice its noise is at most this fraction of it.
        well = 0.3
        self._counted, self._known = counted, counted.touched > 2 * counted.noise / well
        self.since = 0.0

    def factor(self, information: np.ndarray) -> tuple[float, float]:
        """Return the ratio of the counted information to an estimated one, (p, p), and its relative error."""
        factor, error = self._counted.over(information, self._known)
        # Counted sizes are believed to differ from the estimated ones by at most this factor at once.
        most_factor = 16.0
        return float(np.clip(factor, 1 / most_factor, most_factor)), error

    def rest(
        self,
        seen: Comparison,
        efficiency: Efficiency,
        metric: np.ndarray,
        information: np.ndarray,
        order: np.ndarray,
    ) -> float:
        """Estimate the fraction that the clip leaves of these scores, relative to normal ones; at most 1.

        Suppose that a few records have nearly all of the information, with scores 1 / r times as long as the
        clipping bound. Then the clip leaves r of the slope and r squared of the variance, and the number of
        those records is in proportion to r squared. Two released ratios show r: that of variance to slope,
        and that of slope to counted information. The more precise one is used.

        Parameters
        ----------
        seen : Comparison
            Released score and slope.
        efficiency : Efficiency
            What the clip leaves of normal scores.
        metric : ndarray, shape (p, p)
        information : ndarray, shape (p, p)
            Estimated information of all records.
        order : ndarray of int, shape (p,)
            The coordinate to which each coordinate of the metric belongs.
        """
        slope = max(float(np.trace(seen.slope)), seen.slope_noise, 1e-300)
        off = seen.slope_noise * math.sqrt(len(seen.slope)) / slope
        normal = efficiency.slope / efficiency.variance
        ratio, error = seen.trace / slope * normal, math.hypot(normal * seen.trace_noise / slope, off)
        shown = self._known[order]
        # Counts of sizes are not used farther than this from the point where they were made (in units in
        # which one record has Fisher information 1): sizes change with the point, those of rare counts by a
        # factor of about e, for example.
        near = 0.3
        if shown.any() and self.since < near:
            factor, own = self.factor(information)
            whole = np.diag(metric @ information @ metric.T)[shown].sum() * factor
            counted = max(efficiency.slope * float(whole), 1e-300)
            again = float(np.diag(seen.slope)[shown].sum()) / counted
            off = math.sqrt(shown.sum()) * seen.slope_noise / counted
            sizes = own + DRIFT * self.since
            other = math.hypot(off, sizes * min(max(again, 0.0), 1.0))
            if other < error:
                ratio, error = again, other
        # Let r be what the clip leaves of these scores over what it leaves of normal ones, estimated from
        # released numbers. If information is not concentrated in a few records, r is 1 with this standard
        # deviation.
        usual_error = 0.15
        # Number of standard errors. If r differs from 1 by more than this many, its prior standard deviation
        # is raised above `usual_error`; and the estimate that is used is no less than r plus this many.
        certain = 2.0
        # Shrink the ratio towards 1, but not below the ratio and its error: a small value has to be certain.
        apart = max(usual_error**2, (ratio - 1) ** 2 - (certain * error) ** 2)
        least = min(max(ratio, 0.0) + certain * error, 1.0)
        believed = max(1 + (ratio - 1) * apart / (apart + error**2), least)
        # The result is (r / few_tell)**power, limited to between `least_rest` and 1. Values of r down to
        # `few_tell` are common, and change nothing.
        few_tell = 0.6
        power = 1.25
        least_rest = 0.02
        return float(np.clip((believed / few_tell) ** power, least_rest, 1.0))


def largest_sum(seen: Comparison, normal: Efficiency, bounds: Bounds, n: float, size: float) -> float:
    """Return the largest possible sum of scores, in multiples of one score's bound C.

    It is estimated from the released variance of the sum, with its error. A score psi within C has mean
    zero at the true parameters, so that its positive and negative parts have equal means, and together
    ``E |psi| >= E psi^2 / C``. If all outcomes are on one side of what the model expects (all are ones, or a
    plane separates them), the sum is about that large, and no larger however far the parameters are.

    Parameters
    ----------
    seen : Comparison
        Released score and slope.
    normal : Efficiency
        What the clip is expected to leave of slope and variance within these bounds.
    bounds : Bounds
    n, size : float
        Number of records, and coordinates of each: in the metric, the information of a record has trace
        `size` on average. If all of it came from records with scores of one length, which the clip shortens
        such that `normal.slope` is left, there would be ``n * normal.slope**2 * size / C**2`` of these. The
        result is at most that, and at most n.
    """
    expected = max(float(np.trace(seen.slope)), seen.slope_noise, 1e-300) * normal.variance / normal.slope
    # Prior standard deviation of the variance of a sum of scores, relative to that of normal scores.
    usual_variance = 0.5
    before, noise = (usual_variance * expected) ** 2, seen.trace_noise**2
    hidden = noise / max(before + noise, 1e-300)
    variance = seen.trace + hidden * (expected - seen.trace) + math.sqrt(hidden * before)
    most = n * min(1.0, normal.slope**2 * size / bounds.score**2)
    # The estimate of that variance is at least this fraction of the variance of normal scores.
    least_variance = 0.05
    return min(most, max(variance, least_variance * expected) / bounds.score**2)
