"""What decisions cost somebody who chooses each next one by the results so far: backward induction on a grid.

The state is the privacy loss of all decisions so far. Values at grid points are upper bounds, chords between
them too (docs/proofs/value_iteration).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.corners import Corners
from pymc_dp.privacy.accounting.explicit import OnePair, slope
from pymc_dp.privacy.accounting.loss_grid import NEGLIGIBLE, RARE, LossGrid, power, replacement

# Points of the grid in the loss of an even decision, where each step is taken and where steps are blocks.
_FINE, _COARSE = 8, 4
# So many steps are taken one by one; of longer runs the first few, and the others in growing blocks.
_SINGLE, _FIRST, _BLOCK = 250, 60, 0.6
# What a grid has beyond the losses that matter, in standard deviations: below, above those of delta.
_BELOW, _ABOVE = 3.0, 1.5
_LARGEST_GRID = 8_000
# Losses whose exponentials are in floating point's range.
_FARTHEST = 690.0
# Where no block is found, more steps are taken alone before the next attempt; up to so many.
_LATER, _MOST_ALONE = 1.15, 800
# Relative; more than the rounding errors of positive sums, and RELATIVE, in 100,000 steps.
_ROUNDING = 1e-6
_REMAINDER, _LEAST = 0.003, 1e-290
# Mass that the law of a block misses, for each of its steps, in remainders (the proof, section 4).
_MASS = 0.48
# Where epsilon is looked for, in those of somebody who takes one pair; and how.
_FARTHER, _ROUNDS, _PARTS, _SOME = (1.08, 1.6, 4.0), 4, 40, 1e-6


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
        return max(math.log(near + share * (far - near)) * (1 + 1e-9), 0.0)

    def delta(self, epsilon: np.ndarray, mu: float) -> np.ndarray:
        """Delta with a Gaussian release before all decisions."""
        ratios = np.exp(-self.z)
        slopes = np.diff(self.values) / -np.diff(ratios)
        slopes = np.concatenate([[0.0], slopes, [(1 - self.values[-1]) / ratios[-1]]])
        weights = np.maximum(ratios * np.diff(slopes), 0.0)
        at = np.atleast_1d(epsilon)[:, None] + self.z
        return (self.values[0] + gaussian.delta_anywhere(mu, at) @ weights) * (1 + _ROUNDING) + self.added


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

    @property
    def blocks(self) -> bool:
        """Whether steps are taken many at a time."""
        return self.count > _SINGLE

    def about(self, delta: float) -> float:
        """Epsilon of somebody who takes one pair throughout: no bound, a few per cent below."""
        return OnePair(self.corners, self.count, self.mu_squared, delta).epsilon(delta)

    def epsilon(self, delta: float) -> float:
        """Upper bound; inf where the grid does not reach."""
        about = self.about(delta)
        tilt = slope(self.corners, self.count, self.mu_squared, delta)
        for farther in _FARTHER:
            farthest = farther * about + 0.1 * self._deviation
            values = self._values(farthest, tilt, delta)
            if values is None:
                return math.inf
            found = values.epsilon(delta, math.sqrt(self.mu_squared), farthest)
            if found < math.inf:
                return found
        return math.inf

    def delta(self, epsilon: float) -> float:
        """Upper bound."""
        near = _SOME
        for _ in range(2):
            explicit = OnePair(self.corners, self.count, self.mu_squared, near)
            near = max(explicit.delta(epsilon), _LEAST)
        values = self._values(epsilon, slope(self.corners, self.count, self.mu_squared, near), near)
        if values is None:
            return 1.0
        found = float(values.delta(np.array(epsilon), math.sqrt(self.mu_squared))[0])
        return found if found < 1 else 1.0  # NaN would be no bound

    def along(self, counts: Sequence[int], mu_squared: Sequence[float], delta: float) -> np.ndarray:
        """Epsilon of the first decisions, in one pass: what is left at the end is worth what a start is.

        Parameters
        ----------
        counts : sequence of int, length m
            Decisions, from the first on; at most `count`.
        mu_squared : sequence of float, length m
            Of the Gaussian releases until then; at most that of all.
        delta : float

        Returns
        -------
        ndarray, shape (m,)
            Upper bounds; inf where nothing was found.
        """
        farthest = _FARTHER[0] * self.about(delta) + 0.1 * self._deviation
        tilt = slope(self.corners, self.count, self.mu_squared, delta)
        tables = self._tables(farthest, tilt, delta, counts)
        return np.array(
            [
                tables[n].epsilon(delta, math.sqrt(squared), farthest) if n in tables else math.inf
                for n, squared in zip(counts, mu_squared, strict=True)
            ]
        )

    @property
    def _deviation(self) -> float:
        return self.spread * math.sqrt(self.count)

    def _values(self, farthest: float, tilt: float, delta: float) -> _Values | None:
        key = (farthest, tilt, delta)
        if key not in self._built:
            self._built[key] = self._iterate(*key)
        return self._built[key]

    def _iterate(self, farthest: float, tilt: float, delta: float) -> _Values | None:
        """Values up to an epsilon, that are good about a delta."""
        return self._tables(farthest, tilt, delta, [self.count]).get(self.count)

    def _tables(self, farthest: float, tilt: float, delta: float, stops: Sequence[int]) -> dict[int, _Values]:
        """The same for as many decisions as each of `stops` says, at most all; none where none is found."""
        deviation = self._deviation
        reach = _BELOW * deviation + 8 * math.sqrt(self.mu_squared)
        above = math.sqrt(-2 * math.log(min(delta, 1.0))) + _ABOVE
        low, high = -farthest - reach, above * (deviation + math.sqrt(self.mu_squared))
        parts = _COARSE if self.blocks else _FINE
        spacing = max(self.spread, math.sqrt(farthest / (tilt * self.count))) / parts
        if not ((high - low) / spacing <= _LARGEST_GRID and low > -_FARTHEST):
            return {}
        remainder = max(_REMAINDER * delta / self.count, _LEAST)
        grid = LossGrid(self.corners, spacing, low, high, RARE * remainder, farthest + high)
        values, added, done = np.maximum(-np.expm1(-grid.z), 0.0), 0.0, 0
        # Of the mass of the laws, where a decision has infinite losses: in the last of a block's steps.
        missing, sure = 4 * NEGLIGIBLE * self.count, float(grid.sure.max())
        alone = _FIRST if self.blocks else self.count  # steps that are taken one by one
        single_steps = 0
        found: dict[int, _Values] = {}

        def keep(count: int, table: np.ndarray, more: float) -> None:
            if count in stops and table[-1] < 1:
                found[count] = _Values(grid.z, table, more)

        keep(0, values, added)
        while done < self.count:
            law = None
            if done >= alone:
                law = replacement(grid, values, tilt, remainder)
                alone = done if law is not None else int(_LATER * done)
            if law is None:
                if single_steps >= _MOST_ALONE:
                    break
                values, done, single_steps = grid.best(values), done + 1, single_steps + 1
                keep(done, values, added)
                continue
            size = min(max(1, int(_BLOCK * done)), self.count - done)
            # A law holds for a part of its block as well.
            for some in sorted({one - done for one in stops if 0 < one - done < size} | {size}):
                block, lost = power(grid, law, some, NEGLIGIBLE * remainder)
                lost += some * remainder * (1 + missing + _MASS * some * sure)
                after, more = grid.moved(values, block), lost
                keep(done + some, after, added + more)
            values, added, done = after, added + more, done + size
        return found
