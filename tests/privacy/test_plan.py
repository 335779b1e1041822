"""The price of a call: never over the target, never rounded down."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_dp as dp
from pymc_dp.privacy import gaussian
from pymc_dp.privacy.plan import PrivacyPlan, round_up

EPSILON = st.floats(1e-3, 100)
DELTA = st.floats(-40, -0.5).map(lambda power: 10.0**power)


@settings(max_examples=200, deadline=None)
@given(EPSILON, DELTA, st.integers(1, 10**7), st.integers(0, 10**6), st.integers(1, 64), st.booleans())
def test_never_over_the_target(epsilon, delta, draws, tune, chains, clip_fraction):
    plan = dp.calibrate(epsilon, delta, draws=draws, tune=tune, chains=chains, clip_fraction=clip_fraction)
    assert plan.epsilon_at(delta) <= epsilon
    assert plan.epsilon_at(delta) >= epsilon * (1 - 1e-3), "most of the budget is used"
    squared = plan.iterations / plan.noise_multiplier**2 + chains / plan.clip_fraction_noise_multiplier**2
    assert float(gaussian.epsilon(math.sqrt(squared), delta)) <= epsilon
    assert PrivacyPlan.from_dict(plan.to_dict()) == plan


@settings(max_examples=50, deadline=None)
@given(EPSILON, DELTA, st.integers(1, 2000), st.integers(1, 4))
def test_running_epsilon(epsilon, delta, draws, chains):
    plan = dp.calibrate(epsilon, delta, draws=draws, tune=100, chains=chains)
    running = plan.running_epsilon()
    assert running.shape == (draws + 100,)
    assert np.all(np.diff(running) >= 0) and running[-1] == plan.epsilon_at(delta) <= epsilon


@pytest.mark.parametrize(("nm", "epsilon", "delta", "iterations"), [(100, 1, 1e-5, 718), (30, 4, 1e-6, 631)])
def test_reference_iterations(nm, epsilon, delta, iterations):
    """MATH section 1: iterations that exact Gaussian accounting allows."""
    for k, fits in ((iterations, True), (iterations + 1, False)):
        plan = dp.calibrate(epsilon, delta, draws=k, tune=0, chains=1, clip_fraction=False)
        assert (plan.noise_multiplier <= nm) == fits


def test_no_privacy():
    plan = dp.calibrate(math.inf, 1e-6, draws=10, tune=5, chains=1)
    assert plan.noise_multiplier == 0 and plan.mu == math.inf and not plan.is_private
    assert np.all(np.isinf(plan.running_epsilon()))
    assert "NOT PRIVATE" in str(plan)


def test_printed_plan():
    text = str(dp.calibrate(2.0, 1e-6, draws=100, tune=50, chains=3))
    for part in ("(2, 1e-06)", "450 iterations", "one record replaced", "exact Gaussian"):
        assert part in text


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"draws": 0}, "draws"),
        ({"draws": 1.5}, "draws"),
        ({"tune": -1}, "tune"),
        ({"chains": True}, "chains"),
        ({"neighboring_relation": "both"}, "neighboring_relation"),
    ],
)
def test_bad_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        dp.calibrate(1.0, 1e-6, **{"draws": 10, "tune": 1, "chains": 1, **kwargs})


@settings(max_examples=300)
@given(st.floats(1e-12, 1e12))
def test_printed_numbers_are_rounded_up(value):
    assert value <= float(round_up(value)) <= value * 1.0011
