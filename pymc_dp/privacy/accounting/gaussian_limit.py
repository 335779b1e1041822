"""From Renyi curves to a Gaussian and a remainder: what many small releases cost together.

Many releases that each say little are together nearly one Gaussian release, whatever is chosen along the
way. `GaussianLimit` gives a mu^2 that can be proved, next to a given remainder, which goes into delta. The
proof is in docs/proofs/gaussian_limit: backward induction over the releases, with Gaussian curves as bounds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.rdp import lost
from pymc_dp.rounding import UP


@dataclass(frozen=True)
class Release:
    """One kind of release, and how often it happens.

    Parameters
    ----------
    divergence : callable
        Upper bound of the Renyi divergence at an order > 1, both directions; inf where there is none.
    mu_squared : float
        It is at most as informative as a Gaussian release with this mu^2; inf if nothing is known.
    count : int
    """

    divergence: Callable[[float], float]
    mu_squared: float
    count: int


class _Prices:
    """The price of one release, as mu^2, when the releases after it are already worth a given mu^2."""

    # Renyi orders minus 1, in units of one over the spread of the loss.
    reach = np.concatenate([np.arange(1, 10) / 8, np.arange(5, 13) / 4, [3.5, 4.0, 5.0, 6.0]])
    # Cells of orders: fine where the worst order is, but for the first few releases.
    cells = np.concatenate([np.linspace(0, 1.5, 141), np.linspace(1.5, 6, 101)[1:]])

    def __init__(self, release: Release):
        self.most = release.mu_squared
        self.count = release.count
        spread = math.sqrt(release.divergence(2.0))
        sigma = np.maximum(np.concatenate([[0.0], self.reach / spread if spread > 0 else []]), 0.02)
        sigma = np.unique(sigma)
        divergence = np.array([release.divergence(1 + one) for one in sigma])
        with np.errstate(over="ignore"):
            moments = np.expm1(sigma * divergence) / (sigma * (sigma + 1))
        known = np.isfinite(moments) & (moments > 0)
        known = np.arange(sigma.size) < np.argmin(np.append(known, False))
        self.useless = not known.any()
        if self.useless:
            return
        log_moments = np.log(moments[known]) + 1e-9
        sigma = sigma[known]
        self.tail = float(np.exp(log_moments[-1]))
        cells = np.unique(np.clip(self.cells / spread, sigma[0], sigma[-1]))
        edges = np.concatenate([np.linspace(-0.5, sigma[0], 5)[:-1], cells])
        low, high = edges[:-1], edges[1:]
        self.moment = np.exp(np.interp(high, sigma, log_moments))  # at its largest on the cell
        self.nearest = np.clip(0.0, low, high)  # where the density is at its largest
        self.squares = (low + 0.5) ** 2
        self.guess = 2 * float(self.moment[0])

    def at(self, behind: np.ndarray, remainder: float) -> np.ndarray:
        """Upper bounds, for each of several mu^2; inf if there is none."""
        result = np.full(behind.shape, self.most)
        if self.useless:
            return result
        with np.errstate(all="ignore"):
            value = behind[:, None]
            density = np.exp(-0.5 * value * self.nearest**2) / np.sqrt(2 * math.pi * value)
            needed = np.maximum(self.moment - remainder / density, 0.0)
            longest = min(self.most, 4 * self.guess)
            rate = 0.5 * self.squares * value / (value + longest) - 0.5 / value - 0.125
            inside = 2 * rate * needed
            found = np.max(np.where(inside == 0, 2 * needed, np.log1p(inside) / rate), axis=1) * UP
            valid = (self.tail * density[:, -1] <= remainder) & (found <= longest)
        return np.where(valid, found, result)


class GaussianLimit:
    """Curve of a Gaussian that costs as much as all releases, and what goes into delta besides.

    Parameters
    ----------
    releases : sequence of Release
        In any order, each chosen after seeing the results of those before.
    gaussians : float
        Mu^2 of Gaussian releases besides.
    excluded : float
        Probability of the events in which a capped multiplicity matters.
    """

    # Share of delta for the remainder, and as much for capped multiplicities.
    remainder = 0.005

    def __init__(self, releases: Sequence[Release], gaussians: float = 0.0, excluded: float = 0.0):
        self._prices = [_Prices(one) for one in releases]
        self._total = sum(one.count for one in releases)
        self._gaussians, self._excluded = gaussians, excluded

    def mu_squared(self, remainder: float) -> float:
        """Mu^2 of a Gaussian release that costs as much as all releases, up to a remainder.

        Parameters
        ----------
        remainder : float
            Delta is at most that of the Gaussian plus this, at every epsilon; > 0.

        Returns
        -------
        float
            Upper bound; inf if nothing can be proved.
        """
        # What is smoothed away at the start is tried at these multiples of the price of one release.
        starts = np.array([0.0, 2.0, 5.0, 15.0, 50.0, 200.0, 1000.0, 5000.0])
        starts *= max((one.guess for one in self._prices if not one.useless), default=0.0)
        total = starts + sum(_sum(one, starts, remainder / self._total) for one in self._prices)
        return float(np.min(np.where(np.isnan(total), np.inf, total))) + self._gaussians

    def epsilon(self, delta: float) -> float:
        """Upper bound."""
        left = (1 - (2 if self._excluded else 1) * self.remainder) * delta
        mu = math.sqrt(self.mu_squared(self.remainder * delta)) * UP
        value = float(gaussian.epsilon(mu, left)) * UP
        return math.inf if lost(self._excluded, value) > self.remainder * delta else value

    def delta(self, epsilon: float) -> float:
        """Upper bound."""
        best = 1.0
        for _ in range(40):  # any remainder gives a bound
            remainder = max(self.remainder * best, 1e-290)
            mu = math.sqrt(self.mu_squared(remainder)) * UP
            value = float(gaussian.delta(mu, epsilon)) + remainder
            if value >= 0.999 * best:
                break
            best = value
        return min(best + lost(self._excluded, epsilon), 1.0)


def _sum(prices: _Prices, starts: np.ndarray, remainder: float) -> np.ndarray:
    """Sum of the prices of all releases of a kind, for each start."""
    done, total = 0, np.zeros(starts.shape)
    while done < prices.count:
        # Releases that share one price, as a share of those before them.
        count = min(max(1, int(0.04 * done)), prices.count - done)
        total = total + count * prices.at(starts + total, remainder)
        done += count
    return total
