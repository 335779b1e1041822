"""Searches that start far from the parameters."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.brackets import Brackets
from pymc_dp.likelihood.step_length import LONGEST_STEP, StepLength, clear_score, longest_step
from tests.likelihood.releases import several
from tests.likelihood.test_rounds import taken_at

GROUPS = np.arange(8)[:, None]


def test_a_reach_doubles_until_the_direction_turns_and_then_halves():
    reach, far, one, short, same = StepLength(), 0.9, np.array([3.0, 0.0]), np.array([0.1, 0.0]), np.eye(2)
    assert reach.step(far, short, one, same) is short
    found = [reach.step(far, short, sign * one, same)[0] for sign in (1, 1, -1, -1, 1)]
    assert found == [0.5, 1.0, -0.5, -0.25, 0.125]
    again = [reach.step(far, short, one, same)[0] for _ in range(4)]
    assert again == [0.1, 0.2, 0.25, 0.25], "no step is longer than the one that went too far"
    assert reach.step(far, one, one, same) is one, "what is believed is farther"


def test_nearby_steps_go_by_what_is_believed():
    reach, one, same = StepLength(), np.full(1, 0.2), np.eye(1)
    assert all(reach.step(0.45, one, sign * one, same) is one for sign in (1, 1, -1, 1, -1, -1))
    assert reach.step(0.6, one, one, same) is one
    assert reach.step(0.3, one, one, same) is one, "one round alone says little: a ridge may start like this"
    assert reach.step(0.6, one, -one, same) is one
    assert reach.step(0.6, one, -one, same) is not one
    assert reach.step(0.3, one, -one, same) is not one, "it stays until few records pull"
    assert reach.step(0.1, one, one, same) is one


def test_records_that_pull_one_way_for_long_are_far_away():
    """Where exposures differ tenfold, the sum of all scores is never near the bound."""
    reach, one, same = StepLength(), np.full(1, 0.2), np.eye(1)
    found = [reach.step(0.4, one, one, same)[0] for _ in range(6)]
    assert found == pytest.approx([0.2, 0.2, 0.2, 0.5, 1.0, 2.0])
    reach = StepLength()
    assert all(reach.step(0.4, part * one, one, same)[0] == part * 0.2 for part in 0.7 ** np.arange(6))


def test_a_first_reach_is_not_far_beyond_the_usual_step():
    """A fourth of a vague prior's standard deviation may be where no record has any information."""
    reach, usual, one, same = StepLength(), np.full(1, 1e-3), np.full(1, 1.0), np.eye(1)
    found = [reach.step(0.9, usual, one, same)[0] for _ in range(3)]
    assert found == pytest.approx([0.001, 0.02, 0.04])


def test_a_turn_is_one_as_records_see_it():
    usual, ways = np.array([1e-4, 1e-3]), [np.array([0.1, sign]) for sign in (1, -1, 1, -1)]
    reach, other = StepLength(), StepLength()
    information = np.diag([1e6, 1.0])
    steps = [reach.step(0.9, usual, way, information)[0] for way in ways]
    assert steps[1:] == pytest.approx([0.002, 0.004, 0.008], rel=0.01)
    control = [other.step(0.9, usual, way, np.eye(2))[0] for way in ways]
    assert control == pytest.approx([1e-4] * 4)


def test_a_clear_score_has_all_groups_together_and_no_noise():
    one = taken_at(np.diag(np.full(9, 100.0))[None], np.full(9, 100.0))
    one.groups, one.noise = [GROUPS], 0.1 * one.most[0]
    one.score = one.most * np.array([*np.linspace(0.0, 0.4, 8), 0.25])
    np.testing.assert_allclose(clear_score(one) / one.most, [0.2] * 8 + [0.0])
    one.score = one.most * np.array([*np.linspace(-0.4, 0.4, 8), 0.25])
    assert clear_score(one) is one.score


