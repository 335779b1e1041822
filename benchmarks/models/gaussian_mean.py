"""The mean of normal records."""

from dataclasses import dataclass, field

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from benchmarks.models.reference import (
    ReferenceModel,
    check_positive,
    check_rows,
    check_sizes,
    check_tempering,
    check_vector,
)


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


def gaussian_mean(
    d: int = 2,
    n: int = 1000,
    *,
    cov: ArrayLike | None = None,
    prior_variance: float = 1000.0,
    tempering: float = 1.0,
    theta: ArrayLike | None = None,
    seed: int = 0,
    data: ArrayLike | None = None,
) -> ReferenceModel:
    r"""Mean of a normal distribution with known covariance, conjugate prior.

    Records :math:`x_i \sim N(θ, C)`, prior :math:`θ \sim N(0, v I)`. The posterior for the likelihood to the
    power T is normal with precision :math:`Λ = T n C^{-1} + I/v` and mean :math:`Λ^{-1} T n C^{-1} \bar x`.

    Parameters
    ----------
    d : int
        Number of parameters and of columns.
    n : int
        Number of records to simulate.
    cov : array_like, shape (d, d), optional
        C, symmetric and positive definite; default the identity.
    prior_variance : float
        v.
    tempering : float
        T in (0, 1].
    theta : array_like, shape (d,), optional
        Parameter to simulate from, default zeros.
    seed : int
        Seed of the simulation.
    data : array_like, shape (n, d), optional
        Records to use instead of simulated ones; `n`, `theta` and `seed` are then ignored.

    Returns
    -------
    ReferenceModel
        Free variable ``theta``, observed variable ``x`` of shape (n, d), posterior a `GaussianPosterior`.
        ``lipschitz`` is None: the gradient of a normal log-likelihood has no bound.

    Raises
    ------
    ValueError
        If a size, shape, variance or the tempering is out of range, `cov` is not symmetric positive definite,
        or the data are not finite.
    """
    if data is not None:
        n = len(np.asarray(data))
    check_sizes(d, n, smallest_d=1)
    cov = np.eye(d) if cov is None else np.asarray(cov, dtype=float)
    if cov.shape != (d, d) or not np.isfinite(cov).all() or not np.array_equal(cov, cov.T):
        raise ValueError(f"cov must be finite and symmetric, of shape ({d}, {d}).")
    if np.linalg.eigvalsh(cov)[0] <= 0:
        raise ValueError("cov must be positive definite.")
    prior_variance = float(check_positive("prior_variance", prior_variance))
    tempering = check_tempering(tempering)
    if data is None:
        truth = np.zeros(d) if theta is None else check_vector("theta", theta, d)
        x = GaussianPosterior(truth, cov).draws(n, np.random.default_rng(seed))
    else:
        truth, x = None, check_rows("data", data, d)

    with pm.Model() as model:
        theta_rv = pm.Normal("theta", 0.0, np.sqrt(prior_variance), shape=d)
        pm.MvNormal("x", theta_rv, cov=pt.as_tensor(cov, name="cov"), observed=x)

    data_precision = tempering * n * np.linalg.inv(cov)
    posterior_cov = np.linalg.inv(data_precision + np.eye(d) / prior_variance)
    posterior_cov = (posterior_cov + posterior_cov.T) / 2
    posterior = GaussianPosterior(posterior_cov @ data_precision @ x.mean(axis=0), posterior_cov)
    return ReferenceModel(model, {"x": x}, posterior, tempering, truth, public=("cov",))
