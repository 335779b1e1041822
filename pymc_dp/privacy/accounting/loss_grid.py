"""Values of decisions on a grid of losses: a step, and laws for many (docs/proofs/value_iteration)."""

import math
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.optimize import linprog

from pymc_dp.privacy.accounting.corners import Corners

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
    farthest : float
        Losses that are followed; from a larger one, values should be lines in the likelihood ratio.

    Attributes
    ----------
    z : ndarray, shape (m,)
    reach : int
        The same in units of the spacing, not more than the grid.
    sure : ndarray
        Probability of what is not followed, of each corner in each order.
    """

    def __init__(
        self,
        corners: Corners,
        spacing: float,
        low: float,
        high: float,
        negligible: float,
        farthest: float = math.inf,
    ):
        self.spacing = spacing
        self.z = np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1) * spacing
        self.reach = reach = math.ceil(min(farthest, high - low) / spacing)
        up, down = corners.losses
        lower, upper = corners.lower, corners.lower + corners.gap
        weight = np.concatenate([[lower, 1 - lower], [upper, 1 - lower - corners.gap]], axis=1)
        loss = np.concatenate([[-up, -down], [up, down]], axis=1)
        # A rare outcome is taken to be worth as much as an infinite loss.
        rare = (weight <= negligible) | ~np.isfinite(loss)
        self.sure = np.sum(np.where(rare, weight, 0.0), axis=0)
        weight, loss = np.where(rare, 0.0, weight), np.where(rare, 0.0, loss)
        # So is what is beyond the reach of a step, in part (`folded`).
        beyond = loss > (most := reach * spacing)
        self.sure += np.sum(np.where(beyond, -weight * np.expm1(np.minimum(most - loss, 0.0)), 0.0), axis=0)
        weight = np.where(beyond, weight * np.exp(np.minimum(most - loss, 0.0)), weight)
        loss = np.clip(loss, -most, most)
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
        size = values.size + 2 * margin
        shifted = sliding_window_view(self.extended(values, self.pad + margin), size)
        found = np.repeat(self.sure[:, None], size, axis=1)
        for below, low, high in zip(self.below + self.pad, self.low_weight, self.high_weight, strict=True):
            found += low[:, None] * shifted[below] + high[:, None] * shifted[below + 1]
        return found

    def law(self, weights: np.ndarray) -> "Law":
        """Sum of the steps of all rows, with these weights; what is not followed has an infinite loss."""
        found = np.zeros(2 * self.pad + 1)
        for i in (0, 1):
            np.add.at(found, self.below[i] + self.pad, weights * self.low_weight[i])
            np.add.at(found, self.below[i] + self.pad + 1, weights * self.high_weight[i])
        return Law(found, float(weights @ self.sure))

    def moved(self, values: np.ndarray, law: "Law", margin: int = 0) -> np.ndarray:
        """Expected values before a loss with this law."""
        around = self.extended(values, law.reach + margin)
        used = law.used
        found = np.correlate(around, law.masses[used], mode="valid")
        return found[used.start : used.start + values.size + 2 * margin] + law.infinite

    def folded(self, law: "Law") -> "Law":
        """A law of losses up to `reach`: with larger ones instead, it is worth as much or less.

        Less extreme ends of the lower side are worth more. A larger loss is between `reach` and an infinite
        one in the likelihood ratio, and values are below chords in it: exact where they are lines there.
        """
        beyond = law.reach - self.reach
        if beyond <= 0:
            return law
        kept = law.masses[beyond:-beyond].copy()
        kept[0] += law.masses[:beyond].sum()
        above = law.masses[-beyond:]
        share = np.exp(-self.spacing * np.arange(1, beyond + 1))
        kept[-1] += above @ share
        return Law(kept, law.infinite + float(above @ (1 - share)))


class Law(NamedTuple):
    """Law of a loss, at most a probability.

    Attributes
    ----------
    masses : ndarray, shape (2 reach + 1,)
        At multiples of the spacing; 0 in the middle.
    infinite : float
        Probability of an infinite loss.
    """

    masses: np.ndarray
    infinite: float

    @property
    def reach(self) -> int:
        """The largest multiple."""
        return self.masses.size // 2

    @property
    def used(self) -> slice:
        """Where masses are not 0."""
        where = np.flatnonzero(self.masses)
        return slice(int(where[0]), int(where[-1]) + 1) if where.size else slice(0, 1)

    def added(self, other: "Law") -> "Law":
        """Of the sum of independent losses, by sums of products alone: no digit of small values is lost."""
        found = np.zeros(self.masses.size + other.masses.size - 1)
        start = self.used.start + other.used.start
        inside = np.convolve(self.masses[self.used], other.masses[other.used])
        found[start : start + inside.size] = inside
        return Law(found, self.infinite + other.infinite)

    def trimmed(self, negligible: float) -> tuple["Law", float]:
        """Without what is negligible at each end, and how much that is at most."""
        first = int(np.sum(np.cumsum(self.masses[: self.reach]) <= negligible))
        last = int(np.sum(np.cumsum(self.masses[: self.reach : -1]) <= negligible))
        cut = min(first, last)
        kept = self.masses[cut : self.masses.size - cut].copy()
        # Zeros at the longer end cost no time.
        kept[: first - cut] = 0.0
        kept[kept.size - (last - cut) :] = 0.0
        return Law(kept, self.infinite), negligible * ((first > 0) + (last > 0))


def power(grid: LossGrid, law: Law, exponent: int, negligible: float) -> tuple[Law, float]:
    """Law of a sum of independent losses, or one that is worth more, and the probability it leaves out."""
    result, lost = Law(np.ones(1), 0.0), 0.0
    left = 0.0
    while True:
        if exponent & 1:
            result, cut = grid.folded(result.added(law)).trimmed(negligible)
            lost += left + cut
        exponent >>= 1
        if not exponent:
            return result, lost
        law, cut = grid.folded(law.added(law)).trimmed(negligible)
        left = 2 * left + cut


def replacement(grid: LossGrid, values: np.ndarray, tilt: float, remainder: float) -> Law | None:
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
    gain = (best - here)[seen]
    usable = np.union1d(np.argmax(rows[:, seen], axis=0), np.arange(0, rows.shape[0], _EVERY))
    gains = (rows[np.ix_(usable, seen)] - here[seen]) / gain
    needed = 1 - allowed[seen] / gain
    target = int(np.argmin(np.abs(np.gradient(np.log(here[seen]), grid.spacing) - tilt)))
    parts = [part for part in np.array_split(np.arange(seen.size), _POINTS) if part.size]
    points = np.unique([*(part[0] for part in parts), seen.size - 1])  # where enough is asked for
    price = gains[:, target] + _OFTEN * gains[:, points].mean(axis=1) + _EACH
    weights = np.zeros(rows.shape[0])
    for attempt in range(_ATTEMPTS):
        found = None
        for _ in range(_ROUNDS):
            found = _cheapest(price, gains[:, points], needed[points])
            if found is None:
                return None
            short = needed - found @ gains
            worst = [part[np.argmax(short[part])] for part in parts]
            if not np.any(short[worst] > _SHORT):
                break
            points = np.union1d(points, [one for one in worst if short[one] > _SHORT])
        weights[usable] = found
        law = _law(grid, weights, _LEFT_OUT * remainder)
        if law.reach > margin:
            # Further out than is looked at, values are a constant or a chord, as far as the law reaches.
            return None
        after = grid.moved(values, law, margin)
        missing = best - (1 + RELATIVE) * after - remainder
        if np.all(missing <= 0):
            return law
        short = np.maximum(missing / np.maximum(after - here, remainder), 0.0)[seen]
        needed *= 1 + 1.05 * short + _STEP
        if attempt >= _LOCALLY:
            needed *= 1 + float(short.max())
    return None


def _cheapest(price: np.ndarray, gains: np.ndarray, needed: np.ndarray) -> np.ndarray | None:
    """Weights of rows that together gain enough at all points, at the least price; None if there are none.

    What is found is tested where it is used: nothing that is proved depends on the solver.
    """
    gains, most = np.vstack([-gains.T, np.ones(price.size)]), np.append(-needed, _WEIGHT)
    return linprog(price, gains, most).x


def _law(grid: LossGrid, weights: np.ndarray, negligible: float) -> Law:
    """``(1 + A / m)^m`` for steps minus 1, A, with these weights: a law as soon as m is their sum."""
    total = float(weights.sum())
    parts = max(2, math.ceil(total))
    base = grid.law(weights / parts)
    base.masses[grid.pad] += 1 - total / parts
    return power(grid, base, parts, negligible)[0]
