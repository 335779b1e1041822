"""Gaussians exactly, the rest by itself: never below the truth, and close to it where the rest is little."""

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, SelfComposedDpEvent
from scipy import stats

from pymc_dp.privacy import compose
from pymc_dp.privacy.accountants import ACCOUNTANTS, NotApplicableError
from pymc_dp.privacy.events import BoundedRangeDecisionDpEvent, EventSet

APART = ACCOUNTANTS["Gaussians apart"]


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
    trade_off = APART(both(mu, eta, 7, decisions))
    for epsilon in (0.2, 0.7, 1.5, 4.0):
        assert trade_off.delta(epsilon) >= delta_from_below(mu, eta, decisions, epsilon) * (1 - 1e-9)
    for delta in (1e-2, 1e-4, 1e-7):
        assert delta_from_below(mu, eta, decisions, trade_off.epsilon(delta)) <= delta


def test_counts_are_counted():
    """Ten times the events cost more, of either kind."""
    few, gaussians, decisions = both(0.5, 0.1, 3, 4), both(1.6, 0.1, 30, 4), both(0.5, 0.1, 3, 40)
    for more in (gaussians, decisions):
        assert APART(more).epsilon(1e-6) > 1.2 * APART(few).epsilon(1e-6)


def test_close_to_the_gaussians_where_the_rest_is_little():
    events = both(0.44, 1e-6, 50, 1000)
    gaussian = compose(SelfComposedDpEvent(GaussianDpEvent(np.sqrt(50) / 0.44), 50), "substitute")
    apart = APART(events).epsilon(1e-6)
    assert gaussian.epsilon(1e-6) <= apart <= 1.001 * gaussian.epsilon(1e-6)
    assert ACCOUNTANTS["decision"](events).epsilon(1e-6) > 1.04 * apart
    assert compose(events).accountant == "Gaussians apart"


def test_needs_both_kinds():
    for events in (GaussianDpEvent(3.0), BoundedRangeDecisionDpEvent(0.1)):
        with pytest.raises(NotApplicableError):
            APART(EventSet(events, "substitute"))
