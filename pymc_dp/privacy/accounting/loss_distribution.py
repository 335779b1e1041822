"""Privacy loss distributions of many different subsampled Gaussians, composed once in Fourier space.

Each mechanism's trade-off curve is known exactly (or bounded). It is replaced by the curve through its values
on a grid of losses with straight lines (in exp(epsilon)) between them. This curve lies above it, and is that
of a discrete pair of distributions (Doroshenko et al. 2022). Mass that is cut off at the ends or wrapped
around, and rounding errors, are added to delta. If there are many noise scales, only some of them are put on
a grid; each of the others is charged as the next of these that costs more.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from pymc_dp.privacy.accounting.composed_losses import LARGEST_GRID, TAIL, Composed, Mass, compose
from pymc_dp.privacy.accounting.sampled_gaussian import Lossy, strongest

# Largest loss of a grid, in nats.
_LARGEST_LOSS = 600.0
# Delta below which losses are composed again, with a numerical error that is small relative to the delta.
_SMALL_DELTA = 1e-6


class LossDistribution:
    """Upper bound of the trade-off curve of a composition of sampled Gaussians and Poisson mixtures.

    Parameters
    ----------
    mechanisms : mapping of SampledGaussian or PoissonMixture to int
    coarse : bool
        Whether to compute faster, with a bound that is a few per cent looser.

    Raises
    ------
    OverflowError
        The losses are spread too far for the numerical method.

    Notes
    -----
    **Privacy.** Adaptive composition of mechanisms whose curves are dominated by fixed pairs is dominated by
    the product of the pairs (Zhu, Dong & Wang 2022, Theorem 10). Both orders of the two data sets are
    composed.
    """

    def __init__(self, mechanisms: Mapping[Lossy, int], coarse: bool = False):
        # Settings for a price: the largest share of the loss's variance that discretization may add, and the
        # largest ratio of the losses of noise scales that are charged alike.
        fine_grid = (2e-4, 1.002)
        # The same settings for a first estimate, which takes a tenth of the time.
        coarse_grid = (5e-3, 1.1)
        self._settings = mechanisms, *(coarse_grid if coarse else fine_grid)
        self._plain = _composed(*self._settings, None)  # its error is about 1e-12 at every epsilon

    def epsilon(self, delta: float) -> float:
        """Return an upper bound."""
        plain = self._epsilon(self._plain, delta)
        if delta >= _SMALL_DELTA and math.isfinite(plain):
            return plain
        return min(plain, self._epsilon(self._near(delta), delta))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound."""
        plain = self._delta(self._plain, epsilon)
        # Smallest delta at which they are composed; smaller ones are replaced by it.
        smallest_delta = 1e-100
        near = max(plain, smallest_delta)
        while plain < _SMALL_DELTA:  # such a value may be mostly numerical error
            value = self._delta(self._near(near), epsilon)
            near, before = max(min(value, 1e-3 * near), smallest_delta), near
            if value > 1e-3 * before or near == smallest_delta:
                return min(plain, value)
        return plain

    def _near(self, delta: float) -> list[Composed]:
        """Compose the losses with a numerical error that is small relative to one delta."""
        try:
            return _composed(*self._settings, delta)
        except OverflowError:
            return self._plain

    def _epsilon(self, losses: list[Composed], delta: float) -> float:
        return max((one.epsilon(delta) for one in losses), default=0.0)

    def _delta(self, losses: list[Composed], epsilon: float) -> float:
        return min(max((one.delta(epsilon) for one in losses), default=0.0), 1.0)


class Replacement(LossDistribution):
    """Curve of a replacement, as a removal and then an addition; `mechanisms` are half of a replacement.

    Notes
    -----
    **Privacy.** With the curve of the removal and that of the addition, ``delta(e1 + e2) <= removal(e1) +
    exp(e1) addition(e2)`` for all e1, e2 (docs/proofs/decision_accounting, "Replacing a record").
    """

    # Shares of epsilon or delta that are tried for the removal; every share gives a valid bound.
    shares: ClassVar[list[float]] = np.linspace(0.05, 0.95, 19).tolist()

    def _epsilon(self, losses: list[Composed], delta: float) -> float:
        removal, addition = losses[0], losses[-1]
        best = math.inf
        for share in self.shares:
            first = removal.epsilon(share * delta)
            if first < _LARGEST_LOSS:
                best = min(best, first + addition.epsilon((1 - share) * delta * math.exp(-first)))
        return best * (1 + 1e-12)

    def _delta(self, losses: list[Composed], epsilon: float) -> float:
        removal, addition = losses[0], losses[-1]
        parts = [share * epsilon for share in self.shares]
        values = [
            removal.delta(e) + math.exp(e) * addition.delta(epsilon - e) for e in parts if e < _LARGEST_LOSS
        ]
        return min(min(values, default=1.0) * (1 + 1e-12), 1.0)


