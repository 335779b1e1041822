"""What groups differ by, where little is told of each of many."""

from dataclasses import replace

import numpy as np
import pytest

from pymc_dp.likelihood import group_differences
from pymc_dp.likelihood.beliefs import _weights, believed
from pymc_dp.likelihood.mixtures import Message, Mixture, Normal
from pymc_dp.likelihood.rounds import OF_GROUPS
from tests.likelihood.test_rounds import taken_at

GROUPS, DRAWS = 60, 24
SIZE = GROUPS + 1  # and one coordinate that all records touch
TOUCHED = np.append(np.full(GROUPS, 50.0), 3_000.0)
# As it is learnt to be: levels of sd .5.
PRIOR = Normal(np.diag(np.append(np.full(GROUPS, 4.0), 1.0)), np.zeros(SIZE))


def rounds_of(seed):
    """Four rounds, behind noise as large as what groups' records tell; and the truth: levels of sd .5.

    Slopes are what coordinates touch; draws of those of groups are a third off, as noise leaves them.
    """
    rng = np.random.default_rng(seed)
    truth, rounds = np.append(rng.normal(0, 0.5, GROUPS), 0.2), []
    for _ in range(4):
        seen = TOUCHED * np.append(np.exp(rng.normal(-0.05, 0.33, GROUPS)), 1.0)
        drawn = np.tile(seen, (DRAWS, 1))
        drawn[:, :GROUPS] *= np.maximum(1 + rng.normal(0, 0.33, (DRAWS, GROUPS)), 0.1)
        one = taken_at(drawn[:, :, None] * np.eye(SIZE), TOUCHED)
        one.point = 0.7 * truth + rng.normal(0, 0.1, SIZE)  # a walk came near
        one.score, one.noise = TOUCHED * (truth - one.point) + rng.normal(0, 60, SIZE), 60.0
        one.bound, one.prior = 10.0, np.ones(SIZE)
        rounds.append(one)
    return rounds, truth


def looked_at(look):
    """A normal likelihood, from four looks with what is believed after each."""
    mean, covariance = np.zeros(SIZE), np.eye(SIZE)
    for _ in range(4):
        found = look(mean, covariance)
        mean, covariance = found.moments(PRIOR)
    return found.matched(PRIOR)


def favoured(message):
    """How much more likely an sd of levels of .5 is than one of .05."""
    one = Mixture(message.information[None], message.vector[None], np.ones(1))
    scales = [np.append(np.full(GROUPS, sd**-2.0), 1.0) for sd in (0.05, 0.5)]
    near, right = (one.evidence(Normal(np.diag(scale), np.zeros(SIZE))) for scale in scales)
    return right - near


def test_the_spread_of_many_groups_is_found():
    """Sixty data sets with fixed seeds. The control, of ten of them, is the mixture over draws of slopes,
    matched by one normal density: it prefers levels that are alike."""
    found, control, squares = [], [], []
    for seed in range(60):
        rounds, truth = rounds_of(seed)
        message = looked_at(lambda *now: group_differences.believed_of_groups(rounds, *now))  # noqa: B023
        found.append(favoured(message))
        apart = np.linalg.solve(message.information, message.vector) - truth
        squares.append(apart @ message.information @ apart / SIZE)
        if seed < 10:
            control.append(favoured(looked_at(lambda *now: believed(rounds, *now, PRIOR, OF_GROUPS))))  # noqa: B023
    assert np.sum(found) > 0
    assert 0.8 < np.mean(squares) < 1.2
    assert np.sum(control) < 0


def test_a_far_round_counts_little_and_noise_is_as_it_is():
    """With a first round far away the estimate is that of the others, with their covariance."""
    rounds, truth = rounds_of(0)
    mean, covariance = truth, np.diag(np.append(np.full(GROUPS, 0.05), 1e-4))
    without = group_differences.believed_of_groups(rounds[1:], mean, covariance)
    far = replace(rounds[0], point=truth + 1.5)
    found = group_differences.believed_of_groups([far, *rounds[1:]], mean, covariance)
    np.testing.assert_allclose(np.diag(found.informations[0]), np.diag(without.informations[0]), rtol=0.02)
    (one,) = rounds[1:2]  # alone: as information at its own mean slope, without a misfit
    slope, alone = (
        group_differences.at_mean_slope(one).slopes[0],
        group_differences.believed_of_groups([one], mean, covariance),
    )
    np.testing.assert_allclose(alone.informations[0], slope.T @ slope / one.noise**2, rtol=1e-6, atol=1e-9)
    rounds[0] = replace(rounds[0], point=truth)  # near: it counts
    found = group_differences.believed_of_groups(rounds, mean, covariance)
    assert np.median(np.diag(found.informations[0]) / np.diag(without.informations[0])) > 1.2