def at(point, truth, noise=0.01, sign=1.0):
    """A round at which groups pull with at most half of what their records have; and a scale with nothing."""
    one = taken_at(np.diag(np.full(9, 100.0))[None], np.full(9, 100.0), metric=sign * np.eye(9))
    one.point, one.noise = point, noise * one.most[0]
    one.score = sign * np.clip(0.5 * (truth - point), -0.5, 0.5) * one.most
    return one


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("far", [-20.0, 20.0])
def test_a_group_far_from_all_others_is_found(far, sign):
    """Steps of .7 standard errors, as a posterior had them: 30 rounds would not do."""
    truth, point, rounds = np.append(far, np.zeros(8)), np.zeros(9), []
    truth[8] = 5.0  # of no group: left as it is
    for _ in range(15):
        rounds.append(at(point, truth, sign=sign))
        found = Brackets(rounds, [GROUPS], [GROUPS])
        step = found.step(0.7 * np.clip(truth - point, -1, 1))
        assert step[8] == 0.7 * np.clip(truth - point, -1, 1)[8]
        point = point + step
        assert np.flatnonzero(found.open_ended).tolist() in ([], [0])
        assert found.still_pull is (len(rounds) < 6)
    assert abs(point[0] - far) < 0.1
    np.testing.assert_array_equal(point[1:8], 0.0)
    assert found.within(np.zeros(9))[0] == pytest.approx(rounds[-1].point[0])  # what was believed before


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_a_release_finds_one_group_far_from_all_others(monkeypatch):
    """Of thirty, 15 residual standard deviations away; it was wrong by 18 of its own in one of eight."""
    rng = np.random.default_rng(4)
    group, x, levels = rng.integers(30, size=4_000), rng.normal(size=4_000), rng.normal(size=30)
    levels[3] = 15.0
    with pm.Model() as model:
        level = pm.Normal("level", pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 10), shape=30)
        mean = level[group] + pm.Normal("b", 0, 2) * x
        pm.Normal("y", mean, pm.HalfNormal("sigma", 5), observed=rng.normal(levels[group] + 0.5 * x, 1))

    def found(one):
        own = [one.labels.index(f"level[{k}]") for k in range(30)]
        covariance = np.linalg.inv(one.information + 1e-6 * np.eye(len(one.labels)))
        mean = covariance @ (one.gradient + one.information @ one.point)
        return mean[own] - levels, np.sqrt(np.diag(covariance))[own]

    releases = several(model, (1, 1), epsilon=4)
    off, sd = found(next(releases))
    assert np.abs(off / sd).max() < 5 and sd.max() < 0.5
    monkeypatch.setattr(Brackets, "step", lambda _, usual: usual)  # control
    off, sd = found(next(releases))
    assert sd[3] > 10 or np.abs(off / sd).max() > 5


def test_what_all_groups_have_in_common_is_no_pull_of_one():
    """All are far: steps are the usual ones, and none is unknown."""
    truth = np.append(np.linspace(19.9, 20.1, 8), 0.0)
    rounds = [at(np.zeros(9), truth), at(np.ones(9), truth)]
    found = Brackets(rounds, [GROUPS], [GROUPS])
    assert not found.open_ended.any() and not found.still_pull
    np.testing.assert_array_equal(found.step(np.ones(9)), np.ones(9))
    wrong = at(np.zeros(9), truth)  # of two groups the number of records is wrong: they seem to pull less
    wrong.most = wrong.most * np.append([5.0, 5.0], np.ones(7))
    assert not Brackets([wrong], [GROUPS], [GROUPS]).still_pull
    np.testing.assert_array_equal(Brackets([wrong], [GROUPS], [GROUPS]).step(np.ones(9)), np.ones(9))
    few = np.arange(3)[:, None]  # a look-up of three levels is not one of groups
    assert not Brackets([at(np.zeros(9), np.append(20.0, np.zeros(8)))], [few], [few]).open_ended.any()


@pytest.mark.parametrize(
    ("part", "noise", "unknown"), [(0.2, 0.15, False), (0.28, 0.1, True), (0.1, 0.1, False)]
)
def test_a_group_that_pulled_once_is_known_if_the_last_score_is_small(part, noise, unknown):
    """It would be .3 at least if the group were far away, within the noise; and it has to stand out."""
    truth = np.append(20.0, np.zeros(8))
    last = at(np.append(19.0, np.zeros(8)), truth, noise)
    last.score[0] = part * last.most[0]
    found = Brackets([at(np.zeros(9), truth), last], [GROUPS], [GROUPS])
    assert found.open_ended.tolist() == [unknown, *[False] * 8] and not found.still_pull
    back = np.append(-19.5, np.full(8, 0.1))  # a step to where the group is not: it stays, and others go
    np.testing.assert_allclose(found.step(back), np.append(0.1, np.full(8, 0.1)))


def test_groups_with_several_coordinates_go_by_the_posterior():
    """A score is one of both: of a level at the mean covariate, and not of the level."""
    both = np.arange(8).reshape(4, 2)
    found = Brackets([at(np.zeros(9), np.append(20.0, np.zeros(8)))], [both], [both])
    assert not found.still_pull and not found.open_ended.any()


