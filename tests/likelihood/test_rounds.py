"""An earlier round's slope, and what a score may differ by from a linear one."""

import math

import numpy as np
import pytest

from pymc_dp.likelihood import beliefs
from pymc_dp.likelihood.beliefs import Beliefs
from pymc_dp.likelihood.brackets import pulls_of_all
from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.likelihood.near_zero import NO_SPREADS
from pymc_dp.likelihood.rounds import RESULT, WALK, Round


def taken_at(slopes, touched, metric=None):
    """A round in which nothing pulls."""
    p = len(touched)
    return Round(
        point=np.zeros(p),
        metric=np.eye(p) if metric is None else metric,
        score=np.zeros(p),
        noise=1e-3,
        spread=np.eye(p),
        bound=1e3,
        slopes=slopes,
        volumes=np.zeros(len(slopes)),
        sizes=np.zeros((2, p)),
        errors=np.zeros((p, p)),
        touched=touched,
        prior=np.full(p, 1e6),
        weights=np.full(len(slopes), 1 / len(slopes)),
        records=float(touched.max()),
        effective=float(touched.max()),
        reachable=float(touched.max()),
        hidden=np.zeros(p, dtype=bool),
        most=1e3 * touched,
    )


def test_of_groups_alone_distances_are_means_over_all_records():
    """Forty groups of fifty records, each a distance of .6 away: so far are all records, not sqrt(40) times.

    The control takes a group's records for all of them.
    """
    one = taken_at(50.0 * np.eye(40)[None], np.full(40, 50.0))
    far, one.effective = one.squares(0.36 * np.eye(40)), 2_000.0
    np.testing.assert_allclose(one.squares(0.36 * np.eye(40)), 0.36)
    np.testing.assert_allclose(far, 40 * 0.36)


@pytest.mark.parametrize(("end", "expected"), [(9.0, 4.0), (3.0, 3.0), (1.0, 1.0)])
def test_an_earlier_slope_is_that_at_its_point_or_the_last_one(end, expected):
    """At the end a scale is a third and the slope of its level nine times as large, but not that of a score
    which is divided by the scale here. Where it is less steep there, that is what is believed."""
    first = taken_at(4.0 * np.eye(2)[None], np.full(2, 4.0))
    last = taken_at(end * np.eye(2)[None], np.full(2, end))
    np.testing.assert_allclose(first.no_steeper_than(last), expected * np.eye(2)[None], rtol=1e-9)


def test_an_earlier_slope_stays_in_any_metric_and_goes_by_the_last_round():
    rng = np.random.default_rng(0)
    root, metric = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    slopes = (root @ root.T)[None]
    first = taken_at(metric @ slopes @ metric.T, np.ones(3), metric=metric)
    np.testing.assert_allclose(first.no_steeper_than(taken_at(slopes, np.ones(3))), first.slopes, rtol=1e-6)
    last = taken_at(slopes / 3, np.ones(3))
    np.testing.assert_allclose(first.no_steeper_than(last), first.slopes / 3, rtol=1e-6)


def test_a_slope_by_the_parameters_is_in_no_direction_steeper_than_the_last():
    """A round's own slopes are as drawn; and one by the last round is not kept for another one."""
    metric = np.array([[1.0, 0.0], [1.0, 2.0]])
    first = taken_at(4.0 * (metric @ metric.T)[None], np.full(2, 4.0), metric=metric)
    last = taken_at(np.eye(2)[None], np.ones(2))
    np.testing.assert_allclose(first.slopes_up_to(last), metric[None], rtol=1e-9)
    np.testing.assert_allclose(first.slopes_up_to(first), 4.0 * metric[None], rtol=1e-9)


def misfits(groups, each=50.0):
    """Of a group's coordinate and of one that all records touch, where all are as uncertain."""
    touched = np.append(np.full(groups, each), groups * each)
    spread = np.diag(np.append(np.full(groups, 0.5), 1e-9))
    found = taken_at(np.diag(touched)[None], touched).misfit(np.zeros(groups + 1), spread, RESULT)
    return found[0, 0], found[-1, -1]


