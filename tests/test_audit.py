"""The audit: sound on mechanisms that are known, and finds what is broken on purpose in a step.

False-alarm rate of each audit: 1e-6; noise streams are seeded.
"""

import numpy as np
import pymc as pm
import pytest
from dp_accounting import dp_event
from scipy import stats

import pymc_dp as dp
from benchmarks.audit import likelihood, whole
from benchmarks.audit.__main__ import CASES
from benchmarks.audit.step import audit, released
from benchmarks.audit.tester import Approximate, TradeOffTester
from pymc_dp.privacy import compose
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.events import BoundedRangeDecisionDpEvent
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.sums import FullBatch
from pymc_dp.steps import base
from tests.conftest import NUMBA

RUNS = 200_000


def gaussian_claim(mu):
    return compose(dp_event.GaussianDpEvent(1 / mu), "substitute")


def gaussians(mu, runs=RUNS, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(runs, 1)) + mu, rng.normal(size=(runs, 1))


# the tester


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_an_exact_claim_stands_and_one_20_percent_low_falls(mu):
    exact = TradeOffTester(gaussian_claim(mu)).test(*gaussians(mu))
    assert not exact.violated
    assert exact.epsilon_lower <= gaussian.epsilon(mu, 1e-5)
    low = TradeOffTester(gaussian_claim(0.8 * mu)).test(*gaussians(mu))
    assert low.violated
    assert low.excess == pytest.approx(low.probability - low.allowed)
    assert low.probability > low.allowed


def test_a_false_alarm_is_as_rare_as_stated():
    """At confidence 1/2, true claims at the edge are refuted in fewer than half of the audits."""
    tester = TradeOffTester(gaussian_claim(1.0), confidence=0.5)
    alarms = sum(tester.test(*gaussians(1.0, 400, seed)).violated for seed in range(60))
    assert alarms <= stats.binom.isf(1e-6, 60, 0.5)
    # Control: the same audits of a claim that is wrong.
    tester = TradeOffTester(gaussian_claim(0.4), confidence=0.5)
    assert sum(tester.test(*gaussians(1.0, 400, seed)).violated for seed in range(60)) > 50


