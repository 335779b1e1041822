"""Which bounded variables are coordinates as they are, however a model is written; and how they are found."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_dp.records.model import RecordModel
from pymc_dp.records.several_tables import read_records

RNG = np.random.default_rng(0)
N = 40
X, G = RNG.normal(size=(N, 3)), RNG.integers(0, 4, N)
Y, HITS = RNG.normal(size=N), RNG.integers(0, 2, N)


def positive(name="b", **settings):
    return pm.HalfNormal(name, 1, **settings)


def normal(mu, sigma=1.0):
    pm.Normal("y", mu, sigma, observed=Y)


def logistic(eta):
    pm.Bernoulli("y", logit_p=eta, observed=HITS)


def shifted(mu, t, size):
    return t + pm.LogNormal.dist(mu, 1, size=size)


# What makes the model; which coefficients it has; and where the likelihood is defined.
ANY = (-np.inf, np.inf)
FOUND = {
    "a slope": (lambda: normal(pm.Normal("a") + positive() * X[:, 0]), {"b": ANY}),
    "a mean": (lambda: normal(pm.Uniform("b", 100, 300)), {"b": ANY}),
    "several": (lambda: logistic(pm.Normal("a") + X @ positive(shape=3)), {"b": ANY}),
    "summed": (lambda: logistic(pm.Normal("a") + (X * positive(shape=3)).sum(1)), {"b": ANY}),
    "without an intercept": (lambda: logistic(X @ positive(shape=3)), {"b": ANY}),
    "stacked": (
        lambda: normal(X[:, :2] @ pm.math.stack([positive("b0"), positive("b1")])),
        {"b0": ANY, "b1": ANY},
    ),
    "levels": (lambda: normal(positive(shape=4)[G]), {"b": ANY}),
    "subtracted": (lambda: normal(pm.Normal("a") - positive() / X[:, 0]), {"b": ANY}),
    "cut off": (lambda: normal(pm.TruncatedNormal("b", 0, 1, lower=-1) * X[:, 0]), {"b": ANY}),
    "a share": (
        lambda: (lambda w: normal(w * X[:, 0] + (1 - w) * X[:, 1]))(pm.Beta("b", 1, 1)),
        {"b": ANY},
    ),
    "of a rate": (
        lambda: pm.Poisson("y", positive("b0") + positive("b1") * X[:, 0] ** 2, observed=HITS),
        {"b0": (1e-6, np.inf), "b1": (1e-6, np.inf)},
    ),
    "a shift": (
        lambda: pm.CustomDist("y", pm.Normal("a"), positive(), dist=shifted, observed=np.exp(Y)),
        {"b": (1e-6, np.inf)},
    ),
    "beside groups": (
        lambda: normal(pm.Normal("m") + positive("t") * pm.Normal("z", shape=4)[G] + positive() * X[:, 0]),
        {"b": ANY},
    ),
    "of a scale": (
        lambda: normal(0, pm.Uniform("b0", 1, 3) + pm.Exponential("b1", 1) * X[:, 0] ** 2),
        {"b0": (1 + 1e-6, 3 - 1e-6), "b1": (1e-6, np.inf)},
    ),
    "of a probability": (
        lambda: pm.Bernoulli("y", p=pm.Beta("b0", 1, 1) + 0.1 * pm.Normal("a") * X[:, 0], observed=HITS),
        {"b0": (5e-7, 1 - 5e-7)},
    ),
    "of robust outcomes": (
        lambda: pm.StudentT(
            "y", 4, mu=pm.Normal("a") + positive() * X[:, 0], sigma=positive("s"), observed=Y
        ),
        {"b": ANY},
    ),
    "of thresholds": (
        lambda: pm.OrderedLogistic("y", positive() * X[:, 0], [-1, 1], compute_p=False, observed=HITS),
        {"b": ANY},
    ),
    "of a gap between thresholds": (
        lambda: (
            lambda first: pm.OrderedLogistic(
                "y",
                pm.Normal("a") * X[:, 0],
                pm.math.stack([first, first + positive()]),
                compute_p=False,
                observed=HITS,
            )
        )(pm.Normal("first")),
        {"b": (1e-6, np.inf)},
    ),
    "of counts": (
        lambda: pm.NegativeBinomial(
            "y", mu=pm.math.exp(pm.Normal("a") + positive() * X[:, 0]), alpha=positive("s"), observed=HITS
        ),
        {"b": ANY},
    ),
}
# Beyond the bounds these would have no density, or another one.
FOUND |= {
    "of a chance by a hazard": (
        lambda: pm.Bernoulli(
            "y", p=1 - pm.math.exp(-(positive("b0") + positive("b1") * X[:, 0] ** 2)), observed=HITS
        ),
        {"b0": (1e-6, np.inf), "b1": (1e-6, np.inf)},
    ),
    "of a chance by an odd function": (
        lambda: pm.Bernoulli("y", p=pm.math.tanh(positive("b0") + positive() * X[:, 0] ** 2), observed=HITS),
        {"b0": (1e-6, np.inf), "b": (1e-6, np.inf)},
    ),
    "a gap between cutpoints": (
        lambda: (
            lambda c: pm.OrderedLogistic(
                "y", pm.Normal("a") * X[:, 0], pm.math.stack([c, c + positive()]), observed=HITS
            )
        )(pm.Normal("c")),
        {"b": (1e-6, np.inf)},
    ),
    "a gap between components": (
        lambda: (
            lambda m: pm.NormalMixture(
                "y", [0.3, 0.7], mu=pm.math.stack([m, m + positive()]), sigma=1, observed=Y
            )
        )(pm.Normal("m")),
        {"b": (1e-6, np.inf)},
    ),
    "a gap beside a constant": (
        lambda: pm.NormalMixture(
            "y", [0.3, 0.7], mu=pm.Normal("m") + pm.math.stack([0.0, positive()]), sigma=1, observed=Y
        ),
        {"b": (1e-6, np.inf)},
    ),
    "steps between cutpoints": (
        lambda: pm.OrderedLogistic(
            "y",
            pm.Normal("a") * X[:, 0],
            pt.cumsum(pt.concatenate([[pm.Normal("c")], positive(shape=2)])),
            observed=HITS,
        ),
        {"b": (1e-6, np.inf)},
    ),
    "steps between levels": (
        lambda: normal((pm.Normal("a") + pt.concatenate([[0.0], pt.cumsum(positive(shape=3))]))[G]),
        {"b": ANY},
    ),
    "none at all": (lambda: normal(pm.Normal("a") + X[:, :0] @ positive(shape=0)), {}),
}
OTHERS = {
    "of any size": lambda: normal(pm.Normal("a") + pm.LogNormal("b", 0, 3) * X[:, 0]),
    "of any size, heavy": lambda: normal(pm.Normal("a") + pm.HalfCauchy("b", 25) * X[:, 0]),
    "a scale": lambda: normal(0, positive()),
    "factors of products": lambda: normal(
        (pm.Normal("a") + pt.concatenate([[1.0], pt.cumprod(positive(shape=3))]))[G]
    ),
    "a rate": lambda: pm.Poisson("y", positive(), observed=HITS),
    "a rate by exposure": lambda: pm.Poisson("y", positive() * X[:, 0] ** 2, observed=HITS),
    "a probability": lambda: pm.Bernoulli("y", p=pm.Beta("b", 1, 1), observed=HITS),
    "a factor of another": lambda: normal(pm.Normal("a") * positive() + X[:, 0]),
    "a factor of another's slope": lambda: normal(X[:, 0] + pm.Normal("a") * X[:, 1] * positive()),
    "in a product of matrices": lambda: normal(
        (X @ pm.Normal("a", shape=(3, 2))) @ positive(shape=2) + X[:, 0]
    ),
    "read twice": lambda: (lambda b: normal(pm.Normal("a") + b * X[:, 0], b))(positive()),
    "degrees of freedom": lambda: pm.StudentT("y", nu=pm.Exponential("b", 1) + 1, observed=Y),
    "a shape": lambda: pm.Gamma("y", alpha=positive("b"), beta=positive("c"), observed=np.exp(Y)),
    "within a function": lambda: normal(pm.math.log1p(positive() * X[:, 0] ** 2)),
    "a decay": lambda: normal(pm.math.exp(-positive() * X[:, 0] ** 2)),
    "not bounded": lambda: normal(pm.Normal("b") * X[:, 0]),
    "bounded by another": lambda: normal(pm.Uniform("b", 0, pm.HalfNormal("u", 1)) * X[:, 0]),
}


def coordinates_of(define):
    with pm.Model() as model:
        define()
    return RecordModel(model).coordinates


@pytest.mark.parametrize("name", FOUND)
def test_what_is_only_added_is_a_coordinate_as_it_is(name):
    define, expected = FOUND[name]
    found = coordinates_of(define)
    bounds = {rv.name: ends for rv, ends in found.bounds.items()}
    assert bounds.keys() == expected.keys()
    for one, ends in expected.items():
        np.testing.assert_allclose(bounds[one], ends, rtol=1e-5)
    # As it is: of zeros, what the sampler has of a positive number, it is one.
    if name == "a slope":
        np.testing.assert_array_equal(found(np.zeros(2)), [0.0, 1.0])


@pytest.mark.parametrize("name", OTHERS)
def test_scales_rates_and_shapes_stay_as_a_sampler_has_them(name):
    assert not coordinates_of(OTHERS[name]).bounds


def test_a_scale_of_effects_of_persons_stays_a_spread():
    with pm.Model() as model:
        person = pm.Data("person", np.arange(N) // 4)
        z, tau = pm.Normal("z", shape=N // 4), positive("tau")
        normal(pm.Normal("a") + positive() * X[:, 0] + tau * z[person])
    found = read_records(model, integrate=True, privacy_unit="person").coordinates
    assert [rv.name for rv in found.bounds] == ["b"] and [rv.name for rv in found.spreads] == ["tau"]
