"""Everyday models as people first write them: each must be read, as it stands.

Functions that are called in a model's context; what they read of the table below is private. Written as in
PyMC's gallery and in answers on its forum, with its defaults, NumPy and pandas mixed, and not tidied up for
the reader.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

N = 211
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
GROUP = RNG.integers(0, 6, N)
Y = RNG.normal(size=N)
COUNT = RNG.poisson(2.0, N)
YES = RNG.integers(0, 2, N)
POSITIVE = RNG.gamma(2.0, size=N) + 0.1
UNIT = RNG.uniform(0.05, 0.95, N)
LEVEL = RNG.integers(0, 4, N)
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(50, 10, N),
        "dose": RNG.uniform(0, 5, N),
        "score": Y,
        "city": RNG.choice(["a", "b", "c"], N),
        "county": GROUP,
        "visits": COUNT,
        "died": YES,
        "years": POSITIVE,
    }
)

EVERYDAY: dict[str, Callable[[], None]] = {}
# Larger arrays that hold no record are public by name.
PUBLIC = {
    "spatial_effects": ["phi.array_1"],
    "prior_of_numbers": ["prior.array_1", "prior.array_2", "prior.array_3"],
    "line_on_a_public_grid": ["line.array_1"],
}


def everyday(declare: Callable[[], None]) -> Callable[[], None]:
    """Register a model."""
    EVERYDAY[declare.__name__] = declare
    return declare


# regressions


@everyday
def counts_that_are_heaped_by_pm_logp():
    """PyMC checks its parameter, over all rows."""
    mean = pt.exp(pm.Normal("a") + X[:, 0] * pm.Normal("b"))
    p = pt.exp(pm.logp(pm.Poisson.dist(mean[:, None]), np.arange(20)[None, :]))
    pm.Categorical("y", p=p / p.sum(axis=1, keepdims=True), observed=np.minimum(COUNT, 19))


@everyday
def linear_regression_of_a_frame():
    alpha = pm.Normal("alpha", 0, 10)
    beta = pm.Normal("beta", 0, 10, shape=2)
    sigma = pm.HalfCauchy("sigma", 5)
    mu = pm.Deterministic("mu", alpha + beta[0] * TABLE["age"] + beta[1] * TABLE["dose"])
    pm.Normal("score", mu=mu, sigma=sigma, observed=TABLE["score"])


@everyday
def regression_of_frame_columns():
    beta = pm.Normal("beta", 0, 1, shape=2)
    pm.Normal("y", pm.math.dot(TABLE[["age", "dose"]], beta), 1, observed=TABLE["score"])


@everyday
def regression_with_named_data():
    pm.modelcontext(None).add_coords({"row": np.arange(N), "feature": ["a", "b", "c"]})
    x = pm.Data("x", X, dims=("row", "feature"))
    beta = pm.Normal("beta", 0, 1, dims="feature")
    mu = pm.Deterministic("mu", pm.math.dot(x, beta), dims="row")
    pm.Normal("y", mu, pm.Exponential("sigma", 1), observed=pm.Data("observed", Y, dims="row"), dims="row")


@everyday
def one_hot_by_pandas():
    dummies = pd.get_dummies(TABLE["city"])
    effect = pm.Normal("effect", 0, 1, shape=dummies.shape[1])
    pm.Normal("y", pm.math.dot(dummies.to_numpy(), effect), 1, observed=TABLE["score"].values)


@everyday
def one_hot_frame():
    dummies = pd.get_dummies(TABLE["city"], drop_first=True)
    effect = pm.Normal("effect", 0, 1, shape=2)
    pm.Normal("y", pm.Normal("a") + pt.dot(dummies, effect), 1, observed=TABLE["score"])


@everyday
def columns_standardised_by_public_constants():
    age = (TABLE["age"] - 50) / 10
    a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 1)
    pm.Bernoulli("died", p=pm.math.invlogit(a + b * age), observed=TABLE["died"])


@everyday
def categories_by_codes():
    city = pd.Categorical(TABLE["city"])
    pm.modelcontext(None).add_coord("city", city.categories)
    effect = pm.Normal("effect", 0, 1, dims="city")
    pm.Bernoulli("died", logit_p=effect[city.codes], observed=TABLE["died"])


@everyday
def quadratic_with_interaction():
    b = pm.Normal("b", 0, 1, shape=4)
    x, z = X[:, 0], X[:, 1]
    mu = b[0] + b[1] * x + b[2] * x**2 + b[3] * x * z
    pm.Normal("y", mu, pm.HalfNormal("sigma", 1), observed=Y)


@everyday
def quantile_regression():
    a, b = pm.Normal("a", 0, 5), pm.Normal("b", 0, 5)
    scale = pm.HalfNormal("scale", 1)
    pm.AsymmetricLaplace("y", mu=a + b * X[:, 0], b=scale, q=0.9, observed=Y)


@everyday
def robust_regression():
    nu = pm.Gamma("nu", 2, 0.1)
    pm.StudentT("y", nu=nu + 1, mu=X @ pm.Normal("b", shape=3), sigma=pm.HalfNormal("s"), observed=Y)


@everyday
def heteroscedastic_regression():
    a, b = pm.Normal("a", shape=2), pm.Normal("b", shape=2)
    pm.Normal("y", a[0] + a[1] * X[:, 0], pm.math.exp(b[0] + b[1] * X[:, 0]), observed=Y)


@everyday
def spline_regression():
    knots = np.linspace(-2, 2, 7)
    basis = np.maximum(0, TABLE["dose"].to_numpy()[:, None] - knots)
    w = pm.Normal("w", 0, pm.HalfNormal("tau", 1), size=basis.shape[1])
    mu = pm.Deterministic("mu", pm.Normal("a") + pm.math.dot(np.asarray(basis, order="F"), w.T))
    pm.Normal("y", mu, pm.Exponential("sigma", 1), observed=Y)


@everyday
def horseshoe():
    tau = pm.HalfCauchy("tau", 1)
    lam = pm.HalfCauchy("lam", 1, shape=3)
    beta = pm.Normal("beta", 0, tau * lam, shape=3)
    pm.Normal("y", pt.dot(X, beta), pm.HalfNormal("sigma"), observed=Y)


@everyday
def regularised_horseshoe():
    tau = pm.HalfStudentT("tau", 2, 0.1)
    lam = pm.HalfStudentT("lam", 5, shape=3)
    c2 = pm.InverseGamma("c2", 1, 1)
    z = pm.Normal("z", 0, 1, shape=3)
    beta = pm.Deterministic("beta", z * tau * lam * pt.sqrt(c2 / (c2 + tau**2 * lam**2)))
    pm.Bernoulli("y", logit_p=pt.dot(X, beta), observed=YES)


@everyday
def change_point_at_a_public_time():
    year = RNG.integers(1900, 1960, N)
    early, late = pm.Exponential("early", 1), pm.Exponential("late", 1)
    pm.Poisson("accidents", pm.math.switch(1930 >= year, early, late), observed=COUNT)


@everyday
def change_point_of_a_parameter():
    year = RNG.uniform(0, 1, N)
    point = pm.Uniform("point", 0, 1)
    level = pm.Normal("level", shape=2)
    weight = pm.math.sigmoid(50 * (year - point))
    pm.Normal("y", level[0] * (1 - weight) + level[1] * weight, 1, observed=Y)


@everyday
def measurement_with_known_errors():
    pm.Normal("y", pm.Normal("mu"), sigma=pt.sqrt(pm.HalfNormal("tau") ** 2 + POSITIVE**2), observed=Y)


# counts


@everyday
def negative_binomial_with_offset():
    a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
    mu = pm.math.exp(a + b * X[:, 0] + np.log(POSITIVE))
    pm.NegativeBinomial("y", mu=mu, alpha=pm.Exponential("alpha", 1), observed=COUNT)


@everyday
def poisson_rates_with_exposure():
    rate = pm.Gamma("rate", 2, 1, shape=6)
    pm.Poisson("visits", mu=rate[TABLE["county"]] * TABLE["years"], observed=TABLE["visits"])


@everyday
def poisson_rates_by_integer_column():
    rate = pm.Gamma("rate", 2, 1, shape=6)
    pm.Poisson("visits", mu=rate[TABLE["county"].values], observed=TABLE["visits"].values)


@everyday
def zero_inflated_poisson():
    psi = pm.Beta("psi", 1, 1)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(X @ pm.Normal("b", shape=3)), observed=COUNT)


@everyday
def zero_inflated_negative_binomial():
    pm.ZeroInflatedNegativeBinomial(
        "y", psi=pm.Beta("psi", 1, 1), mu=pm.Gamma("mu", 2, 1), alpha=pm.Exponential("a", 1), observed=COUNT
    )


@everyday
def zero_inflated_binomial():
    pm.ZeroInflatedBinomial("y", psi=pm.Beta("psi", 1, 1), n=12, p=pm.Beta("p", 1, 1), observed=COUNT)


@everyday
def hurdle_poisson():
    pm.HurdlePoisson("y", psi=pm.Beta("psi", 1, 1), mu=pm.Gamma("mu", 2, 1), observed=COUNT)


@everyday
def hurdle_negative_binomial():
    pm.HurdleNegativeBinomial(
        "y", psi=pm.Beta("psi", 1, 1), mu=pm.Gamma("mu", 2, 1), alpha=pm.Gamma("a", 2, 1), observed=COUNT
    )


@everyday
def hurdle_gamma():
    claims = np.where(YES, POSITIVE, 0.0)
    pm.HurdleGamma(
        "y", psi=pm.Beta("psi", 1, 1), alpha=pm.Gamma("a", 2, 1), beta=pm.Gamma("b", 2, 1), observed=claims
    )


@everyday
def hurdle_lognormal():
    claims = np.where(YES, POSITIVE, 0.0)
    mu = X @ pm.Normal("b", shape=3)
    pm.HurdleLogNormal(
        "y",
        psi=pm.math.sigmoid(X @ pm.Normal("c", shape=3)),
        mu=mu,
        sigma=pm.HalfNormal("s"),
        observed=claims,
    )


@everyday
def difference_of_counts():
    """A Skellam by its normal approximation."""
    a, b = pm.Gamma("a", 2, 1), pm.Gamma("b", 2, 1)
    pm.Normal("y", a - b, pt.sqrt(a + b), observed=COUNT - YES)


@everyday
def binomial_with_own_trials():
    trials = COUNT + 5
    pm.Binomial("y", n=trials, logit_p=X @ pm.Normal("b", shape=3), observed=COUNT)


@everyday
def beta_binomial():
    mean, size = pm.Beta("mean", 2, 2), pm.HalfNormal("size", 20)
    pm.BetaBinomial("y", alpha=mean * size, beta=(1 - mean) * size, n=COUNT + 5, observed=COUNT)


@everyday
def discrete_weibull():
    pm.DiscreteWeibull("y", q=pm.Beta("q", 2, 2), beta=pm.Gamma("beta", 2, 1), observed=COUNT)


@everyday
def geometric_attempts():
    pm.Geometric("y", p=pm.math.sigmoid(pm.Normal("a") + pm.Normal("b") * X[:, 0]), observed=COUNT + 1)


# positive, bounded, skewed


@everyday
def lognormal_income():
    pm.LogNormal("income", mu=X @ pm.Normal("b", shape=3), sigma=pm.HalfNormal("s"), observed=POSITIVE)


@everyday
def exponential_waiting_times():
    rate = pm.Gamma("rate", 2, 1, shape=6)
    pm.Exponential("wait", rate[GROUP], observed=POSITIVE)


@everyday
def gamma_regression_with_log_link():
    mu = pm.math.exp(pm.Normal("a") + X @ pm.Normal("b", shape=3))
    pm.Gamma("cost", mu=mu, sigma=mu * pm.HalfNormal("cv"), observed=POSITIVE)


@everyday
def inverse_gaussian():
    pm.Wald("y", mu=pm.math.exp(X @ pm.Normal("b", shape=3)), lam=pm.Gamma("lam", 2, 1), observed=POSITIVE)


@everyday
def beta_regression():
    mu = pm.math.invlogit(X @ pm.Normal("b", shape=3))
    pm.Beta("share", mu=mu, nu=pm.Gamma("nu", 2, 0.1), observed=UNIT)


@everyday
def kumaraswamy():
    pm.Kumaraswamy("share", a=pm.Gamma("a", 2, 1), b=pm.Gamma("b", 2, 1), observed=UNIT)


@everyday
def logit_normal():
    pm.LogitNormal("share", mu=pm.Normal("mu"), sigma=pm.HalfNormal("sigma"), observed=UNIT)


@everyday
def skew_normal():
    pm.SkewNormal("y", mu=pm.Normal("m"), sigma=pm.HalfNormal("s"), alpha=pm.Normal("a"), observed=Y)


@everyday
def reaction_times():
    pm.ExGaussian(
        "rt", mu=pm.Normal("mu"), sigma=pm.HalfNormal("sigma"), nu=pm.Exponential("nu", 1), observed=POSITIVE
    )


@everyday
def laplace():
    pm.Laplace("y", mu=pm.Normal("m"), b=pm.HalfNormal("b"), observed=Y)


@everyday
def logistic():
    pm.Logistic("y", mu=pm.Normal("m"), s=pm.HalfNormal("s"), observed=Y)


@everyday
def gumbel():
    pm.Gumbel("flood", mu=pm.Normal("m"), beta=pm.HalfNormal("b"), observed=Y)


@everyday
def rice():
    pm.Rice("y", nu=pm.HalfNormal("nu"), sigma=pm.HalfNormal("sigma"), observed=POSITIVE)


@everyday
def von_mises():
    pm.VonMises(
        "angle", mu=pm.VonMises("mu", 0, 1), kappa=pm.Gamma("kappa", 2, 1), observed=np.clip(Y, -3, 3)
    )


@everyday
def pareto():
    pm.Pareto("wealth", alpha=pm.Gamma("alpha", 2, 1), m=0.1, observed=POSITIVE)


@everyday
def moyal_and_cauchy():
    pm.Cauchy("y", pm.Normal("m"), pm.HalfNormal("b"), observed=Y)
    pm.Moyal("z", pm.Normal("m2"), pm.HalfNormal("b2"), observed=X[:, 0])


# survival, censoring, truncation


@everyday
def weibull_survival_censored():
    alpha = pm.Gamma("alpha", 2, 1)
    beta = pm.math.exp(X @ pm.Normal("b", shape=3))
    latent = pm.Weibull.dist(alpha=alpha, beta=beta)
    pm.Censored("time", latent, lower=None, upper=3.0, observed=np.minimum(POSITIVE, 3.0))


@everyday
def censored_at_own_time():
    end = np.where(YES, np.inf, POSITIVE)
    latent = pm.Exponential.dist(pm.Gamma("rate", 2, 1))
    pm.Censored("time", latent, lower=None, upper=end, observed=POSITIVE)


@everyday
def exponential_survival_as_poisson():
    """Piecewise exponential, one row a person and interval."""
    hazard = pm.Gamma("hazard", 0.5, 0.5, shape=6)
    beta = pm.Normal("beta", 0, 1)
    pm.Poisson("died", hazard[GROUP] * pt.exp(beta * X[:, 0]) * POSITIVE, observed=YES)


@everyday
def tobit():
    latent = pm.Normal.dist(X @ pm.Normal("b", shape=3), pm.HalfNormal("sigma"))
    pm.Censored("y", latent, lower=0.0, upper=None, observed=np.maximum(Y, 0))


@everyday
def truncated_normal():
    pm.Truncated("y", pm.Normal.dist(pm.Normal("m"), pm.HalfNormal("s")), lower=-5, upper=5, observed=Y)


@everyday
def truncated_normal_by_name():
    pm.TruncatedNormal("y", pm.Normal("m"), pm.HalfNormal("s"), lower=-5, observed=Y)


@everyday
def interval_rounding():
    pm.CustomDist(
        "y",
        pm.Normal("m"),
        pm.HalfNormal("s"),
        dist=lambda m, s, size: pt.round(pm.Normal.dist(m, s, size=size)),
        observed=np.round(Y),
    )


# mixtures


@everyday
def three_part_mixture():
    w = pm.Dirichlet("w", np.ones(3))
    mu = pm.Normal("mu", 0, 5, shape=3, transform=pm.distributions.transforms.ordered, initval=[-1, 0, 1])
    pm.NormalMixture("y", w=w, mu=mu, sigma=pm.HalfNormal("sigma", shape=3), observed=Y)


@everyday
def mixture_of_lists():
    w = pm.Dirichlet("w", [1, 1])
    parts = [pm.Normal.dist(pm.Normal("m"), 1), pm.StudentT.dist(nu=3, mu=pm.Normal("k"), sigma=2)]
    pm.Mixture("y", w=w, comp_dists=parts, observed=Y)


@everyday
def mixture_of_components():
    w = pm.Dirichlet("w", np.ones(2))
    rates = pm.Gamma("rates", 2, 1, shape=2)
    pm.Mixture("y", w=w, comp_dists=pm.Poisson.dist(rates, shape=(2,)), observed=COUNT)


@everyday
def regression_with_outliers():
    inlier = pm.Normal.dist(X @ pm.Normal("b", shape=3), 1)
    outlier = pm.Normal.dist(0, 10)
    share = pm.Beta("share", 1, 9)
    pm.Mixture("y", w=[1 - share, share], comp_dists=[inlier, outlier], observed=Y)


@everyday
def mixture_by_stacked_weights():
    share = pm.Beta("share", 1, 9)
    w = pt.stack([1 - share, share])
    pm.Mixture("y", w, [pm.Normal.dist(0, 1), pm.Normal.dist(pm.Normal("m"), 3)], observed=Y)


@everyday
def mixture_of_experts():
    p = pm.math.sigmoid(X @ pm.Normal("gate", shape=3))
    w = pt.stack([p, 1 - p], axis=1)
    parts = [pm.Normal.dist(pm.Normal("m1"), 1), pm.Normal.dist(pm.Normal("m2"), 1)]
    pm.Mixture("y", w=w, comp_dists=parts, observed=Y)


# several outcomes, multivariate


@everyday
def normal_with_lkj_cholesky():
    chol, _corr, _stds = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.Exponential.dist(1))
    pm.MvNormal("y", mu=pm.Normal("mu", shape=3), chol=chol, observed=X)


@everyday
def normal_with_unpacked_cholesky():
    packed = pm.LKJCholeskyCov("packed", n=3, eta=2, sd_dist=pm.HalfNormal.dist(1), compute_corr=False)
    chol = pm.math.expand_packed_triangular(3, packed)
    pm.MvNormal("y", mu=pm.Normal("mu", shape=3), chol=chol, observed=X)


@everyday
def normal_with_wishart_like_factor():
    z = pm.Normal("z", shape=3)
    d = pm.HalfNormal("d", shape=3)
    factor = pt.diag(d)
    factor = pt.set_subtensor(factor[1, 0], z[0])
    factor = pt.set_subtensor(factor[2, :2], z[1:])
    pm.MvNormal("y", mu=np.zeros(3), chol=factor, observed=X)


@everyday
def normal_with_lkj_correlation():
    corr = pm.LKJCorr("corr", n=3, eta=2)
    s = pm.HalfNormal("s", shape=3)
    cov = pt.diag(s) @ corr @ pt.diag(s)
    pm.MvNormal("y", mu=pm.Normal("mu", shape=3), cov=cov, observed=X)


@everyday
def multivariate_student():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2, sd_dist=pm.Exponential.dist(1))
    pm.MvStudentT("y", nu=pm.Gamma("nu", 2, 0.1) + 2, mu=np.zeros(3), chol=chol, observed=X)


@everyday
def seemingly_unrelated_regressions():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1))
    pm.MvNormal("y", mu=pt.dot(X, pm.Normal("b", shape=(3, 2))), chol=chol, observed=X[:, :2])


@everyday
def dirichlet_multinomial():
    counts = RNG.multinomial(20, [0.2, 0.3, 0.5], N)
    frac = pm.Dirichlet("frac", np.ones(3))
    conc = pm.LogNormal("conc", 1, 1)
    pm.DirichletMultinomial("y", n=20, a=frac * conc, observed=counts, shape=(N, 3))


@everyday
def multinomial_logit():
    counts = RNG.multinomial(20, [0.2, 0.3, 0.5], N)
    p = pm.math.softmax(X @ pm.Normal("b", shape=(3, 3)), axis=1)
    pm.Multinomial("y", n=20, p=p, observed=counts)


@everyday
def categorical_softmax():
    b = pm.Normal("b", 0, 1, shape=(3, 3))
    mu = pm.Normal("a", shape=4)[None, :] + pt.concatenate([pt.zeros((N, 1)), pm.math.dot(X, b)], axis=1)
    p = pm.Deterministic("p", pm.math.softmax(mu, axis=-1))
    pm.Categorical("y", p=p, observed=LEVEL)


@everyday
def compositions():
    shares = RNG.dirichlet(np.ones(3), N)
    pm.Dirichlet("y", a=pm.Gamma("a", 2, 1, shape=3), observed=shares)


@everyday
def ordinal_regression():
    cutpoints = pm.Normal(
        "cutpoints",
        mu=[-1, 0, 1],
        sigma=2,
        transform=pm.distributions.transforms.ordered,
        initval=[-1, 0, 1],
    )
    pm.OrderedLogistic("y", cutpoints=cutpoints, eta=pm.math.dot(X, pm.Normal("b", shape=3)), observed=LEVEL)


@everyday
def ordinal_probit():
    gaps = pm.Dirichlet("gaps", np.ones(4))
    cutpoints = pm.Deterministic("cutpoints", pt.cumsum(gaps)[:3] * 4 - 2)
    pm.OrderedProbit("y", cutpoints=cutpoints, eta=X @ pm.Normal("b", shape=3), observed=LEVEL)


@everyday
def two_outcomes_of_a_person():
    a = pm.Normal("a", shape=2)
    pm.Normal("y", a[0] + a[1] * X[:, 0], 1, observed=Y)
    pm.Bernoulli("yes", logit_p=a[0] + a[1] * X[:, 1], observed=YES)


# groups


@everyday
def radon_with_lkj():
    pm.modelcontext(None).add_coords({"county": list("abcdef"), "effect": ["intercept", "slope"]})
    sd = pm.Exponential.dist(0.5, shape=2)
    chol, _corr, _stds = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd)
    mean = pm.Normal("mean", 0, 5, dims="effect")
    z = pm.Normal("z", 0, 1, dims=("county", "effect"))
    ab = pm.Deterministic("ab", mean + pt.dot(chol, z.T).T, dims=("county", "effect"))
    theta = ab[GROUP, 0] + ab[GROUP, 1] * YES
    pm.Normal("radon", theta, sigma=pm.Exponential("sigma", 1), observed=Y)


@everyday
def radon_centred_with_mvnormal():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(0.5, shape=2))
    ab = pm.MvNormal("ab", mu=pm.Normal("mean", 0, 5, shape=2), chol=chol, shape=(6, 2))
    pm.Normal("radon", ab[GROUP, 0] + ab[GROUP, 1] * YES, 1, observed=Y)


@everyday
def non_centred_hierarchy():
    pm.modelcontext(None).add_coords({"county": list("abcdef"), "obs_id": np.arange(N)})
    county = pm.Data("county_idx", GROUP, dims="obs_id")
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 1)
    z = pm.Normal("z", dims="county")
    level = pm.Deterministic("level", mu + tau * z, dims="county")
    theta = pm.Deterministic("theta", level[county], dims="obs_id")
    pm.Normal("y", theta, pm.HalfNormal("sigma"), observed=Y, dims="obs_id")


@everyday
def multilevel_regression_and_poststratification():
    pm.modelcontext(None).add_coords({"states": range(6), "ages": range(4)})
    state = pm.Normal("state", 0, pm.HalfNormal("s_state", 1), dims="states")
    age = pm.Normal("age", 0, pm.HalfNormal("s_age", 1), dims="ages")
    cell = pm.Normal("cell", 0, pm.HalfNormal("s_cell", 1), dims=("states", "ages"))
    eta = pm.Normal("a") + state[GROUP] + age[LEVEL] + cell[GROUP, LEVEL] + pm.Normal("b") * YES
    pm.Binomial("vote", n=1, p=pm.math.invlogit(eta), observed=YES)
    share = pm.math.invlogit(pm.modelcontext(None)["a"] + state[:, None] + age[None, :] + cell)
    pm.Deterministic("by_state", (share * np.full((6, 4), 1 / 4)).sum(axis=1), dims="states")


@everyday
def two_parameter_item_response_by_item():
    """One row a person, one column an item; ability is integrated out over a public grid."""
    answers = RNG.integers(0, 2, (N, 5))
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    a, b = pm.LogNormal("a", 0, 0.5, shape=5), pm.Normal("b", 0, 1, shape=5)
    eta = a * (nodes[:, None] - b)

    def logp(value, eta):
        of_items = value[:, None, :] * eta - pt.softplus(eta)
        return pt.logsumexp(of_items.sum(-1) + np.log(weights / weights.sum()), axis=-1)

    pm.CustomDist("answers", eta, logp=logp, signature="(k,i)->(i)", observed=answers)


@everyday
def item_response_with_known_ability():
    item = LEVEL
    a, b = pm.LogNormal("a", 0, 0.5, shape=4), pm.Normal("b", shape=4)
    pm.Bernoulli("right", logit_p=a[item] * (X[:, 0] - b[item]), observed=YES)


@everyday
def zero_sum_effects():
    pm.modelcontext(None).add_coords({"group": range(6)})
    effect = pm.ZeroSumNormal("effect", sigma=pm.HalfNormal("tau"), dims="group")
    pm.Normal("y", pm.Normal("mu") + effect[GROUP], pm.HalfNormal("sigma"), observed=Y)


@everyday
def crossed_effects():
    a = pm.Normal("a", 0, pm.HalfNormal("sa"), shape=6)
    b = pm.Normal("b", 0, pm.HalfNormal("sb"), shape=4)
    pm.Normal("y", pm.Normal("mu") + a[GROUP] + b[LEVEL], pm.HalfNormal("s"), observed=Y)


@everyday
def varying_slopes_one_by_one():
    slopes = [pm.Normal(f"slope_{k}", 0, 1) for k in range(3)]
    pm.Normal("y", sum(s * X[:, k] for k, s in enumerate(slopes)), 1, observed=Y)


@everyday
def stacked_parameters():
    parts = pt.stack([pm.Normal("a"), pm.Normal("b"), pm.HalfNormal("c")])
    pm.Normal("y", pm.math.dot(X, parts), 1, observed=Y)


@everyday
def group_scales():
    pm.Normal("y", pm.Normal("m", shape=6)[GROUP], pm.HalfNormal("s", shape=6)[GROUP], observed=Y)


@everyday
def public_trend_of_groups():
    """A random walk over public groups."""
    walk = pm.GaussianRandomWalk("walk", sigma=pm.HalfNormal("s"), init_dist=pm.Normal.dist(0, 1), shape=6)
    pm.Poisson("y", pm.math.exp(walk[GROUP]), observed=COUNT)


@everyday
def spatial_effects():
    around = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
    phi = pm.ICAR("phi", W=around)
    pm.Poisson("y", pm.math.exp(pm.Normal("a") + pm.HalfNormal("s") * phi[GROUP]), observed=COUNT)


@everyday
def best_in_long_format():
    nu = pm.Exponential("nu_minus_one", 1 / 29.0) + 1
    mean, sd = pm.Normal("mean", 0, 2, shape=2), pm.Uniform("sd", 0.1, 10, shape=2)
    pm.StudentT("y", nu=nu, mu=mean[YES], lam=sd[YES] ** -2, observed=Y)
    pm.Deterministic("difference of means", mean[1] - mean[0])
    pm.Deterministic("effect size", (mean[1] - mean[0]) / np.sqrt((sd[1] ** 2 + sd[0] ** 2) / 2))


# constraints, own distributions


@everyday
def soft_constraint():
    b = pm.Normal("b", 0, 1, shape=3)
    pm.Potential("sum_to_zero", pm.logp(pm.Normal.dist(0, 0.01), b.sum()))
    pm.Normal("y", X @ b, 1, observed=Y)


@everyday
def ordered_by_potential():
    b = pm.Normal("b", 0, 1, shape=2)
    pm.Potential("order", pt.switch(b[1] < b[0], -np.inf, 0))
    pm.NormalMixture("y", w=[0.5, 0.5], mu=b, sigma=1, observed=Y)


@everyday
def own_log_density():
    def logp(value, mu, s):
        return -pt.log(s) - pt.sqrt(1 + ((value - mu) / s) ** 2)

    pm.CustomDist("y", X @ pm.Normal("b", shape=3), pm.HalfNormal("s"), logp=logp, observed=Y)


@everyday
def own_distribution_of_distributions():
    def dist(mu, s, size):
        return mu + s * pm.StudentT.dist(nu=4, size=size)

    pm.CustomDist("y", pm.Normal("mu"), pm.HalfNormal("s"), dist=dist, observed=Y)


@everyday
def gaussian_process_on_a_public_box():
    cov = pm.HalfNormal("eta") ** 2 * pm.gp.cov.Matern52(1, ls=pm.LogNormal("ell", 0, 0.5))
    gp = pm.gp.HSGP(m=[8], L=[5.0], cov_func=cov)
    gp._X_center = np.zeros(1)
    pm.Normal("y", gp.prior("f", X=X[:, :1]), pm.HalfNormal("sigma"), observed=Y)


@everyday
def small_neural_network():
    w1 = pm.Normal("w1", shape=(3, 4))
    w2 = pm.Normal("w2", shape=4)
    hidden = pm.math.tanh(pm.math.dot(X, w1))
    pm.Bernoulli("y", p=pm.math.sigmoid(pm.math.dot(hidden, w2)), observed=YES)


@everyday
def saturation_curve():
    dose = TABLE["dose"].values
    top, half = pm.LogNormal("top"), pm.LogNormal("half")
    pm.Normal("y", top * dose / (half + dose), pm.HalfNormal("sigma"), observed=Y)


@everyday
def logistic_growth_per_group():
    age = TABLE["dose"].to_numpy()
    k, r = pm.LogNormal("k", shape=6), pm.LogNormal("r")
    pm.LogNormal("y", pt.log(k[GROUP]) - pt.log1p(pt.exp(-r * (age - 2))), 1, observed=POSITIVE)


# as it comes: lists, frames, booleans, shapes


@everyday
def observed_list():
    pm.Normal("y", pm.Normal("m"), 1, observed=Y.tolist())


@everyday
def observed_booleans():
    pm.Bernoulli("y", p=pm.Beta("p", 1, 1), observed=YES.astype(bool))


@everyday
def observed_frame():
    pm.Normal("y", pm.Normal("m", shape=3), pm.HalfNormal("s", shape=3), observed=pd.DataFrame(X))


@everyday
def observed_codes_of_a_category():
    p = pm.Dirichlet("p", np.ones(3))
    pm.Categorical("city", p=p, observed=pd.Categorical(TABLE["city"]).codes)


@everyday
def shape_of_the_table():
    pm.Normal("y", pm.Normal("m"), 1, observed=Y, shape=len(TABLE))


@everyday
def shape_that_follows_the_data():
    x = pm.Data("x", X[:, 0])
    mu = pm.Normal("a") + pm.Normal("b") * x
    pm.Normal("y", mu, 1, observed=pm.Data("y_data", Y), shape=mu.shape)


@everyday
def coordinates_of_the_index():
    pm.modelcontext(None).add_coords({"obs": TABLE.index, "city": ["a", "b", "c"]})
    x = pm.Data("x", TABLE["dose"], dims="obs")
    city = pm.Data("city_of", pd.factorize(TABLE["city"])[0], dims="obs")
    pm.Normal("y", (pm.Normal("b", dims="city")[city] * x), 1, observed=TABLE["score"], dims="obs")


@everyday
def rows_kept_by_a_query():
    some = TABLE.query("dose > 1")
    pm.Normal("y", pm.Normal("a") + pm.Normal("b") * some["age"], 1, observed=some["score"])


@everyday
def switch_on_a_series():
    rate = pm.math.switch(TABLE["dose"] > 2.5, pm.Gamma("high", 2, 1), pm.Gamma("low", 2, 1))
    pm.Poisson("y", rate, observed=TABLE["visits"])


@everyday
def design_transposed():
    pm.Normal("y", pm.math.dot(pm.Normal("b", shape=3), X.T), 1, observed=Y)


@everyday
def sum_of_columns():
    pm.Normal("y", (X * pm.Normal("b", shape=3)).sum(axis=-1), 1, observed=Y)


@everyday
def outcome_and_covariates_of_one_array():
    b = pm.Normal("b", shape=2)
    pm.Normal("y", X[:, 1:] @ b + pm.Normal("a"), 1, observed=X[:, 0])


@everyday
def designs_joined_in_the_graph():
    design = pm.math.concatenate([X, TABLE[["age", "dose"]].to_numpy()], axis=1)
    pm.Normal("y", pm.math.dot(design, pm.Normal("b", shape=5)), 1, observed=Y)


@everyday
def column_vectors():
    x, y = X[:, [0]], Y[:, None]
    pm.Normal("y", pm.Normal("a") + pm.Normal("b") * x, 1, observed=y)


@everyday
def repeated_measurements_in_columns():
    mu = pm.Normal("a") + pm.Normal("b") * TABLE["dose"].to_numpy()[:, None] + pm.Normal("day", shape=3)
    pm.Normal("y", mu, pm.HalfNormal("s"), observed=X)


@everyday
def panel_of_autoregressions():
    """One row a person: what comes next given what was before, by columns of one array."""
    rho = pm.Uniform("rho", -1, 1)
    pm.Normal("y", rho * X[:, :-1], 1, observed=X[:, 1:])


@everyday
def panel_of_random_walks():
    pm.GaussianRandomWalk(
        "y", sigma=pm.HalfNormal("s"), init_dist=pm.Normal.dist(0, 1), observed=X, shape=(N, 3)
    )


@everyday
def precision_instead_of_scale():
    pm.Normal("y", pm.Flat("m"), tau=pm.Gamma("tau", 0.01, 0.01), observed=Y)


@everyday
def flat_priors():
    pm.Normal("y", pm.Flat("a") + pm.Flat("b") * X[:, 0], pm.HalfFlat("s"), observed=Y)


@everyday
def monotonic_effect():
    delta = pm.Dirichlet("delta", np.ones(3))
    effect = pt.concatenate([[0.0], pt.cumsum(delta)])
    pm.Normal("y", pm.Normal("a") + pm.Normal("b") * effect[LEVEL], 1, observed=Y)


@everyday
def skill_of_teams():
    """Home and away, as in the rugby example."""
    home, away = GROUP, (GROUP + 1 + LEVEL) % 6
    att_star, def_star = pm.Normal("att_star", shape=6), pm.Normal("def_star", shape=6)
    att = pm.Deterministic("att", att_star - pt.mean(att_star))
    defence = pm.Deterministic("def", def_star - pt.mean(def_star))
    at_home = pt.exp(pm.Normal("intercept") + pm.Normal("home") + att[home] + defence[away])
    pm.Poisson("home_points", mu=at_home, observed=COUNT)
    pm.Poisson("away_points", mu=pt.exp(pm.modelcontext(None)["intercept"] + att[away]), observed=LEVEL)


@everyday
def bradley_terry():
    skill = pm.Normal("skill", 0, pm.HalfNormal("s"), shape=6)
    pm.Bernoulli("won", logit_p=skill[GROUP] - skill[(GROUP + 1) % 6], observed=YES)


@everyday
def factors_of_two_tables():
    u, v = pm.Normal("u", shape=(6, 2)), pm.Normal("v", shape=(4, 2))
    pm.Normal("rating", (u[GROUP] * v[LEVEL]).sum(axis=1), 1, observed=Y)


@everyday
def survival_by_time_and_event():
    def logp(value, shape, scale):
        time, event = value[:, 0], value[:, 1]
        z = time / scale
        return event * (pt.log(shape / scale) + (shape - 1) * pt.log(z)) - z**shape

    pm.CustomDist(
        "survival",
        pm.Gamma("shape", 2, 1),
        pm.Gamma("scale", 2, 1),
        logp=logp,
        observed=np.column_stack([POSITIVE, YES]),
    )


@everyday
def occupancy():
    visits, seen = 5, np.minimum(COUNT, 5)

    def logp(value, psi, p):
        found = pm.logp(pm.Binomial.dist(visits, p), value) + pt.log(psi)
        return pt.switch(pt.eq(value, 0), pt.logaddexp(found, pt.log1p(-psi)), found)

    pm.CustomDist("seen", pm.Beta("psi", 1, 1), pm.Beta("p", 1, 1), logp=logp, observed=seen)


@everyday
def zero_spike_by_mixture():
    w = pm.Dirichlet("w", np.ones(2))
    parts = [pm.DiracDelta.dist(0), pm.Poisson.dist(pm.Gamma("mu", 2, 1))]
    pm.Mixture("y", w=w, comp_dists=parts, observed=COUNT)


@everyday
def stick_breaking_mixture():
    alpha = pm.Gamma("alpha", 1, 1)
    beta = pm.Beta("beta", 1, alpha, shape=5)
    rest = pt.concatenate([[1.0], pt.extra_ops.cumprod(1 - beta)[:-1]])
    w = pm.Deterministic("w", beta * rest)
    mu, tau = pm.Normal("mu", 0, 3, shape=5), pm.Gamma("tau", 1, 1, shape=5)
    pm.NormalMixture("y", w / w.sum(), mu, tau=tau, observed=Y)


@everyday
def stick_breaking_weights():
    w = pm.StickBreakingWeights("w", alpha=pm.Gamma("alpha", 1, 1), K=4)
    pm.NormalMixture("y", w, pm.Normal("mu", 0, 3, shape=5), 1, observed=Y)


@everyday
def mixture_of_multivariate_normals():
    parts = [pm.MvNormal.dist(mu=pm.Normal(f"mu_{k}", shape=3), cov=np.eye(3)) for k in range(2)]
    pm.Mixture("y", w=pm.Dirichlet("w", np.ones(2)), comp_dists=parts, observed=X)


@everyday
def categorical_by_logits():
    b = pm.Normal("b", shape=(3, 4))
    pm.Categorical("y", logit_p=pt.dot(X, b), observed=LEVEL)


@everyday
def naive_bayes():
    p = pm.Dirichlet("p", np.ones(4))
    mean = pm.Normal("mean", shape=(4, 3))
    pm.Categorical("kind", p=p, observed=LEVEL)
    pm.Normal("features", mean[LEVEL], 1, observed=X)


@everyday
def causal_chain_of_outcomes():
    """The observed value of one variable is a covariate of the next."""
    m = pm.Normal("m", pm.Normal("a") * X[:, 0], 1, observed=POSITIVE)
    pm.Normal("y", pm.Normal("b") * m + pm.Normal("c") * X[:, 0], 1, observed=Y)


@everyday
def clipped_probability():
    p = pm.Normal("a") + pm.Normal("b") * X[:, 0]
    pm.Bernoulli("y", p=pm.math.clip(p, 0.01, 0.99), observed=YES)


@everyday
def probit():
    pm.Bernoulli("y", p=pm.math.invprobit(X @ pm.Normal("b", shape=3)), observed=YES)


@everyday
def guessing():
    c = pm.Beta("c", 2, 8)
    pm.Bernoulli("y", p=c + (1 - c) * pm.math.invlogit(X @ pm.Normal("b", shape=3)), observed=YES)


@everyday
def michaelis_menten_of_groups():
    top = pm.TruncatedNormal("top", 5, 2, lower=0, shape=6)
    pm.Normal("y", top[GROUP] * TABLE["dose"] / (pm.HalfNormal("km") + TABLE["dose"]), 1, observed=Y)


@everyday
def one_sided_and_bounded_priors():
    a = pm.TruncatedNormal("a", 0, 1, lower=-1, upper=2)
    b = pm.Truncated("b", pm.Gamma.dist(2, 1), upper=5)
    c = pm.Triangular("c", 0, 1, 0.5)
    pm.Normal("y", a + b * X[:, 0] + c * X[:, 1], 1, observed=Y)


@everyday
def prior_of_numbers():
    x = np.linspace(-3, 3, 50)
    prior = pm.Interpolated("prior", x, np.exp(-(x**2)))
    pm.Normal("y", prior, 1, observed=Y)


@everyday
def weeks_of_fourier_terms():
    week = RNG.integers(0, 52, N)
    terms = np.column_stack([f(2 * np.pi * k * week / 52) for k in (1, 2) for f in (np.sin, np.cos)])
    pm.Poisson("y", pt.exp(pm.Normal("a") + pt.dot(terms, pm.Normal("b", shape=4))), observed=COUNT)


@everyday
def binned_ages_of_a_frame():
    age = pd.cut(TABLE["age"], [0, 40, 50, 60, 200], labels=False)
    pm.Bernoulli("y", logit_p=pm.Normal("b", shape=4)[age], observed=YES)


@everyday
def generalised_extremes_by_hand():
    def logp(value, mu, s, xi):
        z = 1 + xi * (value - mu) / s
        return pt.switch(z > 0, -pm.math.log(s) - (1 + 1 / xi) * pm.math.log(z) - z ** (-1 / xi), -np.inf)

    xi = pm.TruncatedNormal("xi", 0.2, 0.1, lower=0.01, upper=0.6)
    pm.CustomDist("y", pm.Normal("mu"), pm.HalfNormal("s"), xi, logp=logp, observed=POSITIVE)


@everyday
def triangular_and_chi_squared():
    pm.ChiSquared("a", pm.Gamma("nu", 2, 1), observed=POSITIVE)
    pm.InverseGamma("b", pm.Gamma("alpha", 2, 1), pm.Gamma("beta", 2, 1), observed=POSITIVE)


@everyday
def half_distributions():
    pm.HalfNormal("a", pm.HalfNormal("s"), observed=POSITIVE)
    pm.HalfStudentT("b", nu=4, sigma=pm.HalfNormal("t"), observed=POSITIVE)
    pm.HalfCauchy("c", pm.HalfNormal("u"), observed=POSITIVE)


@everyday
def uniform_of_unknown_end():
    pm.Uniform("y", 0, 20 + pm.HalfNormal("end"), observed=POSITIVE)


@everyday
def nested_effects():
    parent = np.array([0, 0, 1, 1, 2, 2])
    region = pm.Normal("region", 0, 1, shape=3)
    town = pm.Normal("town", region[parent], pm.HalfNormal("s"), shape=6)
    pm.Normal("y", town[GROUP], 1, observed=Y)


@everyday
def group_covariate_of_a_public_table():
    income = np.array([1.0, 2.0, 1.5, 0.3, 0.2, 0.9])
    level = pm.Normal("level", pm.Normal("a") + pm.Normal("b") * income, pm.HalfNormal("tau"), shape=6)
    pm.Normal("y", level[GROUP], 1, observed=Y)


@everyday
def student_effects_with_their_own_slopes():
    b = pm.StudentT("b", nu=4, mu=0, sigma=1, shape=(6, 3))
    pm.Normal("y", (X * b[GROUP]).sum(axis=1), 1, observed=Y)


@everyday
def cubic_by_powers():
    b = pm.Normal("b", shape=4)
    x = X[:, 0]
    pm.Normal("y", sum(b[k] * x**k for k in range(4)), 1, observed=Y)


@everyday
def difference_in_differences():
    after, treated = LEVEL > 1, YES == 1
    b = pm.Normal("b", shape=4)
    pm.Normal("y", b[0] + b[1] * after + b[2] * treated + b[3] * (after & treated), 1, observed=Y)


@everyday
def trend_with_public_change_points():
    """As Prophet has it."""
    t, at = RNG.uniform(0, 1, N), np.linspace(0, 0.8, 5)
    after = (t[:, None] > at) * 1
    k, m, delta = pm.Normal("k"), pm.Normal("m"), pm.Laplace("delta", 0, 0.05, shape=5)
    growth, offset = k + pm.math.dot(after, delta), m + pm.math.dot(after, -at * delta)
    pm.Normal("y", growth * t + offset, pm.HalfNormal("sigma"), observed=Y)


@everyday
def softmax_over_stacked_rows():
    utilities = [pm.Normal("a") * X[:, 0], pm.Normal("b") * X[:, 1], pt.zeros(N), pt.zeros(N)]
    pm.Categorical("y", p=pm.math.softmax(pm.math.stack(utilities), axis=0).T, observed=LEVEL)


@everyday
def weighted_likelihood():
    def logp(value, mu, weight):
        return weight * pm.logp(pm.Normal.dist(mu, 1), value)

    pm.CustomDist("y", pm.Normal("m"), POSITIVE, logp=logp, observed=Y)


@everyday
def line_on_a_public_grid():
    a, b = pm.Normal("a"), pm.Normal("b")
    pm.Normal("y", a + b * X[:, 0], 1, observed=Y)
    pm.Deterministic("line", a + b * np.linspace(-3, 3, 100))


@everyday
def slope_within_two_halves_of_a_table():
    """Slices as long as each other, which are views of one array: no row of it is in both."""
    slope, sd = pm.Normal("slope"), pm.HalfNormal("sd")
    for name, part in (("first", TABLE.iloc[:100]), ("second", TABLE.iloc[100:200])):
        pm.Normal(name, pm.Normal(f"level_{name}") + slope * part.age, sd, observed=part.score)


@everyday
def slope_within_groups_of_a_table():
    """As many rows in each: slices of one sorted copy."""
    table = TABLE.iloc[:210].assign(arm=np.tile(["a", "b", "c"], 70))
    slope, level, sd = pm.Normal("slope"), pm.Normal("level", shape=3), pm.HalfNormal("sd")
    for k, (arm, part) in enumerate(table.groupby("arm")):
        pm.Normal(f"score_{arm}", level[k] + slope * part.dose, sd, observed=part.score)
