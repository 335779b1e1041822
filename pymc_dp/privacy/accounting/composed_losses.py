"""Discretized privacy losses, composed in Fourier space.

Numerical errors are made under an exponentially tilted distribution, in which losses of probability delta are
common, so that they are small relative to delta (docs/accounting).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from sys import float_info
from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

# Probability, over the whole composition, of the losses that are cut off at the ends.
TAIL = 1e-15
# Largest number of points of a grid: its transforms take milliseconds, and a search makes hundreds of them.
LARGEST_GRID = 2**18
# Largest exponent of a weight ``exp(tilt loss)``, in nats. The product of two such weights does not overflow,
# as exponents of floating point end at 709.
_LARGEST_EXPONENT = 300.0

#: A discretized loss: the mass at -n..n times the spacing of the grid, and the mass at infinity.
Mass = tuple[np.ndarray, float]


class _Kind(NamedTuple):
    """Grid points of a loss, their masses (which need not add up to 1), and the number of such losses."""

    losses: np.ndarray
    mass: np.ndarray
    number: int

    @property
    def norm(self) -> float:
        return float(self.mass.sum())


@dataclass(frozen=True)
class Composed:
    """Composed discrete loss: masses at grid points, and the errors that are added to delta.

    Added are the mass at infinity, and the numerical error, which at epsilon is ``exp(log_error - tilt
    epsilon)``.
    """

    losses: np.ndarray
    mass: np.ndarray
    infinite: float
    log_error: float
    tilt: float

    def _lost(self, epsilon: np.ndarray) -> np.ndarray:
        return self.infinite + np.exp(np.minimum(self.log_error - self.tilt * epsilon, 0.0))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of delta at `epsilon`."""
        above = self.losses > epsilon
        lost = float(self._lost(np.asarray(epsilon)))
        return _dot(self.mass[above], -np.expm1(epsilon - self.losses[above])) + lost

    def epsilon(self, delta: float) -> float:
        """Return an upper bound of epsilon at `delta`."""
        # With suffix sums A and B, delta(e) = A - e^e B on each interval between grid points.
        positive = self.losses > 0
        losses, mass = self.losses[positive], self.mass[positive]
        if losses.size == 0:
            return 0.0 if self.delta(0.0) <= delta else math.inf
        # The error at the lower end of an interval is its largest, and is used for all of it.
        lost = self._lost(np.append(0.0, losses[:-1]))
        a = np.cumsum(mass[::-1])[::-1] + lost
        b = np.cumsum((mass * np.exp(-losses))[::-1])[::-1]
        # Where exponentials overflow or underflow, B is not used: delta is at most A.
        farthest = 690.0
        usable = (b > 1e-305) & (losses < farthest)  # smaller sums of B lose precision
        enough = np.where(usable, a - np.exp(np.minimum(losses, farthest)) * b, a) <= delta
        if not enough.any():
            return math.inf
        index = int(np.argmax(enough))
        low = float(losses[index - 1]) if index else 0.0
        root = math.log(a[index] - delta) - math.log(b[index]) if a[index] > delta else low
        return max(root * (1 + 1e-12), low)


