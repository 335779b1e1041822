"""Batches of records: one object draws the batch and states what was sampled."""

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event

from pymc_dp.privacy.accounting.event_sets import subsampled_penalty
from pymc_dp.privacy.accounting.events import (
    BarkerMinibatchDpEvent,
    BatchPenaltyDecisionDpEvent,
    PoissonBarkerDecisionDpEvent,
    PoissonMixtureDpEvent,
)
from pymc_dp.privacy.accounting.values import is_number
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom


@dataclass(frozen=True)
class FixedSizeBatches:
    """Uniform sets of `batch_size` out of `dataset_size` privacy units, drawn anew each time.

    Parameters
    ----------
    dataset_size : int
        n, public ("substitute" only).
    batch_size : int
        b, between 2 and n.

    Raises
    ------
    ValueError
        `batch_size` is not an integer in that range.

    Notes
    -----
    **Privacy.** The batch is privacy randomness: amplification by sampling holds for those who do not know
    who was drawn. The events are those of the sampling done by `draw`; a step cannot state another.
    """

    dataset_size: int
    batch_size: int

    def __post_init__(self) -> None:
        size = self.batch_size
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 2:
            raise ValueError(f"batch_size must be an integer of at least 2, got {size!r}.")
        if size > self.dataset_size:
            raise ValueError(
                f"batch_size = {size} is larger than the number of records, {self.dataset_size}; leave it "
                "out for the full batch."
            )

    def draw(self, random: PrivacyRandom) -> np.ndarray:
        """Positions 0..n-1, shape (batch_size,), all different, in no particular order."""
        return random.without_replacement(self.dataset_size, self.batch_size)

    def gaussian_event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """Event of a Gaussian release on a batch; noise relative to its sensitivity there."""
        return subsampled_penalty(noise_multiplier**2, self.batch_size, self.dataset_size)

    def penalty_event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """Event of a decision of the penalty test on a batch."""
        return BatchPenaltyDecisionDpEvent(int(self.batch_size), int(self.dataset_size), noise_multiplier)

    def barker_event(self) -> dp_event.DpEvent:
        """Event of a minibatch Barker decision (Räisä 2021, Theorem 8)."""
        return BarkerMinibatchDpEvent(self.batch_size, self.dataset_size)


@dataclass(frozen=True)
class PoissonBatches:
    """Each privacy unit by itself, with one probability, drawn anew each time.

    Parameters
    ----------
    sampling_probability : float
        q, in (0, 1].

    Raises
    ------
    ValueError
        `sampling_probability` is not in that range.

    Notes
    -----
    **Privacy.** As for `FixedSizeBatches`. The size of a batch is secret under "add_remove", and never
    released; nor is n, which is no part of these settings.
    """

    sampling_probability: float

    def __post_init__(self) -> None:
        q = self.sampling_probability
        if not (is_number(q) and 0 < q <= 1):
            raise ValueError(f"sampling_probability must lie in (0, 1], got {q!r}.")

    def draw(self, random: PrivacyRandom, n: int) -> np.ndarray:
        """Positions 0..n-1, all different, in no particular order; all of them when q is 1."""
        return random.without_replacement(n, random.binomial(n, self.sampling_probability))

    def gaussian_event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """Event of a Gaussian release of a sum over the batch, which is everyone when q is 1."""
        release = dp_event.GaussianDpEvent(noise_multiplier)
        if self.sampling_probability == 1:
            return release
        return dp_event.PoissonSampledDpEvent(float(self.sampling_probability), release)


@dataclass(frozen=True)
class TunaBatches:
    """A Poisson number of uniform draws with replacement, from which TunaMH keeps some (`ratios.tuna`).

    Parameters
    ----------
    inclusion : float
        Expected number of draws of a record, ``lambda / N + B`` of TunaMH.
    clip_bound : float
        B, in nats of the tempered log-ratio: no iteration's bound is larger.

    Raises
    ------
    ValueError
        A number is out of range; in particular ``lambda = N (inclusion - clip_bound)`` is not positive.

    Notes
    -----
    **Privacy.** Multiplicities of different records are independent because the number of draws is Poisson
    *and secret*: given that number they are not, and the bounds of docs/proofs/fast_mh do not hold. The step
    reports the expected number only. A move with a smaller bound draws like the others, and costs no more.
    """

    inclusion: float
    clip_bound: float

    def __post_init__(self) -> None:
        for name in ("inclusion", "clip_bound"):
            value = getattr(self, name)
            if not (is_number(value) and 0 < value < math.inf):
                raise ValueError(f"{name} must be positive and finite, got {value!r}.")
        if not self.rate > 0:
            raise ValueError(
                f"a batch of {self.inclusion:g} draws a record leaves no lambda for clip_bound = "
                f"{self.clip_bound:g}: lambda / n = inclusion - clip_bound must be positive. Take larger "
                "batches, or a smaller clip_bound."
            )

    @property
    def rate(self) -> float:
        """``lambda / N``."""
        return self.inclusion - self.clip_bound

    @property
    def spread(self) -> float:
        """``2 lambda / N + B``: twice the expected number of kept draws of a record with ratio 0."""
        return 2 * self.inclusion - self.clip_bound

    def draw(self, random: PrivacyRandom, n: int) -> np.ndarray:
        """Positions 0..n-1 with repeats; their number is ``Poisson(n inclusion)``, and secret."""
        return random.integers(n, random.poisson(n * self.inclusion))

    def barker_event(self) -> dp_event.DpEvent:
        """Event of a decision by Barker's test."""
        return PoissonBarkerDecisionDpEvent(self.rate, self.clip_bound)

    def mixture_event(self, noise_std: float) -> dp_event.DpEvent:
        """Event of a log-ratio with Gaussian noise, of this standard deviation at the largest bound."""
        return PoissonMixtureDpEvent(self.rate, self.clip_bound, noise_std)