def _composed(
    counts: Mapping[Lossy, int], variance_share: float, ratio: float, delta: float | None
) -> list[Composed]:
    """Compose losses, in each order of the data sets."""
    if not counts:
        return []
    if max(one.mu for one in counts) > 20:
        raise OverflowError("a release has almost no noise")
    charged: dict[Lossy, int] = defaultdict(int)
    leaders = strongest(counts, ratio)
    for one, count in counts.items():
        charged[leaders[one]] += count
    variance = sum(count * one.spread**2 for one, count in counts.items())
    step = math.sqrt(6 * variance_share * variance / sum(counts.values()))
    step = min(step, 0.05 * math.sqrt(variance), 0.05)
    for _ in range(4):
        try:
            return _both_directions(charged, step, delta)
        except OverflowError:
            step *= 4  # a coarser grid, which still gives an upper bound
    raise OverflowError("the losses spread too far for one grid")


def _both_directions(counts: Mapping[Lossy, int], step: float, delta: float | None) -> list[Composed]:
    tail = min(TAIL, 1.0 if delta is None else 1e-6 * delta) / sum(counts.values())
    pairs = {one: _discretized(one, step, tail) for one in counts}
    # For these kinds the curve depends on which of the two data sets has the record.
    orders = (0, 1) if any(one.kind in ("poisson add_remove", "poisson mixture") for one in counts) else (0,)
    return [
        compose([(pair[order], counts[one]) for one, pair in pairs.items()], step, delta) for order in orders
    ]


def _discretized(one: Lossy, step: float, tail: float) -> tuple[Mass, Mass]:
    """Return masses of the loss at -n..n times `step`, and at infinity, in both orders of the data sets."""
    reach = np.geomspace(one.spread, _LARGEST_LOSS, 100)
    enough = np.maximum(*one.log_profiles(reach)) <= math.log(tail)
    points = math.ceil(float(reach[np.argmax(enough)]) / step) + 1
    if not enough.any() or points > LARGEST_GRID:
        raise OverflowError("the losses spread too far for one grid")
    epsilon = step * np.arange(points + 1)
    present, absent = one.log_profiles(epsilon)
    up = _positive_part(np.exp(present), epsilon)
    down = up if absent is present else _positive_part(np.exp(absent), epsilon)
    return _joined(up, down, epsilon), _joined(down, up, epsilon)


def _positive_part(delta: np.ndarray, epsilon: np.ndarray) -> tuple[np.ndarray, float]:
    """Return masses at epsilon_1.., and at infinity, of the curve of straight lines through `delta`."""
    slope = -np.diff(delta) / (np.exp(epsilon[:-1]) * np.expm1(np.diff(epsilon)))
    drop = slope - np.append(slope[1:], 0.0)
    return np.maximum(np.exp(epsilon[1:]) * drop, 0.0), float(delta[-1])


def _joined(
    up: tuple[np.ndarray, float], down: tuple[np.ndarray, float], epsilon: np.ndarray
) -> tuple[np.ndarray, float]:
    # A loss of -e in one order is a loss of e in the other order, with its mass multiplied by exp(-e).
    negative = down[0] * np.exp(-epsilon[1:])
    centre = max(1.0 - float(up[0].sum() + negative.sum()) - up[1], 0.0)
    # Points of negligible mass would cost time: their mass is moved to infinity.
    kept = max(np.flatnonzero(mass > 1e-30)[-1:].sum() for mass in (up[0], negative)) + 1
    cut = float(up[0][kept:].sum() + negative[kept:].sum())
    return np.concatenate([negative[:kept][::-1], [centre], up[0][:kept]]), up[1] + cut
