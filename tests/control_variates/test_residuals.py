"""Residuals and surrogate add up to the log-likelihood; moves on the public density leave it invariant."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from arviz_stats.base import array_stats
from scipy import stats

from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.errors import PrivacyError
from pymc_dp.records.model import RecordModel
from pymc_dp.records.public_moves import PublicTransitions
from pymc_dp.records.residuals import Residuals
from tests.conftest import logistic_model, simple_data

ALPHA = 1e-6
POINT, METRIC, CENTRE = np.array([0.4, -0.3]), np.array([[0.3, 0.1], [0.0, 0.4]]), np.array([0.05, -0.02])


def surrogate(**changes):
    values = {
        "point": POINT,
        "phi": POINT,
        "metric": METRIC,
        "centre": CENTRE,
        "gradient_bound": 0.08,
        "hessian_bound": 0.008,
        "gradient": np.array([1.0, -2.0]),
        "gradient_noise": np.array([[2.0, 0.3], [0.3, 1.0]]),
        "hessian": np.array([[-9.0, 1.0], [1.0, -7.0]]),
        "hessian_noise": 0.1,
        "tempering": 0.7,
    }
    return Surrogate(**(values | changes))


def log_likelihoods(x, y, theta):
    t = x @ theta
    return y * t - np.logaddexp(0, t)


def surrogates(x, y, theta, units, kept=np.float64, bound=0.08, hessian_bound=0.008):
    """q_i from the formulas of the logistic model, derivatives added over a unit before they are clipped.

    Clip factors of gradients are rounded as they are `kept`.
    """
    delta = theta - POINT
    p = 1 / (1 + np.exp(-x @ POINT))
    gradients = np.zeros((units.max() + 1, 2))
    hessians = np.zeros((units.max() + 1, 2, 2))
    np.add.at(gradients, units, (y - p)[:, None] * x)
    np.add.at(hessians, units, -(p * (1 - p))[:, None, None] * x[:, :, None] * x[:, None, :])
    f = np.minimum(1, bound / np.linalg.norm((gradients - CENTRE) @ METRIC.T, axis=1))
    f = f.astype(kept).astype(np.float64)
    k = np.minimum(1, hessian_bound / np.linalg.norm(METRIC @ hessians @ METRIC.T, axis=(1, 2)))
    assert 0.1 < np.mean(f < 1) < 0.9 and 0.1 < np.mean(k < 1) < 0.9
    linear = (CENTRE + f[:, None] * (gradients - CENTRE)) @ delta
    return linear + 0.5 * k * np.einsum("i,nij,j", delta, hessians, delta)


@pytest.mark.slow
@pytest.mark.parametrize("people", [False, True])
def test_residuals_and_surrogates_are_the_log_likelihood(people):
    x, y = simple_data(n=60)
    units = np.arange(60) % 25 if people else np.arange(60)
    records = RecordModel(logistic_model(), privacy_unit=units if people else None)
    residuals = Residuals(records)
    residuals.expand(surrogate().expansion(records))
    theta, new = np.array([1.3, 0.9]), np.array([-0.7, 0.2])
    exact, left, found = {}, {}, {}
    for name, at in (("centre", POINT), ("theta", theta), ("new", new)):
        exact[name] = np.bincount(units, log_likelihoods(x, y, at))
        left[name] = exact[name] - surrogates(x, y, at, units, np.float64 if people else np.float32)
        found[name] = residuals.full_batch.rows(at)
        # All but a constant of the record's.
        moved = found[name] - found["centre"]
        np.testing.assert_allclose(moved, left[name] - left["centre"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["centre"], exact["centre"], rtol=0, atol=1e-6)
    drawn = np.array([3, 7, 7, 0, 24])
    np.testing.assert_allclose(
        residuals.ratios(theta, new, drawn), (left["new"] - left["theta"])[drawn], rtol=0, atol=1e-12
    )
    assert np.abs(left["new"] - exact["new"]).max() > 0.01  # control: the surrogate is not nothing
    # the public part: prior and a quadratic
    slope, curvature = surrogate().public()
    delta = new - POINT
    public = records.log_prior(new) + slope @ delta + 0.5 * delta @ curvature @ delta
    assert residuals.log_prior(new) == pytest.approx(public, rel=1e-12)
    np.testing.assert_allclose(
        residuals.log_prior_gradient(new), records.log_prior_gradient(new) + slope + curvature @ delta
    )
    residuals.forget()
    assert not np.allclose(residuals.full_batch.rows(new), left["new"])


def test_predictors_far_from_zero():
    """A normal likelihood is quadratic: nothing is left of it, whatever is rounded of a predictor of 1e6."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.9e6, 1.1e6, size=(50, 2))
    y = x.mean(axis=1) + rng.normal(size=50)
    with pm.Model() as model:
        b = pm.Normal("b", 1.0, 1.0, shape=2)
        pm.Normal("y", x @ b, 1.0, observed=y)
    records = RecordModel(model)
    residuals = Residuals(records)
    at, one = np.array([0.5, 0.5 + 1e-7]), np.eye(2)
    values = {"point": at, "phi": at, "metric": 1e-7 * one, "centre": np.zeros(2), "gradient_bound": 1e3}
    values |= {"hessian_bound": 1e3, "gradient": np.zeros(2), "gradient_noise": one, "hessian": -one}
    residuals.expand(surrogate(**values).expansion(records))
    theta, new = at - 1e-6, at + 2e-6
    (kept,) = residuals._by_predictors._origin
    rounded_off = x @ at - kept.get_value().astype(np.float64)
    moved = rounded_off * (x @ (new - theta))
    # Control: without what makes up for it so much would be left.
    assert kept.get_value().nbytes == 4 * len(x) and np.abs(moved).max() > 0.03
    rows = residuals.full_batch.rows
    np.testing.assert_allclose(rows(new) - rows(theta), 0.0, atol=1e-8)
    np.testing.assert_allclose(residuals.ratios(theta, new, np.arange(50)), 0.0, atol=1e-8)
    assert np.abs(records.ratios(theta, new, np.arange(50))).max() > 1


