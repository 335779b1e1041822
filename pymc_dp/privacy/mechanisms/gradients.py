"""Mechanisms of iterations that use noisy gradients; see `iterations`."""

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from dp_accounting import dp_event

from pymc_dp.bounds import check_bound, check_share, is_number
from pymc_dp.privacy.accounting import events
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.mechanisms.iterations import Mechanism
from pymc_dp.privacy.mechanisms.randomness import ExactSum, PoissonBatches


@dataclass(frozen=True)
class Hamiltonian(Mechanism):
    """Noisy gradients, and the penalty test at the end of a trajectory; a chain needs one more gradient."""

    noise_multiplier: float
    gradient_noise_multiplier: float
    n_leapfrog: int
    clip_bound = None
    release = "decisions"
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of an iteration: one decision, and the gradients."""
        gradient = dp_event.GaussianDpEvent(self.gradient_noise_multiplier)
        decision = events.PenaltyDecisionDpEvent(self.noise_multiplier)
        return dp_event.ComposedDpEvent([decision, dp_event.SelfComposedDpEvent(gradient, self.n_leapfrog)])

    def chain(self, neighboring_relation: str) -> EventSet:
        """Return the event of the gradient at a chain's starting point."""
        return EventSet(dp_event.GaussianDpEvent(self.gradient_noise_multiplier), neighboring_relation)


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


@dataclass(frozen=True)
class Friction(Mechanism):
    """Noisy gradients of Poisson batches, with friction that balances the noise; no accept test.

    Parameters
    ----------
    dynamics : Dynamics
    n_steps : int
        Number of gradients in an iteration.
    noise_multipliers : tuple of float
        Noise multiplier of each iteration of a chain; a single one if all are the same.
    """

    dynamics: Dynamics
    n_steps: int
    noise_multipliers: tuple[float, ...] = field(repr=False)
    release = "gradients"
    test = ""

    @property
    def noise_multiplier(self) -> float:
        """The smallest of the noise multipliers."""
        return min(self.noise_multipliers)

    @property
    def clip_bound(self) -> float:
        """Bound on the norm of a record's gradient."""
        return self.dynamics.clip_bound

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of the iteration with the least noise: one Gaussian on a batch for each step."""
        return self._of(self.noise_multiplier)

    def iterations(self, neighboring_relation: str, length: int) -> tuple[EventSet, ...]:
        """Return the events of each iteration, with its own noise; one entry if all are the same."""
        return tuple(EventSet(self._of(one), neighboring_relation) for one in self.noise_multipliers[:length])

    def run(self, neighboring_relation: str, length: int) -> EventSet:
        """Return the events of all iterations of a chain, with their counts."""
        described = self.noise_multipliers[:length]
        if len(described) not in (1, length):
            raise ValueError(f"{len(described)} iterations are described, the call has {length}.")
        repeats = length // len(described)
        events = [(self._of(one), count * repeats) for one, count in Counter(described).items()]
        return EventSet(events, neighboring_relation)

    def _of(self, noise_multiplier: float) -> dp_event.DpEvent:
        return dp_event.SelfComposedDpEvent(
            self.dynamics.batches.gaussian_event(noise_multiplier), self.n_steps
        )

    def parameters(self) -> dict[str, float]:
        """Return the smallest noise multiplier and the other public settings."""
        return {
            "noise_multiplier": self.noise_multiplier,
            "sampling_probability": self.dynamics.batches.sampling_probability,
            "clip_bound": self.clip_bound,
            "n_steps": self.n_steps,
        }