def test_a_group_takes_the_squares_of_its_own_records():
    """Four times as many groups: nothing changes for one of them, while a scale takes the squares of all."""
    few, many = misfits(10), misfits(40)
    assert many[0] == pytest.approx(few[0], rel=0.05)
    assert many[1] == pytest.approx(16 * few[1], rel=0.3)  # a control


def test_a_hidden_coordinate_whose_records_still_pull_is_not_known():
    """A hundred records at most of bound 2, which pull with 80 together. Noise of 80 may be all of that."""
    near, metric = np.zeros(2, dtype=bool), np.array([[1.0, 0.0], [1.0, 2.0]])
    one = taken_at(np.diag([400.0, 400.0])[None], np.full(2, 1000.0), metric=metric)
    one.bound, one.noise, one.score = 2.0, 5.0, np.array([80.0, 80.0])
    assert not one.adrift(near).any()
    one.hidden = np.array([False, True])
    values, vectors = np.linalg.eigh(one.adrift(near))
    np.testing.assert_allclose(values, [0.0, 900.0], atol=1e-6)
    np.testing.assert_allclose(np.abs(vectors[:, 1]), one.metric[1] / np.linalg.norm(one.metric[1]))
    one.noise = 78.0  # what exceeds one standard deviation is a hundredth of what the records can have
    assert not one.adrift(near).any()
    one.noise = 50.0
    assert one.adrift(near).any()


def test_a_group_that_is_far_away_is_not_known_and_others_are():
    """Its records pull with half of what they have. Nine others, and a scale, which can take no more."""
    touched = np.append(np.full(10, 100.0), 1000.0)
    one = taken_at(np.diag(touched)[None], touched)
    one.most, one.noise, one.score = 2.0 * touched, 1.0, np.append(102.0, np.zeros(10))
    assert one.is_beyond(6.2, pulls_of_all([one])).tolist() == [True, *[False] * 10]
    assert not one.is_beyond(6.3, pulls_of_all([one])).any()
    far = one.is_beyond(1.5, pulls_of_all([one]))
    np.testing.assert_allclose(one.adrift(far), np.diag(np.append(900.0, np.zeros(10))))
    one.score = np.append(2.0, np.zeros(10))  # no more than noise
    assert not one.is_beyond(0.1, pulls_of_all([one])).any()
    one.misfit(np.zeros(11), np.diag(np.append(9.0, np.full(10, 1e-4))), RESULT)  # believed to be far
    assert one.is_beyond(2.9, np.zeros(11)).tolist() == [True, *[False] * 10]
    far = np.diag(np.append(1e4, np.full(10, 1e-9)))  # of which squares say nothing beyond what is possible
    assert one.taken(far, RESULT)[-1] == pytest.approx(one.most[0], rel=0.01)


@pytest.mark.parametrize(
    ("scores", "pull"),
    [
        ([0.5, 0.5, 0.5], 0.5 - 0.2 / math.sqrt(3)),  # of a far group: all rounds, with less noise
        ([0.5, 0.5, 0.1], 0.0),  # the last one shows none: it has arrived
        ([-0.5, -0.5, 0.5], 0.3),  # it has gone too far: the last one alone
        ([0.1, 0.1, 0.5], 0.3),
        ([0.9, 0.9, 0.25], 0.05),  # by noise the last one may show as much
        ([-0.5, -0.5, -0.5], 0.5 - 0.2 / math.sqrt(3)),
    ],
)
def test_a_group_pulls_by_all_rounds_if_by_the_last(scores, pull):
    """Each score, over the largest that is possible, has noise of .1."""
    rounds = [taken_at(np.eye(1)[None], np.full(1, 100.0)) for _ in scores]
    for one, score in zip(rounds, scores, strict=True):
        one.noise, one.score = 0.1 * one.most[0], score * one.most
    assert pulls_of_all(rounds)[0] == pytest.approx(pull)


