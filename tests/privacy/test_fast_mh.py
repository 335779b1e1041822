"""What DP-Fast MH pays: bounds and batches from a budget."""

import math
import re
from pathlib import Path

import pytest

from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.events import (
    BoundedRangeDecisionDpEvent,
    FixedScalePenaltyDecisionDpEvent,
    PenaltyDecisionDpEvent,
    PoissonBarkerDecisionDpEvent,
    PoissonMixtureDpEvent,
)
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call

BARKER = {}
TESTS = [BARKER, {"noise_std": 2.38}, {"noise_std": 2.38, "one_scale": True}]
RELATIONS = ["substitute", "add_remove"]


def call(epsilon=1.0, relation="substitute", draws=2000):
    return Call(epsilon, 1e-6, relation, chains=1, tune=0, draws=draws)


def plan(call, test, **kwargs):
    return pricing.fast_mh(call, **test, **kwargs)


def on_all(call, test):
    """Few records: a batch would be nearly all of them."""
    return plan(call, test, n=100, d=1)


def event_of(found):
    (event,) = found.iteration[0].counts
    return event


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("test", TESTS[:2], ids=str)
@pytest.mark.parametrize("inclusion", [None, 0.05])
def test_the_budget_is_met_and_used(test, relation, inclusion):
    found = plan(call(relation=relation), test, n=50_000, d=10, inclusion=inclusion)
    spent = found.epsilon_at(1e-6)
    assert 0.999 < spent <= 1.0
    assert found.running_epsilon()[-1] <= 1.0


@pytest.mark.parametrize("test", TESTS, ids=str)
def test_the_event_is_that_of_the_parameters(test):
    """A step builds its batches from them."""
    found = plan(call(), test, n=50_000, d=10)
    inclusion, bound = found.parameters["inclusion"], found.parameters["clip_bound"]
    assert found.parameters["batch_size"] == 50_000 * inclusion
    event = event_of(found)
    assert (event.rate, event.clip_bound) == (inclusion - bound, bound)
    if test is BARKER:
        assert type(event) is PoissonBarkerDecisionDpEvent
    else:
        assert type(event) is PoissonMixtureDpEvent
        assert event.noise_std == found.parameters["noise_std"] == 2.38


@pytest.mark.parametrize("relation", RELATIONS)
def test_full_batch_when_the_batch_would_be_nearly_all(relation):
    """Small data, or moves that large data would make noisy; by public numbers alone."""
    sensitivity = 2 if relation == "substitute" else 1
    for n in (100, 1900, 1_000_000):
        barker, penalty, constant = (
            plan(call(relation=relation), test, n=n, d=1 if n > 2000 else 10) for test in TESTS
        )
        for found in (barker, penalty, constant):
            assert "inclusion" not in found.parameters
            assert 0.999 < found.epsilon_at(1e-6) <= 1.0
        bound = barker.parameters["clip_bound"]
        assert event_of(barker).eta == pytest.approx(sensitivity * bound, rel=1e-12)
        assert type(event_of(barker)) is BoundedRangeDecisionDpEvent
        bound = penalty.parameters["clip_bound"]
        assert event_of(penalty).noise_multiplier == pytest.approx(2.38 / (sensitivity * bound))
        assert type(event_of(penalty)) is PenaltyDecisionDpEvent
        assert type(event_of(constant)) is FixedScalePenaltyDecisionDpEvent
        assert constant.parameters["clip_bound"] > bound
    assert "inclusion" in plan(call(), BARKER, n=2100, d=10).parameters


def test_minibatches_cost_next_to_nothing_at_the_default():
    """The bound is within one per cent of the full batch's; the bounded-range price would be much smaller."""
    full = pricing.barker(call()).clip_bound
    for n in (10_000, 50_000):
        found = plan(call(), BARKER, n=n, d=10).parameters
        assert 0.99 * full < found["clip_bound"] < full
        assert found["inclusion"] < 0.25


@pytest.mark.slow
def test_smaller_batches_mean_shorter_moves():
    bounds = [
        plan(call(0.3), BARKER, n=10**6, d=10, inclusion=inclusion).parameters["clip_bound"]
        for inclusion in (1e-4, 1e-3, 1e-1)
    ]
    assert bounds == sorted(bounds)
    assert bounds[0] == pytest.approx(1e-4 * 10 / 11), "the largest x"
    assert bounds[2] == pytest.approx(pricing.barker(call(0.3)).clip_bound, rel=0.01)


