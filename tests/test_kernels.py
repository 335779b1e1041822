"""The pure kernel on numpy records: what it does with its parts, and that it leaves a posterior invariant."""

import math

import numpy as np
import pytest
from scipy import stats

from pymc_dp.kernels.metropolis import (
    LogRatio,
    Move,
    State,
    accept_barker,
    accept_penalty,
    metropolis,
    prior_change,
)
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom, TunaBatches
from pymc_dp.ratios.all_records import AllRecords
from pymc_dp.ratios.tuna import TunaBatch
from pymc_dp.records.sums import GRID, SumOfRatios

Y = np.random.default_rng(0).normal(0.5, 1.0, size=30)
CHAINS, ITERATIONS = 2000, 30
FALSE_ALARM = 1e-6
BOUND = 8.0  # nats: nothing is clipped


class NormalRecords:
    """Mean of normal data with prior N(0, 1), in numpy: what ratios need of `RecordModel`."""

    n = Y.size
    # Of the posterior.
    std = 1 / math.sqrt(n + 1)
    mean = Y.sum() / (n + 1)

    def __init__(self):
        self.full_batch = self

    def at(self, theta):
        return -((Y - theta[0]) ** 2) / 2, self.log_prior(theta)

    def log_prior(self, theta):
        return -(float(theta[0]) ** 2) / 2

    def __call__(self, theta, old, clip_bound):
        rows, log_prior = self.at(theta)
        ratio = (rows - old) / clip_bound
        total = float(np.round(np.clip(ratio, -1, 1) * GRID).sum())
        return SumOfRatios(total, float(np.sum(np.abs(ratio) > 1)), rows, log_prior)

    def ratios(self, theta, new, units):
        return (self.at(new)[0] - self.at(theta)[0])[units]


def walk(length):
    def propose(rng, state):
        return Move(state.theta + length * rng.standard_normal(1), BOUND, prior_change(state))

    return propose


def z_scores(ratio, accept, chains=CHAINS, length=0.5):
    """Ends of short chains that start at posterior draws, standardised."""
    rng, random = np.random.default_rng(1), PrivacyRandom(debug_seed=1)
    ends = []
    for start in NormalRecords.mean + NormalRecords.std * rng.standard_normal(chains):
        theta = np.array([start])
        state = State(theta, *ratio.at(theta))
        for _ in range(ITERATIONS):
            state, _ = metropolis(state, walk(length), ratio, accept, rng, random)
        ends.append(state.theta[0])
    return (np.array(ends) - NormalRecords.mean) / NormalRecords.std


def p_value(z):
    """Of Kolmogorov-Smirnov, and of the second moment, which sees a wrong width from a tenth on."""
    width = stats.chi2(z.size).cdf(np.sum(z * z))
    return min(stats.kstest(z, "norm").pvalue, 2 * min(width, 1 - width))


def uncorrected(log_ratio, noise_std, random):
    return accept_penalty(log_ratio, 0.0, random)


def doubled(log_ratio, noise_std, random):
    return accept_barker(2 * log_ratio, noise_std, random)


def halved(log_ratio, noise_std, random):
    return accept_barker(0.5 * log_ratio, noise_std, random)


# Ratio, its test, and a wrong one: without the penalty; of the wrong temperature.
CASES = {
    "penalty": (AllRecords(NormalRecords(), 1.0, 1.5 / BOUND), accept_penalty, uncorrected),
    "barker": (AllRecords(NormalRecords(), 1.0), accept_barker, doubled),
    "tuna": (TunaBatch(NormalRecords(), 1.0, TunaBatches(9.0, BOUND)), accept_barker, halved),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_invariance_and_control(case):
    ratio, accept, wrong = CASES[case]
    assert p_value(z_scores(ratio, accept)) > FALSE_ALARM
    assert p_value(z_scores(ratio, wrong, CHAINS // 4)) < FALSE_ALARM  # a quarter is enough to tell


@pytest.mark.parametrize("answer", [True, False])
def test_a_state_is_all_new_or_the_same(answer):
    start = State(np.zeros(1), "kept", -1.0)
    found = LogRatio(0.25, 0.5, 3.0, "new", -4.0)
    seen = []

    def compare(state, move, random):
        assert (state, move, random) == (start, proposed, "random")
        return found

    def accept(log_ratio, noise_std, random):
        seen.append((log_ratio, noise_std, random))
        return answer

    proposed = Move(np.ones(1), 2.0, prior_change(start))
    state, info = metropolis(start, lambda rng, state: proposed, compare, accept, "rng", "random")
    assert seen == [(0.25 - 4.0 + 1.0, 0.5, "random")]
    assert state == (State(proposed.new, "new", -4.0) if answer else start)
    assert (info.accepted, info.ratio, info.move) == (answer, found, proposed)


def test_a_clip_bound_is_lowered_to_the_largest():
    """In untempered nats; the noise goes with it."""
    ratio = AllRecords(NormalRecords(), 0.5, 0.0, largest=0.4)
    new, state = np.array([3.0]), State(np.zeros(1), *ratio.at(np.zeros(1)))
    found = ratio(state, Move(new, 1.0, prior_change(state)), PrivacyRandom(1))
    rows = ratio.at(new)[0] - state.kept
    assert found.value == pytest.approx(0.5 * np.clip(rows, -0.4, 0.4).sum(), abs=1e-4)
    assert found.clipped == np.sum(np.abs(rows) > 0.4)
