"""Moves that leave prior times surrogate invariant: they cost no privacy, and only what is left is tested."""

import math
from typing import Any

import numpy as np
import pymc as pm
from arviz_stats.base import array_stats
from pymc.blocking import DictToArrayBijection
from pymc.step_methods.hmc.quadpotential import QuadPotentialFull

# Before a chain starts: transitions that tune the step length, and that show how well they mix.
_TUNE, _PILOT = 300, 200
_AIM = 0.9
# Effective draws of the worst parameter that a move is worth, and transitions of a move at most.
_WORTH, _MOST = 0.5, 10


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
        return self._draws(rng, theta, self._transitions)[-1]

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
        """
        pilot, effective = self._tuned(rng, theta)
        if effective < _WORTH:
            # Densities whose curvature at one point says little of the others: a hierarchy's, a ridge.
            first = self._nuts, pilot, effective
            self._nuts = self._sampler(_shrunk(pilot, first[0].potential._cov))
            pilot, effective = self._tuned(rng, pilot[-1])
            if effective < first[2]:
                self._nuts, pilot, effective = first
        self._transitions = math.ceil(min(_WORTH / effective, _MOST))
        return pilot[-1]

    def _tuned(self, rng: np.random.Generator, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Draws after tuning, and how many effective ones each is worth, for the worst parameter."""
        theta = self._draws(rng, theta, _TUNE)[-1]
        self._nuts.stop_tuning()
        pilot = self._draws(rng, theta, _PILOT)
        effective = array_stats.ess(pilot[None], chain_axis=0, draw_axis=1) / _PILOT
        return pilot, float(np.clip(np.nan_to_num(np.min(effective)), 1 / _PILOT, 1.0))

    def _sampler(self, covariance: np.ndarray) -> pm.NUTS:
        return pm.NUTS(
            potential=QuadPotentialFull(covariance),
            target_accept=_AIM,
            model=self._density.model,
            logp_dlogp_func=self._density.value_and_gradient,
            initial_point=self._density.start,
        )

    def _draws(self, rng: np.random.Generator, theta: np.ndarray, number: int) -> np.ndarray:
        """Shape (number, d)."""
        # The chain's own generator, so that a chain can be repeated.
        self._nuts.rng = self._nuts.potential.rng = rng
        found = np.empty((number, theta.size))
        state = DictToArrayBijection.map({"theta": theta})
        with np.errstate(all="ignore"):
            for k in range(number):
                state, _ = self._nuts.astep(state)
                found[k] = state.data
        return found


def _shrunk(draws: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Covariance of draws, with another one for as many draws as there are dimensions."""
    number, d = draws.shape
    centred = draws - draws.mean(axis=0)
    return (centred.T @ centred + d * covariance) / (number + d)
