"""Models with an effect for each person, for tests."""

import numpy as np
import pymc as pm

N, ROWS = 60, 4


def ids_of(n=N, rows=ROWS):
    """As many rows each, in no order of persons."""
    return np.random.default_rng(0).permutation(np.repeat(np.arange(n), rows))


def random_intercept(noncentred=False, n=N, ids=None, rate=0.5):
    ids = ids_of(n) if ids is None else np.asarray(ids)
    r = np.random.default_rng(1)
    x, y = r.normal(size=(len(ids), 2)), r.integers(2, size=len(ids))
    with pm.Model(coords={"who": [f"name {k}" for k in range(n)]}) as model:
        person = pm.Data("person", ids)
        beta, tau = pm.Normal("beta", 0, 1, shape=2), pm.HalfNormal("tau", 1)
        if noncentred:
            own = pm.Deterministic("ability", tau * pm.Normal("z", 0, 1, dims="who"), dims="who")
        else:
            own = pm.Normal("ability", 0, tau, dims="who")
        pm.Bernoulli("y", logit_p=x @ beta + own[person], observed=y)
    return model


def slopes(writing="centred", n=N):
    ids = ids_of(n)
    r = np.random.default_rng(2)
    t, y = r.normal(size=len(ids)), r.normal(size=len(ids))
    with pm.Model() as model:
        person, sigma = pm.Data("person", ids), pm.HalfNormal("sigma", 1)
        mean = pm.Normal("mean", 0, 1, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1, shape=2))
        if writing == "centred":
            own = pm.MvNormal("own", np.zeros(2), chol=chol, shape=(n, 2))
        elif writing == "first":
            own = pm.math.dot(pm.Normal("own", 0, 1, shape=(n, 2)), chol.T)
        else:
            own = pm.math.dot(chol, pm.Normal("own", 0, 1, shape=(2, n))).T
        one = own[person]
        pm.Normal("y", mean[0] + one[:, 0] + (mean[1] + one[:, 1]) * t, sigma, observed=y)
    return model


def schools(n=N):
    ids = ids_of(n)
    r = np.random.default_rng(3)
    of = r.integers(5, size=n)[ids]
    with pm.Model() as model:
        person, sigma = pm.Data("person", ids), pm.HalfNormal("sigma", 1)
        mean, omega, tau = pm.Normal("mean"), pm.HalfNormal("omega", 1), pm.HalfNormal("tau", 1)
        school = pm.Normal("school", mean, omega, shape=5)
        pupil = pm.Normal("pupil", 0, tau, shape=n)
        pm.Normal("y", school[of] + pupil[person], sigma, observed=r.normal(size=len(ids)))
    return model


def frailty(prior="gamma", n=N):
    ids = ids_of(n)
    r = np.random.default_rng(4)
    x, time, seen = r.normal(size=len(ids)), r.weibull(1.5, len(ids)), 3.0
    with pm.Model() as model:
        person, beta, k = pm.Data("person", ids), pm.Normal("beta"), pm.LogNormal("k", 0.3, 0.3)
        spread = pm.LogNormal("spread", 0, 0.5)
        if prior == "gamma":
            own = pm.Gamma("own", alpha=spread, beta=spread, shape=n)
        else:
            own = pm.LogNormal("own", 0, spread, shape=n)
        life = pm.Weibull.dist(alpha=k, beta=pm.math.exp(beta * x) * own[person] ** (-1 / k))
        pm.Censored("y", life, lower=None, upper=seen, observed=np.minimum(time, seen))
    return model


def counts(n=400):
    r = np.random.default_rng(5)
    x, y = r.normal(size=n), r.negative_binomial(2, 0.4, n)
    with pm.Model() as model:
        beta, alpha = pm.Normal("beta", 0, 1, shape=2), pm.LogNormal("alpha", 0.5, 0.5)
        own = pm.Gamma("own", alpha=alpha, beta=alpha, shape=n)
        pm.Poisson("y", pm.math.exp(beta[0] + beta[1] * x) * own, observed=y)
    return model


def items(n=80, number=20):
    y = np.random.default_rng(6).integers(2, size=(n, number))
    with pm.Model() as model:
        slope, level = pm.LogNormal("slope", 0, 0.5, shape=number), pm.Normal("level", 0, 1, shape=number)
        ability = pm.Normal("ability", 0, 1, shape=n)
        pm.Bernoulli("y", logit_p=slope * (ability[:, None] - level), observed=pm.Data("answers", y))
    return model


def growth(n=40):
    """Three to ten visits."""
    r = np.random.default_rng(7)
    return random_intercept(n=n, ids=np.repeat(np.arange(n), r.integers(3, 11, size=n)))


# Each: the model, the name of its ids, and of its effect.
MODELS = {
    "random intercept": (random_intercept, "person", "ability"),
    "random intercept, not centred": (lambda: random_intercept(True), "person", "z"),
    "intercept and slope": (slopes, "person", "own"),
    "intercept and slope, not centred": (lambda: slopes("first"), "person", "own"),
    "intercept and slope, persons last": (lambda: slopes("last"), "person", "own"),
    "crossed with public groups": (schools, "person", "pupil"),
    "gamma frailty": (frailty, "person", "own"),
    "log-normal frailty": (lambda: frailty("normal"), "person", "own"),
    "negative binomial": (counts, None, "own"),
    "item response": (items, None, "ability"),
    "growth": (growth, "person", "ability"),
}
