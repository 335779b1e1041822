"""Where privacy randomness comes from: the stream, the one door for noise, and batches.

Exact sums go through the door; what comes out may be used, and released where that is paid. A batch and its
event are one object.
"""

import math
import os
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from dp_accounting import dp_event
from randomgen import ChaCha

from pymc_dp.bounds import check_count, check_positive, check_share
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.accounting import events


class PrivacyRandom:
    """ChaCha20 stream keyed by the operating system, for one chain in one process.

    Parameters
    ----------
    debug_seed : int, optional
        Makes the stream reproducible, for tests. Whoever knows it can subtract the noise: a run that uses it
        is not private and must say so.
    stream : int, optional
        Number of the chain; keeps the chains of a debug run apart.

    Attributes
    ----------
    generator : numpy.random.Generator

    Notes
    -----
    **Privacy.** The key is 256 bits from the operating system, so neither PyMC's `random_seed` nor anything
    in the result determines the noise. An object of this class cannot be pickled or copied, and refuses to be
    used in a forked child: two chains with one stream would have noise in common, which cancels.
    """

    def __init__(self, debug_seed: int | None = None, stream: int = 0):
        if debug_seed is None:
            key: np.ndarray = np.frombuffer(secrets.token_bytes(32), dtype=np.uint64).copy()
        else:
            key = np.random.SeedSequence([debug_seed, stream]).generate_state(4, np.uint64)
        self._generator = np.random.Generator(ChaCha(key=key, rounds=20))
        self._process = os.getpid()

    @property
    def generator(self) -> np.random.Generator:
        """The stream; of the process that made it alone."""
        if os.getpid() != self._process:
            raise PrivacyError(
                "A noise stream was carried into another process: its noise would be used twice."
            )
        return self._generator

    def exponential(self) -> float:
        """One standard exponential draw; minus this is the logarithm of a uniform."""
        return self.generator.standard_exponential()

    def uniform(self, size: int) -> np.ndarray:
        """Uniform draws in [0, 1), shape (size,)."""
        return self.generator.random(size)

    def normals(self, size: int | tuple[int, ...] | None = None) -> Any:
        """Standard normal draws of a shape; without one a single number."""
        return self.generator.standard_normal(size)

    def without_replacement(self, n: int, size: int) -> np.ndarray:
        """Uniform set of `size` different positions 0..n-1, in no particular order, shape (size,)."""
        return self.generator.choice(n, size, replace=False, shuffle=False)

    def keys(self, number: int) -> np.ndarray:
        """Keys of streams of their own, shape (number, 4); as secret as this one."""
        return self.generator.integers(2**64, size=(number, 4), dtype=np.uint64)

    def generators(self, number: int) -> list[np.random.Generator]:
        """Generators with streams of their own, keyed from this one; each is for one use."""
        return [np.random.Generator(ChaCha(key=key, rounds=20)) for key in self.keys(number)]

    @classmethod
    def keyed(cls, key: np.ndarray) -> "PrivacyRandom":
        """Stream of one of the `keys`, perhaps in another process: for draws that no noise is made of."""
        made = cls()
        made._generator = np.random.Generator(ChaCha(key=key, rounds=20))
        return made

    def __reduce__(self):
        raise TypeError("a noise stream is never copied or stored")


#: Bits of noise that are kept in a value that may leave: its grid is 1/16 to 1/32 of the noise.
RELEASED = 4
#: ... and in one of which only a decision leaves: rounding adds less than 1e-13 of its variance, so that
#: tests that are exact for Gaussian noise stay so.
DECIDED = 20


