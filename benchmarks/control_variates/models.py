"""Models of simulated data, given a seed and the number of records."""

import numpy as np
import pymc as pm


def shared(**arrays):
    """Data nodes of the model in context; None if it has them already, and then they are replaced."""
    model = pm.modelcontext(None)
    if set(arrays) <= set(model.named_vars):
        pm.set_data(arrays)
        return None
    return [pm.Data(name, values) for name, values in arrays.items()]


def logistic(seed, n):
    r = np.random.default_rng(seed)
    z = r.normal(size=(n, 5)) / np.sqrt(5)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.full(n, 0.7), z * 0.714])
    truth = np.r_[-1, 1.5 * r.normal(size=5)]
    y = (r.random(n) < 1 / (1 + np.exp(-x @ truth))).astype(int)
    if data := shared(data_x=x, data_y=y):
        beta = pm.Normal("beta", 0, 2, shape=6)
        pm.Bernoulli("y", logit_p=data[0] @ beta, observed=data[1])
    return truth


def poisson(seed, n):
    r = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), r.normal(size=(n, 4)) * 0.5])
    truth = np.r_[1.0, 0.6 * r.normal(size=4)]
    if data := shared(data_x=x, data_y=r.poisson(np.exp(x @ truth))):
        beta = pm.Normal("beta", 0, 2, shape=5)
        pm.Poisson("y", pm.math.exp(data[0] @ beta), observed=data[1])
    return truth


def linear(seed, n, sigma_true=1.5):
    r = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), r.normal(size=(n, 4))])
    truth = np.r_[2.0, r.normal(size=4), np.log(sigma_true)]
    if data := shared(data_x=x, data_y=x @ truth[:5] + sigma_true * r.normal(size=n)):
        beta = pm.Normal("beta", 0, 5, shape=5)
        sigma = pm.HalfNormal("sigma", 5, initval=1.0)
        pm.Normal("y", data[0] @ beta, sigma, observed=data[1])
    return truth


def linear_large(seed, n):
    return linear(seed, n, 30.0)


def linear_small(seed, n):
    return linear(seed, n, 0.05)


def separable(seed, n):
    r = np.random.default_rng(seed)
    z = r.normal(size=(n, 5)) / np.sqrt(5)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.full(n, 0.7), z * 0.714])
    truth = np.r_[-1, np.full(5, 25.0)]
    y = (r.random(n) < 1 / (1 + np.exp(-x @ truth))).astype(int)
    if data := shared(data_x=x, data_y=y):
        beta = pm.Normal("beta", 0, 10, shape=6)
        pm.Bernoulli("y", logit_p=data[0] @ beta, observed=data[1])
    return truth


def many(seed, n, d=50, correlation=0.0):
    """Fifty parameters; row norm <= 1; covariates with this correlation."""
    r = np.random.default_rng(seed)
    z = np.sqrt(1 - correlation) * r.normal(size=(n, d - 1)) + np.sqrt(correlation) * r.normal(size=(n, 1))
    z /= np.sqrt(d - 1)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.full(n, 0.7), z * 0.714])
    truth = np.r_[-1, 1.5 * r.normal(size=d - 1)]
    y = (r.random(n) < 1 / (1 + np.exp(-x @ truth))).astype(int)
    if data := shared(data_x=x, data_y=y):
        beta = pm.Normal("beta", 0, 2, shape=d)
        pm.Bernoulli("y", logit_p=data[0] @ beta, observed=data[1])
    return truth


def many_correlated(seed, n):
    return many(seed, n, correlation=0.5)


def groups(seed, n):
    r = np.random.default_rng(seed)
    group, x, z = r.integers(20, size=n), r.normal(size=(n, 3)) * 0.6, r.normal(size=20)
    slopes = r.normal(size=3)
    y = (r.random(n) < 1 / (1 + np.exp(0.5 - 0.8 * z[group] - x @ slopes))).astype(int)
    if data := shared(data_group=group, data_x=x, data_y=y):
        mean, tau = pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1)
        level = pm.Normal("level", mean, tau, shape=20)
        beta = pm.Normal("beta", 0, 2, shape=3)
        pm.Bernoulli("y", logit_p=level[data[0]] + data[1] @ beta, observed=data[2])


MODELS = {f.__name__: f for f in (logistic, poisson, linear, linear_large, linear_small, separable, groups)}
MODELS |= {f.__name__: f for f in (many, many_correlated)}
