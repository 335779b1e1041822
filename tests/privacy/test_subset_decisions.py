"""What decisions on batches cost: bounds against enumeration and quadrature that share no code with them."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import log_ndtr, ndtr

from pymc_dp import privacy
from pymc_dp.privacy.accounting import costs, rdp
from pymc_dp.privacy.accounting.decisions import (
    _rates,
    _shift,
    subset_barker_rdp,
    subset_penalty_rdp,
)
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches
from tests import barker_law

U = np.linspace(-8, 8, 321)  # public part of the log-ratio, and where the decision is made
EXACT_V = (
    np.array([-9.220991, -2.95134, 0, 2.95134, 9.220991]),
    np.array([2235, 131796, 1731938, 131796, 2235]) / 2e6,
)


def bernoulli_rdp(p, q, order):
    """Divergence between bits given as (log P(accept), log P(reject))."""
    both = [order * a - (order - 1) * b for a, b in zip(p, q, strict=True)]
    return float(np.max(np.logaddexp(*both))) / (order - 1)


def log_bit(total, squares, b, correction, centre=0.0):
    """Decision at each u, counted from `centre`, given a batch's sum and sum of squares (clip bound 1)."""
    spread = np.sqrt(2 - (squares / b - (total / b) ** 2))
    z = ((total - centre) / math.sqrt(b) + U[:, None]) / spread
    if not correction:
        return log_ndtr(z[:, 0]), log_ndtr(-z[:, 0])
    points, mass = EXACT_V
    z = z + points / spread
    return tuple(np.log(np.exp(log_ndtr(s * z)) @ mass) for s in (1, -1))


def mixture(bits, weights):
    logs = [np.array([bit[i] for bit in bits]) for i in (0, 1)]
    return tuple(np.logaddexp.reduce(log + np.log(weights)[:, None], axis=0) for log in logs)


def decision(values, b, correction):
    """Law of the decision over all batches of b of these records."""
    sets = [np.array(batch) for batch in itertools.combinations(values, b)]
    bits = [log_bit(s.sum(), (s**2).sum(), b, correction) for s in sets]
    return mixture(bits, np.full(len(bits), 1 / len(bits)))


@pytest.mark.parametrize("correction", [False, True])
@pytest.mark.parametrize(("b", "n"), [(11, 12), (11, 13), (12, 14)])
def test_above_every_small_data_set(b, n, correction):
    rng = np.random.default_rng(b + n)
    orders = (1.2, 1.5, 2.0)
    bounds = [privacy_of(b, n, order) for order in orders]
    assert bounds[0] < math.inf
    for trial in range(12):
        others = rng.choice([-1.0, 1.0], n - 1) if trial % 2 else rng.uniform(-1, 1, n - 1)
        here, there = (
            decision([*others, x], b, correction) for x in ((-1, 1) if trial < 8 else rng.uniform(-1, 1, 2))
        )
        for order, bound in zip(orders, bounds, strict=True):
            assert bernoulli_rdp(here, there, order) <= bound
            assert bernoulli_rdp(there, here, order) <= bound


def privacy_of(b, n, order):
    return costs.event_rdp(privacy.BarkerMinibatchDpEvent(b, n), order, "substitute")