@pytest.mark.parametrize("far", [0, 1, 12, "scale"])
def test_a_result_says_nothing_of_a_group_that_is_far_and_of_nothing_if_all_are(far):
    """Of twelve groups and a scale: a search that came near all, or not to one, to any, to the scale."""
    touched = np.append(np.full(12, 100.0), 1200.0)
    one = taken_at(np.diag(touched)[None], touched)
    one.bound, one.noise, one.most = 2.0, 1.0, 2.0 * touched
    some = slice(12, 13) if far == "scale" else slice(far)
    one.score[some] = 0.6 * one.most[some]
    groups = [np.arange(12)[:, None]]
    beliefs = Beliefs(Normal(np.eye(13), np.zeros(13)), NO_SPREADS, groups, groups)
    beliefs.learn(one, last=True)
    known = np.diag(beliefs.result(1.0).message.information) > 0.1
    nothing = far in (12, "scale")
    assert known.tolist() == [False] * (13 if nothing else far) + [True] * (0 if nothing else 13 - far)


def test_a_group_that_is_believed_to_be_far_is_alone_in_that():
    """Its distance is that of all records together, on average: nothing was said of anything."""
    touched = np.append(np.full(12, 100.0), 1200.0)
    groups = [np.arange(12)[:, None]]
    beliefs = Beliefs(Normal(np.eye(13), np.zeros(13)), NO_SPREADS, groups, groups)
    beliefs.learn(taken_at(np.diag(touched)[None], touched), last=True)
    assert not beliefs._find_far().any()
    beliefs.mean[3] = 20.0
    assert np.flatnonzero(beliefs._find_far()).tolist() == [3]
    beliefs.mean[12] = 20.0  # control: what all records see is far
    assert beliefs._find_far().all()


@pytest.mark.parametrize(("last", "far"), [(0.28, [3]), (0.05, [])])
def test_a_group_that_pulled_and_may_still_pull_is_unknown(last, far):
    """A last score of .28, with noise of .1, is no clear pull; but it may be one of records far away."""
    touched = np.append(np.full(12, 100.0), 1200.0)
    groups = [np.arange(12)[:, None]]
    beliefs = Beliefs(Normal(np.eye(13), np.zeros(13)), NO_SPREADS, groups, groups)
    for part, noise in ((0.6, 0.05), (last, 0.1)):
        one = taken_at(np.diag(touched)[None], touched)
        one.bound, one.most, one.noise = 2.0, 2.0 * touched, noise * 200.0
        one.score[3] = part * 200.0
        beliefs.learn(one, last=part == last)
    assert np.flatnonzero(beliefs._find_far()).tolist() == far


def test_groups_that_only_noise_moves_are_as_far_as_they_are_on_average():
    """One of ten at 3, by noise or by its score, which makes .9 the mean square; the last is of no group."""
    touched = np.append(np.full(10, 100.0), 1000.0)
    one = taken_at(np.diag(touched)[None], touched)
    one.noise, one.groups, way = 20.0, [np.arange(10)[:, None]], np.append(3.0, np.zeros(10))
    assert one.length(np.outer(way, way)) == pytest.approx(math.sqrt((9 + 9 * 0.9) / 10))
    one.groups = [np.arange(9)[:, None]]  # fewer groups count one by one
    assert one.length(np.outer(way, way)) == pytest.approx(3.0)
    one.groups, one.score[0] = [np.arange(10)[:, None]], 70.0
    assert one.length(np.outer(way, way)) == pytest.approx(3.0)
    assert one.length(np.outer(way[::-1], way[::-1])) == pytest.approx(3.0)


def two_rounds(second):
    """Scores of three coordinates at zero: the first tells that the parameters are at 1."""
    rounds = []
    for score in (1.0, second):
        one = taken_at(100.0 * np.eye(3)[None], np.full(3, 100.0))
        one.noise, one.score = 1.0, np.full(3, 100.0 * score)
        rounds.append(one)
    return rounds


