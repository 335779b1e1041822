"""Step lengths of a search: limited by the law of outcomes, and adapted where records are on one side.

The sum of scores of records that are far away shows their direction, and not how far they are. So a search
that follows the posterior mean takes many small steps, and the posterior, for which scores are about linear,
is soon too sure. Where all records are on one side, steps are doubled while they pull one way, and halved
once they pulled both ways. Single groups: `brackets`.
"""

import math
from collections.abc import Iterable

import numpy as np
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.truncated import TruncatedRV
from pytensor.graph import Variable

from pymc_dp.likelihood.mixtures import inverse
from pymc_dp.likelihood.rounds import CLEARLY, Round

#: Longest step, in standard errors of one record.
LONGEST_STEP = 2.5
# Records are taken to be on one side as well if the sum has been above `until` (see `StepLength.step`), and
# in one direction, for this number of rounds after the first: where scores differ tenfold, as with exposures
# that do, the sum is far below the bound.
_STEADY = 2


def longest_step(observed: Iterable[Variable]) -> float:
    """Return the longest step of a search for outcomes of these laws: public, as the graph is.

    Parameters
    ----------
    observed : iterable of Variable
        Observed variables of a model.
    """
    longest = LONGEST_STEP
    # The longest step with a mixture of laws. Its likelihood has several modes: a component that a step moves
    # away from all records has no score that would bring it back, and the rest is then one wide component.
    of_mixtures = 0.15
    # The longest step with a truncated law, whose mean and scale are on a ridge: far out, a step along it
    # seems short.
    of_truncated = 0.4
    for variable in observed:
        law, parts = variable.owner.op, [v.owner.op for v in variable.owner.inputs if v.owner]
        if isinstance(law, MixtureRV) and not any(isinstance(part, DiracDeltaRV) for part in parts):
            longest = min(longest, of_mixtures)
        elif isinstance(law, TruncatedNormalRV | TruncatedRV):
            longest = min(longest, of_truncated)
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
    # Steps are shortened where the posterior's standard deviation is larger than this, in standard errors of
    # one record: they would follow the noise, to where no record has information.
    trusted = 1.0
    return np.linalg.solve(known + of_one / trusted**2, known @ step)


def clear_score(one: Round) -> np.ndarray:
    """Return a round's score, shape (p,), without coordinates that do not stand out of their noise.

    Groups of a look-up are taken together. If no coordinate stands out, it is the whole score.
    """
    parts, noises = one.parts.copy(), one.noises_of_parts.copy()
    for column in (column for places in one.groups for column in places.T):
        weights = one.touched[column] / one.touched[column].sum()
        parts[column], noises[column] = weights @ parts[column], np.linalg.norm(weights * noises[column])
    clear = np.abs(parts) > CLEARLY * noises
    return np.where(clear, one.most * parts, 0.0) if clear.any() else one.score


class StepLength:
    """Step length while all records are on one side: doubled up to a turn, halved after it.

    Counts in the hundreds, with a model that starts at one, are six prior standard deviations of their
    logarithm away, and one record determines it to a twentieth of one: steps that are limited in standard
    errors of one record would not arrive.
    """

    def __init__(self) -> None:
        self._rounds, self._steady, self._turned = 0, 0, False
        self._reach, self._length, self._most = 0.0, 0.0, math.inf
        self._direction, self._step = np.zeros(0), np.zeros(0)

    @property
    def is_running(self) -> bool:
        """Whether records were on one side twice, so that steps may be longer than usual ones."""
        return self._rounds > 1

    def step(
        self, pulling: float, usual: np.ndarray, direction: np.ndarray, information: np.ndarray
    ) -> np.ndarray:
        """Return a step, shape (p,), that may be longer than the usual one.

        It is the usual one if records are not on one side, or the first time that they are. After that it is
        doubled, unless the usual one is longer or becomes shorter from round to round. At a turn it goes half
        of the last step back, and on by halves until the usual step is longer. It is then doubled again, up
        to the step that went too far.

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
        length = float(np.linalg.norm(usual))
        # If the usual step is less than this part of the last one, the search is arriving.
        shrinking = 0.8
        arriving, self._length = length < shrinking * self._length, length
        # Records are taken to be on one side until the sum of scores is below this part of the largest.
        until = 0.2
        steady = pulling > until and onward > 0 and not arriving
        self._steady = self._steady + 1 if steady else 0
        # If the sum of scores is more than this part of the largest that records can reach, all records are
        # on one side: it then shows in which direction the parameters are, but not how far away, however
        # precise it is.
        from_part = 0.5
        is_far = pulling > (until if self.is_running or self._steady >= _STEADY else from_part)
        self._rounds = self._rounds + 1 if is_far else 0
        self._direction = direction
        step = usual
        # Lower limit of the first reach, in prior standard deviations; with a vague prior, over the usual
        # step.
        least, least_of_usual = 0.25, 10.0
        if self._rounds == 1:
            self._reach = max(length, min(least, least_of_usual * length))
            self._turned, self._most = False, math.inf
        elif self.is_running and (onward < 0 or self._turned):
            # The parameters are between two points that are a step apart: halfway on, or back.
            last = float(np.linalg.norm(self._step))
            self._most = last if onward < 0 else self._most
            self._turned, self._reach = last / 2 >= length, length
            step = math.copysign(0.5, onward) * self._step if self._turned else usual
        elif self.is_running and not arriving:
            self._reach = min(2 * self._reach, self._most)
            step = self._reach * direction if self._reach > length else usual
        self._step = step
        return step
