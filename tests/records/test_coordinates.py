"""Which function of the parameters the likelihood is seen through, and that it is one."""

import itertools
from operator import call

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import clone_replace

from benchmarks import models
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import gate, other_records
from pymc_dp.records.model import RecordModel

N, GROUPS = 60, 5


def data(seed=0):
    r = np.random.default_rng(seed)
    return r.integers(GROUPS, size=N), r.normal(size=(N, 2)), r.integers(2, size=N)


def hierarchy(kind, seed=0, records=()):
    """Varying intercepts written in different ways; d = 9."""
    group, x, y = records or data(seed)
    with pm.Model() as model:
        mean, tau = pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1)
        beta = pm.Normal("beta", 0, 2, shape=2)
        if kind == "levels":
            eta = pm.Normal("level", mean, tau, shape=GROUPS)[group] + x @ beta
        else:
            z = pm.Normal("z", shape=GROUPS)
            eta = {
                "named": lambda: pm.Deterministic("level", mean + tau * z)[group] + x @ beta,
                "in one line": lambda: mean + tau * z[group] + x @ beta,
                "data": lambda: (mean + tau * z)[pm.Data("g", group)] + pm.Data("x", x) @ beta,
                "last": lambda: x @ beta + (mean + z[group] * tau),
                "apart": lambda: mean + x @ beta + tau * z[group],
                "over": lambda: pm.math.exp(0.5 * (mean + tau * z))[group] + x @ beta,
            }[kind]()
        pm.Bernoulli("y", logit_p=eta, observed=y)
    return model


def linear():
    _, x, y = data()
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0, 2, shape=2), pm.HalfNormal("sigma")
        pm.Normal("y", x @ beta, sigma, observed=y + 0.5)
    return model


def stacked():
    """Linear in the parameters, and as many."""
    _, x, y = data()
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Bernoulli("y", logit_p=x @ pt.stack([a + b, a - b]), observed=y)
    return model


def more_than_parameters():
    group, _, y = data()
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Bernoulli("y", logit_p=pt.exp(a * np.arange(GROUPS) * b + b)[group], observed=y)
    return model


def scales():
    """Elementwise functions of one variable are replaced by it."""
    _, _, y = data()
    with pm.Model() as model:
        precision, mean = pm.Gamma("precision", 2, 1), pm.Normal("mean")
        pm.Normal("y", pt.exp(mean) * mean, tau=precision, observed=y + 0.5)
    return model


def positive(family):
    """Distributions that compute their parameters from others: these others are better."""

    def model():
        _, _, y = data()
        with pm.Model() as model:
            if family == "beta":
                pm.Beta("y", mu=pm.Beta("mu", 2, 2), nu=pm.HalfNormal("nu", 10), observed=(y + 1) / 3)
                return model
            mu = pm.HalfNormal("mu", 10)
            if family == "gamma of a level":
                mu = pt.exp(pm.Normal("mean") + mu * pm.Normal("z"))
            pm.Gamma("y", mu=mu, sigma=pm.HalfNormal("sigma", 10), observed=y + 0.5)
        return model

    return model


def spread_over_records():
    """What is as long as there are records is not taken for a coordinate."""
    _, _, y = data()
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Bernoulli("y", logit_p=pt.ones(N) * (a + b**2), observed=y)
    return model


def whole_numbers():
    _, x, y = data()
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Bernoulli("y", logit_p=x[:, 0] * pt.switch(a > b, a, b), observed=y)
    return model


def normal_mixture():
    _, x, _ = data()
    with pm.Model() as model:
        w, mu = pm.Dirichlet("w", np.ones(3)), pm.Normal("mu", np.arange(3.0), 1, shape=3)
        pm.NormalMixture("y", w, mu, pm.HalfNormal("sigma"), observed=x[:, 0])
    return model


def two_outcomes():
    """A banana in two observed variables."""
    _, x, _ = data()
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Normal("first", a, 1, observed=x[:, 0])
        pm.Normal("second", b + 3 * a**2, 1, observed=x[:, 1])
    return model


