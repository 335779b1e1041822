"""DPSGHMC: what it releases, Lode's table, and its dynamics."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats

import pymc_dp as dp
from pymc_dp.privacy.mechanisms.randomness import Gaussian
from tests.conftest import logistic_model
from tests.statistical import chains

ARGS = {"epsilon": 2.0, "delta": 1e-5, "lipschitz": 1.0, "chains": 1, "sampling_probability": 0.5}


def started(model, draws=20, seed=0, **kwargs):
    with model:
        step = dp.DPSGHMC(**{**ARGS, **kwargs})
    step.setup_chain(np.random.default_rng(seed), 0, draws)
    return step


def run(step, point, iterations):
    points = []
    for _ in range(iterations):
        point, (stat,) = step.step(point)
        points.append(step.records.ravel(point))
    return np.array(points), stat


def test_lodes_table(logistic):
    """Table 6.3(a) of Lode (2019): his batch posterior is tempering q, so that friction 1 is his."""
    kwargs = {
        "lipschitz": 0.7,
        "sampling_probability": 0.01,
        "n_steps": 10,
        "step_size": 3.0,
        "friction": 1.0,
    }
    with logistic:
        step = dp.DPSGHMC(
            epsilon=100.0, delta=1e-5, chains=1, tempering=0.01, neighboring_relation="add_remove", **kwargs
        )
    plan = step.cost(draws=200, tune=0)
    for delta, epsilon in ((1e-6, 0.881), (1e-5, 0.763), (1e-4, 0.629), (1e-3, 0.473), (1e-2, 0.273)):
        assert plan.epsilon_at(delta) == pytest.approx(epsilon, abs=1.5e-3)
    noise = [event.event.noise_multiplier for one in plan.iteration for event in one.counts]
    expected = [math.sqrt(2 / (3 * t ** (-1 / 3) * 0.7**2)) for t in range(1, 201)]
    np.testing.assert_allclose(noise, expected, rtol=1e-12)
    assert all(count == 10 for one in plan.iteration for count in one.counts.values())


def test_each_gradient_is_on_the_plan(logistic, monkeypatch):
    step = started(logistic, draws=15, n_steps=4)
    sizes = []
    draw = step.dynamics.batches.draw

    def counted(*args):
        batch = draw(*args)
        sizes.append(batch.size)
        return batch

    monkeypatch.setattr(type(step.dynamics.batches), "draw", lambda self, *drawn: counted(*drawn))
    _, stat = run(step, logistic.initial_point(0), 15)
    assert len(sizes) == 60 and len(set(sizes)) > 5, "Poisson batches have no fixed size"
    (event,) = {type(e) for one in step.plan.iteration for e in one.counts}
    assert event is dp_event.PoissonSampledDpEvent
    assert sum(step.plan.events.counts.values()) == 60
    assert 1.9 < step.plan.epsilon_at(1e-5) <= 2.0
    assert "approximate" in step.facts()["approximation"] and stat["is_private"]


@pytest.mark.slow
def test_gradients_have_the_noise_that_is_charged(logistic):
    """All records (q = 1): Kolmogorov-Smirnov at a false-alarm rate of 1e-6; controls 15% off fail."""
    step = started(logistic, sampling_probability=1.0, decay=0.0)
    theta = np.array([0.2, 0.1])
    exact = step.records.gradients(theta, 1.0).total + step.records.log_prior_gradient(theta)
    (event,) = step.plan.iteration[0].counts
    std = 2 * event.noise_multiplier
    noise = (
        np.array(
            [
                step._gradient_at(step._chain, Gaussian(step._chain.memory[2][0]), theta) - exact
                for _ in range(10_000)
            ]
        )[:, 0]
        / std
    )
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    assert all(stats.kstest(noise / wrong, "norm").pvalue < 1e-6 for wrong in (0.85, 1.15))


def test_without_friction_noise_and_batches_it_is_hamiltonian(logistic):
    """Position Verlet, written again with PyMC's own gradient."""
    step = started(
        logistic, epsilon=np.inf, lipschitz=2.0, sampling_probability=1.0, friction=0.0, n_steps=6,
        step_size=0.1, decay=0.0,
    )  # fmt: skip
    dlogp = logistic.compile_dlogp()
    rng = np.random.default_rng(0)
    point = logistic.initial_point(0)
    for _ in range(10):
        q, p = step.records.ravel(point), rng.standard_normal(2)
        for _ in range(6):
            q = q + 0.05 * p
            p = p + 0.1 * dlogp(step.records.unravel(q))
            q = q + 0.05 * p
        point, _ = step.step(point)
        np.testing.assert_allclose(step.records.ravel(point), q, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_with_all_records_the_temperature_is_right():
    """Gaussian posterior, all records, much noise: standard deviations within 8%, at temperature 1.4 not.

    A ratio has mean .992 and standard deviation .9%, over forty repetitions.
    """
    target = chains.of_gaussian(2, 1.0, np.eye(2), seed=1)
    assert chains.agree(target)
    exact = target.draws(100_000, np.random.default_rng(0)).std(0)

    def ratio(draws, **kwargs):
        step = started(
            target.model, draws=draws, epsilon=np.inf, lipschitz=1e3, sampling_probability=1.0,
            friction=10.0, step_size=0.05, decay=0.0, n_steps=3, **kwargs,
        )  # fmt: skip
        chains.in_numpy(step, target)
        points = chains.path(step, np.zeros(2), draws)
        return points[500:].std(0) / exact

    np.testing.assert_allclose(ratio(15_000), 1.0, atol=0.08)
    assert np.all(ratio(6_000, tempering=0.7) > 1.08)  # control


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"lipschitz": -1.0}, "lipschitz must be positive"),
        ({"sampling_probability": 0.0}, "sampling_probability must lie"),
        ({"sampling_probability": 1.5}, "sampling_probability must lie"),
        ({"n_steps": 0}, "n_steps must be"),
        ({"step_size": 0.0}, "step_size must be"),
        ({"friction": -1.0}, "friction must be"),
        ({"decay": np.nan}, "decay must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
    ],
)
def test_bad_arguments(kwargs, message):
    with logistic_model(), pytest.raises(ValueError, match=message):
        dp.DPSGHMC(**{**ARGS, **kwargs})
