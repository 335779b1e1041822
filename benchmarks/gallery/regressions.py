"""Regressions, with curves, with far starts, with more coefficients than effects."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from benchmarks.gallery.gallery import everyday, logistic


@everyday
def normal_mean(rng, n):
    y = rng.normal(0.4, 1.3, n)
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 1), pm.HalfNormal("sigma", 1)
        pm.Normal("y", mu, sigma, observed=y)
    return model, {"mu": 0.4, "sigma": 1.3}


@everyday
def far_start(rng, n):
    """Outcomes of about 50, where the sampler starts at 0 with a standard deviation of 1."""
    y = rng.normal(52, 8, n)
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 100), pm.HalfNormal("sigma", 10)
        pm.Normal("y", mu, sigma, observed=y)
    return model, {"mu": 52, "sigma": 8}


@everyday
def linear(rng, n):
    x, beta = rng.normal(size=(n, 3)), np.array([0.7, -0.4, 0.2])
    y = 1 + x @ beta + rng.normal(0, 1.2, n)
    with pm.Model() as model:
        alpha, b, sigma = pm.Normal("alpha", 0, 10), pm.Normal("b", 0, 10, shape=3), pm.HalfCauchy("sigma", 5)
        mu = pm.Deterministic("mu", alpha + x @ b)
        pm.Normal("y", mu=mu, sigma=sigma, observed=y)
    return model, {"alpha": 1, "b": beta, "sigma": 1.2}


@everyday
def frame_with_coords(rng, n):
    """Columns of a data frame, the index as a coordinate, predictors that are not centred."""
    df = pd.DataFrame({"age": rng.normal(50, 10, n), "dose": rng.uniform(0, 5, n)})
    df["score"] = 2 + 0.05 * df["age"] - 0.3 * df["dose"] + rng.normal(0, 1, n)
    with pm.Model(coords={"obs": df.index, "effect": ["age", "dose"]}) as model:
        x = pm.Data("x", df[["age", "dose"]], dims=("obs", "effect"))
        b = pm.Normal("b", 0, 1, dims="effect")
        mu = pm.Deterministic("mu", pm.Normal("a", 0, 5) + pm.math.dot(x, b), dims="obs")
        pm.Normal("score", mu, pm.Exponential("sigma", 1), observed=df["score"], dims="obs")
    return model, {"a": 2, "b": [0.05, -0.3], "sigma": 1}


@everyday
def dollars_beside_ratios(rng, n):
    dollars, ratio = rng.lognormal(10, 0.6, n), rng.beta(2, 5, n)
    y = 1 + 2e-5 * dollars + 3 * ratio + rng.normal(0, 1, n)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 10), pm.Normal("b", 0, 10)
        per_dollar = pm.Normal("per_dollar", 0, 1e-4)
        sigma = pm.HalfNormal("sigma", 5)
        pm.Normal("y", a + per_dollar * dollars + b * ratio, sigma, observed=y)
    return model, {"a": 1, "b": 3, "per_dollar": 2e-5, "sigma": 1}


@everyday
def wide_priors(rng, n):
    x = rng.normal(size=(n, 2))
    y = rng.binomial(1, logistic(-0.5 + x @ [1.0, -0.6]))
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 100), pm.Normal("b", 0, 100, shape=2)
        pm.Bernoulli("y", logit_p=a + pm.math.dot(x, b), observed=y)
    return model, {"a": -0.5, "b": [1.0, -0.6]}


@everyday
def flat_priors(rng, n):
    x = rng.normal(size=n)
    y = 0.3 + 0.8 * x + rng.normal(0, 1.5, n)
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("a") + pm.Flat("b") * x, pm.HalfFlat("s"), observed=y)
    return model, {"a": 0.3, "b": 0.8, "s": 1.5}


@everyday
def correlated_columns(rng, n):
    z = rng.normal(size=n)
    x = np.column_stack([z, 0.95 * z + np.sqrt(1 - 0.95**2) * rng.normal(size=n)])
    y = x @ [0.8, -0.3] + rng.normal(0, 1, n)
    with pm.Model() as model:
        pm.Normal("y", x @ pm.Normal("b", shape=2), pm.HalfNormal("s"), observed=y)
    return model, {"b": [0.8, -0.3], "s": 1}


@everyday
def dummies_of_cities(rng, n):
    city = pd.Series(rng.choice(["a", "b", "c"], n, p=[0.5, 0.4, 0.1]))
    dummies = pd.get_dummies(city, drop_first=True)
    y = 1 + dummies.to_numpy() @ [0.5, -0.8] + rng.normal(0, 1, n)
    with pm.Model() as model:
        effect = pm.Normal("effect", 0, 1, shape=2)
        pm.Normal("y", pm.Normal("a") + pt.dot(dummies, effect), pm.HalfNormal("s"), observed=y)
    return model, {"a": 1, "effect": [0.5, -0.8], "s": 1}


@everyday
def interaction(rng, n):
    x, treated, b = rng.normal(size=n), rng.integers(0, 2, n), np.array([0.2, 0.5, -0.4, 0.3])
    y = b[0] + b[1] * x + b[2] * treated + b[3] * x * treated + rng.normal(0, 1, n)
    with pm.Model() as model:
        c = pm.Normal("b", 0, 1, shape=4)
        mu = c[0] + c[1] * x + c[2] * treated + c[3] * x * treated
        pm.Normal("y", mu, pm.HalfNormal("s", 1), observed=y)
    return model, {"b": b, "s": 1}


@everyday
def quantile_regression(rng, n):
    x = rng.normal(size=n)
    kappa = np.sqrt(0.9 / 0.1)
    y = pm.draw(pm.AsymmetricLaplace.dist(mu=0, b=1 / 0.7, kappa=kappa, size=n), random_seed=rng)
    with pm.Model() as model:
        a, b, scale = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5), pm.HalfNormal("scale", 2)
        pm.AsymmetricLaplace("y", mu=a + b * x, b=scale, kappa=kappa, observed=0.5 + x + y)
    return model, {"a": 0.5, "b": 1.0, "scale": 1 / 0.7}


@everyday
def spline(rng, n):
    t, knots = rng.uniform(0, 1, n), np.linspace(0, 1, 7)
    basis = np.maximum(1 - np.abs(t[:, None] - knots) * 6, 0)
    w = np.array([0.3, 0.8, -0.2, -0.6, 0.1, 0.9, 0.4])
    y = basis @ w + rng.normal(0, 0.5, n)
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 1)
        b = pm.Normal("w", 0, tau, size=7)
        mu = pm.Deterministic("mu", pm.math.dot(np.asarray(basis, order="F"), b.T))
        pm.Normal("y", mu, pm.Exponential("sigma", 1), observed=y)
    return model, {"w": w, "sigma": 0.5}


@everyday
def spline_logistic(rng, n):
    t, knots = rng.uniform(0, 1, n), np.linspace(0, 1, 6)
    basis = np.maximum(1 - np.abs(t[:, None] - knots) * 5, 0)
    w = np.array([0.3, 0.8, -0.2, -0.6, 0.1, 0.9])
    y = rng.binomial(1, logistic(basis @ w))
    with pm.Model() as model:
        b = pm.Normal("w", 0, 1, size=6)
        pm.Bernoulli("y", p=pm.math.invlogit(pm.math.dot(basis, b)), observed=y)
    return model, {"w": w}


@everyday
def horseshoe(rng, n):
    x, beta = rng.normal(size=(n, 8)), np.array([1.0, -0.7, 0, 0, 0, 0, 0, 0])
    y = x @ beta + rng.normal(0, 1, n)
    with pm.Model() as model:
        tau, lam = pm.HalfCauchy("tau", 1), pm.HalfCauchy("lam", 1, shape=8)
        b = pm.Deterministic("beta", pm.Normal("z", 0, 1, shape=8) * tau * lam)
        pm.Normal("y", pt.dot(x, b), pm.HalfNormal("sigma"), observed=y)
    return model, {"beta": beta, "sigma": 1}


@everyday
def change_point(rng, n):
    year = rng.integers(1900, 1960, n)
    y = rng.poisson(np.where(year <= 1930, 1.4, 0.6))
    with pm.Model() as model:
        early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
        pm.Poisson("accidents", pm.math.switch(1930 >= year, early, late), observed=y)
    return model, {"early": 1.4, "late": 0.6}


@everyday
def trend_with_change_points(rng, n):
    """As Prophet has it."""
    t, at, steps = rng.uniform(0, 1, n), np.linspace(0.1, 0.8, 4), np.array([0.5, -0.6, 0.1, 0.2])
    after = (t[:, None] > at) * 1
    y = (0.8 + after @ steps) * t + 0.5 + after @ (-at * steps) + rng.normal(0, 0.3, n)
    with pm.Model() as model:
        k, m, delta = pm.Normal("k"), pm.Normal("m"), pm.Laplace("delta", 0, 0.5, shape=4)
        growth, offset = k + pm.math.dot(after, delta), m + pm.math.dot(after, -at * delta)
        pm.Normal("y", growth * t + offset, pm.HalfNormal("sigma"), observed=y)
    return model, {"k": 0.8, "m": 0.5, "delta": steps, "sigma": 0.3}


@everyday
def public_box_gaussian_process(rng, n):
    x = rng.uniform(-3, 3, (n, 1))
    y = np.sin(x[:, 0]) + rng.normal(0, 0.5, n)
    with pm.Model() as model:
        cov = pm.HalfNormal("eta") ** 2 * pm.gp.cov.Matern52(1, ls=pm.LogNormal("ell", 0, 0.5))
        gp = pm.gp.HSGP(m=[8], L=[5.0], cov_func=cov)
        gp._X_center = np.zeros(1)
        pm.Normal("y", gp.prior("f", X=x), pm.HalfNormal("sigma"), observed=y)
    return model, {"sigma": 0.5}


@everyday
def linearized_gaussian_process(rng, n):
    x = rng.uniform(-3, 3, (n, 1))
    y = np.sin(x[:, 0]) + rng.normal(0, 0.5, n)
    with pm.Model() as model:
        cov = pm.gp.cov.ExpQuad(1, ls=pm.InverseGamma("ell", 5, 5))
        gp = pm.gp.HSGP(m=[8], L=[5.0], cov_func=cov)
        phi, sqrt_psd = gp.prior_linearized(X=x)
        beta = pm.Normal("beta", size=8)
        pm.Normal("y", phi @ (beta * sqrt_psd), pm.HalfNormal("sigma"), observed=y)
    return model, {"sigma": 0.5}


@everyday
def robust(rng, n):
    x, b = rng.normal(size=(n, 2)), np.array([0.6, -0.5])
    y = 0.2 + x @ b + 0.8 * rng.standard_t(4, n)
    with pm.Model() as model:
        nu = pm.Gamma("nu", 2, 0.1)
        mu = pm.Normal("a") + x @ pm.Normal("b", shape=2)
        pm.StudentT("y", nu=nu, mu=mu, sigma=pm.HalfNormal("s"), observed=y)
    return model, {"a": 0.2, "b": b, "s": 0.8, "nu": 4}


@everyday
def spread_by_a_column(rng, n):
    x = rng.normal(size=n)
    y = 0.5 - 0.7 * x + np.exp(-0.3 + 0.4 * x) * rng.normal(size=n)
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=2), pm.Normal("b", shape=2)
        pm.Normal("y", a[0] + a[1] * x, pm.math.exp(b[0] + b[1] * x), observed=y)
    return model, {"a": [0.5, -0.7], "b": [-0.3, 0.4]}
