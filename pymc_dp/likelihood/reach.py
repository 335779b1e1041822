"""Step lengths of a search: limited by the law of outcomes, and adapted where all records are on one side."""

from collections.abc import Iterable

import numpy as np
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.truncated import TruncatedRV
from pytensor.graph.basic import Variable

from pymc_dp.likelihood.mixtures import inverse

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
# Lower limit of the first reach, in prior standard deviations.
_LEAST = 0.25


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


def shortened(way: np.ndarray, covariance: np.ndarray, of_one: np.ndarray) -> np.ndarray:
    """Shorten a step (p,) to the posterior mean where the posterior is uncertain.

    Parameters
    ----------
    way : ndarray, shape (p,)
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
    return np.linalg.solve(known + of_one / _TRUSTED**2, known @ way)


class Reach:
    """Step length while all records are on one side: doubled up to the first turn, halved at each turn.

    Counts in the hundreds, with a model that starts at one, are six prior standard deviations of their
    logarithm away, and one record determines it to a twentieth of one: steps that are limited in standard
    errors of one record would not arrive.
    """

    def __init__(self) -> None:
        self._rounds, self._turned = 0, False
        self._reach, self._direction = 0.0, np.zeros(0)

    def step(self, pulling: float, usual: np.ndarray, direction: np.ndarray) -> np.ndarray | None:
        """Return a step, shape (p,), that replaces the usual one; None if the usual one is right.

        It is right if records are not on one side, the first time that they are, or if it is longer. With
        many directions, of which some are hardly known, the direction of scores turns often, and the reach is
        halved each time.

        Parameters
        ----------
        pulling : float
            Sum of scores, over the largest that records can reach.
        usual : ndarray, shape (p,)
            The usual step, in prior standard deviations.
        direction : ndarray, shape (p,)
            Direction that the last score points to, in the same units.
        """
        is_far = pulling > (_UNTIL if self._rounds > 1 else _FROM)
        self._rounds = self._rounds + 1 if is_far else 0
        if self._rounds == 1:
            self._reach, self._turned = max(float(np.linalg.norm(usual)), _LEAST), False
        elif is_far:
            back = bool(direction @ self._direction < 0)
            self._turned = self._turned or back
            self._reach *= 0.5 if back else 1.0 if self._turned else 2.0
        self._direction = direction
        if self._rounds < 2:
            return None
        if self._reach < np.linalg.norm(usual):
            return None
        return self._reach * direction / max(float(np.linalg.norm(direction)), 1e-300)
