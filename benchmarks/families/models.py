"""Models of many likelihoods, given nodes of covariates and of observed values; and covariates."""

import numpy as np
import pymc as pm


def covariates(r, n, d, scale=1.0):
    return np.column_stack([np.ones(n), scale * r.normal(size=(n, d - 1))])


def bounded(r, n):
    """Rows of norm at most 1."""
    z = r.normal(size=(n, 5)) / np.sqrt(5)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    return np.column_stack([np.full(n, 0.7), z * 0.714])


# Each: covariates of n records, and the model given nodes of them and of the observed values.


def logistic(x, y):
    beta = pm.Normal("beta", 0, 1.5, shape=6)
    pm.Bernoulli("y", logit_p=x @ beta, observed=y)


def ordered(x, y):
    beta = pm.Normal("beta", 0, 1, shape=3)
    first, gap = pm.Normal("first", -1, 0.5), pm.LogNormal("gap", 0, 0.3)
    pm.OrderedLogistic(
        "y", eta=x[:, 1:] @ beta, cutpoints=pm.math.stack([first, first + gap]), observed=y, compute_p=False
    )


def poisson(x, y):
    beta = pm.Normal("beta", 0, 0.4, shape=5)
    pm.Poisson("y", pm.math.exp(x @ beta), observed=y)


def negative_binomial(x, y):
    beta, alpha = pm.Normal("beta", 0, 0.4, shape=4), pm.Gamma("alpha", 8, 4)
    pm.NegativeBinomial("y", mu=pm.math.exp(x @ beta), alpha=alpha, observed=y)


def gamma(x, y):
    beta, alpha = pm.Normal("beta", 0, 0.4, shape=4), pm.Gamma("alpha", 8, 4)
    pm.Gamma("y", alpha=alpha, beta=alpha * pm.math.exp(-(x @ beta)), observed=y)


def beta(x, y):
    beta, kappa = pm.Normal("beta", 0, 0.3, shape=4), pm.Gamma("kappa", 16, 0.8)
    share = pm.math.sigmoid(x @ beta)
    pm.Beta("y", alpha=share * kappa, beta=(1 - share) * kappa, observed=y)


def weibull_censored(x, y):
    beta, alpha = pm.Normal("beta", 0, 0.3, shape=4), pm.Gamma("alpha", 16, 10)
    lifetime = pm.Weibull.dist(alpha=alpha, beta=pm.math.exp(x @ beta))
    pm.Censored("y", lifetime, lower=None, upper=2.0, observed=y)


def linear(x, y):
    beta, sigma = pm.Normal("beta", 0, 2, shape=5), pm.Gamma("sigma", 4, 2)
    pm.Normal("y", x @ beta, sigma, observed=y)


def student_t(x, y):
    beta, sigma, nu = pm.Normal("beta", 0, 2, shape=5), pm.Gamma("sigma", 4, 2), pm.Gamma("nu", 8, 1.6)
    pm.StudentT("y", nu=nu, mu=x @ beta, sigma=sigma, observed=y)


def mixture(x, y):
    share = pm.Beta("share", 8, 8)
    low, high = pm.Normal("low", -1.5, 0.2), pm.Normal("high", 1.5, 0.2)
    sigma = pm.LogNormal("sigma", -0.2, 0.2, shape=2)
    pm.NormalMixture(
        "y",
        w=pm.math.stack([share, 1 - share]),
        mu=pm.math.stack([low, high]) + x[:, None],  # x is 0
        sigma=sigma,
        observed=y,
    )


def zero_inflated(x, y):
    beta, psi = pm.Normal("beta", 0, 0.4, shape=4), pm.Beta("psi", 8, 4)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(0.7 + x @ beta), observed=y)


def best(x, y):
    mean, sigma = pm.Normal("mean", 0, 2, shape=2), pm.Gamma("sigma", 4, 2, shape=2)
    nu = pm.Gamma("nu", 8, 1.6)
    pm.StudentT("y", nu=nu, mu=mean[x], sigma=sigma[x], observed=y)


def hierarchy(x, y):
    mean, tau = pm.Normal("mean", 0, 1), pm.LogNormal("tau", -0.3, 0.3)
    level = pm.Normal("level", mean, tau, shape=16)
    pm.Bernoulli("y", logit_p=level[x], observed=y)


def softmax(x, y):
    weights = pm.Normal("weights", 0, 1, shape=(3, 2))
    scores = pm.math.concatenate([pm.math.zeros_like(x[:, :1]), x @ weights], axis=1)
    pm.Categorical("y", logit_p=scores, observed=y)


def two_groups(r, n):
    return (r.random(n) < 0.5).astype(int)


def sixteen_groups(r, n):
    sizes = np.geomspace(500, 10_000, 16)
    return r.choice(16, size=n, p=sizes / sizes.sum())


FAMILIES = {
    "logistic": (logistic, bounded),
    "ordered": (ordered, lambda r, n: covariates(r, n, 4)),
    "poisson": (poisson, lambda r, n: covariates(r, n, 5, 0.5)),
    "negative_binomial": (negative_binomial, lambda r, n: covariates(r, n, 4)),
    "gamma": (gamma, lambda r, n: covariates(r, n, 4)),
    "beta": (beta, lambda r, n: covariates(r, n, 4)),
    "weibull_censored": (weibull_censored, lambda r, n: covariates(r, n, 4)),
    "linear": (linear, lambda r, n: covariates(r, n, 5)),
    "student_t": (student_t, lambda r, n: covariates(r, n, 5)),
    "mixture": (mixture, lambda r, n: np.zeros(n)),
    "zero_inflated": (zero_inflated, lambda r, n: covariates(r, n, 4, 0.7)),
    "best": (best, two_groups),
    "hierarchy": (hierarchy, sixteen_groups),
    "softmax": (softmax, lambda r, n: covariates(r, n, 3)),
}
