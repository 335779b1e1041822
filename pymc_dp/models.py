"""Reference models whose posterior is known, for tests, notebooks and users' own comparisons.

Each function simulates data (or takes yours), writes the PyMC model as anyone would, and returns it with its
posterior. The posteriors are computed from the data without any noise: **nothing in this module is private**.
Use it with simulated data, to see what a private sampler costs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.distributions.shape_utils import rv_size_is_none
from scipy.special import expit, logsumexp, ndtr


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


_CELLS = 400  # cells of the grid on each side
_CELL_MARGIN = 1.0  # largest difference of log density between neighbouring cells that matter
_UNRESOLVED_MASS = 1e-6  # largest mass of cells beyond that margin


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """Density of two parameters inside a square, normalized on a grid of 400 x 400 cells.

    Draws choose a cell by the density at its centre and a uniform point in it, and keep the point with
    probability density / (density at the centre · e). That is exact where no point of the cell is denser than
    its centre by more than a factor e; construction fails if cells whose log density differs by more than one
    from a neighbouring cell's hold more than 1e-6 of the mass.

    Attributes
    ----------
    log_kernel : callable
        Log density up to a constant, from shape (k, 2) to shape (k,).
    bound : float
        The square is [−bound, bound]².

    Raises
    ------
    ValueError
        If the density is too narrow for the grid.
    """

    log_kernel: Callable[[np.ndarray], np.ndarray]
    bound: float
    _centres: np.ndarray = field(init=False, repr=False)
    _log_masses: np.ndarray = field(init=False, repr=False)
    _log_constant: float = field(init=False, repr=False)

    def __post_init__(self):
        axis = self.bound * ((np.arange(_CELLS) + 0.5) / _CELLS * 2 - 1)
        centres = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        kernel = self.log_kernel(centres)
        log_total = logsumexp(kernel)
        object.__setattr__(self, "_centres", centres)
        object.__setattr__(self, "_log_masses", kernel - log_total)
        object.__setattr__(self, "_log_constant", log_total + 2 * np.log(self._width))
        square = kernel.reshape(_CELLS, _CELLS)
        steep = np.zeros(square.shape, dtype=bool)
        down, right = (np.abs(np.diff(square, axis=axis)) > _CELL_MARGIN for axis in (0, 1))
        steep[1:] |= down
        steep[:-1] |= down
        steep[:, 1:] |= right
        steep[:, :-1] |= right
        if np.exp(self._log_masses[steep.ravel()]).sum() > _UNRESOLVED_MASS:
            raise ValueError(
                f"The posterior is too narrow for a grid of {_CELLS} x {_CELLS} cells: "
                "raise the temperature or lower n."
            )

    @property
    def _width(self) -> float:
        return 2 * self.bound / _CELLS

    @property
    def mean(self) -> np.ndarray:
        """Mean, by the midpoint rule."""
        return np.exp(self._log_masses) @ self._centres

    @property
    def cov(self) -> np.ndarray:
        """Covariance, by the midpoint rule."""
        centred = self._centres - self.mean
        return (centred * np.exp(self._log_masses)[:, None]).T @ centred

    def draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (size, 2)."""
        masses = np.exp(self._log_masses)
        cumulative = np.cumsum(masses)
        kept = [np.empty((0, 2))]
        while sum(map(len, kept)) < size:
            cells = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
            points = self._centres[cells] + self._width * (rng.random((size, 2)) - 0.5)
            log_ratio = self.log_density(points) - (self._log_masses[cells] - 2 * np.log(self._width))
            kept.append(points[np.log1p(-rng.random(size)) < log_ratio - _CELL_MARGIN])
        return np.concatenate(kept)[:size]

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Log density at points of shape (..., 2); minus infinity outside the square."""
        points = theta.reshape(-1, 2)
        out = np.full(len(points), -np.inf)
        inside = (np.abs(points) <= self.bound).all(axis=1)
        out[inside] = self.log_kernel(points[inside]) - self._log_constant
        return out.reshape(theta.shape[:-1])


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
    _sizes(d, n, smallest_d=1)
    cov = np.eye(d) if cov is None else np.asarray(cov, dtype=float)
    if cov.shape != (d, d) or not np.isfinite(cov).all() or not np.array_equal(cov, cov.T):
        raise ValueError(f"cov must be finite and symmetric, of shape ({d}, {d}).")
    if np.linalg.eigvalsh(cov)[0] <= 0:
        raise ValueError("cov must be positive definite.")
    prior_variance = float(_positive("prior_variance", prior_variance))
    tempering = _tempering(tempering)
    if data is None:
        truth = np.zeros(d) if theta is None else _vector("theta", theta, d)
        x = GaussianPosterior(truth, cov).draws(n, np.random.default_rng(seed))
    else:
        truth, x = None, _rows("data", data, d)

    with pm.Model() as model:
        theta_rv = pm.Normal("theta", 0.0, np.sqrt(prior_variance), shape=d)
        pm.MvNormal("x", theta_rv, cov=cov, observed=x)

    data_precision = tempering * n * np.linalg.inv(cov)
    posterior_cov = np.linalg.inv(data_precision + np.eye(d) / prior_variance)
    posterior_cov = (posterior_cov + posterior_cov.T) / 2
    posterior = GaussianPosterior(posterior_cov @ data_precision @ x.mean(axis=0), posterior_cov)
    return ReferenceModel(model, {"x": x}, posterior, tempering, truth)


def _laplace(x: np.ndarray, y: np.ndarray, prior_variance: float, tempering: float) -> GaussianPosterior:
    """Mode and inverse curvature of a logistic posterior, by Newton's method with halving."""

    def log_posterior(beta):
        logits = x @ beta
        return tempering * (y @ logits - np.logaddexp(0, logits).sum()) - beta @ beta / (2 * prior_variance)

    beta = np.zeros(x.shape[1])
    for _ in range(100):
        probability = expit(x @ beta)
        gradient = tempering * x.T @ (y - probability) - beta / prior_variance
        curvature = tempering * (x * (probability * (1 - probability))[:, None]).T @ x
        curvature += np.eye(len(beta)) / prior_variance
        step = np.linalg.solve(curvature, gradient)
        if gradient @ step < 1e-18:  # squared length of the step in posterior sd
            inverse = np.linalg.inv(curvature)
            return GaussianPosterior(beta, (inverse + inverse.T) / 2)
        if (
            gradient @ step > 1e-6
        ):  # nearer than that, rounding of the sum would decide, and Newton needs no help
            while log_posterior(beta + step) < log_posterior(beta):
                step = step / 2
        beta = beta + step
    raise RuntimeError("Newton's method did not reach the mode of the logistic posterior in 100 steps.")


