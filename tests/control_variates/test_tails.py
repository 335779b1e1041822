"""Bounds and what they cut, when the furthest records are lost in a histogram's noise."""

import numpy as np
import pytest

from pymc_dp.control_variates.histograms import Histogram
from pymc_dp.control_variates.releases import Releases
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.tails import Tail, put_back
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from tests.control_variates.fixed import CENTRE, METRIC, POINT, some_records

N, CELLS, SIGNIFICANCE = 50_000, 3, 5.5
# Noise of a cell, and of a sum clipped at 1 per coordinate, at epsilon = 1 and 4 with default shares.
LEVELS = {1: (26.7, 10.8), 4: (7.5, 3.1)}


def noisy(norms, std, rng):
    histogram = Histogram(CELLS, std)
    histogram.add(norms)
    histogram.counts = histogram.counts + std * rng.normal(size=histogram.counts.shape)
    return histogram


def sizes(name, rng, n=N):
    """Norms with a root mean square of about sqrt(6 / n), as of six whitened coordinates."""
    scale = np.sqrt(6 / n)
    return (
        scale
        * {
            "edge": lambda: np.sqrt(3) * np.sqrt(rng.random(n) / 1.5),
            "normal": lambda: np.sqrt(rng.chisquare(6, size=n) / 6),
            "square": lambda: np.sqrt(
                ((rng.normal(size=n) ** 2 - 1) ** 2 / 2 + rng.chisquare(5, size=n)) / 6
            ),
            "t": lambda: np.abs(rng.standard_t(4, size=n)) / np.sqrt(2),
            "bump": lambda: np.r_[np.sqrt(rng.random(n - 100)), 8 * rng.random(100) + 2],
        }[name]()
    )


TAILS = ("edge", "normal", "square", "t")


def tail_of(name, level, seed):
    rng = np.random.default_rng(seed)
    norms = sizes(name, rng)
    histogram = noisy(norms, LEVELS[level][0], rng)
    return norms, Tail(histogram, histogram.top(SIGNIFICANCE), 1.0)


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("level", LEVELS)
def test_what_is_beyond_is_known_within_what_is_said(name, level):
    """The true excess over a bound is hardly ever twice the root mean square that the tail gives it."""
    for seed in range(20):
        norms, tail = tail_of(name, level, seed)
        bound = tail.best_bound(LEVELS[level][1], 6)
        true = np.maximum(norms - bound, 0).sum()
        assert true < 2 * tail.excess(bound)[1] + 0.1


def test_a_tail_taken_as_empty_would_be_noticed():
    """Control: what the visible cells alone say is far too little."""
    norms, tail = tail_of("t", 1, 0)
    tail._models = np.zeros_like(tail._models)
    bound = tail._histogram.edge(tail._top + 1)
    assert np.maximum(norms - bound, 0).sum() > 2 * tail.excess(bound)[1] + 0.1


def test_some_far_records_beyond_a_gap_are_not_seen():
    """Control, and the limit of all this: 100 of 50,000 records, two to ten times as far as the rest."""
    norms, tail = tail_of("bump", 1, 0)
    bound = tail.best_bound(LEVELS[1][1], 6)
    assert np.maximum(norms - bound, 0).sum() > 2 * tail.excess(bound)[1] + 0.1


# what the curvature says is missing


def rare(number, seed):
    """A histogram of records near 0 but for some, whose squares add up to 3; those, and their excess."""
    rng = np.random.default_rng(seed)
    far = 2 ** rng.uniform(-1.5, 1.5, size=number)
    far *= np.sqrt(3 / np.sum(far**2))
    norms = np.r_[0.02 / np.sqrt(N) * rng.random(N - number), far]
    histogram = noisy(norms, LEVELS[1][0], rng)
    return norms, Tail(histogram, histogram.top(SIGNIFICANCE, True), 1.0)