def compose(kinds: Sequence[tuple[Mass, int]], step: float, delta: float | None) -> Composed:
    """Compose discretized losses.

    Parameters
    ----------
    kinds : sequence
        Discretized losses, each with its number of repetitions.
    step : float
        Spacing of the grid.
    delta : float, optional
        Delta at which the error is to be small.

    Raises
    ------
    OverflowError
        The losses spread too far for one grid.
    """
    plain = [_Kind((np.arange(mass.size) - mass.size // 2) * step, mass, n) for (mass, _), n in kinds]
    tilt = 0.0 if delta is None else _best_tilt(plain, delta)
    # Under the distribution with relative density exp(tilt loss), losses of probability delta are common.
    tilted = [one._replace(mass=one.mass * np.exp(tilt * one.losses)) for one in plain]
    low, high = _window(tilted)
    length = max(next_fast_len(max(int((high - low) / step) + 3, 16), real=True), 16)
    if length > LARGEST_GRID:
        raise OverflowError("the losses spread too far for one grid")
    spectrum = np.ones(length // 2 + 1, dtype=complex)
    for one in tilted:
        spectrum = spectrum * _power(_spectrum(one.mass, length) / one.norm, one.number)
    infinite = sum(count * lost for (_, lost), count in kinds)
    log_norm = sum(one.number * math.log(one.norm) for one in tilted)
    total = sum(one.number for one in tilted)
    result = irfft(spectrum, length)
    # Bound on the rounding error of the product of transforms, in units of machine epsilon times the number
    # of factors: each factor needs 8 at worst, and the rest is for the absolute error of a transform.
    rounding = 64 * float_info.epsilon * (total + math.log2(length)) * 2 * float(np.abs(spectrum).sum())
    index = np.arange(length) + math.floor(low / step)
    with np.errstate(over="ignore", invalid="ignore"):
        mass = np.maximum(result[index % length], 0.0) * np.exp(log_norm - tilt * index * step)
    mass = np.where(np.isnan(mass), 1.0, mass)  # 0 times infinity: a mass is at most 1
    # Relative errors of each weight exp(tilt loss), and of the powers of the norms.
    slack = 1 + float_info.epsilon * ((_LARGEST_EXPONENT + 8) * total + 8 * abs(log_norm))
    if tilt:
        mass = np.where(index > 0, np.minimum(mass * slack, 1.0), 0.0)
    return Composed(
        index * step, mass, infinite, log_norm + math.log(2 * TAIL + rounding) + math.log(slack), tilt
    )


def _best_tilt(kinds: Sequence[_Kind], delta: float) -> float:
    """Return the tilt at which Chernoff's bound of epsilon at `delta` is smallest; it affects errors only."""
    widest = max(float(one.losses[-1]) for one in kinds)
    tilts = np.geomspace(0.05, _LARGEST_EXPONENT / widest, 60)
    total = np.zeros(tilts.shape)
    for one in kinds:
        present = one.mass > 0
        total += one.number * np.log(np.exp(one.losses[present] * tilts[:, None]) @ one.mass[present])
    return float(tilts[np.argmin((total - math.log(delta)) / tilts)])


def _spectrum(mass: np.ndarray, length: int) -> np.ndarray:
    n = mass.size // 2
    return rfft(np.bincount(np.arange(-n, n + 1) % length, weights=mass, minlength=length))


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    # Without BLAS, whose threads cost more time on vectors than they save.
    return float(np.einsum("i,i->", a, b))


def _power(values: np.ndarray, exponent: int) -> np.ndarray:
    result = np.ones_like(values)
    while exponent:
        if exponent & 1:
            result = result * values
        exponent >>= 1
        values = values * values
    return result


def _window(kinds: Sequence[_Kind]) -> tuple[float, float]:
    """Return an interval outside of which the composed loss has probability below 2 * TAIL (Chernoff)."""
    variance = 0.0
    for one in kinds:
        mean = _dot(one.mass, one.losses) / one.norm
        variance += one.number * _dot(one.mass, (one.losses - mean) ** 2) / one.norm
    need = -math.log(TAIL)
    # Slopes of Chernoff's bound, for a nearly normal sum and for rare large losses with exponential tails.
    slopes = np.minimum(math.sqrt(2 * need / variance), [1e300, 8.0])[:, None] * (0.25, 0.5, 1.0, 1.5)
    slopes = np.unique(slopes)
    log_moments = np.zeros((2, slopes.size))
    with np.errstate(over="ignore", invalid="ignore"):
        for one in kinds:
            present = one.mass > 0
            exponent = one.losses[present] * slopes[:, None]
            for row, sign in enumerate((-1.0, 1.0)):
                moments = np.einsum("i,ji->j", one.mass[present], np.exp(sign * exponent))
                log_moments[row] += one.number * np.log(moments / one.norm)
        low, high = np.min((np.where(np.isnan(log_moments), np.inf, log_moments) + need) / slopes, axis=1)
    return -float(low), float(high)
