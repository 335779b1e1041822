"""Weighted scores of Bernoulli records: their norms, their distances, and that clips do not bias them."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_dp.control_variates.clipped_rows import GRID, OUTER_GRID, ByPredictors
from pymc_dp.control_variates.record_sums import RecordSums
from pymc_dp.control_variates.releases import SCALES, sensitivity
from pymc_dp.control_variates.structure import Structure

P = 3


def rows_of(x, y, theta):
    """Records of a logistic regression as the sums see them."""
    with np.errstate(over="ignore", invalid="ignore"):
        q = 1 / (1 + np.exp(-x @ theta))
    part = SimpleNamespace(
        units=slice(0, len(x)),
        first=(y - q)[:, None],
        second=(-q * (1 - q))[:, None],
        rows=np.errstate(all="ignore")(lambda metric: (x @ metric.T)[None]),
    )
    return ByPredictors(part, Structure(np.zeros(x.shape[1])))


def sums():
    return RecordSums(SimpleNamespace(n=1), Structure(np.zeros(P)), kept=0)


def of_each(kind, x, y, theta, metric, *bounds):
    """What each record adds, in units of the bound, shape (n, m)."""
    made, found = sums(), []
    for k in range(len(x)):
        part = rows_of(x[k : k + 1], y[k : k + 1], theta)
        one = getattr(made, f"_{kind}_of")(metric, *bounds, part) / SCALES[kind]
        if kind in ("information", "variance"):
            one = made.structure.packed(one)
        found.append(one / np.sqrt(P) if kind == "scales" else one)
    return np.array(found)


@pytest.fixture(scope="module")
def odd():
    """Records that would break a bound: enormous, tiny, opposite, not finite; any outcome."""
    random = np.random.default_rng(1)
    x = random.standard_t(1, size=(60, P)) * 10.0 ** random.uniform(-8, 8, (60, 1))
    x = np.concatenate([x, -x, np.eye(P), -1e9 * np.eye(P), 1e200 * np.eye(P), np.zeros((1, P))])
    x = np.concatenate([x, [[np.inf, 0, 0], [np.nan, 1, 1], [1e-300, 0, 0]]])
    return x, np.where(random.random(len(x)) < 0.5, 1.0, 0.0)


@pytest.mark.parametrize("kind", ["score", "information", "variance", "moments", "scales"])
def test_what_a_record_adds_and_how_far_two_are_apart(kind, odd):
    x, y = odd
    metric = np.array([[1.0, 0, 0], [0.3, 2.0, 0], [0, -0.4, 0.5]])
    bounds = {"scales": (), "score": (0.05, 1e9)}.get(kind, (0.05, 0.002))
    for theta in (np.zeros(P), np.array([1.0, -2.0, 0.5])):
        added = of_each(kind, x, y, theta, metric, *bounds)
        norms = np.linalg.norm(added, axis=1)
        apart = np.linalg.norm(added[:, None] - added[None], axis=2).max()
        assert norms.max() <= 1 and apart <= sensitivity(kind)
        if kind != "moments":  # reached: by opposite scores, by other directions
            assert norms.max() > (0.6 if kind == "variance" else 0.99)
            assert apart > (0.5 if kind == "variance" else 0.98) * sensitivity(kind)


def test_the_outcome_is_not_in_a_weight():
    random = np.random.default_rng(2)
    x, theta = 3 * random.normal(size=(200, P)), np.array([0.5, -1.0, 2.0])
    ones, zeros = (rows_of(x, np.full(200, y), theta).weighted(np.eye(P), 0.5, 0.1) for y in (1.0, 0.0))
    np.testing.assert_allclose(ones.roots, zeros.roots, rtol=1e-12)
    np.testing.assert_allclose(ones.moments, zeros.moments, rtol=1e-12)
    # w (1 - q) u and -w q u differ by w u: what is left is one weight for both.
    q = 1 / (1 + np.exp(-x @ theta))
    weight = np.linalg.norm(ones.scores - zeros.scores, axis=1) / np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(ones.scores, (weight * (1 - q))[:, None] * x, rtol=1e-9)
    assert (weight < 0.9).mean() > 0.5


def test_clipped_scores_have_mean_zero_at_the_true_parameters():
    """z of the sum over 400,000 records: false alarms 1e-8; the clipped gradient is off by some 80."""
    random = np.random.default_rng(3)
    n, theta = 400_000, np.array([-1.0, 1.0, 0.5])
    x = np.column_stack([np.ones(n), np.exp(random.normal(size=n)), random.standard_t(3, size=n)])
    q = 1 / (1 + np.exp(-x @ theta))
    y = (random.random(n) < q).astype(float)
    bound = 0.3
    scores = rows_of(x, y, theta).weighted(np.eye(P), bound, 1e9).scores

    def worst(values):
        return np.abs(values.sum(axis=0) / np.sqrt((values**2).sum(axis=0))).max()

    assert worst(scores) < 6
    gradients = (y - q)[:, None] * x
    norms = np.linalg.norm(gradients, axis=1)
    assert worst(gradients * np.minimum(1, bound / np.maximum(norms, 1e-300))[:, None]) > 20


@pytest.mark.parametrize("outcome", [2.0, -1.0, 0.5, 1e300, np.nan])
def test_what_is_no_outcome_has_no_weight(outcome):
    x, y = np.ones((2, P)), np.array([1.0, outcome])
    found = rows_of(x, y, np.array([0.3, 0, 0])).weighted(np.eye(P), 0.5, 0.1)
    assert np.any(found.scores[0]) and not np.any(found.scores[1])
    assert not np.any(found.roots[1]) and not np.any(found.moments[1])


def test_sums_are_those_of_plain_numpy():
    random = np.random.default_rng(4)
    x, theta, y = random.normal(size=(500, P)), np.array([0.2, 0.1, -0.4]), np.ones(500)
    metric, bound, slope = np.diag([1.0, 2.0, 0.5]), 0.6, 0.2
    u, q = x @ metric.T, 1 / (1 + np.exp(-x @ theta))
    length, h = np.linalg.norm(u, axis=1), q * (1 - q)
    w = np.minimum(1, np.minimum(bound / (np.maximum(q, 1 - q) * length), slope / (h * length**2)))
    part, made = rows_of(x, y, theta), sums()
    score = made._score_of(metric, bound, slope, part) * bound / GRID
    np.testing.assert_allclose(score, (w * (y - q)) @ u, atol=500 * bound / GRID + 1e-9)
    entries = made._information_of(metric, bound, slope, part) * slope / OUTER_GRID**2
    whole = (u * (w * h)[:, None]).T @ u
    rows, columns = np.triu_indices(P)
    np.testing.assert_allclose(entries, whole[rows, columns], atol=500 * 2 * slope / OUTER_GRID)
    moments = made._moments_of(metric, bound, slope, part) * np.sqrt(3) / GRID
    wanted = [(w**2 * h * length**2).sum() / slope, 4 * (w * h).sum(), w.sum()]
    np.testing.assert_allclose(moments, wanted, atol=500 * 2 / GRID)


@pytest.mark.parametrize("kind", ["score", "information", "variance", "moments", "scales"])
def test_parts_add_up_to_the_same_integers(kind, odd):
    x, y = odd
    theta, made = np.array([1.0, -2.0, 0.5]), sums()
    of = getattr(made, f"_{kind}_of")
    bounds = () if kind == "scales" else (0.05, 0.002)
    whole = of(np.eye(P), *bounds, rows_of(x, y, theta))
    assert whole.dtype == np.int64 and np.any(whole)
    for cuts in ([0, 7], [0, 50, 51, 90]):
        ends = [*cuts[1:], len(x)]
        parts = [
            of(np.eye(P), *bounds, rows_of(x[a:b], y[a:b], theta)) for a, b in zip(cuts, ends, strict=True)
        ]
        np.testing.assert_array_equal(np.sum(parts, axis=0), whole)