@pytest.mark.parametrize("number", [30, 100, 250])
def test_records_that_the_curvature_knows_of_are_looked_for(number):
    norms, tail = rare(number, 0)
    without = tail.best_bound(LEVELS[1][1], 4)
    assert np.sum(np.maximum(norms - without, 0)) > 5  # control: these are lost
    tail.expect(3.0, 0.1, 0.0)
    assert tail.missing == pytest.approx(3.0, abs=0.3)
    bound = tail.best_bound(LEVELS[1][1], 4)
    # Of squares that add up to M, at most M / (4 C) is beyond C.
    assert np.sum(np.maximum(norms - bound, 0)) <= np.sum(norms**2) / (4 * bound)
    # And that is balanced with the noise.
    assert np.sqrt(3) * LEVELS[1][1] * bound == pytest.approx(3 / (4 * bound), rel=0.2)


def test_nothing_is_missing_where_all_is_seen():
    """In 80 of 80: a false alarm would be 2.5 standard deviations, and a fifth of all besides."""
    for name in TAILS:
        for seed in range(20):
            norms, tail = tail_of(name, 1, seed)
            tail.expect(float(np.sum(norms**2)), 0.3, 0.0)
            assert tail.missing == 0


def test_without_noise_nothing_is_missing():
    """Bounds went to 2^24 times the records, and the grid of Fisher's matrix with them."""
    rng = np.random.default_rng(0)
    norms = sizes("normal", rng)
    histogram = noisy(norms, 0.0, rng)
    tail = Tail(histogram, histogram.top(SIGNIFICANCE), 1.0)
    tail.expect(1e3, 0.0, 0.0)
    assert tail.missing == 0


