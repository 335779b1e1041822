"""DPHMC, one step at a time: what is released, and that without privacy it is ordinary HMC."""

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats

import pymc_dp as dp
from pymc_dp.privacy import PenaltyDecisionDpEvent
from tests.conftest import logistic_model

ARGS = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0, "chains": 1}


def started(model, tune=0, draws=20, seed=0, **kwargs):
    with model:
        step = dp.DPHMC(**{**ARGS, **kwargs})
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    return step


def run(step, point, iterations):
    points, stats_ = [], []
    for _ in range(iterations):
        point, (stat,) = step.step(point)
        points.append(step.records.ravel(point))
        stats_.append(stat)
    return np.array(points), stats_


@pytest.mark.slow
def test_the_plan_holds_every_release(logistic, monkeypatch):
    step = started(logistic, draws=30, n_leapfrog=4)
    calls = []
    gradients = step.records.gradients
    monkeypatch.setattr(step.records, "gradients", lambda *args: calls.append(1) or gradients(*args))
    run(step, logistic.initial_point(0), 30)
    assert len(calls) == 30 * 4 + 1
    counts = step.plan.events.counts
    nm = step.plan.parameters["gradient_noise_multiplier"]
    assert counts[dp_event.GaussianDpEvent(nm)] == len(calls)
    assert counts[PenaltyDecisionDpEvent(step.plan.noise_multiplier)] == 30
    exact = 30 / step.plan.noise_multiplier**2 + len(calls) / nm**2
    share = 1 / step.plan.clip_fraction.noise_multiplier**2
    assert step.plan.mu**2 == pytest.approx(exact + share)
    assert step.plan.epsilon_at(1e-6) <= 2.0 < 1.001 * step.plan.epsilon_at(1e-6)


@pytest.mark.slow
def test_gradients_have_the_stated_noise(logistic):
    """Kolmogorov-Smirnov at a false-alarm rate of 1e-6 a coordinate; controls with it 15% off fail."""
    step = started(logistic, n_leapfrog=1, tempering=0.5)
    theta = np.array([0.3, -0.2])
    prior = step.records.log_prior_gradient(theta)
    exact = step.records.gradients(theta, 1.0).total * 0.5 + prior
    noise = np.array([step._gradient_at(step._chain, theta) - exact for _ in range(10_000)])
    std = 0.5 * 2 * step.plan.parameters["gradient_noise_multiplier"]
    for j in range(2):
        assert stats.kstest(noise[:, j] / std, "norm").pvalue > 1e-6
        assert stats.kstest(noise[:, j] / std / 1.15, "norm").pvalue < 1e-6
        assert stats.kstest(noise[:, j] / std / 0.85, "norm").pvalue < 1e-6
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.05


@pytest.mark.slow
def test_without_privacy_it_is_hmc_on_the_same_trajectory(logistic):
    """Ordinary leapfrog and Metropolis test, written again with PyMC's own densities."""
    step = started(logistic, epsilon=np.inf, lipschitz=2.0, n_leapfrog=7, step_size=0.2, debug_seed=3)
    logp, dlogp = logistic.compile_logp(), logistic.compile_dlogp()
    rng = np.random.default_rng(0)

    def at(theta):
        point = step.records.unravel(theta)
        return float(logp(point)), dlogp(point)

    point = logistic.initial_point(0)
    for _ in range(20):
        theta = step.records.ravel(point)
        p = rng.standard_normal(2)
        start = at(theta)[0] - p @ p / 2
        q = theta.copy()
        for _ in range(7):
            p = p + 0.1 * at(q)[1]
            q = q + 0.2 * p
            p = p + 0.1 * at(q)[1]
        point, (stat,) = step.step(point)
        if stat["accepted"]:
            np.testing.assert_allclose(step.records.ravel(point), q, rtol=1e-4, atol=2e-5)
        else:
            assert at(q)[0] - p @ p / 2 < start


@pytest.mark.slow
def test_tuning_adapts_step_and_mass_from_what_is_released(logistic):
    step = started(logistic, tune=100, draws=10)
    sizes, masses = [], []
    point = logistic.initial_point(0)
    for _ in range(100):
        point, (stat,) = step.step(point)
        sizes.append(stat["step_size"])
        masses.append(step.moves.mass.copy())
    assert len(set(sizes)) > 50 and not np.array_equal(masses[0], masses[-1])
    assert np.prod(masses[-1]) == pytest.approx(1.0)
    step.stop_tuning()
    _, after = run(step, point, 10)
    assert len({s["step_size"] for s in after}) == 1
    again = started(logistic, tune=100, draws=10)
    assert np.array_equal(again.moves.mass, [1.0, 1.0])


@pytest.mark.parametrize("far", [1e100, 5e153, 1e160, 1e300, np.inf, np.nan])
def test_a_trajectory_that_runs_away_is_rejected(logistic, monkeypatch, far):
    """However far: an exception would tell of the data, and end the run."""
    step = started(logistic)
    run_ = step.moves.run

    def away(theta, *args):
        new, gradient, momentum = run_(theta, *args)
        return new + far, gradient, momentum

    monkeypatch.setattr(step.moves, "run", away)
    points, stat = run(step, logistic.initial_point(0), 5)
    assert np.all(points == points[0]) and not any(one["accepted"] for one in stat)


def test_poison_only_changes_decisions():
    x = np.random.default_rng(2).uniform(-1, 1, size=(60, 2)) / np.sqrt(2)
    x[3], x[4], x[5] = np.nan, np.inf, 1e300
    points, all_stats = run(started(logistic_model(x=x)), logistic_model(x=x).initial_point(0), 20)
    assert np.all(np.isfinite(points)) and all(np.isfinite(s["noise_std"]) for s in all_stats)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"lipschitz": None}, "Give lipschitz="),
        ({"lipschitz": None, "gradient_clip_bound": 1.0}, "Give lipschitz="),
        ({"lipschitz": -1.0}, "lipschitz must be positive"),
        ({"gradient_clip_bound": np.nan}, "gradient_clip_bound must be positive"),
        ({"lipschitz": 0}, "lipschitz must be positive"),
        ({"n_leapfrog": 0}, "n_leapfrog must be an integer"),
        ({"n_leapfrog": 1.5}, "n_leapfrog must be an integer"),
        ({"step_size": -1}, "step_size must be positive"),
        ({"mass": [1.0, -1.0]}, "mass must be positive"),
        ({"gradient_share": 1.0}, "gradient_share must lie"),
        ({"target_accept": 0.0}, "target_accept must lie"),
        ({"epsilon": 0}, "epsilon must be a positive"),
        ({"delta": 2}, "delta must lie strictly"),
        ({"tempering": 0}, "tempering must lie"),
    ],
)
def test_bad_arguments(logistic, kwargs, message):
    with logistic, pytest.raises(ValueError, match=message):
        dp.DPHMC(**{**ARGS, **kwargs})
