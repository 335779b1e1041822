"""Decisions ``V <= u`` on a random threshold V, as points in a square, bounded by a few corners.

For two neighbouring data sets, a decision is a pair of probabilities. Its cost is a convex function of the
pair, so its largest value on a region is at most that at the corners of a polygon around the region
(docs/proofs/decision_accounting, section 2).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr

from pymc_dp.privacy.accounting import gaussian


@dataclass(frozen=True)
class GaussianThreshold:
    """Standard normal threshold: that of the penalty decision whose uniform is published as well.

    Attributes
    ----------
    scale : float
        Length over which the density changes.
    centre : float
        Approximate mean of V, where the search starts.
    std : float
        Standard deviation s of the noise in V: the slope of the score is at most ``1 / s^2``.
    steepest : float
        Largest derivative of log P(V <= u) with respect to u; inf if it is not bounded.
    """

    scale: float = 1.0
    centre: float = 0.0
    std: float = 1.0
    steepest: float = math.inf

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Return the logarithm of the density."""
        return gaussian.log_density(u)

    def log_probabilities(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of P(V <= u) and P(V > u)."""
        return log_ndtr(u), log_ndtr(-u)

    def score(self, u: np.ndarray) -> np.ndarray:
        """Return minus the derivative of the log density, which is non-decreasing."""
        return u


@dataclass(frozen=True)
class PenaltyThreshold:
    """Threshold of the penalty test with noise of standard deviation s: ``V = ln U + s^2 / 2 + s N(0, 1)``.

    ``P(V <= u) = a(u)`` is the acceptance probability at log-ratio u; its density is
    ``e^u Phi(-(u + s^2 / 2) / s)``, at most a(u).
    """

    std: float
    steepest: float = 1.0

    @property
    def scale(self) -> float:
        """Length over which the density changes."""
        return min(self.std, 1.0)

    @property
    def centre(self) -> float:
        """Approximate mean of V, where the search starts."""
        return 0.5 * self.std**2

    def _standard(self, u: np.ndarray) -> np.ndarray:
        return (u + 0.5 * self.std**2) / self.std

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Return the logarithm of the density of V."""
        return u + log_ndtr(-self._standard(u))

    def log_probabilities(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of a(u) and 1 - a(u)."""
        s = self.std
        x = (u - 0.5 * s * s) / s
        log_normal, log_tail = log_ndtr(x), self.log_density(u)
        log_accept = np.logaddexp(log_normal, log_tail)
        # 1 - a = phi(x) (M(x) - M(x + s)) with the Mills ratio M, for x >= 0. For x < 0, 1 - a itself is well
        # conditioned.
        y = np.maximum(x, 0.0) / math.sqrt(2)
        with np.errstate(divide="ignore"):
            right = np.log(0.5 * (erfcx(y) - erfcx(y + s / math.sqrt(2)))) - y * y
            left = np.log(-np.expm1(np.minimum(log_accept, 0.0)))
        return np.minimum(log_accept, 0.0), np.where(x >= 0, right, left)

    def score(self, u: np.ndarray) -> np.ndarray:
        """Return minus the derivative of the log density, which is non-decreasing."""
        with np.errstate(over="ignore"):
            return 1 / (self.std * gaussian.mills(self._standard(u))) - 1.0


#: Random thresholds V with a log-concave density.
type Threshold = GaussianThreshold | PenaltyThreshold


#: Largest shift of normal quantiles that is searched: with larger ones, probabilities would lose their
#: precision.
LARGEST_SHIFT = 10.0
# Nodes and weights of Gauss-Legendre quadrature on [-1, 1].
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def around(lower: np.ndarray, gap: np.ndarray, bend: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return corners of tangents of a concave curve, which is given at both ends of each of several cells.

    Parameters
    ----------
    lower, gap : ndarray, shape (2, m)
        Points of the curve, lower[0] <= lower[1]: the smaller probability, and the larger one minus it.
    bend : ndarray, shape (2, m)
        Slope of the larger probability as a function of the smaller one, minus 1.

    Returns
    -------
    lower, gap : ndarray, shape (m,)
        One corner for each cell. If neighbouring cells have the point between them, and its slope, in common,
        the convex hull of the corners and of the outer ends of the first and the last cell contains the
        curve.
    """
    width = lower[1] - lower[0]
    with np.errstate(all="ignore"):
        along = (gap[1] - gap[0] - bend[1] * width) / (bend[0] - bend[1])
        along = np.clip(
            np.where(np.isnan(along), 0.0, along), 0.0, width
        )  # any point between the ends is valid
        top = np.maximum(gap[0] + bend[0] * along, gap[1] + bend[1] * (along - width))
    # Relative margin: more than the rounding error of the gap.
    rounding = 1e-9
    return lower[0] + along, np.maximum(top, 0.0) * (1 + rounding)


def pairs(
    threshold: Threshold, u: np.ndarray, shift: np.ndarray | float, rejecting: np.ndarray | bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points of the curve of a bit ``V <= u`` whose u moves by a shift, for `around`.

    Parameters
    ----------
    threshold : Threshold
        Distribution of V.
    u : ndarray
    shift : ndarray or float
        > 0.
    rejecting : ndarray of bool
        Whether to use the probabilities of V > u + shift and V > u, and not those of V <= u and V <= u +
        shift. The less probable bit should be used.

    Returns
    -------
    lower, gap, bend : ndarray
    """
    shift = np.broadcast_to(shift, u.shape)
    at, after = threshold.log_probabilities(u), threshold.log_probabilities(u + shift)
    smaller, larger = np.where(rejecting, after[1], at[0]), np.where(rejecting, at[1], after[0])
    between = u[..., None] + 0.5 * shift[..., None] * (1 + _NODES)
    short = shift <= 0.5 * threshold.scale  # then integrals are accurate, and differences would not be
    with np.errstate(over="ignore", invalid="ignore"):
        integral = 0.5 * shift * (np.exp(threshold.log_density(between)) @ _WEIGHTS)
        gap = np.where(short, integral, -np.exp(larger) * np.expm1(smaller - larger))
        rise = threshold.log_density(u + shift) - threshold.log_density(u)
        rise = np.where(short, -0.5 * shift * (threshold.score(between) @ _WEIGHTS), rise)
        return np.exp(smaller), gap, np.expm1(np.where(rejecting, -rise, rise))


def on_batches(
    q: float, lower: np.ndarray, gap: np.ndarray, bend: np.ndarray, below: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points of a curve for `around`, if the probabilities differ in a share q of all batches only."""
    if not below:
        return lower, q * gap, q * bend
    with np.errstate(invalid="ignore"):
        return lower + (1 - q) * gap, q * gap, q * bend / (1 + (1 - q) * bend)
