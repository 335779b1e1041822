"""What steers the accounting, and what is promised does not depend on: searches, small linear programs."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from pymc_dp.privacy.accounting.search import Search
from pymc_dp.privacy.accounting.simplex import Cover
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches


class Counted:
    """A cost, and the parameters that were asked for."""

    def __init__(self, cost):
        self._cost, self.asked = cost, []

    def __call__(self, parameter):
        self.asked.append(parameter)
        return self._cost(parameter)


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
    found = Search(counted, epsilon, low=1e-6, high=1e6, rising=rising).run(start)
    assert found in counted.asked and cost(found) <= epsilon  # its own cost was found within the budget
    beyond = found * (1.002 if rising else 1 / 1.002)
    assert cost(beyond) > epsilon * (1 - 1e-3)
    assert len(counted.asked) <= 25
    if name in ("falling", "rising") and start == 0.9:
        assert len(counted.asked) <= 8 and cost(found) > epsilon * (1 - 1e-4)


def test_a_guess_saves_costs_and_is_not_believed():
    cost, _ = COSTS["falling"]
    for factor, power, most in ((1.0, 0.0, 1), (0.5, 0.0, 2), (3.0, 0.1, 4)):
        counted = Counted(cost)
        guess = lambda x: factor * cost(x) * x**power  # noqa: B023, E731
        found = Search(counted, 1.0, low=1e-6, high=1e6, rising=False, guess=guess, tolerance=1e-3).run(50.0)
        assert 1 - 2e-3 <= cost(found) <= 1.0 and len(counted.asked) <= most
    wrong = Search(cost, 1.0, low=1e-6, high=1e6, rising=False, guess=lambda x: x, tolerance=1e-3).run(50.0)
    assert cost(wrong) <= 1.0  # loose perhaps, never over


def test_the_ends_of_a_range():
    cost, _ = COSTS["rising"]
    assert Search(cost, 1.0, low=1e-3, high=0.1, rising=True).run(0.01) == 0.1  # all of it is within
    assert Search(cost, 1.0, low=10.0, high=20.0, rising=True).run(15.0) is None
    assert Search(lambda x: math.inf, 1.0, low=1.0, high=20.0, rising=False).run(2.0) is None


def test_cheapest_covers_are_those_of_another_solver():
    rng = np.random.default_rng(3)
    none = 0
    for _ in range(30):
        n, m = int(rng.integers(2, 60)), int(rng.integers(1, 30))
        gains, price, most = rng.random((m, n)) ** 3, rng.random(n), float(rng.uniform(2, 12))
        needed = rng.uniform(0.1, 1.5, m)
        cover = Cover(price, most)
        cover.require(gains[: m // 2], needed[: m // 2])
        cover.weights()
        cover.move(0.3 * needed[: m // 2])  # constraints that move, and others that are added later
        cover.require(gains[m // 2 :], needed[m // 2 :])
        cover.move(needed)
        found = cover.weights()
        exact = linprog(price, np.vstack([-gains, np.ones(n)]), np.append(-needed, most))
        if exact.x is None:
            none += 1
            assert found is None
        else:
            assert (
                np.all(found >= 0) and found.sum() <= most + 1e-7 and np.all(gains @ found >= needed - 1e-7)
            )
            assert price @ found == pytest.approx(exact.fun, rel=1e-7)
    assert 0 < none < 30


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan",
    [
        lambda: pricing.penalty_on_batches(Call(1, 1e-2, "substitute", 1, 0, 5), FixedSizeBatches(10**6, 11)),
        lambda: pricing.barker(Call(20, 1e-3, "substitute", 1, 0, 2)),
    ],
)
def test_a_search_goes_on_where_its_steering_has_no_value(plan):
    """Value iteration ends at a noise of .1 and at an eta of 10: searches raised there."""
    found = plan()
    assert found.epsilon_at(found.delta) <= found.epsilon