def test_a_surrogate_as_text():
    one = surrogate()
    again = Surrogate.from_json(one.to_json())
    for name, value in vars(one).items():
        np.testing.assert_array_equal(getattr(again, name), value)


def test_the_widened_target_is_the_posterior_given_the_noisy_gradient():
    """Mode, and covariance H^-1 + H^-1 Sigma H^-1, of a Gaussian model's tempered likelihood."""
    one = surrogate()
    slope, curvature = one.public()
    t, h = one.tempering, -one.hessian
    inverse = np.linalg.inv(t * h)
    covariance = inverse + inverse @ (t**2 * one.gradient_noise) @ inverse
    np.testing.assert_allclose(-np.linalg.inv(curvature), covariance, rtol=1e-10)
    np.testing.assert_allclose(np.linalg.solve(-curvature, slope), inverse @ (t * one.gradient), rtol=1e-10)
    plain = surrogate(noise_aware=False).public()
    np.testing.assert_allclose(plain[1], -t * h)
    assert not np.allclose(plain[1], curvature)


def test_widening_never_makes_the_target_improper():
    """However large the noise, and where the likelihood has no curvature the gradient's noise is dropped."""
    for noise in (1e-3, 1.0, 1e3, 1e9):
        curvature = surrogate(gradient_noise=noise * np.eye(2)).public()[1]
        assert np.linalg.eigvalsh(curvature).max() <= 1e-9
    flat = surrogate(hessian=np.diag([-9.0, 0.0]), metric=np.diag([0.3, 0.4]), gradient_noise=np.eye(2))
    assert abs(flat.public()[0][1]) < 1e-6


@pytest.mark.parametrize("labels", [None, np.array([0, 1])])
def test_the_hessians_noise_is_in_the_target_where_it_is_used(labels):
    """Against simulated noise of the Hessian: the error of the slope at the surrogate's mode."""
    r, prior, slope = np.random.default_rng(0), np.diag([0.5, 0.2]), np.array([0.1, 0.3])
    metric = METRIC if labels is None else np.diag([0.3, 0.4])
    one = surrogate(blocks=labels, metric=metric, gradient_noise=1e-12 * np.eye(2), hessian_noise=0.7)
    kept = one.structure.mask * one.hessian
    one = dataclasses.replace(one, hessian=kept)
    wider = one.with_hessian_noise(prior, slope, np.eye(2))
    mode = np.linalg.solve(prior - 0.7 * kept, 0.7 * one.gradient + slope)
    inverse = np.linalg.inv(metric)
    draws = r.normal(size=(40_000, one.structure.rows.size))
    of_each = [inverse @ (0.7 * one.structure.unpacked(e)) @ inverse.T @ mode for e in np.eye(draws.shape[1])]
    expected = np.cov(np.transpose(draws @ of_each))  # linear in the noise
    np.testing.assert_allclose(wider.gradient_noise, expected, atol=0.03 * np.abs(expected).max())
    exact = surrogate(gradient_noise=np.zeros((2, 2)))
    assert exact.with_hessian_noise(prior, slope, np.eye(2)) is exact


