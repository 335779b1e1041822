"""Batches of TunaMH, with repeats: one object draws the batch and states what was sampled."""

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event

from pymc_dp.privacy.events import PoissonBarkerDecisionDpEvent, PoissonMixtureDpEvent
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.privacy.values import is_number


@dataclass(frozen=True)
class Multisets:
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
