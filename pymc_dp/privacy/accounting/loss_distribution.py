"""Privacy loss distributions of many different subsampled Gaussians, composed once in Fourier space.

Each mechanism's trade-off curve is known exactly (or bounded); it is replaced by the curve through its
values on a grid of losses with straight lines between (in exp(epsilon)), which lies above it and belongs to
a discrete pair of distributions (Doroshenko et al. 2022). What is cut off at the ends, wrapped around and
rounded is added to delta. Of many noise scales only a few are put on a grid: the others are mixtures of
these (docs/proofs/sampled_gaussians).
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.sampled_gaussian import (
    Lossy,
    Mixture,
    SampledGaussian,
    half_replacements,
    mixtures,
    sampled_gaussians,
)

__all__ = [
    "LossDistribution",
    "Replacement",
    "SampledGaussian",
    "half_replacements",
    "running_epsilon",
    "sampled_gaussians",
]


@dataclass(frozen=True)
class _Accuracy:
    variance_share: float  # discretization adds at most this share of the variance of the loss
    node_ratio: float  # of the losses of neighbours among the noise scales that are put on a grid
    most_mixtures: int  # with more noise scales than this, shares are rounded up
    levels: int  # to multiples of 1 / levels


_FINE = _Accuracy(2e-4, 1.03, 512, 8)
# Along a run, many times over.
_ALONG = _Accuracy(1e-3, 1.06, 256, 8)
# For a first look, at a tenth of the cost.
_COARSE = _Accuracy(5e-3, 1.2, 8, 4)

# Probability, over the whole composition, of what is cut off at the ends.
_TAIL = 1e-15
_NEGLIGIBLE = 1e-30
_LARGEST_GRID = 2**18
_LARGEST_MU = 20.0
# No grid goes further; so many candidates for its end are tried.
_LARGEST_LOSS = 600.0
_CANDIDATES = 100
# Points along a run, spread evenly and in ratio.
_POINTS = 40
_SHARES = np.linspace(0.05, 0.95, 19).tolist()  # of a removal in a replacement
_EPS = np.finfo(float).eps
# Kinds whose curve depends on which data set has the record.
_TWO_CURVES = ("poisson add_remove", "poisson mixture")


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

    Raises
    ------
    OverflowError
        The losses spread too far for the numerical method.

    Notes
    -----
    **Privacy.** Adaptive composition of mechanisms whose curves are dominated by fixed pairs is dominated by
    the product of the pairs (Zhu, Dong & Wang 2022, Theorem 10). Both orders of the two data sets are
    composed.
    """

    def __init__(self, mechanisms: Mapping[Lossy, int], coarse: bool = False):
        (self._directions,) = _prefixes([mechanisms], _COARSE if coarse else _FINE)

    @property
    def directions(self) -> tuple[_Composed, _Composed]:
        """For record present / absent, and for absent / present."""
        return self._directions[0], self._directions[-1]

    def epsilon(self, delta: float) -> float:
        """Upper bound of epsilon at `delta`; inf below what the numerical error allows."""
        return max((one.epsilon(delta) for one in self._directions), default=0.0)

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta at `epsilon`."""
        return min(max((one.delta(epsilon) for one in self._directions), default=0.0), 1.0)


@dataclass(frozen=True)
class Replacement:
    """One record removed, then another added: two halves of a replacement.

    Parameters
    ----------
    halves : LossDistribution

    Notes
    -----
    **Privacy.** With the curve of the removal and that of the addition, ``delta(e1 + e2) <= removal(e1) +
    exp(e1) addition(e2)`` for all e1, e2 (docs/proofs/decision_accounting, "Replacing a record").
    """

    halves: LossDistribution

    def epsilon(self, delta: float) -> float:
        """Upper bound."""
        removal, addition = self.halves.directions
        best = math.inf
        for share in _SHARES:
            first = removal.epsilon(share * delta)
            if first < _LARGEST_LOSS:
                best = min(best, first + addition.epsilon((1 - share) * delta * math.exp(-first)))
        return best * (1 + 1e-12)

    def delta(self, epsilon: float) -> float:
        """Upper bound."""
        removal, addition = self.halves.directions
        parts = [share * epsilon for share in _SHARES]
        values = [removal.delta(e) + math.exp(e) * addition.delta(epsilon - e) for e in parts if e < 600]
        return min(min(values, default=1.0) * (1 + 1e-12), 1.0)


def running_epsilon(
    steps: Sequence[EventSet], once: EventSet, iterations: int, delta: float, chains: int
) -> np.ndarray:
    """Epsilon along a run of sampled Gaussians, from one pass over it.

    Parameters
    ----------
    steps : sequence of EventSet
        What each iteration of a chain releases, or one entry for all.
    once : EventSet
        Charged from the first iteration on.
    iterations : int
        Of each chain.
    delta : float
    chains : int

    Returns
    -------
    ndarray, shape (iterations,)
        Upper bounds, non-decreasing: within one per cent of `LossDistribution` at some eighty iterations, and
        at each of the others the next of these. inf where the method has no bound.
    """
    ends = np.concatenate([np.geomspace(1, iterations, _POINTS), np.linspace(1, iterations, _POINTS)])
    points = np.unique(np.ceil(np.minimum(ends, iterations))).astype(int)
    segments = []
    for start, stop in pairwise([0, *points.tolist()]):
        between = steps[start:stop] if len(steps) > 1 else [steps[0].repeated(stop - start)]
        events = EventSet([one.repeated(chains) for one in between] + ([] if start else [once]))
        mechanisms = sampled_gaussians(events.counts, events.neighboring_relation)
        if mechanisms is None:
            return np.full(iterations, np.inf)
        segments.append(mechanisms)
    try:
        prefixes = _prefixes(segments, _ALONG)
    except OverflowError:
        return np.full(iterations, np.inf)
    values = [max((one.epsilon(delta) for one in prefix), default=0.0) for prefix in prefixes]
    at_points = np.maximum.accumulate(values)
    return at_points[np.searchsorted(points, np.arange(1, iterations + 1), side="left")]


_Mass = tuple[np.ndarray, float]
_Segments = list[dict[Mixture, int]]


def _prefixes(segments: Sequence[Mapping[Lossy, int]], accuracy: _Accuracy) -> list[list[_Composed]]:
    """Composition of the first, of the first two, ... segments, in each order of the data sets."""
    counts: dict[Lossy, int] = defaultdict(int)
    for segment in segments:
        for one, count in segment.items():
            counts[one] += count
    if not counts:
        return [[] for _ in segments]
    if max(one.mu for one in counts) > _LARGEST_MU:
        raise OverflowError("a release has almost no noise")
    levels = accuracy.levels if len(counts) > accuracy.most_mixtures else None
    mixed = mixtures(counts, accuracy.node_ratio, levels)
    parts: _Segments = []
    for segment in segments:
        part: dict[Mixture, int] = defaultdict(int)
        for one, count in segment.items():
            part[mixed[one]] += count
        parts.append(part)
    variance = sum(count * one.spread**2 for one, count in counts.items())
    step = math.sqrt(6 * accuracy.variance_share * variance / sum(counts.values()))
    step = min(step, 0.05 * math.sqrt(variance), 0.05)
    for _ in range(4):
        try:
            return _both_directions(parts, step)
        except OverflowError:
            step *= 4  # coarser, still an upper bound
    raise OverflowError("the losses spread too far for one grid")


def _both_directions(parts: _Segments, step: float) -> list[list[_Composed]]:
    tail = _TAIL / sum(sum(part.values()) for part in parts)
    used = {one for part in parts for mixture in part for one in mixture.used}
    pairs = {one: _discretized(one, step, tail) for one in used}
    orders = (0, 1) if any(one.kind in _TWO_CURVES for one in used) else (0,)
    directions = [
        _compose({one: pair[order] for one, pair in pairs.items()}, parts, step) for order in orders
    ]
    return [list(prefix) for prefix in zip(*directions, strict=True)]


def _discretized(one: Lossy, step: float, tail: float) -> tuple[_Mass, _Mass]:
    """Masses of the loss at -n..n times `step`, and at infinity, in both orders of the data sets."""
    reach = np.geomspace(one.spread, _LARGEST_LOSS, _CANDIDATES)
    enough = np.maximum(*one.log_profiles(reach)) <= math.log(tail)
    points = math.ceil(float(reach[np.argmax(enough)]) / step) + 1
    if not enough.any() or points > _LARGEST_GRID:
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


def _compose(masses: Mapping[Lossy, _Mass], parts: _Segments, step: float) -> list[_Composed]:
    windows = _windows(masses, parts, step)
    widest = max(high - low for low, high in windows)
    length = max(next_fast_len(max(int(widest / step) + 3, 16), real=True), 16)
    if length > _LARGEST_GRID:
        raise OverflowError("the losses spread too far for one grid")
    spectra = {one: _spectrum(mass, length) for one, (mass, _) in masses.items()}
    spectrum = np.ones(length // 2 + 1, dtype=complex)
    infinite, total = 0.0, 0
    prefixes = []
    for part, (low, _) in zip(parts, windows, strict=True):
        spectrum = spectrum * _product(part, spectra)
        for mixture, count in part.items():
            infinite += count * mixture.of({one: masses[one][1] for one in mixture.used})
            total += count
        result = irfft(spectrum, length)
        rounding = 8 * _EPS * (total + math.log2(length)) * 2 * float(np.abs(spectrum).sum())
        first = math.floor(low / step)
        index = np.arange(first, first + length)
        mass = np.maximum(result[index % length], 0.0)
        prefixes.append(_Composed(index * step, mass, infinite + 2 * _TAIL + rounding))
    return prefixes


def _spectrum(mass: np.ndarray, length: int) -> np.ndarray:
    n = mass.size // 2
    return rfft(np.bincount(np.arange(-n, n + 1) % length, weights=mass, minlength=length))


def _product(part: Mapping[Mixture, int], spectra: Mapping[Lossy, np.ndarray]) -> np.ndarray | float:
    by_count: dict[int, np.ndarray] = {}
    for mixture, count in part.items():
        one = mixture.of(spectra)
        by_count[count] = by_count[count] * one if count in by_count else one
    result: np.ndarray | float = 1.0
    for count, values in by_count.items():
        result = result * _power(values, count)
    return result


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


def _windows(masses: Mapping[Lossy, _Mass], parts: _Segments, step: float) -> list[tuple[float, float]]:
    """For each prefix, an interval that its loss leaves with probability below 2 * _TAIL (Chernoff)."""
    losses = {one: (np.arange(mass.size) - mass.size // 2) * step for one, (mass, _) in masses.items()}
    variances = {one: _dot(mass, losses[one] ** 2) for one, (mass, _) in masses.items()}
    variance = sum(count * mixture.of(variances) for part in parts for mixture, count in part.items())
    need = -math.log(_TAIL)
    # Slopes fit for a sum that is nearly normal, and for rare large losses, whose tails are exponential.
    slopes = np.minimum(math.sqrt(2 * need / variance), [1e300, 8.0])[:, None] * (0.25, 0.5, 1.0, 1.5)
    slopes = np.unique(slopes)
    moments = {}
    log_moments = np.zeros((2, slopes.size))
    windows = []
    with np.errstate(over="ignore", invalid="ignore"):
        for one, (mass, _) in masses.items():
            present = mass > 0
            exponent = losses[one][present] * slopes[:, None]
            moments[one] = np.array(
                [np.einsum("i,ji->j", mass[present], np.exp(sign * exponent)) for sign in (-1.0, 1.0)]
            )
        for part in parts:
            for mixture, count in part.items():
                log_moments += count * np.log(mixture.of(moments))
            ends = (np.where(np.isnan(log_moments), np.inf, log_moments) + need) / slopes
            windows.append((-float(ends[0].min()), float(ends[1].min())))
    return windows
