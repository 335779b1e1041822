"""Requests that depend on results: the budget holds against an analyst who makes the best of what he sees."""

import math

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom, norm

from pymc_dp.privacy import (
    BoundedRangeDecisionDpEvent,
    EventSet,
    PenaltyDecisionDpEvent,
    PoissonMixtureDpEvent,
    compose,
)
from pymc_dp.privacy.budget.filters import Cost, PrivacyFilter

SUBSTITUTE = "substitute"


def events(*items):
    return EventSet(list(items), SUBSTITUTE)


# An exact analyst, sharing no code with the package. Losses may be negative: epsilon is any real number.

OFFSETS = np.linspace(-8, 8, 65)
FIRST = 10  # symmetric decisions before the choice


def decision_delta(eta, epsilon, offset):
    """A decision of log-odds `offset` + eta on one data set, and `offset` on the other."""
    p, q = expit(np.array([1, -1]) * (offset + eta)), expit(np.array([1, -1]) * offset)
    return np.sum(np.maximum(p - np.exp(epsilon) * q, 0))


def gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def after_decisions(eta, epsilon, follow_up):
    """Delta of ten symmetric decisions, and of what the analyst chooses next for each of their losses."""
    ones = np.arange(FIRST + 1)
    losses = (2 * ones - FIRST) * eta / 2
    return sum(
        chance * follow_up(epsilon - loss)
        for chance, loss in zip(binom.pmf(ones, FIRST, expit(eta / 2)), losses, strict=True)
    )


def largest(delta_of, delta):
    return brentq(lambda size: delta_of(size) - delta, 1e-3, 8)


BUDGETS = [(0.5, 1e-5), (1.0, 1e-5), (2.0, 1e-3), (4.0, 1e-6)]


def what_the_analyst_gets(rule, share):
    """Delta of ten decisions, then the largest decision or Gaussian, as suits him best."""
    eta = math.sqrt(8 * share * rule.capacity.amount / (rule.order * FIRST))
    first = [rule.cost(events(BoundedRangeDecisionDpEvent(eta)))] * FIRST
    eta_2, step = 0.0, 8.0
    while step > 1e-9:
        more = rule.cost(events(BoundedRangeDecisionDpEvent(eta_2 + step)))
        eta_2, step = (eta_2 + step if rule.accepts(first, more) else eta_2), step / 2
    mu_2 = rule.largest_mu(first)
    assert rule.accepts(first, rule.cost(events(GaussianDpEvent(1 / mu_2))))
    assert not rule.accepts(first, rule.cost(events(GaussianDpEvent(1 / (mu_2 * 1.001)))))

    def worst(e):
        return max(gaussian_delta(mu_2, e), *(decision_delta(eta_2, e, offset) for offset in OFFSETS))

    return after_decisions(eta, rule.epsilon, worst)


class TwiceTheCapacity(PrivacyFilter):
    @property
    def capacity(self):
        return Cost(2 * super().capacity.amount, super().capacity.excluded)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_adaptive_choice_stays_within_the_budget(epsilon, delta):
    found, control = (
        [what_the_analyst_gets(rule(epsilon, delta, SUBSTITUTE), share) / delta for share in (0.1, 0.3, 0.8)]
        for rule in (PrivacyFilter, TwiceTheCapacity)
    )
    assert max(found) <= 1 < max(control)


def test_composing_the_list_would_not_do():
    """Control: the rule "composed cost within budget", with exact costs, is beaten by the same analyst."""
    epsilon, delta, eta = 2.0, 1e-5, 0.2
    mu_2 = largest(lambda m: after_decisions(eta, epsilon, lambda e: gaussian_delta(m, e)), delta)
    eta_2 = largest(lambda x: after_decisions(eta, epsilon, lambda e: decision_delta(x, e, -x / 2)), delta)
    both = after_decisions(
        eta, epsilon, lambda e: max(gaussian_delta(mu_2, e), decision_delta(eta_2, e, -eta_2 / 2))
    )
    assert both > 1.7 * delta


def test_the_order_is_the_best_for_gaussians_and_costs_what_the_docs_say():
    for (epsilon, delta), stated in zip(BUDGETS, [0.84, 0.85, 0.81, 0.89], strict=True):
        exact = PrivacyFilter(epsilon, delta, SUBSTITUTE, "gaussian")
        rule = PrivacyFilter(epsilon, delta, SUBSTITUTE)
        share = rule.largest_mu([Cost(0.0)]) ** 2 / exact.largest_mu([Cost(0.0)]) ** 2
        assert share == pytest.approx(stated, abs=0.006)
        for order in (0.8 * (rule.order - 1) + 1, 1.25 * (rule.order - 1) + 1):
            other = PrivacyFilter(epsilon, delta, SUBSTITUTE, order=order)
            assert other.largest_mu([Cost(0.0)]) <= rule.largest_mu([Cost(0.0)])


