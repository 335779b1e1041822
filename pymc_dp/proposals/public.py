"""Moves that leave prior times surrogate invariant: they cost no privacy, and only what is left is tested."""

import math
from typing import Any

import numpy as np

_TRANSITIONS = 3
# Leapfrog steps in units of the surrogate's standard deviations, and lengths of trajectories.
_STEPS, _TIMES = (0.12, 0.5), (0.6, 2.2)
# Transitions by which steps are shortened before a chain, and the acceptance they aim at.
_TRIALS, _AIM = 200, 0.75


class PublicTransitions:
    """Hamiltonian transitions on a public density, in the coordinates of its curvature.

    Parameters
    ----------
    target : Residuals
        `log_prior` and `log_prior_gradient` of the public density.
    root : ndarray, shape (d, d)
        Square root of the covariance: whitened coordinates to parameters.

    Notes
    -----
    **Privacy.** Reads what is released only. Each transition is reversible for the public density (step and
    length are drawn independently of the state), and so is a number of them in a row: a proposal whose
    Metropolis-Hastings ratio is that of the residuals alone (docs/proofs/control_variates, section 3).
    """

    def __init__(self, target: Any, root: np.ndarray):
        self.target, self.root = target, root
        self._shorter, self._transitions = 1.0, _TRANSITIONS

    def __call__(
        self, rng: np.random.Generator, theta: np.ndarray, transitions: int | None = None
    ) -> np.ndarray:
        """New point, shape (d,)."""
        value = self.target.log_prior(theta)
        for _ in range(transitions or self._transitions):
            theta, value, _ = self._transition(rng, theta, value)
        return theta

    def shorten(self, rng: np.random.Generator, theta: np.ndarray) -> None:
        """Shorten leapfrog steps where they are too long for the density, in trials from `theta` on.

        And make as many more transitions of a move. For densities that are curved because the likelihood is
        seen through curved coordinates. Before a chain starts: within one, the kernel must not change.
        """
        value, log_scale, kept = self.target.log_prior(theta), 0.0, []
        for k in range(_TRIALS):
            theta, value, probability = self._transition(rng, theta, value)
            log_scale = min(0.0, log_scale + (probability - _AIM) / math.sqrt(k + 1))
            self._shorter = math.exp(log_scale)
            kept.append(log_scale)
        self._shorter = math.exp(float(np.mean(kept[_TRIALS // 2 :])))
        self._transitions = math.ceil(_TRANSITIONS / self._shorter - 0.5)

    def _transition(
        self, rng: np.random.Generator, theta: np.ndarray, value: float
    ) -> tuple[np.ndarray, float, float]:
        step = self._shorter * math.exp(rng.uniform(*np.log(_STEPS)))
        length = max(1, round(rng.uniform(*_TIMES) / step))
        start = momentum = rng.standard_normal(theta.size)
        new = theta
        slope = self._slope(theta)
        with np.errstate(all="ignore"):
            for _ in range(length):
                momentum = momentum + 0.5 * step * slope
                new = new + step * (self.root @ momentum)
                slope = self._slope(new)
                momentum = momentum + 0.5 * step * slope
            new_value = self.target.log_prior(new)
            ratio = new_value - value + 0.5 * float(start @ start - momentum @ momentum)
        accepted = -rng.standard_exponential() < ratio  # False for NaN
        probability = math.exp(min(0.0, ratio)) if ratio == ratio else 0.0
        return (new, new_value, probability) if accepted else (theta, value, probability)

    def _slope(self, theta: np.ndarray) -> np.ndarray:
        return self.root.T @ self.target.log_prior_gradient(theta)
