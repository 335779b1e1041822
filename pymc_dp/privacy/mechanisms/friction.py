"""Stochastic gradient dynamics, which are private by the noise that balances their friction."""

import math
from dataclasses import dataclass

import numpy as np

from pymc_dp.bounds import check_bound, check_share, is_number
from pymc_dp.privacy.mechanisms.randomness import ExactSum, PoissonBatches


@dataclass(frozen=True)
class Dynamics:
    """Step sizes ``step_size * (offset + t) ** -decay`` of iterations t = 1, 2, ..., and smallest friction.

    Parameters
    ----------
    batches : PoissonBatches
        A new batch is drawn at each step. The gradient estimate is ``tempering / q`` times the sum over it.
    clip_bound : float
        L: each record's gradient of the log-likelihood is clipped to this norm.
    step_size : float
        a, > 0.
    offset : float
        b, >= 0.
    decay : float
        gamma, >= 0; 1/3 as in Lode (2019), 0 for a constant step size.
    friction : float
        C, >= 0: the injected noise has variance 2 C eta per step, on a momentum of unit mass. A budget may
        raise it.
    tempering : float
        In (0, 1].

    Raises
    ------
    ValueError
        An argument is out of range.

    Notes
    -----
    **Privacy.** Noise multiplier at a step: ``q sqrt(2 C / eta) / (tempering k L)``, k = 2 under
    "substitute", 1 under "add_remove" (docs/proofs/sampled_gaussians, Proposition 3; Lode 2019, section 5.4,
    for k = 1 and tempering q). All of it is public.
    """

    batches: PoissonBatches
    clip_bound: float
    step_size: float
    offset: float = 0.0
    decay: float = 1 / 3
    friction: float = 0.0
    tempering: float = 1.0

    def __post_init__(self) -> None:
        check_bound("clip_bound", self.clip_bound)
        check_bound("step_size", self.step_size)
        check_share("tempering", self.tempering, whole=True)
        for name in ("offset", "decay", "friction"):
            value = getattr(self, name)
            if not (is_number(value) and 0 <= value < math.inf):
                raise ValueError(f"{name} must be at least 0 and finite, got {value!r}.")

    def noise_multipliers(self, iterations: int, neighboring_relation: str) -> np.ndarray:
        """Return the noise that balances this friction, over the sensitivity, shape (iterations,)."""
        eta = self._step_sizes(iterations)
        return np.sqrt(2 * self.friction / eta) / self._sensitivity(neighboring_relation)

    def realized(
        self, noise_multipliers: np.ndarray, neighboring_relation: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return step sizes, and the frictions that balance the noise of each iteration.

        Parameters
        ----------
        noise_multipliers : ndarray, shape (iterations,)
            At least those of `noise_multipliers`.
        neighboring_relation : {"substitute", "add_remove"}

        Returns
        -------
        step_sizes, frictions : ndarray, shape (iterations,)
        """
        noise = np.asarray(noise_multipliers) * self._sensitivity(neighboring_relation)
        eta = self._step_sizes(noise.size)
        return eta, 0.5 * eta * noise**2

    def _step_sizes(self, iterations: int) -> np.ndarray:
        return self.step_size * (self.offset + np.arange(1, iterations + 1)) ** -self.decay

    def _sensitivity(self, neighboring_relation: str) -> float:
        """Return the sensitivity of the gradient estimate."""
        records = ExactSum.sensitivity(neighboring_relation)
        return self.tempering * records * self.clip_bound / self.batches.sampling_probability