@pytest.mark.parametrize(("noise", "is_open"), [(0.01, True), (0.15, True), (0.4, False)])
def test_noise_is_no_pull(noise, is_open):
    """A score of half of what a group's records have, and one that is beyond that."""
    truth = np.append(20.0, np.zeros(8))
    assert Brackets([at(np.zeros(9), truth, noise)], [GROUPS], [GROUPS]).still_pull is is_open
    beyond = at(np.zeros(9), truth, noise)
    beyond.score *= 4
    assert Brackets([beyond], [GROUPS], [GROUPS]).still_pull is is_open


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
@pytest.mark.parametrize("mean", [200, pytest.param(500, marks=pytest.mark.exhaustive)])
def test_counts_in_the_hundreds_are_found(mean, monkeypatch):
    """With steps in units of what one record tells all was paid for nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=5_000)
    with pm.Model() as model:
        rate = pm.math.exp(pm.Normal("a", 0, 5) + pm.Normal("b", 0, 1) * x)
        pm.Poisson("y", rate, observed=rng.poisson(mean * np.exp(0.3 * x)))

    releases = several(model, (0, 0))
    likelihood = next(releases)
    covariance = np.linalg.inv(likelihood.information + np.diag([1 / 25, 1]))
    found = covariance @ (likelihood.information @ likelihood.point + likelihood.gradient)
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(found - [np.log(mean), 0.3]) < 4.5 * sd)
    assert np.all(sd < 0.01)
    monkeypatch.setattr(StepLength, "step", lambda _, pulling, usual, *others: usual)  # control
    assert not next(releases).information.any()


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_rates_of_populations_are_found(monkeypatch):
    """Exposures differ tenfold: the sum of scores is never half of what their bound allows."""
    rng = np.random.default_rng(2)
    x, population = rng.normal(size=(5_000, 3)), rng.lognormal(10, 1, 5_000)
    with pm.Model() as model:
        rate = pm.math.exp(pm.Normal("a", 0, 5) + x @ pm.Normal("b", 0, 1, shape=3))
        pm.Poisson("y", population * rate, observed=rng.poisson(population * np.exp(-9 + x.sum(1) * 0.3)))

    releases = several(model, (0, 0))
    likelihood = next(releases)
    sd = np.sqrt(np.diag(np.linalg.inv(likelihood.information)))
    found = likelihood.point + np.linalg.solve(likelihood.information, likelihood.gradient)
    assert np.all(np.abs(found - [-9, 0.3, 0.3, 0.3]) < 4.5 * sd)
    assert np.all(sd < 0.05)
    monkeypatch.setattr("pymc_dp.likelihood.step_length._STEADY", 100)  # control
    assert not next(releases).information.any()


def observed():
    """Outcomes of several laws, by name."""
    shares, means, zero = pm.Dirichlet("shares", np.ones(2)), pm.Normal("means", shape=2), np.zeros(4)
    parts = [pm.Normal.dist(0, 1), pm.StudentT.dist(nu=3)]
    pm.NormalMixture("mixture", w=shares, mu=means, sigma=1.0, observed=zero)
    pm.Mixture("of several", w=shares, comp_dists=parts, observed=zero)
    pm.ZeroInflatedPoisson("zero-inflated", 0.5, 3.0, observed=zero.astype(int))
    pm.HurdlePoisson("hurdle", 0.5, 3.0, observed=zero.astype(int))
    pm.TruncatedNormal("truncated", means[0], 1.0, lower=0, observed=zero)
    pm.Truncated("truncated gamma", pm.Gamma.dist(2, 1), upper=9.0, observed=zero + 1)
    pm.Normal("usual", means[0], 1.0, observed=zero)


def test_steps_are_short_where_a_likelihood_has_several_modes_or_a_ridge():
    with pm.Model() as model:
        observed()
    found = {one.name: longest_step([one]) for one in model.observed_RVs}
    assert {name for name, step in found.items() if step < 0.2} == {"mixture", "of several"}
    assert {name for name, step in found.items() if 0.2 < step < 1} == {"truncated", "truncated gamma"}
    assert found["usual"] == found["hurdle"] == LONGEST_STEP
    assert longest_step(model.observed_RVs) == found["mixture"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
@pytest.mark.parametrize("short", [True, False])
def test_a_mixture_whose_components_start_as_one_is_found(short, monkeypatch):
    """Without noise; control: longer steps throw one component out of all records, and it stays there."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(500) < 0.7, rng.normal(1, 1, 500), rng.normal(4, 1, 500))
    with pm.Model() as model:
        start = {"transform": pm.distributions.transforms.ordered, "initval": [-1.0, 1.0]}
        means, sigma = pm.Normal("means", 0, 10, shape=2, **start), pm.HalfNormal("sigma", 5)
        pm.NormalMixture("y", w=pm.Dirichlet("w", np.ones(2)), mu=means, sigma=sigma, observed=y)
    if not short:
        monkeypatch.setattr("pymc_dp.likelihood.public_model.longest_step", lambda laws: LONGEST_STEP)
    likelihood = dp.release_likelihood(model, epsilon=np.inf, delta=1e-6, debug_seed=0)
    most = likelihood.point + np.linalg.solve(likelihood.information, likelihood.gradient)
    found = dict(zip(likelihood.labels, most, strict=True))
    assert (abs(found["sigma_log__"]) < 0.15 and abs(found["means_ordered__[0]"] - 1) < 0.3) == short