EVENT = st.one_of(
    st.floats(0.3, 300).map(GaussianDpEvent),
    st.sampled_from([5.0, 20.0, 100.0]).map(PenaltyDecisionDpEvent),
    st.one_of(st.just(0.0), st.floats(1e-9, 1)).map(BoundedRangeDecisionDpEvent),
    st.just(PoissonMixtureDpEvent(0.01, 0.05, 2.0)),
)


@settings(max_examples=40, deadline=None)
@pytest.mark.slow
@given(
    st.sampled_from(BUDGETS),
    st.sampled_from(["renyi", "gaussian"]),
    st.lists(st.tuples(EVENT, st.integers(1, 200)), min_size=1, max_size=8),
)
def test_what_is_accepted_composes_within_the_budget(budget, accounting, requests):
    rule = PrivacyFilter(*budget, SUBSTITUTE, accounting)
    accepted, taken = [], []
    for event, count in requests:
        request = events(SelfComposedDpEvent(event, count))
        cost = rule.cost(request)
        assert cost.amount >= 0
        if rule.accepts(taken, cost):
            accepted.append(request)
            taken.append(cost)
    assert compose(accepted, SUBSTITUTE).epsilon(budget[1]) <= budget[0]


@pytest.mark.parametrize("accounting", ["renyi", "gaussian"])
def test_costs(accounting):
    rule = PrivacyFilter(1.0, 1e-5, SUBSTITUTE, accounting)
    one = rule.cost(events(GaussianDpEvent(10)))
    four = rule.cost(events(GaussianDpEvent(5)))
    assert four.amount == pytest.approx(4 * one.amount) and one.amount > 0
    assert rule.cost(events(SelfComposedDpEvent(GaussianDpEvent(10), 4))).amount == pytest.approx(four.amount)
    decision = rule.cost(events(PenaltyDecisionDpEvent(10)))
    assert (decision.amount < 0.9 * one.amount) == (accounting == "renyi")
    for nothing in (NonPrivateDpEvent(), GaussianDpEvent(0.0)):
        assert rule.cost(events(nothing)).amount == math.inf
        assert not rule.accepts([], rule.cost(events(nothing)))
        assert not rule.accepts_alone(events(nothing))


def test_events_without_a_bound_are_not_free():
    sampled = PoissonSampledDpEvent(0.01, GaussianDpEvent(5.0))
    assert PrivacyFilter(1.0, 1e-5, SUBSTITUTE, "gaussian").cost(events(sampled)).amount == math.inf
    added = EventSet([sampled], "add_remove")
    assert 0 < PrivacyFilter(1.0, 1e-5, "add_remove").cost(added).amount < 1e-3


def test_excluded_probability_has_a_budget():
    rule = PrivacyFilter(1.0, 1e-5, SUBSTITUTE)
    assert rule.accepts([], Cost(0.0, 1e-9)) and not rule.accepts([], Cost(0.0, 1e-5))
    assert not rule.accepts([Cost(0.0, 1e-9)] * 2, Cost(0.0, 1e-9))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((math.inf, 1e-5, SUBSTITUTE), "finite"),
        ((math.nan, 1e-5, SUBSTITUTE), "epsilon"),
        ((-1, 1e-5, SUBSTITUTE), "epsilon"),
        ((1, 0, SUBSTITUTE), "delta"),
        ((1, 1e-5, "both"), "neighboring_relation"),
        ((1, 1e-5, SUBSTITUTE, "sum"), "accounting"),
        ((1, 1e-5, SUBSTITUTE, "renyi", 1.0), "order"),
        ((1, 1e-5, SUBSTITUTE, "renyi", math.nan), "order"),
        ((1, 1e-5, SUBSTITUTE, "gaussian", 3.0), "order"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrivacyFilter(*arguments)


def test_nothing_remains_where_too_much_was_excluded():
    """A first request may take more than the rule knows; it said that the rest remained."""
    rule = PrivacyFilter(1.0, 1e-6, "substitute")
    assert rule.largest_mu([Cost(0.0, 0.99 * rule.capacity.excluded)]) > 0
    assert rule.largest_mu([Cost(0.0, 1.01 * rule.capacity.excluded)]) == 0
