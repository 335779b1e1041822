"""Models of many kinds as people write them, on which no constant of the search was set.

    python -m benchmarks.groupings --designs               # 1,000 records, epsilon = 1, five data sets

Each is a function of a generator and the number of records, as in `benchmarks.groupings`, which measures it.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

ORDERED = pm.distributions.transforms.ordered


def coefficients(size, spread=1.0):
    return pm.Normal("b", 0, spread, shape=size)


def level(mean=0.0, spread=1.0):
    return pm.Normal("a", mean, spread)


def cuts(places, y):
    """Of ordered outcomes; where these are drawn, PyMC has no transform to undo."""
    settings = {} if y is None else {"transform": ORDERED, "initval": places}
    return pm.Normal("cuts", places, 0.3, shape=len(places), **settings)


def dose_response(rng, n):
    dose = rng.choice([0, 1, 3, 10, 30, 100.0], n)

    def define(y):
        half, steep = pm.LogNormal("half", 2, 0.7), pm.LogNormal("steep", 0, 0.3)
        effect = pm.Normal("most", 5, 2) * dose**steep / (dose**steep + half**steep)
        pm.Normal("y", level(2) + effect, pm.HalfNormal("sigma", 2), observed=y)

    return define


def difference_in_differences(rng, n):
    month, state = rng.integers(0, 12, n), rng.integers(0, 4, n)
    treated = ((state < 2) & (month >= 6)).astype(float)

    def define(y):
        months = pt.concatenate([[0.0], pm.Normal("months", 0, 0.5, shape=11)])
        states = pt.concatenate([[0.0], pm.Normal("states", 0, 0.5, shape=3)])
        mean = level() + months[month] + states[state] + pm.Normal("effect", 0, 1) * treated
        pm.Normal("y", mean, pm.HalfNormal("sigma", 1), observed=y)

    return define


def health(rng, n):
    """Age in years, body mass index, income in thousands, two dummies; nothing centred."""
    columns = [rng.uniform(18, 90, n), rng.gamma(25, 1.1, n), np.exp(rng.normal(3.5, 0.8, n))]
    return np.column_stack([*columns, rng.random(n) < 0.2, rng.random(n) < 0.5])


def raw_health(rng, n):
    x = health(rng, n)

    def define(y):
        eta = level(-4, 2) + x @ coefficients(5, [0.03, 0.05, 0.01, 0.7, 0.7])
        pm.Bernoulli("y", logit_p=eta, observed=y)

    return define


def raw_health_rates(rng, n):
    x, exposure = health(rng, n)[:, :4], rng.exponential(1, n) + 0.05

    def define(y):
        eta = level() + x @ coefficients(4, [0.01, 0.02, 0.005, 0.5])
        pm.Poisson("y", exposure * pm.math.exp(eta), observed=y)

    return define


def rare_levels(rng, n):
    x = rng.normal(size=(n, 2))

    def define(y):
        places = np.array([-4.5, -1.0, 2.0, 4.5])
        pm.OrderedLogistic("y", eta=x @ coefficients(2, 0.5), cutpoints=cuts(places, y), observed=y)

    return define


def rare_class(rng, n):
    x = rng.normal(size=(n, 2))

    def define(y):
        eta = pm.Normal("a", [-4.0, 0.0, -1.0], 0.3, shape=3) + x @ coefficients((2, 3), 0.5)
        pm.Categorical("y", logit_p=pt.concatenate([pt.zeros((n, 1)), eta], axis=1), observed=y)

    return define


def between_limits(rng, n):
    x = rng.normal(size=(n, 3))

    def define(y):
        normal = pm.Normal.dist(level() + x @ coefficients(3), pm.HalfNormal("sigma", 1))
        pm.Censored("y", normal, lower=-1.0, upper=2.0, observed=y)

    return define


def counts_and_a_rare_dummy(rng, n):
    x = np.c_[rng.normal(size=n), rng.random(n) < 0.05]

    def define(y):
        mean, alpha = pm.math.exp(level() + x @ coefficients(2)), pm.Exponential("alpha", 1)
        pm.NegativeBinomial("y", mu=mean, alpha=alpha, observed=y)

    return define


def overdispersed_shares(rng, n):
    x, trials = rng.normal(size=(n, 3)), rng.integers(1, 30, n)

    def define(y):
        p, k = pm.math.sigmoid(level() + x @ coefficients(3, 0.7)), pm.LogNormal("k", 2, 0.7)
        pm.BetaBinomial("y", alpha=p * k, beta=(1 - p) * k, n=trials, observed=y)

    return define


def separating_dummy(rng, n):
    x = np.c_[rng.normal(size=n), rng.random(n) < 0.1]

    def define(y):
        slopes = pt.stack([pm.Normal("slope", 0, 1), pm.Normal("sure", 6, 1)])
        pm.Bernoulli("y", logit_p=level() + x @ slopes, observed=y)

    return define


def slopes_by_hospital(rng, n):
    hospital, x = rng.integers(0, 30, n), rng.normal(size=n)

    def define(y):
        spread = pm.HalfNormal("spread", 0.7, shape=2)
        own = pm.Normal("mean", 0, 1, shape=2) + spread * pm.Normal("z", 0, 1, shape=(30, 2))
        mean = own[hospital, 0] + own[hospital, 1] * x
        pm.Normal("y", mean, pm.HalfNormal("sigma", 1), observed=y)

    return define


def counts_of_fifty(rng, n):
    group, x = rng.integers(0, 50, n), rng.normal(size=n)

    def define(y):
        own = pm.Normal("own", level(1), pm.HalfNormal("spread", 0.7), shape=50)
        pm.Poisson("y", pm.math.exp(own[group] + coefficients((), 0.5) * x), observed=y)

    return define


def unequal_tails(rng, n):
    x = rng.normal(size=(n, 2))

    def define(y):
        scale = pm.math.exp(pm.Normal("s", 0, 0.7) + x @ pm.Normal("scales", 0, 0.4, shape=2))
        mean, nu = level(0, 2) + x @ coefficients(2), pm.Gamma("nu", 2, 0.1)
        pm.StudentT("y", nu=nu, mu=mean, sigma=scale, observed=y)

    return define


def pareto(rng, n):
    x = rng.normal(size=(n, 2))

    def define(y):
        alpha = pm.math.exp(level(0.7, 0.5) + x @ coefficients(2, 0.4))
        pm.Pareto("y", alpha=alpha, m=1.0, observed=y)

    return define


def kumaraswamy(rng, n):
    x = rng.normal(size=n)

    def define(y):
        a = pm.math.exp(level(0.5, 0.5) + coefficients((), 0.5) * x)
        pm.Kumaraswamy("y", a=a, b=pm.LogNormal("shape", 0.5, 0.5), observed=y)

    return define


def reaction_times(rng, n):
    condition = rng.integers(0, 3, n)

    def define(y):
        mean, tail = pm.Normal("mean", 400, 50, shape=3), pm.LogNormal("tail", 4.5, 0.5, shape=3)
        sigma = pm.HalfNormal("sigma", 40)
        pm.ExGaussian("y", mu=mean[condition], sigma=sigma, nu=tail[condition], observed=y)

    return define


def decay(rng, n):
    hours = rng.uniform(0, 24, n)

    def define(y):
        curve = pm.LogNormal("size", 2, 0.5) * pm.math.exp(-pm.LogNormal("rate", -1.5, 0.5) * hours)
        pm.Normal("y", curve + level(), pm.HalfNormal("sigma", 1), observed=y)

    return define


def growth_to_a_size(rng, n):
    years = rng.uniform(0, 20, n)

    def define(y):
        lag = pm.LogNormal("lag", 1, 0.3) * pm.math.exp(-pm.LogNormal("rate", -1.5, 0.3) * years)
        size = pm.LogNormal("size", 3, 0.4)
        pm.LogNormal("y", pm.math.log(size) - lag, pm.HalfNormal("sigma", 0.5), observed=y)

    return define


def three_way_interaction(rng, n):
    a, b, x = rng.integers(0, 2, n), rng.integers(0, 2, n), rng.normal(size=n)
    columns = np.column_stack([np.ones(n), a, b, x, a * b, a * x, b * x, a * b * x])

    def define(y):
        pm.Bernoulli("y", logit_p=columns @ coefficients(8, 0.8), observed=y)

    return define


def inverse_gaussian(rng, n):
    x = rng.normal(size=(n, 2))

    def define(y):
        mean = pm.math.exp(level(0, 0.5) + x @ coefficients(2, 0.4))
        pm.Wald("y", mu=mean, lam=pm.LogNormal("shape", 1, 0.5), observed=y)

    return define


def zeros_by_a_column(rng, n):
    x = rng.normal(size=(n, 2))

    def define(y):
        psi = pm.math.sigmoid(pm.Normal("z", 1, 0.7) + pm.Normal("zeros", 0, 0.7) * x[:, 0])
        mean = pm.math.exp(level(1, 0.7) + x @ coefficients(2, 0.5))
        alpha = pm.Exponential("alpha", 0.5)
        pm.ZeroInflatedNegativeBinomial("y", psi=psi, mu=mean, alpha=alpha, observed=y)

    return define


def season_and_trend(rng, n):
    years = rng.uniform(0, 5, n)
    columns = np.column_stack([years, np.sin(2 * np.pi * years), np.cos(2 * np.pi * years)])

    def define(y):
        pm.Normal("y", level(0, 2) + columns @ coefficients(3), pm.HalfNormal("sigma", 1), observed=y)

    return define


def years_squared(rng, n):
    years, x = rng.integers(2010, 2021, n) - 2015.0, rng.normal(size=n)

    def define(y):
        trend = pm.Normal("trend", 0, 0.3) * years + pm.Normal("bend", 0, 0.05) * years**2
        pm.Bernoulli("y", logit_p=level() + trend + coefficients(()) * x, observed=y)

    return define


def correlated_pair(rng, n):
    x = rng.normal(size=n)

    def define(y):
        chol, _, _ = pm.LKJCholeskyCov("L", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1))
        pm.MvNormal("y", mu=coefficients(2) * x[:, None], chol=chol, observed=y)

    return define


def zeros_or_amounts(rng, n):
    x = rng.normal(size=(n, 2))

    def define(y):
        psi = pm.math.sigmoid(pm.Normal("z", 0, 1) + pm.Normal("zeros", 0, 0.7) * x[:, 0])
        mean, sigma = level(5) + x @ coefficients(2, 0.5), pm.HalfNormal("sigma", 1)
        pm.HurdleLogNormal("y", psi=psi, mu=mean, sigma=sigma, observed=y)

    return define


DESIGNS = {
    function.__name__.replace("_", " "): function
    for function in (
        dose_response,
        difference_in_differences,
        raw_health,
        raw_health_rates,
        rare_levels,
        rare_class,
        between_limits,
        counts_and_a_rare_dummy,
        overdispersed_shares,
        separating_dummy,
        slopes_by_hospital,
        counts_of_fifty,
        unequal_tails,
        pareto,
        kumaraswamy,
        reaction_times,
        decay,
        growth_to_a_size,
        three_way_interaction,
        inverse_gaussian,
        zeros_by_a_column,
        season_and_trend,
        years_squared,
        correlated_pair,
        zeros_or_amounts,
    )
}
