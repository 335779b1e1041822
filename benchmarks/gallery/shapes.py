"""Outcomes with tails, bounds, skew, censoring and truncation; and several at once."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks.gallery.gallery import everyday, logistic


@everyday
def student_t(rng, n):
    y = 1 + 2 * rng.standard_t(5, n)
    with pm.Model() as model:
        nu, mu, sigma = pm.Gamma("nu", 2, 0.1), pm.Normal("mu", 0, 5), pm.HalfNormal("sigma", 5)
        pm.StudentT("y", nu=nu, mu=mu, sigma=sigma, observed=y)
    return model, {"nu": 5, "mu": 1, "sigma": 2}


@everyday
def gamma_with_log_link(rng, n):
    x, b = rng.normal(size=(n, 2)), np.array([0.4, -0.3])
    mu, cv = np.exp(1 + x @ b), 0.6
    y = rng.gamma(1 / cv**2, mu * cv**2)
    with pm.Model() as model:
        m = pm.math.exp(pm.Normal("a") + x @ pm.Normal("b", shape=2))
        pm.Gamma("cost", mu=m, sigma=m * pm.HalfNormal("cv"), observed=y)
    return model, {"a": 1, "b": b, "cv": cv}


@everyday
def lognormal_income(rng, n):
    x = rng.normal(size=(n, 2))
    y = np.exp(10 + x @ [0.3, 0.1] + rng.normal(0, 0.7, n))
    with pm.Model() as model:
        mu = pm.Normal("a", 10, 2) + x @ pm.Normal("b", shape=2)
        pm.LogNormal("income", mu=mu, sigma=pm.HalfNormal("s"), observed=y)
    return model, {"a": 10, "b": [0.3, 0.1], "s": 0.7}


@everyday
def weibull(rng, n):
    y = 2.5 * rng.weibull(1.4, n)
    with pm.Model() as model:
        alpha, beta = pm.Gamma("alpha", 2, 1), pm.Gamma("beta", 2, 1)
        pm.Weibull("y", alpha=alpha, beta=beta, observed=y)
    return model, {"alpha": 1.4, "beta": 2.5}


@everyday
def censored_survival(rng, n):
    x = rng.normal(size=n)
    time = np.exp(0.4 + 0.3 * x) * rng.weibull(1.5, n)
    with pm.Model() as model:
        alpha = pm.Gamma("alpha", 2, 1)
        latent = pm.Weibull.dist(alpha=alpha, beta=pm.math.exp(pm.Normal("a") + pm.Normal("b") * x))
        pm.Censored("time", latent, lower=None, upper=2.0, observed=np.minimum(time, 2.0))
    return model, {"alpha": 1.5, "a": 0.4, "b": 0.3}


@everyday
def tobit(rng, n):
    x = rng.normal(size=(n, 2))
    y = np.maximum(0.3 + x @ [0.8, -0.4] + rng.normal(0, 1, n), 0)
    with pm.Model() as model:
        latent = pm.Normal.dist(pm.Normal("a") + x @ pm.Normal("b", shape=2), pm.HalfNormal("sigma"))
        pm.Censored("y", latent, lower=0.0, upper=None, observed=y)
    return model, {"a": 0.3, "b": [0.8, -0.4], "sigma": 1}


@everyday
def truncated(rng, n):
    y = rng.normal(0.5, 1.2, 4 * n)
    y = y[(y > -1) & (y < 3)][:n]
    with pm.Model() as model:
        latent = pm.Normal.dist(pm.Normal("m"), pm.HalfNormal("s"))
        pm.Truncated("y", latent, lower=-1, upper=3, observed=y)
    return model, {"m": 0.5, "s": 1.2}


@everyday
def beta_regression(rng, n):
    x, nu = rng.normal(size=(n, 2)), 15.0
    mu = logistic(x @ [0.5, -0.3])
    y = np.clip(rng.beta(mu * nu, (1 - mu) * nu), 1e-6, 1 - 1e-6)
    with pm.Model() as model:
        m = pm.math.invlogit(x @ pm.Normal("b", shape=2))
        pm.Beta("share", mu=m, nu=pm.Gamma("nu", 2, 0.1), observed=y)
    return model, {"b": [0.5, -0.3], "nu": nu}


@everyday
def von_mises(rng, n):
    with pm.Model() as model:
        mu, kappa = pm.VonMises("mu", 0, 1), pm.Gamma("kappa", 2, 1)
        pm.VonMises("angle", mu=mu, kappa=kappa, observed=rng.vonmises(0.5, 2, n))
    return model, {"mu": 0.5, "kappa": 2}


@everyday
def reaction_times(rng, n):
    y = rng.normal(0.4, 0.1, n) + rng.exponential(0.3, n)
    with pm.Model() as model:
        mu, sigma, nu = pm.Normal("mu", 0.5, 0.5), pm.HalfNormal("sigma", 0.5), pm.Exponential("nu", 1)
        pm.ExGaussian("rt", mu=mu, sigma=sigma, nu=nu, observed=y)
    return model, {"mu": 0.4, "sigma": 0.1, "nu": 0.3}


@everyday
def own_distribution(rng, n):
    y = 0.5 + 1.5 * rng.standard_t(4, n)

    def dist(mu, s, size):
        return mu + s * pm.StudentT.dist(nu=4, size=size)

    with pm.Model() as model:
        pm.CustomDist("y", pm.Normal("mu"), pm.HalfNormal("s"), dist=dist, observed=y)
    return model, {"mu": 0.5, "s": 1.5}


@everyday
def known_errors(rng, n):
    error = rng.gamma(3, 0.2, n)
    y = rng.normal(0.5, np.sqrt(0.6**2 + error**2))
    with pm.Model() as model:
        sigma = pt.sqrt(pm.HalfNormal("tau") ** 2 + error**2)
        pm.Normal("y", pm.Normal("mu"), sigma=sigma, observed=y)
    return model, {"mu": 0.5, "tau": 0.6}


@everyday
def two_part_mixture(rng, n):
    y = np.where(rng.uniform(size=n) < 0.3, rng.normal(-2, 1, n), rng.normal(2, 0.7, n))
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        order = pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0, 3, shape=2, transform=order, initval=[-1, 1])
        pm.NormalMixture("y", w=w, mu=mu, sigma=pm.HalfNormal("sigma", 1, shape=2), observed=y)
    return model, {"w": [0.3, 0.7], "mu": [-2, 2], "sigma": [1, 0.7]}


@everyday
def three_part_mixture(rng, n):
    part = rng.choice(3, n, p=[0.3, 0.4, 0.3])
    y = rng.normal(np.array([-4, 0, 4.0])[part], np.array([1, 0.8, 1.2])[part])
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(3))
        order = pm.distributions.transforms.ordered
        mu = pm.Normal("mu", 0, 5, shape=3, transform=order, initval=[-1, 0, 1])
        pm.NormalMixture("y", w=w, mu=mu, sigma=pm.HalfNormal("sigma", 1, shape=3), observed=y)
    return model, {"w": [0.3, 0.4, 0.3], "mu": [-4, 0, 4], "sigma": [1, 0.8, 1.2]}


@everyday
def outliers_as_a_part(rng, n):
    x, out = rng.normal(size=n), rng.uniform(size=n) < 0.08
    y = np.where(out, rng.normal(0, 10, n), 0.5 + 0.8 * x + rng.normal(0, 1, n))
    with pm.Model() as model:
        inlier = pm.Normal.dist(pm.Normal("a") + pm.Normal("b") * x, 1)
        share = pm.Beta("share", 1, 9)
        pm.Mixture("y", w=[1 - share, share], comp_dists=[inlier, pm.Normal.dist(0, 10)], observed=y)
    return model, {"a": 0.5, "b": 0.8, "share": 0.08}


@everyday
def three_dimensional_normal(rng, n):
    cov = np.array([[1, 0.4, 0.2], [0.4, 1.5, -0.3], [0.2, -0.3, 0.7]])
    y = rng.multivariate_normal([0.3, -0.2, 0.5], cov, n)
    with pm.Model() as model:
        chol, _corr, _stds = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.Exponential.dist(1))
        pm.MvNormal("y", mu=pm.Normal("mu", shape=3), chol=chol, observed=y)
    return model, {"mu": [0.3, -0.2, 0.5], "chol_stds": np.sqrt(np.diag(cov))}


@everyday
def seemingly_unrelated(rng, n):
    x, b = rng.normal(size=(n, 2)), np.array([[0.5, -0.2], [0.1, 0.6]])
    y = x @ b + rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], n)
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1))
        pm.MvNormal("y", mu=pt.dot(x, pm.Normal("b", shape=(2, 2))), chol=chol, observed=y)
    return model, {"b": b, "chol_stds": [1, 1]}


@everyday
def two_outcomes_of_a_person(rng, n):
    x = rng.normal(size=n)
    y = 0.3 + 0.6 * x + rng.normal(0, 1, n)
    yes = rng.binomial(1, logistic(-0.4 + 0.5 * x))
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=2), pm.Normal("b", shape=2)
        pm.Normal("y", a[0] + b[0] * x, pm.HalfNormal("s"), observed=y)
        pm.Bernoulli("yes", logit_p=a[1] + b[1] * x, observed=yes)
    return model, {"a": [0.3, -0.4], "b": [0.6, 0.5], "s": 1}


@everyday
def mediation(rng, n):
    """The observed value of one variable is a covariate of the next."""
    x = rng.normal(size=n)
    m = 0.5 * x + rng.normal(0, 1, n)
    y = 0.7 * m + 0.2 * x + rng.normal(0, 1, n)
    with pm.Model() as model:
        mid = pm.Normal("m", pm.Normal("a") * x, pm.HalfNormal("sm"), observed=m)
        pm.Normal("y", pm.Normal("b") * mid + pm.Normal("c") * x, pm.HalfNormal("sy"), observed=y)
    return model, {"a": 0.5, "b": 0.7, "c": 0.2, "sm": 1, "sy": 1}


@everyday
def saturation_curve(rng, n):
    dose = rng.uniform(0, 10, n)
    y = 3 * dose / (1.5 + dose) + rng.normal(0, 0.4, n)
    with pm.Model() as model:
        top, half = pm.LogNormal("top"), pm.LogNormal("half")
        pm.Normal("y", top * dose / (half + dose), pm.HalfNormal("sigma"), observed=y)
    return model, {"top": 3, "half": 1.5, "sigma": 0.4}