def test_what_is_doubted_stays_doubted_while_beliefs_settle(monkeypatch):
    """It is not found anew in each pass, and a new look begins without any doubt."""
    tried, prior = [], Normal(1e-4 * np.eye(3), np.zeros(3))
    own = beliefs._combined
    monkeypatch.setattr(beliefs, "_combined", lambda *given: tried.append(given[2]) or own(*given))
    rounds = two_rounds(5.0)

    def believed():
        tried.clear()
        beliefs.believed(rounds, np.full(3, 0.5), 1e-4 * np.eye(3), prior, WALK)
        return len(tried), rounds[1].doubt

    (first, doubt), (second, same) = believed(), believed()
    assert doubt == same > 1
    assert (first, second) == (3, 2)  # one for each round, and one more
    held = Beliefs(prior, NO_SPREADS, [], [])
    for one in two_rounds(1.0):
        one.doubt = 100.0
        held.learn(one, last=False)
    assert [one.doubt for one in held.rounds] == [1.0, 1.0]


def test_an_earlier_round_that_was_far_from_one_group_counts_for_others():
    touched = np.append(np.full(10, 100.0), 1000.0)
    one = taken_at(np.diag(touched)[None], touched)
    one.misfit(np.zeros(11), np.diag(np.append(9.0, np.full(10, 1e-4))), RESULT)
    counting = one.counting(RESULT.half)
    assert counting[0] < 0.01 and counting[1:10].min() > 0.4
    one.misfit(np.zeros(11), np.diag(np.full(11, 9.0)), RESULT)  # the control: far from all
    assert one.counting(RESULT.half).max() < 0.01


@pytest.mark.parametrize(("pull", "noise", "far"), [(0.3, 1.0, True), (0.05, 1.0, False), (0.3, 60.0, False)])
def test_records_that_pull_are_told_from_noise(pull, noise, far):
    one = taken_at(np.eye(3)[None] * 100, np.full(3, 100.0))
    one.bound, one.noise = 1.0, noise
    one.score = np.array([pull * 100, 0.0, 0.0]) + noise * np.ones(3)
    assert one.is_far is far


@pytest.mark.parametrize(("pull", "noise", "expected"), [(0.5, 0.0, 1.0), (0.3, 20.0, 1.0), (2.0, 0.0, 19.0)])
def test_where_records_pull_with_all_they_have_parameters_may_be_anywhere(pull, noise, expected):
    """The part that is reached, or may be with the noise, over the rest: limited, as noise may exceed all."""
    one = taken_at(np.eye(1)[None] * 100, np.full(1, 100.0))
    one.bound, one.noise, one.score = 1.0, noise, np.array([math.hypot(pull * 100, noise)])
    assert one.saturated == pytest.approx(expected)
    far = one.misfit(np.zeros(1), 1e-9 * np.eye(1), RESULT)
    assert one.distances[0] == pytest.approx(max(expected, one.pulled)) and far[0, 0] > 0


def test_each_coordinate_has_its_own_sampling_variance():
    """That of the solution of ``J phi = score``, for a score of this variance. The control is one ratio."""
    metric, slope = np.array([[2.0, 0.0], [0.5, 1.0]]), 1e4 * np.array([[1.0, 0.3], [0.3, 2.0]])
    shares = np.array([0.9, 0.3])

    def covariance(shares):
        held = Beliefs(Normal(np.eye(2), np.zeros(2)), NO_SPREADS, [], [])
        held.learn(taken_at(slope[None], np.full(2, 1e4), metric), last=True)
        return np.linalg.inv(held.result(shares).message.information)

    root = np.diag(np.sqrt(shares))
    back = np.linalg.inv(slope @ np.linalg.inv(metric).T)
    expected = back @ root @ slope @ root @ back.T
    np.testing.assert_allclose(covariance(shares), expected, rtol=0.1, atol=0.02 * expected[1, 1])
    one = np.full(2, shares.mean())
    assert np.abs(covariance(one) / expected - 1).max() > 0.3
