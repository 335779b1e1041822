"""The one door for noise: exact sums go in; what comes out may be used, and released where that is paid."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom

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

    value: Any
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

    @property
    def grid(self) -> float:
        """``2**floor(log2(std)) / 2**bits``; 0 for no rounding."""
        return math.ldexp(1.0, math.frexp(self.std)[1] - 1 - self.bits) if self.std > 0 else 0.0

    def release(self, total: ExactSum, random: PrivacyRandom) -> Any:
        """Noisy sum, a multiple of ``total.unit * grid``; a number, or an array of the sum's shape."""
        scalar = np.ndim(total.value) == 0
        noise = random.normal() if scalar else random.normals(np.shape(total.value))
        return total.unit * self.rounded(total.value + self.std * noise)

    def release_product(self, x: list[float], y: list[float], random: PrivacyRandom) -> float:
        """Sum of products ``x[i] y[i]`` with noise, as `release`; it is exact, and rounded once before."""
        return float(self.rounded(math.sumprod([*x, self.std], [*y, random.normal()])))

    def rounded(self, value: Any) -> Any:
        """To the grid: what lies below the noise's last bits that may leave is dropped."""
        grid = self.grid
        return np.round(value / grid) * grid if grid > 0 else value