def test_the_centre_is_taken_off():
    _, tail = tail_of("normal", 4, 0)
    seen, std = tail._histogram.second_moment(tail._top)
    assert seen == pytest.approx(6, rel=0.05) and 0 < std < 0.2
    tail.expect(2.0, 0.0, 4.0)
    assert tail.missing == 0
    tail.expect(6.0, 0.0, 4.0)
    assert tail.missing == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("name", TAILS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_bound_between_noise_and_bias(name, level):
    """Against the best bound for all norms known exactly: at most 1.8 times its root mean square error."""
    noise = LEVELS[level][1]
    found, best = [], []
    for seed in range(10):
        norms, tail = tail_of(name, level, seed)

        def loss(bound, norms=norms):
            return 6 * (noise * bound) ** 2 + np.maximum(norms - bound, 0).sum() ** 2

        found.append(loss(tail.best_bound(noise, 6)))
        best.append(min(loss(b) for b in np.geomspace(norms.max() / 20, norms.max(), 200)))
    assert np.sqrt(np.mean(found)) < 1.8 * np.sqrt(np.mean(best))


def test_less_noise_allows_a_larger_bound():
    _, tail = tail_of("t", 4, 0)
    bounds = [tail.best_bound(noise, 3) for noise in (1e-3, 1e3)]
    assert bounds[0] > 4 * bounds[1]


def test_what_is_put_back_is_what_was_cut():
    """Vectors with a one-sided tail: the sum, clipped and mended, against the exact one."""
    rng = np.random.default_rng(2)
    direction = np.array([0.6, 0.0, 0.8])
    errors, bare, said = [], [], []
    for _ in range(40):
        vectors = (rng.normal(size=(N, 3)) + direction * (rng.normal(size=(N, 1)) ** 2 - 1)) / np.sqrt(N)
        norms = np.linalg.norm(vectors, axis=1)
        histogram = noisy(norms, LEVELS[1][0], rng)
        tail = Tail(histogram, histogram.top(SIGNIFICANCE), 1.0)
        # A bound that is too small, so that there is something to mend.
        bound = 0.6 * tail.best_bound(LEVELS[1][1], 3)
        depth, std = 0.2 * bound, 0.2
        far = norms > bound
        length = np.minimum(norms[far] - bound, depth) / norms[far]
        layer = (vectors[far] * length[:, None]).sum(axis=0) + std * rng.normal(size=3)
        cut = put_back(layer, std, tail, bound, depth, np.ones((3, 3), dtype=bool))
        missing = (vectors[far] * (1 - bound / norms[far])[:, None]).sum(axis=0)
        errors.append(missing - cut.put_back)
        bare.append(missing)
        said.append(np.diag(cut.left) + cut.noise**2)
    rms, without = np.sqrt(np.mean(np.square(errors))), np.sqrt(np.mean(np.square(bare)))
    assert rms < 0.6 * without
    # What is said is wider than what was found here: other tails are longer than these.
    assert 0.1 < np.mean(np.square(errors)) / np.mean(said) < 1.2


def test_without_noise_nothing_is_guessed():
    tail = tail_of("normal", 4, 0)[1]
    cut = put_back(np.array([1.0, 2.0]), 0.0, tail, 0.01, 0.001, np.ones((2, 2), dtype=bool))
    np.testing.assert_array_equal(cut.put_back, [1.0, 2.0])
    assert not np.any(cut.left)


# the layer and the centre


def test_the_layer_and_the_clipped_sum_are_a_sum_clipped_further_out():
    made = Releases(some_records(), ControlVariates(), np.inf, PrivacyRandom(0))
    made._left = [("gradient", 0.1), ("cut", 0.1), ("gradient", 0.1)]
    bound, depth = 0.7, 0.4
    inner = bound * made.gradient(POINT, METRIC, CENTRE, bound)[0]
    layer = depth * made.cut(POINT, METRIC, CENTRE, bound, depth)[0]
    outer = (bound + depth) * made.gradient(POINT, METRIC, CENTRE, bound + depth)[0]
    np.testing.assert_allclose(inner + layer, outer, atol=1e-5)
    assert np.abs(layer).max() > 0.1


def test_a_measured_layer_costs_nothing():
    """Noise of a clipped sum and of the layer, against that of one sum with both budgets."""
    budgets = ControlVariates()
    last = budgets.late_shares(len(budgets.late) - 1)
    share, other = last.pair, last.cut

    def std(kind, share):
        made = Releases(some_records(), budgets, 1.0, PrivacyRandom(0))
        made._left = [(kind, share)]
        return made._noise(kind, 2.0)

    bound, depth = 0.3, 0.3 * other / share
    together = np.hypot(bound * std("gradient", share), depth * std("cut", other))
    assert together == pytest.approx((bound + depth) * std("gradient", share + other), rel=1e-12)


def test_a_centre_between_the_tails_has_no_bias():
    """However much the clip cuts; with the mean for a centre it has one."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(4000, 2)) + np.array([1.0, 0.0]) * (rng.exponential(2.0, size=(4000, 1)) - 2)

    def cut(centre, bound=2.0):
        moved = vectors - centre
        norms = np.linalg.norm(moved, axis=1)
        return (moved * np.maximum(1 - bound / norms, 0)[:, None]).sum(axis=0)

    centre = np.zeros(2)
    for _ in range(500):
        centre = centre + cut(centre) / 4000
    clipped = vectors - centre
    clipped *= np.minimum(1, 2.0 / np.linalg.norm(clipped, axis=1))[:, None]
    np.testing.assert_allclose(clipped.sum(axis=0) + 4000 * centre, vectors.sum(axis=0), atol=1e-6)
    assert np.linalg.norm(cut(np.zeros(2))) > 100


def test_a_layer_of_zeros_is_no_layer():
    """What is released is rounded: with one coordinate it is 0 in one of forty calls."""
    tail = tail_of("normal", 4, 0)[1]
    cut = put_back(np.zeros(1), 0.5, tail, 0.01, 0.001, np.ones((1, 1), dtype=bool))
    assert cut.put_back[0] == 0 and np.isfinite(cut.left).all() and cut.left[0, 0] > 0
