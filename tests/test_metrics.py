"""Metrics against values known in closed form; false-alarm rates are stated where draws are random."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from benchmarks import metrics


def normal_cells(mean, sd, edges):
    centres = (edges[1:] + edges[:-1]) / 2
    return np.exp(-0.5 * ((centres - mean) / sd) ** 2)


def test_mmd_is_the_v_statistic_with_the_median_of_the_pooled_points():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 3)), rng.normal(1, 2, size=(11, 3))
    generator = np.random.default_rng(5)
    pooled = np.concatenate([x[generator.integers(7, size=50)], y[generator.integers(11, size=50)]])
    sigma = np.median(pdist(pooled))

    def kernel_mean(u, v):
        return np.mean([[np.exp(-((p - q) @ (p - q)) / (2 * sigma**2)) for q in v] for p in u])

    expected = np.sqrt(kernel_mean(x, x) + kernel_mean(y, y) - 2 * kernel_mean(x, y))
    assert metrics.mmd(x, y, rng=5) == pytest.approx(expected, rel=1e-12)
    assert metrics.median_bandwidth(x, y, rng=5) == pytest.approx(sigma)


def test_mmd_approaches_the_closed_form_for_two_normals():
    # E k(x, y) for x ~ N(0, 1), y ~ N(m, 1), bandwidth s: s / sqrt(s² + 2) exp(-m² / (2 (s² + 2))).
    rng = np.random.default_rng(1)
    shift, s, size = 1.5, 0.8, 4000
    x, y = rng.normal(size=(size, 1)), rng.normal(shift, 1, size=(size, 1))
    same = s / np.sqrt(s**2 + 2)
    exact = np.sqrt(2 * same * (1 - np.exp(-(shift**2) / (2 * (s**2 + 2)))))  # 0.585
    # The estimate's sd is 0.0072 (25 repetitions): 0.04 is 5.6 sd, false-alarm rate 3e-8.
    estimate = metrics.mmd(x, y, bandwidth=s)
    assert estimate == pytest.approx(exact, abs=0.04)
    assert estimate**2 != pytest.approx(exact, abs=0.04)  # control: the square was not taken for the root


def test_mmd_tells_the_same_distribution_from_a_different_one():
    # P(MMD > sqrt(2/m) (1 + sqrt(2 ln(1/α)))) <= α under equality (Gretton et al. 2012, corollary 9);
    # α = 1e-6.
    rng = np.random.default_rng(2)
    size = 2000
    threshold = np.sqrt(2 / size) * (1 + np.sqrt(2 * np.log(1e6)))
    x, y = rng.normal(size=(size, 2)), rng.normal(size=(size, 2))
    assert metrics.mmd(x, y, bandwidth=1.5) < threshold
    wrong_scale, wrong_mean = y * np.array([1.0, 3.0]), y + np.array([1.0, 0.0])  # controls: must be seen
    assert metrics.mmd(x, wrong_scale, bandwidth=1.5) > threshold
    assert metrics.mmd(x, wrong_mean, bandwidth=1.5) > threshold


def test_mmd_does_not_depend_on_the_blocks_and_is_symmetric(monkeypatch):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(33, 2))
    whole = metrics.mmd(x, y, bandwidth=1.3)
    assert metrics.mmd(y, x, bandwidth=1.3) == pytest.approx(whole, rel=1e-10)
    monkeypatch.setattr(metrics, "_BLOCK_ELEMENTS", 100)  # three rows at a time: the last block is short
    assert metrics.mmd(x, y, bandwidth=1.3) == pytest.approx(whole, rel=1e-10)
    assert metrics.mmd(x, x, bandwidth=1.3) == pytest.approx(0, abs=1e-7)


def test_mmd_memory_is_bounded():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(5000, 2)), rng.normal(size=(5000, 2))
    tracemalloc.start()
    metrics.mmd(x, y, bandwidth=1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6  # the whole kernel matrix would be 200 MB


def test_symmetric_kl_of_two_normals_is_the_known_value():
    # Half the sum: KL(N(a, s²) ‖ N(b, t²)) = ln(t/s) + (s² + (a-b)²)/(2t²) - 1/2.
    edges = np.linspace(-30, 30, 3001)
    s, t, gap = 1.0, 2.0, 1.5
    p, q = normal_cells(0.0, s, edges), normal_cells(gap, t, edges)
    exact = 0.5 * ((s**2 + gap**2) / (2 * t**2) + (t**2 + gap**2) / (2 * s**2) - 1)
    assert metrics.symmetric_kl(p, q, [edges], smoothing=0) == pytest.approx(exact, rel=1e-6)
    assert metrics.symmetric_kl(q, 7 * p, [edges], smoothing=0) == pytest.approx(exact, rel=1e-6)
    mixed = [metrics.symmetric_kl(p, q, [edges], smoothing=s) for s in (1e-3, 1e-6, 1e-9)]
    assert 0.8 * exact < mixed[0] < mixed[1] < mixed[2] < exact  # mixing brings the two together
    assert mixed[2] == pytest.approx(exact, rel=0.01)


def test_symmetric_kl_is_zero_for_equal_densities_on_uneven_cells():
    edges = [np.array([0.0, 1, 3, 4]), np.array([0.0, 0.1, 5, 6, 9])]
    density = np.arange(1.0, 13).reshape(3, 4)
    assert metrics.symmetric_kl(density, density * 3, edges) == pytest.approx(0, abs=1e-15)
    masses = density * np.outer(np.diff(edges[0]), np.diff(edges[1]))
    centres = [(e[1:] + e[:-1]) / 2 for e in edges]
    points = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, 2)
    draws = np.repeat(
        points, np.rint(masses.ravel() * 10).astype(int), axis=0
    )  # counts proportional to the masses
    assert metrics.symmetric_kl(draws, density, edges, smoothing=0) == pytest.approx(0, abs=1e-12)
    assert metrics.symmetric_kl(draws, np.ones((3, 4)), edges) > 0.01


def test_symmetric_kl_counts_draws_outside_the_grid_and_survives_empty_cells():
    edges = [np.linspace(0, 1, 5)]
    uniform = np.ones(4)
    far = np.full((10, 1), 5.0)
    bound = (1 - 2e-3) * np.log(999)  # disjoint: each side has 1 - s of its own and s of the other's
    assert metrics.symmetric_kl(far, uniform, edges) == pytest.approx(bound, rel=1e-12)
    assert metrics.symmetric_kl(far, uniform, edges) <= np.log(1000)
    assert metrics.symmetric_kl(far, uniform, edges, smoothing=0) == np.inf


def test_mean_sd_error():
    draws = np.array([[0.0, 10.0], [2.0, 14.0]])
    result = metrics.mean_sd_error(draws, [0.0, 10.0], [2.0, 4.0])
    np.testing.assert_allclose(result.mean_error, [0.5, 0.5])
    np.testing.assert_allclose(result.sd_ratio, [np.sqrt(2) / 2, np.sqrt(8) / 4])
    assert result.rms == pytest.approx(0.5)


GOOD = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.mmd(GOOD[:, 0], GOOD), "shape"),
        (lambda: metrics.mmd(GOOD[:0], GOOD), "at least one"),
        (lambda: metrics.mmd(GOOD * np.nan, GOOD), "NaN"),
        (lambda: metrics.mmd(GOOD, GOOD[:, :1]), "columns"),
        (lambda: metrics.mmd(GOOD, GOOD[:, :1], bandwidth=1), "columns"),
        (lambda: metrics.mmd(GOOD, GOOD, bandwidth=0), "bandwidth"),
        (lambda: metrics.mmd(GOOD, GOOD, bandwidth=np.nan), "bandwidth"),
        (lambda: metrics.mmd(GOOD, GOOD, n_median=1), "n_median"),
        (lambda: metrics.mmd(GOOD * 0, GOOD * 0), "median distance is zero"),
        (lambda: metrics.symmetric_kl(np.ones(3), np.ones(4), [np.arange(5.0)]), "shape"),
        (lambda: metrics.symmetric_kl(-np.ones(4), np.ones(4), [np.arange(5.0)]), "negative"),
        (lambda: metrics.symmetric_kl(np.zeros(4), np.ones(4), [np.arange(5.0)]), "zero everywhere"),
        (lambda: metrics.symmetric_kl(np.full(4, np.nan), np.ones(4), [np.arange(5.0)]), "finite"),
        (lambda: metrics.symmetric_kl(np.full((3, 1), np.nan), np.ones(4), [np.arange(5.0)]), "NaN"),
        (lambda: metrics.symmetric_kl(np.ones(4), np.ones(4), [-np.arange(5.0)]), "increasing"),
        (lambda: metrics.symmetric_kl(np.ones(2), np.ones(2), [np.arange(3.0)]), "four"),
        (lambda: metrics.symmetric_kl(np.ones(4), np.ones(4), [np.arange(5.0)], smoothing=0.5), "smoothing"),
        (
            lambda: metrics.symmetric_kl(np.ones(4), np.ones(4), [np.arange(5.0)], smoothing=np.nan),
            "smoothing",
        ),
        (lambda: metrics.mean_sd_error(GOOD[:1], [0, 0], [1, 1]), "two draws"),
        (lambda: metrics.mean_sd_error(GOOD, [0], [1]), "shape"),
        (lambda: metrics.mean_sd_error(GOOD, [0, 0], [1, 0]), "positive"),
        (lambda: metrics.mean_sd_error(GOOD, [0, np.nan], [1, 1]), "finite"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