def test_choosing_and_testing_on_the_same_samples_would_not_be_sound(monkeypatch):
    """Control of the split: many worthless features find an event that is an accident."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=(60, 120)) for _ in range(2)]
    tester = TradeOffTester(Approximate(0.0, 0.0), confidence=0.9)
    assert not tester.test(*samples).violated
    assert tester.test(*(np.repeat(s, 2, axis=0)[np.r_[0:120:2, 1:120:2]] for s in samples)).violated


def test_both_directions_are_tested():
    first, second = gaussians(1.5)
    tester = TradeOffTester(gaussian_claim(1.0))
    for a, b in ((first, second), (second, first), (-first, -second)):
        assert tester.test(a, b).violated


def test_the_discriminant_finds_what_no_feature_shows():
    rng = np.random.default_rng(1)
    noise = [rng.normal(size=(20_000, 50)) for _ in range(2)]
    shift = 0.2  # mu = .2 sqrt(50) = 1.4 together
    result = TradeOffTester(gaussian_claim(0.7)).test(noise[0] + shift, noise[1])
    assert result.violated
    single = TradeOffTester(gaussian_claim(0.7)).test(noise[0][:, :1] + shift, noise[1][:, :1])
    assert not single.violated


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_count(odd):
    """A stat that is NaN under one data set only gives the record away."""
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 400, 3))
    tester = TradeOffTester(gaussian_claim(0.5))
    assert not tester.test(first, second).violated
    first[:, 1] = odd
    assert tester.test(first, second).violated


@pytest.mark.slow
def test_pure_and_approximate_claims():
    """Randomised response is exactly epsilon-DP: the implied curve is its own."""
    claim, p = Approximate(1.0, 0.0), np.e / (1 + np.e)
    for epsilon in (0.0, 0.4, 0.99):
        assert claim.delta(epsilon) == pytest.approx(p - np.exp(epsilon) * (1 - p))
    assert claim.delta(1.0) == claim.delta(3.0) == 0
    assert Approximate(1.0, 0.1).delta(0.0) == pytest.approx(0.1 + 0.9 * np.tanh(0.5))
    rng = np.random.default_rng(3)
    answers = [(rng.random((50_000, 1)) < q).astype(float) for q in (p, 1 - p)]
    assert not TradeOffTester(claim).test(*answers).violated
    assert TradeOffTester(Approximate(0.9, 0.0)).test(*answers).violated
    assert not TradeOffTester(compose(BoundedRangeDecisionDpEvent(2.0), "substitute")).test(*answers).violated


def test_an_error_probability_of_one_test():
    tester = TradeOffTester(gaussian_claim(0.5))
    assert tester.test(*gaussians(1.0), 1e-4).violated
    assert not tester.test(*gaussians(0.5), 1e-4).violated


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TradeOffTester(gaussian_claim(1.0), delta=0.0), "delta"),
        (lambda: TradeOffTester(gaussian_claim(1.0), confidence=1.0), "confidence"),
        (lambda: TradeOffTester(gaussian_claim(1.0)).test(np.zeros((9, 1)), np.zeros((8, 1))), "shape"),
        (lambda: TradeOffTester(gaussian_claim(1.0)).test(np.zeros((2, 1)), np.zeros((2, 1))), "runs"),
        (lambda: Approximate(-1.0, 0.0), "epsilon"),
        (lambda: Approximate(1.0, 1.0), "delta"),
    ],
)
def test_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# the audit of a step


class Forward:
    """The same move each time."""

    def move(self, rng, d):
        return np.ones(d)


def step_on(values, tilt=0.0, cls=dp.DPPenaltyMH, **kwargs):
    """The first record's ratio is 10 times its value's sign, clipped at 1; the others' are about zero."""
    with pm.Model():
        theta = pm.Normal("theta", 0, 1e6)
        pm.Potential("tilt", tilt * theta)
        pm.Normal("y", theta, 100.0, observed=values)
        settings = {"epsilon": 6.0, "delta": 1e-5, "clip_bound": 1.0, "chains": 1, "debug_seed": 0}
        walk = {"proposal": Forward(), "step_size": 1.0, "adapt_step_size": False}
        return cls(**settings | walk | kwargs)


NEIGHBORS = [np.array([sign * 1e5, 0.0, 0.0]) for sign in (1, -1)]


@pytest.mark.slow
def test_what_is_released():
    step = step_on(NEIGHBORS[0])
    found = released(step, 3, tune=2, runs=6)
    assert found["point"].shape == (6, 5, 1)
    assert found["accepted"].shape == found["noise_std"].shape == (6, 5)
    steps = np.diff(found["point"][:, :, 0], axis=1, prepend=0.0)
    np.testing.assert_array_equal(steps, found["accepted"])
    assert len({tuple(row) for row in found["clip_fraction"][:, -1:]}) == 6, "noise of its own in each run"
    again = released(step_on(NEIGHBORS[0]), 3, tune=2, runs=6)
    np.testing.assert_array_equal(found["accepted"], again["accepted"])


@pytest.mark.slow
def test_the_step_is_left_as_it_was():
    step = step_on(NEIGHBORS[0])
    released(step, 1, runs=4)
    step.setup_chain(np.random.default_rng(0), 0, 2)
    assert step.plan.draws == 2
    with pytest.raises(dp.errors.BudgetError):
        step.setup_chain(np.random.default_rng(0), 0, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: released(step_on(NEIGHBORS[0]), 1, runs=3), "runs"),
        (lambda: released(step_on(NEIGHBORS[0], chains=2), 1, runs=4), "chains=1"),
        (lambda: audit(step_on, NEIGHBORS[:1]), "two data sets"),
    ],
)
def test_arguments_of_an_audit(call, message):
    with pytest.raises(ValueError, match=message):
        call()


