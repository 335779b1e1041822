"""Logistic regression, with a normal approximation of its posterior."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.special import expit

from benchmarks.models.gaussian_mean import GaussianPosterior
from benchmarks.models.reference import (
    ReferenceModel,
    check_positive,
    check_rows,
    check_sizes,
    check_tempering,
)


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
    0 or 1, :math:`|y - \sigma(z)| < 1`, so the gradient is shorter than ‖x‖ ≤ 1 whatever the record and β:
    ``lipschitz`` is 1.

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
    check_sizes(d, n, smallest_d=2)
    prior_variance = float(check_positive("prior_variance", prior_variance))
    tempering = check_tempering(tempering)
    if data is None:
        rng = np.random.default_rng(seed)
        columns = rng.standard_normal((n, d - 1)) / np.sqrt(d - 1)
        columns /= np.maximum(1.0, np.linalg.norm(columns, axis=1, keepdims=True))
        x = np.column_stack([np.full(n, 0.7), 0.714 * columns])
        truth = np.concatenate([[-1.0], 1.5 * rng.standard_normal(d - 1)])
        y = (rng.random(n) < expit(x @ truth)).astype(np.int64)
    else:
        truth, x, labels = None, check_rows("The rows", data[0], d), np.asarray(data[1])
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
