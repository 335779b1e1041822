"""Models of likelihoods that no setting was chosen for, and of covariates with tails."""

import numpy as np
import pymc as pm

from benchmarks.families.models import covariates


def four(r, n):
    return covariates(r, n, 4)


def three(r, n):
    return covariates(r, n, 3)


def heavy(r, n):
    """Student t with 4 degrees of freedom, and a log-normal."""
    return np.column_stack([np.ones(n), r.standard_t(4, size=(n, 2)), r.lognormal(0, 0.7, size=n)])


def skewed(r, n):
    """A rare mark (2%), a common one, an exponential."""
    marks = [r.random(n) < share for share in (0.02, 0.3)]
    return np.column_stack([np.ones(n), *marks, r.exponential(size=n)])


def lognormal(x, y):
    b, s = pm.Normal("b", 0, 2, shape=4), pm.HalfNormal("s", 1)
    pm.LogNormal("y", x @ b, s, observed=y)


def exponential(x, y):
    b = pm.Normal("b", 0, 0.4, shape=4)
    pm.Exponential("y", pm.math.exp(x @ b), observed=y)


def unequal_noise(x, y):
    b, g = pm.Normal("b", 0, 2, shape=4), pm.Normal("g", 0, 0.4, shape=4)
    pm.Normal("y", x @ b, pm.math.exp(x @ g), observed=y)


def skew_normal(x, y):
    b, s, a = pm.Normal("b", 0, 2, shape=4), pm.Gamma("s", 4, 2), pm.Normal("a", 2, 0.5)
    pm.SkewNormal("y", mu=x @ b, sigma=s, alpha=a, observed=y)


def gumbel(x, y):
    b, s = pm.Normal("b", 0, 2, shape=4), pm.Gamma("s", 4, 2)
    pm.Gumbel("y", x @ b, s, observed=y)


def logistic_noise(x, y):
    b, s = pm.Normal("b", 0, 2, shape=4), pm.Gamma("s", 4, 2)
    pm.Logistic("y", x @ b, s, observed=y)


def beta_binomial(x, y):
    b, k = pm.Normal("b", 0, 0.5, shape=4), pm.Gamma("k", 8, 1)
    p = pm.math.sigmoid(x @ b)
    pm.BetaBinomial("y", alpha=p * k, beta=(1 - p) * k, n=10, observed=y)


def binomial(x, y):
    b = pm.Normal("b", 0, 0.7, shape=4)
    pm.Binomial("y", n=20, logit_p=x @ b, observed=y)


def probit(x, y):
    b = pm.Normal("b", 0, 0.7, shape=4)
    pm.Bernoulli("y", p=pm.math.invprobit(x @ b), observed=y)


def cloglog(x, y):
    b = pm.Normal("b", 0, 0.5, shape=4)
    pm.Bernoulli("y", p=1 - pm.math.exp(-pm.math.exp(x @ b)), observed=y)


def inverse_gaussian(x, y):
    b, scale = pm.Normal("b", 0, 0.4, shape=4), pm.Gamma("scale", 8, 4)
    pm.Wald("y", mu=pm.math.exp(x @ b), lam=scale, observed=y)


def zero_inflated_negative_binomial(x, y):
    b, a, p = pm.Normal("b", 0, 0.4, shape=4), pm.Gamma("a", 8, 4), pm.Beta("p", 6, 2)
    pm.ZeroInflatedNegativeBinomial("y", psi=p, mu=pm.math.exp(1 + x @ b), alpha=a, observed=y)


def logit(x, y):
    b = pm.Normal("b", 0, 0.7, shape=4)
    pm.Bernoulli("y", logit_p=x @ b, observed=y)


def rare(x, y):
    a, b = pm.Normal("a", -4, 0.3), pm.Normal("b", 0, 0.5, shape=3)
    pm.Bernoulli("y", logit_p=a + x[:, 1:] @ b, observed=y)


def straight(x, y):
    b, s = pm.Normal("b", 0, 2, shape=4), pm.HalfCauchy("s", 2)
    pm.Normal("y", x @ b, s, observed=y)


def counts(x, y):
    b = pm.Normal("b", 0, 0.4, shape=4)
    pm.Poisson("y", pm.math.exp(x @ b), observed=y)


def polynomial(x, y):
    b, s, t = pm.Normal("b", 0, 1, shape=5), pm.HalfNormal("s", 1), x[:, 1]
    pm.Normal("y", b[0] + b[1] * t + b[2] * t**2 + b[3] * t**3 + b[4] * pm.math.sin(t), s, observed=y)


def saturation(x, y):
    a, k, s = pm.LogNormal("a", 1, 0.3), pm.LogNormal("k", 0, 0.3), pm.HalfNormal("s", 0.5)
    t = pm.math.exp(x[:, 1])
    pm.Normal("y", a * t / (k + t), s, observed=y)


def truncated(x, y):
    b, s = pm.Normal("b", 0, 1, shape=3), pm.Gamma("s", 4, 2)
    pm.TruncatedNormal("y", x @ b, s, lower=0, observed=y)


def normal(x, y):
    m, s = pm.Normal("m", 0, 100), pm.HalfNormal("s", 10)
    pm.Normal("y", m + x[:, 0] * 0, s, observed=y)


