"""Spreads near zero: the search is in their logarithm, and the released likelihood in another coordinate.

About the logarithm of a spread tau there is no information once tau is small: the likelihood is flat towards
minus infinity, unlike any normal one. A variance ``v = tau^2`` is seen beside the other variation, c, of a
person's rows: the information about it is ``n / (2 (v + c)^2)``, and about ``log(v + c)`` it is the same for
all v. The true c is not public. With a larger one the coordinate is nearly v itself, and a normal likelihood
of v is as good as long as v is known to a part of the true c; so the public c is 1, or the variance at the
initial point if that is more. During the search a logarithm is better: the information about v changes a
thousandfold.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.records.spreads import Spread


@dataclass(frozen=True)
class NearZero:
    """Released coordinates psi: ``log(x^k + c)`` for spreads x; for others the search coordinates phi.

    Parameters
    ----------
    spreads : mapping of int to Spread
        Spreads, by the number of their coordinate.
    unit : ndarray, shape (p,), or float
        Numbers by which phi and psi are divided.
    """

    spreads: Mapping[int, Spread]
    unit: np.ndarray | float = 1.0

    def psi(self, phi: np.ndarray) -> np.ndarray:
        """Return psi of phi, shapes (..., p)."""
        psi = self.unit * phi
        for k, one in self.spreads.items():
            psi[..., k] = np.log(one.numbers(psi[..., k]) ** one.power + one.offset)
        return psi / self.unit

    def phi(self, psi: np.ndarray) -> np.ndarray:
        """Return phi of psi, shapes (..., p)."""
        phi = self.unit * psi
        # A variance of zero is replaced by this part of the offset c.
        zero = 1e-6
        # Largest logarithm that is exponentiated: with noise a coordinate may be anywhere.
        largest = 300.0
        for k, one in self.spreads.items():
            whole = np.exp(np.minimum(phi[..., k], largest))
            variances = np.maximum(whole - one.offset, zero * one.offset)
            phi[..., k] = one.phi(variances ** (1 / one.power))
        return phi / self.unit

    def slopes(self, phi: np.ndarray) -> np.ndarray:
        """Return the derivatives of psi by phi, shape (p,)."""
        slopes, phi = np.ones(len(phi)), self.unit * phi
        for k, one in self.spreads.items():
            x = np.float64(one.numbers(phi[k]))  # a float would raise where a power overflows
            slopes[k] = one.power * (1 - x / one.upper) / (1 + one.offset * x**-one.power)
        return slopes

    def step(self, step: np.ndarray) -> np.ndarray:
        """Limit a step in phi, shape (p,), to one in the variance itself where that grows.

        From a variance near zero a step in its logarithm could lead anywhere.
        """
        step = self.unit * step
        for k, one in self.spreads.items():
            step[k] = min(one.power * step[k], np.log1p(max(one.power * step[k], 0.0))) / one.power
        return step / self.unit

    def of_walk(self, prior: Normal) -> Normal:
        """Return the prior of phi, given that of psi."""
        if not self.spreads:
            return prior
        if prior.draws is not None:
            return Normal.like(self.phi(prior.draws), self.phi(prior.mean))
        slopes = self.slopes(self.phi(prior.mean))
        return Normal(prior.precision * np.outer(slopes, slopes), self.phi(prior.mean))


#: No coordinate is a spread.
NO_SPREADS = NearZero({})
