"""TunaMH's batch: its law, the identities that make the test exact, and records that misbehave."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, ndtr

from pymc_dp.privacy.accounting.events import PoissonBarkerDecisionDpEvent, PoissonMixtureDpEvent
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom, TunaBatches
from pymc_dp.ratios.tuna import GRID, largest_term, log_ratio

# Chi-square tests; false-alarm rate of each.
FALSE_ALARM = 1e-6
BATCHES = TunaBatches(inclusion=0.7, clip_bound=0.4)


def term(w, bound=0.4, batches=BATCHES):
    """What a kept draw of ratio w adds."""
    return log_ratio(np.array([w]), bound, batches, np.zeros(1))


def kept_share(w, bound=0.4, batches=BATCHES):
    """Probability that a draw of ratio w (not 0) is kept: the largest uniform that keeps it, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        kept = log_ratio(np.array([w]), bound, batches, np.array([middle])) != 0
        low, high = (middle, high) if kept else (low, middle)
    return high


SETTINGS = [
    (BATCHES, 0.4),
    (BATCHES, 0.05),
    (TunaBatches(0.011, 0.01), 0.01),
    (TunaBatches(50.0, 1e-3), 1e-3),
]


@pytest.mark.parametrize(("batches", "bound"), SETTINGS)
@pytest.mark.parametrize("share", [1.0, -1.0, 0.3, -0.77])
def test_a_record_enters_so_often_that_the_ratio_is_right(batches, bound, share):
    """E exp(K t) = exp(w), K Poisson: rate (exp(t) - 1) = w. The reverse move has exp(t) times the rate.

    w is the ratio up to rounding to 2**-20 of the bound; the second identity, on which reversibility rests,
    holds to the last bits.
    """
    w = share * bound
    t = term(w, bound, batches)
    rate, reverse = (batches.inclusion * kept_share(ratio, bound, batches) for ratio in (w, -w))
    assert rate * math.expm1(t) == pytest.approx(w, abs=2 * bound / GRID)
    assert term(-w, bound, batches) == -t
    assert math.log(reverse / rate) == pytest.approx(t, abs=1e-13)
    assert rate == pytest.approx(batches.rate + (batches.clip_bound - w) / 2, abs=2 * bound / GRID)


def weights(w, batches):
    """Terms of a record and their probabilities."""
    rho = batches.rate + (batches.clip_bound - w) / 2
    k = np.arange(40)
    return k * term(w, batches.clip_bound, batches), stats.poisson.pmf(k, rho)


def accepts(accept, ratios, public, batches=BATCHES):
    """Probability to accept a move, all multiplicities enumerated."""
    total, weight = np.array([public]), np.ones(1)
    for w in ratios:
        value, probability = weights(w, batches)
        total, weight = np.add.outer(total, value).ravel(), np.outer(weight, probability).ravel()
    return weight @ accept(total)


def metropolis(x):
    return np.minimum(1, np.exp(np.minimum(x, 0)))


def penalty(x, s=1.3):
    return ndtr((x - s * s / 2) / s) + np.exp(x) * ndtr(-(x + s * s / 2) / s)


def metropolis_without_penalty(x, s=1.3):
    """Noise that is not corrected for."""
    return penalty(x + s * s / 2)


@pytest.mark.parametrize("test", [metropolis, expit, penalty], ids=lambda f: f.__name__)
def test_detailed_balance(test):
    """With any test that is right on the full batch. Control: one that is not."""
    for ratios in ([0.4], [-0.4, 0.2], [0.11, -0.3, 0.4]):
        for public in (0.0, 1.0, -0.7):
            back_ratios = [-w for w in ratios]
            forth, back = accepts(test, ratios, public), accepts(test, back_ratios, -public)
            exact = sum(ratios) + public
            assert math.log(forth / back) == pytest.approx(exact, abs=2e-6)
            wrong = [
                accepts(metropolis_without_penalty, r, p)
                for r, p in ((ratios, public), (back_ratios, -public))
            ]
            assert abs(math.log(wrong[0] / wrong[1]) - exact) > 1e-3 or abs(exact) < 0.02


def counts(draw, n, size):
    """Multiplicities, shape (size, n)."""
    return np.array([np.bincount(draw(), minlength=n) for _ in range(size)])


def independent_poisson(table, mean):
    """Smallest chi-square p-value over all pairs of records, Bonferroni included."""
    size, n = table.shape
    top = 3  # 0, 1, 2, more
    cells = stats.poisson.pmf(np.arange(top), mean)
    cells = np.outer(*[np.append(cells, 1 - cells.sum())] * 2)
    values = []
    for i, j in itertools.combinations(range(n), 2):
        observed = np.zeros((top + 1, top + 1))
        np.add.at(observed, tuple(np.minimum(table[:, [i, j]], top).T), 1)
        values.append(stats.chisquare(observed.ravel(), size * cells.ravel()).pvalue)
    return min(1.0, len(values) * min(values))


