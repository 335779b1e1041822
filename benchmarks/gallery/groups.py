"""Hierarchies, items, and effects that add up to zero."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from benchmarks.gallery.gallery import everyday, logistic


def _groups(rng, n, number):
    """Group codes, of unequal sizes."""
    sizes = rng.dirichlet(np.full(number, 4.0))
    return rng.choice(number, n, p=sizes)


@everyday
def centred_hierarchy(rng, n):
    group, level = _groups(rng, n, 8), rng.normal(1, 0.7, 8)
    y = level[group] + rng.normal(0, 1, n)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 1)
        at = pm.Normal("level", mu, tau, shape=8)
        pm.Normal("y", at[group], pm.HalfNormal("sigma"), observed=y)
    return model, {"level": level, "sigma": 1}


@everyday
def non_centred_hierarchy(rng, n):
    group, level = _groups(rng, n, 8), rng.normal(1, 0.7, 8)
    y = level[group] + rng.normal(0, 1, n)
    with pm.Model(coords={"county": list("abcdefgh"), "obs_id": np.arange(n)}) as model:
        county = pm.Data("county_idx", group, dims="obs_id")
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 1)
        z = pm.Normal("z", dims="county")
        at = pm.Deterministic("level", mu + tau * z, dims="county")
        theta = pm.Deterministic("theta", at[county], dims="obs_id")
        pm.Normal("y", theta, pm.HalfNormal("sigma"), observed=y, dims="obs_id")
    return model, {"level": level, "sigma": 1}


@everyday
def radon_with_lkj(rng, n):
    group, floor = _groups(rng, n, 6), rng.integers(0, 2, n)
    ab = np.array([1.4, -0.7]) + rng.normal(size=(6, 2)) * [0.4, 0.3]
    y = ab[group, 0] + ab[group, 1] * floor + rng.normal(0, 0.7, n)
    with pm.Model(coords={"county": list("abcdef"), "effect": ["intercept", "slope"]}) as model:
        sd = pm.Exponential.dist(0.5, shape=2)
        chol, _corr, _stds = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd)
        mean, z = pm.Normal("mean", 0, 5, dims="effect"), pm.Normal("z", 0, 1, dims=("county", "effect"))
        effects = pm.Deterministic("ab", mean + pt.dot(chol, z.T).T, dims=("county", "effect"))
        theta = effects[group, 0] + effects[group, 1] * floor
        pm.Normal("radon", theta, sigma=pm.Exponential("sigma", 1), observed=y)
    return model, {"ab": ab, "sigma": 0.7}


@everyday
def poststratification(rng, n):
    state, age = _groups(rng, n, 6), rng.integers(0, 4, n)
    by_state, by_age = rng.normal(0, 0.5, 6), rng.normal(0, 0.4, 4)
    y = rng.binomial(1, logistic(0.2 + by_state[state] + by_age[age]))
    with pm.Model(coords={"states": range(6), "ages": range(4)}) as model:
        a = pm.Normal("a")
        s = pm.Normal("state", 0, pm.HalfNormal("s_state", 1), dims="states")
        g = pm.Normal("age", 0, pm.HalfNormal("s_age", 1), dims="ages")
        pm.Binomial("vote", n=1, p=pm.math.invlogit(a + s[state] + g[age]), observed=y)
        share = pm.math.invlogit(a + s[:, None] + g[None, :])
        pm.Deterministic("by_state", (share * np.full((6, 4), 1 / 4)).sum(axis=1), dims="states")
    truth = logistic(0.2 + by_state[:, None] + by_age).mean(axis=1)
    return model, {"by_state": truth}


@everyday
def slopes_by_group(rng, n):
    group, x = _groups(rng, n, 6), rng.normal(size=n)
    a, b = rng.normal(0, 1, 6), rng.normal(0.5, 0.5, 6)
    y = a[group] + b[group] * x + rng.normal(0, 1, n)
    with pm.Model() as model:
        aa = pm.Normal("a", 0, pm.HalfNormal("sa"), shape=6)
        bb = pm.Normal("b", pm.Normal("mb"), pm.HalfNormal("sb"), shape=6)
        pm.Normal("y", aa[group] + bb[group] * x, pm.HalfNormal("s"), observed=y)
    return model, {"a": a, "b": b, "s": 1}


@everyday
def group_codes_of_a_frame(rng, n):
    """BEST in one table: two groups with their own means and spreads, and common tails."""
    df = pd.DataFrame({"group": pd.Categorical(rng.choice(["drug", "placebo"], n))})
    code = df["group"].cat.codes.to_numpy()
    y = np.array([101.5, 100.3])[code] + np.array([2.0, 1.5])[code] * rng.standard_t(5, n)
    with pm.Model(coords={"group": df["group"].cat.categories}) as model:
        mean = pm.Normal("mean", 101, 4, dims="group")
        std = pm.Uniform("std", 1, 10, dims="group")
        nu = pm.Exponential("nu_minus_one", 1 / 29.0) + 1
        pm.Deterministic("difference", mean[0] - mean[1])
        pm.StudentT("y", nu=nu, mu=mean[code], sigma=std[code], observed=y)
    return model, {"mean": [101.5, 100.3], "std": [2.0, 1.5], "difference": 1.2}


@everyday
def item_response_by_item(rng, n):
    """One row an answer, abilities known."""
    item, ability = rng.integers(0, 5, n), rng.normal(size=n)
    a, b = rng.lognormal(0, 0.3, 5), rng.normal(0, 0.8, 5)
    y = rng.binomial(1, logistic(a[item] * (ability - b[item])))
    with pm.Model() as model:
        aa, bb = pm.LogNormal("a", 0, 0.5, shape=5), pm.Normal("b", 0, 1, shape=5)
        pm.Bernoulli("right", logit_p=aa[item] * (ability - bb[item]), observed=y)
    return model, {"a": a, "b": b}


@everyday
def two_parameter_items_by_person(rng, n):
    """One row a person, one column an item, the ability integrated out."""
    a, b = rng.lognormal(0, 0.3, 4), rng.normal(0, 0.8, 4)
    ability = rng.normal(size=(n, 1))
    answers = rng.binomial(1, logistic(a * (ability - b)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    with pm.Model() as model:
        aa, bb = pm.LogNormal("a", 0, 0.5, shape=4), pm.Normal("b", 0, 1, shape=4)
        eta = aa * (nodes[:, None] - bb)

        def logp(value, eta):
            of_items = value[:, None, :] * eta - pt.softplus(eta)
            return pt.logsumexp(of_items.sum(-1) + np.log(weights / weights.sum()), axis=-1)

        pm.CustomDist("answers", eta, logp=logp, signature="(k,i)->(i)", observed=answers)
    return model, {"a": a, "b": b}


@everyday
def zero_sum_effects(rng, n):
    group, effect = _groups(rng, n, 5), rng.normal(0, 0.6, 5)
    effect -= effect.mean()
    y = 0.5 + effect[group] + rng.normal(0, 1, n)
    with pm.Model(coords={"region": list("abcde")}) as model:
        e = pm.ZeroSumNormal("effect", 1, dims="region")
        pm.Normal("y", pm.Normal("a") + e[group], pm.HalfNormal("s"), observed=y)
    return model, {"effect": effect, "a": 0.5, "s": 1}


@everyday
def teams(rng, n):
    """Home and away, as in the rugby example: two outcomes a match."""
    home = rng.integers(0, 6, n)
    away = (home + rng.integers(1, 6, n)) % 6
    att, dfn = rng.normal(0, 0.3, 6), rng.normal(0, 0.3, 6)
    att, dfn = att - att.mean(), dfn - dfn.mean()
    first = rng.poisson(np.exp(0.5 + 0.2 + att[home] + dfn[away]))
    second = rng.poisson(np.exp(0.5 + att[away] + dfn[home]))
    with pm.Model() as model:
        intercept, at_home = pm.Normal("intercept"), pm.Normal("home", 0, 0.5)
        a_star, d_star = pm.Normal("a_star", 0, 0.5, shape=6), pm.Normal("d_star", 0, 0.5, shape=6)
        a = pm.Deterministic("att", a_star - pt.mean(a_star))
        d = pm.Deterministic("def", d_star - pt.mean(d_star))
        pm.Poisson("home_points", pt.exp(intercept + at_home + a[home] + d[away]), observed=first)
        pm.Poisson("away_points", pt.exp(intercept + a[away] + d[home]), observed=second)
    return model, {"intercept": 0.5, "home": 0.2, "att": att, "def": dfn}


@everyday
def monotonic_effect(rng, n):
    level, delta = rng.integers(0, 4, n), np.array([0.5, 0.2, 0.3])
    effect = np.append(0, delta.cumsum())
    y = 0.3 + 1.2 * effect[level] + rng.normal(0, 1, n)
    with pm.Model() as model:
        steps = pt.concatenate([[0.0], pt.cumsum(pm.Dirichlet("delta", np.ones(3)))])
        mu = pm.Normal("a") + pm.Normal("b") * steps[level]
        pm.Normal("y", mu, pm.HalfNormal("s"), observed=y)
    return model, {"a": 0.3, "b": 1.2, "s": 1}
