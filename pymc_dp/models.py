"""Reference models whose posterior is known, for tests, notebooks and users' own comparisons.

Each function simulates data (or takes yours), writes the PyMC model as anyone would, and returns it with its
posterior. The posteriors are computed from the data without any noise: **nothing in this module is private**.
Use it with simulated data, to see what a private sampler costs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.distributions.shape_utils import rv_size_is_none


class Posterior(Protocol):
    """What a reference posterior can do; the parameters are one vector of length d."""

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean, shape (d,)."""

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariance, shape (d, d)."""

    def draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (size, d)."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Evaluate the normalized log density at points of shape (..., d)."""


@dataclass(frozen=True, eq=False)
class ReferenceModel:
    """A PyMC model, the data in it and its posterior.

    Attributes
    ----------
    model : pymc.Model
        Has one free variable, a vector of length d whose value space is its natural space (no transform), and
        one observed variable whose rows are the records. Tempering is not in it: that is the step's business.
    data : mapping of str to numpy.ndarray
        The arrays inside the model, records along the first axis.
    posterior : Posterior
        Posterior of the free variable for the likelihood to the power `tempering`.
    tempering : float
        Pass it to the step: ``DPPenaltyMH(tempering=reference.tempering, ...)``.
    theta : numpy.ndarray or None, shape (d,)
        Parameter that the data were simulated with; None for data supplied by the caller.
    exact : bool
        Whether `posterior` is the posterior up to rounding; if not, the function that made it says what it
        is.
    lipschitz : float or None
        Proven bound on the Euclidean norm of the gradient of every possible record's log-likelihood, or None
        where there is none.
    """

    model: pm.Model
    data: Mapping[str, np.ndarray]
    posterior: Posterior
    tempering: float
    theta: np.ndarray | None
    exact: bool = True
    lipschitz: float | None = None

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean, shape (d,)."""
        return self.posterior.mean

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariance, shape (d, d)."""
        return self.posterior.cov

    @property
    def sd(self) -> np.ndarray:
        """Posterior standard deviations, shape (d,): the scale that proposals should have."""
        return np.sqrt(np.diag(self.cov))

    def posterior_draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws from the posterior.

        Parameters
        ----------
        size : int
            Number of draws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        numpy.ndarray, shape (size, d)
            Values of the model's free variable.
        """
        return self.posterior.draws(size, rng)

    def log_density(self, theta: ArrayLike) -> np.ndarray:
        """Evaluate the normalized log density of the posterior at points of shape (..., d); shape (...)."""
        return self.posterior.log_density(np.asarray(theta, dtype=float))


@dataclass(frozen=True, eq=False)
class GaussianPosterior:
    """Normal distribution.

    Attributes
    ----------
    mean : numpy.ndarray, shape (d,)
        Mean.
    cov : numpy.ndarray, shape (d, d)
        Covariance, positive definite.
    """

    mean: np.ndarray
    cov: np.ndarray
    _root: np.ndarray = field(init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "_root", np.linalg.cholesky(self.cov))

    def draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (size, d)."""
        return self.mean + rng.standard_normal((size, len(self.mean))) @ self._root.T

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Log density at points of shape (..., d)."""
        white = (theta - self.mean) @ np.linalg.inv(self._root).T
        log_det = np.log(np.diag(self._root)).sum()
        return -0.5 * (white**2).sum(axis=-1) - log_det - 0.5 * len(self.mean) * np.log(2 * np.pi)


@dataclass(frozen=True, eq=False)
class BananaPosterior:
    """The banana distribution Ban(μ, diag(v), a, b, m): the law of ``bend(z)`` for z ~ N(μ, diag(v)).

    Attributes
    ----------
    location, variances : numpy.ndarray, shape (d,)
        μ and v, moments before bending.
    a, b, m : float
        Curvature, offset and centre of the bend.

    References
    ----------
    O. Räisä (2021), *Differentially Private MCMC*, Definition 8.
    """

    location: np.ndarray
    variances: np.ndarray
    a: float
    b: float
    m: float

    def _curve(self, first: np.ndarray) -> np.ndarray:
        return self.a * (first - self.m) ** 2 + self.b

    def bend(self, z: np.ndarray) -> np.ndarray:
        """Map g of Definition 8: subtract a (z_1 − m)² + b from the second coordinate; shape (..., d)."""
        out = np.array(z, dtype=float)
        out[..., 1] -= self._curve(out[..., 0])
        return out

    def straighten(self, theta: np.ndarray) -> np.ndarray:
        """Inverse of `bend`. Its Jacobian is unit lower triangular, so densities need no factor."""
        out = np.array(theta, dtype=float)
        out[..., 1] += self._curve(out[..., 0])
        return out

    @property
    def mean(self) -> np.ndarray:
        """Mean: E(z_1 − m)² = v_1 + (μ_1 − m)²."""
        out = self.location.copy()
        out[1] -= self.a * (self.variances[0] + (self.location[0] - self.m) ** 2) + self.b
        return out

    @property
    def cov(self) -> np.ndarray:
        """Covariance, from the third and fourth moments of a normal."""
        v, shift = self.variances[0], self.location[0] - self.m
        out = np.diag(self.variances)
        out[0, 1] = out[1, 0] = -2 * self.a * shift * v
        out[1, 1] += self.a**2 * (2 * v**2 + 4 * v * shift**2)
        return out

    def draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (size, d)."""
        z = rng.standard_normal((size, len(self.location)))
        return self.bend(self.location + np.sqrt(self.variances) * z)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Log density at points of shape (..., d)."""
        z = (self.straighten(theta) - self.location) ** 2 / self.variances
        return -0.5 * (z + np.log(2 * np.pi * self.variances)).sum(axis=-1)


def _positive(name: str, value: ArrayLike, shape: tuple[int, ...] = ()) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if array.shape != shape or not np.isfinite(array).all() or not (array > 0).all():
        raise ValueError(f"{name} must be positive and finite, of shape {shape}.")
    return array


def _tempering(value: float) -> float:
    if not 0 < value <= 1:
        raise ValueError(f"tempering must be in (0, 1], got {value}.")
    return float(value)


def _vector(name: str, value: ArrayLike, d: int) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if array.shape != (d,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, of shape ({d},).")
    return array


def _sizes(d: int, n: int, smallest_d: int) -> None:
    if d < smallest_d or n < 1:
        raise ValueError(f"d must be at least {smallest_d} and n at least 1, got d = {d}, n = {n}.")


def _rows(name: str, value: ArrayLike, d: int) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if array.ndim != 2 or array.shape[1] != d or len(array) == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, of shape (n, {d}) with at least one row.")
    return array


def banana(
    d: int = 2,
    n: int = 100_000,
    *,
    a: float = 20.0,
    b: float = 0.0,
    m: float = 0.0,
    variances: ArrayLike | None = None,
    prior_variance: float = 1000.0,
    tempering: float = 1.0,
    theta: ArrayLike | None = None,
    seed: int = 0,
    data: ArrayLike | None = None,
) -> ReferenceModel:
    r"""Banana-shaped posterior of a d-dimensional parameter, with exact draws.

    The prior is θ ~ Ban(0, σ_0² I, a, b, m) and record i is a row with coordinates

    .. math:: x_{i1} \sim N(θ_1, σ_1^2), \quad x_{i2} \sim N(θ_2 + a(θ_1 - m)^2 + b,\ σ_2^2), \quad
        x_{ij} \sim N(θ_j, σ_j^2) \ (j \ge 3).

    In the straightened coordinates this is a conjugate normal model, so the posterior is a banana again, also
    when the likelihood is raised to the power T. The defaults are the thesis's experiment (§7.2).

    Parameters
    ----------
    d : int
        Number of parameters and of columns, at least 2.
    n : int
        Number of records to simulate.
    a, b, m : float
        Curvature, offset and centre of the bend.
    variances : array_like, shape (d,), optional
        σ_j², default (20, 2.5, 1, ..., 1).
    prior_variance : float
        σ_0².
    tempering : float
        T in (0, 1], the power of the likelihood in the posterior. The PyMC model itself is not tempered.
    theta : array_like, shape (d,), optional
        Parameter to simulate from, default zeros.
    seed : int
        Seed of the simulation.
    data : array_like, shape (n, d), optional
        Records to use instead of simulated ones; `n`, `theta` and `seed` are then ignored.

    Returns
    -------
    ReferenceModel
        Free variable ``theta``, observed variable ``x`` of shape (n, d). ``posterior`` is a
        `BananaPosterior`. ``lipschitz`` is None: the gradient of a normal log-likelihood has no bound.

    Raises
    ------
    ValueError
        If a size, shape, variance or the tempering is out of range, or the data are not finite.

    References
    ----------
    O. Räisä (2021), *Differentially Private MCMC*, Definition 8 and Theorem 5.
    """
    if data is not None:
        n = len(np.asarray(data))
    _sizes(d, n, smallest_d=2)
    a, b, m = (float(value) for value in _vector("(a, b, m)", (a, b, m), 3))
    if variances is None:
        variances = np.concatenate([[20.0, 2.5], np.ones(d - 2)])
    variances = _positive("variances", variances, (d,))
    prior_variance = float(_positive("prior_variance", prior_variance))
    tempering = _tempering(tempering)
    prior = BananaPosterior(np.zeros(d), np.full(d, prior_variance), a, b, m)
    if data is None:
        truth = np.zeros(d) if theta is None else _vector("theta", theta, d)
        rng = np.random.default_rng(seed)
        x = prior.straighten(truth) + np.sqrt(variances) * rng.standard_normal((n, d))
    else:
        truth, x = None, _rows("data", data, d)

    second = np.eye(d)[1]

    def straight(theta):
        return theta + (a * (theta[..., :1] - m) ** 2 + b) * second

    def prior_logp(value, scale):
        return pm.logp(pm.Normal.dist(0.0, scale), straight(value)).sum(axis=-1)

    def prior_dist(scale, size):
        z = pm.Normal.dist(0.0, scale, size=None if rv_size_is_none(size) else (*size, d))
        return z - (a * (z[..., :1] - m) ** 2 + b) * second

    with pm.Model() as model:
        theta_rv = pm.CustomDist(
            "theta",
            np.full(d, np.sqrt(prior_variance)),
            logp=prior_logp,
            dist=prior_dist,
            support_point=lambda rv, size, scale: pt.as_tensor(prior.bend(np.zeros(d))),
            signature="(d)->(d)",
        )
        pm.Normal("x", straight(theta_rv), np.sqrt(variances), observed=x)

    precision = tempering * n / variances + 1 / prior_variance
    location = tempering * n / variances * x.mean(axis=0) / precision
    posterior = BananaPosterior(location, 1 / precision, a, b, m)
    return ReferenceModel(model, {"x": x}, posterior, tempering, truth)
