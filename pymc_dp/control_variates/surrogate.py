"""A released surrogate: the quadratic that stands for the log-likelihood around a private centre."""

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from pymc_dp.control_variates.clipped_rows import factors, rows_at, shares
from pymc_dp.control_variates.curvature import inverse_root
from pymc_dp.control_variates.structure import Structure
from pymc_dp.records.residuals import Expansion

# What is refused: a noise variance over the posterior's, along a direction; noise of the Hessian over the
# posterior's curvature; distance of the surrogate's mode, in posterior standard deviations per sqrt(d),
# or in those of the noise.
LARGEST_NOISE_RATIO, LARGEST_HESSIAN_NOISE, FURTHEST = 9.0, 0.3, 4.0
# And a curvature, beyond its noise, in units of the posterior's where the metric was made: at most 1 if the
# search had arrived. Where noise is little, it does not matter what the curvature was before.
STEEPEST, _LITTLE = 2.0, 0.5
# Beyond so many times the first of these it is not the noise: the search did not arrive.
_ABSURD = 13.0
NOT_FOUND = (
    "The centre was not found. The likelihood may have no single mode, or be far from quadratic; the search "
    "may not have arrived. Give each parameter a prior whose standard deviation is of the size that you "
    "expect (scale columns with dp.Prepare or by public constants; pm.Flat has no size), start nearer "
    "(initval=), use fewer parameters, or take a larger epsilon."
)


