"""How levels of groups are written for a sampler."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_dp.likelihood.parametrization import Estimates, NotCentred, PartlyCentred, centring_of
from tests.conftest import NUMBA

PARTS = np.array([0.0, 0.3, 1.0])


def test_it_is_a_change_of_variables():
    """Back and forth, and the logarithm of the derivative, against differences."""
    location, scale, value = pt.dscalar(), pt.dscalar(), pt.dvector()
    transform = PartlyCentred(PARTS)
    forward = transform.forward(value, location, scale)
    back = transform.backward(forward, location, scale)
    log_jacobian = transform.log_jac_det(forward, location, scale)
    levels, step = np.array([1.0, -2.0, 0.5]), 1e-6
    function = pytensor.function([value, location, scale], [forward, back, log_jacobian])
    sampled, again, log_derivative = function(levels, 0.7, 0.2)
    np.testing.assert_allclose(again, levels, rtol=1e-12)
    np.testing.assert_allclose(sampled[[0, 2]], [(1.0 - 0.7) / 0.2, 0.5], rtol=1e-12)
    slopes = (function(levels + step, 0.7, 0.2)[0] - sampled) / step
    np.testing.assert_allclose(-np.log(slopes), log_derivative, rtol=1e-5, atol=1e-5)


def test_the_law_of_levels_stays():
    """The density of levels, and of their mean and scale, is the same: with the derivative, at one point."""
    with pm.Model() as model:
        mean, spread = pm.Normal("m", 0, 1), pm.HalfNormal("s", 1)
        level = pm.StudentT("level", 4, mu=mean, sigma=spread, shape=3, default_transform=None)
        other = pm.StudentT("other", 4, mu=mean, sigma=spread, shape=3, transform=PartlyCentred(PARTS))
    values = {"m": 0.4, "s_log__": np.log(0.3), "level": np.array([0.1, 0.9, -0.4])}
    values["other_centring__"] = PARTS * 0.4 + 0.3 ** (PARTS - 1) * (values["level"] - 0.4)
    found = model.compile_fn(model.logp(vars=[level, other], sum=False))(values)
    np.testing.assert_allclose(found[1] - found[0], (1 - PARTS) * np.log(0.3), rtol=1e-9)


def test_vectors_of_a_covariance_are_changed_and_their_law_stays():
    """Against NumPy's Cholesky factor, at one point."""
    with pm.Model() as model:
        spreads, mean = pm.HalfNormal("s", 1, shape=2), pm.Normal("m", 0, 1, shape=2)
        root = pt.stack([pt.stack([spreads[0], 0.0]), pt.stack([0.3, spreads[1]])])
        level = pm.MvNormal("level", mean, chol=root, shape=(3, 2))
        other = pm.MvNormal("other", mean, chol=root, shape=(3, 2), transform=NotCentred())
    rng = np.random.default_rng(0)
    values = {"m": np.array([0.4, -0.2]), "s_log__": np.log([0.5, 0.8]), "level": rng.normal(size=(3, 2))}
    factor = np.array([[0.5, 0.0], [0.3, 0.8]])
    values["other_centring__"] = np.linalg.solve(factor, (values["level"] - values["m"]).T).T
    found = model.compile_fn(model.logp(vars=[level, other], sum=False))(values)
    np.testing.assert_allclose(found[1] - found[0], np.log(0.5 * 0.8), rtol=1e-9)
    level = values.pop("level")
    drawn = model.compile_fn(model.replace_rvs_by_values([other])[0])(values)
    np.testing.assert_allclose(drawn, level, rtol=1e-9)


@pytest.mark.parametrize(("information", "kind"), [(1e-3, NotCentred), (1e3, type(None))])
def test_vectors_are_centred_where_data_say_much_of_them(information, kind):
    with pm.Model() as model:
        factor = pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=pm.HalfNormal.dist(1), compute_corr=False)
        factor = pm.math.expand_packed_triangular(2, factor)
        pm.MvNormal("x", np.zeros(2), chol=factor, shape=(4, 2))
        pm.MvNormal("y", np.zeros(2), cov=np.eye(2), shape=(4, 2))
    told = Estimates(np.c_[LEVELS, LEVELS], np.full((4, 2), information))
    assert isinstance(centring_of(model["x"], set(model.free_RVs), told), kind)
    assert centring_of(model["y"], set(model.free_RVs), told) is None


