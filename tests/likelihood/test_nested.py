"""Look-ups within another: whether a released slope shows it, and what is said of what no record sees."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.information import Slope
from pymc_dp.likelihood.mixtures import Message
from pymc_dp.likelihood.nested import without_nested

#: Twelve groups, four others, and a scale.
FINE, COARSE, P = np.arange(12), np.arange(12, 16), 17


def sums(signs=(1, 1)):
    return [[(signs[0], FINE), (signs[1], COARSE)], [(1, np.array([16]))]]


def slope_of(of_group, noise, rng, signs=(1, 1)):
    """Of 150 records a group, that are in these others: a code a record."""
    rows = np.zeros((len(of_group), P))
    rows[np.arange(len(of_group)), np.arange(len(of_group)) // 150] = signs[0]
    rows[np.arange(len(of_group)), 12 + of_group] = signs[1]
    rows[:, 16] = np.sqrt(2) * rng.normal(size=len(of_group))
    whole, error = rows.T @ rows, noise * rng.normal(size=(P, P))
    return whole, Slope(np.eye(P), whole + (error + error.T) / 2, np.full((P, P), noise**2 / 2))


def message_of(whole, rng):
    """As if noise had told something of all directions."""
    root = rng.normal(size=(P, P))
    information = whole + root @ root.T
    return Message(information, information @ rng.normal(size=P))


def directions(signs=(1, 1)):
    found = np.zeros((P, 4))
    found[COARSE, np.arange(4)] = signs[1]
    found[FINE, FINE // 3] = -signs[0]
    return found


@pytest.mark.parametrize("signs", [(1, 1), (-1, 1)])
def test_nothing_is_said_of_what_is_added_to_a_school_and_taken_from_its_classes(signs):
    rng = np.random.default_rng(0)
    nested = np.repeat(np.arange(12) // 3, 150)
    whole, seen = slope_of(nested, 30.0, rng, signs)
    message = message_of(whole, rng)
    found = without_nested(message, [seen], sums(signs))
    np.testing.assert_allclose(found.information @ directions(signs), 0, atol=1e-7)
    assert np.linalg.eigvalsh(message.information - found.information).min() > -1e-7
    # What is told of all else stays: of classes and what they are in together.
    together = np.eye(P)[FINE[:2]]
    before = np.linalg.inv(together @ np.linalg.inv(message.information) @ together.T)
    assert np.all(np.diag(together @ found.information @ together.T) >= np.diag(before) - 1e-7)
    # The maximum is where it was.
    np.testing.assert_allclose(
        found.information @ np.linalg.solve(message.information, message.vector), found.vector
    )


@pytest.mark.parametrize("noise", [5.0, 60.0])
def test_look_ups_that_cross_stay_as_they_were(noise):
    rng = np.random.default_rng(1)
    whole, seen = slope_of(rng.integers(0, 4, 1800), noise, rng)
    message = message_of(whole, rng)
    assert without_nested(message, [seen], sums()) is message


def test_how_often_noise_makes_the_one_look_like_the_other():
    """With noise of a tenth of a group's records (20 / sqrt 2 each entry): of 400 never."""
    rng = np.random.default_rng(2)
    nested, wrong = np.repeat(np.arange(12) // 3, 150), [0, 0]
    for _ in range(200):
        for k, codes in enumerate((nested, rng.integers(0, 4, 1800))):
            whole, seen = slope_of(codes, 20.0, rng)
            message = Message(whole + np.eye(P), np.zeros(P))
            wrong[k] += (without_nested(message, [seen], sums()) is message) == (k == 0)
    assert wrong == [0, 0]


def test_coordinates_that_are_left_out_are_in_none():
    rng = np.random.default_rng(3)
    whole, seen = slope_of(np.repeat(np.arange(12) // 3, 150), 5.0, rng)
    message = message_of(whole, rng)
    some = [[(1, FINE), (1, np.append(-1, COARSE[1:]))]]
    found = without_nested(message, [seen], some)
    np.testing.assert_allclose(found.information @ directions()[:, 1:], 0, atol=1e-7)


def test_rounds_show_together_what_none_shows():
    """With noise of a third of a group's records in each of eight rounds, whose scales differ: of 200 all."""
    rng = np.random.default_rng(4)
    nested, taken = np.repeat(np.arange(12) // 3, 150), [0, 0, 0]
    for _ in range(100):
        crossing = rng.integers(0, 4, 1800)
        for k, (codes, rounds, noise) in enumerate(((nested, 8, 60), (crossing, 8, 60), (crossing, 1, 300))):
            seen = []
            for scale in rng.uniform(0.2, 3, rounds):
                whole, one = slope_of(codes, noise, rng)
                seen.append(one._replace(mean=scale * one.mean, variance=scale**2 * one.variance))
            message = Message(whole + np.eye(P), np.zeros(P))
            taken[k] += without_nested(message, seen, sums()) is not message
    assert taken[:2] == [100, 0]
    assert taken[2] > 30  # that shows neither: nothing is said, rather than what may be noise


def test_a_round_that_shows_nothing_changes_nothing():
    rng = np.random.default_rng(5)
    whole, seen = slope_of(np.repeat(np.arange(12) // 3, 150), 20.0, rng)
    blind = Slope(np.eye(P), -np.eye(P), np.full((P, P), 1e8))
    message = message_of(whole, rng)
    for rounds in ([seen, blind], [blind, seen]):
        found = without_nested(message, rounds, sums())
        np.testing.assert_allclose(found.information @ directions(), 0, atol=1e-6)
    assert without_nested(message, [blind], sums()) is message


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
@pytest.mark.parametrize("mean_first", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_it_does_not_matter_where_the_mean_stands(mean_first):
    """``mean + school + class + b x`` was paid for nothing: the mean is part of the schools' levels there."""
    rng = np.random.default_rng(1)
    of_class, x = rng.integers(0, 24, 5000), rng.normal(size=5000)
    school = of_class // 4
    levels = 4 * rng.normal(size=6)[school] + 3 * rng.normal(size=24)[of_class]
    with pm.Model() as model:
        mean, b = pm.Normal("mean", 50, 20), pm.Normal("b", 0, 5)
        of_school = pm.Normal("school", 0, pm.HalfNormal("schools", 5), shape=6)[school]
        of_classes = pm.Normal("class", 0, pm.HalfNormal("classes", 5), shape=24)[of_class]
        mu = mean + of_school + of_classes + b * x if mean_first else mean + b * x + of_school + of_classes
        pm.Normal("y", mu, pm.HalfNormal("sigma", 10), observed=55 + levels + 2 * x + rng.normal(0, 8, 5000))
    for seed in (3, 5):
        one = dp.release_likelihood(model, epsilon=1, delta=1e-6, debug_seed=seed)
        place = one.labels.index("b")
        known = one.information[place, place]
        slope = one.point[place] + (np.linalg.pinv(one.information, hermitian=True) @ one.gradient)[place]
        assert 2 < known < 5000 / 8**2 and abs(slope - 2) * np.sqrt(known) < 5


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_crossed_look_ups_beside_covariates_that_are_not_centred():
    """The metric was indefinite: a slope had noise between groups, of which no record sees two."""
    rng, n = np.random.default_rng(0), 8_000
    g, h = rng.integers(0, 12, n), rng.integers(0, 8, n)
    x = np.column_stack([rng.uniform(20, 75, n), rng.normal(27, 4, n)])
    known = x @ [0.03, 0.05] + rng.normal(0, 0.5, 12)[g] + rng.normal(0, 0.5, 8)[h]
    with pm.Model() as model:
        u = pm.Normal("u", 0, pm.HalfNormal("su", 1), shape=12)
        v = pm.Normal("v", 0, pm.HalfNormal("sv", 1), shape=8)
        mean = pm.Normal("a", 0, 5) + x @ pm.Normal("b", 0, 1, shape=2) + u[g] + v[h]
        pm.Normal("y", mean, pm.HalfNormal("s", 5), observed=rng.normal(known - 1.5, 2))
    likelihood = dp.release_likelihood(model, epsilon=1, delta=1e-6, debug_seed=0)
    covariance = np.linalg.pinv(likelihood.information, hermitian=True)
    found = likelihood.point + covariance @ likelihood.gradient
    slopes = [likelihood.labels.index(f"b[{k}]") for k in (0, 1)]
    sd = np.sqrt(np.diag(covariance))[slopes]
    assert np.all(np.abs(found[slopes] - [0.03, 0.05]) < 4.5 * sd)
    assert np.all(sd < [0.005, 0.02])
