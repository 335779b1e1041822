"""The ratio on a batch: its sensitivity, and that it corrects for the variance there is."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_dp.ratios import subsets as batch_ratio

BOUND, TEMPERING = 0.3, 0.7


def change(batch, position, value, bound, n):
    other = batch.copy()
    other[position] = value
    values = [batch_ratio.corrected_ratio(r, bound, n, TEMPERING) for r in (batch, other)]
    return abs(values[0] - values[1])


@pytest.mark.parametrize(("b", "n"), [(2, 3), (2, 50), (3, 3), (5, 8), (20, 1000)])
def test_sensitivity_is_the_largest_change(b, n):
    """Over corners and random batches; attained, so that nothing smaller would do."""
    stated = batch_ratio.sensitivity(BOUND, b, n, TEMPERING)
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(2000):
        kind = rng.integers(3)
        batch = rng.uniform(-BOUND, BOUND, b) if kind else rng.choice([-BOUND, BOUND], b)
        if kind == 2:
            batch[:] = rng.choice([-BOUND, BOUND])
        new = rng.choice([-BOUND, BOUND, 0.0, rng.uniform(-BOUND, BOUND)])
        worst = max(worst, change(batch, rng.integers(b), new, BOUND, n))
    assert worst <= stated * (1 + 1e-12)
    edge = np.full(b, BOUND)
    edge[0] = -BOUND
    assert change(edge, 0, BOUND, BOUND, n) == pytest.approx(stated, rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([1e300, -1e300, np.nan, np.inf, -np.inf]), st.integers(2, 8))
def test_one_poisonous_record_moves_it_by_no_more(poison, b):
    batch = np.random.default_rng(b).uniform(-BOUND, BOUND, b)
    stated = batch_ratio.sensitivity(BOUND, b, 100, TEMPERING)
    assert change(batch, 0, poison, BOUND, 100) <= stated * (1 + 1e-12)


@pytest.mark.parametrize(("b", "n"), [(2, 5), (3, 6), (6, 6)])
def test_variance_is_unbiased_over_all_batches(b, n):
    ratios = np.round(np.random.default_rng(1).uniform(-1, 1, n) * 2**20) / 2**20
    values = np.array([ratios[list(batch)] for batch in itertools.combinations(range(n), b)])
    total = n * TEMPERING / b * values.sum(1)
    assert total.mean() == pytest.approx(TEMPERING * ratios.sum(), abs=1e-12)
    corrected = np.array([batch_ratio.corrected_ratio(v, 1.0, n, TEMPERING) for v in values])
    variance = -2 * (corrected - total)
    assert variance.mean() == pytest.approx(total.var(), rel=1e-9, abs=1e-9)
    if b < n:  # control: without the factor for a finite population it is too large
        assert abs(variance.mean() / (1 - b / n) - total.var()) > 0.1 * total.var()


@given(st.floats(0.01, 20), st.floats(0.1, 1e4), st.integers(2, 500), st.floats(1e-4, 1.0))
def test_bound_of_noise_inverts_the_sensitivity(noise_std, multiplier, b, tempering):
    bound = batch_ratio.bound_of_noise(noise_std, multiplier, b, 1000, tempering)
    got = multiplier * bound * batch_ratio.sensitivity(bound, b, 1000, tempering)
    assert got == pytest.approx(noise_std, rel=1e-9)