@pytest.mark.parametrize(("b", "n"), [(100, 1000), (1000, 10_000), (1000, 1000)])
def test_above_large_data_sets_of_two_values(b, n):
    """Records at the ends of their range: batches differ by a hypergeometric count."""
    largest = dict.fromkeys((1.5, 4.0, 10.0), 0.0)
    for k in {0, n // 100, n // 4, n // 2, n - 1}:
        laws = {}
        for x in (-1.0, 1.0):
            h, w = hypergeometric(n - 1, k, b - 1)
            bits = [log_bit(2 * i - (b - 1) + x, b, b, False) for i in h]
            weights = list(b / n * w)
            if n > b:
                h, w = hypergeometric(n - 1, k, b)
                bits += [log_bit(2 * i - b, b, b, False) for i in h]
                weights += list((1 - b / n) * w)
            laws[x] = mixture(bits, np.array(weights))
        for order in largest:
            for x in laws:
                largest[order] = max(largest[order], bernoulli_rdp(laws[x], laws[-x], order))
    for order, value in largest.items():
        assert 0.35 * subset_barker_rdp(b, n, order) < value <= subset_barker_rdp(b, n, order)


def hypergeometric(n, k, b):
    h = np.arange(max(0, b - (n - k)), min(k, b) + 1)
    w = stats.hypergeom.pmf(h, n, k, b)
    return h[w > 1e-18], w[w > 1e-18]


@pytest.mark.parametrize(("b", "n"), [(100, 1000), (1000, 10_000), (10_000, 10_000)])
@pytest.mark.parametrize("order", [1.5, 4.0, 12.0])
def test_tight_for_known_others(b, n, order):
    """Worst pairs when the other records of the batch are known."""
    q, worst = b / n, 0.0
    for m in np.linspace(-1, 1, 21):  # mean of the others, with the largest variance there is
        total, squares = (b - 1) * m, b - 1
        bits = {x: log_bit(total + x, squares + x * x, b, False, total) for x in (-1.0, 1.0)}
        for z, x in itertools.product(bits, bits):
            mixed = [mixture([bits[z], bits[s]], np.array([1 - q, q]) + 1e-300) for s in (x, -x)]
            worst = max(worst, bernoulli_rdp(*mixed, order))
    bound = subset_barker_rdp(b, n, order)
    assert worst <= bound
    assert bound <= (1.02 + (1.5 + order / 10) / math.sqrt(b)) * worst


@pytest.mark.parametrize("b", [11, 100, 3000])
def test_quantile_moves_at_most_at_the_stated_rate(b):
    """Lemma 3, by differences; half the rate would not do."""
    rates = _rates(b)
    rng = np.random.default_rng(b)
    x = np.linspace(-1, 1, 9)
    largest = 0.0
    for trial in range(300):
        m = rng.uniform(-1, 1)
        squares = (b - 1) * (m * m + rng.uniform(0.5, 1.0) ** (trial % 2) * (1 - m * m))
        total = (b - 1) * m
        bits = [log_bit(total + r, squares + r * r, b, trial % 3 == 0, total)[0] for r in x]
        y = stats.norm.ppf(np.exp(np.array(bits)))
        y = y[:, np.all(np.abs(y) < 6, axis=0)]
        rate = np.abs(np.diff(y, axis=0)) / (x[1] - x[0])
        farthest = np.maximum(np.abs(y[1:]), np.abs(y[:-1]))
        allowed = rates[0] + rates[1] * np.maximum(farthest, rates[1] / rates[0])
        largest = max(largest, float(np.max(rate / allowed)))
    assert 0.6 < largest <= 1 + 1e-6


def test_the_shift_is_that_of_the_rate():
    """The flow of the largest rate, by quadrature."""
    for b in (11, 100, 10_000):
        beta, gamma = _rates(b)
        for y in (0.0, 0.3, 2.0, 8.0):
            flow = integrate.solve_ivp(
                lambda _, s, g=gamma, be=beta: be + g * np.maximum(np.abs(s), g / be), (0, 2), [y], rtol=1e-10
            )
            assert flow.y[0, -1] - y <= float(_shift(np.asarray(y), (beta, gamma))) * (1 + 1e-6)


def test_orders_beyond_the_range_have_no_bound():
    assert subset_barker_rdp(100, 1000, 1e4) == math.inf
    assert subset_barker_rdp(11, 100, 50.0) == math.inf
    values = [subset_barker_rdp(1000, 10_000, order) for order in (1.5, 2.0, 4.0, 30.0, 100.0)]
    assert np.all(np.diff(values) > 0) and values[-1] < math.inf


def test_the_decision_costs_a_small_part_of_theorem_8():
    event = privacy.BarkerMinibatchDpEvent(1000, 100_000)
    guarantee = privacy.compose(privacy.EventSet(event, "substitute").repeated(2000))
    assert guarantee.epsilon(1e-6) < 0.11
    assert epsilon_of_theorem_8(1000, 100_000, 2000) > 2.9


# The penalty test


def mixed_pair(q, shift, y):
    """Bits with and without the record, at each y, accept and reject."""
    without = log_ndtr(y), log_ndtr(-y)
    return mixture([without, (log_ndtr(y + shift), log_ndtr(-y - shift))], np.array([1 - q, q])), without


@pytest.mark.parametrize("q", [0.01, 0.3, 1 - 1e-12])
@pytest.mark.parametrize("noise_multiplier", [1.5, 5.0, 200.0])
@pytest.mark.parametrize("order", [1.1, 3.0, 12.0])
def test_penalty_decision_is_above_and_close_to_its_pairs(q, noise_multiplier, order):
    pair = mixed_pair(q, 1 / noise_multiplier, np.linspace(-12, 12, 4001))
    largest = max(bernoulli_rdp(*pair, order), bernoulli_rdp(*pair[::-1], order))
    bound = subset_penalty_rdp(q, noise_multiplier, order)
    assert largest * (1 - 1e-6) <= bound <= 1.012 * largest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "noise_multiplier", "epsilon", "before", "now"),
    [(0.1, 5.0, 1.0, 153, 227), (0.1, 1.0, 4.0, 23, 50), (0.01, 2.0, 1.0, 1832, 3412)],
)
def test_iterations_of_the_penalty_test_on_batches(q, noise_multiplier, epsilon, before, now):
    """Against the Gaussian behind the bit, and against who takes one offset: a binomial sum."""
    n, delta = 10_000, 1e-5
    decision = privacy.BatchPenaltyDecisionDpEvent(round(q * n), n, noise_multiplier)
    release = FixedSizeBatches(n, round(q * n)).gaussian_event(noise_multiplier)
    fewer, k = (
        privacy.iterations_allowed(event, epsilon, delta, neighboring_relation="substitute")
        for event in (release, decision)
    )
    assert (fewer, k) == (pytest.approx(before, rel=0.01), pytest.approx(now, rel=0.01))

    def largest_delta(k, at):
        found = 0.0
        for y in np.linspace(-2.5, 0.0, 11):
            pair = mixed_pair(q, 1 / noise_multiplier, np.array([y]))
            for (p, r), (p2, r2) in (pair, pair[::-1]):
                i = np.arange(k + 1)
                losses = i * (p - p2) + (k - i) * (r - r2)
                excess = np.maximum(-np.expm1(at - losses), 0.0)
                found = max(found, float(stats.binom.pmf(i, k, math.exp(p[0])) @ excess))
        return found

    assert largest_delta(k, epsilon) < delta
    assert largest_delta(k, 0.87 * epsilon) > delta
    assert largest_delta(int(1.5 * k), epsilon) > delta  # control: so many more are found out


