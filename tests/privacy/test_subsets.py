"""Batches without replacement: inclusion of records and of pairs, and what they are charged as."""

import itertools

import numpy as np
import pytest
from scipy import stats

from pymc_dp.privacy import BarkerMinibatchDpEvent
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches, PoissonBatches, PrivacyRandom

N, B, BATCHES = 12, 4, 20_000


def pair_p_value(batches):
    """Chi-square of the counts of pairs against b (b - 1) / (n (n - 1)), from their exact covariance."""
    inside = np.zeros((len(batches), N))
    np.put_along_axis(inside, np.array(batches), 1.0, axis=1)
    pairs = np.array([inside[:, i] * inside[:, j] for i, j in itertools.combinations(range(N), 2)])
    sets = np.array([[i in c for i in range(N)] for c in itertools.combinations(range(N), B)], dtype=float)
    exact = np.array([sets[:, i] * sets[:, j] for i, j in itertools.combinations(range(N), 2)])
    difference = (pairs.mean(1) - exact.mean(1)) * np.sqrt(len(batches))
    covariance = np.cov(exact, bias=True)
    rank = np.linalg.matrix_rank(covariance)
    return stats.chi2.sf(difference @ np.linalg.pinv(covariance) @ difference, rank)


def test_pairs_are_included_as_without_replacement():
    """False-alarm rate 1e-6; controls with the right marginals and wrong pairs fail."""
    subsets, random = FixedSizeBatches(N, B), PrivacyRandom(debug_seed=0)
    batches = [subsets.draw(random) for _ in range(BATCHES)]
    assert all(len(set(batch)) == B for batch in batches)
    assert pair_p_value(batches) > 1e-6
    blocks = [np.arange(B) + B * k for k in random.generator.integers(N // B, size=BATCHES)]  # fixed blocks
    assert pair_p_value(blocks) < 1e-6
    reused = [batch for batch in batches[::20] for _ in range(20)]  # the same batch for 20 iterations
    assert pair_p_value(reused) < 1e-6


@pytest.mark.slow
def test_poisson_batches_include_each_record_by_itself():
    """Sizes and pairs at a false-alarm rate of 1e-6; a batch of fixed size fails."""
    batches, random = PoissonBatches(0.3), PrivacyRandom(debug_seed=1)

    def p_value(drawn):
        inside = np.zeros((len(drawn), N))
        for row, batch in zip(inside, drawn, strict=True):
            row[batch] = 1
        counts = np.array([inside[:, i] * inside[:, j] for i in range(N) for j in range(i + 1)])
        exact = np.array([0.3 if i == j else 0.09 for i in range(N) for j in range(i + 1)])
        sets = np.array(list(itertools.product([0, 1], repeat=N)), dtype=float)
        weight = np.prod(np.where(sets, 0.3, 0.7), axis=1)
        products = np.array([sets[:, i] * sets[:, j] for i in range(N) for j in range(i + 1)])
        covariance = np.cov(products, aweights=weight, bias=True)
        difference = (counts.mean(1) - exact) * np.sqrt(len(drawn))
        return stats.chi2.sf(difference @ np.linalg.solve(covariance, difference), len(exact))

    drawn = [batches.draw(random, N) for _ in range(BATCHES)]
    assert all(len(set(batch)) == len(batch) for batch in drawn)
    assert p_value(drawn) > 1e-6
    assert p_value([FixedSizeBatches(N, 4).draw(random) for _ in range(BATCHES)]) < 1e-6
    event = batches.gaussian_event(2.0)
    assert (event.sampling_probability, event.event.noise_multiplier) == (0.3, 2.0)
    for bad in (0.0, -0.1, 1.1, np.nan, "1", True):
        with pytest.raises(ValueError, match="sampling_probability"):
            PoissonBatches(bad)


def test_events_are_those_of_the_draw():
    subsets = FixedSizeBatches(1000, 100)
    assert subsets.barker_event() == BarkerMinibatchDpEvent(100, 1000)
    event = subsets.gaussian_event(3.0)
    assert (event.source_dataset_size, event.sample_size) == (1000, 100)
    assert event.event.noise_multiplier == 3.0


@pytest.mark.parametrize("size", [0, 1, 1.5, True, "10", 1001])
def test_bad_sizes(size):
    with pytest.raises(ValueError, match="batch_size"):
        FixedSizeBatches(1000, size)
