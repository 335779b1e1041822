"""Decisions as points of a square: a few corners outside of the curve stand for all of them.

Between two neighbouring data sets a decision is a pair of probabilities. What it costs is a convex function
of the pair, so that its largest value on a region is at corners of a polygon around it
(docs/proofs/value_iteration, section 1).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, ndtr

# More than the rounding error of what is added to a probability.
_ROUNDING = 1e-9
#: Shifts of normal quantiles beyond this have no corners here: the probabilities would lose their digits.
LARGEST_SHIFT = 10.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
#: Distances for values of many decisions: tangents are within some thousandths of the curve.
LOGISTIC_EDGES = np.array([80, 40, 20, 14, 10, 8, 7, 6, 5.5, 5, 4.5, *np.arange(14, -1, -1) * 0.3])
_STEP, _LEAST_STEP = 0.17, 0.085
_SHORT = 0.5  # shifts below are integrals, not differences


@dataclass(frozen=True)
class Corners:
    """Pairs of probabilities of one outcome of a decision, in both orders of the data sets.

    Parameters
    ----------
    lower, gap : ndarray, shape (m,)
        The smaller probability, and how much larger the other one is.
    """

    lower: np.ndarray
    gap: np.ndarray

    def __add__(self, other: "Corners") -> "Corners":
        return Corners(np.append(self.lower, other.lower), np.append(self.gap, other.gap))

    @property
    def losses(self) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of the ratio of the larger to the smaller probability, and of what is left of 1."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log1p(self.gap / self.lower), np.log1p(-self.gap / (1 - self.lower))


def around(lower: np.ndarray, gap: np.ndarray, bend: np.ndarray) -> Corners:
    """Corners of tangents of a concave curve, given at both ends of each of several cells.

    Parameters
    ----------
    lower, gap : ndarray, shape (2, m)
        Points of the curve, lower[0] <= lower[1]: the smaller probability, and the larger one minus it.
    bend : ndarray, shape (2, m)
        Slope of the larger probability over the smaller one, minus 1.

    Returns
    -------
    Corners
        One of each cell. With the ends of the first and the last cell their hull holds all cells, where
        neighbours have the point between them, and its slope, in common.
    """
    width = lower[1] - lower[0]
    with np.errstate(all="ignore"):
        along = (gap[1] - gap[0] - bend[1] * width) / (bend[0] - bend[1])
    along = np.clip(np.where(np.isnan(along), 0.0, along), 0.0, width)  # any point between the ends will do
    top = np.maximum(gap[0] + bend[0] * along, gap[1] + bend[1] * (along - width))
    return Corners(lower[0] + along, np.maximum(top, 0.0) * (1 + _ROUNDING))


def normal_curve(q: float, y: np.ndarray, shift: np.ndarray, below: bool) -> tuple[np.ndarray, ...]:
    """Points of the curve of a decision on a batch, for `around`.

    Parameters
    ----------
    q : float
        Batch size over number of records; 1 for all records.
    y : ndarray
        Normal quantile of the smaller probability, given the batch, at most about 0.
    shift : ndarray
        How much larger that of the other probability is.
    below : bool
        The mixture is the smaller probability, not the larger one.

    Returns
    -------
    lower, gap, bend : ndarray
    """
    shift = np.broadcast_to(shift, y.shape)
    density = np.exp(-0.5 * (y[..., None] + 0.5 * shift[..., None] * (1 + _NODES)) ** 2) @ _WEIGHTS
    gap = np.where(shift <= _SHORT, 0.5 * shift * density / math.sqrt(2 * math.pi), ndtr(y + shift) - ndtr(y))
    with np.errstate(over="ignore"):
        bend = np.expm1(-shift * (y + 0.5 * shift))
    if not below:
        return ndtr(y), q * gap, q * bend
    with np.errstate(invalid="ignore"):
        return ndtr(y) + (1 - q) * gap, q * gap, q * bend / (1 + (1 - q) * bend)


def of_normal(q: float, shift: float, edges: np.ndarray, closed: bool = False) -> Corners:
    """Corners of decisions whose quantile moves by a constant, between given distances from the middle.

    Parameters
    ----------
    q : float
        As in `normal_curve`.
    shift : float
        At most `LARGEST_SHIFT`.
    edges : ndarray, shape (m,)
        Distances of quantiles below the middle, from the largest one to 0.
    closed : bool
        Hold what is beyond the largest distance too.

    Returns
    -------
    Corners
    """
    y = -0.5 * shift - edges
    found = _along(normal_curve(q, y, np.asarray(shift), False), closed)
    return found if q == 1 else found + _along(normal_curve(q, y, np.asarray(shift), True), closed)


def normal_edges(shift: float) -> np.ndarray:
    """Distances for values of many decisions, as `LOGISTIC_EDGES`: a tangent turns by so much of a shift."""
    step = max(_STEP / max(shift, 1.0), _LEAST_STEP)
    return np.concatenate([[12.0, 11.0, 10.0, 9.0], np.arange(math.ceil(8 / step), -1, -1) * step])


def of_logistic(shift: float, edges: np.ndarray) -> Corners:
    """Corners of all decisions whose log-odds move by `shift`; edges as in `of_normal`, of log-odds."""
    y = -0.5 * shift - edges
    lower, rest = expit(y), expit(-y - shift)
    steep = shift + 2 * (log_expit(-y - shift) - log_expit(-y))
    return _along((lower, lower * rest * math.expm1(shift), np.expm1(steep)), True)


def _along(curve: tuple[np.ndarray, ...], closed: bool) -> Corners:
    """Corners of one curve through these points."""
    lower, gap, bend = curve
    ends = (np.array([one[:-1], one[1:]]) for one in curve)
    found = around(*ends) + Corners(lower[[0, -1]], gap[[0, -1]] * (1 + _ROUNDING))
    if not closed:
        return found
    # Where the first tangent meets the side of the square.
    return found + Corners(np.zeros(1), (gap[:1] - bend[:1] * lower[:1]).clip(0) + _ROUNDING * gap[:1])
