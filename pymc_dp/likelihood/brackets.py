"""Pulls of single coordinates, and the limits that those of groups give.

The records of a group that is far from all others are on one side, as those of all may be (`reach`). Its
steps are doubled while it pulls one way, and halved once it pulled both ways; a group that still pulls at the
end is said to be unknown.
"""

import math
from collections.abc import Sequence

import numpy as np

from pymc_dp.likelihood.groups import FEWEST
from pymc_dp.likelihood.rounds import AT_REST, CLEARLY, Round

# A coordinate's own score counts as a pull beyond this many standard deviations of its noise.
_BEYOND = 2.0
# Part of the largest possible sum that a group's records reach at least if they are far away. Below it, the
# posterior mean is a better guide.
_FROM_FAR = 0.3


class Brackets:
    """Lower and upper limits of the coordinates of groups, from all rounds.

    Coordinates are those of a group alone, less the median of all groups: a search moves these together where
    records of all are on one side. A pull is what is left of a group's own after that, in the same direction.
    Look-ups with several coordinates a group are left out: there a score is one of all of them.

    Parameters
    ----------
    rounds : sequence of Round
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group.
    places : sequence of ndarray of int, shape (G, q)
        Coordinates of the metric that belong to each group.
    """

    def __init__(self, rounds: Sequence[Round], lookups: Sequence[np.ndarray], places: Sequence[np.ndarray]):
        self._columns, of_metric = (
            [rows[:, 0] for rows in each if len(rows) >= FEWEST and rows.shape[1] == 1]
            for each in (lookups, places)
        )
        self._at, self._places = _joined(self._columns), _joined(of_metric)
        self._point, size = rounds[-1].point, len(self._at)
        self._lower, self._upper = np.full(size, -math.inf), np.full(size, math.inf)
        # The side on which the last round shows the group, and the step that it then takes at least.
        self._side, self._reach = np.zeros(size), np.zeros(size)
        before = rounds[0].point
        for one in rounds:
            self._add(one, before)
            before = one.point

    def _add(self, one: Round, before: np.ndarray) -> None:
        """Move the limits as a round's pulls show; `before`, shape (p,), is the point of the one before."""
        x, unit = self._alone(one.point)[0], one.metric[self._places, self._at]
        pulls, self._noise = np.zeros(len(before)), one.noises_of_parts[self._places]
        pulls[self._at] = np.sign(unit) * one.parts[self._places]
        own, alone = pulls[self._at], self._alone(pulls)[0]
        same = np.where(own * alone > 0, np.minimum(np.abs(own), np.abs(alone)), 0.0)
        self._part = np.sign(alone) * same
        clear = same > np.maximum(CLEARLY * self._noise, _FROM_FAR)
        # If the standard deviation of a score's noise is more than this part of the largest sum that a
        # group's records can reach, a score that clearly pulls is beyond that sum: it is noise, or their
        # number is wrong.
        most_noise = 1 / 3
        side = np.where(clear & (self._noise < most_noise), np.sign(alone), 0.0)
        # First step of a group that clearly pulls, and least distance between a lower and an upper limit, in
        # standard errors of one record: records between two nearer limits would not pull as much.
        least_alone = 0.5
        least = least_alone * np.abs(unit)
        self._lower[(side < 0) & (x - self._lower < least)] = -math.inf
        self._upper[(side > 0) & (self._upper - x < least)] = math.inf
        self._lower, self._upper = np.where(side > 0, x, self._lower), np.where(side < 0, x, self._upper)
        again = np.where(side == self._side, 2 * np.abs(x - self._alone(before)[0]), 0.0)
        self._side, self._reach = side, np.maximum(again, least)

    def _alone(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return values, shape (p,), of each group less the median of its column; and these medians."""
        middle = [np.full(len(column), np.median(values[column])) for column in self._columns]
        return values[self._at] - _joined(middle), _joined(middle)

    @property
    def _way(self) -> np.ndarray:
        """Direction in which a group's coordinate has no limit although it has one in the other; or 0."""
        return np.isfinite(self._lower).astype(int) - np.isfinite(self._upper)

    def step(self, usual: np.ndarray) -> np.ndarray:
        """Return a step, shape (p,), within the limits: a longer one for groups that clearly pull."""
        (own, middle), x, result = self._alone(usual), self._alone(self._point)[0], usual.copy()
        longer = self._side * np.maximum(self._side * own, self._reach)
        with np.errstate(invalid="ignore"):
            half = (self._lower + self._upper) / 2 - x
        stays = np.where((x + own < self._lower) | (x + own > self._upper), 0.0, own)
        changed = np.where(self._side == 0, stays, np.where(self._way != 0, longer, half))
        result[_joined(self._columns)[changed != own]] = (middle + changed)[changed != own]
        return result

    def within(self, mean: np.ndarray) -> np.ndarray:
        """Return a mean, shape (p,), with the point for coordinates that are beyond their limits."""
        (own, middle), result = self._alone(mean), mean.copy()
        beyond = (own < self._lower) | (own > self._upper)
        result[_joined(self._columns)[beyond]] = (middle + self._alone(self._point)[0])[beyond]
        return result

    @property
    def still_pull(self) -> bool:
        """Whether records of some group clearly pull as much as if they were far away."""
        return bool(((self._way != 0) & (self._side != 0)).any())

    @property
    def open_ended(self) -> np.ndarray:
        """Coordinates of the metric, shape (p,), of groups that may still be any distance away."""
        part, result = self._way * self._part, np.zeros(len(self._point), dtype=bool)
        result[self._places] = (part > _BEYOND * self._noise) & (part + self._noise > _FROM_FAR)
        return result


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=int)


def pulls_of(parts: np.ndarray, noises: np.ndarray) -> np.ndarray:
    """Return which part of the largest possible sum each coordinate's score is, beyond its noise: shape (p,).

    The records of a group that is far away are all clipped: steps are too short for it alone.

    Parameters
    ----------
    parts : ndarray, shape (p,)
        Scores over the largest sum that the records which touch a coordinate can reach.
    noises : ndarray, shape (p,)
        Standard deviations of their noise.
    """
    return np.maximum(np.abs(parts) - _BEYOND * noises, 0.0)


def pulls_of_all(rounds: Sequence[Round]) -> np.ndarray:
    """Return which part of its largest possible sum each coordinate's score is, at the end: shape (p,).

    That of the last round; or of all rounds together, with less noise, if the last one clearly shows a pull
    in the same direction. Records of a group that is far away pull on other coordinates too, and the last
    round alone may not show how far.
    """
    parts = np.array([one.parts for one in rounds])
    noises = np.array([one.noises_of_parts for one in rounds])
    weights = noises**-2 / (noises**-2).sum(0)
    whole, error = (weights * parts).sum(0), (noises**-2).sum(0) ** -0.5
    own, together = pulls_of(parts[-1], noises[-1]), pulls_of(whole, error)
    clear = (np.abs(parts[-1]) > np.maximum(CLEARLY * noises[-1], AT_REST)) & (whole * parts[-1] > 0)
    return np.where(clear, np.maximum(own, together), own)
