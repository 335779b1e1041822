"""Surrogates in likelihood coordinates that are not the parameters."""

import itertools

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from xarray import open_datatree

import pymc_dp as dp
from pymc_dp.control_variates import ControlVariates
from pymc_dp.control_variates.curvature import prior_curvature, root_of_square
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.releases import GRID, Releases
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.residuals import Residuals
from tests.conftest import NUMBA
from tests.control_variates.fixed import SENSITIVITY, every_release
from tests.control_variates.test_residuals import (
    CENTRE,
    METRIC,
    POINT,
    log_likelihoods,
    surrogate,
    surrogates,
)

# Seeds are fixed.
pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.sampling.NotPrivateWarning")
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
N = 60


def data(seed=0, n=N):
    r = np.random.default_rng(seed)
    return r.normal(size=n), r.integers(2, size=n), r.integers(2, size=n)


def two_levels(x, group, y):
    """Slopes of two groups, not centred: theta = (mean, log tau, z), phi = slope."""
    with pm.Model() as model:
        mean, tau = pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1)
        z = pm.Normal("z", shape=2)
        pm.Bernoulli("y", logit_p=pm.Data("x", x) * (mean + tau * z)[group], observed=y)
    return model


def phi(theta):
    return theta[0] + np.exp(theta[1]) * theta[2:]


# A point with phi = POINT, and two others.
C = np.r_[0.1, -0.5, (POINT - 0.1) * np.exp(0.5)]
THETA, NEW = np.array([0.6, 0.4, 0.5, -0.3]), np.array([-0.2, -0.8, -1.0, 0.9])


def at_c(**changes):
    return surrogate(point=C, phi=POINT, **changes)