# Theorem 8 of Räisä 2021, for comparison: the noisy log-ratio


def without_sampling(b, order):
    """Renyi divergence of two batches, by the theorem; orders below b / 5."""
    return 2.5 / b + math.log(2 * b / (b - 5 * order)) / (2 * (order - 1)) + 2 * order / (b - 5 * order)


def epsilon_of_theorem_8(b, n, iterations, delta=1e-6):
    """Amplified by Wang, Balle & Kasiviswanathan (2019, Theorem 9), at the best integer order."""
    found = []
    for order in range(2, (b - 1) // 5 + 1):
        first = without_sampling(b, 2)
        logs = [math.log(min(4 * math.expm1(first), 2 * math.exp(first)))]
        logs += [math.log(2) + (j - 1) * without_sampling(b, j) for j in range(3, order + 1)]
        logs = [j * math.log(b / n) + math.log(math.comb(order, j)) + one for j, one in enumerate(logs, 2)]
        divergence = float(np.logaddexp.reduce([0.0, *logs])) / (order - 1)
        found.append(rdp.epsilon_at(order, iterations * divergence, delta))
    return min(found)


def gaussian_pairs(b, divisor, corners):
    """Means and variances of the noisy ratio on neighbouring batches."""
    for m in corners:
        for x, y in itertools.permutations((-1.0, -0.3, 0.4, 1.0), 2):
            pair = []
            for value in (x, y):
                total, squares = (b - 1) * m + value, b - 1 + value**2
                variance = (squares - total**2 / b) / divisor
                pair.append((total / math.sqrt(b), 2 - variance))
            yield pair


def gaussian_divergence(pair, order):
    (m1, v1), (m2, v2) = pair
    mixed = order * v2 + (1 - order) * v1
    if mixed <= 0:
        return math.inf
    return (
        0.5 * math.log(v2 / v1)
        + math.log(v2 / mixed) / (2 * (order - 1))
        + order * (m1 - m2) ** 2 / (2 * mixed)
    )


def test_divergence_of_two_normals_by_quadrature():
    pair = ((0.3, 1.0), (-0.1, 1.2))
    density = [stats.norm(m, math.sqrt(v)).pdf for m, v in pair]
    value = integrate.quad(lambda z: density[0](z) ** 3 * density[1](z) ** -2, -20, 20)[0]
    assert gaussian_divergence(pair, 3) == pytest.approx(math.log(value) / 2, rel=1e-8)


@pytest.mark.parametrize("less", [0, 1])
@pytest.mark.parametrize("b", [11, 20, 100, 1000])
def test_theorem_8_is_above_the_worst_pair_of_batches(b, less):
    """With the variance divided by b, or by b - 1. It is far above: its ln 2 does not vanish with b."""
    for order in {2, 3, (b - 1) // 5}:
        if 5 * order >= b:
            continue
        stated = without_sampling(b, order)
        worst = max(
            gaussian_divergence(pair, order) for pair in gaussian_pairs(b, b - less, np.linspace(-1, 1, 21))
        )
        assert worst <= stated
        if b == 1000 and order == 2:
            assert stated > 80 * worst


# Lemma 1 and Theorem 9 of Räisä 2021: the subsampled penalty


@pytest.mark.parametrize("b", [2, 3, 5, 20])
def test_lemma_1_is_an_upper_bound_one_and_a_half_times_too_large(b):
    scale, bound = 1.7, 0.4  # n T / b, B
    c = 2 * scale * bound + scale**2 * bound**2 * (3 * (1 - 1 / b))

    def value(r):
        return scale * r.sum() - 0.5 * scale**2 * ((r**2).sum() - r.sum() ** 2 / b)

    values = np.array([-bound, -bound / 2, 0.0, bound / 2, bound])
    worst = 0.0
    for others in itertools.product(values, repeat=b - 1) if b <= 5 else [np.full(b - 1, v) for v in values]:
        results = [value(np.array([*others, x])) for x in values]
        worst = max(worst, max(results) - min(results))
    assert worst <= c
    exact = 2 * scale * bound + 2 * scale**2 * bound**2 * (1 - 1 / b)
    assert worst == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("q", [0.01, 0.1])
@pytest.mark.parametrize("order", [2.0, 5.0, 12.0])
def test_theorem_9_is_above_pairs_of_mixtures(q, order):
    """One record replaced, its batch-mates fixed: three normals a sensitivity apart."""
    nm = 2.0
    stated = rdp.subsampled_gaussian_rdp(q, nm, order)
    z = np.linspace(-40, 40, 40_001)
    for without, one, other in itertools.product(np.array([0.0, 0.5, 1.0]), repeat=3):
        p, r = (
            np.logaddexp(math.log1p(-q) + log_normal(z - without / nm), math.log(q) + log_normal(z - x / nm))
            for x in (one, other)
        )
        exact = math.log(integrate.trapezoid(np.exp(order * p + (1 - order) * r), z)) / (order - 1)
        assert exact <= stated + 1e-9


def log_normal(z):
    return -0.5 * z * z - 0.5 * math.log(2 * math.pi)


# Figures of docs/proofs/barker.md and docs/barker.md


@pytest.mark.slow
@pytest.mark.parametrize(
    ("b", "n", "of_theorem_8", "allowed"),
    [(100, 10**4, 180, 14_781), (1000, 10**4, 9, 1934), (1000, 10**5, 258, 188_182)],
)
def test_iterations_that_a_budget_allows(b, n, of_theorem_8, allowed):
    event = privacy.BarkerMinibatchDpEvent(b, n)
    found = privacy.iterations_allowed(event, 1.0, 1e-6, neighboring_relation="substitute")
    assert found == pytest.approx(allowed, rel=1e-3)
    assert epsilon_of_theorem_8(b, n, of_theorem_8) <= 1 < epsilon_of_theorem_8(b, n, of_theorem_8 + 1)


@pytest.mark.slow
def test_error_of_batches_of_two_values():
    """Largest difference of the acceptance probability from that with normal errors of known variance."""
    for b, stated in ((20, 0.0064), (100, 0.0028), (1000, 0.0009)):
        n = 20 * b
        largest = max(
            error_of_two_values(b, n, share, low) for share in (0.1, 0.2, 0.3, 0.5) for low in (-1.0, 0.0)
        )
        assert 0.9 * stated < largest <= stated


def error_of_two_values(b, n, share, low):
    """A share of the records has ratio 1, the others `low`, in units of the clip bound."""
    k = int(share * n)
    h, w = hypergeometric(n, k, b)
    total, squares = h + (b - h) * low, h + (b - h) * low**2
    variance = min(1.0, (n - b) * b / (n * (b - 1))) * (squares / b - (total / b) ** 2)
    mean = math.sqrt(b) * (k + (n - k) * low) / n
    points, mass = EXACT_V
    z = (total[:, None] / math.sqrt(b) - mean + U)[..., None] - points
    accepted = w @ (ndtr(z / np.sqrt(2 - variance)[:, None, None]) @ mass)
    return np.max(np.abs(accepted - barker_law.cdf(U)))


def test_log_odds_of_the_correction():
    for reach, stated in ((2, 0.0055), (4, 0.021)):
        x = np.linspace(0, reach, 1001)
        error = np.max(np.abs(np.log(barker_law.cdf(x) / barker_law.cdf(-x)) - x))
        assert 0.98 * stated < error <= stated * (1 + 1e-3)
