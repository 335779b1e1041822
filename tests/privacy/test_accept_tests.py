"""What a mechanism's accept test lets out costs at most what its event charges: neither names the other."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from pymc_dp.errors import PrivacyError
from pymc_dp.kernels.metropolis import Move, State, accept_penalty
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
from pymc_dp.ratios import subsets
from pymc_dp.ratios.build import RATIOS, TESTS
from pymc_dp.records.sums import SumOfRatios
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
    assert np.all(shares_of_the_charge(Penalty(30.0, 1.2, one_scale=True)) > 1.3)
    assert np.all(shares_of_the_charge(Penalty(30.0)) <= 1.001)


@pytest.mark.parametrize("name", TESTS)
def test_no_test_accepts_what_is_no_number(name):
    random = PrivacyRandom(debug_seed=3)
    assert not any(TESTS[name](math.nan, noise_std, random) for noise_std in (0.0, 1.5) for _ in range(50))
    assert any(TESTS[name](3.0, 1.5, random) for _ in range(50))  # control


class Nothing:
    """In the place of a thousand records, which say nothing: what is left of a ratio is its noise."""

    n = 1000

    @property
    def full_batch(self):
        return self

    def __call__(self, new, rows, bound):
        return SumOfRatios(0.0, 0.0, rows, 0.0)

    def ratios(self, theta, new, units):
        return np.zeros(len(units))

    def log_prior(self, theta):
        return 0.0


BOUND, SENSITIVITY = 0.02, 2.0
HERE = State(np.zeros(2), None, 0.0)
#: In nats, at that bound and with no tempering: what each mechanism says in its own units.
NOISE = {
    "Penalty": lambda m: m.noise_multiplier * SENSITIVITY * BOUND,
    "NoisyRatio": lambda m: m.noise_multiplier * SENSITIVITY * BOUND,
    "Hamiltonian": lambda m: m.noise_multiplier * SENSITIVITY * BOUND,
    "PenaltyOnBatches": lambda m: (
        m.noise_multiplier * BOUND * subsets.sensitivity(BOUND, m.batches.batch_size, 1000, 1.0)
    ),
    "BarkerOnBatches": lambda m: math.sqrt(2.0),
    "OnTunaBatches": lambda m: m.noise_std or 0.0,
    "Barker": lambda m: 0.0,
}


def noise_of(mechanism, ratio):
    """Standard deviation of two thousand ratios, and what a ratio says that it is."""
    if isinstance(mechanism, BarkerOnBatches):
        mechanism = replace(mechanism, batches=subsets.FixedSizeBatches(Nothing.n, 300))
    run, random = ratio(mechanism, Nothing(), 1.0, SENSITIVITY), PrivacyRandom(debug_seed=4)
    found = [run(HERE, Move(HERE.theta, BOUND, None), random) for _ in range(2000)]
    return np.std([one.value for one in found]), found[0].noise_std


@pytest.mark.parametrize("mechanism", DECIDING, ids=lambda one: type(one).__name__)
def test_what_runs_has_the_noise_that_was_paid_for(mechanism):
    """Within a tenth: six standard deviations. Control: the ratio of a mechanism without noise."""
    name, ratio = type(mechanism).__name__, RATIOS[type(mechanism)]
    promised, (found, said) = NOISE[name](mechanism), noise_of(mechanism, ratio)
    assert said == pytest.approx(promised, rel=1e-9) and found == pytest.approx(promised, rel=0.1)
    if name in ("Penalty", "NoisyRatio", "Hamiltonian"):
        assert noise_of(mechanism, RATIOS[Barker])[0] == 0.0 < promised


def test_a_move_with_other_noise_than_the_one_scale_is_refused():
    mechanism = Penalty(30.0, 1.2, one_scale=True)
    move, shorter = (Move(HERE.theta, bound, None) for bound in (BOUND, 0.99 * BOUND))
    for only, refused in ((mechanism, True), (replace(mechanism, one_scale=False), False)):
        ratio = RATIOS[Penalty](only, Nothing(), 1.0, SENSITIVITY)
        ratio(HERE, move, PrivacyRandom(debug_seed=5))
        if refused:
            with pytest.raises(PrivacyError, match="noise was paid for"):
                ratio(HERE, shorter, PrivacyRandom(debug_seed=5))
        else:
            ratio(HERE, shorter, PrivacyRandom(debug_seed=5))
