"""One small model for each family that the record layer promises to read."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

N = 40


def families(n=N, seed=0):
    """Name -> function that declares the model in the current context."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    g = rng.integers(0, 4, n)
    y = rng.normal(size=n)
    yb = (y > 0).astype(int)
    yc = rng.poisson(2, n)
    Y = rng.normal(size=(n, 2))
    k = rng.integers(0, 3, n)
    found = {}

    def add(f):
        found[f.__name__] = f
        return f

    @add
    def logit():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=X @ b, observed=yb)

    @add
    def bern_p():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Bernoulli("y", p=pm.math.invlogit(pt.dot(X, b)), observed=yb)

    @add
    def columns():
        a = pm.Normal("a")
        b = pm.Normal("b")
        s = pm.HalfNormal("s")
        pm.Normal("y", a + b * X[:, 0], s, observed=y)

    @add
    def binomial():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Binomial("y", n=5 + 0 * yb, logit_p=X @ b, observed=yb + 1)

    @add
    def poisson():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Poisson("y", mu=pm.math.exp(X @ b), observed=yc)

    @add
    def negbin():
        b = pm.Normal("b", 0, 1, shape=3)
        al = pm.HalfNormal("al")
        pm.NegativeBinomial("y", mu=pm.math.exp(X @ b), alpha=al, observed=yc)

    @add
    def studentt():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.StudentT("y", nu=4, mu=X @ b, sigma=1, observed=y)

    @add
    def gamma():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Gamma("y", alpha=2, beta=pm.math.exp(X @ b), observed=np.abs(y) + 0.1)

    @add
    def hier():
        mu = pm.Normal("mu")
        tau = pm.HalfNormal("tau")
        z = pm.Normal("z", shape=4)
        a = mu + tau * z
        b = pm.Normal("b")
        pm.Bernoulli("y", logit_p=a[g] + b * X[:, 1], observed=yb)

    @add
    def softmax():
        W = pm.Normal("W", 0, 1, shape=(3, 3))
        pm.Categorical("y", p=pm.math.softmax(X @ W, axis=-1), observed=k)

    @add
    def cat_logit():
        W = pm.Normal("W", 0, 1, shape=(3, 3))
        pm.Categorical("y", logit_p=X @ W, observed=k)

    @add
    def mvn():
        m = pm.Normal("m", 0, 1, shape=2)
        pm.MvNormal("y", m, np.eye(2) + 0.3, observed=Y)

    @add
    def mvn_chol():
        m = pm.Normal("m", 0, 1, shape=2)
        c, _, _ = pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=pm.HalfNormal.dist(shape=2))
        pm.MvNormal("y", m, chol=c, observed=Y)

    @add
    def mixture():
        w = pm.Dirichlet("w", np.ones(2))
        m = pm.Normal("m", 0, 2, shape=2)
        pm.NormalMixture("y", w, m, 1.0, observed=y)

    @add
    def zip_():
        b = pm.Normal("b", 0, 1, shape=3)
        p = pm.Beta("p", 1, 1)
        pm.ZeroInflatedPoisson("y", psi=p, mu=pm.math.exp(X @ b), observed=yc)

    @add
    def zinb():
        b = pm.Normal("b", 0, 1, shape=3)
        p = pm.Beta("p", 1, 1)
        pm.ZeroInflatedNegativeBinomial("y", psi=p, mu=pm.math.exp(X @ b), alpha=2.0, observed=yc)

    @add
    def censored():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Censored("y", pm.Normal.dist(X @ b, 1.0), lower=-1.0, upper=1.0, observed=np.clip(y, -1, 1))

    @add
    def truncated():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Truncated("y", pm.Normal.dist(X @ b, 1.0), lower=-4.0, upper=4.0, observed=y)

    @add
    def custom():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.CustomDist("y", X @ b, logp=lambda v, m: -0.5 * (v - m) ** 2, observed=y)

    @add
    def data_dims():
        pm.modelcontext(None).add_coords({"obs": np.arange(n), "f": list("abc")})
        Xd = pm.Data("X", X, dims=("obs", "f"))
        yd = pm.Data("yd", yb, dims="obs")
        b = pm.Normal("b", 0, 1, dims="f")
        pm.Bernoulli("y", logit_p=Xd @ b, observed=yd, dims="obs")

    @add
    def two_obs():
        b = pm.Normal("b", 0, 1, shape=3)
        s = pm.HalfNormal("s")
        pm.Normal("y", X @ b, s, observed=y)
        pm.Poisson("y2", pm.math.exp(X @ b), observed=yc)

    @add
    def meanonly():
        m = pm.Normal("m")
        s = pm.HalfNormal("s")
        pm.Normal("y", m, s, observed=y)

    @add
    def matrix_obs():
        m = pm.Normal("m", 0, 1, shape=2)
        s = pm.HalfNormal("s")
        pm.Normal("y", m, s, observed=Y)

    @add
    def transposed():
        XT = np.ascontiguousarray(X.T)
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Normal("y", b @ XT, 1.0, observed=y)

    @add
    def ordered():
        c = pm.Normal("c", 0, 1, shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1])
        b = pm.Normal("b")
        pm.OrderedLogistic("y", eta=b * X[:, 0], cutpoints=c, observed=k, compute_p=False)

    @add
    def dirichlet_mult():
        a = pm.HalfNormal("a", shape=3)
        pm.DirichletMultinomial("y", n=5, a=a, observed=rng.multinomial(5, [0.2, 0.3, 0.5], size=n))

    @add
    def multinomial():
        p = pm.Dirichlet("p", np.ones(3))
        pm.Multinomial("y", n=5, p=p, observed=rng.multinomial(5, [0.2, 0.3, 0.5], size=n))

    @add
    def beta_reg():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Beta("y", mu=pm.math.invlogit(X @ b), nu=5.0, observed=1 / (1 + np.exp(-y)))

    @add
    def weibull():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.Weibull("y", alpha=2.0, beta=pm.math.exp(X @ b), observed=np.abs(y) + 0.1)

    @add
    def lognormal():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.LogNormal("y", mu=X @ b, sigma=1.0, observed=np.abs(y) + 0.1)

    @add
    def exgauss():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.ExGaussian("y", mu=X @ b, sigma=1.0, nu=1.0, observed=y)

    @add
    def mix_general():
        w = pm.Dirichlet("w", np.ones(2))
        m = pm.Normal("m", 0, 2)
        pm.Mixture("y", w, [pm.Normal.dist(m, 1.0), pm.StudentT.dist(nu=3, mu=m + 1, sigma=1.0)], observed=y)

    @add
    def hurdle():
        b = pm.Normal("b", 0, 1, shape=3)
        pm.HurdlePoisson("y", psi=0.5, mu=pm.math.exp(X @ b), observed=yc)

    return found
