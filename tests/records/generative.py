"""Models that say how their outcomes are drawn, with parameters at which to draw."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

N = 2000


def models(n=N, seed=0):
    """Name -> function that declares the model in the current context and returns its parameters."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    X = np.stack([np.ones(n), x], axis=1)
    zeros, ones, halves = np.zeros(n), np.ones(n), np.full(n, 0.5)
    counts = rng.integers(0, 4, n)
    found = {}

    def add(f):
        found[f.__name__] = f
        return f

    def line():
        pm.Normal("b", 0, 1, shape=2)
        return pm.modelcontext(None)["b"]

    b = np.array([0.3, 0.5])

    @add
    def normal():
        pm.Normal("y", X @ line(), pm.HalfNormal("s"), observed=zeros)
        return {"b": b, "s": 0.7}

    @add
    def alone():
        pm.Normal("y", pm.Normal("m"), pm.HalfNormal("s"), observed=zeros)
        return {"m": 0.4, "s": 0.7}

    @add
    def student():
        pm.StudentT("y", nu=pm.Gamma("nu", 2, 0.5), mu=X @ line(), sigma=1.3, observed=zeros)
        return {"b": b, "nu": 4.0}

    @add
    def shape_before_place():
        """Parameters in another order than that in which the density reads them."""
        nu, mean = pm.Gamma("nu", 2, 0.5), pm.Normal("m")
        pm.StudentT("y", nu=nu, mu=mean, sigma=pm.HalfNormal("s"), observed=zeros)
        return {"nu": 4.0, "m": 0.4, "s": 0.7}

    @add
    def bernoulli():
        pm.Bernoulli("y", logit_p=X @ line(), observed=counts % 2)
        return {"b": b}

    @add
    def poisson():
        pm.Poisson("y", pm.math.exp(X @ line()), observed=counts)
        return {"b": b}

    @add
    def negative_binomial():
        pm.NegativeBinomial("y", mu=pm.math.exp(X @ line()), alpha=pm.HalfNormal("a"), observed=counts)
        return {"b": b, "a": 1.5}

    @add
    def gamma():
        alpha = pm.HalfNormal("a")
        pm.Gamma("y", alpha=alpha, beta=alpha / pm.math.exp(X @ line()), observed=ones)
        return {"b": b, "a": 1.5}

    @add
    def censored():
        weibull = pm.Weibull.dist(alpha=pm.HalfNormal("a"), beta=pm.math.exp(X @ line()))
        pm.Censored("y", weibull, lower=None, upper=1 + 0.5 * halves, observed=ones)
        return {"b": b, "a": 1.5}

    @add
    def truncated():
        pm.Truncated("y", pm.Normal.dist(X @ line(), pm.HalfNormal("s")), lower=-0.5, observed=zeros)
        return {"b": b, "s": 0.7}

    @add
    def truncated_gamma():
        base = pm.Gamma.dist(alpha=2.0, beta=pm.math.exp(X @ line()))
        pm.Truncated("y", base, lower=0.5, upper=3.0, observed=ones)
        return {"b": b}

    @add
    def truncated_exponential():
        base = pm.Exponential.dist(scale=pm.math.exp(X @ line()))
        pm.Truncated("y", base, lower=0.5, upper=3.0, observed=ones)
        return {"b": b}

    @add
    def mixture():
        m = pm.Normal("m", shape=2)
        parts = [pm.Normal.dist(m[0] + x, 1.0), pm.Normal.dist(m[1], 0.5)]
        pm.Mixture("y", w=pm.Dirichlet("w", np.ones(2)), comp_dists=parts, observed=zeros)
        return {"m": np.array([-1.0, 2.0]), "w": np.array([0.3, 0.7])}

    @add
    def normal_mixture():
        pm.NormalMixture("y", pm.Dirichlet("w", np.ones(2)), pm.Normal("m", shape=2), 1.0, observed=zeros)
        return {"m": np.array([-1.0, 2.0]), "w": np.array([0.3, 0.7])}

    @add
    def zero_inflated():
        pm.ZeroInflatedPoisson("y", pm.Beta("q", 1, 1), pm.math.exp(X @ line()), observed=counts)
        return {"b": b, "q": 0.6}

    @add
    def hurdle():
        pm.HurdlePoisson("y", pm.Beta("q", 1, 1), pm.math.exp(X @ line()), observed=counts)
        return {"b": b, "q": 0.6}

    @add
    def hurdle_negative_binomial():
        pm.HurdleNegativeBinomial("y", 0.7, pm.math.exp(X @ line()), 1.5, observed=counts)
        return {"b": b}

    @add
    def ordered():
        cuts = pm.Normal("c", shape=2, transform=pm.distributions.transforms.ordered, initval=[-1, 1])
        pm.OrderedLogistic("y", eta=pm.Normal("a") * x, cutpoints=cuts, compute_p=False, observed=counts % 3)
        return {"a": 0.5, "c": np.array([-0.5, 1.0])}

    @add
    def softmax():
        w = pm.Normal("w", shape=(2, 3))
        pm.Categorical("y", logit_p=X @ w, observed=counts % 3)
        return {"w": np.array([[0.1, 0.4, -0.2], [0.5, 0.0, -0.5]])}

    @add
    def binomial():
        pm.Binomial("y", n=5, logit_p=X @ line(), observed=counts)
        return {"b": b}

    @add
    def binomial_of_rows():
        pm.Binomial("y", n=counts + 3, logit_p=X @ line(), observed=counts)
        return {"b": b}

    @add
    def several_normals():
        mean, chol = pm.Normal("m", shape=2), np.array([[1.0, 0.0], [0.5, 0.8]])
        pm.MvNormal("y", mean + x[:, None], chol=chol, observed=np.zeros((n, 2)))
        return {"m": np.array([0.3, -0.4])}

    @add
    def beta():
        pm.Beta("y", mu=pm.math.invlogit(X @ line()), nu=pm.HalfNormal("v", 5), observed=halves)
        return {"b": b, "v": 5.0}

    @add
    def von_mises():
        pm.VonMises("y", mu=X @ line(), kappa=pm.HalfNormal("k"), observed=zeros)
        return {"b": b, "k": 2.0}

    @add
    def quantile():
        pm.AsymmetricLaplace("y", b=pm.HalfNormal("s"), mu=X @ line(), q=0.8, observed=zeros)
        return {"b": b, "s": 1.4}

    @add
    def custom():
        def dist(mu, sigma, size):
            return pt.exp(pm.Normal.dist(mu, sigma, size=size))

        pm.CustomDist("y", X @ line(), pm.HalfNormal("s"), dist=dist, observed=ones)
        return {"b": b, "s": 0.7}

    @add
    def beta_binomial():
        a = pm.HalfNormal("a")
        pm.BetaBinomial("y", n=40, alpha=a, beta=a * pm.math.exp(X @ line()), observed=counts)
        return {"b": b, "a": 1.5}

    @add
    def multinomial():
        w = pm.Normal("w", shape=(2, 3))
        pm.Multinomial("y", n=5, p=pm.math.softmax(X @ w, axis=-1), observed=np.tile([2, 2, 1], (n, 1)))
        return {"w": np.array([[0.1, 0.4, -0.2], [0.5, 0.0, -0.5]])}

    @add
    def levels():
        level = pm.Normal("l", pm.Normal("m"), pm.HalfNormal("t"), shape=4)
        pm.Normal("y", level[counts] + pm.Normal("a") * x, 1.0, observed=zeros)
        return {"l": np.array([-1.0, 0.0, 1.0, 2.0]), "m": 0.0, "t": 1.0, "a": 0.5}

    @add
    def two():
        slope = line()
        pm.Normal("y", X @ slope, 1.0, observed=zeros)
        pm.Poisson("z", pm.math.exp(X @ slope), observed=counts)
        return {"b": b}

    @add
    def skewed():
        pm.SkewNormal("y", mu=X @ line(), sigma=1.0, alpha=2.0, observed=zeros)
        return {"b": b}

    @add
    def inverse_gaussian():
        pm.Wald("y", mu=pm.math.exp(X @ line()), lam=2.0, observed=ones)
        return {"b": b}

    @add
    def dirichlet_multinomial():
        a = pm.HalfNormal("a", shape=3)
        pm.DirichletMultinomial("y", n=5, a=a, observed=np.tile([2, 2, 1], (n, 1)))
        return {"a": np.array([0.5, 1.0, 2.0])}

    return found
