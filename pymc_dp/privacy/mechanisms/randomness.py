"""Randomness for privacy: the stream, the only class that adds Gaussian noise, and batches.

Exact sums are passed to `Gaussian.release`; its result may be used, and released where that is paid for. A
batch and its event are one object.
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
        Makes the stream reproducible, for tests. Whoever knows it can subtract the noise, so a run that uses
        it is not private and must be marked as such.
    stream : int, optional
        Number of the chain; gives the chains of a debug run different streams.

    Attributes
    ----------
    generator : numpy.random.Generator

    Notes
    -----
    **Privacy.** The key has 256 bits from the operating system, so neither PyMC's `random_seed` nor anything
    in the result determines the noise. An object of this class cannot be pickled or copied, and refuses to be
    used in a forked process: two chains with one stream would have the same noise, which can be cancelled.
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
        """The generator, which only the process that made it may use."""
        if os.getpid() != self._process:
            raise PrivacyError(
                "A noise stream was carried into another process: its noise would be used twice."
            )
        return self._generator

    def exponential(self) -> float:
        """Return one standard exponential draw; minus this is the logarithm of a uniform."""
        return self.generator.standard_exponential()

    def uniform(self, size: int) -> np.ndarray:
        """Return uniform draws in [0, 1), shape (size,)."""
        return self.generator.random(size)

    def normals(self, size: int | tuple[int, ...] | None = None) -> Any:
        """Return standard normal draws of a shape; a single number without one."""
        return self.generator.standard_normal(size)

    def without_replacement(self, n: int, size: int) -> np.ndarray:
        """Draw a uniform set of `size` different positions 0..n-1, in no particular order, shape (size,)."""
        return self.generator.choice(n, size, replace=False, shuffle=False)

    def keys(self, number: int) -> np.ndarray:
        """Return keys of new streams, shape (number, 4); they are as secret as this one."""
        return self.generator.integers(2**64, size=(number, 4), dtype=np.uint64)

    def generators(self, number: int) -> list[np.random.Generator]:
        """Return generators with streams of their own, with keys from this one; each is for one use."""
        return [np.random.Generator(ChaCha(key=key, rounds=20)) for key in self.keys(number)]

    @classmethod
    def keyed(cls, key: np.ndarray) -> "PrivacyRandom":
        """Return the stream of one of the `keys`, perhaps in another process; it must not make noise."""
        made = cls()
        made._generator = np.random.Generator(ChaCha(key=key, rounds=20))
        return made

    def __reduce__(self):
        raise TypeError("a noise stream is never copied or stored")


#: Bits of the noise that are kept in a value that may be released: its grid is 1/16 to 1/32 of the noise.
RELEASED = 4
#: Bits of the noise that are kept in a value of which only a decision is released. Rounding adds less than
#: 1e-13 of the noise's variance, so that accept tests that are exact for Gaussian noise stay so.
DECIDED = 20


class ExactSum(NamedTuple):
    """A sum over records of contributions that are clipped to a bound, exact in floating point.

    Attributes
    ----------
    value : float or ndarray
        The sum in units of `unit`. Private: it must not be released.
    unit : float
        Public factor of what is released.
    """

    value: float | np.ndarray
    unit: float = 1.0

    @staticmethod
    def sensitivity(neighboring_relation: str) -> float:
        """Return the most by which one record moves the sum, in clip bounds: 2 if it is replaced, else 1."""
        return 2.0 if neighboring_relation == "substitute" else 1.0


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise; the only class that draws normal numbers as noise.

    Parameters
    ----------
    std : float
        Standard deviation, in units of the sum; 0 for no noise.
    bits : int
        `RELEASED` or `DECIDED`: results are multiples of `grid`.

    Notes
    -----
    **Privacy.** Event: a Gaussian release of noise multiplier ``std / sensitivity`` (`ExactSum.sensitivity`).
    Rounding is post-processing. The grid is a power of two that depends on `std` alone, which is public: the
    low bits of a sum in floating point, and of the noise, are not released (Mironov 2012; docs/proofs/noise).
    """

    std: float
    bits: int = RELEASED

    @cached_property
    def grid(self) -> float:
        """Spacing of the grid, ``2**floor(log2(std)) / 2**bits``; 0 for no rounding."""
        return math.ldexp(1.0, math.frexp(self.std)[1] - 1 - self.bits) if self.std > 0 else 0.0

    def release(self, total: ExactSum, random: PrivacyRandom) -> Any:
        """Return a noisy sum, a multiple of ``total.unit * grid``: a number, or an array like the sum."""
        noise = random.normals(np.shape(total.value) or None)
        return total.unit * self.rounded(total.value + self.std * noise)

    def rounded(self, value: Any) -> Any:
        """Round to the grid, which removes the bits that must not be released."""
        grid = self.grid
        return np.rint(value / grid) * grid if grid > 0 else value


