"""Renyi curves of Gaussian releases, conversion to (epsilon, delta), and the search for the best order."""

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.rdp import RdpAccountant
from scipy.special import gammaln, logsumexp

#: Orders that are tried. Every order gives a valid bound; the grid (6 per cent steps in alpha - 1) makes it
#: looser by at most 0.1 per cent.
ORDERS = np.unique(
    np.concatenate([1 + np.geomspace(0.02, 10, 108), np.arange(2, 65), np.round(np.geomspace(64, 1e7, 206))])
)

#: Share of delta for rare events outside of which the Renyi bounds hold.
EXCLUDED_SHARE = 1e-3

Curve = Callable[[float], float]


def log_delta_at(order: float, divergence: float, epsilon: float) -> float:
    """Return log delta at `epsilon` from one order (Canonne, Kamath & Steinke 2020, Proposition 12)."""
    return (order - 1) * (divergence - epsilon + math.log1p(-1 / order)) - math.log(order)


def epsilon_at(order: float, divergence: float, delta: float) -> float:
    """Return epsilon at `delta` from one order: ``R + ln(1 - 1/a) - ln(delta a) / (a - 1)``."""
    return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def lost(excluded: float, epsilon: float) -> float:
    """Return what rare events, outside of which a bound holds, add to delta; inf above 600 nats."""
    if excluded == 0:
        return 0.0
    return (1 + math.exp(epsilon)) * excluded if epsilon <= 600 else math.inf


def smallest(curve: Curve, objective: Callable[[float, float], float]) -> float:
    """Minimize ``objective(order, curve(order))`` by a local search over `ORDERS`.

    Every order gives a valid bound: if the search misses the best order, the result is looser, but not wrong.

    Parameters
    ----------
    curve : callable
        Renyi divergence at an order.
    objective : callable
        Function of the order and the divergence.
    """

    @cache
    def value(index: int) -> float:
        order = float(ORDERS[index])
        divergence = curve(order)
        return objective(order, divergence) if divergence < math.inf else math.inf

    few, slope = range(0, ORDERS.size, 12), curve(2.0) / 2
    best = 0
    if slope < math.inf:  # start at the best order of a straight line through the divergence at order 2
        best = min(few, key=lambda index: objective(float(ORDERS[index]), slope * float(ORDERS[index])))
    if value(best) == math.inf:
        best = min(few, key=value)
    for step in (6, 3, 1):
        while True:  # descend: up to the spacing of the grid, the objective has one minimum
            near = [index for index in (best - step, best, best + step) if 0 <= index < ORDERS.size]
            better = min(near, key=value)
            if value(better) >= value(best):
                break
            best = better
    return value(best)


def gaussian_rdp(noise_multiplier: float, order: float) -> float:
    """Return ``order / (2 nm^2)``."""
    return order / (2 * noise_multiplier**2) if noise_multiplier > 0 else math.inf


@lru_cache(maxsize=100_000)
def poisson_gaussian_rdp(q: float, noise_multiplier: float, order: float) -> float:
    """Bound a Poisson-subsampled Gaussian, add/remove, by `dp_accounting` (Mironov, Talwar & Zhang 2019)."""
    if q == 0:
        return 0.0
    if order > 256 or noise_multiplier == 0:  # larger orders take too long
        return gaussian_rdp(noise_multiplier, order)
    accountant = RdpAccountant([order], NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(noise_multiplier)))
    return min(float(accountant.rdp[0]) * (1 + 1e-9) + 1e-15, gaussian_rdp(noise_multiplier, order))


@lru_cache(maxsize=100_000)
def subsampled_gaussian_rdp(q: float, noise_multiplier: float, order: float) -> float:
    """Bound a Gaussian on a batch without replacement, "substitute" (Räisä 2021, Theorem 9).

    Never more than the bound without subsampling.
    """
    plain = gaussian_rdp(noise_multiplier, order)
    if noise_multiplier == 0 or q == 1 or order > 512:  # longer series take too long
        return plain
    # (a - 1) D_a is convex in a, so chords between integers lie above it.
    ends = [math.floor(order), math.floor(order) + 1]
    cgf = np.interp(order, ends, [_amplified_cgf(q, noise_multiplier, end) for end in ends])
    return min(plain, float(cgf) / (order - 1))


def _amplified_cgf(q: float, noise_multiplier: float, order: int) -> float:
    """Bound ``(a - 1) D_a`` after sampling (Wang, Balle & Kasiviswanathan 2019, Theorem 9), integer order."""
    if order == 1:
        return 0.0
    j = np.arange(2, order + 1, dtype=float)
    divergence = j / (2 * noise_multiplier**2)
    log_binomial = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    terms = j * math.log(q) + log_binomial + (j - 1) * divergence + math.log(2)
    if divergence[0] < math.log(2):  # j = 2: min(4 (e^d - 1), 2 e^d)
        terms[0] = 2 * math.log(q) + log_binomial[0] + math.log(4 * math.expm1(divergence[0]))
    return float(np.logaddexp(0.0, logsumexp(terms))) * (1 + 1e-12)
