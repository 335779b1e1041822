"""Counts, choices, and outcomes that are rare or all equal."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks.gallery.gallery import choose, everyday, logistic, softmax


@everyday
def logistic_regression(rng, n):
    x, b = rng.normal(size=(n, 4)), np.array([0.8, -0.5, 0.3, 0.0])
    y = rng.binomial(1, logistic(0.4 + x @ b))
    with pm.Model() as model:
        eta = pm.Normal("a", 0, 2) + x @ pm.Normal("b", 0, 1, shape=4)
        p = pm.Deterministic("p", pm.math.sigmoid(eta))
        pm.Bernoulli("y", p=p, observed=y)
    return model, {"a": 0.4, "b": b}


@everyday
def rare_outcomes(rng, n):
    x = rng.normal(size=n)
    y = rng.binomial(1, logistic(-4 + 0.5 * x))
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 3) + pm.Normal("b") * x, observed=y)
    return model, {"a": -4, "b": 0.5}


@everyday
def all_outcomes_equal(rng, n):
    with pm.Model() as model:
        x = rng.normal(size=n)
        pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 2) + pm.Normal("b") * x, observed=np.zeros(n, dtype=int))
    return model, {}


@everyday
def all_counts_zero(rng, n):
    with pm.Model() as model:
        pm.Poisson("y", pm.Exponential("rate", 1), observed=np.zeros(n, dtype=int))
    return model, {}


@everyday
def conversion_test(rng, n):
    group = rng.integers(0, 2, n)
    y = rng.binomial(1, np.array([0.1, 0.13])[group])
    with pm.Model(coords={"group": ["control", "new"]}) as model:
        p = pm.Beta("p", 1, 1, dims="group")
        pm.Deterministic("uplift", p[1] - p[0])
        pm.Bernoulli("y", p=p[group], observed=y)
    return model, {"p": [0.1, 0.13]}


@everyday
def poisson_regression(rng, n):
    x, b = rng.normal(size=(n, 2)), np.array([0.4, -0.2])
    y = rng.poisson(np.exp(0.5 + x @ b))
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(pm.Normal("a") + x @ pm.Normal("b", shape=2)), observed=y)
    return model, {"a": 0.5, "b": b}


@everyday
def rates_with_exposure(rng, n):
    group, years, rate = rng.integers(0, 6, n), rng.gamma(2, 1, n), rng.gamma(4, 0.4, 6)
    y = rng.poisson(rate[group] * years)
    with pm.Model() as model:
        r = pm.Gamma("rate", 2, 1, shape=6)
        pm.Poisson("visits", mu=r[group] * years, observed=y)
    return model, {"rate": rate}


@everyday
def negative_binomial_with_offset(rng, n):
    x, exposure = rng.normal(size=n), rng.gamma(3, 0.5, n)
    mu = np.exp(0.3 + 0.5 * x) * exposure
    y = rng.poisson(mu * rng.gamma(1.5, 1 / 1.5, n))
    with pm.Model() as model:
        m = pm.math.exp(pm.Normal("a", 0, 1) + pm.Normal("b", 0, 1) * x + np.log(exposure))
        pm.NegativeBinomial("y", mu=m, alpha=pm.Exponential("alpha", 1), observed=y)
    return model, {"a": 0.3, "b": 0.5, "alpha": 1.5}


@everyday
def zero_inflated_poisson(rng, n):
    x = rng.normal(size=n)
    y = rng.binomial(1, 0.7, n) * rng.poisson(np.exp(0.8 + 0.3 * x))
    with pm.Model() as model:
        mu = pm.math.exp(pm.Normal("a") + pm.Normal("b") * x)
        pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 1, 1), mu=mu, observed=y)
    return model, {"psi": 0.7, "a": 0.8, "b": 0.3}


@everyday
def zero_inflated_negative_binomial(rng, n):
    y = rng.binomial(1, 0.7, n) * rng.poisson(3 * rng.gamma(2, 0.5, n))
    with pm.Model() as model:
        psi, mu, alpha = pm.Beta("psi", 1, 1), pm.Gamma("mu", 2, 1), pm.Exponential("alpha", 0.5)
        pm.ZeroInflatedNegativeBinomial("y", psi=psi, mu=mu, alpha=alpha, observed=y)
    return model, {"psi": 0.7, "mu": 3, "alpha": 2}


@everyday
def hurdle_poisson(rng, n):
    with pm.Model() as model:
        psi, mu = pm.Beta("psi", 1, 1), pm.Gamma("mu", 2, 1)
        y = pm.draw(pm.HurdlePoisson.dist(psi=0.6, mu=2.0, size=n), random_seed=rng)
        pm.HurdlePoisson("y", psi=psi, mu=mu, observed=y)
    return model, {"psi": 0.6, "mu": 2.0}


@everyday
def hurdle_negative_binomial(rng, n):
    y = pm.draw(pm.HurdleNegativeBinomial.dist(psi=0.6, mu=2.0, alpha=2.0, size=n), random_seed=rng)
    with pm.Model() as model:
        psi, mu, alpha = pm.Beta("psi", 1, 1), pm.Gamma("mu", 2, 1), pm.Gamma("alpha", 2, 1)
        pm.HurdleNegativeBinomial("y", psi=psi, mu=mu, alpha=alpha, observed=y)
    return model, {"psi": 0.6, "mu": 2.0, "alpha": 2.0}


@everyday
def binomial_with_own_trials(rng, n):
    x, trials = rng.normal(size=(n, 2)), rng.integers(5, 30, n)
    y = rng.binomial(trials, logistic(x @ [0.6, -0.3]))
    with pm.Model() as model:
        pm.Binomial("y", n=trials, logit_p=x @ pm.Normal("b", shape=2), observed=y)
    return model, {"b": [0.6, -0.3]}


@everyday
def beta_binomial(rng, n):
    trials, p = rng.integers(5, 30, n), rng.beta(0.3 * 12, 0.7 * 12, n)
    with pm.Model() as model:
        mean, size = pm.Beta("mean", 2, 2), pm.HalfNormal("size", 20)
        a, b = mean * size, (1 - mean) * size
        pm.BetaBinomial("y", alpha=a, beta=b, n=trials, observed=rng.binomial(trials, p))
    return model, {"mean": 0.3, "size": 12}


@everyday
def ordered(rng, n):
    x, cuts = rng.normal(size=(n, 2)), np.array([-1.2, 0.1, 1.4])
    latent = x @ [0.8, -0.4] + rng.logistic(size=n)
    y = (latent[:, None] > cuts).sum(axis=1)
    with pm.Model() as model:
        cutpoints = pm.Normal(
            "cutpoints",
            mu=[-1, 0, 1],
            sigma=2,
            transform=pm.distributions.transforms.ordered,
            initval=[-1, 0, 1],
        )
        eta = pm.math.dot(x, pm.Normal("b", shape=2))
        pm.OrderedLogistic("y", cutpoints=cutpoints, eta=eta, observed=y)
    return model, {"cutpoints": cuts, "b": [0.8, -0.4]}


@everyday
def categorical_softmax(rng, n):
    x = rng.normal(size=(n, 2))
    a, b = np.array([0.4, -0.3]), np.array([[0.7, -0.2], [0.1, 0.5]])
    eta = np.column_stack([np.zeros(n), a + x @ b])
    y = choose(rng, softmax(eta))
    with pm.Model() as model:
        own = pm.Normal("a", shape=2) + pm.math.dot(x, pm.Normal("b", 0, 1, shape=(2, 2)))
        mu = pt.concatenate([pt.zeros((n, 1)), own], axis=1)
        p = pm.Deterministic("p", pm.math.softmax(mu, axis=-1))
        pm.Categorical("y", p=p, observed=y)
    return model, {"a": a, "b": b}


@everyday
def shares_of_parties(rng, n):
    y = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    with pm.Model() as model:
        pm.Categorical("party", p=pm.Dirichlet("p", np.ones(4)), observed=y)
    return model, {"p": [0.4, 0.3, 0.2, 0.1]}


@everyday
def dirichlet_multinomial(rng, n):
    frac, conc = np.array([0.2, 0.3, 0.5]), 6.0
    p = rng.dirichlet(frac * conc, n)
    counts = np.array([rng.multinomial(20, one) for one in p])
    with pm.Model() as model:
        f, c = pm.Dirichlet("frac", np.ones(3)), pm.LogNormal("conc", 1, 1)
        pm.DirichletMultinomial("y", n=20, a=f * c, observed=counts, shape=(n, 3))
    return model, {"frac": frac, "conc": conc}


@everyday
def multinomial_counts(rng, n):
    x, b = rng.normal(size=(n, 1)), np.array([[0.5, -0.4]])
    p = softmax(np.column_stack([x @ b + [0.2, -0.3], np.zeros(n)]))
    counts = np.array([rng.multinomial(10, one) for one in p])
    with pm.Model() as model:
        eta = x @ pm.Normal("b", shape=(1, 2)) + pm.Normal("a", shape=2)
        p = pm.math.softmax(pt.concatenate([eta, pt.zeros((n, 1))], axis=1), axis=1)
        pm.Multinomial("y", n=10, p=p, observed=counts)
    return model, {"a": [0.2, -0.3], "b": b}
