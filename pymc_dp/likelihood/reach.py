"""How far a search goes in one step: by the law of outcomes; by direction alone where all are on one side."""

from collections.abc import Iterable

import numpy as np
from pymc.distributions.continuous import TruncatedNormalRV
from pymc.distributions.distribution import DiracDeltaRV
from pymc.distributions.mixture import MixtureRV
from pymc.distributions.truncated import TruncatedRV
from pytensor.graph.basic import Variable

from pymc_dp.likelihood.mixtures import inverse

#: Longest step, in units of what one record tells.
LONGEST_STEP = 2.5
# The same of a mixture. Its likelihood has several modes: a component that a step throws out of all records
# gets no score that would bring it back, and the rest is then one wide component.
_OF_MIXTURES = 0.15
# The same of a truncated law, whose mean and spread are on a ridge: far out a step along it seems short.
_OF_TRUNCATED = 0.4

# Where what is believed is uncertain by more than this, in units of what one record tells, a step would go by
# noise, to where no record tells anything.
_TRUSTED = 1.0
# From this part of what all records can pull with they are all on one side: the score then says in which
# direction the parameters are and not how far, however precise it is.
_FROM = 0.5
# Below this part they are no longer.
_UNTIL = 0.2
# The first such step, at least, in prior standard deviations.
_LEAST = 0.25


def longest_step(observed: Iterable[Variable]) -> float:
    """Longest step of a search, for outcomes of these laws: public, as the graph is.

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
    """A way (p,) to what is believed, shorter where that is uncertain.

    Parameters
    ----------
    way : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        Of what is believed.
    of_one : ndarray, shape (p, p)
        What one record tells.

    Notes
    -----
    The mean of what is believed and of a normal law around the point (Levenberg 1944, A method for the
    solution of certain non-linear problems in least squares).
    """
    known = inverse(covariance)
    return np.linalg.solve(known + of_one / _TRUSTED**2, known @ way)


class Reach:
    """Doubles the reach while the direction stays, and halves it when that turns.

    Counts in the hundreds whose model starts at one are six prior standard deviations of their logarithm
    away, in units of which one record tells a twentieth: steps that go by these units would not arrive.
    """

    def __init__(self) -> None:
        self._rounds, self._turned = 0, False
        self._reach, self._direction = 0.0, np.zeros(0)

    def step(self, pulling: float, usual: np.ndarray, direction: np.ndarray) -> np.ndarray | None:
        """Step in place of the usual one, shape (p,); None where that is right, as it is the first time.

        Or where it is longer: in many directions of which some are hardly known the one that scores point to
        turns often, and the reach is halved each time.

        Parameters
        ----------
        pulling : float
            Part of what all records can pull with.
        usual, direction : ndarray, shape (p,)
            The usual step, and where the last score points to, in prior standard deviations.
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