def logistic(
    n: int = 20_000,
    d: int = 6,
    *,
    prior_variance: float = 4.0,
    tempering: float = 1.0,
    seed: int = 0,
    data: tuple[ArrayLike, ArrayLike] | None = None,
) -> ReferenceModel:
    r"""Logistic regression on rows of norm at most one, with the Laplace approximation of its posterior.

    Simulated rows: d − 1 columns N(0, 1)/√(d − 1), scaled into the unit ball where they lie outside, times
    .714, after a constant .7 (the norm is at most √(.7² + .714²) < 1). Coefficients: −1 for the constant,
    1.5·N(0, 1) for the rest. Prior N(0, 2²) for each.

    The log-likelihood of a record is :math:`y z - \ln(1 + e^z)`, z = xᵀβ, with gradient (y − σ(z)) x. As y is
    0 or 1, |y − σ(z)| < 1, so the gradient is shorter than ‖x‖ ≤ 1 whatever the record and β: ``lipschitz``
    is 1.

    Parameters
    ----------
    n : int
        Number of records to simulate.
    d : int
        Number of coefficients, at least 2.
    prior_variance : float
        Variance of each coefficient.
    tempering : float
        T in (0, 1].
    seed : int
        Seed of the simulation.
    data : tuple of two array_like, shapes (n, d) and (n,), optional
        Rows of norm at most one, and labels 0 or 1, instead of simulated ones; `n`, `d` and `seed` are then
        ignored.

    Returns
    -------
    ReferenceModel
        Free variable ``beta``, observed variable ``y``. ``posterior`` is a `GaussianPosterior` and
        **approximate** (``exact`` is False): mode and inverse curvature at the mode. Its error relative to
        the posterior sd shrinks like 1/√n.

    Raises
    ------
    ValueError
        If a size or the tempering is out of range, or the data are not finite, a row is longer than one, or a
        label is neither 0 nor 1.
    """
    if data is not None:
        x = np.asarray(data[0], dtype=float)
        if x.ndim != 2:
            raise ValueError("The rows must be an array of shape (n, d).")
        n, d = x.shape
    _sizes(d, n, smallest_d=2)
    prior_variance = float(_positive("prior_variance", prior_variance))
    tempering = _tempering(tempering)
    if data is None:
        rng = np.random.default_rng(seed)
        columns = rng.standard_normal((n, d - 1)) / np.sqrt(d - 1)
        columns /= np.maximum(1.0, np.linalg.norm(columns, axis=1, keepdims=True))
        x = np.column_stack([np.full(n, 0.7), 0.714 * columns])
        truth = np.concatenate([[-1.0], 1.5 * rng.standard_normal(d - 1)])
        y = (rng.random(n) < expit(x @ truth)).astype(np.int64)
    else:
        truth, x, labels = None, _rows("The rows", data[0], d), np.asarray(data[1])
        if labels.shape != (n,) or not np.isin(labels, (0, 1)).all():
            raise ValueError(f"The labels must be 0 or 1, of shape ({n},).")
        if np.linalg.norm(x, axis=1).max() > 1 + 1e-12:
            raise ValueError("Every row must have norm at most 1: scale the rows by a public bound first.")
        y = labels.astype(np.int64)

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, np.sqrt(prior_variance), shape=d)
        pm.Bernoulli("y", logit_p=pt.dot(x, beta), observed=y)

    posterior = _laplace(x, y, prior_variance, tempering)
    return ReferenceModel(model, {"X": x, "y": y}, posterior, tempering, truth, exact=False, lipschitz=1.0)


