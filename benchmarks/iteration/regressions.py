"""Regressions, and what a hand-written loop makes of each."""

import numba
import numpy as np
import pymc as pm
from scipy.special import gammaln


@numba.njit
def _clipped_step(new, old, scale):
    q = (new - old) * scale
    if q != q:
        return 0.0
    return np.rint(min(max(q, -1048576.0), 1048576.0))


# Hand-written fused loops: dot product, log-likelihood, clip, grid, sum, stored row; one pass, no
# temporaries.


@numba.njit
def logistic_loop(x, y, theta, old, scale, new):
    """Bernoulli with logits."""
    total = 0.0
    for i in range(x.shape[0]):
        z = 0.0
        for j in range(x.shape[1]):
            z += x[i, j] * theta[j]
        u = -z if y[i] else z
        new[i] = -(max(u, 0.0) + np.log1p(np.exp(-abs(u))))
        total += _clipped_step(new[i], old[i], scale)
    return total


@numba.njit
def poisson_loop(x, y, theta, old, scale, new, log_factorial):
    """Poisson with a log link; the factorials are tabulated beforehand."""
    total = 0.0
    for i in range(x.shape[0]):
        z = 0.0
        for j in range(x.shape[1]):
            z += x[i, j] * theta[j]
        new[i] = y[i] * z - np.exp(z) - log_factorial[i]
        total += _clipped_step(new[i], old[i], scale)
    return total


@numba.njit
def normal_loop(x, y, theta, old, scale, new):
    """Linear regression with unknown standard deviation (log scale)."""
    d = x.shape[1]
    constant = -0.5 * np.log(2 * np.pi) - theta[d]
    precision = np.exp(-theta[d])
    total = 0.0
    for i in range(x.shape[0]):
        z = 0.0
        for j in range(d):
            z += x[i, j] * theta[j]
        e = (y[i] - z) * precision
        new[i] = constant - 0.5 * e * e
        total += _clipped_step(new[i], old[i], scale)
    return total


def regression(family: str, n: int, d: int):
    """Model, data and hand-written loop of one regression."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, d)) / np.sqrt(d)
    eta = x @ rng.normal(size=d)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=d)
        if family == "logistic":
            y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
            pm.Bernoulli("y", logit_p=x @ beta, observed=y)
        elif family == "poisson":
            y = rng.poisson(np.exp(eta))
            pm.Poisson("y", pm.math.exp(x @ beta), observed=y)
        else:
            y = eta + rng.normal(size=n)
            pm.Normal("y", x @ beta, pm.HalfNormal("sigma"), observed=y)
    if family == "poisson":
        table = gammaln(y + 1.0)
        return model, lambda t, old, s, new: poisson_loop(x, y, t, old, s, new, table)
    loop = logistic_loop if family == "logistic" else normal_loop
    return model, lambda t, old, s, new: loop(x, y, t, old, s, new)
