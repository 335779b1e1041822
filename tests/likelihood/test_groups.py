"""Groups' spreads and slopes, points around, and normal likelihoods that are proper under any prior."""

import math

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood import beliefs, group_differences, groups, information, rounds
from pymc_dp.likelihood.groups import Alike, Diagonal, Spreads, with_common_factors
from pymc_dp.likelihood.information import InCommon, Slope
from pymc_dp.likelihood.metric import Places, SumOfGroups
from pymc_dp.likelihood.mixtures import Mixture, Normal, inverse
from pymc_dp.likelihood.points import number_of_twins, points_around
from pymc_dp.likelihood.score_sizes import Counted
from pymc_dp.likelihood.slopes import Slopes
from tests.likelihood.releases import several

GROUPS = 20


def no_weight(groups, size, sums=()):
    """Places of the first coordinates, each a group, whose sum has no weight."""
    places = Places([np.arange(groups)[:, None]], size, sums)
    places.overall = SumOfGroups(1, groups, size)
    return places


def prior_of(scales, seed=0):
    """Levels around a common one, whose spread is as uncertain as `scales` are."""
    rng = np.random.default_rng(seed)
    tau = rng.choice(scales, size=4000)
    draws = rng.normal(size=(4000, 1)) + tau[:, None] * rng.normal(size=(4000, GROUPS))
    return Normal(np.linalg.inv(np.cov(draws.T)), np.zeros(GROUPS), draws)


def seen(levels, precision):
    return Mixture(precision * np.eye(GROUPS)[None], precision * levels[None], np.ones(1))


def spread_of(spreads):
    covariance = inverse(spreads.prior.precision)
    return np.sqrt((np.trace(covariance) - covariance.sum() / GROUPS) / (GROUPS - 1))


@pytest.mark.parametrize("truth", [0.2, 1.0, 4.0])
def test_spreads_are_learnt(truth):
    """A prior that leaves open whether groups differ by .2 or by 4; the control has learnt nothing."""
    prior = prior_of([0.2, 0.5, 1.0, 2.0, 4.0])
    spreads = Spreads(prior, [np.arange(GROUPS)[:, None]])
    before = spread_of(spreads)
    levels = truth * np.random.default_rng(1).normal(size=GROUPS)
    for _ in range(3):
        spreads.learn(seen(levels, 100.0))
    after = spread_of(spreads)
    assert abs(np.log(after / truth)) < 0.8
    assert abs(np.log(after / truth)) < 0.8 * abs(np.log(before / truth))


def test_what_says_nothing_teaches_nothing():
    spreads = Spreads(prior_of([0.2, 4.0]), [np.arange(GROUPS)[:, None]])
    before = spread_of(spreads)
    spreads.learn(seen(np.zeros(GROUPS), 1e-9))
    np.testing.assert_allclose(spread_of(spreads), before, rtol=0.05)