@dataclass(frozen=True)
class ClipFraction:
    """A chain's mean share of clipped ratios, with Gaussian noise.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise, divided by the sensitivity 1 / n; 0 for no noise.

    Notes
    -----
    **Privacy.** Given the chain's trajectory, one record moves each iteration's share, and so their mean, by
    at most 1 / n: one Gaussian release. It is rounded to a grid of a sixteenth to a thirty-second of the
    noise, so that the last bits of a floating-point sum are not released.
    """

    noise_multiplier: float

    def event(self) -> dp_event.DpEvent:
        """Return the event of a chain's release."""
        return dp_event.GaussianDpEvent(self.noise_multiplier)

    def release(self, clipped: float, n: int, iterations: int, random: PrivacyRandom) -> float:
        """Release the noisy share. It may lie outside of [0, 1], and far outside if n is small.

        Parameters
        ----------
        clipped : float
            Number of clipped ratios, summed over the chain's iterations.
        n : int
            Number of records (public).
        iterations : int
            Iterations of the chain, tuning included.
        random : PrivacyRandom
        """
        share = clipped / (n * iterations)
        if self.noise_multiplier == 0:
            return share
        return float(Gaussian(self.noise_multiplier / n).release(ExactSum(share), random))


@dataclass(frozen=True)
class FixedSizeBatches:
    """Batches: uniform sets of `batch_size` out of `dataset_size` privacy units, drawn anew each time.

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
    **Privacy.** The batch is secret: amplification by sampling holds against those who do not know who was
    drawn. The events are those of the sampling that `draw` does; a step cannot state others.
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
        """Draw positions 0..n-1, shape (batch_size,), all different, in no particular order."""
        return random.without_replacement(self.dataset_size, self.batch_size)

    def gaussian_event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """Return the event of a Gaussian release on a batch; the multiplier is over the sensitivity there."""
        release = dp_event.GaussianDpEvent(noise_multiplier)
        return dp_event.SampledWithoutReplacementDpEvent(self.dataset_size, self.batch_size, release)

    def penalty_event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """Return the event of a decision of the penalty test on a batch."""
        return events.BatchPenaltyDecisionDpEvent(self.batch_size, self.dataset_size, noise_multiplier)

    def barker_event(self) -> dp_event.DpEvent:
        """Return the event of a minibatch Barker decision (Räisä 2021, Theorem 8)."""
        return events.BarkerMinibatchDpEvent(self.batch_size, self.dataset_size)


@dataclass(frozen=True)
class PoissonBatches:
    """Batches in which each privacy unit is with one probability, independently, drawn anew each time.

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
    released. Nor is n, which is not part of these settings.
    """

    sampling_probability: float

    def __post_init__(self) -> None:
        check_share("sampling_probability", self.sampling_probability, whole=True)

    def draw(self, random: PrivacyRandom, n: int) -> np.ndarray:
        """Draw positions 0..n-1, all different, in no particular order; all of them if q is 1."""
        return random.without_replacement(n, int(random.generator.binomial(n, self.sampling_probability)))

    def gaussian_event(self, noise_multiplier: float) -> dp_event.DpEvent:
        """Return the event of a Gaussian release of a sum over the batch, which has all units if q is 1."""
        release = dp_event.GaussianDpEvent(noise_multiplier)
        if self.sampling_probability == 1:
            return release
        return dp_event.PoissonSampledDpEvent(float(self.sampling_probability), release)


@dataclass(frozen=True)
class TunaBatches:
    """Batches that are a Poisson number of uniform draws with replacement; TunaMH keeps some (`ratios.tuna`).

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
    reports the expected number only. A move with a smaller bound uses the same batches, and costs no more.
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
        """Draw positions 0..n-1 with repeats; their number is ``Poisson(n inclusion)``, and secret."""
        return random.generator.integers(n, size=int(random.generator.poisson(n * self.inclusion)))

    def barker_event(self) -> dp_event.DpEvent:
        """Return the event of a decision by Barker's test."""
        return events.PoissonBarkerDecisionDpEvent(self.rate, self.clip_bound)

    def mixture_event(self, noise_std: float) -> dp_event.DpEvent:
        """Return the event of a log-ratio with Gaussian noise; `noise_std` is that at the largest bound."""
        return events.PoissonMixtureDpEvent(self.rate, self.clip_bound, noise_std)


def histogram_sensitivity(neighboring_relation: str) -> float:
    """Return the most by which one record moves a histogram's counts, in Euclidean norm.

    A record adds a vector of norm at most 1, whose entries are not negative.

    Parameters
    ----------
    neighboring_relation : {"substitute", "add_remove"}

    Returns
    -------
    float
        ``sqrt(2)`` if a record is replaced, as it moves 1 from one cell to another; otherwise 1.
    """
    return math.sqrt(2.0) if neighboring_relation == "substitute" else 1.0
