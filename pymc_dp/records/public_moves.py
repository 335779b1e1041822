"""Moves that leave prior times surrogate invariant: they cost no privacy, and only what is left is tested."""

import math
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from arviz_stats.base import array_stats
from pymc.blocking import DictToArrayBijection
from pymc.step_methods.hmc.quadpotential import QuadPotentialFull

from pymc_dp.errors import PrivacyError
from pymc_dp.records.public_density import curvature

# Before a chain starts: transitions that tune the step length, and that show how well they mix.
_TUNE, _PILOT = 300, 200
_AIM = 0.9
# Effective draws of the worst parameter that a move is worth, and transitions of a move at most.
_WORTH, _MOST = 0.5, 10
# Leapfrog steps of a transition from which on another metric is tried; of so many first ones, not yet tuned.
_LONG, _LOOK, _TOO_LONG = 40, 50, 100
# Draws for each dimension that are many; draws at which curvatures are looked at otherwise; least eigenvalue
# of their mean in the metric before.
_MANY, _CURVATURES, _LEAST = 10, 40, 1e-3

_STUCK = (
    "Draws of prior times surrogate do not move: a parameter keeps one value. The prior may have no moderate "
    "scale (a log-scale with a standard deviation of 10), or the posterior a funnel: give scales priors that "
    "exclude what is absurd, or write effects as scale times standard normal ones."
)


class _Pilot(NamedTuple):
    """Transitions that show how well they mix.

    Attributes
    ----------
    draws : ndarray, shape (number, d)
    effective : float
        Effective draws that each is worth, for the worst parameter; 0: not known.
    length : float
        Leapfrog steps of each, on average.
    """

    draws: np.ndarray
    effective: float
    length: float

    @property
    def stuck(self) -> bool:
        """Whether some parameter has one value in all draws."""
        return bool(np.any(np.ptp(self.draws, axis=0) == 0))

    @property
    def value(self) -> tuple[float, float]:
        """What a move can be worth, and then what a leapfrog step is."""
        return min(_MOST * self.effective, _WORTH), self.effective / self.length


class PublicTransitions:
    """PyMC's NUTS on a public density: a move is a number of transitions.

    Parameters
    ----------
    density : PublicDensity
        With the surrogate that the chain has.
    covariance : ndarray, shape (d, d)
        About that of the density, from its curvature.

    Notes
    -----
    **Privacy.** Reads what is released only. Once `tune` has been called the kernel is fixed. Each transition
    is reversible for the public density, and so is a number of them in a row: a proposal whose
    Metropolis-Hastings ratio is that of the residuals alone (docs/proofs/control_variates, section 3).
    """

    def __init__(self, density: Any, covariance: np.ndarray):
        self._density, self._transitions = density, 1
        self._nuts = self._sampler(covariance)

    def __call__(self, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        """New point, shape (d,)."""
        return self._draws(rng, theta, self._transitions)[0][-1]

    def tune(self, rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        """Choose the step length, and where draws mix slowly the metric and the transitions of a move.

        Before a chain starts: within one, the kernel must not change.

        Parameters
        ----------
        rng : numpy.random.Generator
        theta : ndarray, shape (d,)
            Where the density is high.

        Returns
        -------
        ndarray, shape (d,)
            A draw, to start a chain from.

        Raises
        ------
        PrivacyError
            The draws do not move, with any metric: a chain would stay where it is and look well mixed.
        """
        found = self._tuned(rng, theta, _TOO_LONG)
        if found.effective == 0:
            found = self._tuned(rng, self._learn(found))
        if found.effective < _WORTH or found.length > _LONG:
            # Densities whose curvature at one point says little of the others: a hierarchy's, a ridge.
            nuts, first = self._nuts, found
            found = self._tuned(rng, self._learn(found))
            if found.value < first.value:
                self._nuts, found = nuts, first
        if found.stuck:
            raise PrivacyError(_STUCK)
        self._transitions = math.ceil(min(_WORTH / found.effective, _MOST))
        return found.draws[-1]

    def _tuned(self, rng: np.random.Generator, theta: np.ndarray, most: float = math.inf) -> _Pilot:
        """Transitions after tuning. Where the first have more than `most` steps they are all."""
        found, length = self._draws(rng, theta, _LOOK)
        if length > most:
            return _Pilot(found[_LOOK // 2 :], 0.0, length)
        theta = self._draws(rng, found[-1], _TUNE - _LOOK)[0][-1]
        self._nuts.stop_tuning()
        pilot, length = self._draws(rng, theta, _PILOT)
        effective = array_stats.ess(pilot[None], chain_axis=0, draw_axis=1) / _PILOT
        least = float(np.clip(np.nan_to_num(np.min(effective)), 1 / _PILOT, 1.0))
        made = _Pilot(pilot, least, length)
        # As a series a constant has no correlation.
        return made._replace(effective=1 / _PILOT) if made.stuck else made

    def _learn(self, pilot: _Pilot) -> np.ndarray:
        """Take another metric; the last of the draws it was learnt from.

        With many draws it is their covariance, with the one before for as many as there are dimensions. With
        few, the inverse of the mean of the curvature at them: close to the covariance, and of full rank
        however few there are.
        """
        draws, covariance = pilot.draws, self._nuts.potential._cov
        number, d = draws.shape
        if number >= _MANY * d:
            centred = draws - draws.mean(axis=0)
            covariance = (centred.T @ centred + d * covariance) / (number + d)
        else:
            some = draws[:: max(number // _CURVATURES, 1)]
            mean = np.mean([curvature(self._slope, draw) for draw in some], axis=0)
            root = np.linalg.cholesky(covariance)
            values, vectors = np.linalg.eigh(root.T @ mean @ root)
            axes = root @ vectors
            covariance = (axes / np.maximum(np.abs(values), _LEAST)) @ axes.T
        self._nuts = self._sampler(covariance)
        return draws[-1]

    def _slope(self, theta: np.ndarray) -> np.ndarray:
        return self._density.value_and_gradient._pytensor_function(theta)[1]

    def _sampler(self, covariance: np.ndarray) -> pm.NUTS:
        return pm.NUTS(
            potential=QuadPotentialFull(covariance),
            target_accept=_AIM,
            model=self._density.model,
            logp_dlogp_func=self._density.value_and_gradient,
            initial_point=self._density.start,
        )

    def _draws(self, rng: np.random.Generator, theta: np.ndarray, number: int) -> tuple[np.ndarray, float]:
        """Shape (number, d), and leapfrog steps of each on average."""
        # The chain's own generator, so that a chain can be repeated.
        self._nuts.rng = self._nuts.potential.rng = rng
        found, length = np.empty((number, theta.size)), 0.0
        state = DictToArrayBijection.map({"theta": theta})
        with np.errstate(all="ignore"):
            for k in range(number):
                state, stats = self._nuts.astep(state)
                found[k] = state.data
                length += stats[0]["tree_size"] / number
        return found, length
