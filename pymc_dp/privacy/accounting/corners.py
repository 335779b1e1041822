"""Decisions as points of a square: a few corners outside of the curve stand for all of them.

Between two neighbouring data sets a decision is a pair of probabilities. What it costs is a convex function
of the pair, so that its largest value on a region is at corners of a polygon around it
(docs/proofs/decision_accounting, section 2).
"""

import numpy as np

from pymc_dp.privacy.accounting.thresholds import Threshold

# More than the rounding error of what is added to a probability.
_ROUNDING = 1e-9
#: Shifts of normal quantiles beyond this have no corners here: the probabilities would lose their digits.
LARGEST_SHIFT = 10.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def around(lower: np.ndarray, gap: np.ndarray, bend: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners of tangents of a concave curve, given at both ends of each of several cells.

    Parameters
    ----------
    lower, gap : ndarray, shape (2, m)
        Points of the curve, lower[0] <= lower[1]: the smaller probability, and the larger one minus it.
    bend : ndarray, shape (2, m)
        Slope of the larger probability over the smaller one, minus 1.

    Returns
    -------
    lower, gap : ndarray, shape (m,)
        One corner of each cell. With the ends of the first and the last cell their hull holds all cells,
        where neighbours have the point between them, and its slope, in common.
    """
    width = lower[1] - lower[0]
    with np.errstate(all="ignore"):
        along = (gap[1] - gap[0] - bend[1] * width) / (bend[0] - bend[1])
        along = np.clip(
            np.where(np.isnan(along), 0.0, along), 0.0, width
        )  # any point between the ends will do
        top = np.maximum(gap[0] + bend[0] * along, gap[1] + bend[1] * (along - width))
    return lower[0] + along, np.maximum(top, 0.0) * (1 + _ROUNDING)


def pairs(
    threshold: Threshold, u: np.ndarray, shift: np.ndarray | float, rejecting: np.ndarray | bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the curve of a bit ``V <= u`` whose u moves by a shift, for `around`.

    Parameters
    ----------
    threshold : Threshold
        V.
    u : ndarray
    shift : ndarray or float
        > 0.
    rejecting : ndarray of bool
        The smaller probability is that of V > u + shift, not of V <= u: the rarer bit should be taken.

    Returns
    -------
    lower, gap, bend : ndarray
    """
    shift = np.broadcast_to(shift, u.shape)
    at, after = threshold.log_probabilities(u), threshold.log_probabilities(u + shift)
    smaller, larger = np.where(rejecting, after[1], at[0]), np.where(rejecting, at[1], after[0])
    between = u[..., None] + 0.5 * shift[..., None] * (1 + _NODES)
    short = shift <= 0.5 * threshold.scale  # integrals lose no digits, differences would
    with np.errstate(over="ignore", invalid="ignore"):
        integral = 0.5 * shift * (np.exp(threshold.log_density(between)) @ _WEIGHTS)
        gap = np.where(short, integral, -np.exp(larger) * np.expm1(smaller - larger))
        rise = threshold.log_density(u + shift) - threshold.log_density(u)
        rise = np.where(short, -0.5 * shift * (threshold.score(between) @ _WEIGHTS), rise)
        return np.exp(smaller), gap, np.expm1(np.where(rejecting, -rise, rise))


def on_batches(
    q: float, lower: np.ndarray, gap: np.ndarray, bend: np.ndarray, below: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of a curve for `around`, when the probabilities differ in a share q of all batches only."""
    if not below:
        return lower, q * gap, q * bend
    with np.errstate(invalid="ignore"):
        return lower + (1 - q) * gap, q * gap, q * bend / (1 + (1 - q) * bend)
