"""The Gaussian limit against adversaries whose delta is computed outright, with no code in common."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.special import log_expit, log_ndtr
from scipy.stats import binom, norm

import pymc_dp.privacy as privacy
from pymc_dp.privacy.accounting import events as ev
from pymc_dp.privacy.accounting.composition import gaussian_limit
from pymc_dp.privacy.accounting.decisions import bounded_range_rdp, penalty_rdp
from pymc_dp.privacy.accounting.gaussian_limit import GaussianLimit, Release

# Event, log of the distribution of its threshold, shift of the log-ratio, epsilon, delta.
CASES = [
    (ev.PenaltyDecisionDpEvent(100.0), log_ndtr, 0.01, 1.0, 1e-5),
    (ev.PenaltyDecisionDpEvent(30.0), log_ndtr, 1 / 30, 4.0, 1e-6),
    (ev.BoundedRangeDecisionDpEvent(0.02), log_expit, 0.02, 1.0, 1e-5),
    (ev.BoundedRangeDecisionDpEvent(0.1), log_expit, 0.1, 4.0, 1e-6),
]
ALLOWED = [1110, 966, 700, 275]


def bit(log_cdf, u, shift):
    """Log-probabilities of the two outcomes at u + shift, and their losses against those at u."""
    p = np.array([log_cdf(u + shift), log_cdf(-u - shift)])
    return p, p - np.array([log_cdf(u), log_cdf(-u)])


def excess(epsilon, losses):
    return np.maximum(-np.expm1(epsilon - losses), 0.0)


def of_one_offset(log_cdf, u, shift, k, epsilon, mu=0.0):
    """Delta of k bits at one offset, and of a Gaussian release besides."""
    p, losses = bit(log_cdf, u, shift)
    accepted = np.arange(k + 1)
    total = accepted * losses[0] + (k - accepted) * losses[1]
    return binom.pmf(accepted, k, math.exp(p[0])) @ gaussian_delta(mu, epsilon - total)


def gaussian_delta(mu, epsilon):
    if mu == 0:
        return excess(epsilon, 0.0)
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def of_many_offsets(log_cdf, offsets, shift, k, epsilon, spacing, reach):
    """Delta of who chooses the best of some offsets, and the direction, at each of k steps.

    On a grid of losses, with chords in exp(-loss): slightly more than the adversary's value.
    """
    grid = np.arange(-math.ceil(reach / spacing), math.ceil((epsilon + reach) / spacing)) * spacing
    rules = []
    for u in offsets:
        for p, losses in (bit(log_cdf, u, shift), bit(log_cdf, u, -shift)):
            whole = np.floor(losses / spacing).astype(int)
            upper = np.expm1(-(losses - whole * spacing)) / np.expm1(-spacing)
            rules.append(
                [(n, math.exp(a) * (1 - w), math.exp(a) * w) for n, a, w in zip(whole, p, upper, strict=True)]
            )
    width = max(abs(n) for rule in rules for n, _, _ in rule) + 2
    value = excess(epsilon, grid)
    for _ in range(k):
        padded = np.concatenate([np.zeros(width), value, np.full(width, value[-1])])
        value = np.max(
            [
                sum(
                    low * padded[width + n : width + n + grid.size]
                    + high * padded[width + n + 1 : width + n + 1 + grid.size]
                    for n, low, high in rule
                )
                for rule in rules
            ],
            axis=0,
        )
    return float(np.interp(0.0, grid, value))


@pytest.mark.parametrize(("case", "least"), list(zip(CASES, ALLOWED, strict=True)))
def test_iterations_allowed_and_what_somebody_gets_who_takes_one_offset(case, least):
    event, log_cdf, shift, epsilon, delta = case
    k = privacy.iterations_allowed(event, epsilon, delta, neighboring_relation="substitute")
    assert k >= least
    guarantee = privacy.compose([(event, k)], "substitute", reference_delta=delta)
    assert guarantee.accountant == "Gaussian limit"
    middle = -shift / 2
    assert of_one_offset(log_cdf, middle, shift, k, epsilon) < delta
    assert of_one_offset(log_cdf, middle, shift, k, 0.98 * epsilon) > delta  # within 2 per cent
    # Control: 4 per cent more iterations than are allowed are found out.
    assert of_one_offset(log_cdf, middle, shift, int(1.04 * k), epsilon) > delta


def test_nobody_who_chooses_offsets_gets_more():
    event, log_cdf, shift = ev.BoundedRangeDecisionDpEvent(0.1), log_expit, 0.1
    k, epsilon = 60, 1.5
    bound = privacy.compose([(event, k)], "substitute").delta(epsilon)
    offsets = np.concatenate([[-shift / 2], np.linspace(-3, 3, 13)])
    value = of_many_offsets(log_cdf, offsets, shift, k, epsilon, shift / 16, 2.0)
    alone = of_one_offset(log_cdf, -shift / 2, shift, k, epsilon)
    assert alone < value < bound < 2 * value
    # Control: the limit itself, without what the last few decisions cost more.
    assert gaussian_delta(0.5 * shift * math.sqrt(0.95 * k), epsilon) < value


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["penalty", "barker", "barker without a Gaussian"])
def test_one_release_is_worth_its_price(kind):
    """Inequality (1) of the proof, for two-point laws at many offsets and losses."""
    rng = np.random.default_rng(1)
    failures = 0
    for _ in range(60):
        shift = 10 ** rng.uniform(-2.5, -0.5)
        if kind == "penalty":
            log_cdf, most = log_ndtr, shift**2
            curve = lambda order, shift=shift: penalty_rdp(1 / shift, order)  # noqa: E731
        else:
            log_cdf, most = log_expit, (shift**2 if kind == "barker" else math.inf)
            curve = lambda order, shift=shift: bounded_range_rdp(shift, order)  # noqa: E731
        v, remainder = shift**2 * 10 ** rng.uniform(-0.3, 3), 10 ** rng.uniform(-14, -5)
        (price,) = Release(curve, most, 1).at(np.array([v]), remainder)
        if not math.isfinite(price):
            continue
        u = np.concatenate([rng.uniform(-6, 6, 40), [-shift / 2]])[:, None]
        loss = np.linspace(-9, 9, 181) * math.sqrt(v)
        for sign in (1, -1):
            p, losses = bit(log_cdf, u, sign * shift)
            before = sum(
                math.e**a * gaussian_delta(math.sqrt(v), -loss - b) for a, b in zip(p, losses, strict=True)
            )
            assert np.all(before <= gaussian_delta(math.sqrt(v + price), -loss) + remainder + 1e-13)
            less = gaussian_delta(math.sqrt(v + 0.6 * price), -loss) + remainder + 1e-13
            failures += np.any(before > less)
    assert failures > 20  # control: six tenths of the price are not enough


def test_mixed_runs():
    """Decisions of two kinds and a Gaussian release, at one offset each: a double sum."""
    few, many, mu = ev.PenaltyDecisionDpEvent(20.0), ev.BoundedRangeDecisionDpEvent(0.03), 0.3
    events = [(few, 40), (many, 300), dp_event.GaussianDpEvent(1 / mu)]
    bound = gaussian_limit(privacy.EventSet(events, "add_remove"))
    epsilon = 1.5
    p, losses = bit(log_ndtr, -0.025, 0.05)
    j = np.arange(41)
    exact = sum(
        binom.pmf(i, 40, math.exp(p[0]))
        * of_one_offset(log_expit, -0.015, 0.03, 300, epsilon - i * losses[0] - (40 - i) * losses[1], mu)
        for i in j
    )
    assert exact < bound.delta(epsilon) < 1.5 * exact
    assert bound.epsilon(exact) < 1.03 * epsilon
    assert gaussian_limit(privacy.EventSet(events[:2], "add_remove")).delta(epsilon) < exact  # control


def test_parts_of_a_run_cost_less_than_the_run():
    curve = lambda order: bounded_range_rdp(0.05, order)  # noqa: E731
    along = [GaussianLimit([Release(curve, 0.05**2, k)]).mu_squared(1e-8) for k in range(1, 501, 20)]
    assert np.all(np.diff(along) > 0)


def test_what_cannot_be_proved_is_infinite():
    assert GaussianLimit([Release(lambda order: math.inf, math.inf, 3)]).mu_squared(1e-8) == math.inf
    assert GaussianLimit([Release(lambda order: math.inf, 0.5, 3)]).mu_squared(1e-8) == pytest.approx(1.5)
    assert gaussian_limit(privacy.EventSet(dp_event.GaussianDpEvent(1.0), "substitute")) is None