def parts_of(define, mode, information, told=True):
    """What is kept of the variable ``x``; None where it is sampled as it is."""
    with pm.Model() as model:
        define()
    about = Estimates(np.asarray(mode, float), np.asarray(information, float)) if told else None
    found = centring_of(model["x"], set(model.free_RVs), about)
    return None if found is None else found._kept


LEVELS = np.array([1.0, -1.0, 2.0, -2.0])


@pytest.mark.parametrize(
    "define",
    [
        lambda: pm.Normal("x", 0, 1, shape=4),
        lambda: pm.Normal("x", pm.Normal("m"), 2.0, shape=4),
        lambda: pm.Normal("x", 0, pm.HalfNormal("s")),
        lambda: pm.Gamma("x", 2, pm.HalfNormal("s"), shape=4),
        lambda: pm.LogNormal("x", 0, pm.HalfNormal("s"), shape=4),
    ],
)
def test_what_has_no_spread_that_is_sampled_stays_as_it_is(define):
    assert parts_of(define, LEVELS, np.full(4, 1e-3)) is None


def test_levels_are_kept_where_data_say_much_of_them():
    def define():
        pm.Normal("x", pm.Normal("m"), pm.HalfNormal("s"), shape=4)

    assert np.all(parts_of(define, LEVELS, np.full(4, 1e4)) > 0.99)
    assert np.all(parts_of(define, LEVELS, np.full(4, 1e-4)) < 0.01)
    some = parts_of(define, LEVELS, [1e-4, 1e4, 1e4, 1e4])
    assert some[0] < 0.01 and np.all(some[1:] > 0.99)
    assert np.all(parts_of(define, LEVELS, np.zeros(4)) == 0)
    assert np.all(parts_of(define, np.ones(4), np.full(4, 10.0)) == 0)  # no further than their noise
    assert parts_of(define, None, None, told=False) == 0
    # By hand: the variance is (100 - 3) / (40 - 10), with squares that sum up to 100.
    np.testing.assert_allclose(
        parts_of(define, LEVELS, np.full(4, 10.0)), 1 / (1 + 30 / (10 * 97)), rtol=1e-9
    )


def test_a_level_with_a_scale_of_its_own_is_kept_where_it_is_far_from_the_others():
    def define():
        pm.Normal("x", 0, pm.HalfCauchy("s", 1, shape=4), shape=4)

    found = parts_of(define, [0.0, 0.1, -0.1, 3.0], np.full(4, 100.0))
    assert found[3] > 0.9
    assert np.all(parts_of(define, [0.0, 0.1, -0.1, 0.05], np.full(4, 10.0)) == 0)


def test_each_scale_has_its_own_levels():
    """Two columns with a scale each: of one much is told, of the other nothing."""

    def define():
        pm.Laplace("x", 0, pm.HalfNormal("s", shape=2), shape=(4, 2))

    found = parts_of(define, np.c_[LEVELS, LEVELS], np.c_[np.full(4, 1e4), np.full(4, 1e-4)])
    assert np.all(found[:, 0] > 0.99) and np.all(found[:, 1] < 0.01)


def least_effective(transform):
    """Least effective number of draws of a spread, of levels of which a likelihood says little."""
    with pm.Model() as model:
        spread = pm.HalfNormal("s", 1)
        level = pm.Normal("x", pm.Normal("m", 0, 1), spread, shape=30, transform=transform)
        pm.Potential("told", -0.25 * (level**2).sum())
        settings = {
            "progressbar": False,
            "cores": 1,
            "compute_convergence_checks": False,
            "compile_kwargs": NUMBA,
        }
        found = pm.sample(500, tune=500, chains=2, random_seed=1, model=model, **settings)
    return float(az.ess(found.posterior.dataset)["s"])


@pytest.mark.filterwarnings("ignore")
def test_samplers_do_not_get_stuck_where_little_is_told():
    """A fixed seed: 650 effective draws of 1,000; the control, levels as they are, has 31."""
    assert least_effective(PartlyCentred(np.zeros(30))) > 300
    assert least_effective(None) < 150
