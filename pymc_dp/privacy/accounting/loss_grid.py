"""Values of decisions on a grid of losses: a step, and laws for many (docs/proofs/value_iteration)."""

import math

import numpy as np
from scipy.optimize import linprog

from pymc_dp.privacy.accounting.corners import Corners

#: Probabilities that are not followed, in remainders.
NEGLIGIBLE = 1e-6
# A block's decision: the candidates, the points where it is fitted, and most of its total weight.
_CANDIDATES, _POINTS, _WEIGHT = 24, 60, 1.6
_LARGEST_FACTOR, _HALVINGS, _LEAST_FACTOR = 1.2, 9, 0.9
_OFTEN = 0.03  # weight of losses that are not at the target, in the fit


class LossGrid:
    """Values at losses, as functions of the remaining loss z, and one step back.

    Parameters
    ----------
    corners : Corners
    spacing : float
    low, high : float
        Range of z.
    negligible : float
        Outcomes that are not more probable are not followed.

    Attributes
    ----------
    z : ndarray, shape (m,)
    sure : ndarray
        Probability of what is not followed, of each corner in each order.
    """

    def __init__(self, corners: Corners, spacing: float, low: float, high: float, negligible: float):
        self.spacing = spacing
        self.z = np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1) * spacing
        up, down = corners.losses
        lower, upper = corners.lower, corners.lower + corners.gap
        weight = np.concatenate([[lower, 1 - lower], [upper, 1 - lower - corners.gap]], axis=1)
        loss = np.concatenate([[-up, -down], [up, down]], axis=1)
        # A rare outcome is taken to be worth as much as an infinite loss.
        rare = (weight <= negligible) | ~np.isfinite(loss)
        self.sure = np.sum(np.where(rare, weight, 0.0), axis=0)
        weight, loss = np.where(rare, 0.0, weight), np.where(rare, 0.0, loss)
        self.below = np.floor(loss / spacing).astype(int)
        share = np.expm1(-(loss - self.below * spacing)) / math.expm1(-spacing)
        self.low_weight, self.high_weight = weight * (1 - share), weight * share
        self.pad = int(np.max(np.abs(self.below))) + 1

    def extended(self, values: np.ndarray, pad: int) -> np.ndarray:
        """Upper bounds beyond both ends: a constant, and the chord to 1 at an infinite loss."""
        above = np.exp(-self.spacing * np.arange(1, pad + 1))
        return np.concatenate([np.full(pad, values[0]), values, 1 - (1 - values[-1]) * above])

    def rows(self, values: np.ndarray, margin: int = 0) -> np.ndarray:
        """Expected values one step earlier, a row for each corner and order."""
        around, size = self.extended(values, self.pad + margin), values.size + 2 * margin
        found = np.repeat(self.sure[:, None], size, axis=1)
        for row, below, low, high in zip(
            found, self.below.T + self.pad, self.low_weight.T, self.high_weight.T, strict=True
        ):
            for i in (0, 1):
                n = below[i]
                row += low[i] * around[n : n + size]
                row += high[i] * around[n + 1 : n + 1 + size]
        return found

    def kernel(self, weights: np.ndarray) -> np.ndarray:
        """Sum of the steps of all rows, with these weights."""
        found = np.zeros(2 * self.pad + 1)
        for i in (0, 1):
            np.add.at(found, self.below[i] + self.pad, weights * self.low_weight[i])
            np.add.at(found, self.below[i] + self.pad + 1, weights * self.high_weight[i])
        return found

    def moved(self, values: np.ndarray, kernel: np.ndarray, margin: int = 0) -> np.ndarray:
        """Expected values before a loss with this law."""
        return np.convolve(self.extended(values, kernel.size // 2 + margin), kernel[::-1], mode="valid")


def power(kernel: np.ndarray, exponent: int, negligible: float) -> tuple[np.ndarray, float]:
    """Law of a sum of independent losses, and the probability that it leaves out."""
    result, lost = np.ones(1), 0.0
    left = 0.0
    while True:
        if exponent & 1:
            result, cut = _trimmed(np.convolve(result, kernel), negligible)
            lost += left + cut
        exponent >>= 1
        if not exponent:
            return result, lost
        kernel, cut = _trimmed(np.convolve(kernel, kernel), negligible)
        left = 2 * left + cut


def _trimmed(kernel: np.ndarray, negligible: float) -> tuple[np.ndarray, float]:
    middle = kernel.size // 2
    ends = np.maximum(np.cumsum(kernel[:middle]), np.cumsum(kernel[:middle:-1]))
    cut = int(np.sum(ends <= negligible))
    return kernel[cut : kernel.size - cut], 2 * negligible if cut else 0.0


def replacement(grid: LossGrid, values: np.ndarray, tilt: float, remainder: float) -> np.ndarray | None:
    """Law of a loss after which somebody is worth as much as before any decision, up to a remainder.

    It is the same whatever happened, and so may be exchanged with decisions that are not. None if none is
    found.
    """
    margin = grid.pad
    rows, here = grid.rows(values, margin), grid.extended(values, margin)
    best = rows.max(axis=0)
    gain = best - here
    seen = np.flatnonzero(gain > remainder)
    if seen.size == 0:
        return None
    points = np.unique(seen[np.linspace(0, seen.size - 1, _POINTS).astype(int)])
    slope = np.gradient(np.log(here[seen]), grid.spacing)
    target = seen[np.argmin(np.abs(slope - tilt))]
    finite = np.where(grid.sure > 0, -np.inf, 1.0)[:, None]
    some = points[np.linspace(0, points.size - 1, _CANDIDATES).astype(int)]
    candidates = np.unique(np.argmax(np.append(rows[:, some], rows[:, [target]], axis=1) * finite, axis=0))
    gains = (rows[candidates] - here) / np.where(gain > 0, gain, 1.0)
    price = gains[:, target] + _OFTEN * gains[:, points].mean(axis=1)
    solved = linprog(
        price,
        A_ub=np.vstack([-gains[:, points].T, np.ones(candidates.size)]),
        b_ub=np.append(remainder / gain[points] - 1, _WEIGHT),
        bounds=(0, None),
    )
    if solved.x is None:
        return None
    weights = np.zeros(rows.shape[0])
    weights[candidates] = np.maximum(solved.x, 0.0)
    base = grid.kernel(weights)

    def at(factor: float) -> np.ndarray:
        half = 0.5 * factor * base
        half[grid.pad] += 1 - 0.5 * factor * float(weights.sum())
        return _trimmed(np.convolve(half, half), NEGLIGIBLE * remainder)[0]

    def enough(factor: float) -> bool:
        return bool(np.all(best <= grid.moved(values, at(factor), margin) + remainder))

    low, high = _LEAST_FACTOR, 1.0
    while not enough(high):
        low, high = high, 1 + 2 * (high - 1) + 1e-3
        if high > _LARGEST_FACTOR:
            return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    law = at(high)
    # Further out than was looked at, values are a constant or a chord, as far as one step reaches.
    return law if law.size // 2 <= margin else None