def messages(rng, groups):
    """Two likelihoods of levels and two other coordinates, with means of their own."""
    found = []
    for scale in (0.3, 0.6):
        root = rng.normal(size=(groups + 2, groups + 2)) * 0.2 + np.eye(groups + 2)
        information = scale * root @ root.T
        found.append(Message(information, information @ rng.normal(size=groups + 2)))
    return found


@pytest.mark.parametrize("groups", [9, 12])
def test_what_groups_differ_by_is_that_of_one_and_the_rest_given_it_of_the_other(groups):
    rng = np.random.default_rng(0)
    message, levels = messages(rng, groups)
    prior = Normal(1e-6 * np.eye(groups + 2), np.zeros(groups + 2))
    found = group_differences.with_differences(message, levels, prior, [np.arange(groups)[:, None]])
    if groups < 10:  # few
        assert found is message
        return
    apart = np.eye(groups + 2)[1:groups] - np.eye(groups + 2)[0]
    rest = np.vstack([np.eye(groups + 2)[groups:], np.append(np.ones(groups), [0, 0])])

    def law(one):
        covariance = np.linalg.inv(one.information)
        mean = covariance @ one.vector
        slope = rest @ covariance @ apart.T @ np.linalg.inv(apart @ covariance @ apart.T)
        left = rest @ covariance @ rest.T - slope @ apart @ covariance @ rest.T
        return apart @ mean, apart @ covariance @ apart.T, slope, left, rest @ mean - slope @ apart @ mean

    for one, wanted in zip(law(found)[:2], law(levels)[:2], strict=True):
        np.testing.assert_allclose(one, wanted, rtol=2e-3, atol=2e-3)
    for one, wanted in zip(law(found)[2:], law(message)[2:], strict=True):
        np.testing.assert_allclose(one, wanted, rtol=2e-3, atol=2e-3)


def test_levels_that_are_far_from_each_other_stay_as_they_are():
    message, levels = messages(np.random.default_rng(0), 12)
    far = levels._replace(vector=levels.information @ np.append(20.0 * np.arange(12), [0, 0]))
    prior = Normal(1e-6 * np.eye(14), np.zeros(14))
    assert group_differences.with_differences(message, far, prior, [np.arange(12)[:, None]]) is message


def test_what_is_hardly_told_does_not_say_that_groups_are_alike():
    """Sixty groups with an sd of 1, of which a record's noise lets little be seen, and whose scores answer to
    their levels by .6 of what is believed, as where they are far out, with .6 of the noise that is said. Of
    200 data sets with fixed seeds: the control, the same likelihoods as they are, finds groups alike.
    """
    prior, told, answer = Normal(np.eye(GROUPS) / 1.2**2, np.zeros(GROUPS)), 0.4, 0.6
    rng, lookups = np.random.default_rng(0), [np.arange(GROUPS)[:, None]]
    laws = [Normal(np.eye(GROUPS) / sd**2, np.zeros(GROUPS)) for sd in (0.05, 1.0)]
    shown = []
    for _ in range(200):
        levels = rng.normal(size=GROUPS)
        score = told * answer * levels + np.sqrt(0.6 * told) * rng.normal(size=GROUPS)
        before = Message(told * np.eye(GROUPS), score)
        after = group_differences.without_hidden_differences(before, prior, lookups)
        evidence = [
            [Mixture(m.information[None], m.vector[None], np.ones(1)).evidence(law) for law in laws]
            for m in (before, after)
        ]
        shown.append(np.diff(evidence, axis=1)[:, 0])
    before, after = np.mean(np.array(shown) < -2, axis=0)  # e^2 times as likely alike
    assert before > 0.8
    assert after < 0.15


def test_groups_that_are_known_and_all_else_stay_as_they_are():
    """What all groups have in common, another coordinate, and differences of which much is told."""
    prior = Normal(np.eye(7), np.zeros(7))
    known = np.append(np.full(3, 400.0), np.full(3, 0.5))
    information = np.diag(np.append(known, 90.0))
    message = Message(information, information @ np.arange(7.0))
    found = group_differences.without_hidden_differences(message, prior, [np.arange(6)[:, None]])
    apart = np.array([[1, -1, 0, 0, 0, 0, 0], [1, 1, -2, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1.0]])
    for part in (information, found.information):
        np.testing.assert_allclose(np.diag(apart @ part @ apart.T), [800, 2400, 90], rtol=1e-3)
    change = found.information[3:6, 3:6] - found.information[3:6, 3:6].mean()
    assert np.trace(change) < 0.7 * 1.0  # two differences of three groups of which .5 is told each
    whole = np.append(np.ones(6), 0.0)
    assert whole @ found.information @ whole == pytest.approx(whole @ information @ whole)
    few = group_differences.without_hidden_differences(message, prior, [np.arange(3)[:, None]])
    np.testing.assert_array_equal(few.information, information)


