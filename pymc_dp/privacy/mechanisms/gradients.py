"""Mechanisms of iterations that use noisy gradients; see `iterations`."""

from collections import Counter
from dataclasses import dataclass, field

from dp_accounting import dp_event

from pymc_dp.privacy.accounting import events
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.mechanisms.friction import Dynamics
from pymc_dp.privacy.mechanisms.iterations import Mechanism


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