@pytest.mark.parametrize("people", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_residuals_and_surrogates_are_the_log_likelihood(people):
    """Against formulas in phi; the displacement of theta in place of that of phi would be noticed."""
    x, group, y = data()
    units = np.arange(N) % 25 if people else np.arange(N)
    records = RecordModel(two_levels(x, group, y), privacy_unit=units if people else None)
    assert records.coordinates.size == 2 and records.d == 4
    released = at_c(gradient_bound=0.15, hessian_bound=0.03)
    columns = x[:, None] * np.eye(2)[group]
    residuals = Residuals(records)
    residuals.expand(released.expansion(records))
    exact, left, linear = {}, {}, {}
    rounding = 1e-12 if people else 1e-7  # of clip factors, in single precision with predictors
    jacobian = records.coordinates.jacobian(C)
    for name, at in (("theta", THETA), ("new", NEW)):
        exact[name] = np.bincount(units, log_likelihoods(columns, y, phi(at)))
        bounds = {"bound": 0.15, "hessian_bound": 0.03}
        left[name] = exact[name] - surrogates(columns, y, phi(at), units, **bounds)
        tangent = POINT + jacobian @ (at - C)
        linear[name] = exact[name] - surrogates(columns, y, tangent, units, **bounds)
        found = residuals.full_batch.rows(at)
        np.testing.assert_allclose(found, left[name], rtol=0, atol=rounding)
        assert np.abs(found - linear[name]).max() > 1e-3  # control
    drawn = np.array([3, 7, 7, 0, 24])
    found = residuals.ratios(THETA, NEW, drawn)
    np.testing.assert_allclose(found, (left["new"] - left["theta"])[drawn], rtol=0, atol=rounding)
    assert np.abs(found - (linear["new"] - linear["theta"])[drawn]).max() > 1e-3  # control
    slope, curvature = released.public()
    delta = phi(NEW) - POINT
    public = records.log_prior(NEW) + slope @ delta + 0.5 * delta @ curvature @ delta
    assert residuals.log_prior(NEW) == pytest.approx(public, rel=1e-12)
    gradient = records.coordinates.jacobian(NEW).T @ (slope + curvature @ delta)
    np.testing.assert_allclose(
        residuals.log_prior_gradient(NEW), records.log_prior_gradient(NEW) + gradient, rtol=1e-10
    )


KINDS = every_release(POINT, METRIC, CENTRE, 0.05, 0.01, 0.02, (C, [THETA, NEW, 5 * NEW]))


@pytest.mark.slow
def test_one_record_moves_each_sum_by_its_sensitivity_at_most():
    """Neighbours through a PyMC model, covariates of one record from 0 to 1e200, either outcome."""
    x, group, y = data()
    model = two_levels(x, group, y)
    records, found = RecordModel(model), {kind: [] for kind in KINDS}
    for last in (0.0, 1.0, -1.0, 30.0, -1e3, 1e60, -1e200):
        x[-1] = last
        pm.set_data({"x": x}, model=model)
        for kind, make in KINDS.items():
            made = Releases(records, ControlVariates(), np.inf, PrivacyRandom(0))
            made._left = [(kind, 1.0)]
            found[kind].append(make(made))
    for kind, values in found.items():
        most = max(np.linalg.norm(a - b) for a, b in itertools.combinations(values, 2))
        assert most <= SENSITIVITY[kind] * (1 + 1e-9), kind
        assert most > 0.2, f"control: {kind} moves"


@pytest.mark.slow
def test_one_record_moves_one_residual():
    """By twice the clip bound at most, in the sum; others are what they were."""
    x, group, y = data()
    model = two_levels(x, group, y)
    records = RecordModel(model)
    residuals, totals, rows = Residuals(records), [], []
    for last in (0.0, 30.0, -30.0, 1e60):
        x[-1] = last
        pm.set_data({"x": x}, model=model)
        residuals.expand(at_c().expansion(records))
        before, _ = residuals.full_batch.at(THETA)
        totals.append(residuals.full_batch(NEW, before, 0.01).total)
        rows.append(residuals.full_batch.rows(NEW))
    assert 0 < max(totals) - min(totals) <= 2 * GRID
    assert all(np.array_equal(r[:-1], rows[0][:-1]) for r in rows) and rows[1][-1] != rows[0][-1]


def test_precision_and_refusals_in_phi():
    """Of a posterior known in closed form, with more parameters than likelihood coordinates."""
    records = RecordModel(two_levels(*data()))
    jacobian, prior = records.coordinates.jacobian(C), prior_curvature(records, C)
    released = at_c(noise_aware=False, metric=0.3 * np.eye(2))
    expected = -released.tempering * jacobian.T @ released.hessian @ jacobian + prior
    assert np.linalg.eigvalsh(expected).min() > 0
    np.testing.assert_allclose(released.precision(prior, jacobian), expected, rtol=1e-8, atol=1e-10)
    # Noise that moves the posterior by exactly its standard deviation in the worst direction of phi.
    covariance = jacobian @ np.linalg.inv(expected) @ jacobian.T
    slope = -released.tempering * jacobian.T @ released.gradient
    for ratio, refused in ((8.9, False), (9.1, True)):
        noise = ratio * np.linalg.inv(covariance) / released.tempering**2
        found = at_c(noise_aware=False, metric=0.3 * np.eye(2), gradient_noise=noise)
        problem = found.problem(prior, slope, jacobian, 100, 1.0)
        assert (problem is not None) == refused
        assert problem is None or "9.1 times" in problem


def test_a_metric_of_fewer_coordinates_than_parameters():
    matrix = np.random.default_rng(0).normal(size=(2, 5))
    root = root_of_square(matrix, [np.arange(2)])
    np.testing.assert_allclose(root @ root, matrix @ matrix.T, rtol=1e-12)
    np.testing.assert_allclose(root, root.T)
    apart = root_of_square(matrix, [np.array([0]), np.array([1])])
    np.testing.assert_allclose(apart, np.diag(np.linalg.norm(matrix, axis=1)))


# the banana


@pytest.fixture(scope="module")
def banana():
    problem = dp.models.banana(2, 2000, a=2.0, seed=2)
    step = dp.DPPenaltyMH(
        epsilon=200.0, delta=1e-6, chains=1, control_variates=True, model=problem.model, debug_seed=1
    )
    idata = dp.sample(step, draws=8, tune=0, random_seed=1, cores=1, model=problem.model, **QUIET)
    return problem, step, idata


@pytest.mark.slow
def test_draws_from_the_stored_surrogate_are_a_banana(banana, tmp_path):
    """Straightened, prior times surrogate is normal; moments with a fifth of the draws as effective."""
    problem, step, idata = banana
    dp.release(idata).to_netcdf(tmp_path / "released.nc", engine="netcdf4")
    stored = open_datatree(tmp_path / "released.nc", engine="netcdf4")
    found = dp.surrogate_of(stored)
    for name, value in vars(step.surrogate).items():
        np.testing.assert_array_equal(getattr(found, name), value)
    number = 500
    theta = dp.surrogate_draws(stored, problem.model, number, random_seed=3)["theta"].to_numpy()[0]
    straight = np.column_stack([theta[:, 0], theta[:, 1] + 2 * theta[:, 0] ** 2])
    mean, covariance = straight_moments(found)
    sd = np.sqrt(np.diag(covariance))
    z = (straight.mean(axis=0) - mean) / (sd / np.sqrt(number / 5))
    assert np.all(np.abs(z) < 5)  # false alarms: below 1e-6
    np.testing.assert_allclose(straight.std(axis=0), sd, rtol=0.25)
    # control: what is not straightened is bent
    bent = np.cov(theta[:, 1], (theta[:, 0] - mean[0]) ** 2)
    assert bent[0, 1] / bent[1, 1] == pytest.approx(-2.0, abs=1.0)


@pytest.mark.slow
def test_another_bend_is_another_model(banana):
    _, _, idata = banana
    other = dp.models.banana(2, 2000, a=1.0, m=0.5, seed=2).model
    with pytest.raises(dp.PrivacyError, match="another model"):
        dp.surrogate_draws(idata, other)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [dp.DPFastMH, dp.DPHMC])
