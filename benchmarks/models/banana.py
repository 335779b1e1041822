"""A posterior that is a bent normal distribution."""

from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.distributions.shape_utils import rv_size_is_none

from benchmarks.models.reference import (
    ReferenceModel,
    check_positive,
    check_rows,
    check_sizes,
    check_tempering,
    check_vector,
)


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
    check_sizes(d, n, smallest_d=2)
    a, b, m = (float(value) for value in check_vector("(a, b, m)", (a, b, m), 3))
    if variances is None:
        variances = np.concatenate([[20.0, 2.5], np.ones(d - 2)])
    variances = check_positive("variances", variances, (d,))
    prior_variance = float(check_positive("prior_variance", prior_variance))
    tempering = check_tempering(tempering)
    prior = BananaPosterior(np.zeros(d), np.full(d, prior_variance), a, b, m)
    if data is None:
        truth = np.zeros(d) if theta is None else check_vector("theta", theta, d)
        rng = np.random.default_rng(seed)
        x = prior.straighten(truth) + np.sqrt(variances) * rng.standard_normal((n, d))
    else:
        truth, x = None, check_rows("data", data, d)

    second = pt.as_tensor(np.eye(d)[1], name="second")
    bent = pt.as_tensor(prior.bend(np.zeros(d)), name="bent")
    prior_sd = pt.as_tensor(np.full(d, np.sqrt(prior_variance)), name="prior_sd")
    sd = pt.as_tensor(np.sqrt(variances), name="sd")

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
            prior_sd,
            logp=prior_logp,
            dist=prior_dist,
            support_point=lambda rv, size, scale: bent,
            signature="(d)->(d)",
        )
        pm.Normal("x", straight(theta_rv), sd, observed=x)

    precision = tempering * n / variances + 1 / prior_variance
    location = tempering * n / variances * x.mean(axis=0) / precision
    posterior = BananaPosterior(location, 1 / precision, a, b, m)
    names = ("second", "prior_sd", "sd")
    if d > 30:  # smaller arrays that a function brings along are not asked about, and have no name
        names += ("bent",)
    return ReferenceModel(model, {"x": x}, posterior, tempering, truth, public=names)