class ExactSum(NamedTuple):
    """A sum over records of parts that are clipped to a bound, exact in floating point.

    Attributes
    ----------
    value : float or ndarray
        In units of `unit`. Private: it must not leave.
    unit : float
        Public; scales what is released.
    """

    value: float | np.ndarray
    unit: float = 1.0

    @staticmethod
    def sensitivity(neighboring_relation: str) -> float:
        """Most that one record moves the sum, in units of the clip bound: twice that if it is replaced."""
        return 2.0 if neighboring_relation == "substitute" else 1.0


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise; the only caller of a normal generator for privacy.

    Parameters
    ----------
    std : float
        Standard deviation, in units of the sum; 0 for none.
    bits : int
        `RELEASED` or `DECIDED`: what comes out is a multiple of `grid`.

    Notes
    -----
    **Privacy.** Event: a Gaussian release of noise multiplier ``std / sensitivity`` (`ExactSum.sensitivity`).
    Rounding is post-processing. The grid is a power of two that depends on `std` alone, which is public: the
    low bits of a sum in floating point, and of the noise, do not come out (Mironov 2012; docs/proofs/noise).
    """

    std: float
    bits: int = RELEASED

    @cached_property
    def grid(self) -> float:
        """``2**floor(log2(std)) / 2**bits``; 0 for no rounding."""
        return math.ldexp(1.0, math.frexp(self.std)[1] - 1 - self.bits) if self.std > 0 else 0.0

    def release(self, total: ExactSum, random: PrivacyRandom) -> Any:
        """Noisy sum, a multiple of ``total.unit * grid``; a number, or an array of the sum's shape."""
        noise = random.normals(np.shape(total.value) or None)
        return total.unit * self.rounded(total.value + self.std * noise)

    def rounded(self, value: Any) -> Any:
        """To the grid: what lies below the noise's last bits that may leave is dropped."""
        grid = self.grid
        return np.rint(value / grid) * grid if grid > 0 else value


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
        check_count("batch_size", self.batch_size, 2)
        if self.batch_size > self.dataset_size:
            raise ValueError(
                f"batch_size = {self.batch_size} is larger than the number of records, {self.dataset_size}; "
                "leave it out for the full batch."
            )

    def draw(self, random: PrivacyRandom) -> np.ndarray:
        """Positions 0..n-1, shape (batch_size,), all different, in no particular order."""
        return random.without_replacement(self.dataset_size, self.batch_size)

    def gaussian_event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """Event of a Gaussian release on a batch; noise relative to its sensitivity there."""
        release = dp_event.GaussianDpEvent(noise_multiplier)
        return dp_event.SampledWithoutReplacementDpEvent(self.dataset_size, self.batch_size, release)

    def penalty_event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """Event of a decision of the penalty test on a batch."""
        return events.BatchPenaltyDecisionDpEvent(self.batch_size, self.dataset_size, noise_multiplier)

    def barker_event(self) -> dp_event.DpEvent:
        """Event of a minibatch Barker decision (Räisä 2021, Theorem 8)."""
        return events.BarkerMinibatchDpEvent(self.batch_size, self.dataset_size)


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
        check_share("sampling_probability", self.sampling_probability, whole=True)

    def draw(self, random: PrivacyRandom, n: int) -> np.ndarray:
        """Positions 0..n-1, all different, in no particular order; all of them when q is 1."""
        return random.without_replacement(n, int(random.generator.binomial(n, self.sampling_probability)))

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
        check_positive("inclusion", self.inclusion)
        check_positive("clip_bound", self.clip_bound)
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
        return random.generator.integers(n, size=int(random.generator.poisson(n * self.inclusion)))

    def barker_event(self) -> dp_event.DpEvent:
        """Event of a decision by Barker's test."""
        return events.PoissonBarkerDecisionDpEvent(self.rate, self.clip_bound)

    def mixture_event(self, noise_std: float) -> dp_event.DpEvent:
        """Event of a log-ratio with Gaussian noise, of this standard deviation at the largest bound."""
        return events.PoissonMixtureDpEvent(self.rate, self.clip_bound, noise_std)


def histogram_sensitivity(neighboring_relation: str) -> float:
    """Most that one record moves counts by, in Euclidean norm, if its own are of norm 1 and not negative.

    Parameters
    ----------
    neighboring_relation : {"substitute", "add_remove"}

    Returns
    -------
    float
        A record that is replaced takes 1 from one cell to another: ``sqrt(2)``.
    """
    return math.sqrt(2.0) if neighboring_relation == "substitute" else 1.0
