"""The record layer reads models rightly: rows, batches, priors, units."""

import numpy as np
import pymc as pm
import pytest

from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.records.model import RecordModel
from tests.conftest import NUMBA, logistic_model, simple_data
from tests.records.families import N, families

FAMILIES = families()


def random_point(records, seed):
    return records._start + np.random.default_rng(seed).normal(scale=0.4, size=records.d)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name):
    with pm.Model() as model:
        FAMILIES[name]()
    records = RecordModel(model)
    assert records.n == records.n_rows == N
    data, prior = (
        model.compile_fn(density, inputs=model.value_vars, on_unused_input="ignore")
        for density in (model.datalogp, model.varlogp)
    )
    for seed in range(3):
        theta = random_point(records, seed)
        rows, log_prior = records.full_batch.at(theta)
        point = records.unravel(theta)
        assert rows.shape == (N,)
        assert rows.sum() == pytest.approx(float(data(point)), rel=1e-9)
        assert log_prior == pytest.approx(float(prior(point)), rel=1e-9)
        index = np.random.default_rng(seed).integers(0, N, size=7)
        other = random_point(records, seed + 9)
        ratios = records.full_batch.rows(other) - rows
        found = records.ratios(theta, other, index)
        np.testing.assert_allclose(found, ratios[index], rtol=1e-7, atol=1e-8)
    assert np.array_equal(records.ravel(records.unravel(theta)), theta)


def test_a_batch_refuses_positions_outside(logistic):
    records = RecordModel(logistic)
    for bad in ([-1], [60], [3, 10**6]):
        with pytest.raises(IndexError):
            records.ratios(np.zeros(2), np.ones(2), np.array(bad))
    assert records.ratios(np.zeros(2), np.ones(2), np.array([], dtype=int)).shape == (0,)


def test_privacy_unit_sums_a_persons_rows(logistic):
    ids = np.random.default_rng(3).choice(["ann", "bob", "cleo", "dan", "eve"], size=60)
    rows = RecordModel(logistic).full_batch.rows(np.array([0.3, -0.2]))
    records = RecordModel(logistic, privacy_unit=ids)
    theta = np.array([0.3, -0.2])
    expected = np.array([rows[ids == name].sum() for name in dict.fromkeys(ids)])
    assert records.n == 5
    np.testing.assert_allclose(records.full_batch.rows(theta), expected)
    ratios = records.full_batch.rows(-theta) - expected
    np.testing.assert_allclose(records.ratios(theta, -theta, np.array([4, 0, 4])), ratios[[4, 0, 4]])


@pytest.mark.parametrize("unit", [np.zeros(3), np.full(60, np.nan)])
def test_bad_privacy_unit(logistic, unit):
    with pytest.raises(ValueError, match="privacy_unit"):
        RecordModel(logistic, privacy_unit=unit)


@pytest.mark.parametrize("n", [12, 30])
@pytest.mark.parametrize("transpose", [False, True])
def test_as_many_columns_as_records_are_refused(n, transpose):
    """However few there are: a table may be read along either axis, or be about pairs of records."""
    a = np.random.default_rng(0).normal(size=(n, n))
    with pm.Model() as model:
        b = pm.Normal("b", shape=n)
        pm.Normal("y", b @ a if transpose else a @ b, 1, observed=np.zeros(n))
    with pytest.raises(ModelRefusedError, match=r"Which axis of .* holds the records"):
        RecordModel(model)


def test_one_bad_record_does_not_touch_the_others():
    """PyMC's own checks are all() over rows; the record layer strips them."""
    x = np.linspace(0.5, 2, 30)
    bad = x.copy()
    bad[4] = -1.0  # sigma * x is negative for this record
    rows = []
    for values in (x, bad):
        with pm.Model() as model:
            sigma = pm.HalfNormal("sigma")
            pm.Normal("y", 0, sigma * values, observed=np.zeros(30))
        rows.append(RecordModel(model).full_batch.rows(np.array([0.1])))
    others = np.arange(30) != 4
    assert np.all(np.isfinite(rows[1][others]))
    np.testing.assert_array_equal(rows[0][others], rows[1][others])


def test_set_data_after_construction_is_noticed():
    x, y = simple_data()
    with pm.Model() as model:
        data = pm.Data("x", x)
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=data @ beta, observed=y)
    records = RecordModel(model)
    records.check_data()
    with model:
        pm.set_data({"x": x + 1})
    with pytest.raises(PrivacyError, match="set_data"):
        records.check_data()


def test_released_variables():
    model = logistic_model()
    with model:
        pm.Deterministic("total", model["beta"].sum())
    assert RecordModel(model).released_variables == ["beta", "total"]


def test_set_data_of_something_only_a_deterministic_reads_is_noticed():
    model = logistic_model()
    with model:
        new = pm.Data("new", np.ones((3, 2)))
        pm.Deterministic("prediction", new @ model["beta"])
    records = RecordModel(model)
    records.check_data()
    with model:
        pm.set_data({"new": np.zeros((3, 2))})
    with pytest.raises(PrivacyError, match="set_data"):
        records.check_data()


@pytest.mark.parametrize("mode", [{}, NUMBA], ids=["py", "numba"])
def test_a_point_where_a_parameter_is_invalid_has_no_density(mode):
    """Checks that read no record are kept: a negative sigma rejects, in the likelihood and in a prior."""
    with pm.Model() as model:
        s = pm.Normal("s", 1, 1, initval=1.0)
        t = pm.Normal("t", 1, 1, initval=1.0)
        m = pm.Normal("m", 0, t)
        pm.Normal("y", m, s, observed=np.linspace(-1, 1, 30))
    records = RecordModel(model, compile_kwargs=mode)
    for point, finite in (([1, 1, 0], True), ([-1, 1, 0], False), ([1, -1, 0], False)):
        assert np.isfinite(records.full_batch.at(np.array(point, dtype=float))[1]) == finite
