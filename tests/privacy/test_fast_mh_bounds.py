"""Fast MH's decision by Barker's test: bounds against enumeration of all multiplicities.

No code in common.
"""

import math
import re
from functools import cache
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from pymc_dp.privacy.accounting.poisson_barker import largest_range, poisson_barker_rdp

RELATIONS = ["substitute", "add_remove"]


def terms(w, rate, bound):
    """Values K t of a record with ratio w, and their probabilities up to a tail below 1e-20."""
    rho = rate + (bound - w) / 2
    k = np.arange(int(rho + 12 * math.sqrt(rho) + 20))
    return k * math.log1p(w / rho), stats.poisson.pmf(k, rho)


def decision(ratios, public, rate, bound):
    """Probabilities to accept and to reject: every combination of multiplicities."""
    total, weight = np.array([public]), np.ones(1)
    for w in ratios:
        value, probability = terms(w, rate, bound)
        total, weight = np.add.outer(total, value).ravel(), np.outer(weight, probability).ravel()
    return np.array([weight @ expit(total), weight @ expit(-total)])


def log_odds(pair):
    return math.log(pair[0] / pair[1])


@cache
def cases(relation, size=120):
    """Random data sets of 1 to 4 records and a neighbour: decisions of both and of their common part."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(size):
        bound = 10 ** rng.uniform(-1.5, 0.3)
        rate = min(bound * 10 ** rng.uniform(-1.5, 1.5), 1.0)
        common = list(rng.uniform(-bound, bound, rng.integers(0, 3 if rng.random() < 0.9 else 4)))
        public = 5 * rng.normal()
        one, other = rng.permutation([-bound, rng.choice([bound, bound / 2, rng.uniform(-bound, bound)])])
        first = decision([one, *common], public, rate, bound)
        without = decision(common, public, rate, bound)
        second = decision([other, *common], public, rate, bound) if relation == "substitute" else without
        found.append((first, second, without, rate, bound))
    return found


@pytest.mark.parametrize("relation", RELATIONS)
def test_log_odds_move_by_at_most_the_range(relation):
    """Control: B (1 + x) is not enough under "substitute", nor B under "add_remove"."""
    share, control = [], []
    for first, second, _, rate, bound in cases(relation):
        shift = abs(log_odds(first) - log_odds(second))
        share.append(shift / largest_range(rate, bound, relation == "substitute"))
        control.append(shift / (bound * (1 + bound / rate) if relation == "substitute" else bound))
    assert 0.99 < max(share) <= 1
    assert max(control) > 1.2


def test_the_range_is_attained():
    """One record, the public part far on one side, at several x: no smaller eta is true."""
    for rate, bound in ((1.0, 0.01), (0.1, 0.1), (0.05, 0.2), (0.02, 0.3)):
        middle = rate + bound / 2
        w = min(bound, 2 * (math.sqrt(2) - 1) * middle)
        far = [decision([ratio], 200.0, rate, bound) for ratio in (w, -bound)]
        shift = log_odds(far[0]) - log_odds(far[1])
        assert shift == pytest.approx(largest_range(rate, bound, True), rel=1e-6)
        alone = log_odds(decision([], 200.0, rate, bound)) - log_odds(far[1])
        assert alone == pytest.approx(largest_range(rate, bound, False), rel=1e-6)


def shifts(s, rate, bound):
    """Theorem 4 by search: largest rise and fall when a record is added at acceptance s."""
    w = np.concatenate([np.linspace(-bound, 0, 2001)[:-1], np.linspace(0, bound, 2001)[1:]])
    rho = rate + (bound - w) / 2
    psi = w / (1 + w / rho * s)
    return psi.max(), -psi.min()


def test_log_odds_stay_between_the_shifts_at_their_place():
    share = []
    for first, second, without, rate, bound in cases("substitute"):
        rise, fall = shifts(without[0], rate, bound)
        at = log_odds(without)
        for pair in (first, second):
            shift = log_odds(pair) - at
            share.append(shift / rise if shift > 0 else -shift / fall)
    assert 0.99 < max(share) <= 1 + 1e-6


@pytest.mark.parametrize("x", [0.1, 1.0, 2.0, 30.0])
def test_at_even_odds_a_small_batch_costs_what_all_records_do(x):
    """Log-odds there move by 2 B at most (9/4 B above x = 2), where the range grows like x."""
    bound = 0.02
    assert sum(shifts(0.5, bound / x, bound)) <= (2 if x <= 2 else 2.25) * bound
    pairs = [decision([w], 0.0, bound / x, bound) for w in (bound, -bound)]
    assert log_odds(pairs[0]) - log_odds(pairs[1]) <= 2.02 * bound
    assert largest_range(bound / x, bound, True) > (1 + x) * bound


def divergence(p, q, order):
    """In both directions, of two pairs of probabilities."""
    forth, back = (math.fsum(a**order * b ** (1 - order)) for a, b in ((p, q), (q, p)))
    return math.log(max(forth, back)) / (order - 1)


@pytest.mark.parametrize("order", [1.5, 16.0])
@pytest.mark.parametrize("relation", RELATIONS)
def test_divergence_of_small_cases_is_below_the_bound(relation, order):
    """Control: some case needs more than half of the bound."""
    share = [
        divergence(first, second, order) / poisson_barker_rdp(rate, bound, order, relation == "substitute")
        for first, second, _, rate, bound in cases(relation)[:40]
    ]
    assert 0.5 < max(share) <= 1


@pytest.mark.parametrize("order", [1.2, 20.0])
@pytest.mark.parametrize(("rate", "bound"), [(1e-2, 1e-4), (1e-3, 1e-3), (0.01, 0.3)])
def test_supremum_over_the_log_odds(rate, bound, order):
    """Against 60 digits on a grid, refined at its best point: above it, and within 3e-4."""
    bound_found = poisson_barker_rdp(rate, bound, order, True)

    def both(y):
        rise, fall = shifts(float(expit(y)), rate, bound)
        with mp.workdps(60):
            p, q = (1 / (1 + mp.exp(-mp.mpf(y) - shift)) for shift in (mp.mpf(rise), -mp.mpf(fall)))
            a = mp.mpf(order)
            forth, back = (
                x**a * z ** (1 - a) + (1 - x) ** a * (1 - z) ** (1 - a) for x, z in ((p, q), (q, p))
            )
            return float(mp.log(max(forth, back)) / (a - 1))

    grid = np.linspace(-6, 24, 91)
    best = grid[np.argmax([both(y) for y in grid])]
    largest = max(both(y) for y in np.linspace(best - 0.3, best + 0.3, 31))
    assert largest <= bound_found <= largest * (1 + 3e-4)


def test_table_of_the_price_of_a_minibatch():
    """docs/proofs/fast_mh, section 3: against the full batch's ``alpha eta^2 / 8``."""
    page = Path(__file__).parents[2] / "docs" / "proofs" / "fast_mh.md"
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", page.read_text(), re.MULTILINE)
    assert len(rows) == 6
    bound, order = 1e-5, 2.0
    for row in rows:
        x, squared, replaced, added = (float(cell) for cell in row)
        rate = bound / x
        assert (largest_range(rate, bound, True) / (2 * bound)) ** 2 == pytest.approx(squared, abs=6e-3)
        for stated, substitute, eta in ((replaced, True, 2 * bound), (added, False, bound)):
            found = poisson_barker_rdp(rate, bound, order, substitute) / (order * eta**2 / 8)
            assert found == pytest.approx(stated, abs=6e-3)


