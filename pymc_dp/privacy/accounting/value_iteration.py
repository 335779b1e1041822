"""What decisions cost somebody who chooses each next one by the results so far: backward induction on a grid.

The state is the privacy loss of all decisions so far. Values at grid points are upper bounds, chords between
them too (docs/proofs/value_iteration).
"""

import math
from dataclasses import dataclass

import numpy as np

from pymc_dp.privacy.accounting import rdp
from pymc_dp.privacy.accounting.corners import Corners
from pymc_dp.privacy.accounting.loss_grid import NEGLIGIBLE, RARE, LossGrid, power, replacement

# Points of the grid in the loss of an even decision.
_PARTS = 4
# So many steps are taken one by one, the others in growing blocks: each so much of the steps before it.
_FIRST, _BLOCK = 60, 0.6
# What a grid has beyond the losses that matter, in standard deviations: below, above those of delta.
_BELOW, _ABOVE = 3.0, 1.5
_LARGEST_GRID = 8_000
# Losses whose exponentials are in floating point's range.
_LARGEST_LOSS = 690.0
# Where no block is found, more steps are taken alone before the next attempt; up to so many.
_LATER, _MOST_ALONE = 1.15, 800
# Relative; more than the rounding errors of positive sums, and RELATIVE, in 100,000 steps.
_ROUNDING = 1e-6
_REMAINDER, _LEAST = 0.003, 1e-290
# Where to look is found again while epsilon falls below so much of it, on a grid that goes so much farther.
_BETTER, _FARTHER = 0.95, 1.05
# Mass that the law of a block misses, for each of its steps, in remainders (the proof, section 4).
_MASS = 0.48


@dataclass(frozen=True)
class ValueIteration:
    """Trade-off curve of decisions of one kind.

    Parameters
    ----------
    corners : Corners
        Of the decision; they hold all of its pairs of probabilities.
    count : int
    curve : callable
        Renyi divergence of all decisions at an order: says where to look, and is no part of the bound.

    Notes
    -----
    **Privacy.** Each decision may be chosen by the results of all before.
    """

    corners: Corners
    count: int
    curve: rdp.Curve

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
        order, found = rdp.best(self.curve, lambda order, value: rdp.epsilon_at(order, value, delta))
        if not found < math.inf:
            return math.inf
        found = farthest = max(found, 0.0)
        tilt = order - 1
        while True:
            table = self._table(farthest, tilt, delta)
            if table is None:
                return found
            better, tilt = _read(*table, delta)
            if not better < _BETTER * found:
                return min(better, found)
            found, farthest = better, better * _FARTHER

    def delta(self, epsilon: float) -> float:
        """Upper bound."""
        order, found = rdp.best(self.curve, lambda order, value: rdp.log_delta_at(order, value, epsilon))
        near, tilt, found = math.exp(min(found, 0.0)), order - 1, 1.0
        for _ in range(2):
            table = self._table(epsilon, tilt, max(near, _LEAST))
            if table is None:
                break
            z, values = table
            near = float(np.interp(-np.exp(epsilon), -np.exp(-z), values))  # a chord in the likelihood ratio
            if not near < found:  # NaN would be no bound
                break
            found, tilt = near, _read(z, values, near)[1]
        return found

    def _table(self, farthest: float, tilt: float, delta: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Upper bounds of delta by the remaining loss z, up to an epsilon, that are good about a delta."""
        deviation = self.spread * math.sqrt(self.count)
        above = math.sqrt(-2 * math.log(min(delta, 1.0))) + _ABOVE
        low, high = -farthest - _BELOW * deviation, above * deviation
        spacing = max(self.spread, math.sqrt(farthest / (tilt * self.count))) / _PARTS
        if not ((high - low) / spacing <= _LARGEST_GRID and low > -_LARGEST_LOSS):
            return None
        remainder = max(_REMAINDER * delta / self.count, _LEAST)
        grid = LossGrid(self.corners, spacing, low, high, RARE * remainder, farthest + high)
        values, added, done = np.maximum(-np.expm1(-grid.z), 0.0), 0.0, 0
        # Of the mass of the laws, where a decision has infinite losses: in the last of a block's steps.
        missing, sure = 4 * NEGLIGIBLE * self.count, float(grid.sure.max())
        next_block, single_steps = _FIRST, 0
        while done < self.count:
            law = None
            if done >= next_block:
                law = replacement(grid, values, tilt, remainder)
                next_block = done if law is not None else int(_LATER * done)
            if law is None:
                if single_steps >= _MOST_ALONE:
                    return None
                values, done, single_steps = grid.rows(values).max(axis=0), done + 1, single_steps + 1
                continue
            size = min(max(1, int(_BLOCK * done)), self.count - done)
            block, lost = power(grid, law, size, NEGLIGIBLE * remainder)
            values, done = grid.moved(values, block), done + size
            added += lost + size * remainder * (1 + missing + _MASS * size * sure)
        if not values[-1] < 1:
            return None
        return grid.z, np.maximum.accumulate(values) * (1 + _ROUNDING) + added


def _read(z: np.ndarray, values: np.ndarray, delta: float) -> tuple[float, float]:
    """Epsilon at `delta`, and how fast the logarithm of delta falls there with epsilon."""
    count = int(np.searchsorted(values, delta, side="right"))  # so many are at most delta
    if count == 0:
        return math.inf, 1.0
    if count == values.size or z[count - 1] >= 0:
        return 0.0, 1.0
    last = count - 1
    slope = math.log(values[count] / values[last]) / (z[count] - z[last])
    near, far = np.exp(-z[last]), np.exp(-z[count])
    share = (delta - values[last]) / (values[count] - values[last])
    return max(math.log(near + share * (far - near)) * (1 + 1e-9), 0.0), slope
