"""The noise of OpenDP's releases is what the events say, and costs what they say."""

import math

import numpy as np
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.privacy import compose
from pymc_dp.privacy.mechanisms import summaries
from pymc_dp.privacy.mechanisms.summaries import IntegerSums, ThresholdedCounts

RUNS = 4000


def spread(release):
    """Variance of RUNS values, as a share of what was said; outside of (low, high) once in 10**7."""
    values = release.release(np.zeros(RUNS, dtype=np.int64))
    return np.sum(values**2) / RUNS / release.std**2


LOW, HIGH = stats.chi2(RUNS).ppf([5e-8, 1 - 5e-8]) / RUNS


@pytest.mark.parametrize("rho", [1e-4, 0.02])
def test_noise_of_sums(rho):
    release = IntegerSums(rho, math.sqrt(2))
    assert LOW < spread(release) < HIGH
    assert release.std == pytest.approx(math.sqrt(1 / rho))
    less = IntegerSums(rho * 1.3**2, math.sqrt(2))
    assert not LOW < spread(less) * less.std**2 / release.std**2 < HIGH  # control: less noise is noticed


def test_noise_of_counts():
    release = ThresholdedCounts(1e-3, 1e-10, "substitute")
    values = np.array(list(release.release({str(k): 10_000 for k in range(RUNS)}).values())) - 10_000
    assert LOW < np.mean(values**2) / release.std**2 < HIGH


def tail(std, at):
    """P(discrete Gaussian >= at), by summation."""
    k = np.arange(-40 * math.ceil(std), 40 * math.ceil(std) + 1)
    weights = np.exp(-0.5 * (k / std) ** 2)
    return weights[k >= at].sum() / weights.sum()


@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
@pytest.mark.parametrize("delta", [1e-7, 1e-12])
@pytest.mark.parametrize("rho", [1e-4, 0.05, 2.0])
def test_a_level_of_one_record_comes_out_with_probability_delta_at_most(rho, delta, relation):
    release = ThresholdedCounts(rho, delta, relation)
    cells = 2 if relation == "substitute" else 1
    assert cells * tail(release.std, release.threshold - 1) <= delta
    if rho < 1e-3:  # and not for nothing: 5 per cent lower, it would not hold
        assert cells * tail(release.std, 0.95 * release.threshold - 1) > delta


def test_what_does_not_come_out():
    release = ThresholdedCounts(1e-3, 1e-10, "substitute")
    found = release.release({"rare": 1, "\0odd \ud800": 5000, "": 4000} | {f"id {k}": 1 for k in range(500)})
    assert list(found) == ["", "\0odd \ud800"]


def test_prices_are_compared(monkeypatch):
    """An event that is cheaper than OpenDP's own price is refused."""
    monkeypatch.setattr(summaries.IntegerSums, "std", property(lambda self: 0.9 / math.sqrt(2 * self.rho)))
    with pytest.raises(dp.errors.PrivacyError, match="above what was charged"):
        _ = IntegerSums(1e-3, 1.0).measurement
    monkeypatch.setattr(summaries.ThresholdedCounts, "threshold", 100.0)
    with pytest.raises(dp.errors.PrivacyError, match="above what was charged"):
        _ = ThresholdedCounts(1e-3, 1e-10, "substitute").measurement


def test_all_releases_together_cost_the_target():
    columns = {"a": "numeric", "b": dp.Numeric(bounds=(0, 1)), "c": "category", "d": "boolean"}
    for relation in ("substitute", "add_remove"):
        for epsilon, delta in ((0.1, 1e-9), (2.0, 1e-6)):
            made = dp.Prepare(columns, epsilon=epsilon, delta=delta, neighboring_relation=relation)
            cost = compose(made.events).epsilon(delta)
            assert 0.999 * epsilon < cost <= epsilon
            assert len(made.cost()) == 3 + 2 + 1 + 1 and made.events.neighboring_relation == relation


def test_the_curve_of_the_discrete_gaussian():
    """Renyi divergences of neighbouring releases, by summation, are at most what the event is charged."""
    rho = 0.3
    std, k = IntegerSums(rho, 1.0).std, np.arange(-30, 31)
    weights = np.exp(-0.5 * (k / std) ** 2), np.exp(-0.5 * ((k - 1) / std) ** 2)
    p, q = (w / w.sum() for w in weights)
    for order in (1.5, 4.0, 32.0):
        divergence = np.log(np.sum(np.exp(order * np.log(p) + (1 - order) * np.log(q)))) / (order - 1)
        assert divergence <= order * IntegerSums(rho, 1.0).event.rho
        assert divergence > 0.9 * order * rho
