"""Values of decisions on a grid of losses: a step, and laws for many (docs/proofs/value_iteration)."""

import math

import numpy as np

from pymc_dp.privacy.accounting.corners import Corners
from pymc_dp.privacy.accounting.simplex import Cover

#: Probabilities that are left out of a law, in remainders; and outcomes that are not followed.
NEGLIGIBLE, RARE = 1e-6, 0.1
#: Shares of values that are not looked at: far more than their rounding errors.
RELATIVE = 1e-12
# A block's decision: the points where it is fitted, and most of its total weight.
_POINTS, _WEIGHT = 30, 24.0
_EVERY = 9  # of corners that are nowhere the best one, so many-th is used
_LEFT_OUT = 0.01  # of a step's law, in remainders
# What counts in the fit next to losses at the target: other losses, and the total weight.
_OFTEN, _EACH = 0.3, 1e-3
_ROUNDS, _SHORT = 6, 2e-3  # points are added so often, where so much is missing
_SPARE = 0.5  # of the remainder is used by the fit
_ATTEMPTS, _LOCALLY, _STEP = 8, 3, 2e-3  # what is missing is asked for more of, in the end everywhere
_FARTHER = 100  # points that are looked at beyond a grid


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
        """Sum of the steps of all rows, with these weights; what is not followed has the largest loss."""
        found = np.zeros(2 * self.pad + 1)
        found[-1] = weights @ self.sure
        for i in (0, 1):
            np.add.at(found, self.below[i] + self.pad, weights * self.low_weight[i])
            np.add.at(found, self.below[i] + self.pad + 1, weights * self.high_weight[i])
        return found

    def moved(self, values: np.ndarray, kernel: np.ndarray, margin: int = 0) -> np.ndarray:
        """Expected values before a loss with this law."""
        around = self.extended(values, kernel.size // 2 + margin)
        return _convolved(around, kernel[::-1])[kernel.size - 1 : around.size]


def _convolved(values: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Convolution by sums of products alone: no digit of small values is lost."""
    used = np.flatnonzero(kernel)
    if not used.size:
        return np.zeros(values.size + kernel.size - 1)
    found = np.convolve(values, kernel[used[0] : used[-1] + 1])
    return np.pad(found, (used[0], kernel.size - 1 - used[-1]))


def power(kernel: np.ndarray, exponent: int, negligible: float) -> tuple[np.ndarray, float]:
    """Law of a sum of independent losses, and the probability that it leaves out."""
    result, lost = np.ones(1), 0.0
    left = 0.0
    while True:
        if exponent & 1:
            result, cut = _trimmed(_convolved(result, kernel), negligible)
            lost += left + cut
        exponent >>= 1
        if not exponent:
            return result, lost
        kernel, cut = _trimmed(_convolved(kernel, kernel), negligible)
        left = 2 * left + cut


def _trimmed(kernel: np.ndarray, negligible: float) -> tuple[np.ndarray, float]:
    """A kernel without what is negligible at each end, and how much that is at most."""
    middle = kernel.size // 2
    first = int(np.sum(np.cumsum(kernel[:middle]) <= negligible))
    last = int(np.sum(np.cumsum(kernel[:middle:-1]) <= negligible))
    cut = min(first, last)
    kept = kernel[cut : kernel.size - cut].copy()
    # Zeros, not numbers that are too small for floating point's full speed.
    kept[: first - cut] = 0.0
    kept[kept.size - (last - cut) :] = 0.0
    return kept, negligible * ((first > 0) + (last > 0))


def replacement(grid: LossGrid, values: np.ndarray, tilt: float, remainder: float) -> np.ndarray | None:
    """Law of a loss after which somebody is worth as much as before any decision, up to a remainder.

    It is the same whatever happened, and so may be exchanged with decisions that are not. It is made to be
    good where values grow like exp(tilt z). None if none is found.
    """
    margin = int(1.5 * grid.pad) + _FARTHER
    rows, here = grid.rows(values, margin), grid.extended(values, margin)
    best = rows.max(axis=0)
    allowed = _SPARE * remainder + RELATIVE * here
    seen = np.flatnonzero(best - here > allowed)
    if seen.size == 0:
        return None
    gain, known = (best - here)[seen], np.flatnonzero(grid.sure <= remainder)
    usable = np.union1d(known[np.argmax(rows[np.ix_(known, seen)], axis=0)], known[::_EVERY])
    gains = (rows[np.ix_(usable, seen)] - here[seen]) / gain
    needed = 1 - allowed[seen] / gain
    target = int(np.argmin(np.abs(np.gradient(np.log(here[seen]), grid.spacing) - tilt)))
    fit = _Fit(gains, gains[:, target])
    weights = np.zeros(rows.shape[0])
    for attempt in range(_ATTEMPTS):
        found = fit.weights(needed)
        if found is None:
            return None
        weights[usable] = found
        law = _law(grid, weights, _LEFT_OUT * remainder)
        if law.size // 2 > margin:
            # Further out than is looked at, values are a constant or a chord, as far as the law reaches.
            return None
        after = grid.moved(values, law, margin)
        missing = best - (1 + RELATIVE) * after - remainder
        if np.all(missing <= 0):
            return law
        short = np.maximum(missing / np.maximum(after - here, remainder), 0.0)
        needed *= 1 + 1.05 * short[seen] + _STEP
        if attempt >= _LOCALLY:
            needed *= 1 + float(short.max())
    return None


class _Fit:
    """Weights of rows that together gain enough everywhere, at the least price.

    Parameters
    ----------
    gains : ndarray, shape (rows, points)
    dear : ndarray, shape (rows,)
        Gains where the price counts most.
    """

    def __init__(self, gains: np.ndarray, dear: np.ndarray):
        self._gains = gains
        self._parts = [part for part in np.array_split(np.arange(gains.shape[1]), _POINTS) if part.size]
        self._next = np.array(sorted({part[0] for part in self._parts} | {gains.shape[1] - 1}))
        self._points = self._next[:0]  # where enough is asked for
        self._cover = Cover(dear + _OFTEN * gains[:, self._next].mean(axis=1) + _EACH, _WEIGHT)

    def weights(self, needed: np.ndarray) -> np.ndarray | None:
        """Weights with gains of at least `needed`, nearly; points are added where they are missing."""
        self._cover.move(needed[self._points])
        found = None
        for _ in range(_ROUNDS):
            self._cover.require(self._gains[:, self._next].T, needed[self._next])
            self._points, self._next = np.append(self._points, self._next), self._next[:0]
            found = self._cover.weights()
            if found is None:
                return None
            short = needed - found @ self._gains
            worst = np.array([part[np.argmax(short[part])] for part in self._parts])
            self._next = np.unique(worst[short[worst] > _SHORT])
            if not self._next.size:
                break
        return found


def _law(grid: LossGrid, weights: np.ndarray, negligible: float) -> np.ndarray:
    """``(1 + A / m)^m`` for steps minus 1, A, with these weights: a law as soon as m is their sum."""
    total = float(weights.sum())
    parts = max(2, math.ceil(total))
    base = grid.kernel(weights / parts)
    base[grid.pad] += 1 - total / parts
    where = np.flatnonzero(base)
    law = base
    for _ in range(parts - 1):
        longer = np.zeros(law.size + 2 * grid.pad)
        for i in where:
            longer[i : i + law.size] += base[i] * law
        law = _trimmed(longer, negligible)[0]
    return law