@dataclass(frozen=True)
class Surrogate:
    """Noisy gradient and Hessian of the log-likelihood at a centre. All of it is released.

    They are in likelihood coordinates phi, of size p: see `pymc_dp.records.coordinates`. In many models phi
    is theta.

    Attributes
    ----------
    point : ndarray, shape (d,)
        c, in unconstrained space.
    phi : ndarray, shape (p,)
        phi(c).
    metric : ndarray, shape (p, p)
        A: gradients are clipped and noised as ``A g``, Hessians as ``A H A'``; about posterior standard
        deviations.
    centre : ndarray, shape (p,)
        m: gradients are clipped to ``|A (g - m)| <= gradient_bound``.
    gradient_bound, hessian_bound : float
        Clip bounds, the latter in Frobenius norm.
    gradient : ndarray, shape (p,)
        Noisy sum of clipped gradients at c.
    gradient_noise : ndarray, shape (p, p)
        Covariance of its noise.
    hessian : ndarray, shape (p, p)
        Noisy sum of clipped Hessians at c.
    hessian_noise : float
        Standard deviation of the noise of a diagonal entry of ``A hessian A'``.
    tempering : float
    noise_aware : bool
        Whether the target is widened for the noise.
    blocks : ndarray of int, shape (p,), or None
        Hessians have no entries between coordinates of different labels. None: they are whole.
    put_back : ndarray, shape (p,), or None
        Part of `gradient`: what was measured of what clips cut, and what that implies. Gradients then count
        whole in a record's surrogate. None: nothing was, and they count as clipped.
    cut_left : ndarray, shape (p, p), or None
        Part of `gradient_noise`: covariance of what clips may have cut besides.
    seen : ndarray, shape (p, p), or None
        Noisy sum of outer products of clipped gradients ``A g_i``: where the model holds, and clips cut
        little, ``-A hessian A'``.
    seen_noise : float
        Standard deviation of the noise of its diagonal.
    missing : float
        Sum of squares of gradients that the curvature expects, and no histogram showed: see `Tail.expect`.
    hessian_left : float
        Frobenius norm in the metric of what clips may have cut from the sum of Hessians: see `Tail.excess`.
    """

    point: np.ndarray
    phi: np.ndarray
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
    blocks: np.ndarray | None = None
    put_back: np.ndarray | None = None
    cut_left: np.ndarray | None = None
    seen: np.ndarray | None = None
    seen_noise: float = 0.0
    missing: float = 0.0
    hessian_left: float = 0.0

    @property
    def structure(self) -> Structure:
        """Of the released Hessian."""
        return Structure(np.zeros(len(self.phi)) if self.blocks is None else self.blocks)

    def to_json(self) -> str:
        """JSON text that `from_json` reads."""
        values = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(self).items()}
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> "Surrogate":
        """Read what `to_json` wrote."""
        values = json.loads(text)
        kept: dict[str, Any] = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        arrays = {k: np.array(v, dtype=float) for k, v in kept.items() if isinstance(v, list)}
        return cls(**(kept | arrays))

    def problem(
        self,
        prior_curvature: np.ndarray,
        prior_slope: np.ndarray,
        jacobian: np.ndarray,
        n: int | None,
        epsilon: float,
    ) -> str | None:
        """What makes this surrogate useless, with advice; None if nothing does. Released quantities alone.

        Parameters
        ----------
        prior_curvature : ndarray, shape (d, d)
            Minus the Hessian of the log-prior at the centre.
        prior_slope : ndarray, shape (d,)
        jacobian : ndarray, shape (p, d)
            Of phi at the centre.
        n : int or None
            For advice; None where it is not public.
        epsilon : float
        """
        _, noise = self.whitened()
        covariance, units = self.posterior(prior_curvature, jacobian)
        moved = units @ covariance
        ratio = float(np.linalg.eigvals(moved @ units.T @ noise).real.max())
        if not ratio <= _ABSURD * LARGEST_NOISE_RATIO:
            return NOT_FOUND
        if ratio > LARGEST_NOISE_RATIO:
            return _too_noisy(
                f"along some direction the noise of the released gradient has {ratio:.3g} times the "
                f"posterior's variance; at most {LARGEST_NOISE_RATIO:g} is accepted",
                None if n is None else math.ceil(n * ratio / LARGEST_NOISE_RATIO),
                epsilon * math.sqrt(ratio / LARGEST_NOISE_RATIO),
            )
        # About the largest eigenvalue of the Hessian's noise; the posterior's curvature is about 1.
        level = self.tempering * self.hessian_noise * self.structure.noise_norm
        if not level <= LARGEST_HESSIAN_NOISE:
            more = level / LARGEST_HESSIAN_NOISE
            return _too_noisy(
                f"the noise of the released Hessian is about {level:.3g} of the posterior's curvature; at "
                f"most {LARGEST_HESSIAN_NOISE:g} is accepted",
                None if n is None else math.ceil(n * more),
                epsilon * more,
            )
        distance, spread = self.place(prior_curvature, prior_slope, jacobian)
        steepest = float(np.linalg.eigvalsh(self.information()).max())
        if spread > _LITTLE and not steepest <= STEEPEST + level:
            return (
                f"The likelihood's curvature at the last point is {steepest:.3g} times the posterior's at "
                f"the point before, along some direction. {NOT_FOUND}"
            )
        if not distance <= FURTHEST * math.hypot(math.sqrt(len(self.phi)), spread):
            return (
                f"The surrogate's mode is {distance:.3g} posterior standard deviations from where it was "
                f"made. {NOT_FOUND}"
            )
        return None

    def place(
        self, prior_curvature: np.ndarray, prior_slope: np.ndarray, jacobian: np.ndarray
    ) -> tuple[float, float]:
        """Distance of its mode from its centre, and of the noise, in standard deviations of the posterior.

        Parameters
        ----------
        prior_curvature : ndarray, shape (d, d)
        prior_slope : ndarray, shape (d,)
        jacobian : ndarray, shape (p, d)
        """
        covariance, units = self.posterior(prior_curvature, jacobian)
        moved, (_, noise) = units @ covariance, self.whitened()
        distance = np.linalg.norm(moved @ (self.tempering * jacobian.T @ self.gradient + prior_slope))
        return float(distance), math.sqrt(max(float(np.trace(moved @ units.T @ noise)), 0.0))

    def with_hessian_noise(
        self, prior_curvature: np.ndarray, prior_slope: np.ndarray, jacobian: np.ndarray
    ) -> "Surrogate":
        """The same, with the Hessian's noise at its mode as a part of the gradient's.

        At a distance delta the slope of the surrogate has the error ``E delta`` for the noise E of the
        Hessian, of covariance ``s^2 / 2 (|z|^2 I + z z')`` in the metric, ``z = A^-T delta``.

        Parameters
        ----------
        prior_curvature : ndarray, shape (d, d)
        prior_slope : ndarray, shape (d,)
        jacobian : ndarray, shape (p, d)
        """
        if not np.any(self.gradient_noise):
            return self
        covariance, units = self.posterior(prior_curvature, jacobian)
        z = units @ covariance @ (self.tempering * jacobian.T @ self.gradient + prior_slope)
        mask, inverse = self.structure.mask, np.linalg.inv(self.metric)
        scatter = 0.5 * self.hessian_noise**2 * (np.diag(mask @ (z * z)) + mask * np.outer(z, z))
        return replace(self, gradient_noise=self.gradient_noise + inverse @ scatter @ inverse.T)

    def posterior(self, prior_curvature: np.ndarray, jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Covariance of the exact posterior at the centre, (d, d); from parameters to units of the metric."""
        information, _ = self.whitened()
        values, vectors = np.linalg.eigh(prior_curvature)
        units = np.linalg.solve(self.metric.T, jacobian)
        precision = units.T @ information @ units + (vectors * np.maximum(values, 0.0)) @ vectors.T
        return inverse_of(precision), units

    def information(self) -> np.ndarray:
        """Of the tempered likelihood, in the metric: may have negative eigenvalues."""
        return -self.tempering * (self.metric @ self.hessian @ self.metric.T)

    def whitened(self) -> tuple[np.ndarray, np.ndarray]:
        """Information of the tempered likelihood, and covariance of the gradient's noise, in the metric."""
        values, vectors = np.linalg.eigh(self.information())
        information = (vectors * np.maximum(values, 1e-12)) @ vectors.T
        return information, self.tempering**2 * self.metric @ self.gradient_noise @ self.metric.T

    def public(self) -> tuple[np.ndarray, np.ndarray]:
        """Slope and curvature of the public part of the target's logarithm, as in `Expansion`.

        ``T (g' delta + delta' H delta / 2)``, ``delta = phi(theta) - phi(c)``, plus, if noise-aware, ``delta'
        W delta / 2 - b' delta`` with ``K = (I + N)^-1 N``, ``W = I K``, ``b = K' T g``, for information I and
        noise covariance N: the posterior given the *noisy* gradient (docs/proofs/control_variates, section
        4).
        """
        slope, curvature = self.tempering * self.gradient, self.tempering * self.hessian
        if not self.noise_aware:
            return slope, curvature
        information, noise = self.whitened()
        gain = np.linalg.solve(information + noise, noise)
        inverse = np.linalg.inv(self.metric)
        widening = inverse @ (information @ gain) @ inverse.T
        shift = inverse @ gain.T @ self.metric @ slope
        return slope - shift, curvature + 0.5 * (widening + widening.T)

    def precision(self, prior_curvature: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
        """Positive definite curvature of the target at the centre, shape (d, d).

        Parameters
        ----------
        prior_curvature : ndarray, shape (d, d)
            Minus the Hessian of the log-prior there.
        jacobian : ndarray, shape (p, d)
            Of phi there.
        """
        precision = -jacobian.T @ self.public()[1] @ jacobian + prior_curvature
        root = self.metric
        if not np.array_equal(jacobian, np.eye(len(precision))):
            seen = np.linalg.solve(self.metric.T, jacobian)
            values, vectors = np.linalg.eigh(prior_curvature)
            root = inverse_root(seen.T @ seen + (vectors * np.maximum(values, 0.0)) @ vectors.T)
        values, vectors = np.linalg.eigh(root @ precision @ root.T)
        inverse = np.linalg.inv(root)
        return inverse @ ((vectors * np.maximum(np.abs(values), 1e-3)) @ vectors.T) @ inverse.T

    def expansion(self, records: Any) -> Expansion:
        """What the chain subtracts from each record; one pass over the data. Private."""
        gradient_factors, hessian_factors = np.zeros(records.n), np.zeros(records.n)
        structure = self.structure
        entries = None if structure.full else np.empty((records.n, structure.rows.size))
        whole = self.put_back is not None
        for part in rows_at(records, self.phi, self.metric, structure, True):
            gradients, norms = part.whitened(self.metric, self.centre), part.hessian_norms(self.metric)
            gradient_factors[part.units] = _known(gradients) * (
                1.0 if whole else factors(gradients, self.gradient_bound)
            )
            hessian_factors[part.units] = (norms > 0) * shares(norms, self.hessian_bound)
            if entries is not None:
                entries[part.units] = part.entries()
        # The public part is tempered already; residuals are tempered with the ratios.
        slope, curvature = self.public()
        return Expansion(
            self.phi, self.metric, self.centre, gradient_factors, hessian_factors, slope, curvature, entries
        )


def _known(vectors: np.ndarray) -> np.ndarray:
    """Zero for records that count as 0 in the released sum (not finite, enormous, or 0 themselves)."""
    return np.any(vectors != 0, axis=1).astype(float)


def inverse_of(precision: np.ndarray) -> np.ndarray:
    """Inverse of a positive semi-definite matrix whose rows may be of very different size."""
    scale = 1 / np.sqrt(np.maximum(np.diag(precision), 1e-300))
    even = scale[:, None] * precision * scale + 1e-14 * np.eye(len(precision))
    return scale[:, None] * np.linalg.inv(even) * scale


def _too_noisy(what: str, n: int | None, epsilon: float) -> str:
    advice = f"epsilon = {epsilon:.3g}"
    if n is not None:
        advice = f"About {n:,} records, or {advice},"
    return (
        f"Too few records for this budget: {what}. {advice} would do; otherwise use fewer parameters or a "
        "stronger prior."
    )