def _mixture_lipschitz(variance: float, truncation: float, normalized: bool) -> float:
    """Bound the gradient norm of one record's log density; proof in docs/reference_models.md."""
    widest = 2 * truncation
    bound = np.sqrt(2) * widest
    if not normalized:
        excess = 0.4 * np.sqrt(variance)  # sup_t t / (1 + exp(t²/2σ²)) = 0.39295… σ
        bound = max(bound, np.hypot(widest + excess, widest / 2 + excess))
    return float(bound / variance)


def _mixture_log_kernel(
    x: np.ndarray, variance: float, truncation: float, tempering: float, normalized: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """Tempered log-likelihood of the mixture, at a cost that does not depend on n.

    As a function of x, the log density is analytic in an ellipse around [−truncation, truncation] (its
    singularities are at Im x = ±πσ²/θ_2 and beyond), so it equals its Chebyshev interpolant up to rounding,
    and the sum over the data is a weighted sum over the nodes.
    """
    # Half the height of the ellipse for the largest |θ_2|, in units of the interval.
    height = np.pi * variance / truncation**2
    size = int(np.ceil(40 / np.arcsinh(height)))  # error of order exp(-40)
    if size > 1000:
        raise ValueError("variance is too small relative to truncation².")
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    moments = np.zeros(size)
    for part in np.array_split(x, 1 + len(x) // 10_000):
        moments += np.polynomial.chebyshev.chebvander(part / truncation, size - 1).sum(axis=0)
    moments[1:] *= 2
    weights = np.polynomial.chebyshev.chebvander(nodes, size - 1) @ moments / size
    nodes, sd = truncation * nodes, np.sqrt(variance)

    def block(theta):
        centres = np.stack([theta[:, 0], theta[:, 0] + theta[:, 1]])
        exponents = -((nodes - centres[..., None]) ** 2) / (2 * variance)
        total = np.logaddexp(exponents[0], exponents[1]) @ weights
        if normalized:
            inside = ndtr((truncation - centres) / sd) - ndtr((-truncation - centres) / sd)
            total -= len(x) * np.log(inside.sum(axis=0))
        return tempering * total

    def log_kernel(theta):
        return np.concatenate([block(part) for part in np.array_split(theta, 1 + len(theta) // 10_000)])

    return log_kernel


def truncated_mixture(
    n: int = 50_000,
    *,
    theta: ArrayLike = (0.0, 1.0),
    variance: float = 2.0,
    truncation: float = 3.0,
    temperature: float = 500.0,
    normalized: bool = True,
    seed: int = 0,
    data: ArrayLike | None = None,
) -> ReferenceModel:
    r"""Mixture of two normals on an interval: two parameters, two modes.

    Records come from :math:`½ N(θ_1, σ^2) + ½ N(θ_1 + θ_2, σ^2)` restricted to [−c, c] (values outside are
    drawn again). The prior is flat on [−c, c]². It cannot be flat on the plane: as θ_2 → ∞ one component
    alone keeps the likelihood away from zero, and the posterior would be improper.

    Zhang and Zhang restrict x to [−3, 3] to bound the gradient but keep the density of the unrestricted
    mixture in the energy (appendix E.1). On restricted data, whose variance is about 1.7 < σ² = 2, that
    posterior has *one* mode, at θ_2 = 0, and not the two modes (0, 1) and (1, −1) of their text and figures;
    the program they published does not restrict the data, and there the two modes are. The default here keeps
    both the restriction, without which the gradient has no bound, and the two modes: the density is divided
    by its integral over [−c, c] (``normalized=True``). ``normalized=False`` is appendix E.1 to the letter.

    Parameters
    ----------
    n : int
        Number of records to simulate.
    theta : array_like, shape (2,)
        Parameter to simulate from, inside the square.
    variance : float
        σ², known.
    truncation : float
        c, bound of the records and of each parameter.
    temperature : float
        1/T, at least 1. The posterior is that of the likelihood to the power T.
    normalized : bool
        Whether the density of a record integrates to one over [−c, c].
    seed : int
        Seed of the simulation.
    data : array_like, shape (n,), optional
        Records in [−c, c] to use instead of simulated ones; `n`, `theta` and `seed` are then ignored.

    Returns
    -------
    ReferenceModel
        Free variable ``theta`` of length 2 without transform, observed variable ``x``, posterior a
        `GridPosterior`. ``lipschitz`` holds for every x in [−c, c] and θ in the square (proof in
        docs/reference_models.md): 4.24 for the defaults with either value of `normalized` (Zhang and Zhang:
        8.75).

    Raises
    ------
    ValueError
        If an argument is out of range, a record lies outside [−c, c], or the posterior is too narrow for the
        grid.

    References
    ----------
    W. Zhang and R. Zhang (2023), *DP-Fast MH*, ICML, §6.1 and appendix E.1.
    """
    variance = float(_positive("variance", variance))
    truncation = float(_positive("truncation", truncation))
    if not 1 <= temperature < np.inf:
        raise ValueError(f"temperature must be finite and at least 1, got {temperature}.")
    sd = np.sqrt(variance)
    if data is None:
        _sizes(2, n, smallest_d=2)
        truth = _vector("theta", theta, 2)
        if np.abs(truth).max() > truncation:
            raise ValueError(f"theta must lie in [-{truncation}, {truncation}]^2.")
        rng = np.random.default_rng(seed)
        x = np.empty(0)
        while len(x) < n:
            candidates = truth[0] + truth[1] * (rng.random(n) < 0.5) + sd * rng.standard_normal(n)
            x = np.concatenate([x, candidates[np.abs(candidates) <= truncation]])
        x = x[:n]
    else:
        truth, x = None, np.asarray(data, dtype=float)
        if x.ndim != 1 or len(x) == 0 or not (np.abs(x) <= truncation).all():
            raise ValueError(f"data must be of shape (n,), with at least one record, all in +-{truncation}.")

    def ends(centre):  # error function at the two ends of the interval
        return (pt.erf((end - centre) / (sd * np.sqrt(2))) for end in (-truncation, truncation))

    def inside(centre):  # probability of a component in the interval
        low, high = ends(centre)
        return (high - low) / 2

    def logp(value, first, second):
        components = [pm.logp(pm.Normal.dist(centre, sd), value) for centre in (first, second)]
        logp = pt.logaddexp(*components) - pt.log(inside(first) + inside(second))
        return pt.switch(pt.abs(value) <= truncation, logp, -np.inf)

    def dist(first, second, size):
        from_second = pm.Bernoulli.dist(inside(second) / (inside(first) + inside(second)), size=size)
        centre = pt.switch(from_second, second, first)
        low, high = ends(centre)
        quantile = low + (high - low) * pm.Uniform.dist(0.0, 1.0, size=size)
        return centre + sd * np.sqrt(2) * pt.erfinv(quantile)

    with pm.Model() as model:
        theta_rv = pm.Uniform("theta", -truncation, truncation, shape=2, default_transform=None)
        first, second = theta_rv[0], theta_rv[0] + theta_rv[1]
        if normalized:
            pm.CustomDist("x", first, second, logp=logp, dist=dist, observed=x)
        else:
            pm.NormalMixture("x", w=[0.5, 0.5], mu=pt.stack([first, second]), sigma=sd, observed=x)

    tempering = 1 / float(temperature)
    kernel = _mixture_log_kernel(x, variance, truncation, tempering, normalized)
    return ReferenceModel(
        model,
        {"x": x},
        GridPosterior(kernel, truncation),
        tempering,
        truth,
        lipschitz=_mixture_lipschitz(variance, truncation, normalized),
    )