class HalfNoise(PrivacyRandom):
    def normals(self, size=None):
        return 0.5 * super().normals(size)


class KnownSeed(PrivacyRandom):
    def __init__(self, debug_seed=None, stream=0):
        super().__init__(1, 0)


def unclipped(call):
    def apply(self, theta, old, bound):
        found = call(self, theta, old, 100 * bound)
        return found._replace(total=100 * found.total)

    return apply


def leaking(iterate):
    def apply(self, chain):
        exact = float(self.records.full_batch(chain.state.theta + 1, chain.state.kept, 1.0).total)
        accepted, found = iterate(self, chain)
        return accepted, found | {"exact": exact}

    return apply


def check(tilt=0.5, draws=1, runs=400):
    """`tilt` is the prior log-ratio of the move: near it a decision tells most."""

    def make_step(values):
        return step_on(values, tilt, compile_kwargs=NUMBA)

    return audit(make_step, NEIGHBORS, draws=draws, runs=runs)


@pytest.mark.slow
@pytest.mark.parametrize(("draws", "tilt"), [pytest.param(1, 0.5, marks=pytest.mark.exhaustive), (4, 3.0)])
def test_no_alarm_as_shipped(draws, tilt):
    result = check(tilt, draws, runs=1000)
    assert not result.violated
    assert 0.3 < result.epsilon_lower < 6, "the attack is a real one"


@pytest.mark.slow
def test_noise_halved(monkeypatch):
    monkeypatch.setattr(base, "PrivacyRandom", HalfNoise)
    assert check(0.66, runs=2400).violated


@pytest.mark.slow
def test_sensitivity_of_a_removed_record(monkeypatch):
    monkeypatch.setattr(base.DPStep, "_sensitivity", 1.0)
    assert check(-0.16, runs=1600).violated


@pytest.mark.slow
def test_clip_not_applied(monkeypatch):
    monkeypatch.setattr(FullBatch, "__call__", unclipped(FullBatch.__call__))
    assert check().violated


@pytest.mark.slow
def test_exact_ratio_in_the_stats(monkeypatch):
    monkeypatch.setattr(dp.DPPenaltyMH, "_iterate", leaking(dp.DPPenaltyMH._iterate))
    assert check().violated


@pytest.mark.slow
def test_noise_that_follows_from_the_public_seed(monkeypatch):
    monkeypatch.setattr(base, "PrivacyRandom", KnownSeed)
    assert check(6.0, draws=8).violated


def test_faults_are_planted_where_something_is():
    """A function that has moved would leave the audit without its fault."""
    releases = [*likelihood.RELEASES, likelihood.TWINS]
    faults = [*likelihood.COMMON, *whole.FAULTS, *(fault for one in releases for fault in one.faults)]
    faults += [fault for build in CASES for fault in build().faults]
    patches = [patch for fault in faults for patch in fault.patches]
    assert len(patches) > 50
    assert all(hasattr(patch.owner, patch.name) for patch in patches)


# releases of a likelihood


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
@pytest.mark.parametrize("release", likelihood.RELEASES, ids=lambda release: release.kind)
def test_pairs_of_data_sets_are_as_far_apart_as_a_bound_allows(release):
    """What the audit attacks is the worst pair of each kind of release."""
    assert 0.99 * release.apart <= likelihood.apart(release) <= release.apart


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_a_whole_release_on_three_records_moves_by_what_is_stated_and_no_more():
    pair = next(pair for pair in whole.PAIRS if pair.name == "one more than 2")
    one = whole.transcript(pair.first, pair.relation)
    other = whole.transcript(pair.second, pair.relation, one.said)
    apart = whole.moved_by(one, other)
    assert 0.99 * whole.MU < np.linalg.norm(apart) <= whole.MU