def product_of_scales(kind):
    """Two positive factors: as one of them alone is, by the logarithm."""

    def model():
        group, _, y = data()
        with pm.Model() as model:
            mu, first = pm.Normal("mu", shape=GROUPS), pm.HalfNormal("first")
            by_group = pm.LogNormal("by_group", 0, 0.5, shape=GROUPS)
            sigma = {
                "looked up": lambda: first * by_group[group],
                "over": lambda: (2 * by_group / first)[group],
                "an exponential": lambda: (first * pt.exp(pt.log(by_group) + 1))[group],
            }[kind]()
            pm.Normal("y", mu[group], sigma, observed=y + 0.5)
        return model

    return model


def sums_to_zero(kind):
    """All entries are looked up, which are one more than the parameters."""

    def model():
        group, x, y = data()
        with pm.Model() as model:
            tau, beta = pm.HalfNormal("tau"), pm.Normal("beta", shape=2)
            own = pm.ZeroSumNormal("own", 1 if kind == "times" else tau, shape=GROUPS)
            if kind == "with a shear":
                other = pm.Normal("other")
                pm.Bernoulli("second", logit_p=x[:, 1] * (other + beta[0] ** 2), observed=y)
            effect = tau * own[group] if kind == "times" else own[group]
            pm.Bernoulli("y", logit_p=x @ beta + effect, observed=y)
        return model

    return model


def with_levels(kind):
    """A node of several entries that add up to one, beside groups whose mean and spread are left out."""

    def model():
        group, x, y = data()
        with pm.Model() as model:
            level = pm.Normal("level", pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1), shape=GROUPS)
            if kind == "zeros":
                pm.ZeroInflatedPoisson("y", pm.Beta("psi", 2, 2), pt.exp(level[group]), observed=y)
            elif kind == "three weights":
                first, rest = pm.Beta("first", 2, 2), pm.Beta("rest", 2, 2)
                w = pt.stack([first, (1 - first) * rest, (1 - first) * (1 - rest)])
                parts = [pm.Normal.dist(level[group] + k, 1) for k in range(3)]
                pm.Mixture("y", w, parts, observed=x[:, 0])
            elif kind == "sums of weights":
                below = pt.cumsum(pm.Dirichlet("part", np.ones(3)))[:-1]
                cuts = pt.log(below) - pt.log1p(-below)
                pm.OrderedLogistic("y", level[group], cuts, compute_p=False, observed=y)
            elif kind == "covariance":
                sd, r = pm.HalfNormal("sd", 1, shape=2), pm.Beta("r", 2, 2)
                cov = pt.stack([[sd[0] ** 2, r * sd[0] * sd[1]], [r * sd[0] * sd[1], sd[1] ** 2]])
                pm.MvNormal("y", level[group][:, None], cov=cov, observed=x)
            else:
                centred = level - level.mean()
                pm.Bernoulli("y", logit_p=x @ pm.Normal("beta", shape=2) + centred[group], observed=y)
        return model

    return model


def predictors(kind):
    """Entries that depend on each other or on weights, but may be any numbers where records see them."""

    def model():
        group, x, y = data()
        with pm.Model() as model:
            if kind == "shrunk":
                parts = pm.Dirichlet("parts", np.ones(2))
                eta = x @ (pm.Normal("z", shape=2) * pt.sqrt(parts) * pm.HalfNormal("tau"))
            elif kind == "one-hot":
                chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1.0, shape=2))
                effects = pm.Normal("mean", shape=2) + pm.Normal("z", shape=(GROUPS, 2)) @ chol.T
                chosen = np.eye(GROUPS)[group]
                eta = chosen @ effects[:, 0] + (chosen * x[:, :1]) @ effects[:, 1]
            else:
                z = pm.HalfNormal("tau") * pm.Normal("z", shape=(GROUPS, 2))
                centred = z - z.mean(0)
                rows = (centred[group] * x).sum(1)
                eta = rows if kind == "rows" else centred[group, 0] + centred[group, 1] * x[:, 0]
            pm.Bernoulli("y", logit_p=eta, observed=y)
        return model

    return model


