"""What steers the accounting, and what is promised does not depend on: searches."""

import math

import numpy as np
import pytest

from pymc_dp.privacy.accounting.calibration import find_dearest
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches


class Counted:
    """A cost, and the parameters that were asked for."""

    def __init__(self, cost):
        self._cost, self.asked = cost, []

    def __call__(self, parameter):
        self.asked.append(parameter)
        return np.float64(self._cost(parameter))  # as accountants do


COSTS = {
    "falling": (lambda x: 3.0 / x + 0.2 / x**2, False),
    "rising": (lambda x: x**1.5 + 0.1 * x**4, True),
    "flat": (lambda x: 0.04 + 1e-4 * x**0.1 + 1e-5 * x, True),
    "steep": (lambda x: 1e-3 * math.expm1(min(x, 600.0)), True),
    "infinite at first": (lambda x: math.inf if x > 2.7 else x**2, True),
    "nothing at first": (lambda x: max(x - 0.3, 0.0), True),
    "jumps": (lambda x: math.ceil(40 / x) / 20, False),
}


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("start", [1e-3, 0.9, 50.0])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 7.0])
def test_a_search_ends_just_below_the_budget(name, start, epsilon):
    cost, rising = COSTS[name]
    counted = Counted(cost)
    found = find_dearest(counted, epsilon, start, (1e-6, 1e6) if rising else (1e6, 1e-6))
    assert found in counted.asked and cost(found) <= epsilon  # its own cost was found within the budget
    beyond = found * (1.002 if rising else 1 / 1.002)
    assert cost(beyond) > epsilon * (1 - 1e-3)
    assert len(counted.asked) <= 25
    if name in ("falling", "rising") and start == 0.9:
        assert len(counted.asked) <= 8 and cost(found) > epsilon * (1 - 1e-4)


def test_the_ends_of_a_range():
    cost, _ = COSTS["rising"]
    assert find_dearest(cost, 1.0, 0.01, (1e-3, 0.1)) == 0.1  # all of it is within
    assert find_dearest(cost, 1.0, 15.0, (10.0, 20.0)) is None
    assert find_dearest(lambda x: math.inf, 1.0, 2.0, (20.0, 1.0)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        lambda: pricing.penalty_on_batches(Call(1, 1e-2, "substitute", 1, 0, 5), FixedSizeBatches(10**6, 11)),
        lambda: pricing.barker(Call(20, 1e-3, "substitute", 1, 0, 2)),
    ],
)
def test_a_search_goes_on_where_an_accountant_has_no_value(plan):
    found = plan()
    assert found.epsilon_at(found.delta) <= found.epsilon