def test_noise_of_variance_one_costs_a_fifth_of_the_acceptance():
    """docs/proofs/fast_mh, section 7: log-ratios N(-v / 2, v), as the noise of an exact test has."""
    noise = stats.norm.ppf((np.arange(10_000) + 0.5) / 10_000)
    assert np.mean(expit(noise - 0.5)) / 0.5 == pytest.approx(0.796, abs=1e-3)


def test_a_larger_bound_costs_more_and_more_draws_less():
    for order in (2.0, 30.0):
        for substitute in (True, False):
            cost = [poisson_barker_rdp(0.01, b, order, substitute) for b in (1e-4, 1e-3, 1e-2, 1e-1)]
            assert np.all(np.diff(cost) > 0)
            cost = [poisson_barker_rdp(r, 0.01, order, substitute) for r in (1e-4, 1e-3, 1e-2, 1e-1)]
            assert np.all(np.diff(cost) < 0)


def test_a_known_number_of_draws_costs_more():
    """Why a step does not say how many indices it drew: given that, log-odds move beyond the range."""
    rate, bound, n, public = 0.05, 0.05, 20, 25.0
    spread = 2 * rate + bound
    drawn = int(stats.poisson.isf(1e-3, n * (rate + bound)))

    def given_the_number(w):
        """All others have ratio 0: they are drawn and add nothing."""
        keep = (rate + (bound - w) / 2) / (rate + bound)
        k = np.arange(drawn + 1)
        probability = stats.binom.pmf(k, drawn, keep / n)
        value = public + k * 2 * math.atanh(w / spread)
        return np.array([probability @ expit(value), probability @ expit(-value)])

    shift = log_odds(given_the_number(bound)) - log_odds(given_the_number(-bound))
    assert shift > 2 * largest_range(rate, bound, True)


def test_the_published_free_branch_is_not_private():
    """Zhang & Zhang 2023, Algorithm 2, both sensitivities at their thresholds: one step, epsilon = .05.

    The probability to reject is 0 under one data set, and far above delta under a neighbour.
    """
    epsilon, delta = 0.05, 1e-5

    def reject(ratio):
        return 1 - min(1.0, math.exp(ratio))

    # Full batch, Delta(l2) = 2 max c_i M = epsilon: all ratios are 0, or one of them is -epsilon / 2.
    assert reject(0.0) == 0
    assert reject(-epsilon / 2) > 2000 * delta
    # Minibatch, Delta(l1) = 2 log(1 + C M / lambda) = epsilon C / (6 K max c_i), n = 1000 and equal c_i.
    n, K = 1000, 300
    most = epsilon * n / (6 * K)
    x = math.expm1(most / 2)  # C M / lambda
    for lam in (K / 4, K / 2):
        bound = x * lam / n
        value, probability = terms(-bound, lam / n, bound)
        rejected = float(probability @ [reject(v) for v in value])
        assert rejected > delta
        # Barker's test at the same setting: both outcomes are possible, and their odds stay within the range.
        pairs = [decision([w], 0.0, lam / n, bound) for w in (0.0, -bound)]
        assert abs(log_odds(pairs[0]) - log_odds(pairs[1])) <= largest_range(lam / n, bound, True)