# Model, and p; None for the parameters themselves.
MODELS = {
    "banana": (lambda: models.banana(2, N).model, 2),
    "banana in five dimensions": (lambda: models.banana(5, N).model, 5),
    "two outcomes": (two_outcomes, 2),
    **{k: (lambda k=k: hierarchy(k), 7) for k in ("levels", "named", "in one line", "data", "last", "over")},
    "apart": (lambda: hierarchy("apart"), 8),
    "linear": (linear, None),
    "stacked": (stacked, None),
    "more than parameters": (more_than_parameters, None),
    "scales": (scales, None),
    "beta": (positive("beta"), None),
    "gamma": (positive("gamma"), None),
    "gamma of a level": (positive("gamma of a level"), 2),
    "spread over records": (spread_over_records, 1),
    "whole numbers": (whole_numbers, 1),
    "mixture": (normal_mixture, None),
    "product of scales": (product_of_scales("looked up"), 10),
    "quotient of scales": (product_of_scales("over"), 10),
    "product with an exponential": (product_of_scales("an exponential"), 10),
    "sums to zero": (sums_to_zero("alone"), 7),
    "sums to zero, times a scale": (sums_to_zero("times"), 7),
    "sums to zero, with a shear": (sums_to_zero("with a shear"), 8),
    "weights of zeros": (with_levels("zeros"), GROUPS + 1),
    "three weights": (with_levels("three weights"), GROUPS + 2),
    "shrunk": (predictors("shrunk"), 2),
    "one-hot": (predictors("one-hot"), 2 * GROUPS),
    "centred pairs": (predictors("pairs"), 2 * GROUPS),
    "centred rows": (predictors("rows"), 2 * GROUPS),
    "sums of weights": (with_levels("sums of weights"), GROUPS + 2),
    "covariance": (with_levels("covariance"), None),
    "centred": (with_levels("centred"), GROUPS + 2),
}