def test_levels_whose_priors_have_means_of_their_own_are_hidden_around_these():
    """An expert's numbers, each group's own: what is told is added to them, and not to zero."""
    rng = np.random.default_rng(0)
    mean, root = rng.normal(0, 5, size=7), rng.normal(size=(7, 7))
    information, lookups = 0.2 * root @ root.T, [np.arange(6)[:, None]]
    message = Message(information, information @ rng.normal(size=7))
    found = group_differences.without_hidden_differences(message, Normal(np.eye(7), np.zeros(7)), lookups)
    moved = message._replace(vector=message.vector + information @ mean)
    other = group_differences.without_hidden_differences(moved, Normal(np.eye(7), mean), lookups)
    np.testing.assert_allclose(other.information, found.information)
    np.testing.assert_allclose(other.vector, found.vector + found.information @ mean)


def test_reference_levels_are_no_trouble():
    """Levels that are constants, whose prior variance is 1e-14."""
    prior = Normal(np.diag([1e14, 1e14, 1.0, 1.0, 1.0]), np.zeros(5))
    message = Message(np.eye(5), np.ones(5))
    found = group_differences.without_hidden_differences(message, prior, [np.arange(5)[:, None]])
    assert np.isfinite(found.information).all()
    assert np.linalg.eigvalsh(found.information).min() > -1e-9


def test_what_all_see_of_groups_is_taken_by_a_scale_and_by_all_groups_alike():
    """Of four groups and a scale, where levels have a variance of .2 and 100 records each see them."""
    touched, allowances = np.append(np.full(4, 100.0), 400.0), OF_GROUPS
    last = taken_at(np.diag(touched)[None], touched)
    covariance = np.diag([0.2, 0.2, 0.2, 0.2, 0.0])
    root = last.taken_for_other(np.zeros(5), covariance, allowances, [np.arange(4)[:, None]])
    off = root @ root.T
    # Of each level .2 is taken, in parts that are the same; of the scale what 400 records see, at least.
    np.testing.assert_allclose(off[:4, :4], 0.5 * (allowances.taken * 0.2) ** 2)
    assert off[4, 4] == pytest.approx((allowances.taken * 0.2) ** 2)
    away = last.taken_for_other(np.array([1.0, 0, 0, 0, 0]), covariance, allowances, [np.arange(4)[:, None]])
    assert (away @ away.T)[0, 0] == pytest.approx(0.5 * (allowances.taken * 1.2) ** 2)


def test_noise_is_added_to_what_a_likelihood_is_of():
    rng = np.random.default_rng(0)
    root, whole = rng.normal(size=(4, 2)), rng.normal(size=(4, 4))
    message = Message(whole @ whole.T, whole @ whole.T @ np.arange(4.0))
    found = message.widened(root)
    np.testing.assert_allclose(
        np.linalg.inv(found.information), np.linalg.inv(message.information) + root @ root.T
    )
    np.testing.assert_allclose(np.linalg.solve(found.information, found.vector), np.arange(4.0), atol=1e-9)
    nothing = Message.nothing(4).widened(root)
    assert not nothing.information.any() and not nothing.vector.any()


def test_what_is_hidden_of_one_group_moves_no_other():
    """Of twenty groups one is unknown: weakened, it takes nothing from the others, in common or apart."""
    prior = Normal(np.eye(20), np.zeros(20))
    information = np.diag(np.append(1e-3, np.full(19, 1e4)))
    before = Message(information, np.zeros(20))
    after = group_differences.without_hidden_differences(before, prior, [np.arange(20)[:, None]])
    spread = np.sqrt(np.diag(np.linalg.inv(prior.precision + after.information)))
    np.testing.assert_allclose(spread[1:], 0.01, rtol=0.01)  # .05 if the mean of all groups is what stays
    assert spread[0] > 0.99


@pytest.mark.parametrize("scale", [0.1, 3.0, 1e4])
def test_draws_that_count_are_enough_and_go_over_smoothly(scale):
    """Slightly other densities give slightly other weights: halving a power doubles some of them."""
    density = scale * np.random.default_rng(0).normal(size=12)
    weights, other = _weights(density), _weights(density * 1.001)
    enough = 1 / (weights @ weights)
    assert enough > 3.59 if scale < 1 else enough == pytest.approx(3.6, abs=0.01)
    np.testing.assert_allclose(weights, other, atol=0.002)