def exponential_and_normal(x, y):
    b, s, nu = pm.Normal("b", 0, 2, shape=4), pm.Gamma("s", 8, 8), pm.Gamma("nu", 8, 4)
    pm.ExGaussian("y", mu=x @ b, sigma=s, nu=nu, observed=y)


def laplace(x, y):
    b, s = pm.Normal("b", 0, 2, shape=4), pm.Gamma("s", 4, 2)
    pm.Laplace("y", x @ b, s, observed=y)


def quantile(x, y):
    """The nine deciles' top one: a kink."""
    b, s = pm.Normal("b", 0, 2, shape=4), pm.Gamma("s", 4, 2)
    pm.AsymmetricLaplace("y", mu=x @ b, b=1 / s, q=0.9, observed=y)


def direction(x, y):
    b, k = pm.Normal("b", 0, 0.4, shape=4), pm.Gamma("k", 8, 2)
    pm.VonMises("y", mu=2 * pm.math.arctan(x @ b), kappa=k, observed=y)


def half_normal(x, y):
    b = pm.Normal("b", 0, 0.4, shape=4)
    pm.HalfNormal("y", pm.math.exp(x @ b), observed=y)


def geometric(x, y):
    b = pm.Normal("b", 0, 0.4, shape=4)
    pm.Geometric("y", p=pm.math.sigmoid(x @ b - 1), observed=y)


def hurdle_counts(x, y):
    b, g = pm.Normal("b", 0, 0.4, shape=4), pm.Normal("g", 0, 0.5, shape=4)
    a = pm.Gamma("a", 16, 8)
    pm.HurdleNegativeBinomial("y", psi=pm.math.sigmoid(x @ g), mu=pm.math.exp(1 + x @ b), alpha=a, observed=y)


def zero_inflated_binomial(x, y):
    b, psi = pm.Normal("b", 0, 0.5, shape=4), pm.Beta("psi", 8, 4)
    pm.ZeroInflatedBinomial("y", psi=psi, n=8, p=pm.math.sigmoid(x @ b), observed=y)


def three_parts(x, y):
    """Weights are public, places are not."""
    low, middle, high = (pm.Normal(name, m, 0.3) for name, m in [("low", -4), ("middle", 0), ("high", 4)])
    s = pm.Gamma("s", 16, 16, shape=3)
    where = pm.math.stack([low, middle, high]) + 0 * x[:, :1]  # one draw a row
    pm.NormalMixture("y", w=np.array([0.3, 0.5, 0.2]), mu=where, sigma=s, observed=y)


def rice(x, y):
    b, nu = pm.Normal("b", 0, 0.4, shape=4), pm.Gamma("nu", 16, 8)
    pm.Rice("y", nu=nu, sigma=pm.math.exp(x @ b), observed=y)


def censored_lognormal(x, y):
    """A log-normal time, seen up to 3."""
    b, s = pm.Normal("b", 0, 0.4, shape=4), pm.Gamma("s", 8, 8)
    pm.Censored("y", pm.LogNormal.dist(x @ b, s), lower=None, upper=3.0, observed=y)


def unequal_t(x, y):
    b, g = pm.Normal("b", 0, 2, shape=4), pm.Normal("g", 0, 0.4, shape=4)
    pm.StudentT("y", nu=5, mu=x @ b, sigma=pm.math.exp(x @ g), observed=y)


def moyal(x, y):
    b, s = pm.Normal("b", 0, 2, shape=4), pm.Gamma("s", 4, 2)
    pm.Moyal("y", x @ b, s, observed=y)


#: Densities with a kink, whose second derivatives say nothing.
KINKED = {"laplace", "quantile"}

OTHERS = {
    "lognormal": (lognormal, four),
    "exponential": (exponential, four),
    "unequal_noise": (unequal_noise, four),
    "skew_normal": (skew_normal, four),
    "gumbel": (gumbel, four),
    "logistic_noise": (logistic_noise, four),
    "beta_binomial": (beta_binomial, four),
    "binomial": (binomial, four),
    "probit": (probit, four),
    "cloglog": (cloglog, four),
    "inverse_gaussian": (inverse_gaussian, four),
    "zero_inflated_nb": (zero_inflated_negative_binomial, four),
    "logit_heavy_x": (logit, heavy),
    "rare_outcome": (rare, four),
    "linear_skewed_x": (straight, skewed),
    "poisson_skewed_x": (counts, skewed),
    "polynomial": (polynomial, three),
    "saturation": (saturation, three),
    "truncated_normal": (truncated, three),
    "normal_wide_prior": (normal, three),
    "exgaussian": (exponential_and_normal, four),
    "laplace": (laplace, four),
    "quantile": (quantile, four),
    "direction": (direction, four),
    "half_normal": (half_normal, four),
    "geometric": (geometric, four),
    "hurdle_nb": (hurdle_counts, four),
    "zero_inflated_binomial": (zero_inflated_binomial, four),
    "three_parts": (three_parts, three),
    "rice": (rice, four),
    "censored_lognormal": (censored_lognormal, four),
    "unequal_t": (unequal_t, four),
    "moyal": (moyal, four),
}