QUICK = ("banana", "in one line", "linear", "whole numbers", "sums to zero")
NAMES = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_found_is_what_the_likelihood_sees(name):
    """The size; the likelihood as a function of phi is that of theta; the Jacobian is that of phi."""
    make, size = MODELS[name]
    records = RecordModel(make())
    seen = records.coordinates
    assert seen.identity == (size is None)
    assert seen.size == (records.d if size is None else size)
    theta = records._start + 0.3 * np.random.default_rng(1).normal(size=records.d)
    rows = clone_replace(other_records.rows(seen.joined(seen.open_terms)), {seen.vector: seen.of_theta})
    function = pytensor.function([records._theta], rows, mode=gate.CHECK_MODE, on_unused_input="ignore")
    np.testing.assert_allclose(function(theta), records.full_batch.rows(theta), rtol=1e-12, atol=1e-12)
    h = 1e-6 * np.eye(records.d)
    numerical = np.stack([(seen(theta + e) - seen(theta - e)) / 2e-6 for e in h], axis=1)
    np.testing.assert_allclose(seen.jacobian(theta), numerical, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_values_of_the_banana_and_of_a_hierarchy():
    theta = np.array([0.3, -2.0])
    banana = RecordModel(models.banana(2, N, a=20.0).model).coordinates
    np.testing.assert_allclose(banana(theta), [0.3, -2.0 + 20 * 0.3**2], rtol=1e-12)
    # order of the free variables: mean, log tau, beta, z
    theta = np.r_[0.5, -0.7, 1.0, 2.0, np.arange(5.0)]
    for kind in ("named", "in one line"):
        found = RecordModel(hierarchy(kind)).coordinates(theta)
        np.testing.assert_allclose(found, np.r_[1.0, 2.0, 0.5 + np.exp(-0.7) * np.arange(5.0)], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["in one line", "data"])
def test_the_choice_does_not_depend_on_the_records(kind):
    """Other data, enormous ones and all the same too: the same function."""
    theta, found = np.random.default_rng(2).normal(size=9), []
    group, x, y = data(1)
    extreme = x.copy()
    extreme[4] = 1e300
    for records in (data(0), (group, extreme, y), (np.zeros(N, dtype=int), 0 * x, y)):
        seen = RecordModel(hierarchy(kind, records=records)).coordinates
        found.append((seen.size, *seen(theta), *seen.jacobian(theta).ravel()))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize(
    "kind",
    ["zeros", "three weights", "sums of weights", pytest.param("covariance", marks=pytest.mark.exhaustive)],
)
def test_each_coordinate_may_move_by_itself(kind):
    """Outcomes are drawn wherever it goes: of weights ``(1 - psi, psi)`` none was, and nothing was found."""
    records = RecordModel(with_levels(kind)())
    phi = records.coordinates(records._start)
    for k, step in itertools.product(range(len(phi)), (-2.0, 2.0)):
        there = phi + step * (np.arange(len(phi)) == k)
        for chunk in map(call, records.twins(there, 3, PrivacyRandom(debug_seed=1))):
            assert all(np.isfinite(term.group).all() for term in chunk.terms)


@pytest.mark.slow
def test_units_and_copies():
    records = RecordModel(hierarchy("named"), privacy_unit=np.arange(N) % 25)
    theta = np.random.default_rng(3).normal(size=9)
    again = cloudpickle.loads(cloudpickle.dumps(records.coordinates))
    np.testing.assert_array_equal(again(theta), records.coordinates(theta))


@pytest.mark.parametrize("length", [2, 30, None])
def test_a_product_of_parameters_has_two_derivatives(length):
    """PyTensor's derivative of a product has none: what crashed was HSGP with a free length scale."""
    x, y = np.random.default_rng(0).normal(size=(2, N))
    with pm.Model(coords={} if length else {"k": range(5)}) as model:
        scales = pm.LogNormal("scales", 0, 0.1, shape=length, dims=None if length else "k")
        slope = pm.Normal("slope") * pm.math.prod(scales)
        pm.Normal("y", slope * x, 1, observed=y)
    seen = RecordModel(model).coordinates
    theta = np.random.default_rng(1).normal(scale=0.3, size=(length or 5) + 1)
    assert seen.size == 1
    np.testing.assert_allclose(seen(theta), theta[-1] * np.exp(theta[:-1].sum()))
    np.testing.assert_allclose(seen.jacobian(theta)[0, :-1], seen(theta)[0])


def test_entries_that_sum_to_zero_are_looked_up_and_stay_what_they_are_in_the_model():
    records = RecordModel(sums_to_zero("alone")(), verify=False)
    np.testing.assert_array_equal(records.twins.lookups[0], 2 + np.arange(GROUPS)[:, None])
    part = PublicModel(records)
    assert [one.name for one in part.parts] == ["beta", "own"]
    # What a search knows of them is a proper normal distribution, in which they hardly move together.
    variances = np.linalg.eigvalsh(np.linalg.inv(approximate_prior(part, np.zeros(7)).precision)[2:, 2:])
    assert 0.005 < variances[0] / variances[1] < 0.05


def test_a_positive_product_is_seen_by_its_logarithm():
    records = RecordModel(product_of_scales("looked up")(), verify=False)
    theta = np.r_[np.zeros(GROUPS), 0.7, np.arange(5.0)]
    np.testing.assert_allclose(records.coordinates(theta)[GROUPS:], 0.7 + np.arange(5.0), rtol=1e-12)
    assert PublicModel(records).parts[1].name == "log(first * by_group)"
    (found,) = records.twins.lookups
    np.testing.assert_array_equal(np.sort(found, axis=1), np.arange(2 * GROUPS).reshape(2, GROUPS).T)


def test_numbers_that_sum_to_zero_count_as_one_less():
    """Where nothing else is a parameter, they are more than there are parameters."""
    with pm.Model() as model:
        u = pm.ZeroSumNormal("u", 1.0, shape=5)
        pm.Normal("y", u[np.arange(60) % 5], 1.0, observed=np.zeros(60))
    seen = RecordModel(model, verify=False).coordinates
    assert seen.size == 5 and [name for name, _ in seen.names] == ["u"]
