"""The price of a call: never over the target, never rounded down."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_dp as dp
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.plan import REGISTRY, Call, PrivacyPlan
from pymc_dp.privacy.budget.spending import Spending, cost_in_words
from pymc_dp.privacy.mechanisms.gradients import Dynamics, Friction, Hamiltonian
from pymc_dp.privacy.mechanisms.iterations import (
    Barker,
    BarkerOnBatches,
    Mechanism,
    NoDecision,
    NoisyRatio,
    OnTunaBatches,
    Penalty,
    PenaltyOnBatches,
    Unlimited,
)
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches, PoissonBatches, TunaBatches
from pymc_dp.ratios.build import RATIOS, TESTS
from pymc_dp.rounding import round_down, round_up
from tests.conftest import logistic_model

EPSILON = st.floats(1e-3, 100)
DELTA = st.floats(-40, -0.5).map(lambda power: 10.0**power)


CALL = (st.integers(1, 10**7), st.integers(0, 10**6), st.integers(1, 64), st.booleans())


@settings(max_examples=200, deadline=None)
@pytest.mark.slow
@given(EPSILON, DELTA, *CALL)
def test_noisy_ratios_never_over_the_target(epsilon, delta, draws, tune, chains, clip_fraction):
    plan = dp.calibrate(
        epsilon,
        delta,
        draws=draws,
        tune=tune,
        chains=chains,
        clip_fraction=clip_fraction,
        release="noisy_ratio",
    )
    assert plan.epsilon_at(delta) <= epsilon
    assert plan.epsilon_at(delta) >= epsilon * (1 - 1e-3), "most of the budget is used"
    squared = plan.iterations / plan.noise_multiplier**2
    if clip_fraction:
        squared += chains / plan.clip_fraction.noise_multiplier**2
    assert float(gaussian.epsilon(math.sqrt(squared), delta)) <= epsilon
    assert PrivacyPlan.from_dict(plan.to_dict()) == plan


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    EPSILON,
    st.floats(-15, -0.5).map(lambda power: 10.0**power),
    *CALL,
    st.sampled_from([{}, {"shift": 0.02}, {"noise_std": 2.38}]),
)
def test_decisions_never_over_the_target(epsilon, delta, draws, tune, chains, clip_fraction, fixed):
    call = {"draws": draws, "tune": tune, "chains": chains, "clip_fraction": clip_fraction}
    plan = dp.calibrate(epsilon, delta, **call, **fixed)
    assert plan.epsilon_at(delta) <= epsilon
    assert (
        plan.noise_multiplier <= dp.calibrate(epsilon, delta, **call, release="noisy_ratio").noise_multiplier
    )
    again = dp.privacy.compose(dp.privacy.EventSet.from_json(plan.events.to_json()))
    assert again.epsilon(delta) == plan.epsilon_at(delta)
    assert PrivacyPlan.from_dict(plan.to_dict()) == plan


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    EPSILON,
    st.floats(-40, -2).map(lambda power: 10.0**power),
    st.integers(1, 2000),
    st.integers(1, 4),
    st.sampled_from(["decisions", "noisy_ratio"]),
)
def test_running_epsilon(epsilon, delta, draws, chains, release):
    plan = dp.calibrate(epsilon, delta, draws=draws, tune=100, chains=chains, release=release)
    running = plan.running_epsilon()
    assert running.shape == (draws + 100,)
    assert np.all(np.diff(running) >= 0) and running[-1] == plan.epsilon_at(delta) <= epsilon
    for t in {1, 10, 50, draws + 50}:
        part = dp.privacy.compose(plan.iteration[0], plan.neighboring_relation)
        part = dp.privacy.compose(part.events.repeated(t * chains)).epsilon(delta)
        assert part <= running[t - 1] * 1.005  # both are upper bounds, on grids of their own
        assert running[t - 1] <= max(1.4 * part, part + 3e-3, 1e-2)


@pytest.mark.parametrize(
    ("nm", "epsilon", "delta", "exact", "decisions"), [(100, 1, 1e-5, 718, 1110), (30, 4, 1e-6, 631, 966)]
)
def test_reference_iterations(nm, epsilon, delta, exact, decisions):
    """Iterations that exact Gaussian and decision accounting allow."""
    for k, release, fits in (
        (exact, "noisy_ratio", True),
        (exact + 1, "noisy_ratio", False),
        (decisions, "decisions", True),
        (int(1.02 * decisions), "decisions", False),
    ):
        plan = dp.calibrate(epsilon, delta, draws=k, tune=0, chains=1, clip_fraction=False, release=release)
        assert (plan.noise_multiplier <= nm) == fits


def test_no_privacy():
    plan = dp.calibrate(math.inf, 1e-6, draws=10, tune=5, chains=1)
    assert plan.noise_multiplier == 0 and plan.mu == math.inf and not plan.is_private
    assert np.all(np.isinf(plan.running_epsilon()))
    assert "NOT PRIVATE" in str(plan)


def test_printed_plan():
    text = str(dp.calibrate(2.0, 1e-6, draws=100, tune=50, chains=3))
    for part in ("(2, 1e-06)", "450 iterations", "one record replaced", "Gaussian limit accounting"):
        assert part in text


def test_no_plan_promises_less_than_its_events_cost():
    plan = dp.calibrate(1.0, 1e-5, draws=100, tune=0, chains=1, clip_fraction=False)
    over = replace(plan, mechanism=Penalty(plan.noise_multiplier / 3))
    assert over.epsilon_at(1e-5) > 3 and str(plan).startswith("(1, 1e-05)")
    assert str(over).startswith(f"({round_up(over.epsilon_at(1e-5))}, 1e-05)")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"draws": 0}, "draws"),
        ({"draws": 1.5}, "draws"),
        ({"tune": -1}, "tune"),
        ({"chains": True}, "chains"),
        ({"neighboring_relation": "both"}, "neighboring_relation"),
        ({"release": "everything"}, "release"),
        ({"shift": 1.0, "noise_std": 1.0}, "not both"),
    ],
)
def test_bad_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        dp.calibrate(1.0, 1e-6, **{"draws": 10, "tune": 1, "chains": 1, **kwargs})


@settings(max_examples=300)
@given(st.floats(1e-12, 1e12))
def test_printed_numbers_are_rounded_up(value):
    assert value <= float(round_up(value)) <= value * 1.0011
    assert value / 1.011 <= float(round_down(value)) <= value
    short = float(f"{value:.3g}")
    assert round_up(short) == round_down(short) == f"{short:.4g}"


def test_no_budget_is_printed_below_what_it_is(tmp_path):
    """Six digits would do that to each of these, the delta of a guarantee as well as its epsilon."""
    epsilon, delta = 4.000004, 1.000004e-6
    ledger = Ledger(tmp_path / "study.db", epsilon=epsilon, delta=delta)
    plan = dp.calibrate(epsilon, delta, draws=10, tune=1, chains=1)
    cost = cost_in_words(Spending(epsilon, delta, [1.0], "substitute").facts(), "row")
    for text in map(str, (ledger, plan, cost, dp.privacy.compose(plan.events, reference_delta=delta))):
        assert "1.001e-06" in text.splitlines()[1 if text.startswith("Privacy ledger") else 0], text
    assert "epsilon = 4.001 at" in str(ledger) and str(plan).startswith("(4.001, ")


MECHANISMS = [
    Unlimited(),
    NoDecision(),
    Penalty(30.0),
    Penalty(30.0, 1.2, 0.02, one_scale=True),
    NoisyRatio(40.0, "decisions"),
    PenaltyOnBatches(FixedSizeBatches(1000, 30), 3.0),
    Barker(0.02, 0.01),
    BarkerOnBatches(FixedSizeBatches(10_000, 300), 0.01),
    OnTunaBatches(TunaBatches(0.1, 0.01), 1000, 0.5),
    OnTunaBatches(TunaBatches(0.1, 0.01), 1000, noise_std=2.0),
    Hamiltonian(30.0, 60.0, 4),
    Friction(Dynamics(PoissonBatches(0.01), 1.0, 0.1), 3, tuple(np.linspace(5.0, 6.0, 60).tolist())),
]


def test_every_accept_test_is_known_where_chains_look_it_up():
    run = [one for one in MECHANISMS if type(one) in RATIOS]
    assert {one.test for one in run} == set(TESTS)


def test_every_mechanism_is_in_the_list_above():
    known = {one for one in REGISTRY if issubclass(one, Mechanism)}
    assert {type(one) for one in MECHANISMS} == known
    assert set(RATIOS) == known - {Friction, NoDecision}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: type(one).__name__)
def test_a_mechanism_travels_with_its_plan(mechanism):
    """It comes back as it was, and is charged for the same; a field that is not its own is refused."""
    call = Call(1.0, 1e-6, "substitute", 2, 10, 50)
    plan = PrivacyPlan(
        **call.__dict__, mechanism=mechanism, clip_fraction=None, once=EventSet([], "substitute")
    )
    values = json.loads(json.dumps(plan.to_dict()))
    again = PrivacyPlan.from_dict(values)
    assert again.mechanism == mechanism and again.events == plan.events
    assert again.parameters == plan.parameters
    for wrong in ({"class": "PrivacyPlan"}, {"more": 1}):
        with pytest.raises(ValueError, match=r"registry is closed|has fields"):
            PrivacyPlan.from_dict({**values, "mechanism": {**values["mechanism"], **wrong}})


def test_a_mechanism_that_could_not_be_read_again_is_refused_when_it_is_written():
    """Not when the result is read: it is paid for then."""

    class Own(Penalty):
        pass

    call = Call(1.0, 1e-6, "substitute", 2, 10, 50)
    plan = PrivacyPlan(
        **call.__dict__, mechanism=Own(30.0), clip_fraction=None, once=EventSet([], "substitute")
    )
    with pytest.raises(TypeError, match="Own is not listed"):
        plan.to_dict()


@pytest.mark.slow
def test_a_clip_bound_is_in_untempered_nats_everywhere():
    """With the likelihood to a tenth, the same price allows ten times the bound, whatever the sampler."""
    call = Call(1.0, 1e-6, "substitute", 1, 0, 200)
    sizes = {"n": 10**5, "d": 5}
    prices = {
        "Barker": lambda t: pricing.barker(call, t),
        "fast": lambda t: pricing.fast_mh(call, **sizes, tempering=t),
        "fast penalty": lambda t: pricing.fast_mh(call, **sizes, noise_std=2.0, tempering=t),
        "fast, few": lambda t: pricing.fast_mh(call, n=100, d=5, tempering=t),
        "fast penalty, few": lambda t: pricing.fast_mh(call, n=100, d=5, noise_std=2.0, tempering=t),
    }
    for name, price in prices.items():
        whole, tenth = price(1.0), price(0.1)
        assert tenth.clip_bound == pytest.approx(10 * whole.clip_bound, rel=1e-9), name
        assert tenth.parameters["clip_bound"] == tenth.clip_bound
        assert tenth.events == whole.events


def test_no_plan_tells_the_number_of_records_where_it_is_private():
    step = dp.DPSGHMC(
        epsilon=5.0,
        delta=1e-6,
        lipschitz=1.0,
        chains=1,
        neighboring_relation="add_remove",
        model=logistic_model(n=4321),
    )
    assert "4321" not in json.dumps(step.cost(draws=20).to_dict())
