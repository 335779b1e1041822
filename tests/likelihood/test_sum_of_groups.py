"""The sum of all groups is measured better than groups' own noise added up, and slopes come back from it."""

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds, Totals, compare
from pymc_dp.likelihood.groups import Alike
from pymc_dp.likelihood.information import Slope
from pymc_dp.likelihood.measurements import Comparison
from pymc_dp.likelihood.metric import Places, SumOfGroups

GROUPS, COLUMNS, SIZE = 6, 2, 15
OVERALL = SumOfGroups(GROUPS, COLUMNS, SIZE)
FIRST = np.arange(0, GROUPS * COLUMNS, COLUMNS)


def slope_of_groups(rng):
    """Positive definite, with no entry of two groups."""
    root = rng.normal(size=(SIZE, SIZE))
    slope, k = root @ root.T + 20 * np.eye(SIZE), GROUPS * COLUMNS
    slope[:k, :k] *= np.kron(np.eye(GROUPS), np.ones((COLUMNS, COLUMNS)))
    return slope


def many(number=20_000):
    """Scores and slopes that come back, of noisy ones."""
    rng = np.random.default_rng(0)
    slope, score = slope_of_groups(rng), rng.normal(size=SIZE)
    noise = rng.normal(size=(number, SIZE, SIZE))
    noise = (noise + noise.transpose(0, 2, 1)) / 2
    scores = OVERALL.root @ score + rng.normal(size=(number, SIZE))
    slopes = OVERALL.root @ slope @ OVERALL.root + noise
    found = [
        OVERALL.by_group(Comparison(one, 1.0, two, 1.0, np.full(SIZE, 3.0), 1.5), 1.5)
        for one, two in zip(scores, slopes, strict=True)
    ]
    return score, slope, found


def test_noise_that_comes_back_is_as_said():
    """Unbiased; variances of entries and of sums within 4.5 standard errors: false alarms below 2e-3 x 1e-3.

    Of 15 + 120 means and as many variances, each of 20,000 normal numbers, at a fixed seed.
    """
    score, slope, found = many()
    scores, slopes = (np.array([getattr(f.comparison, name) for f in found]) for name in ("score", "slope"))
    error = 4.5 / np.sqrt(len(scores))
    assert np.abs(scores.mean(0) - score).max() < error
    assert np.abs(np.cov(scores.T) - OVERALL.spread).max() < 1.5 * error
    assert np.abs(slopes.mean(0) - slope).max() < error
    variance = found[0].variance
    told = variance > 0
    assert np.abs(slopes.var(0)[told] / variance[told] - 1).max() < 1.5 * error
    assert not slopes.var(0)[~told].any()  # of two groups: zero, as they are
    total = slopes[:, FIRST, FIRST].sum(1).var()
    alone = variance[FIRST, FIRST].sum()
    assert abs(total / (OVERALL.in_sum(FIRST) * alone) - 1) < 1.5 * error
    assert total < 0.9 * alone  # the control: noise that is independent
    beside = np.cov(slopes[:, 0, -1], slopes[:, 2, -1])
    assert abs(beside[0, 1] / beside[0, 0] + OVERALL.shared(FIRST)) < error
    assert abs(slopes[:, FIRST, -1].sum(1).var() / (0.5 * GROUPS / (1 + OVERALL.weight * GROUPS)) - 1) < 0.05
    assert np.all(found[0].comparison.variances == 2.0) and found[0].comparison.variance_noise == 1.0


def test_few_groups_have_no_weight():
    for one in (SumOfGroups(2, 1, 5), SumOfGroups(0, 1, 5)):
        np.testing.assert_array_equal(one.root, np.eye(5))
        assert one.size == 0.0 and one.shared(np.arange(1)) == 0.0


def test_a_record_is_longer_by_the_weight_and_stays_within_its_bounds():
    """A unit of one group, with weight: as long as is said, and no longer than its bounds after the clip."""
    rng, m, bounds = np.random.default_rng(1), 50, Bounds(0.7, 0.9)
    rows = np.zeros((1, m, SIZE))
    group = rng.integers(0, GROUPS, m)
    rows[0, np.arange(m), group * COLUMNS] = 1.0
    lengths = np.square(rows[0] @ OVERALL.root).sum(1)
    np.testing.assert_allclose(lengths, 1 + OVERALL.weight)
    for i in range(m):
        totals, scores = Totals(SIZE), 5 * rng.normal(size=(8, 1, 1))
        compare(scores[0], scores, None, rows[:, i : i + 1] @ OVERALL.root, bounds, totals)
        assert np.linalg.norm(totals.score) <= 2**20 and np.linalg.norm(totals.slope) <= 2**24


def test_what_groups_share_is_known_better_by_their_sum():
    """One number beside a covariate, with noise as it comes back; the control takes noise as independent."""
    groups, size = 30, 31
    overall, touched = SumOfGroups(groups, 1, size), np.r_[np.full(30, 60.0), 1_800.0]
    mean = np.diag(touched)
    before = Slope(np.eye(size), mean, np.full((size, size), 10.0))
    places, errors, said = Places([np.arange(groups)[:, None]], size, []), {}, {}
    for name, one in {"with": overall, "control": SumOfGroups(1, groups, size)}.items():
        found = []
        for seed in range(200):
            rng = np.random.default_rng(seed)
            right = mean.copy()
            right[:groups, -1] = right[-1, :groups] = 0.3 * touched[:groups]
            noise = 100 * rng.normal(size=(size, size))
            seen = one.root @ right @ one.root + (noise + noise.T) / 2
            here = one.by_group(Comparison(np.zeros(size), 1.0, seen, 100.0, np.zeros(size), 1.0), 1.0)
            places.overall = one
            alike = Alike(places)
            released = Slope(np.eye(size), here.comparison.slope, here.variance)
            learnt, (unknown,) = alike.learn(before, released, touched, 0.5)
            found.append((learnt.mean[:groups, -1] / touched[:groups]).mean())
        errors[name], said[name] = np.std(found), unknown.deviations[0, 0] / touched[0]
    assert errors["with"] < 0.6 * errors["control"] and said["with"] < 0.6 * said["control"]
    assert errors["with"] < 1.2 * said["with"]


def test_groups_that_are_alike_are_found_to_be():
    """How far groups are apart beside a covariate is learnt: noise of each is no more all that is known."""
    groups, size, found = 60, 61, {}
    touched = np.r_[np.full(groups, 60.0), 3_600.0]
    for apart in (0.0, 0.6):
        rng = np.random.default_rng(4)
        right, numbers = np.diag(touched), 0.3 + apart * rng.normal(size=groups)
        right[:groups, -1] = right[-1, :groups] = numbers * touched[:groups]
        noise = 20 * rng.normal(size=(size, size))
        here = Slope(np.eye(size), right + (noise + noise.T) / 2, np.full((size, size), 200.0))
        before = Slope(np.eye(size), np.diag(touched), np.full((size, size), 30.0**2))
        places = Places([np.arange(groups)[:, None]], size, [])
        places.overall = SumOfGroups(1, groups, size)
        found[apart], _ = Alike(places).learn(before, here, touched, 0.5)
    assert np.sqrt(found[0.0].variance[:groups, -1]).max() < 0.25 * 60
    assert np.sqrt(found[0.6].variance[:groups, -1]).min() > 0.4 * 60
    assert np.std(found[0.0].mean[:groups, -1]) < 0.1 * 60
