"""What decisions cost somebody who chooses each next one by the results so far: backward induction on a grid.

The state is the privacy loss of all decisions so far. Values at grid points are upper bounds, chords between
them too (docs/proofs/value_iteration).
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.optimize import linprog

from pymc_dp.privacy.accounting import gaussian, rdp
from pymc_dp.privacy.accounting.corners import Corners
from pymc_dp.privacy.accounting.decisions import largest_excess

# Points of the grid in the loss of an even decision, where each step is taken and where steps are blocks.
_FINE, _COARSE = 8, 4
# So many steps are taken one by one; of longer runs the first few, and the others in growing blocks.
_SINGLE, _FIRST, _BLOCK = 250, 60, 0.2
# What a grid has beyond the losses that matter, in standard deviations: below, above.
_BELOW, _ABOVE = 3.0, 8.0
_LARGEST_GRID = 8_000
# A block's decision: the candidates, the points where it is fitted, and most of its total weight.
_CANDIDATES, _POINTS, _WEIGHT = 24, 60, 1.6
_LARGEST_FACTOR, _HALVINGS, _LEAST_FACTOR = 1.2, 9, 0.9
_OFTEN = 0.03  # weight of losses that are not at the target, in the fit
# Where no block is found, more steps are taken alone before the next attempt; up to so many.
_LATER, _MOST_ALONE = 1.15, 400
_NEGLIGIBLE = 1e-6  # probabilities that are not followed, in remainders
# Relative; far more than the rounding errors of positive sums.
_ROUNDING = 1e-9
_REMAINDER, _LEAST = 0.003, 1e-290
# Where epsilon is looked for, in those of a sum of Renyi divergences; and how.
_FARTHER, _ROUNDS, _PARTS = (1.0, 1.5, 4.0), 4, 40
_ORDERS = 1 + np.geomspace(0.05, 5000, 70)


class _Grid:
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
        rare = weight <= negligible
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


def _power(kernel: np.ndarray, exponent: int, negligible: float) -> tuple[np.ndarray, float]:
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


def _replacement(grid: _Grid, values: np.ndarray, tilt: float, remainder: float) -> np.ndarray | None:
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
        return _trimmed(np.convolve(half, half), _NEGLIGIBLE * remainder)[0]

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
    return at(high)


@dataclass(frozen=True)
class _Values:
    """Upper bounds of delta by the remaining loss z, and what is added to all of them."""

    z: np.ndarray
    values: np.ndarray
    added: float

    def epsilon(self, delta: float, mu: float, farthest: float) -> float:
        """Smallest epsilon with a Gaussian release; inf if it is above `farthest`."""
        if mu == 0:
            return self._alone(delta)
        low, high = 0.0, farthest
        for _ in range(_ROUNDS):
            points = np.linspace(low, high, _PARTS + 1)
            enough = self.delta(points, mu) <= delta
            if not enough.any():
                return math.inf
            index = int(np.argmax(enough))
            low, high = float(points[max(index - 1, 0)]), float(points[index])
            if low == high:
                break
        return high

    def _alone(self, delta: float) -> float:
        values = np.maximum.accumulate(self.values) * (1 + _ROUNDING) + self.added
        count = int(np.searchsorted(values, delta, side="right"))  # so many are at most delta
        if count == 0:
            return math.inf
        if count == values.size or self.z[count - 1] >= 0:
            return 0.0
        near, far = np.exp(-self.z[count - 1]), np.exp(-self.z[count])
        share = (delta - values[count - 1]) / (values[count] - values[count - 1])
        return max(math.log(near + share * (far - near)) * (1 + _ROUNDING), 0.0)

    def delta(self, epsilon: np.ndarray, mu: float) -> np.ndarray:
        """Delta with a Gaussian release before all decisions."""
        ratios = np.exp(-self.z)
        slopes = np.diff(self.values) / -np.diff(ratios)
        slopes = np.concatenate([[0.0], slopes, [(1 - self.values[-1]) / ratios[-1]]])
        weights = np.maximum(ratios * np.diff(slopes), 0.0)
        at = np.atleast_1d(epsilon)[:, None] + self.z
        # delta(-e) = 1 - exp(-e) + exp(-e) delta(e)
        positive = gaussian.delta(mu, np.abs(at))
        each = np.where(
            at >= 0, positive, -np.expm1(np.minimum(at, 0)) + np.exp(np.minimum(at, 0)) * positive
        )
        return (self.values[0] + each @ weights) * (1 + _ROUNDING) + self.added


@dataclass(frozen=True)
class ValueIteration:
    """Trade-off curve of decisions of one kind, and of Gaussian releases among them.

    Parameters
    ----------
    corners : Corners
        Of the decision; they hold all of its pairs of probabilities.
    count : int
    mu_squared : float
        Of all Gaussian releases together.

    Notes
    -----
    **Privacy.** Each decision, and when a Gaussian release comes, may be chosen by the results of all before.
    """

    corners: Corners
    count: int
    mu_squared: float
    _built: dict[tuple[float, float, float], _Values | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def spread(self) -> float:
        """About the largest standard deviation of the loss of a decision."""
        up, down = self.corners.losses
        lower = self.corners.lower
        with np.errstate(invalid="ignore"):
            squares = lower * up**2 + (1 - lower) * down**2
        return math.sqrt(float(np.max(squares[lower > 0])))

    def epsilon(self, delta: float) -> float:
        """Upper bound; inf where the grid does not reach."""
        about, tilt = self._about(delta)
        for farther in _FARTHER:
            values = self._values(farther * about, tilt, delta)
            if values is None:
                return math.inf
            found = values.epsilon(delta, math.sqrt(self.mu_squared), farther * about)
            if found < math.inf:
                return found
        return math.inf

    def delta(self, epsilon: float) -> float:
        """Upper bound."""
        divergences = self._divergences
        logs = [
            rdp.log_delta_at(order, one, epsilon) for order, one in zip(_ORDERS, divergences, strict=True)
        ]
        best = int(np.argmin(logs))
        near = max(math.exp(max(min(logs[best] - 1, 0.0), -600.0)), _LEAST)
        values = self._values(epsilon, float(_ORDERS[best]) - 1, near)
        if values is None:
            return 1.0
        return min(float(values.delta(np.array(epsilon), math.sqrt(self.mu_squared))[0]), 1.0)

    @cached_property
    def _divergences(self) -> np.ndarray:
        """Renyi divergences of all releases, but for the rarest outcomes: where to look."""
        known = self.corners.lower > 0
        some = Corners(self.corners.lower[known], self.corners.gap[known])
        one = np.array([math.log1p(largest_excess(some, order)) / (order - 1) for order in _ORDERS.tolist()])
        return self.count * one + 0.5 * _ORDERS * self.mu_squared

    def _about(self, delta: float) -> tuple[float, float]:
        """About epsilon, from above, and how fast values fall there."""
        found = [
            rdp.epsilon_at(order, one, delta) for order, one in zip(_ORDERS, self._divergences, strict=True)
        ]
        best = int(np.argmin(found))
        return max(found[best], 0.0), float(_ORDERS[best]) - 1

    def _values(self, farthest: float, tilt: float, delta: float) -> _Values | None:
        key = (farthest, tilt, delta)
        if key not in self._built:
            self._built[key] = self._iterate(*key)
        return self._built[key]

    def _iterate(self, farthest: float, tilt: float, delta: float) -> _Values | None:
        """Values up to an epsilon, that are good about a delta."""
        spread = self.spread
        deviation = spread * math.sqrt(self.count)
        single = self.count <= _SINGLE
        reach = _BELOW * deviation + 8 * math.sqrt(self.mu_squared)
        low, high = -farthest - reach, _ABOVE * deviation + 8 * math.sqrt(self.mu_squared)
        spacing = spread / (_FINE if single else _COARSE)
        if not (high - low) / spacing <= _LARGEST_GRID:
            return None
        remainder = max(_REMAINDER * delta / self.count, _LEAST)
        grid = _Grid(self.corners, spacing, low, high, _NEGLIGIBLE * remainder)
        values, added, done = np.maximum(-np.expm1(-grid.z), 0.0), 0.0, 0
        alone = self.count if single else _FIRST  # steps that are taken one by one
        while done < self.count:
            law = None
            if done >= alone:
                law = _replacement(grid, values, tilt, remainder)
                if law is None and done >= _MOST_ALONE:
                    return None
                alone = done if law is not None else int(_LATER * done)
            if law is None:
                values, done = grid.rows(values).max(axis=0), done + 1
                continue
            size = min(max(1, int(_BLOCK * done)), self.count - done)
            kernel, lost = _power(law, size, _NEGLIGIBLE * remainder)
            values = grid.moved(values, kernel)
            added, done = added + size * remainder + lost, done + size
        return _Values(grid.z, values, added) if values[-1] < 1 else None