def log_gamma(a):
    """Density of the logarithm of a Gamma(a): skewed, as a public density may be."""
    with pm.Model() as model:
        theta = pm.Flat("theta", shape=1)
        pm.Potential("public", a * theta[0] - pm.math.exp(theta[0]))
    return density_of(model, 1, lambda theta: (a * theta.sum() - np.exp(theta).sum(), a - np.exp(theta)))


def density_of(model, d, in_numpy):
    """Of a model, by the same in NumPy: a tenth of the time."""
    start = {"theta": np.zeros(d)}
    function = model.logp_dlogp_function(ravel_inputs=True, initial_point=start)
    function.trust_input = True
    at = np.linspace(-1, 0.6, d)
    for ours, compiled in zip(in_numpy(at), function._pytensor_function(at), strict=True):
        np.testing.assert_allclose(ours, compiled, rtol=1e-12)
    function._pytensor_function = in_numpy
    return SimpleNamespace(model=model, value_and_gradient=function, start=start)


def hierarchy(a, sd, width):
    """Groups at level + tau z, each seen at a_i +- sd: density of (level, log tau, z); tau is half-normal."""
    with pm.Model() as model:
        theta = pm.Flat("theta", shape=a.size + 2)
        level, tau, z = theta[0], pm.math.exp(theta[1]), theta[2:]
        fit = -0.5 * pm.math.sum(((level + tau * z - a) / sd) ** 2)
        prior = -0.5 * (level / width) ** 2 - 0.5 * pm.math.sum(z**2) - tau**2 / 2 + theta[1]
        pm.Potential("public", fit + prior)

    def in_numpy(theta):
        tau, z = np.exp(theta[1]), theta[2:]
        apart = (theta[0] + tau * z - a) / sd
        value = -0.5 * (apart @ apart + (theta[0] / width) ** 2 + z @ z + tau**2) + theta[1]
        pull = -apart / sd
        gradient = np.r_[pull.sum() - theta[0] / width**2, tau * (pull @ z) - tau**2 + 1, tau * pull - z]
        return np.array(value), gradient

    return density_of(model, a.size + 2, in_numpy)


def after_moves(a, draws=2000):
    """Draws of the logarithm of a Gamma(2), and each after one move on that of a Gamma(a)."""
    rng = np.random.default_rng(5)
    move = PublicTransitions(log_gamma(a), np.array([[0.64]]))
    move.tune(rng, np.zeros(1))
    start = np.log(rng.gamma(2.0, size=draws))
    return start, np.array([move(rng, np.array([x]))[0] for x in start])


@pytest.fixture(scope="module")
def moved():
    return after_moves(2.0)


def exact_cdf(x):
    return stats.gamma(2.0).cdf(np.exp(x))


@pytest.mark.slow
def test_moves_leave_the_public_density_invariant(moved):
    start, end = moved
    assert stats.kstest(end, exact_cdf).pvalue > ALPHA
    assert np.corrcoef(start, end)[0, 1] < 0.6
    # control: moves on another density
    _, end = after_moves(3.0)
    assert stats.kstest(end, exact_cdf).pvalue < ALPHA


def test_moves_are_reversible(moved):
    """A pair of points is as likely in either order; false alarms: 2e-6 / 2."""

    def asymmetry(start, end):
        u, v = exact_cdf(start), exact_cdf(end)
        apart = np.sin(2 * np.pi * (u - v))
        return np.abs(apart.mean()) / (apart.std() / np.sqrt(apart.size))

    start, end = moved
    assert asymmetry(start, end) < 5
    # control: moves that leave the density invariant and go one way
    turned = (exact_cdf(start) + 0.2) % 1
    assert asymmetry(start, np.log(stats.gamma(2.0).ppf(turned))) > 20


