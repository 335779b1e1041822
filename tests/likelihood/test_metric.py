"""A metric in which a record tells about 1 of each of its coordinates."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.metric import Places
from pymc_dp.likelihood.slopes import Slopes


def test_each_coordinate_is_told_once_by_the_records_that_touch_it():
    """An intercept and columns of dummies, which few records touch, and which say nearly the same together.

    A root that mixes units leaves the intercept twenty times as much as all records tell: of n = 20,000 the
    truth was three of its standard deviations off in each direction.
    """
    rng = np.random.default_rng(0)
    parts = np.array([0.05, 0.15, 0.4, 0.39])
    columns = rng.choice(5, 20_000, p=[*parts, 1 - parts.sum()])[:, None] == np.arange(4)
    rows = np.c_[np.ones(len(columns)), columns].astype(float)
    right, touched = rows.T @ rows, rows.sum(0)
    metric = Places([], 5, []).metric(right, np.zeros((5, 5)), touched)
    np.testing.assert_allclose(metric @ right @ metric.T, np.diag(touched), atol=1e-6 * len(rows))
    seen = (rows @ metric.T) ** 2
    assert np.median(seen.sum(1)) < 5  # a control: of coordinates that each record has, rows are as long


def test_columns_beside_groups_are_centred_as_records_are_and_not_as_a_prior_says():
    """Of each group the prior may know much, and of the level of all of them nothing.

    With the prior in it the metric would take away too little of an age, which is far from zero: what is left
    says nearly the same as all groups' level, and of the direction in which they cancel nothing is seen.
    """
    rng = np.random.default_rng(1)
    group, age = rng.integers(0, 6, 3_000), rng.normal(50, 10, 3_000)
    rows = np.c_[age, np.eye(6)[group]]
    right, touched = rows.T @ rows, np.r_[3_000.0, np.bincount(group)]
    level = np.ones(6) / np.sqrt(6)
    prior = np.zeros((7, 7))
    prior[1:, 1:] = 300 * (np.eye(6) - np.outer(level, level))
    metric = Places([np.arange(1, 7)[:, None]], 7, []).metric(right, prior, touched[[1, 2, 3, 4, 5, 6, 0]])
    found = metric @ right @ metric.T
    np.testing.assert_allclose(found[-1, :-1], 0.0, atol=1e-6 * len(rows))
    np.testing.assert_allclose(found[-1, -1], 3_000, rtol=1e-3)
    left = touched[1:] ** 2 / (touched[1:] + 250)
    np.testing.assert_allclose(np.diag(found)[:-1], left, rtol=1e-3)


def test_what_all_groups_share_with_a_covariate_is_taken_away_whole():
    """Ages of 50 +- 4 in twelve groups: their common level explains all but a 160th of the squares.

    Noise of single entries takes at most half of the rest: the slope stays positive. In the control all
    entries together take at most half of the squares, so that the rest is far from 1 in the metric.
    """
    rng = np.random.default_rng(2)
    group, age = rng.integers(0, 12, 3_000), rng.normal(50, 4, 3_000)
    rows = np.c_[np.eye(12)[group], age]
    right, touched = rows.T @ rows, np.r_[np.bincount(group), 3_000.0]
    places = Places([np.arange(12)[:, None]], 13, [])
    noise = 50 * np.sqrt(touched[:, None] * touched) * rng.normal(size=(13, 13))

    def told(slope):
        assert np.linalg.eigvalsh(slope)[0] > 0
        metric = places.metric(slope, np.zeros((13, 13)), touched)
        return (metric @ right @ metric.T)[-1, -1] / 3_000

    assert 0.9 < told(places.shrunk(right, right, np.ones((13, 13)), touched)) < 1.1
    found = places.shrunk(right, right + noise, np.ones((13, 13)), touched)
    assert 0.9 < told(found) < 4
    taken = found[:12, 12] @ np.linalg.solve(right[:12, :12], found[:12, 12]) / right[12, 12]
    less = np.sqrt(0.5 / taken) * (found - np.diag(np.diag(found))) + np.diag(np.diag(found))
    assert told(less) < 0.3


def test_where_counts_show_nothing_of_groups_their_metric_is_the_prior_s():
    found = Places([np.arange(3)[:, None]], 4, []).metric(np.zeros((4, 4)), 4 * np.eye(4), np.full(4, 9.0))
    np.testing.assert_allclose(found, 1.5 * np.eye(4))


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_a_column_that_few_records_have_is_learnt(monkeypatch):
    """200 of 4,000 records, which no count shows at epsilon = 1: what is bought is not the prior again."""
    rng = np.random.default_rng(0)
    column = (rng.random(4_000) < 0.05).astype(float)
    with pm.Model() as model:
        level, effect = pm.Normal("level", 0, 5), pm.Normal("effect", 0, 2.5)
        observed = rng.normal(3 + 2 * column, 2)
        pm.Normal("y", level + effect * column, pm.HalfNormal("s", 5), observed=observed)

    def deviation():
        likelihood = dp.release_likelihood(model, epsilon=1, delta=1e-6, debug_seed=1)
        precision = np.diag([1 / 25, 1 / 6.25, 1.0])
        assert list(likelihood.labels[:2]) == ["level", "effect"]
        return np.sqrt(np.linalg.inv(likelihood.information + precision)[1, 1])

    alone = 2 / np.sqrt(column.sum())
    assert deviation() < 4 * alone
    # Control: the less seems to be told, the longer a metric makes these scores, and the more is clipped.
    monkeypatch.setattr(Slopes, "least", np.zeros(3))
    assert deviation() > 10 * alone
