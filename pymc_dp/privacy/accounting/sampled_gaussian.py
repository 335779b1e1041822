"""Gaussian releases on a random part of the records: trade-off curves, and rounding of many noise scales."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from sys import float_info

import numpy as np
from scipy.special import ndtr

from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.poisson_mixture import PoissonMixture

#: Kind of a release on all records.
WHOLE = "all records"
#: Kind of a release on a batch of fixed size.
FIXED = "fixed substitute"


@dataclass(frozen=True)
class SampledGaussian:
    """A Gaussian release on a random part of the records.

    Parameters
    ----------
    probability : float
        Inclusion probability of a record.
    mu : float
        Sensitivity divided by the noise standard deviation, of the release without sampling.
    kind : {"poisson add_remove", "poisson substitute", "fixed substitute", "all records"}
    """

    probability: float
    mu: float
    kind: str

    @property
    def spread(self) -> float:
        """Approximate standard deviation of the privacy loss, for the choice of grids, not for bounds."""
        if self.kind == "poisson substitute":
            squared = 4 * math.sinh(min(self.mu**2 / 4, 500.0))
        else:
            squared = math.expm1(min(self.mu**2, 500.0))
        return min(self.probability * math.sqrt(squared), self.mu)

    def log_profiles(self, epsilon: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log delta at epsilon >= 0 for record present / absent, and for absent / present.

        Poisson: exact (docs/proofs/sampled_gaussians, Proposition 1 for "substitute", whose two orders have
        the same curve). Fixed size: an upper bound by advanced joint convexity (Balle, Barthe & Gaboardi
        2018, Theorem 2).
        """
        q = self.probability
        if self.kind == WHOLE:
            one = gaussian.log_delta(self.mu, epsilon)
        elif self.kind == "poisson substitute":
            one = _log_delta_replaced(q, self.mu / 2, epsilon)
        else:
            one = math.log(q) + gaussian.log_delta(self.mu, np.log1p(np.expm1(epsilon) / q))
        if self.kind != "poisson add_remove":
            return one, one
        rest = 1 - (1 - q) * np.exp(epsilon)
        possible = rest > 0
        rest = np.where(possible, rest, 1.0)
        gap = epsilon + math.log(q) - np.log(rest)
        absent = np.where(possible, np.log(rest) + gaussian.log_delta(self.mu, np.maximum(gap, 0.0)), -np.inf)
        return one, absent


def _log_delta_replaced(q: float, shift: float, epsilon: np.ndarray) -> np.ndarray:
    """Return log delta of ``(1-q) N(0, 1) + q N(a, 1)`` against ``(1-q) N(0, 1) + q N(-a, 1)``, rounded up.

    Let x be the point where the ratio of the densities is exp(epsilon), M the Mills ratio, and w the share of
    N(0, 1) in the second density at x. Then delta is ``q phi(x-a) [w (M(x-a) - M(x)) + (1-w) (M(x-a) -
    M(x+a))]``, which has no tiny factors.
    """
    odds = np.arcsinh((1 - q) / q * math.exp(shift**2 / 2) * np.sinh(epsilon / 2))
    x = (epsilon / 2 + odds) / shift
    share = -np.expm1(-2 * odds)
    low = x - shift
    others = share * gaussian.mills(x) + (1 - share) * gaussian.mills(x + shift)
    log_density = gaussian.log_density(low)
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = log_density + np.log(gaussian.mills(np.maximum(low, 0.0)) - others)
        body = np.log(ndtr(-low) - np.exp(log_density) * others)
    # Relative error of the differences, and of x: a few ulp of the terms over their difference.
    slack = 32 * float_info.epsilon * (1 + (1 + x) * (1 + shift**2) / shift + x * x)
    return np.minimum(math.log(q) + np.where(low >= 0, tail, body) + slack, 0.0)


#: Mechanisms that have loss distributions.
Lossy = SampledGaussian | PoissonMixture


def strongest(mechanisms: Iterable[Lossy], ratio: float) -> dict[Lossy, Lossy]:
    """Find for each mechanism the one that is charged in place of it: one of them with at most as much noise.

    Parameters
    ----------
    mechanisms : iterable of SampledGaussian or PoissonMixture
    ratio : float
        Largest ratio of the spreads of the two losses, > 1.

    Returns
    -------
    dict of SampledGaussian or PoissonMixture to the same
        The mechanism that is charged for each.

    Notes
    -----
    **Privacy.** A release with more noise is post-processing of one with less, on the same batches.
    """

    def batches(one: Lossy) -> tuple[str, float]:
        return one.kind, one.mean if isinstance(one, PoissonMixture) else one.probability

    result: dict[Lossy, Lossy] = {}
    leader: Lossy | None = None
    for one in sorted(mechanisms, key=lambda one: (*batches(one), -one.mu)):
        if leader is None or batches(leader) != batches(one) or leader.spread > ratio * one.spread:
            leader = one
        result[one] = leader
    return result