def test_evidence_is_that_of_a_normal():
    """By another route: the density of what is seen, under a prior and its noise."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    cov, noise, y = root @ root.T + np.eye(3), 0.5, rng.normal(size=3)
    one = Mixture(np.eye(3)[None] / noise, y[None] / noise, np.ones(1))

    def density(c, mean):
        total, apart = c + noise * np.eye(3), y - mean
        return -0.5 * np.linalg.slogdet(total)[1] - 0.5 * apart @ np.linalg.solve(total, apart)

    def by_us(c, mean):
        return one.evidence(Normal(np.linalg.inv(c), mean))

    other, mean = 3 * cov, rng.normal(size=3)
    ours = by_us(cov, mean) - by_us(other, np.zeros(3))
    np.testing.assert_allclose(ours, density(cov, mean) - density(other, np.zeros(3)), rtol=1e-9)


def test_a_likelihood_is_proper_under_a_wider_prior():
    """Where little is told of a direction, its mean stays near what is believed; else it is exact."""
    prior = Normal(np.eye(2), np.zeros(2))
    known = Mixture(np.diag([50.0, 50.0])[None], np.array([[100.0, -50.0]]), np.ones(1))
    message = known.matched(prior)
    np.testing.assert_allclose(message.information, np.diag([50.0, 50.0]), rtol=1e-6)
    np.testing.assert_allclose(message.vector, [100.0, -50.0], rtol=1e-6)
    # Draws that disagree: the mean moves, and the variance does not shrink.
    slopes, vectors = np.array([np.eye(2) * 1e-3, np.eye(2) * 4.0]), np.array([[0.0, 0.0], [12.0, 0.0]])
    message = Mixture(slopes, vectors, np.full(2, 0.5)).matched(prior)
    centre = np.linalg.pinv(message.information) @ message.vector
    assert np.abs(centre).max() < 6.0
    assert np.linalg.eigvalsh(message.information)[0] > -1e-12


def test_slopes_have_their_level_in_common():
    """Noise of each group is five times its slope; what all groups have in common is known."""
    rng, p = np.random.default_rng(3), 101
    touched, truth = np.append(np.full(100, 50.0), 5000.0), np.append(np.full(100, 20.0), 4000.0)
    noise = 100.0
    before = Slope(np.eye(p), np.diag(touched), np.full((p, p), 2500.0))
    measured = Slope(
        np.eye(p), np.diag(truth) + noise * np.diag(rng.normal(size=p)), np.full((p, p), noise**2)
    )
    diagonal = Diagonal(no_weight(100, p))
    before = diagonal.learn(before, measured, touched, 1.0, np.zeros((p, p)))
    common, now = diagonal.error_of_level, before.and_also(measured.mean, measured.variance)
    after = diagonal.within(now, touched, np.zeros(p), np.ones(p, dtype=bool))
    assert abs(np.diag(after.mean)[:100].mean() - 20.0) < 3 * noise / 10  # its standard error is 10
    assert np.diag(before.mean)[100] == 5000.0
    assert (
        np.quantile(np.sqrt(np.diag(after.variance)[:100]), 0.95) <= 10.0
    )  # but of one that seems different
    assert 0.2 < common[0] <= 1.0 and common[100] == 0.0
    drawn = with_common_factors(np.repeat(after.mean[None], 400, axis=0), common)
    spread = np.log(drawn[:, 0, 0] / after.mean[0, 0]).std()
    np.testing.assert_allclose(spread, common[0], rtol=0.2)
    np.testing.assert_array_equal(drawn[:, 100, 100], after.mean[100, 100])


def slopes_of_rounds(truth, expected, errors, near, rounds, noise=30.0, seed=5):
    """Slopes of groups after rounds with this noise, and how much is believed to be unknown of each."""
    rng, size = np.random.default_rng(seed), len(truth)
    diagonal, variance = Diagonal(no_weight(size, size)), np.full((size, size), noise**2)
    now = Slope(np.eye(size), np.diag(expected), np.full((size, size), 100.0**2))
    for k in range(rounds):
        seen = Slope(np.eye(size), np.diag(truth + rng.normal(0, noise, size)), variance)
        before = diagonal.learn(now, seen, expected, 0.3 if k else 1.0, np.zeros((size, size)))
        now = before.and_also(seen.mean, seen.variance)
    after = diagonal.within(now, expected, errors, near)
    return *(np.diag(one) for one in (after.mean, now.mean)), np.sqrt(np.diag(after.variance))


@pytest.mark.parametrize(("differ", "least", "most"), [(0.0, 0.0, 0.15), (0.4, 0.15, 0.5)])
def test_groups_are_as_alike_as_their_slopes_are_seen_to_be(differ, least, most, monkeypatch):
    """Behind noise of .3, after two rounds. One group of 40 has a hundredth of the slope that others have, as
    its records are all clipped: it is not taken to be like others."""
    expected, near = np.full(40, 100.0), np.arange(40) > 0
    truth = 100 * np.exp(differ * np.random.default_rng(6).normal(size=40))
    truth[0] = 1.0
    mean, alone, error = slopes_of_rounds(truth, expected, np.zeros(40), near, 2)
    assert least <= error[1:].min() / 100 and error[1:].max() / 100 <= most
    assert np.std(mean[1:] - truth[1:]) < (1.0 if differ else 0.7) * np.std(alone[1:] - truth[1:])
    assert mean[0] == alone[0]
    if not differ:  # then it is seen to be different, without a pull
        assert slopes_of_rounds(truth, expected, np.zeros(40), near | True, 2)[0][0] == alone[0]
    monkeypatch.setattr(groups, "_DIFFERENT", math.inf)  # the control
    assert slopes_of_rounds(truth, expected, np.zeros(40), near | True, 2)[0][0] > mean[0] + 5


def test_differences_between_groups_are_those_of_all_rounds():
    """Slopes differ by half of their mean, or not at all. Behind much noise none of 40 searches is sure of
    either; eight rounds show more than one, and alike groups gain from one another."""
    near, expected = np.ones(20, dtype=bool), np.full(20, 100.0)

    def off(truth, rounds, noise):
        found = [slopes_of_rounds(truth, expected, 0 * expected, near, rounds, noise, k) for k in range(40)]
        mean, alone, errors = (np.array(each) for each in zip(*found, strict=True))
        return np.std(mean - truth), np.std(alone - truth), errors.min()

    unlike, alike = np.tile([50.0, 150.0], 10), expected
    once, _, least = off(unlike, 1, 130.0)
    often, _, later = off(unlike, 8, 130.0)
    assert min(least, later) > 15 and often < 0.8 * once
    mean, alone, least = off(alike, 8, 30.0)
    assert mean < 0.75 * alone and least < 8
    mean, alone, _ = off(unlike, 8, 30.0)
    assert mean > 0.8 * alone  # the control


def test_a_hidden_group_may_have_few_records():
    """Counts are as uncertain as they are large: what a group's own slope shows counts."""
    expected, near = np.full(20, 100.0), np.ones(20, dtype=bool)
    truth = np.append(np.full(10, 20.0), np.full(10, 180.0))
    mean, _, error = slopes_of_rounds(truth, expected, np.full(20, 100.0), near, 8)
    assert np.abs(mean - truth).max() < 4 * error.min() < 60
    known, _, error = slopes_of_rounds(truth, expected, np.zeros(20), near, 1, 60.0)
    assert (
        np.abs(known - truth).max() > 2.5 * error.max()
    )  # the control: counts of others are not known so well


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_small_groups_beside_large_ones_are_known_no_better_than_their_records(monkeypatch):
    """Six groups of 20 records beside others of up to 500; in units of what these have without noise."""
    rng, sizes = np.random.default_rng(4), np.repeat([20, 60, 150, 500], 6)
    group, levels = np.repeat(np.arange(24), sizes), rng.normal(9, 0.5, 24)
    with pm.Model() as model:
        level = pm.Normal("level", pm.Normal("mean", 0, 10), pm.HalfNormal("spread", 1), shape=24)
        pm.Normal("y", level[group], pm.HalfNormal("sigma", 2), observed=rng.normal(levels[group], 1))

    def found(one):
        own = [one.labels.index(f"level[{k}]") for k in range(24)]
        prior = 1e-6 * np.eye(len(one.labels))
        prior[np.ix_(own, own)] += np.linalg.inv(0.25 * np.eye(24) + 100)
        covariance = np.linalg.inv(one.information + prior)
        mean = covariance @ (one.gradient + one.information @ one.point)
        errors = (mean[own] - levels) / np.sqrt(np.diag(covariance)[own])
        return np.abs(errors).max(), np.median(np.diag(one.information)[own][:6]) / 20

    releases = several(model, (1, 1), epsilon=2)
    error, known = found(next(releases))
    assert error < 4 and known < 0.6
    monkeypatch.setattr(groups, "_part_of", lambda *given: 0.0)  # the control: all are alike
    error, known = found(next(releases))
    assert error > 4.5
    assert known > 0.8