def test_the_kernel_is_fixed_once_tuned():
    rng, move = np.random.default_rng(1), PublicTransitions(log_gamma(2.0), np.array([[25.0]]))
    theta = move.tune(rng, np.zeros(1))
    nuts, step = move._nuts, move._nuts.step_adapt.current(False)
    for _ in range(50):
        theta = move(rng, theta)
    assert move._nuts is nuts and nuts.step_adapt.current(False) == step and not nuts.tune
    # and goes by the generator alone
    again = [move(np.random.default_rng(3), theta) for _ in range(2)]
    assert again[0] == again[1] and again[0] != move(np.random.default_rng(4), theta)


def test_draws_that_do_not_move_are_noticed(monkeypatch):
    """A constant series has as many effective draws as draws: a chain of them would look perfect."""
    move = PublicTransitions(log_gamma(2.0), np.eye(1))
    monkeypatch.setattr(move, "_draws", lambda rng, theta, number: (np.tile(theta, (number, 1)), 1.0))
    monkeypatch.setattr(move, "_learn", lambda pilot: pilot.draws[-1])
    with pytest.raises(PrivacyError, match="do not move"):
        move.tune(np.random.default_rng(0), np.zeros(1))
    assert move._transitions == 1


@pytest.mark.slow
def test_a_ridge_is_walked():
    """A non-centred hierarchy, whose curvature at one point says little: two chains agree, and are right.

    With one transition a move and the first metric 400 draws are worth 22.
    """
    a = np.array([-0.4, 0.8, -1.2, 0.3, 1.0, -0.6])
    density = hierarchy(a, sd=0.06, width=2.0)
    near = np.r_[a.mean(), np.log(a.std()), (a - a.mean()) / a.std()]
    precision = -hessian(density, near)
    values, vectors = np.linalg.eigh(precision)
    covariance = (vectors / np.maximum(values, 1e-2)) @ vectors.T
    draws = []
    for seed in range(2):
        rng, move = np.random.default_rng(seed), PublicTransitions(density, covariance)
        theta = move.tune(rng, near)
        chain = []
        for _ in range(200):
            theta = move(rng, theta)
            chain.append(theta)
        draws.append(chain)
    draws = np.array(draws)
    assert np.max(array_stats.rhat(draws, chain_axis=0, draw_axis=1)) < 1.1
    assert np.min(array_stats.ess(draws, chain_axis=0, draw_axis=1)) > 80
    # tau given a: level + tau z is a but for sd, so that a_i ~ N(level, tau^2)
    tau = np.linspace(0.2, 4, 2000)
    level = np.linspace(-6, 6, 1201)[:, None]
    log = -a.size * np.log(tau) - 0.5 * ((a[:, None, None] - level) ** 2).sum(axis=0) / tau**2
    weight = np.exp(log - level**2 / 8 - tau**2 / 2).sum(axis=0)
    mean = weight @ tau / weight.sum()
    spread = np.sqrt(weight @ (tau - mean) ** 2 / weight.sum())
    assert abs(np.exp(draws[..., 1]).mean() - mean) < 5 * spread / np.sqrt(80)


@pytest.mark.slow
def test_a_metric_is_learnt_where_the_mode_says_little():
    """Thirty groups that are known well, not centred: the scale's mode is at three times where its draws are.

    With the metric from the mode a transition takes ten times as many leapfrog steps: the control.
    """
    rng = np.random.default_rng(2)
    a, sd = 0.7 * rng.normal(size=30), 0.05
    density = hierarchy(a, sd, width=1.0)
    tau = np.sqrt(np.sqrt(np.sum(a**2)))
    mode = np.r_[0.0, np.log(tau), a / tau]
    values, vectors = np.linalg.eigh(-hessian(density, mode))
    move = PublicTransitions(density, (vectors / np.maximum(values, 1e-2)) @ vectors.T)
    _, before = move._draws(rng, mode, 20)
    move = PublicTransitions(density, (vectors / np.maximum(values, 1e-2)) @ vectors.T)
    theta = move.tune(rng, mode)
    draws, after = move._draws(rng, theta, 200)
    assert before > 100 and after < 40
    # tau given a: see the test before; 200 draws are worth 50 here
    assert abs(np.exp(draws[:, 1]).mean() - np.sqrt(np.mean(a**2))) < 0.06


def hessian(density, theta, h=1e-5):
    gradient = lambda t: density.value_and_gradient._pytensor_function(t)[1]  # noqa: E731
    rows = [(gradient(theta + h * e) - gradient(theta - h * e)) / (2 * h) for e in np.eye(theta.size)]
    return 0.5 * (np.array(rows) + np.transpose(rows))
