"""Clipped sums of gradients, against the forward-mode derivatives and finite differences of the rows."""

import numpy as np
import pymc as pm
import pytest

from pymc_dp.records import kernels
from pymc_dp.records.model import RecordModel
from tests.records.derivatives import gradients_of
from tests.records.families import families

QUICK = ("logit", "columns")
SLOW = ("hier", "softmax", "mvn", "mixture", "zip_", "poisson", "two_obs", "negbin", "studentt")
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


def model_of(name):
    with pm.Model() as model:
        families()[name]()
    return model


def each(records, theta):
    seen = records.coordinates
    return gradients_of(records, seen(theta)) @ seen.jacobian(theta)


def clipped(gradients, bound):
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1, bound / np.maximum(norms, 1e-300))).sum(0), np.sum(norms > bound)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_sums_with_and_without_clipping(name):
    """Within the rounding to the grid, on all records and on batches with repeats, also where all is zero."""
    records = RecordModel(model_of(name))
    rng = np.random.default_rng(0)
    for theta in (records._start, records._start + 0.3 * rng.standard_normal(records.d)):
        gradients = each(records, theta)
        norms = np.linalg.norm(gradients, axis=1)
        rows = records.full_batch.rows
        steps = 1e-5 * np.eye(records.d)
        numerical = np.array([(rows(theta + e) - rows(theta - e)).sum() / 2e-5 for e in steps])
        np.testing.assert_allclose(gradients.sum(0), numerical, rtol=1e-4, atol=1e-4)
        units = rng.integers(0, records.n, 30)
        for bound in (2 * norms.max() + 1, np.median(norms) + 0.01):
            tolerance = records.n * bound * (2.0**-19 * np.sqrt(records.d) + 2.0**-28)
            total, count = records.gradients(theta, bound)
            expected, expected_count = clipped(gradients, bound)
            np.testing.assert_allclose(total, expected, rtol=0, atol=tolerance)
            assert abs(count - expected_count) <= np.sum(np.abs(norms / bound - 1) < 1e-4)
            np.testing.assert_allclose(
                records.gradients.batch(theta, units, bound).total, clipped(gradients[units], bound)[0],
                rtol=0, atol=tolerance,
            )  # fmt: skip
        assert np.any(np.abs(expected - gradients.sum(0)) > 10 * tolerance), (
            "control: the clip does something"
        )


X, Y = np.random.default_rng(1).normal(size=(50, 3)), np.random.default_rng(2).integers(0, 2, 50)


@pytest.fixture(scope="module")
def with_other_data():
    """A node of the covariates, and the records of a logistic regression on it: compiled once."""
    with pm.Model() as model:
        x = pm.Data("x", X)
        pm.Bernoulli("y", logit_p=x @ pm.Normal("b", 0, 1, shape=3), observed=Y)
    return x, RecordModel(model)


@pytest.mark.slow
@pytest.mark.parametrize("poison", [1e300, -1e300, np.nan, np.inf, 1e6])
def test_one_record_moves_the_sum_by_no_more_than_stated(with_other_data, poison):
    """Replaced by anything: at most twice the bound, in exact arithmetic; without a clip it would be more."""
    x, records = with_other_data
    bound, theta = 0.7, np.array([0.3, -1.0, 0.5])
    x.set_value(X)
    before = records.gradients(theta, bound).total
    assert np.max(np.linalg.norm(each(records, theta), axis=1)) > bound
    for record in range(3):
        other = X.copy()
        other[record] = poison * np.array([1.0, -1.0, 1.0])
        x.set_value(other)
        after = records.gradients(theta, bound).total
        assert np.any(after != before), "the other record is seen"
        assert np.linalg.norm(after - before) <= 2 * bound


def test_sums_are_exact_in_any_order():
    """Bit for bit, whatever the order of the records."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(5000, 3)), rng.integers(0, 2, 5000)
    theta = rng.standard_normal(3)
    totals = []
    for order in (np.arange(5000), rng.permutation(5000)):
        with pm.Model() as model:
            b = pm.Normal("b", 0, 1, shape=3)
            pm.Bernoulli("y", logit_p=x[order] @ b, observed=y[order])
        totals.append(RecordModel(model).gradients(theta, 0.3).total)
    np.testing.assert_array_equal(*totals)


@pytest.mark.slow
def test_rows_of_a_person_are_added_before_they_are_clipped():
    ids = np.random.default_rng(3).integers(0, 12, 40)
    model = model_of("logit")
    records, rows = RecordModel(model, privacy_unit=ids), RecordModel(model)
    theta, bound = np.array([0.4, -0.3, 0.2]), 0.8
    gradients = each(rows, theta)
    persons = np.array([gradients[ids == person].sum(0) for person in dict.fromkeys(ids)])
    expected, count = clipped(persons, bound)
    total, found = records.gradients(theta, bound)
    np.testing.assert_allclose(total, expected, atol=1e-3)
    assert found == count > 0
    assert np.linalg.norm(clipped(gradients, bound)[0] - expected) > 0.05  # control: rows by themselves
    some = np.array([3, 3, 7])
    np.testing.assert_allclose(
        records.gradients.batch(theta, some, bound).total, clipped(persons[some], bound)[0], atol=1e-3
    )


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf])
def test_bad_bounds(bound):
    records = RecordModel(model_of("logit"))
    with pytest.raises(ValueError, match="clip_bound"):
        records.gradients(np.zeros(3), bound)


@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_rows_that_count_for_nothing_do_not_spoil_their_neighbours(width):
    """Weight zero: adds nothing, whatever is in the row; all others as if added one by one."""
    rng = np.random.default_rng(width)
    values, weights = rng.normal(size=(23, width)), 1e3 * rng.uniform(1, 2, size=23)
    weights[[0, 5, 6, 21]] = 0.0
    expected = np.rint(values * weights[:, None]).sum(0)
    values[[0, 5, 6, 21]] = np.array([np.nan, np.inf, -np.inf, 1e300])[:, None]
    total = np.ones(width)
    kernels.rounded_dense(values, weights, total)
    np.testing.assert_array_equal(total, 1 + expected)
    squares = np.ones(23)
    kernels.squares_dense(values, 2.0, squares)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(squares, 1 + 4 * np.sum(values**2, axis=1), rtol=1e-12)