@pytest.mark.usefixtures("little_tuning")
def test_other_steps_and_copies(banana, cls):
    """They run on the same surrogate, and a copied step too."""
    problem, released, _ = banana
    step = cls(epsilon=200.0, delta=1e-6, chains=1, control_variates=True, model=problem.model)
    step._call.slots.once(released.surrogate.to_json)
    step.setup_chain(np.random.default_rng(0), 0, 6)
    point = problem.model.initial_point(0)
    for _ in range(6):
        point, _ = step.step(point)
    theta = step.records.ravel(point)
    straight = np.array([theta[0], theta[1] + 2 * theta[0] ** 2])
    posterior = problem.posterior
    # false alarms: below 1e-6 for one coordinate, intervals being at most a little widened
    assert np.all(np.abs(straight - posterior.location) < 6 * np.sqrt(posterior.variances))
    cloudpickle.loads(cloudpickle.dumps(step))


@pytest.mark.slow
def test_the_banana_of_the_thesis():
    """Mean distance of prior times surrogate to the posterior at epsilon = 4, over three surrogates."""
    problem = dp.models.banana(2, 100_000, a=20.0, seed=0)
    records = RecordModel(problem.model, compile_kwargs=NUMBA)
    squared, rng, found, moved = float(gaussian.mu(4.0, 1e-6)) ** 2, np.random.default_rng(0), [], []
    exact = problem.posterior_draws(1000, rng)
    for seed in range(3):
        finder = Finder(records, ControlVariates(), squared, PrivacyRandom(seed), 1.0, 4.0)
        theta = banana_draws(finder(records._start), rng, 1000)
        found.append(dp.metrics.mmd(theta, exact))
        moved.append(dp.metrics.mmd(theta + 0.3 * exact.std(axis=0), exact))
    assert np.mean(found) < 0.10
    assert np.mean(moved) > 0.10  # control


def banana_draws(surrogate, rng, number):
    """Exact ones: straightened, prior times surrogate is normal; the Jacobian is 1."""
    mean, covariance = straight_moments(surrogate)
    z = rng.multivariate_normal(mean, covariance, size=number)
    return np.column_stack([z[:, 0], z[:, 1] - 20 * z[:, 0] ** 2])


def straight_moments(surrogate):
    slope, curvature = surrogate.public()
    covariance = np.linalg.inv(np.eye(2) / 1000 - curvature)
    return covariance @ (slope - curvature @ surrogate.phi), covariance
