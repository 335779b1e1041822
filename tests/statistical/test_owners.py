"""Several owners: the test corrects for all of their noise, and only for that.

False-alarm rate 1e-6 a comparison; every comparison has a control that must fail it.
"""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.kernels import metropolis as test_of
from pymc_dp.kernels.metropolis import Move, State
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import Gaussian, PrivacyRandom
from pymc_dp.records.sums import GRID, SumOfRatios
from pymc_dp.remote import owner as owner_module
from pymc_dp.remote.homes import Here
from pymc_dp.remote.owner import DataOwner

FALSE_ALARM = 1e-6
BOUND = 4.0  # nats: nothing is clipped
Y = np.random.default_rng(0).normal(0.5, 1.0, size=30)


def build(y):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 10), 1, observed=y)
    return model


class Closed:
    """Sums of `build`'s records without compiled code: many of them take little time."""

    def __init__(self, y):
        self.y = y

    def compare(self, theta, new, bound):
        ratios = ((self.y - theta) ** 2 - (self.y - new) ** 2) / 2
        return float(np.sum(np.round(np.clip(ratios / bound, -1, 1) * GRID))), 0.0


class ClosedFullBatch(Closed):
    def __init__(self, y, log_prior):
        super().__init__(y)
        self.log_prior = log_prior

    def at(self, theta):
        return theta, self.log_prior(theta)

    def __call__(self, theta, old, bound):
        return SumOfRatios(*self.compare(old, theta, bound), theta, self.log_prior(theta))


def epsilon_of(noise_std, iterations):
    """Budget whose noise on the log-ratio has this standard deviation."""
    return float(gaussian.epsilon(np.sqrt(iterations) / (noise_std / (2 * BOUND)), 1e-6))


def joint_step(k, noise_std, iterations, monkeypatch):
    """Step with `k` owners, each adding noise of this standard deviation; all in this process."""
    monkeypatch.setattr(
        dp.Owner, "home", lambda owner, recipe, terms: Here(DataOwner(recipe, terms, owner.ledger))
    )
    seeds = iter(range(100))
    monkeypatch.setattr(owner_module, "PrivacyRandom", lambda: PrivacyRandom(debug_seed=next(seeds)))
    parts = np.array_split(Y, k)
    epsilon = epsilon_of(noise_std, iterations)
    owners = [
        dp.Owner(str(j), build, part, epsilon=epsilon, delta=1e-6, clip_bound=BOUND)
        for j, part in enumerate(parts)
    ]
    step = started(build(Y[:4]), iterations, owners=owners)
    for home, part in zip(step.records._homes, parts, strict=True):
        assert home.servant._shard.compare(np.zeros(1), np.ones(1), BOUND) == Closed(part).compare(
            0, 1, BOUND
        )
        home.servant._shard = Closed(part)
    return step


def single_step(noise_std, iterations):
    model = build(Y)
    step = started(
        model,
        iterations,
        epsilon=epsilon_of(noise_std, iterations),
        delta=1e-6,
        clip_bound=BOUND,
        release="noisy_ratio",
        clip_fraction=False,
        debug_seed=1,
    )
    step.records.full_batch = ClosedFullBatch(Y, step.records.log_prior)
    return step


def started(model, iterations, **kwargs):
    with model:
        step = dp.DPPenaltyMH(chains=1, step_size=0.3, adapt_step_size=False, **kwargs)
    step.setup_chain(np.random.default_rng(5), 0, iterations)
    return step


CHAINS, ITERATIONS = 150, 30


def chains(step):
    """Ends of short chains from one point, far out, and how often each moved."""
    ends, moved = [], []
    for _ in range(CHAINS):
        step._chain.state = None  # a new chain
        point, accepted = {"mu": np.array(2.0)}, 0
        for _ in range(ITERATIONS):
            point, (stat,) = step.step(point)
            accepted += stat["accepted"]
        ends.append(float(point["mu"]))
        moved.append(accepted)
    return np.array(ends), np.array(moved), stat["noise_std"]


def same_law(one, other):
    return min(stats.ks_2samp(a, b).pvalue for a, b in zip(one[:2], other[:2], strict=True))


@pytest.mark.slow
def test_k_owners_are_one_with_k_times_the_noise_variance(monkeypatch):
    """Two-sample Kolmogorov-Smirnov of the chains' ends and numbers of moves.

    Controls: one owner with the noise of one of them; three owners, corrected for the noise of one.
    """
    total, s = CHAINS * ITERATIONS, 1.2
    three = chains(joint_step(3, s, total, monkeypatch))
    one = chains(single_step(s * np.sqrt(3), total))
    assert three[2] == pytest.approx(one[2], rel=2e-3) == s * np.sqrt(3)
    assert same_law(three, one) > FALSE_ALARM
    assert same_law(three, chains(single_step(s, total))) < FALSE_ALARM
    right = test_of.penalty
    monkeypatch.setattr(test_of, "penalty", lambda ratio, v, e: right(ratio, v / 3, e))
    assert same_law(chains(joint_step(3, s, total, monkeypatch)), one) < FALSE_ALARM


@pytest.mark.slow
def test_decisions_have_the_stated_frequency(monkeypatch):
    """Acceptance of one move against its closed form (docs/proofs/penalty, section 1), by a binomial test."""
    k, n, s = 3, 6000, 1.2
    step = joint_step(k, s, n, monkeypatch)
    theta, new = np.array([0.5]), np.array([0.4])
    h = Closed(Y).compare(theta, new, BOUND)[0] / GRID * BOUND
    ratios = [step._chain.ratio(State(theta, None, 0.0), Move(new, BOUND, None), None) for _ in range(n)]
    total = ratios[0].noise_std
    assert total == pytest.approx(s * np.sqrt(k), rel=2e-3)
    exponentials = np.random.default_rng(1).exponential(size=n)
    chance = stats.norm.cdf(h / total - total / 2) + np.exp(h) * stats.norm.cdf(-h / total - total / 2)

    def p_value(variance):
        accepted = sum(
            test_of.penalty(r.value, variance, e) for r, e in zip(ratios, exponentials, strict=True)
        )
        return stats.binomtest(accepted, n, chance).pvalue

    assert p_value(total**2) > FALSE_ALARM
    assert p_value(0.8 * total**2) < FALSE_ALARM


def test_rounding_is_corrected_for():
    """Lemma 1 of docs/proofs/penalty with a uniform error of the grid's width, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def acceptance(h, s, width, variance):
        m = h + width / 2 * nodes - variance / 2
        each = stats.norm.cdf(m / s) + np.exp(m + s**2 / 2) * stats.norm.cdf(-(m + s**2) / s)
        return weights @ each / 2

    def error(s, correction):
        width = s / 16  # the widest grid
        variance = s**2 + correction * width**2 / 12
        odds = [acceptance(h, s, width, variance) / acceptance(-h, s, width, variance) for h in heights]
        return np.max(np.abs(np.log(odds) - heights))

    heights = np.linspace(0.1, 8, 40)
    for s in (1.0, 2.38, 4.0):
        assert Gaussian(s).grid <= s / 16
        assert error(s, correction=1) < 1e-6
        assert error(s, correction=0) > 1e-4  # control
