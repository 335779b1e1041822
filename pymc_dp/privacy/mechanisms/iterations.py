"""Mechanisms: the frozen settings of an iteration, one class for each; those of gradients are in `gradients`.

The same object is priced (`event`), stored in a plan, and run by a chain (`ratios.build`). As with events,
the meaning of a class and of its fields never changes, as results are stored with it. No field may be
private: under "add_remove", not even the number of records.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields

from dp_accounting import dp_event

from pymc_dp.privacy.accounting import events
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches, TunaBatches


@dataclass(frozen=True)
class Mechanism(ABC):
    """What an iteration runs, and the event by which it is charged.

    Notes
    -----
    Settings that several mechanisms have mean the same in each:

    ``noise_multiplier``
        Standard deviation of the noise of the log-ratio, divided by its sensitivity.
    ``noise_std``
        Standard deviation of that noise, in nats of the *tempered* log-ratio, of every move or the longest.
    ``clip_bound``
        Largest bound at which a record's log-likelihood ratio is clipped, in nats of the *untempered* ratio;
        None where it is not one number, or the price does not depend on one.
    """

    @property
    @abstractmethod
    def release(self) -> str:
        """What an iteration releases: "decisions", "noisy_ratio" or "gradients"."""

    @property
    @abstractmethod
    def test(self) -> str:
        """Name of its accept test in `ratios.build.TESTS`; empty if it has none."""

    @abstractmethod
    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of an iteration."""

    def iterations(self, neighboring_relation: str, length: int) -> tuple[EventSet, ...]:
        """Return the events of each iteration of a chain: one entry if all are the same, else `length`."""
        return (EventSet(self.event(neighboring_relation), neighboring_relation),)

    def run(self, neighboring_relation: str, length: int) -> EventSet:
        """Return the events of all iterations of a chain."""
        return EventSet(self.event(neighboring_relation), neighboring_relation).repeated(length)

    def chain(self, neighboring_relation: str) -> EventSet:
        """Return the events that a chain releases once."""
        return EventSet([], neighboring_relation)

    def parameters(self) -> dict[str, float]:
        """Return the settings that are numbers, for reports."""
        numbers = {one.name: getattr(self, one.name) for one in fields(self)}
        return {k: v for k, v in numbers.items() if isinstance(v, int | float) and not isinstance(v, bool)}


@dataclass(frozen=True)
class Unlimited(Mechanism):
    """No noise, with the test of Metropolis: not private."""

    clip_bound: float | None = None
    release = "decisions"
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return an event whose cost has no bound."""
        return dp_event.NonPrivateDpEvent()


@dataclass(frozen=True)
class NoDecision(Mechanism):
    """Moves on a likelihood that was released once: an iteration reads no record, and costs nothing."""

    release = "decisions"
    test = ""

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event that costs nothing."""
        return dp_event.NoOpDpEvent()


@dataclass(frozen=True)
class Penalty(Mechanism):
    """Gaussian noise on the sum over all records, penalty test; the decision is released.

    Parameters
    ----------
    noise_multiplier : float
    noise_std : float, optional
    clip_bound : float, optional
    one_scale : bool
        Whether every iteration has noise of standard deviation `noise_std`. Decisions then cost less, and a
        move with other noise is refused.
    """

    noise_multiplier: float
    noise_std: float | None = None
    clip_bound: float | None = None
    one_scale: bool = False
    release = "decisions"
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of a penalty decision."""
        if self.noise_std is None or not self.one_scale:
            return events.PenaltyDecisionDpEvent(self.noise_multiplier)
        return events.FixedScalePenaltyDecisionDpEvent(self.noise_std, self.noise_std / self.noise_multiplier)


@dataclass(frozen=True)
class NoisyRatio(Mechanism):
    """As `Penalty`, but charged for the noisy log-ratio, whether or not it is released."""

    noise_multiplier: float
    release: str = "noisy_ratio"
    clip_bound = None
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of a Gaussian release."""
        return dp_event.GaussianDpEvent(self.noise_multiplier)


@dataclass(frozen=True)
class PenaltyOnBatches(Mechanism):
    """Gaussian noise on the corrected ratio of a batch without replacement, penalty test."""

    batches: FixedSizeBatches
    noise_multiplier: float
    release: str = "decisions"
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of a decision on a batch, or of the noisy log-ratio that it is computed from."""
        if self.release == "decisions":
            return self.batches.penalty_event(self.noise_multiplier)
        return self.batches.gaussian_event(self.noise_multiplier)


@dataclass(frozen=True)
class Barker(Mechanism):
    """The sum over all records, without noise; Barker's test.

    Parameters
    ----------
    eta : float
        One record moves the log-odds of the decision by at most this much.
    clip_bound : float, optional
    """

    eta: float
    clip_bound: float | None = None
    test = "barker"
    release = "decisions"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of a bounded-range decision."""
        return events.BoundedRangeDecisionDpEvent(self.eta)


@dataclass(frozen=True)
class BarkerOnBatches(Mechanism):
    """Minibatch Barker on a batch without replacement."""

    batches: FixedSizeBatches
    clip_bound: float
    test = "corrected barker"
    release = "decisions"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of a decision, which is determined by the sizes of batch and data."""
        return self.batches.barker_event()

    def parameters(self) -> dict[str, float]:
        """Return the settings that are numbers, and the size of a batch."""
        return super().parameters() | {"batch_size": self.batches.batch_size}


@dataclass(frozen=True)
class OnTunaBatches(Mechanism):
    """A batch of TunaMH, with Barker's test or Gaussian noise and the penalty test.

    Parameters
    ----------
    batches : TunaBatches
        Its clip bound is in nats of the tempered ratio.
    n : int
        Number of records, public.
    tempering : float
    noise_std : float, optional
        Standard deviation of the noise of the longest move, for the penalty test; 0 for the test of
        Metropolis on a ratio without noise. None for Barker's test.
    """

    batches: TunaBatches
    n: int
    tempering: float = 1.0
    noise_std: float | None = None
    release = "decisions"

    @property
    def test(self) -> str:
        """Name of the accept test."""
        return "barker" if self.noise_std is None else "penalty"

    @property
    def clip_bound(self) -> float:
        """Clip bound, in nats of the untempered ratio."""
        return self.batches.clip_bound / self.tempering

    @property
    def batch_size(self) -> float:
        """Expected number of drawn records."""
        return self.n * self.batches.inclusion

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Return the event of a decision, as the object that draws the batch states it."""
        if self.noise_std is None:
            return self.batches.barker_event()
        return self.batches.mixture_event(self.noise_std)

    def parameters(self) -> dict[str, float]:
        """Return the settings that are numbers, and the expected size of a batch."""
        noise = {"noise_std": self.noise_std} if self.noise_std else {}
        sizes = {"batch_size": self.batch_size, "inclusion": self.batches.inclusion}
        return {"clip_bound": self.clip_bound, **sizes, **noise}
