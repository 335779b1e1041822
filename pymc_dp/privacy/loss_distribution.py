"""Privacy loss distributions of many different subsampled Gaussians, composed once in Fourier space.

Each mechanism's trade-off curve is known exactly (or bounded); it is replaced by the curve through its
values on a grid of losses with straight lines between (in exp(epsilon)), which lies above it and belongs to
a discrete pair of distributions (Doroshenko et al. 2022). What is cut off at the ends, wrapped around and
rounded is added to delta.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event
from scipy.fft import irfft, next_fast_len, rfft

from pymc_dp.privacy import gaussian
from pymc_dp.privacy.events import FixedScalePenaltyDecisionDpEvent, PenaltyDecisionDpEvent

# Probability, over the whole composition, of what is cut off at the ends.
_TAIL = 1e-15
# Discretization adds at most this share of the variance of the loss.
_VARIANCE_SHARE = 2e-4
# Mechanisms whose loss differs by less than this ratio share the noise of the least noisy of them.
_GROUP_RATIO = 1.012
_UNGROUPED = 256
# The same for a first look, at a tenth of the cost.
_VARIANCE_SHARE_COARSE, _GROUP_RATIO_COARSE, _UNGROUPED_COARSE = 5e-3, 1.08, 8
_NEGLIGIBLE = 1e-30
_LARGEST_GRID = 2**18
_LARGEST_MU = 20.0
_EPS = np.finfo(float).eps


@dataclass(frozen=True)
class SampledGaussian:
    """A Gaussian release on a random part of the records.

    Parameters
    ----------
    probability : float
        Inclusion probability of a record.
    mu : float
        Sensitivity over noise standard deviation, of the release without sampling.
    kind : {"poisson add_remove", "poisson substitute", "fixed substitute"}
    """

    probability: float
    mu: float
    kind: str

    @property
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss; only steers grids, never a bound."""
        return min(self.probability * math.sqrt(math.expm1(min(self.mu**2, 500.0))), self.mu)

    def log_profiles(self, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of delta at epsilon > 0 for record present / absent, and for absent / present.

        Poisson, add/remove: exact. "substitute": advanced joint convexity (Balle, Barthe & Gaboardi 2018,
        Theorem 2), an upper bound. See docs/accounting.
        """
        q = self.probability
        inner = np.log1p(np.expm1(epsilon) / q)
        log_q = math.log(q)
        one = log_q + gaussian.log_delta(self.mu, inner)
        if self.kind == "fixed substitute":
            return one, one
        if self.kind == "poisson substitute":
            # Removing a record is half a replacement; the weights are 1 - beta and beta = exp(epsilon -
            # inner).
            removed = log_q + gaussian.log_delta(self.mu / 2, inner)
            beta = np.exp(epsilon - inner)
            with np.errstate(divide="ignore"):
                both = np.logaddexp(np.log1p(-np.minimum(beta, 1.0)) + removed, np.log(beta) + one)
            return both, both
        rest = 1 - (1 - q) * np.exp(epsilon)
        possible = rest > 0
        rest = np.where(possible, rest, 1.0)
        gap = epsilon + log_q - np.log(rest)
        absent = np.where(possible, np.log(rest) + gaussian.log_delta(self.mu, np.maximum(gap, 0.0)), -np.inf)
        return one, absent


def sampled_gaussians(
    counts: Mapping[dp_event.DpEvent, int], neighboring_relation: str
) -> dict[SampledGaussian, int] | None:
    """The events as sampled Gaussians; None if one of them is not.

    Full-batch Gaussians, and penalty decisions (functions of one), become a single Gaussian.
    """
    found: dict[SampledGaussian, int] = defaultdict(int)
    squared = 0.0
    for event, count in counts.items():
        match event:
            case dp_event.GaussianDpEvent() | PenaltyDecisionDpEvent() | FixedScalePenaltyDecisionDpEvent():
                if event.noise_multiplier == 0:
                    return None
                squared += count / event.noise_multiplier**2
            case dp_event.PoissonSampledDpEvent(probability, dp_event.GaussianDpEvent(noise)):
                kind = f"poisson {neighboring_relation}"
            case dp_event.SampledWithoutReplacementDpEvent(size, batch, dp_event.GaussianDpEvent(noise)):
                probability, kind = batch / size, "fixed substitute"
            case _:
                return None
        if isinstance(event, dp_event.PoissonSampledDpEvent | dp_event.SampledWithoutReplacementDpEvent):
            if noise == 0:
                return None
            if probability == 1:
                squared += count / noise**2
            elif probability > 0 and math.isfinite(noise):
                found[SampledGaussian(probability, 1 / noise, kind)] += count
    if squared > 0:
        found[SampledGaussian(1.0, math.sqrt(squared), "fixed substitute")] += 1
    return dict(found)


def grouped(mechanisms: Mapping[SampledGaussian, int], coarse: bool = False) -> dict[SampledGaussian, int]:
    """Fewer mechanisms: neighbours in noise share the largest mu among them, which costs more, never less."""
    if len(mechanisms) <= (_UNGROUPED_COARSE if coarse else _UNGROUPED):
        return dict(mechanisms)
    ratio = _GROUP_RATIO_COARSE if coarse else _GROUP_RATIO
    result: dict[SampledGaussian, int] = defaultdict(int)
    leader: SampledGaussian | None = None
    for one in sorted(mechanisms, key=lambda m: (m.kind, m.probability, -m.mu)):
        same = leader is not None and (leader.kind, leader.probability) == (one.kind, one.probability)
        if leader is None or not same or leader.spread > ratio * one.spread:
            leader = one
        result[leader] += mechanisms[one]
    return dict(result)


@dataclass(frozen=True)
class _Composed:
    """Composed discrete loss: mass at grid points, and what goes into delta on top."""

    losses: np.ndarray
    mass: np.ndarray
    lost: float

    def delta(self, epsilon: float) -> float:
        above = self.losses > epsilon
        return _dot(self.mass[above], -np.expm1(epsilon - self.losses[above])) + self.lost

    def epsilon(self, delta: float) -> float:
        if self.lost >= delta:
            return math.inf
        # Suffix sums: delta(e) = A - e^e B on each interval between grid points.
        positive = self.losses > 0
        losses, mass = self.losses[positive], self.mass[positive]
        if losses.size == 0:
            return 0.0
        a = np.cumsum(mass[::-1])[::-1] + self.lost
        b = np.cumsum((mass * np.exp(-losses))[::-1])[::-1]
        with np.errstate(over="ignore", invalid="ignore"):
            enough = np.where(b > 0, a - np.exp(losses) * b, self.lost) <= delta
        if not enough.any():
            return math.inf
        index = int(np.argmax(enough))
        low = float(losses[index - 1]) if index else 0.0
        root = math.log(a[index] - delta) - math.log(b[index]) if a[index] > delta and b[index] > 0 else low
        return max(root * (1 + 1e-12), low)


class LossDistribution:
    """Upper bound of the trade-off curve of a composition of sampled Gaussians.

    Parameters
    ----------
    mechanisms : mapping of SampledGaussian to int
    coarse : bool
        Fast and a few per cent looser, still an upper bound.

    Notes
    -----
    **Privacy.** Adaptive composition of mechanisms whose curves are dominated by fixed pairs is dominated by
    the product of the pairs (Zhu, Dong & Wang 2022, Theorem 10). Both orders of the two data sets are
    composed.
    """

    def __init__(self, mechanisms: Mapping[SampledGaussian, int], coarse: bool = False):
        mechanisms = grouped(mechanisms, coarse)
        self._directions: list[_Composed] = []
        if not mechanisms:
            return
        if max(one.mu for one in mechanisms) > _LARGEST_MU:
            raise OverflowError("a release has almost no noise")
        total = sum(mechanisms.values())
        variance = sum(count * one.spread**2 for one, count in mechanisms.items())
        step = math.sqrt(6 * (_VARIANCE_SHARE_COARSE if coarse else _VARIANCE_SHARE) * variance / total)
        step = min(step, 0.05 * math.sqrt(variance), 0.05)
        for _ in range(4):
            try:
                self._directions = _both_directions(mechanisms, step)
                return
            except OverflowError:
                step *= 4  # coarser, still an upper bound
        raise OverflowError("the losses spread too far for one grid")

    def epsilon(self, delta: float) -> float:
        """Upper bound of epsilon at `delta`; inf for a delta that the arithmetic cannot resolve."""
        return max((one.epsilon(delta) for one in self._directions), default=0.0)

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta at `epsilon`."""
        return min(max((one.delta(epsilon) for one in self._directions), default=0.0), 1.0)


_Mass = tuple[np.ndarray, float]


def _both_directions(mechanisms: Mapping[SampledGaussian, int], step: float) -> list[_Composed]:
    tail = _TAIL / sum(mechanisms.values())
    pairs = [(_discretized(one, step, tail), count) for one, count in mechanisms.items()]
    directions = [_compose([(pair[0], count) for pair, count in pairs], step)]
    if any(one.kind == "poisson add_remove" for one in mechanisms):
        directions.append(_compose([(pair[1], count) for pair, count in pairs], step))
    return directions


def _discretized(one: SampledGaussian, step: float, tail: float) -> tuple[_Mass, _Mass]:
    """Masses of the loss at -n..n times `step`, and at infinity, in both orders of the data sets."""
    high = one.spread
    while max(float(profile[0]) for profile in one.log_profiles(np.array([high]))) > math.log(tail):
        high *= 1.3
    points = math.ceil(high / step) + 1
    if points > _LARGEST_GRID:
        raise OverflowError("the losses spread too far for one grid")
    epsilon = step * np.arange(points + 1)
    present, absent = one.log_profiles(epsilon)
    up = _positive_part(np.exp(present), epsilon)
    down = up if absent is present else _positive_part(np.exp(absent), epsilon)
    return _joined(up, down, epsilon), _joined(down, up, epsilon)


def _positive_part(delta: np.ndarray, epsilon: np.ndarray) -> tuple[np.ndarray, float]:
    """Mass at epsilon_1.., and at infinity, of the curve of straight lines through `delta`."""
    slope = -np.diff(delta) / (np.exp(epsilon[:-1]) * np.expm1(np.diff(epsilon)))
    drop = slope - np.append(slope[1:], 0.0)
    return np.maximum(np.exp(epsilon[1:]) * drop, 0.0), float(delta[-1])


def _joined(
    up: tuple[np.ndarray, float], down: tuple[np.ndarray, float], epsilon: np.ndarray
) -> tuple[np.ndarray, float]:
    # A loss of -e in one order is a loss of e in the other, with e^-e of its mass.
    negative = down[0] * np.exp(-epsilon[1:])
    centre = max(1.0 - float(up[0].sum() + negative.sum()) - up[1], 0.0)
    # Points of negligible mass cost time: they are lost to infinity.
    kept = (
        max(np.flatnonzero(up[0] > _NEGLIGIBLE)[-1:].sum(), np.flatnonzero(negative > _NEGLIGIBLE)[-1:].sum())
        + 1
    )
    cut = float(up[0][kept:].sum() + negative[kept:].sum())
    return np.concatenate([negative[:kept][::-1], [centre], up[0][:kept]]), up[1] + cut


def _compose(parts: list[tuple[_Mass, int]], step: float) -> _Composed:
    low, high = _window(parts, step)
    length = max(next_fast_len(max(int((high - low) / step) + 3, 16), real=True), 16)
    if length > _LARGEST_GRID:
        raise OverflowError("the losses spread too far for one grid")
    spectrum = np.ones(length // 2 + 1, dtype=complex)
    infinite, total = 0.0, 0
    for (mass, beyond), count in parts:
        n = mass.size // 2
        wrapped = np.bincount((np.arange(-n, n + 1)) % length, weights=mass, minlength=length)
        spectrum *= _power(rfft(wrapped), count)
        infinite += count * beyond
        total += count
    result = irfft(spectrum, length)
    rounding = 8 * _EPS * (total + math.log2(length)) * 2 * float(np.abs(spectrum).sum())
    first = math.floor(low / step)
    index = np.arange(first, first + length)
    return _Composed(index * step, np.maximum(result[index % length], 0.0), infinite + 2 * _TAIL + rounding)


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    # Not BLAS: its threads cost more than they save on vectors.
    return float(np.einsum("i,i->", a, b))


def _power(values: np.ndarray, exponent: int) -> np.ndarray:
    result = None
    while exponent:
        if exponent & 1:
            result = values if result is None else result * values
        exponent >>= 1
        if exponent:
            values = values * values
    return np.ones_like(values) if result is None else result


def _window(parts: list[tuple[_Mass, int]], step: float) -> tuple[float, float]:
    """Interval that the sum of the losses leaves with probability below 2 * _TAIL (Chernoff)."""
    losses = [(np.arange(mass.size) - mass.size // 2) * step for (mass, _), _ in parts]
    variance = sum(
        count * _dot(mass, loss**2) for ((mass, _), count), loss in zip(parts, losses, strict=True)
    )
    need = -math.log(_TAIL)
    # Slopes fit for a sum that is nearly normal, and for rare large losses, whose tails are exponential.
    slopes = np.unique(np.minimum(math.sqrt(2 * need / variance), [1e300, 8.0]))[:, None] * (
        0.25,
        0.5,
        1.0,
        1.5,
    )
    slopes = slopes.ravel()
    log_moments = np.zeros((2, slopes.size))
    with np.errstate(over="ignore", invalid="ignore"):
        for ((mass, _), count), loss in zip(parts, losses, strict=True):
            present = mass > 0
            for row, sign in enumerate((-1.0, 1.0)):
                moments = [_dot(mass[present], np.exp(sign * t * loss[present])) for t in slopes]
                log_moments[row] += count * np.log(moments)
    ends = (np.where(np.isnan(log_moments), np.inf, log_moments) + need) / slopes
    return -float(ends[0].min()), float(ends[1].min())
