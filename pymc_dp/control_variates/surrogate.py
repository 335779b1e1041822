"""A released surrogate: the quadratic that stands for the log-likelihood around a private centre."""

import json
import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from pymc_dp.control_variates.releases import factors, squared, whitened
from pymc_dp.records.residuals import Expansion


@dataclass(frozen=True)
class Surrogate:
    """Noisy gradient and Hessian of the log-likelihood at a centre. All of it is released.

    Attributes
    ----------
    point : ndarray, shape (d,)
        c, in unconstrained space.
    metric : ndarray, shape (d, d)
        A: gradients are clipped and noised as ``A g``, Hessians as ``A H A'``; about posterior standard
        deviations.
    centre : ndarray, shape (d,)
        m: gradients are clipped to ``|A (g - m)| <= gradient_bound``.
    gradient_bound, hessian_bound : float
        Clip bounds, the latter in Frobenius norm.
    gradient : ndarray, shape (d,)
        Noisy sum of clipped gradients at c.
    gradient_noise : ndarray, shape (d, d)
        Covariance of its noise.
    hessian : ndarray, shape (d, d)
        Noisy sum of clipped Hessians at c.
    hessian_noise : float
        Standard deviation of the noise of a diagonal entry of ``A hessian A'``.
    tempering : float
    noise_aware : bool
        Whether the target is widened for the noise.
    """

    point: np.ndarray
    metric: np.ndarray
    centre: np.ndarray
    gradient_bound: float
    hessian_bound: float
    gradient: np.ndarray
    gradient_noise: np.ndarray
    hessian: np.ndarray
    hessian_noise: float
    tempering: float
    noise_aware: bool = True

    def to_json(self) -> str:
        """JSON text that `from_json` reads."""
        values = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(self).items()}
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> "Surrogate":
        """Read what `to_json` wrote."""
        values = json.loads(text)
        kept: dict[str, Any] = {f.name: values[f.name] for f in fields(cls)}
        arrays = {k: np.array(v, dtype=float) for k, v in kept.items() if isinstance(v, list)}
        return cls(**(kept | arrays))

    def noise_ratio(self, prior_curvature: np.ndarray) -> float:
        """Largest variance that the noise of the gradient adds to a direction, in posterior variances.

        Parameters
        ----------
        prior_curvature : ndarray, shape (d, d)
            Minus the Hessian of the log-prior at the centre.
        """
        information, noise = self._whitened()
        values, vectors = np.linalg.eigh(prior_curvature)
        prior = self.metric @ (vectors * np.maximum(values, 0.0)) @ vectors.T @ self.metric.T
        return float(np.linalg.eigvals(np.linalg.solve(information + prior, noise)).real.max())

    def _whitened(self) -> tuple[np.ndarray, np.ndarray]:
        """Information of the tempered likelihood, and covariance of the gradient's noise, in the metric."""
        values, vectors = np.linalg.eigh(-self.tempering * (self.metric @ self.hessian @ self.metric.T))
        information = (vectors * np.maximum(values, 1e-12)) @ vectors.T
        return information, self.tempering**2 * self.metric @ self.gradient_noise @ self.metric.T

    def public(self) -> tuple[np.ndarray, np.ndarray]:
        """Slope and curvature of the public part of the target's logarithm, as in `Expansion`.

        ``T (g' delta + delta' H delta / 2)``, plus, if noise-aware, ``delta' W delta / 2 - b' delta`` with
        ``K = (I + N)^-1 N``, ``W = I K``, ``b = K' T g``, for information I and noise covariance N: the
        posterior given the *noisy* gradient (docs/proofs/control_variates, section 4).
        """
        slope, curvature = self.tempering * self.gradient, self.tempering * self.hessian
        if not self.noise_aware:
            return slope, curvature
        information, noise = self._whitened()
        gain = np.linalg.solve(information + noise, noise)
        inverse = np.linalg.inv(self.metric)
        widening = inverse @ (information @ gain) @ inverse.T
        shift = inverse @ gain.T @ self.metric @ slope
        return slope - shift, curvature + 0.5 * (widening + widening.T)

    def precision(self, prior_curvature: np.ndarray) -> np.ndarray:
        """Positive definite curvature of the target at the centre, shape (d, d).

        Parameters
        ----------
        prior_curvature : ndarray, shape (d, d)
            Minus the Hessian of the log-prior there.
        """
        precision = -self.public()[1] + prior_curvature
        values, vectors = np.linalg.eigh(self.metric @ precision @ self.metric.T)
        inverse = np.linalg.inv(self.metric)
        return inverse @ ((vectors * np.maximum(np.abs(values), 1e-3)) @ vectors.T) @ inverse.T

    def expansion(self, records: Any) -> Expansion:
        """What the chain subtracts from each record; one pass over the data. Private."""
        gradient_factors, hessian_factors = np.zeros(records.n), np.zeros(records.n)
        for part in records.derivatives(self.point, hessians=True):
            gradients = whitened(part.gradient, self.metric, self.centre)
            hessians = squared(part.hessian, self.metric)
            gradient_factors[part.units] = _known(gradients) * factors(gradients, self.gradient_bound)
            hessian_factors[part.units] = _known(hessians) * factors(hessians, self.hessian_bound)
        # The public part is tempered already; residuals are tempered with the ratios.
        slope, curvature = self.public()
        return Expansion(self.point, self.centre, gradient_factors, hessian_factors, slope, curvature)


def _known(vectors: np.ndarray) -> np.ndarray:
    """Zero for records that count as 0 in the released sum (not finite, enormous, or 0 themselves)."""
    return np.any(vectors.reshape(len(vectors), -1) != 0, axis=1).astype(float)


def too_noisy(noise_ratio: float, n: int, epsilon: float) -> str:
    """Advice when noise dominates, from released numbers: its variance goes like 1 / epsilon^2 and 1 / n."""
    more = math.sqrt(noise_ratio)
    return (
        "Too few records for this budget: along some direction the noise of the released gradient has "
        f"{noise_ratio:.3g} times the posterior's variance. About {math.ceil(noise_ratio * n):,} records, or "
        f"epsilon = {epsilon * more:.3g}, would make them equal; otherwise use fewer parameters or a "
        "stronger prior."
    )
