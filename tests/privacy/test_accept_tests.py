"""What a mechanism's accept test lets out costs at most what its event charges: neither names the other."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from pymc_dp.kernels.metropolis import accept_penalty
from pymc_dp.privacy.accounting.costs import total_curve
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.mechanisms.iterations import (
    Barker,
    BarkerOnBatches,
    NoDecision,
    OnTunaBatches,
    Penalty,
    PenaltyOnBatches,
    Unlimited,
)
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.ratios.build import TESTS
from tests.privacy.test_plan import MECHANISMS

ORDERS = (2.0, 8.0)
DECIDING = [one for one in MECHANISMS if one.test in TESTS and not isinstance(one, NoDecision | Unlimited)]


class Quantiles:
    """In the place of randomness: draws at given quantiles, one after the other; then at the median."""

    def __init__(self, *quantiles):
        self.quantiles, self.asked = quantiles, 0

    def _next(self):
        self.asked += 1
        return self.quantiles[self.asked - 1] if self.asked <= len(self.quantiles) else 0.5

    def exponential(self):
        return -math.log1p(-self._next())

    def uniform(self, size):
        return np.array([self._next() for _ in range(size)])


def acceptance(test, noise_std, ratio):
    """Probability that a test accepts a noisy ratio: its last draw by bisection, a mean over those before."""
    counter = Quantiles()
    test(ratio, noise_std, counter)
    if not counter.asked:
        return float(test(ratio, noise_std, counter))
    middles = (np.arange(200) + 0.5) / 200
    before = [()] if counter.asked == 1 else [(one,) for one in middles]
    assert counter.asked <= 2
    found = []
    for first in before:
        low, high = 1e-12, 1 - 1e-12
        at_low, at_high = (test(ratio, noise_std, Quantiles(*first, last)) for last in (low, high))
        while at_low != at_high and high - low > 1e-9:
            middle = (low + high) / 2
            if test(ratio, noise_std, Quantiles(*first, middle)) == at_low:
                low = middle
            else:
                high = middle
        found.append(at_low if at_low == at_high else at_low * low + at_high * (1 - high))
    return float(np.mean(found))


def probabilities(test, noise_std, ratios):
    """That it accepts ratios before their noise, which is integrated over cells."""
    if noise_std == 0:
        return np.array([acceptance(test, 0.0, ratio) for ratio in ratios])
    middles = np.linspace(-10, 10, 1201) * max(noise_std, 1.0)
    accepted = np.array([acceptance(test, noise_std, ratio) for ratio in middles])
    ends = np.concatenate([[-np.inf], (middles[1:] + middles[:-1]) / 2, [np.inf]])
    return np.diff(ndtr((ends - np.asarray(ratios)[:, None]) / noise_std), axis=1) @ accepted


def neighbours(mechanism):
    """Standard deviation of noise, and of two neighbours the law of what a record adds: [(weight, shift)]."""
    if isinstance(mechanism, Barker):
        yield 0.0, [(1.0, 0.0)], [(1.0, mechanism.eta)]
    elif isinstance(mechanism, OnTunaBatches):
        batches, laws = mechanism.batches, []
        for w in (-batches.clip_bound, batches.clip_bound):
            mean = batches.rate + (batches.clip_bound - w) / 2
            counts = np.arange(6)
            laws.append(
                list(zip(stats.poisson(mean).pmf(counts), counts * math.log1p(w / mean), strict=True))
            )
        yield mechanism.noise_std or 0.0, *laws
    elif isinstance(mechanism, BarkerOnBatches | PenaltyOnBatches):
        q = mechanism.batches.batch_size / mechanism.batches.dataset_size
        on_batch = 2 / math.sqrt(mechanism.batches.batch_size)
        barker = isinstance(mechanism, BarkerOnBatches)
        for noise_std in (math.sqrt(2.0),) if barker else (0.5, 2.0):
            shift = on_batch if barker else noise_std / mechanism.noise_multiplier
            yield noise_std, [(1.0, 0.0)], [(1 - q, 0.0), (q, shift)]
    else:
        fixed = getattr(mechanism, "noise_std", None)
        for noise_std in (0.5, 2.0) if fixed is None else (fixed,):
            yield noise_std, [(1.0, 0.0)], [(1.0, noise_std / mechanism.noise_multiplier)]


def largest_divergences(test, noise_std, one, other):
    """Renyi divergences of the decision's bit: the largest over ratios of other records, and directions."""
    ratios = np.linspace(-3, 3, 25) * max(noise_std, 1.0)
    p, q = (
        sum(w * probabilities(test, noise_std, ratios + shift) for w, shift in law) for law in (one, other)
    )
    kept = np.minimum(np.minimum(p, 1 - p), np.minimum(q, 1 - q)) > 1e-6
    p, q = np.stack([p, 1 - p])[:, kept], np.stack([q, 1 - q])[:, kept]
    return [
        max(np.log((a**order * b ** (1 - order)).sum(0).max()) for a, b in ((p, q), (q, p))) / (order - 1)
        for order in ORDERS
    ]


def shares_of_the_charge(mechanism):
    """What the bit costs over what is charged, for the worst of the neighbours: an order each."""
    events = EventSet(mechanism.event("substitute"), "substitute").counts
    charged = [total_curve(events, "substitute")(order) for order in ORDERS]
    found = [largest_divergences(TESTS[mechanism.test], *pair) for pair in neighbours(mechanism)]
    return np.max(found, axis=0) / charged


@pytest.mark.parametrize("mechanism", DECIDING, ids=lambda one: type(one).__name__)
def test_a_decision_costs_at_most_its_event(mechanism):
    found = shares_of_the_charge(mechanism)
    assert np.all((found > 0.01) & (found <= 1.001))


THRESHOLDS = {
    "zero": lambda ratio, noise_std, random: ratio > 0,
    "of its noise": lambda ratio, noise_std, random: ratio > -noise_std,
    "steep": lambda ratio, noise_std, random: accept_penalty(4 * ratio, noise_std, random),
}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_another_test_costs_more_than_a_penalty_decision_of_known_scale(name, monkeypatch):
    """Control; `PenaltyDecisionDpEvent` holds for any threshold on a ratio with Gaussian noise."""
    monkeypatch.setitem(TESTS, "penalty", THRESHOLDS[name])
    assert np.all(shares_of_the_charge(Penalty(30.0, 1.2)) > 1.3)
    assert np.all(shares_of_the_charge(Penalty(30.0)) <= 1.001)


@pytest.mark.parametrize("name", TESTS)
def test_no_test_accepts_what_is_no_number(name):
    random = PrivacyRandom(debug_seed=3)
    assert not any(TESTS[name](math.nan, noise_std, random) for noise_std in (0.0, 1.5) for _ in range(50))
    assert any(TESTS[name](3.0, 1.5, random) for _ in range(50))  # control
