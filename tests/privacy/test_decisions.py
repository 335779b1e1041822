"""Decision accounting against Bernoulli divergences computed in 80 digits, with no code in common."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_dp.privacy.accounting.decisions import bounded_range_rdp, penalty_rdp
from pymc_dp.privacy.budget.plan import Call
from pymc_dp.privacy.budget.pricing import penalty

mp.mp.dps = 80
ORDERS = [1.1, 2.0, 6.5, 40.0]


def bernoulli(p, q, alpha):
    """Of two pairs (probability to accept, probability to reject)."""
    a = mp.mpf(alpha)
    f = sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))
    return mp.log(f) / (a - 1)


def both_ways(decide, shift, alpha, grid):
    """Largest divergence over a grid of log-ratios, in both directions."""
    shift = mp.mpf(shift)
    best = mp.mpf(0)
    for u in grid:
        p, q = decide(mp.mpf(u)), decide(mp.mpf(u) + shift)
        best = max(best, bernoulli(p, q, alpha), bernoulli(q, p, alpha))
    return float(best)


def refined(decide, shift, alpha, low, high):
    """A grid, then a fine grid around its best point."""
    grid = np.linspace(low, high, 61)
    values = [both_ways(decide, shift, alpha, [u]) for u in grid]
    centre, width = grid[int(np.argmax(values))], grid[1] - grid[0]
    return both_ways(decide, shift, alpha, np.linspace(centre - width, centre + width, 31))


def penalty_test(s):
    s = mp.mpf(s)

    def decide(u):
        x, tail = (u - s * s / 2) / s, mp.exp(u) * mp.ncdf(-(u + s * s / 2) / s)
        return mp.ncdf(x) + tail, mp.ncdf(-x) - tail

    return decide


def normal(u):
    return mp.ncdf(u), mp.ncdf(-u)


def logistic(u):
    return 1 / (1 + mp.exp(-u)), 1 / (1 + mp.exp(u))


@pytest.mark.parametrize("noise_multiplier", [0.7, 3.0, 100.0, 1e4])
@pytest.mark.parametrize("alpha", ORDERS)
def test_scale_free_penalty_bound_is_above_and_close_to_the_supremum(noise_multiplier, alpha):
    bound = penalty_rdp(noise_multiplier, alpha)
    gaussian = alpha / (2 * noise_multiplier**2)
    reach = 7 + alpha / noise_multiplier
    largest = refined(normal, 1 / mp.mpf(noise_multiplier), alpha, -reach, reach)
    assert largest <= bound <= gaussian
    if bound < gaussian:
        assert bound <= largest * (1 + 3e-4)


@pytest.mark.parametrize("s", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("noise_multiplier", [1.0, 10.0, 1e3])
@pytest.mark.parametrize("alpha", [1.5, 4.0, 16.0])
def test_scale_aware_penalty_bound_is_above_and_close_to_the_supremum(s, noise_multiplier, alpha):
    bound = penalty_rdp(noise_multiplier, alpha, s)
    gaussian = alpha / (2 * noise_multiplier**2)
    largest = refined(
        penalty_test(s),
        s / mp.mpf(noise_multiplier),
        alpha,
        -12,
        s * s / 2 + s * (6 + 1.2 * alpha / noise_multiplier),
    )
    assert largest <= bound <= gaussian * (1 + 1e-12)
    if bound < gaussian:
        assert bound <= largest * (1 + 1e-3)


@pytest.mark.parametrize("s", [1e-4, 1e-3, 0.004, 0.04])
@pytest.mark.parametrize("noise_multiplier", [1.5, 50.0])
@pytest.mark.parametrize("alpha", [1.5, 6.0])
def test_a_little_noise_leaves_no_cliff(s, noise_multiplier, alpha):
    """The bit says something next to the kink of min(1, e^u) only, where a grid of noise widths finds it."""
    bound = penalty_rdp(noise_multiplier, alpha, s)
    shift = s / mp.mpf(noise_multiplier)
    largest = refined(penalty_test(s), shift, alpha, -12 * s, (6 + alpha / noise_multiplier) * s)
    assert largest <= bound
    if s >= 1e-3:
        assert bound <= largest * (1 + 1e-3)
    # Control: a scale that is rounded down, not up, is below what is found.
    assert penalty_rdp(noise_multiplier, alpha, max(0.8 * s, 1e-3)) < largest or s <= 1e-3


@pytest.mark.slow
def test_a_constant_clip_bound_spends_the_budget_at_any_noise():
    for shift in (2.5e-4, 1e-3):
        call = Call(1.0, 1e-6, "substitute", 4, 0, 1000)
        plan = penalty(call, shift=shift)
        assert 0.99 < plan.epsilon_at(1e-6) <= 1


def test_gains_over_the_gaussian():
    # s = .5: 3.6 (order 4), 2.8 (order 16); s = 1: 2.4, 2.0; s = 2: 1.85, 1.7; s = 4: 1.65, 1.57.
    for s, gains in [(0.5, (3.6, 2.8)), (1.0, (2.4, 2.0)), (2.0, (1.85, 1.7)), (4.0, (1.65, 1.57))]:
        measured = (
            np.array([4.0, 16.0]) / (2 * 10.0**2) / [penalty_rdp(10.0, order, s) for order in (4.0, 16.0)]
        )
        np.testing.assert_allclose(measured, gains, rtol=0.025)
    assert 1 / (1e4**2) / penalty_rdp(1e4, 2.0) == pytest.approx(math.pi / 2, rel=3e-4)


@pytest.mark.parametrize("eta", [1e-6, 1e-3, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("alpha", ORDERS)
def test_bounded_range_bound_is_barkers_supremum(eta, alpha):
    bound = bounded_range_rdp(eta, alpha)
    reach = 3 + 2 * eta * alpha
    largest = refined(logistic, eta, alpha, -reach, reach)
    assert largest <= bound * (1 + 1e-15)
    assert bound <= min(alpha * eta**2 / 8 * (1 + 1e-7), eta)
    assert bound <= largest * (1 + 2e-3)


def test_a_wrong_curve_is_seen():
    """Control: 0.9 of the bound is below the supremum, so that the tests above can fail."""
    largest = refined(normal, mp.mpf("0.01"), 8.0, -6, 6)
    assert 0.9 * penalty_rdp(100.0, 8.0) < largest
    assert 0.9 * bounded_range_rdp(0.01, 8.0) < refined(logistic, 0.01, 8.0, -3, 3)


@given(st.floats(0.5, 1e4), st.floats(1.001, 3), st.floats(1.1, 60), st.sampled_from([math.inf, 0.5, 2.0]))
@settings(max_examples=40, deadline=None)
def test_more_noise_never_costs_more(noise_multiplier, ratio, alpha, s):
    less, more = (penalty_rdp(nm, alpha, s) for nm in (noise_multiplier, noise_multiplier * ratio))
    assert more <= less * (1 + 2.5e-4)  # each is within 2e-4 of its supremum


def test_knowing_the_scale_never_costs_more():
    for alpha in (2.0, 10.0):
        free = penalty_rdp(20.0, alpha)
        costs = [penalty_rdp(20.0, alpha, s) for s in (1e-3, 0.01, 0.1, 0.5, 1.0, 3.0, 10.0, 50.0)]
        assert np.all(np.diff(costs) > 0)
        assert costs[-1] <= free * (1 + 3e-4)


@pytest.mark.parametrize("s", [math.inf, 0.05, 0.8, 4.0])
def test_tangents_are_above_all_bits_of_a_cell(s):
    """Lemma 5 and its tails, on random cells, against divergences in 80 digits at points of them."""
    from pymc_dp.privacy.accounting import decisions as d
    from pymc_dp.privacy.accounting import thresholds as th

    rng = np.random.default_rng(0)
    threshold = th.GaussianThreshold() if s == math.inf else th.PenaltyThreshold(s)
    decide = normal if s == math.inf else penalty_test(s)
    scale = threshold.std
    for q in (1.0, 0.25):
        for _ in range(8):
            shift, alpha = scale * 10 ** rng.uniform(-3, 0.5), 1 + 10 ** rng.uniform(-1, 1)
            left = threshold.centre + scale * rng.uniform(-5, 4)
            right = left + scale * 10 ** rng.uniform(-2, 0)

            def exact(u, shift=shift, alpha=alpha, q=q):
                p, r = decide(mp.mpf(u)), decide(mp.mpf(u) + mp.mpf(shift))
                pairs = [
                    (one, tuple((1 - q) * a + q * b for a, b in zip(one, other, strict=True)))
                    for one, other in ((p, r), (r, p))
                ]
                divergences = [bernoulli(*pair, alpha) for one in pairs for pair in (one, one[::-1])]
                return float(mp.exp((mp.mpf(float(alpha)) - 1) * max(divergences)) - 1)

            bound = d._excess_on_cells(threshold, q, np.array([left]), np.array([right]), shift, alpha)[0]
            inside = max(exact(float(u)) for u in np.linspace(left, right, 7))
            assert inside <= bound * (1 + 1e-9)
            if right - left < 0.05 * scale:
                assert bound < 1.1 * inside
            far = np.array([left])
            assert exact(left - 1e-3) <= d._below(threshold, far, shift, alpha)[0] * (1 + 1e-9)
            assert exact(right + 2.0) <= d._above(threshold, np.array([right]), shift, alpha)[0] * (1 + 1e-9)
    # Around the largest value of all: there the ends of the cell are below what is inside of it.
    shift, ends = 0.5 * scale, threshold.centre + np.array([-2.5, 1.5]) * scale
    cell = d._excess_on_cells(threshold, 1.0, ends[:1], ends[1:], shift, 2.0)[0]
    largest = math.expm1(float(d.threshold_rdp(threshold, 1.0, shift, 2.0)))
    lower, gap, _ = d.pairs(threshold, ends, shift)
    assert np.max(d.excess(lower, gap, 2.0)) < 0.9 * largest
    assert largest <= cell * (1 + 1e-3)
