"""What an iteration runs: frozen settings, one class a mechanism; those of gradients are in `gradients`.

The same object is priced (`event`), is what a plan carries, and is what a chain runs (`ratios.build`).
As with events, the meaning of a class and of its fields never changes: results are stored with it. Nothing
in it may be private: under "add_remove" not even the number of records.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields

from dp_accounting import dp_event

from pymc_dp.privacy.accounting import events
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches, TunaBatches


@dataclass(frozen=True)
class Mechanism(ABC):
    """What an iteration runs, and as which event it is charged.

    Notes
    -----
    Settings of several mechanisms have one meaning:

    ``noise_multiplier``
        Noise of the log-ratio over its sensitivity.
    ``noise_std``
        Standard deviation of that noise, in nats of the *tempered* log-ratio, of every move or the longest.
    ``clip_bound``
        Largest bound at which a record's log-likelihood ratio is clipped, in nats of the *untempered* ratio;
        None where it is not one number, or no bound was paid for.
    """

    @property
    @abstractmethod
    def release(self) -> str:
        """What it lets out: "decisions", "noisy_ratio" or "gradients"."""

    @property
    @abstractmethod
    def test(self) -> str:
        """Its accept test: a name in `ratios.build.TESTS`, or none."""

    @abstractmethod
    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """What an iteration releases."""

    def iterations(self, neighboring_relation: str, length: int) -> tuple[EventSet, ...]:
        """What each iteration of a chain releases: one entry when all are alike, otherwise `length`."""
        return (EventSet(self.event(neighboring_relation), neighboring_relation),)

    def run(self, neighboring_relation: str, length: int) -> EventSet:
        """What all iterations of a chain release."""
        return EventSet(self.event(neighboring_relation), neighboring_relation).repeated(length)

    def chain(self, neighboring_relation: str) -> EventSet:
        """What a chain releases once."""
        return EventSet([], neighboring_relation)

    def parameters(self) -> dict[str, float]:
        """Public numbers, for a reader."""
        numbers = {one.name: getattr(self, one.name) for one in fields(self)}
        return {k: v for k, v in numbers.items() if isinstance(v, int | float) and not isinstance(v, bool)}


@dataclass(frozen=True)
class Unlimited(Mechanism):
    """No noise, Metropolis' test: not private."""

    clip_bound: float | None = None
    release = "decisions"
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """One without a bound."""
        return dp_event.NonPrivateDpEvent()


@dataclass(frozen=True)
class NoDecision(Mechanism):
    """Moves on what was released once: an iteration reads no record, and costs nothing."""

    release = "decisions"
    test = ""

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """None."""
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
        Whether `noise_std` is that of every iteration: decisions then cost less, and a move with other noise
        is refused.
    """

    noise_multiplier: float
    noise_std: float | None = None
    clip_bound: float | None = None
    one_scale: bool = False
    release = "decisions"
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """A penalty decision."""
        if self.noise_std is None or not self.one_scale:
            return events.PenaltyDecisionDpEvent(self.noise_multiplier)
        return events.FixedScalePenaltyDecisionDpEvent(self.noise_std, self.noise_std / self.noise_multiplier)


@dataclass(frozen=True)
class NoisyRatio(Mechanism):
    """As `Penalty`, charged for the noisy log-ratio, whether or not it is let out."""

    noise_multiplier: float
    release: str = "noisy_ratio"
    clip_bound = None
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """A Gaussian."""
        return dp_event.GaussianDpEvent(self.noise_multiplier)


@dataclass(frozen=True)
class PenaltyOnBatches(Mechanism):
    """Gaussian noise on the corrected ratio of a batch without replacement, penalty test."""

    batches: FixedSizeBatches
    noise_multiplier: float
    release: str = "decisions"
    test = "penalty"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """A decision on a batch, or the Gaussian behind it."""
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
        """A decision of bounded range."""
        return events.BoundedRangeDecisionDpEvent(self.eta)


@dataclass(frozen=True)
class BarkerOnBatches(Mechanism):
    """Minibatch Barker on a batch without replacement."""

    batches: FixedSizeBatches
    clip_bound: float
    test = "corrected barker"
    release = "decisions"

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """Fixed by the sizes of batch and data."""
        return self.batches.barker_event()

    def parameters(self) -> dict[str, float]:
        """With the size of a batch."""
        return super().parameters() | {"batch_size": self.batches.batch_size}


@dataclass(frozen=True)
class OnTunaBatches(Mechanism):
    """A batch of TunaMH, with Barker's test or Gaussian noise and the penalty test.

    Parameters
    ----------
    batches : TunaBatches
        Its bound is in tempered nats.
    n : int
        Number of records, public.
    tempering : float
    noise_std : float, optional
        Of the longest move, and then the penalty test; 0 for Metropolis' test on a ratio without noise. None
        for Barker's.
    """

    batches: TunaBatches
    n: int
    tempering: float = 1.0
    noise_std: float | None = None
    release = "decisions"

    @property
    def test(self) -> str:
        """The accept test."""
        return "barker" if self.noise_std is None else "penalty"

    @property
    def clip_bound(self) -> float:
        """In nats of the untempered ratio."""
        return self.batches.clip_bound / self.tempering

    @property
    def batch_size(self) -> float:
        """Expected number of draws."""
        return self.n * self.batches.inclusion

    def event(self, neighboring_relation: str) -> dp_event.DpEvent:
        """The object that draws the batch states it."""
        if self.noise_std is None:
            return self.batches.barker_event()
        return self.batches.mixture_event(self.noise_std)

    def parameters(self) -> dict[str, float]:
        """With the expected size of a batch."""
        noise = {"noise_std": self.noise_std} if self.noise_std else {}
        sizes = {"batch_size": self.batch_size, "inclusion": self.batches.inclusion}
        return {"clip_bound": self.clip_bound, **sizes, **noise}
