"""From Renyi curves to a Gaussian and a remainder: the cost of many small releases together.

Many releases of little information each are together nearly one Gaussian release, even if they are chosen
adaptively. `GaussianLimit` finds a mu^2 that is proved up to a given remainder, which is added to delta. The
proof is in docs/proofs/gaussian_limit: backward induction over the releases, with Gaussian curves as bounds.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.rdp import lost
from pymc_dp.rounding import UP


class Release:
    """One kind of release, and the number of such releases; it has a price, which depends on those after it.

    Parameters
    ----------
    divergence : callable
        Upper bound of the Renyi divergence at an order > 1, in both directions; inf where there is none.
    mu_squared : float
        mu^2 of a Gaussian release that is at least as informative; inf if none is known.
    count : int
    """

    # Renyi orders minus 1, in units of 1 over the standard deviation of the loss.
    reach = np.concatenate([np.arange(1, 10) / 8, np.arange(5, 13) / 4, [3.5, 4.0, 5.0, 6.0]])
    # Edges of cells of orders, in the same units: fine where the worst order is, except for the first few
    # releases.
    cells = np.concatenate([np.linspace(0, 1.5, 141), np.linspace(1.5, 6, 101)[1:]])

    def __init__(self, divergence: Callable[[float], float], mu_squared: float, count: int):
        self.most, self.count = mu_squared, count
        spread = math.sqrt(divergence(2.0))
        sigma = np.maximum(np.concatenate([[0.0], self.reach / spread if spread > 0 else []]), 0.02)
        sigma = np.unique(sigma)
        divergences = np.array([divergence(1 + one) for one in sigma])
        with np.errstate(over="ignore"):
            moments = np.expm1(sigma * divergences) / (sigma * (sigma + 1))
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
        """Return upper bounds of the price of one release, as mu^2, for several mu^2 of those after it."""
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
    """Curve of a Gaussian that bounds the cost of all releases, up to a remainder that is added to delta.

    Parameters
    ----------
    releases : sequence of Release
        Releases in any order. Each may be chosen after seeing the results of those before.
    gaussians : float
        mu^2 of additional Gaussian releases.
    excluded : float
        Probability of rare events outside of which the bounds of `releases` hold (such as capped
        multiplicities).
    """

    # Share of delta for the remainder. If there are excluded events, they have an equal share.
    remainder = 0.005

    def __init__(self, releases: Sequence[Release], gaussians: float = 0.0, excluded: float = 0.0):
        self._releases, self._total = releases, sum(one.count for one in releases)
        self._gaussians, self._excluded = gaussians, excluded

    def mu_squared(self, remainder: float) -> float:
        """Compute mu^2 of a Gaussian release that bounds the cost of all releases, up to a remainder.

        Parameters
        ----------
        remainder : float
            Delta is at most that of the Gaussian plus this, at every epsilon; > 0.

        Returns
        -------
        float
            Upper bound; inf if nothing can be proved.
        """
        # Values of mu^2 that are tried for the initial smoothing: multiples of the price of one release.
        starts = np.array([0.0, 2.0, 5.0, 15.0, 50.0, 200.0, 1000.0, 5000.0])
        starts *= max((one.guess for one in self._releases if not one.useless), default=0.0)
        total = starts + sum(_sum(one, starts, remainder / self._total) for one in self._releases)
        return float(np.min(np.where(np.isnan(total), np.inf, total))) + self._gaussians

    def epsilon(self, delta: float) -> float:
        """Return an upper bound."""
        left = (1 - (2 if self._excluded else 1) * self.remainder) * delta
        mu = math.sqrt(self.mu_squared(self.remainder * delta)) * UP
        value = float(gaussian.epsilon(mu, left)) * UP
        return math.inf if lost(self._excluded, value) > self.remainder * delta else value

    def delta(self, epsilon: float) -> float:
        """Return an upper bound."""
        best = 1.0
        for _ in range(40):  # every remainder gives a valid bound
            remainder = max(self.remainder * best, 1e-290)
            mu = math.sqrt(self.mu_squared(remainder)) * UP
            value = float(gaussian.delta(mu, epsilon)) + remainder
            if value >= 0.999 * best:
                break
            best = value
        return min(best + lost(self._excluded, epsilon), 1.0)


def _sum(release: Release, starts: np.ndarray, remainder: float) -> np.ndarray:
    """Add up the prices of all releases of a kind, for each start."""
    done, total = 0, np.zeros(starts.shape)
    while done < release.count:
        # Releases that are charged one price together: 4 per cent of those that were added before them.
        count = min(max(1, int(0.04 * done)), release.count - done)
        total = total + count * release.at(starts + total, remainder)
        done += count
    return total