@pytest.mark.slow
def test_draws_of_two_records_are_independent_poisson():
    """Every pair, jointly. Controls with the right expected number: a fixed number of draws; no repeats."""
    n, size, random = 4, 20_000, PrivacyRandom(1)
    assert independent_poisson(counts(lambda: BATCHES.draw(random, n), n, size), 0.7) > FALSE_ALARM
    rng = np.random.default_rng(0)
    fixed_number = counts(lambda: rng.integers(n, size=rng.choice([2, 3], p=[0.2, 0.8])), n, size)
    assert independent_poisson(fixed_number, 0.7) < FALSE_ALARM

    def no_repeats():
        return rng.choice(n, min(n, rng.poisson(n * 0.7)), replace=False)

    assert independent_poisson(counts(no_repeats, n, size), 0.7) < FALSE_ALARM


def ratio_counts(size, ratios, keep=lambda u: u):
    """How often two records with these ratios entered, read off the log-ratio: shape (size, 2)."""
    random = PrivacyRandom(2)
    t = [term(w) for w in ratios]
    k = np.arange(9)
    lattice = np.add.outer(k * t[0], k * t[1])
    found = []
    for _ in range(size):
        index = BATCHES.draw(random, 2)
        value = log_ratio(ratios[index], 0.4, BATCHES, keep(random.uniform(index.size)))
        nearest = np.argmin(np.abs(lattice - value))
        found.append(np.unravel_index(nearest, lattice.shape))
    return np.array(found)


def law(table, ratios):
    """Smallest p-value: multiplicities against Poisson(lambda / N + (B - w) / 2), independent."""
    rates = BATCHES.rate + (BATCHES.clip_bound - ratios) / 2
    margins = [stats.poisson.pmf(np.arange(2), rate) for rate in rates]
    cells = np.outer(*[np.append(m, 1 - m.sum()) for m in margins])
    observed = np.zeros((3, 3))
    np.add.at(observed, tuple(np.minimum(table, 2).T), 1)
    return stats.chisquare(observed.ravel(), len(table) * cells.ravel()).pvalue


@pytest.mark.slow
def test_law_of_kept_draws():
    """Jointly for two records with different ratios. Control: all draws are kept."""
    ratios = np.array([0.4 / math.sqrt(2), -0.31])
    assert law(ratio_counts(8000, ratios), ratios) > FALSE_ALARM
    assert law(ratio_counts(8000, ratios, keep=np.zeros_like), ratios) < FALSE_ALARM


@pytest.mark.parametrize("bad", [1e300, -1e300, np.inf, -np.inf, np.nan, 1.0])
def test_one_draw_moves_the_ratio_by_at_most_the_largest_term(bad):
    rng = np.random.default_rng(0)
    ratios = rng.normal(0, 0.2, 500)
    uniforms = rng.random(500)
    before = log_ratio(ratios, 0.4, BATCHES, uniforms)
    without = log_ratio(ratios[1:], 0.4, BATCHES, uniforms[1:])
    ratios[0] = bad
    after = log_ratio(ratios, 0.4, BATCHES, uniforms)
    most = largest_term(0.4, BATCHES)
    assert math.isfinite(after)
    assert abs(after - without) <= most * (1 + 1e-12)
    assert abs(after - before) <= 2 * most * (1 + 1e-12)
    assert log_ratio(np.array([np.nan]), 0.4, BATCHES, np.zeros(1)) == 0


def test_sum_does_not_depend_on_the_order():
    """To the last bit, with terms of many sizes."""
    rng = np.random.default_rng(1)
    ratios = rng.normal(size=10_000) * 10 ** rng.uniform(-6, 0, 10_000)
    uniforms = rng.random(10_000)
    order = rng.permutation(10_000)
    batches = TunaBatches(3.0, 1.0)
    assert log_ratio(ratios, 1.0, batches, uniforms) == log_ratio(
        ratios[order], 1.0, batches, uniforms[order]
    )
    plain = [np.sum(x) for x in (ratios, ratios[order], ratios[::-1])]
    assert len(set(plain)) > 1, "control: an ordinary sum depends on it"


def test_an_empty_batch_says_nothing():
    assert log_ratio(np.zeros(0), 0.4, BATCHES, np.zeros(0)) == 0


def test_the_object_that_draws_states_the_event():
    assert BATCHES.barker_event() == PoissonBarkerDecisionDpEvent(0.7 - 0.4, 0.4)
    assert BATCHES.mixture_event(1.5) == PoissonMixtureDpEvent(0.7 - 0.4, 0.4, 1.5)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, True])
def test_bad_numbers_are_refused(bad):
    with pytest.raises(ValueError):
        TunaBatches(bad, 0.1)
    with pytest.raises(ValueError):
        TunaBatches(0.1, bad)
    if isinstance(bad, float):
        with pytest.raises(ValueError, match="bound must lie"):
            log_ratio(np.zeros(1), bad, BATCHES, np.zeros(1))


def test_no_lambda_is_refused():
    for bound in (0.7, 0.8):
        with pytest.raises(ValueError, match="leaves no lambda"):
            TunaBatches(0.7, bound)
    with pytest.raises(ValueError, match="bound must lie"):
        log_ratio(np.zeros(1), 0.41, BATCHES, np.zeros(1))
