"""Step lengths of a search: limited by the law of outcomes, and adapted where records are on one side.

The sum of scores of records that are far away shows their direction, and not how far they are. So a search
that follows the posterior mean takes many small steps, and the posterior, for which scores are about linear,
is soon too sure. Where all records are on one side, or all of a group, steps are doubled while they pull one
way, and halved once they pulled both ways; a group that still pulls at the end is said to be unknown.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.truncated import TruncatedRV
from pytensor.graph.basic import Variable

from pymc_dp.likelihood.groups import FEWEST
from pymc_dp.likelihood.mixtures import inverse
from pymc_dp.likelihood.rounds import AT_REST, CLEARLY, Round

#: Longest step, in standard errors of one record.
LONGEST_STEP = 2.5
# The same with a mixture of laws. Its likelihood has several modes: a component that a step moves away from
# all records has no score that would bring it back, and the rest is then one wide component.
_OF_MIXTURES = 0.15
# The same with a truncated law, whose mean and scale are on a ridge: far out, a step along it seems short.
_OF_TRUNCATED = 0.4

# Steps are shortened where the posterior's standard deviation is larger than this, in standard errors of one
# record: they would follow the noise, to where no record has information.
_TRUSTED = 1.0
# If the sum of scores is more than this part of the largest that records can reach, all records are on one
# side: it then shows in which direction the parameters are, but not how far away, however precise it is.
_FROM = 0.5
# They are taken to be on one side until the sum is below this part.
_UNTIL = 0.2
# They are so as well if the sum has been above `_UNTIL`, and in one direction, for this number of rounds after
# the first: where scores differ tenfold, as with exposures that do, the sum of all is far below the bound.
_STEADY = 2
# Lower limit of the first reach, in prior standard deviations; with a vague prior, over the usual step.
_LEAST, _LEAST_OF_USUAL = 0.25, 50.0
# A coordinate's own score counts as a pull beyond this many standard deviations of its noise.
_BEYOND = 2.0
# If the standard deviation of a score's noise is more than this part of the largest sum that a group's
# records can reach, a score that clearly pulls is beyond that sum: it is noise, or their number is wrong.
_MOST_NOISE = 1 / 3
# First step of a group that clearly pulls, and least distance between a lower and an upper limit, in standard
# errors of one record: records between two nearer limits would not pull as much.
_LEAST_ALONE = 0.5
# Part of the largest possible sum that a group's records reach at least if they are far away. Below it, the
# posterior mean is a better guide.
_FROM_FAR = 0.3


def longest_step(observed: Iterable[Variable]) -> float:
    """Return the longest step of a search for outcomes of these laws: public, as the graph is.

    Parameters
    ----------
    observed : iterable of Variable
        Observed variables of a model.
    """
    longest = LONGEST_STEP
    for variable in observed:
        law, parts = variable.owner.op, [v.owner.op for v in variable.owner.inputs if v.owner]
        if isinstance(law, MixtureRV) and not any(isinstance(part, DiracDeltaRV) for part in parts):
            longest = min(longest, _OF_MIXTURES)
        elif isinstance(law, TruncatedNormalRV | TruncatedRV):
            longest = min(longest, _OF_TRUNCATED)
    return longest


def shortened(step: np.ndarray, covariance: np.ndarray, of_one: np.ndarray) -> np.ndarray:
    """Shorten a step (p,) to the posterior mean where the posterior is uncertain.

    Parameters
    ----------
    step : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        Covariance of the posterior.
    of_one : ndarray, shape (p, p)
        Information of one record.

    Notes
    -----
    The result is the step to the mean of the posterior times a normal density around the point (Levenberg
    1944, A method for the solution of certain non-linear problems in least squares).
    """
    known = inverse(covariance)
    return np.linalg.solve(known + of_one / _TRUSTED**2, known @ step)


class Reach:
    """Step length while all records are on one side: doubled up to the first turn, halved at each turn.

    Counts in the hundreds, with a model that starts at one, are six prior standard deviations of their
    logarithm away, and one record determines it to a twentieth of one: steps that are limited in standard
    errors of one record would not arrive.
    """

    def __init__(self) -> None:
        self._rounds, self._steady, self._onward, self._turned = 0, 0, 0, False
        self._reach, self._direction, self._step = 0.0, np.zeros(0), np.zeros(0)

    @property
    def is_running(self) -> bool:
        """Whether records were on one side twice, so that steps may be longer than usual ones."""
        return self._rounds > 1

    def step(
        self, pulling: float, usual: np.ndarray, direction: np.ndarray, information: np.ndarray
    ) -> np.ndarray:
        """Return a step, shape (p,), that may be longer than the usual one.

        It is the usual one if records are not on one side, the first time that they are, or if that is
        longer. With many directions, of which some are hardly known, the direction of scores turns often, and
        the reach is halved each time.

        Parameters
        ----------
        pulling : float
            Sum of scores, over the largest that records can reach.
        usual : ndarray, shape (p,)
            The usual step, in prior standard deviations.
        direction : ndarray, shape (p,)
            Direction that the last score points to, in the same units.
        information : ndarray, shape (p, p)
            Two directions are one way, or the other, as records see them: coordinates of which records say
            little may turn with each score.
        """
        direction = direction / max(float(np.linalg.norm(direction)), 1e-300)
        onward = direction @ information @ self._direction if self._direction.size else 0.0
        self._steady = self._steady + 1 if pulling > _UNTIL and onward > 0 else 0
        is_far = pulling > (_UNTIL if self.is_running or self._steady >= _STEADY else _FROM)
        self._rounds = self._rounds + 1 if is_far else 0
        if self._rounds == 1:
            own = float(np.linalg.norm(usual))
            self._reach, self._turned = max(own, min(_LEAST, _LEAST_OF_USUAL * own)), False
        elif is_far:
            self._onward = self._onward + 1 if onward > 0 else 0
            # After a turn the parameters are less than two steps away; else it was none.
            self._turned = onward < 0 or (self._turned and self._onward < 2)
            self._reach *= 0.5 if onward < 0 else 1.0 if self._turned else 2.0
        self._direction = direction
        # Once there was a turn, the parameters are between two points that are twice the reach apart.
        longest, own = 2 * self._reach if self._turned else math.inf, np.linalg.norm(usual)
        if not self.is_running:
            step = usual
        elif onward < 0:
            step = -self._step / 2
        else:
            step = usual if self._reach <= own <= longest else self._reach * direction
        self._step = step
        return step


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
        side = np.where(clear & (self._noise < _MOST_NOISE), np.sign(alone), 0.0)
        least = _LEAST_ALONE * np.abs(unit)
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
