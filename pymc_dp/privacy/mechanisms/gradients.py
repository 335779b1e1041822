"""What an iteration runs that moves by noisy gradients; see `iterations`."""

from collections import Counter
from dataclasses import dataclass, field

from dp_accounting import dp_event

from pymc_dp.privacy.accounting import events
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.mechanisms.friction import Dynamics
from pymc_dp.privacy.mechanisms.iterations import Mechanism


@dataclass(frozen=True)
class Hamiltonian(Mechanism):
    """Noisy gradients, and the penalty test at the end of a trajectory; a chain needs one gradient more."""

    noise_multiplier: float
    gradient_noise_multiplier: float
    n_leapfrog: int
    clip_bound = None
    release = "decisions"
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """The decision and the gradients."""
        gradient = dp_event.GaussianDpEvent(self.gradient_noise_multiplier)
        decision = events.PenaltyDecisionDpEvent(self.noise_multiplier)
        return dp_event.ComposedDpEvent([decision, dp_event.SelfComposedDpEvent(gradient, self.n_leapfrog)])

    def chain(self, neighboring_relation: str) -> EventSet:
        """The gradient at its start."""
        return EventSet(dp_event.GaussianDpEvent(self.gradient_noise_multiplier), neighboring_relation)


@dataclass(frozen=True)
class Friction(Mechanism):
    """Noisy gradients of Poisson batches, whose noise the friction balances; no test.

    Parameters
    ----------
    dynamics : Dynamics
    n_steps : int
        Gradients of an iteration.
    noise_multipliers : tuple of float
        Of each iteration of a chain; one if all are alike.
    """

    dynamics: Dynamics
    n_steps: int
    noise_multipliers: tuple[float, ...] = field(repr=False)
    release = "gradients"
    test = ""

    @property
    def noise_multiplier(self) -> float:
        """The smallest."""
        return min(self.noise_multipliers)

    @property
    def clip_bound(self) -> float:
        """Of the norm of a record's gradient."""
        return self.dynamics.clip_bound

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Of the iteration with the least noise: as many Gaussians on batches as it has steps."""
        return self._of(self.noise_multiplier)

    def iterations(self, neighboring_relation: str, length: int) -> tuple[EventSet, ...]:
        """Each with its own noise."""
        return tuple(EventSet(self._of(one), neighboring_relation) for one in self.noise_multipliers[:length])

    def run(self, neighboring_relation: str, length: int) -> EventSet:
        """Those of `iterations`, counted."""
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
        """The smallest noise, and the batches."""
        return {
            "noise_multiplier": self.noise_multiplier,
            "sampling_probability": self.dynamics.batches.sampling_probability,
            "clip_bound": self.clip_bound,
            "n_steps": self.n_steps,
        }
