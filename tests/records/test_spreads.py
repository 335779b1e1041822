"""Which free variables are spreads of persons' effects, however a model is written."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_dp.records.model import RecordModel
from pymc_dp.records.spreads import find_spreads

N = 30


def scale(**settings):
    return pm.HalfNormal("x", 2, **settings)


def effects(*parameters, **settings):
    return pm.Normal("u", *parameters, shape=N, **settings)


def gamma(**parameters):
    return pm.math.log(pm.Gamma("u", **parameters, shape=N))


def shape_and_rate():
    alpha = pm.LogNormal("x", 1, 1)
    return gamma(alpha=alpha, beta=alpha)


# What is added for each person; the power of x that is its variance, and the public offset.
FOUND = {
    "centred": (lambda: effects(0, scale()), 2, 4.0),
    "around a mean": (lambda: effects(pm.Normal("m"), scale()), 2, 4.0),
    "not centred": (lambda: scale() * effects(), 2, 4.0),
    "with a factor": (lambda: effects() * (0.5 * scale()), 2, 4.0),
    "a Deterministic": (lambda: pm.Deterministic("d", effects() * scale()), 2, 4.0),
    "a precision": (lambda: effects(0, tau=pm.Exponential("x", 4)), -1, 4.0),
    "a variance": (lambda: effects(0, pm.math.sqrt(pm.Exponential("x", 0.25))), 1, 4.0),
    "a logarithm": (lambda: effects(0, pm.math.exp(pm.Normal("x", 0.5, 1))), 2, 2.7),
    "a logarithm that multiplies": (lambda: pm.math.exp(pm.Normal("x", 0.5, 1)) * effects(), 2, 2.7),
    "small": (lambda: effects(0, pm.HalfNormal("x", 0.01)), 2, 1.0),
    "very small": (lambda: effects(0, pm.HalfNormal("x", 1e-6)), 2, 1e-4),
    "below a bound": (lambda: effects(0, pm.Uniform("x", 0, 4)), 2, 4.0),
    "gamma": (shape_and_rate, -1, 1.0),
    "gamma by its spread": (lambda: gamma(mu=1, sigma=scale()), 2, 4.0),
    "Student's t": (lambda: pm.StudentT("u", 4, sigma=scale(), shape=N), 2, 4.0),
    "Laplace": (lambda: pm.Laplace("u", 0, scale(), shape=N), 2, 4.0),
    "two each": (lambda: (pm.Normal("u", shape=(N, 2)) * scale(shape=2)).sum(axis=1), 2, 4.0),
    "two each, centred": (lambda: pm.Normal("u", 0, scale(shape=2), shape=(N, 2)).sum(axis=1), 2, 4.0),
}
OTHERS = {
    "not positive": lambda: pm.Normal("x", 1, 1) * effects(),
    "above another bound": lambda: effects(0, pm.Uniform("x", 0.5, 4)),
    "of the mean": lambda: gamma(alpha=pm.LogNormal("x", 0, 1), beta=1),
    "two parameters": lambda: gamma(alpha=pm.LogNormal("x", 0, 1), beta=pm.LogNormal("z", 0, 1)),
    "of their sum": lambda: effects(0, scale() + pm.HalfNormal("z", 1)),
    "of their product": lambda: effects(0, scale() * pm.HalfNormal("z", 1)),
    "constant": lambda: effects() + 0 * scale(),
    "of items": lambda: (effects()[:, None] * scale(shape=5)).sum(axis=1),
    "a logarithm between bounds": lambda: effects(0, pm.math.exp(pm.Uniform("x", -2, 2))),
    "of what is not around zero": lambda: pm.Normal("x", 1, 1) + pm.HalfNormal("t", 1) * effects(1, 1),
    "of a rate": lambda: pm.HalfNormal("x", 1) * pm.Gamma("u", 2, 2, shape=N),
    "of an exponential": lambda: pm.HalfNormal("x", 1) * pm.math.exp(effects()),
    "of the outcome": lambda: effects() / pt.sqrt(scale() + 1),
}


def spreads_of(define):
    with pm.Model() as model:
        level = define()
        pm.Normal("y", level, 1, observed=np.zeros(N))
    point = model.initial_point()
    free = [rv for rv in model.free_RVs if rv.name != "u"]
    start = {rv: np.asarray(point[model.rvs_to_values[rv].name]) for rv in free}
    transforms = {rv: model.rvs_to_transforms[rv] for rv in free}
    return find_spreads([model["y"]], [model["u"]] if "u" in model.named_vars else [], transforms, start)


@pytest.mark.parametrize("name", FOUND)
def test_a_spread_is_found_with_its_power(name):
    define, power, offset = FOUND[name]
    ((variable, found),) = spreads_of(define).items()
    assert variable.name == "x"
    assert found.power == power and found.offset == pytest.approx(offset, rel=1e-9)
    phi = np.array([-2.0, 0.3])
    expected = np.log(found.numbers(phi) ** power + offset)
    np.testing.assert_allclose(found.coordinate(pt.as_tensor(phi)).eval(), expected)


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_spread_is_not_taken_for_one(name):
    assert not spreads_of(OTHERS[name])


@pytest.mark.parametrize(
    ("power", "offset", "outcome"),
    [
        (-1, 1.0, lambda x: pm.NegativeBinomial("y", mu=2, alpha=x, observed=np.zeros(N, dtype=int))),
        (-1, 1.0, lambda x: pm.ZeroInflatedNegativeBinomial("y", 0.5, 2, x, observed=np.zeros(N, dtype=int))),
        (-1, 1.0, lambda x: pm.StudentT("y", nu=x, observed=np.zeros(N))),
        (-1, 1.0, lambda x: pm.Censored("y", pm.StudentT.dist(nu=x), -1, 1, observed=np.zeros(N))),
        (1, 2.7, lambda x: pm.StudentT("y", nu=1 / x, observed=np.zeros(N))),
    ],
)
def test_the_inverse_of_a_shape_may_be_zero(power, offset, outcome):
    with pm.Model() as model:
        x = pm.LogNormal("x", 1.0, 1)
        outcome(x)
    point = {x: np.asarray(model.initial_point()["x_log__"])}
    ((variable, found),) = find_spreads([model["y"]], [], {x: model.rvs_to_transforms[x]}, point).items()
    assert variable is x and found.power == power
    assert found.offset == pytest.approx(offset, rel=0.9)


def test_a_size_is_no_shape():
    with pm.Model() as model:
        x = pm.LogNormal("x", 1.0, 1)
        pm.NegativeBinomial("y", n=x, p=pm.Beta("p", 1, 1), observed=np.zeros(N, dtype=int))
    free = {rv: model.rvs_to_transforms[rv] for rv in model.free_RVs}
    assert not find_spreads([model["y"]], [], free, dict.fromkeys(free, np.zeros(())))


@pytest.mark.parametrize("centred", [True, False])
def test_of_a_covariance_it_is_the_diagonal(centred):
    def own():
        chol = pm.LKJCholeskyCov("x", n=3, eta=1, sd_dist=pm.HalfNormal.dist(1, shape=3))[0]
        if centred:
            return pm.MvNormal("u", 0, chol=chol, shape=(N, 3)).sum(axis=1)
        return (pm.Normal("u", shape=(N, 3)) @ chol.T).sum(axis=1)

    ((variable, found),) = spreads_of(own).items()
    assert variable.name == "x" and found.power == 2 and found.places == (0, 2, 5)
    phi = np.array([0.1, 7.0, -0.4, 8.0, 9.0, 0.3])
    psi = found.coordinate(pt.as_tensor(phi)).eval()
    np.testing.assert_allclose(psi[[1, 3, 4]], phi[[1, 3, 4]])
    np.testing.assert_allclose(psi[[0, 2, 5]], np.log(np.exp(2 * phi[[0, 2, 5]]) + found.offset))


def test_what_another_coordinate_reads_too_stays_a_logarithm():
    """Below a hyperprior the other one is ``log(alpha) - log(mu)``: together they are straight."""
    with pm.Model() as model:
        mu, alpha = pm.LogNormal("mu", pm.Normal("m"), 1), pm.LogNormal("alpha", 1, 1)
        pm.NegativeBinomial("y", mu=mu, alpha=alpha, observed=np.arange(N) % 4)
    seen = RecordModel(model).coordinates
    assert len(seen.sources) == 2 and not seen.spreads


@pytest.mark.parametrize("initial", [1e-170, 1e170])
def test_a_variance_that_is_no_number_is_not_followed(initial):
    assert not spreads_of(lambda: effects(0, pm.HalfNormal("x", 1, initval=initial)))


def test_a_variable_is_what_the_sampler_has_of_it():
    for name in ("centred", "below a bound"):
        ((_, found),) = spreads_of(FOUND[name][0]).items()
        numbers = np.array([1e-3, 0.5, 3.0])
        np.testing.assert_allclose(found.numbers(found.phi(numbers)), numbers, rtol=1e-12)
