"""Renyi divergence of a record that enters a noisy sum a Poisson number of times (DP-Fast MH, penalty test).

The Renyi divergence of the mechanism itself is infinite at every order: a Poisson tail is heavier than a
normal one. The divergence is finite, and bounded here, if the number of times (the multiplicity) is capped.
The probability of exceeding the cap is added to delta (docs/proofs/decision_accounting, Theorem 7).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from sys import float_info

import numpy as np
from scipy.special import gammainc, gammaln, logsumexp

from pymc_dp.privacy.accounting.decisions import ROUNDING, convex_excess
from pymc_dp.privacy.accounting.gaussian import log_density, log_mills


def largest_multiplicity(rate: float, clip_bound: float) -> tuple[int, float]:
    """Return the cap on a record's multiplicity, and the probability that it is exceeded.

    Parameters
    ----------
    rate, clip_bound : float
        See `pymc_dp.privacy.accounting.events.PoissonMixtureDpEvent`.

    Returns
    -------
    cap : int
    probability : float
        ``P(Poisson(rate + clip_bound) > cap)``, at most 1e-22. No record's probability is larger.
    """
    mean = rate + clip_bound
    cap = 1
    # Largest probability, for one event, that the multiplicity exceeds the cap.
    rare = 1e-22
    while gammainc(cap + 1, mean) > rare:
        cap += max(1, cap // 16)
    return cap, float(gammainc(cap + 1, mean)) * (1 + ROUNDING)


@lru_cache(maxsize=50_000)
def poisson_mixture_rdp(
    rate: float, clip_bound: float, noise_std: float, order: float, substitute: bool
) -> float:
    """Bound the Renyi divergence of one Poisson-mixture release with capped multiplicity.

    Parameters
    ----------
    rate, clip_bound, noise_std : float
        See `pymc_dp.privacy.accounting.events.PoissonMixtureDpEvent`.
    order : float
        > 1.
    substitute : bool
        One record replaced; otherwise one added or removed.

    Returns
    -------
    float
        inf if the order is too large for the quadrature.

    Notes
    -----
    **Privacy.** For a record that is present or absent, the worst clipped ratio is w = -B, in both
    directions, for every f-divergence. A replacement is a removal and an addition, combined by Hölder's
    inequality (Mironov 2017, Proposition 11).
    """
    cap, _ = largest_multiplicity(rate, clip_bound)
    worst, jump = rate + clip_bound, math.log1p(clip_bound / rate) / noise_std
    if not substitute:
        return max(_divergence(worst, jump, cap, order, True), _divergence(worst, jump, cap, order, False))
    best = math.inf
    for p in (1.15, 1.4, 1.8, 2.5, 3.5):  # Hölder exponents that are tried
        # D_a(P || Q) <= (a - 1/p) / (a - 1) D_{pa}(P || N) + D_{p'(a - 1/p)}(N || Q), p' = p / (p - 1).
        weight = (order - 1 / p) / (order - 1)
        first = _divergence(worst, jump, cap, p * order, True)
        second = _divergence(worst, jump, cap, (p * order - 1) / (p - 1), False)
        best = min(best, weight * first + second)
    return best


@dataclass(frozen=True)
class PoissonMixture:
    """One record added to or removed from a noisy sum, at its worst ratio: for loss distributions.

    Parameters
    ----------
    mean : float
        Expected number of times that the record enters.
    mu : float
        What the record adds each time, divided by the standard deviation of the noise.
    """

    mean: float
    mu: float
    kind = "poisson mixture"

    @property
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss, for the choice of grids, not for bounds."""
        return math.sqrt(min(math.expm1(min(self.mean**2 * math.expm1(min(self.mu**2, 50.0)), 500.0)), 1e4))

    def log_profiles(self, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log delta at epsilon >= 0 for record present / absent, and for absent / present.

        docs/proofs/decision_accounting, Theorem 7, without a cap. The worst set is a half-line that ends
        where the log-ratio of the densities is plus or minus epsilon; delta is then a sum of positive terms.
        `epsilon` is non-decreasing.
        """
        cap, tail = largest_multiplicity(self.mean, 0.0)
        k = np.arange(cap + 1, dtype=float)
        log_weight = k * math.log(self.mean) - self.mean - gammaln(k + 1)
        jumps = k * self.mu
        close = 1e-9  # tolerance of the end of the half-line, whose error changes delta in second order only

        def terms(x: np.ndarray) -> np.ndarray:
            return log_weight + jumps * x[:, None] - 0.5 * jumps**2

        def where(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Find where the log-ratio (convex and increasing) is `target`; also return if it was found."""
            far = (self.mean + 1.0 + abs(math.log(self.mean))) / self.mu
            points = np.linspace(-far, far + float(np.max(target)) / self.mu, 500)
            x = np.interp(target, logsumexp(terms(points), axis=1), points)
            for _ in range(60):  # Newton steps
                parts = terms(x)
                value = logsumexp(parts, axis=1)
                slope = np.exp(parts - value[:, None]) @ jumps
                step = (value - target) / np.maximum(slope, 1e-300)
                x = x - step
                if np.max(np.abs(value - target)) < close:
                    break
            return x, np.abs(value - target) < close

        def slack(x: np.ndarray) -> np.ndarray:
            return 64 * float_info.epsilon * (1 + (1 + np.abs(x)) / self.mu + x * x)

        x, found = where(epsilon)
        gaps = _mills_gap(x[:, None] - jumps, x[:, None])
        present = log_density(x) + logsumexp(terms(x) + gaps, axis=1) + slack(x)
        possible = epsilon < self.mean
        y, found_too = where(np.where(possible, -epsilon, 0.0))
        gaps = _mills_gap(-y[:, None], jumps - y[:, None])
        absent = epsilon + log_density(y) + logsumexp(terms(y) + gaps, axis=1) + slack(y)
        present = np.logaddexp(present, math.log(tail) if tail > 0 else -math.inf)
        absent = _last_known(np.minimum(absent, 0.0), found_too)
        return _last_known(np.minimum(present, 0.0), found), np.where(possible, absent, -np.inf)


def _last_known(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Replace unknown values by that of the next smaller epsilon, as delta decreases with epsilon."""
    last = np.maximum.accumulate(np.where(known, np.arange(values.size), -1))
    return np.where(last >= 0, values[last], 0.0)


def _mills_gap(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the log of the Mills ratio at `low` minus that at `high`, low <= high; -inf if equal."""
    with np.errstate(all="ignore"):
        first, second = log_mills(low), log_mills(high)
        return np.where(low < high, first + np.log(-np.expm1(np.minimum(second - first, 0.0))), -np.inf)


@lru_cache(maxsize=200_000)
def _divergence(mean: float, jump: float, cap: int, order: float, present_first: bool) -> float:
    """Return ``D_order`` between N(0, 1) + jump * min(Poisson(mean), cap) and N(0, 1), or the reverse."""
    tilt = order * jump * cap if present_first else jump * cap
    # The trapezoidal rule converges geometrically; the nearest singularity is pi / jump away from the real
    # line.
    spacing = min(1 / 8, 0.25 / jump)
    if tilt > 200 or (2 * tilt + 24) / spacing > 100_000:
        return math.inf
    x = np.arange(-13.0 - (0 if present_first else tilt), 13.0 + tilt, spacing)
    k = np.arange(cap + 1, dtype=float)
    log_weight = k * math.log(mean) - mean - gammaln(k + 1)
    log_weight[-1] = math.log(gammainc(cap, mean))
    exponent = k * jump * x[:, None] - 0.5 * (k * jump) ** 2
    log_ratio = logsumexp(log_weight + exponent, axis=1)  # of the densities, present / absent
    log_normal = log_density(x)
    power = order if present_first else 1.0 - order
    # The integral of N (v^power - 1 - power (v - 1)): the last term integrates to 0, and avoids cancellation.
    small = np.abs(power * log_ratio) < 0.1
    near = np.exp(log_normal) * convex_excess(np.where(small, log_ratio, 0.0), power)
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.exp(log_normal + power * log_ratio) - (1 - power) * np.exp(log_normal)
        far -= power * np.exp(log_normal + log_ratio)
        integrand = np.where(small, near, far)
        excess = float(np.sum(integrand)) * spacing
    if not math.isfinite(excess) or max(abs(integrand[0]), abs(integrand[-1])) > 1e-12 * excess:
        return math.inf
    return math.log1p(excess * (1 + ROUNDING)) / (order - 1)
