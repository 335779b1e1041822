"""Decisions of bounded range as Gaussians: never below the truth, and close to it where they are little."""

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, SelfComposedDpEvent
from scipy import special, stats

from pymc_dp.privacy import compose
from pymc_dp.privacy.accounting.composition import ACCOUNTANTS
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.events import BoundedRangeDecisionDpEvent
from pymc_dp.privacy.accounting.poisson_barker import largest_range, probit_range

GDP = ACCOUNTANTS["Gaussian limit"]


def both(mu, eta, gaussians, decisions):
    events = [
        SelfComposedDpEvent(GaussianDpEvent(np.sqrt(gaussians) / mu), gaussians),
        SelfComposedDpEvent(BoundedRangeDecisionDpEvent(eta), decisions),
    ]
    return EventSet(events, "substitute")


def delta_from_below(mu, eta, decisions, epsilon):
    """Exact delta of the Gaussian with `decisions` randomized responses, which have range eta: integrated.

    A decision of log-odds plus or minus eta / 2 under the two data sets is one of bounded range eta.
    """
    p = 1 / (1 + np.exp(-eta / 2))
    k = np.arange(decisions + 1)
    weights = stats.binom(decisions, p).pmf(k)
    losses = (2 * k - decisions) * eta / 2
    z = np.linspace(-12, 12, 40_001)
    gaussian_loss = mu * z + mu**2 / 2  # under the first data set
    density = stats.norm.pdf(z) * (z[1] - z[0])
    total = sum(
        w * np.sum(density * np.maximum(-np.expm1(epsilon - loss - gaussian_loss), 0))
        for w, loss in zip(weights, losses, strict=True)
    )
    return float(total)


@pytest.mark.parametrize("mu", [0.2, 0.5, 1.5])
@pytest.mark.parametrize(("eta", "decisions"), [(0.01, 5), (0.01, 200), (0.1, 40), (0.5, 6)])
def test_never_below_the_truth(mu, eta, decisions):
    trade_off = GDP(both(mu, eta, 7, decisions))
    for epsilon in (0.2, 0.7, 1.5, 4.0):
        assert trade_off.delta(epsilon) >= delta_from_below(mu, eta, decisions, epsilon) * (1 - 1e-9)
    for delta in (1e-2, 1e-4, 1e-7):
        assert delta_from_below(mu, eta, decisions, trade_off.epsilon(delta)) <= delta


def test_counts_are_counted():
    """Ten times the events cost more, of either kind."""
    few, gaussians, decisions = both(0.5, 0.1, 3, 4), both(1.6, 0.1, 30, 4), both(0.5, 0.1, 3, 40)
    for more in (gaussians, decisions):
        assert GDP(more).epsilon(1e-6) > 1.15 * GDP(few).epsilon(1e-6)


def test_close_to_the_gaussians_where_the_rest_is_little():
    events = both(0.44, 1e-6, 50, 1000)
    gaussian = compose(SelfComposedDpEvent(GaussianDpEvent(np.sqrt(50) / 0.44), 50), "substitute")
    apart = GDP(events).epsilon(1e-6)
    assert gaussian.epsilon(1e-6) <= apart <= 1.001 * gaussian.epsilon(1e-6)
    assert ACCOUNTANTS["RDP"](events).epsilon(1e-6) > 1.04 * apart
    assert compose(events).accountant == "Gaussian limit"


@pytest.mark.parametrize("eta", [1e-6, 0.01, 0.3, 1.0, 5.0, 30.0])
def test_probits_differ_most_around_even_odds(eta):
    """By brute force over the log-odds, with quantiles computed elsewhere."""
    y = np.concatenate([np.linspace(-30, 30, 4001), [0.0]])
    upper, lower = y + eta / 2, y - eta / 2
    probit = np.where(upper < 0, stats.norm.ppf(special.expit(upper)), stats.norm.isf(special.expit(-upper)))
    shift = probit - np.where(
        lower < 0, stats.norm.ppf(special.expit(lower)), stats.norm.isf(special.expit(-lower))
    )
    bound = probit_range(eta)
    assert np.max(shift) <= bound <= np.max(shift) * (1 + 1e-4) and bound <= eta * np.sqrt(2 * np.pi) / 4 * (
        1 + 1e-7
    )


@pytest.mark.parametrize(
    ("rate", "clip_bound"), [(1e-4, 1e-6), (1e-3, 1e-3), (0.05, 0.2), (2.0, 0.1), (0.01, 0.02)]
)
@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_fast_decisions(rate, clip_bound, relation):
    """The probit moves at least as far as the shifts at even odds, and as at the worst odds on a grid."""
    bound = probit_range(largest_range(rate, clip_bound, relation == "substitute"))
    found = 0.0
    for w, other in [(clip_bound, -clip_bound), (clip_bound, None), (None, -clip_bound)]:
        if (relation == "substitute") == (None in (w, other)):
            continue
        for base in np.linspace(-8, 8, 33):
            p, q = (acceptance(base, ratio, rate, clip_bound) for ratio in (w, other))
            found = max(found, stats.norm.ppf(p) - stats.norm.ppf(q))
    assert 0.5 * bound < found <= bound * (1 + 1e-6)


def acceptance(base, ratio, rate, clip_bound):
    """Barker's acceptance, one record beside others of constant log-ratio: summed over its multiplicity."""
    if ratio is None:
        return special.expit(base)
    mean = rate + (clip_bound - ratio) / 2
    k = np.arange(int(mean + 20 * np.sqrt(mean) + 40))
    return np.sum(stats.poisson(mean).pmf(k) * special.expit(base + k * np.log1p(ratio / mean)))


def test_needs_something_that_is_no_gaussian():
    assert GDP(EventSet(GaussianDpEvent(3.0), "substitute")) is None