def test_points_have_their_centre_and_their_spread():
    root = np.random.default_rng(4).normal(size=(3, 3))
    covariance = root @ root.T
    steps = points_around(covariance, 0.5, 1000.0, 1e6, seed=1)
    assert steps.shape == (16, 3)
    np.testing.assert_allclose(steps.mean(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose(np.einsum("qi,ij,qj->q", steps, np.linalg.inv(covariance), steps).mean(), 3.0)
    far = points_around(covariance, 7.0, 1000.0, 1e6, seed=1)
    np.testing.assert_allclose(far, steps * 1.5 / 7)
    assert not points_around(covariance, 0.01, 1e6, 1e6, seed=1).any()
    assert len(points_around(covariance, 0.5, 1000.0, 0.1, seed=1)) == 2


@pytest.mark.parametrize("n", [300, 1000, 3000, 4200, 5000, 10_000, 30_000, 110_000])
def test_twins_are_drawn_as_often_on_either_side(n):
    """With six twins at the first six of sixteen points, all on one side, scores had no mean of zero."""
    for last, wide in ((False, False), (True, False), (True, True)):
        twins = number_of_twins(n, last, wide)
        for number in (2, 6, 10, 14, 100):
            steps = points_around(np.eye(3), 5.0, n, number, seed=1)
            at = steps[np.arange(twins) % len(steps)]
            np.testing.assert_array_equal(at.sum(axis=0), 0)


def evidence(likelihood, spreads):
    """Logarithm of the mean likelihood for sds of 20 levels, what else there is being known."""
    information = likelihood.information
    vector = information @ likelihood.point + likelihood.gradient
    found = []
    for spread in spreads:
        covariance = np.diag([1.0] + [0.4**2] * 5 + [spread**2] * 20)
        covariance[6:, 6:] += 0.1**2
        precision = np.linalg.inv(covariance)
        total, pull = information + precision, vector + precision @ np.repeat([0.0, 3.0], [6, 20])
        found.append(0.5 * pull @ np.linalg.solve(total, pull) - 0.5 * np.linalg.slogdet(total)[1])
        found[-1] += 0.5 * np.linalg.slogdet(precision)[1]
        found[-1] -= 0.5 * 9.0 * precision[6:, 6:].sum()
    return np.array(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_crossed_groups_are_not_said_to_be_alike(monkeypatch):
    """Schools by years, a hundred records each: with what is not known overstated all schools seemed one."""

    def told(seed):
        rng = np.random.default_rng([seed, 2_000])
        school, year = rng.integers(0, 20, 2_000), rng.integers(0, 5, 2_000)
        u, v = rng.normal(0, 0.8, 20), rng.normal(0, 0.4, 5)
        with pm.Model() as model:
            schools = pm.Normal("u", 0, pm.HalfNormal("tu", 1), shape=20)
            years = pm.Normal("v", 0, pm.HalfNormal("tv", 1), shape=5)
            level = pm.Normal("m", 0, 5) + schools[school] + years[year]
            observed = rng.normal(3 + u[school] + v[year], 1.0)
            pm.Normal("y", level, pm.HalfNormal("s", 2), observed=observed)
        likelihood = dp.release_likelihood(model, epsilon=1, delta=1e-6, debug_seed=seed)
        alike, right = evidence(likelihood, [0.05, 0.8])
        return right - alike

    seeds = (0, 2)  # 26 together, and -10 of the control
    assert sum(told(seed) for seed in seeds) > 0
    control = rounds.OF_GROUPS._replace(misfit=4.0)
    monkeypatch.setattr(groups, "OF_GROUPS", control)
    monkeypatch.setattr(beliefs, "OF_GROUPS", control)
    monkeypatch.setattr(group_differences, "MANY", 1_000)
    assert sum(told(seed) for seed in seeds) < 0


def test_slopes_of_two_look_ups_are_such_as_records_have():
    """Noise alone would show two levels of one grouping together, and too much of all."""
    rng = np.random.default_rng(0)
    lookups = [np.arange(4)[:, None], np.arange(4, 7)[:, None]]
    places = Places(lookups, 8, [])
    a, b, x = rng.integers(0, 4, 500), rng.integers(0, 3, 500), rng.normal(size=500)
    rows = np.c_[np.eye(4)[a], np.eye(3)[b], x]
    right = rows.T @ rows
    root = rng.normal(size=(8, 8))
    metric = np.linalg.inv(np.linalg.cholesky(right + root @ root.T))
    kept = places.possible((metric @ right @ metric.T)[None], metric, 3)[0]
    back = np.linalg.inv(metric)
    np.testing.assert_allclose(back @ kept @ back.T, right, atol=5e-3 * right.max())
    wrong = right + 1e4  # all of them together
    found = places.possible((metric @ wrong @ metric.T)[None], metric, 3)[0]
    found = back @ found @ back.T
    deviations = np.sqrt(np.diag(found))
    values = np.linalg.eigvalsh(found / np.outer(deviations, deviations))
    assert values[-1] < 3.5 and values[0] > 0
    control = wrong / np.sqrt(np.outer(np.diag(wrong), np.diag(wrong)))
    assert np.linalg.eigvalsh(control)[-1] > 7.0


def rows_of(rng, n, signs=(1, 1, 1)):
    """Of ``level + school[a] - year[b]``, say, and of a covariate: what records have of each coordinate."""
    a, b, x = (
        rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]),
        rng.choice(3, n, p=[0.6, 0.3, 0.1]),
        rng.normal(size=n),
    )
    columns = [np.ones((n, 1)), np.eye(4)[a], np.eye(3)[b]]
    rows = np.hstack([sign * one for sign, one in zip(signs, columns, strict=True)])
    return np.hstack([rows, x[:, None]])


def sums_of(signs=(1, 1, 1)):
    places = [np.array([0]), np.arange(1, 5), np.arange(5, 8)]
    return [list(zip(signs, places, strict=True)), [(1, np.array([8]))]]


LOOKUPS = [np.arange(1, 5)[:, None], np.arange(5, 8)[:, None]]


@pytest.mark.parametrize("signs", [(1, 1, 1), (1, 1, -1), (1, -1, -1)])
def test_the_graph_and_counts_show_a_slope(signs):
    """Where codes are independent, of 40,000 records: within four of their errors."""
    n = 40_000
    rows = rows_of(np.random.default_rng(4), n, signs)
    right = 0.25 * rows.T @ rows
    touched = np.r_[n, (rows[:, 1:8] != 0).sum(0), n].astype(float)
    found = Places(LOOKUPS, 9, sums_of(signs)).information(np.diag(right), touched, n)
    np.testing.assert_allclose(found, right, atol=4 * 0.25 * np.sqrt(n))
    control = Places(LOOKUPS, 9, sums_of()).information(np.diag(right), touched, n)
    assert (signs == (1, 1, 1)) == (np.abs(control - right).max() < 0.05 * right.max())


def test_a_slope_of_players_has_no_direction_that_all_go_together():
    """Home less away, of one look-up; and with a reference level, which is no coordinate."""
    players, n = np.arange(5), 1_000.0
    counts = np.full(5, 2 * n / 5)
    found = Places([], 5, [[(1, players), (-1, players)]]).information(counts, counts, n)
    np.testing.assert_allclose(found @ np.ones(5), 0.0, atol=1e-9)
    left = Places([], 4, [[(1, np.r_[-1, 0, 1, 2, 3]), (-1, np.r_[-1, 0, 1, 2, 3])]])
    np.testing.assert_allclose(left.information(counts[1:], counts[1:], n), found[1:, 1:], atol=1e-9)


def test_what_is_added_up_has_a_slope_in_common():
    """Levels and what is added to them; not a covariate, nor the groups of another sum."""
    one = Places(LOOKUPS, 9, sums_of())
    assert [sorted(one.order[places]) for places in one.alike] == [[*range(8)]]
    apart = Places(LOOKUPS, 9, [[(1, places.ravel())] for places in LOOKUPS])
    assert sorted(sorted(apart.order[places]) for places in apart.alike) == [[1, 2, 3, 4], [5, 6, 7]]


def test_groups_show_together_how_they_go_with_a_covariate():
    """Forty groups whose entries have three times their own noise, and one number in common, 0.5 or none."""
    size, rng = 41, np.random.default_rng(8)
    touched, noise = np.r_[np.full(40, 50.0), 2_000.0], 150.0
    for number in (0.5, 0.0):
        right = np.diag(touched)
        right[:40, 40] = right[40, :40] = number * touched[:40]
        noisy = rng.normal(0, noise, (size, size))
        here = Slope(np.eye(size), right + (noisy + noisy.T) / 2, np.full((size, size), noise**2 / 2))
        before = Slope(np.eye(size), np.diag(touched), np.full((size, size), 10.0))
        alike = Alike(no_weight(40, size))
        learnt, (unknown,) = alike.learn(before, here, touched, 0.5)
        error = unknown.deviations[0, 0] / touched[0]
        assert 0.2 < error < 0.4 and 0 < alike.known[0, 40] < 0.8 and alike.known[40, 40] == 1
        assert abs(learnt.mean[0, 40] / touched[0] - number) < 4 * error
        assert np.ptp(learnt.mean[:40, 40]) < 1e-9 and np.all(learnt.mean == learnt.mean.T)
        _, (less,) = alike.learn(learnt, here, touched, 0.05)
        assert less.deviations[0, 0] < unknown.deviations[0, 0]  # of earlier rounds as well
    sums = [[(1, np.arange(40)), (1, np.array([40]))]]
    none = Alike(no_weight(40, size, sums))  # where the graph shows it
    assert none.learn(before, here, touched, 0.5)[0].mean[0, 40] == 0.0


def test_a_covariate_that_few_records_have_goes_with_all_groups_by_its_part_at_most():
    """A mark of 5%: where it could be half of all groups' levels its slope was drawn 80 times too large."""
    size, noise = 41, 150.0
    touched = np.r_[np.full(40, 50.0), 100.0]
    seen_here = Slope(np.eye(size), np.diag(touched), np.full((size, size), noise**2 / 2))
    before = Slope(np.eye(size), np.diag(touched), np.full((size, size), 10.0))
    alike = Alike(no_weight(40, size))
    _, (unknown,) = alike.learn(before, seen_here, touched, 0.5)
    assert unknown.deviations[0, 0] / touched[0] < 0.5 * 2 * 100 / 2_000


def test_what_groups_have_in_common_is_drawn_as_one_number():
    """Chains and rejection alike; the control has the same variances, entry by entry."""
    seen_here = np.diag([9.0, 9.0, 9.0, 40.0])
    one = InCommon(np.arange(3), np.array([3]), np.full((3, 1), 1.5))
    noise, together = np.full((4, 4), 0.2), np.ones((4, 4))
    for by in (information.draws, information._chains):
        entries = by(seen_here, noise, 1e9, together, [one])[:, :3, 3]
        assert 1.0 < entries.std(0).min() and np.corrcoef(entries.T).min() > 0.9
    alone = np.full((4, 4), 0.2)
    alone[:3, 3] = alone[3, :3] = 1.5 * np.sqrt(2)
    entries = information.draws(seen_here, alone, 1e9, together)[:, :3, 3]
    assert 1.0 < entries.std(0).min() and np.abs(np.corrcoef(entries.T) - np.eye(3)).max() < 0.5


@pytest.mark.parametrize("lookups", [LOOKUPS, []])
def test_counts_hold_a_belief_that_noise_has_carried_away(lookups):
    """A round believed thirty times too much, by noise. Control: without groups rounds alone count."""
    n, touched = 1_000.0, np.r_[1_000.0, np.full(4, 250.0), np.full(3, 333.0), 1_000.0]
    sums = sums_of() if lookups else [[(1, np.array([k]))] for k in range(9)]
    places = Places(lookups, 9, sums)
    counted = Counted(0.25 * touched, touched, 0.0 * touched, 10.0, touched, 0.0 * touched, touched > 0)
    slopes = Slopes(places, n, 4, counted)
    wrong, unsure = 30 * np.diag(0.25 * touched), np.full((9, 9), 1e6)
    slopes._slope = Slope(np.eye(9), wrong, unsure)
    found = slopes._before(np.eye(9)[places.order], 0.1, 0.0)
    ratio = np.diag(found.mean) / (0.25 * touched[places.order])
    assert np.all(ratio < 2) if lookups else np.all(ratio == 30)
    elsewhere = counted._replace(information=0.5 * touched)
    slopes.count_again(elsewhere)  # what counts say there is said of all of it
    np.testing.assert_allclose(np.diag(slopes.counted), 0.5 * touched)
    some = np.where(touched > 300, touched, 0.0)
    hidden = Slopes(places, n, 4, counted._replace(touched=some))
    hidden._slope = Slope(np.eye(9), wrong, unsure)  # of what does not stand out counts say nothing
    ratio = np.diag(hidden._before(np.eye(9)[places.order], 0.1, 0.0).mean) / (0.25 * touched[places.order])
    assert np.all(ratio[touched[places.order] < 300] > 25)


@pytest.mark.parametrize("told", [1e-6, 1e-3, 0.1, 1.0, 50.0])
def test_what_is_told_of_a_direction_does_not_pull_by_more_than_its_noise_may(told):
    """A score has a standard deviation of the root of what is told. If it were bounded by what is told alone,
    many groups of which little is known would seem alike; without a bound what is left of a likelihood that
    was made wider pulls without end under a wider prior."""
    prior = Normal(np.eye(2), np.zeros(2))
    usual = 2.0 * math.sqrt(told)
    one = Mixture(np.diag([told, told])[None], np.array([[usual, 1e3]]), np.ones(1))
    found = one.matched(prior)
    mean = 1e3 / (1 + told)
    np.testing.assert_allclose(np.diag(found.information), told, rtol=1e-4)
    np.testing.assert_allclose(found.vector, [usual, min(told * mean + 3 * math.sqrt(told), 1e3)], rtol=1e-4)