@pytest.mark.parametrize("test", TESTS[:2], ids=str)
@pytest.mark.slow
def test_a_given_bound_takes_the_smallest_batches_that_fit(test):
    n, d = 300_000, 2000  # so that x = 1 at the default
    free = plan(call(), test, n=n, d=d).parameters["clip_bound"]
    small = plan(call(), test, n=n, d=d, clip_bound=free / 10)
    assert small.parameters["inclusion"] == pricing.default_inclusion(free / 10, n, d)
    assert small.epsilon_at(1e-6) < 0.5
    most = on_all(call(), test).clip_bound
    between = math.sqrt(free * most)
    large = plan(call(), test, n=n, d=d, clip_bound=between).parameters
    assert large["clip_bound"] == between
    assert large.get("inclusion", 1.0) > pricing.default_inclusion(between, n, d)
    with pytest.raises(BudgetError, match=r"iterations would fit\. Take clip_bound = "):
        plan(call(), test, n=n, d=d, clip_bound=2 * most)
    with pytest.raises(BudgetError, match="Take a larger batch_size"):
        plan(call(), test, n=n, d=d, clip_bound=free, inclusion=1.2 * free)


def test_the_advice_is_right():
    """The bound that the error names fits."""
    for test in TESTS[:2]:
        with pytest.raises(BudgetError) as caught:
            plan(call(), test, n=50_000, d=10, clip_bound=1.0)
        named = float(str(caught.value).split("clip_bound = ")[1].split(" ")[0])
        found = plan(call(), test, n=50_000, d=10, clip_bound=named)
        assert 0.9 < found.epsilon_at(1e-6) <= 1.0


def test_no_lambda_is_refused():
    for budget in (1.0, math.inf):
        with pytest.raises(ValueError, match="leaves no lambda"):
            plan(call(budget), BARKER, n=1000, d=2, inclusion=0.01, clip_bound=0.01)


def test_without_privacy_it_is_plain_tunamh():
    found = plan(call(math.inf), BARKER, n=50_000, d=10)
    assert not found.is_private
    assert found.parameters["inclusion"] == 0.1
    assert 0 < found.parameters["clip_bound"] < 0.1
    assert plan(call(math.inf), BARKER, n=1000, d=2).parameters == {}
    wide = plan(call(math.inf), BARKER, n=50_000, d=10, clip_bound=0.2).parameters
    assert wide == {"clip_bound": 0.2, "batch_size": 20_000, "inclusion": 0.4}


@pytest.mark.parametrize("test", TESTS[:2], ids=str)
@pytest.mark.slow
def test_nothing_ever_costs_more_than_the_budget(test):
    for epsilon, draws, n, inclusion in ((0.1, 100, 10**7, 1e-3), (8.0, 20_000, 10**4, 0.3)):
        found = plan(call(epsilon, draws=draws), test, n=n, d=3, inclusion=inclusion)
        assert found.epsilon_at(1e-6) <= epsilon


@pytest.mark.slow
def test_table_of_bounds_and_batches():
    """docs/fast_mh.md, "Privacy, batch, mixing"."""
    page = (Path(__file__).parents[2] / "docs" / "fast_mh.md").read_text()
    rows = re.findall(r"^\| ([\d,]+) \| (default|[\d,]+) \| (\.\d+) \| (all|[\d,]+) \|$", page, re.MULTILINE)
    assert len(rows) == 6
    for row in rows:
        n, given, bound, batch = (cell.replace(",", "") for cell in row)
        inclusion = None if given == "default" else int(given) / int(n)
        found = plan(call(draws=2500), BARKER, n=int(n), d=10, inclusion=inclusion).parameters
        assert found["clip_bound"] == pytest.approx(float(bound), abs=6e-6)
        assert "batch_size" in found or batch == "all"
        assert found.get("batch_size", 0) == pytest.approx(0 if batch == "all" else int(batch), rel=2e-3)


def test_both_tests_on_all_records_pay_alike_for_distance():
    """docs/fast_mh.md: squared length times acceptance between points of equal density, within a tenth."""
    barker, penalty = (on_all(call(), test).clip_bound for test in TESTS[:2])
    assert penalty**2 * math.erfc(2.38 / math.sqrt(8)) == pytest.approx(barker**2 / 2, rel=0.1)


def test_the_bound_is_mu_over_the_root_of_the_number_of_iterations():
    """docs/fast_mh.md: B is about mu / sqrt(k)."""
    for epsilon, draws in ((1.0, 2000), (4.0, 500)):
        mu = float(gaussian.mu(epsilon, 1e-6))
        bound = on_all(call(epsilon, draws=draws), BARKER).clip_bound
        assert bound == pytest.approx(mu / math.sqrt(draws), rel=0.12)
