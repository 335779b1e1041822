"""Functions without branches against mpmath, and that models compiled here have them in their loops."""

import mpmath
import numba
import numpy as np
import pymc as pm
import pytest
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.records import fast_forms, graph
from pymc_dp.records import vector_math as fast
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID
from tests.conftest import NUMBA

R = np.random.default_rng(0)
TINY = 10.0 ** R.uniform(-300, -5, 200)
POSITIVE = np.r_[10.0 ** R.uniform(-307, 308, 300), R.uniform(0.4, 2.5, 300), 1 + TINY, 5e-324, 1e-310]
NEAR = np.r_[R.uniform(-0.999, 3.0, 300), TINY, -TINY, 10.0 ** R.uniform(-5, 307, 100)]
UNIT = np.r_[R.uniform(0, 1, 300), TINY, 0.0, 1.0]
GAMMA = np.r_[10.0 ** R.uniform(-300, 15, 300), R.uniform(-30, 30, 600), np.arange(1.0, 30.0), 7.9999999, 8.0]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324])


def log_one_more(x):
    return fast.log_of_sum(x) + fast.rest_of_sum(x)


@numba.njit
def log_gamma(x):
    z = fast.gamma_place(x)
    return fast.gamma_whole(x, fast.gamma_series(z, fast.log(z)), fast.log(fast.gamma_factor(x)))


def units_in_the_last_place(function, exact, points):
    """Largest error."""
    with mpmath.workdps(60):
        expected = [exact(mpmath.mpf(float(x))) for x in points]
        errors = [
            abs(mpmath.mpf(float(function(x))) - e) / np.spacing(abs(float(e)))
            for x, e in zip(points, expected, strict=True)
        ]
    return float(max(errors))


@pytest.mark.parametrize(
    ("function", "exact", "points"),
    [
        (fast.exp, mpmath.exp, np.r_[R.uniform(-707, 709, 500), R.normal(size=300), TINY, -TINY]),
        (fast.log, mpmath.log, POSITIVE),
        (fast.log_one_plus, mpmath.log1p, UNIT),
        (log_one_more, mpmath.log1p, NEAR),
    ],
)
def test_errors_are_below_two_units(function, exact, points):
    assert units_in_the_last_place(function, exact, points) < 2.0
    # The control: one with an error of 1e-15 does not pass.
    assert units_in_the_last_place(lambda x: function(x) * (1 + 1e-15), exact, points) > 2.0


@pytest.mark.slow
def test_log_gamma():
    with mpmath.workdps(60):
        exact = np.array([float(mpmath.log(abs(mpmath.gamma(mpmath.mpf(float(x)))))) for x in GAMMA])
    found = np.array([log_gamma(x) for x in GAMMA])
    np.testing.assert_allclose(found, exact, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(
    ("function", "numpys"), [(fast.exp, np.exp), (fast.log, np.log), (log_one_more, np.log1p)]
)
def test_special_numbers_are_numpys(function, numpys):
    with np.errstate(all="ignore"):
        expected = numpys(SPECIAL)
    np.testing.assert_allclose([function(x) for x in SPECIAL], expected, rtol=1e-15)


def test_special_numbers_of_log_gamma():
    expected = [np.inf, np.inf, np.inf, np.inf, np.nan]
    np.testing.assert_array_equal([log_gamma(x) for x in (0.0, -3.0, np.inf, -np.inf, np.nan)], expected)


def in_loops(function):
    """Ops of one number in a compiled function, those of loops too."""
    found, graphs = [], [function.maker.fgraph]
    while graphs:
        for node in graphs.pop().toposort():
            op = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
            found.append(op)
            if getattr(op, "fgraph", None) is not None:
                graphs.append(op.fgraph)
    return found


def declared(y, x):
    with pm.Model() as model:
        mu = pm.math.exp(pm.Data("x", x) @ pm.Normal("beta", 0, 1, shape=3))
        pm.NegativeBinomial("y", mu=mu, alpha=pm.HalfNormal("alpha", 2.0), observed=y)
        pm.Bernoulli("z", logit_p=pm.math.log(mu), observed=(y > 1).astype(int))
    return model


def data(n=41):
    r = np.random.default_rng(1)
    return r.integers(0, 9, n), r.normal(size=(n, 3))


@pytest.fixture(scope="module")
def compiled():
    """Forty-one records: a vector loop and what is left of it."""
    y, x = data()
    model = declared(y, x)
    return model, RecordModel(model, compile_kwargs=NUMBA)


def test_values_are_pymcs_and_loops_have_the_forms(compiled):
    model, records = compiled
    theta = np.array([0.3, -0.2, 0.5, 0.4])
    expected = sum(model.compile_fn(model.logp(model.observed_RVs, sum=False))(records.unravel(theta)))
    np.testing.assert_allclose(records.full_batch.rows(theta), expected, rtol=1e-13, atol=1e-13)
    ops = in_loops(records.full_batch._function)
    names = {op.name for op in ops if isinstance(op, fast_forms._Compiled)}
    assert {"exp", "gamma_series", "log_one_plus"} <= names
    assert any(isinstance(op, fast_forms._Inlined) for op in ops)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320])
@pytest.mark.parametrize("place", [0, 17, 40])
def test_one_record_moves_the_sum_by_twice_its_bound_at_most(compiled, value, place):
    _, records = compiled
    _, x = data()
    other = x.copy()
    other[place] = value
    theta = np.array([0.3, -0.2, 0.5, 0.4])
    (table,) = (graph.leaf_value(root) for root in records._roots if graph.leaf_value(root).ndim == 2)
    found = []
    for rows in (x, other):
        table[:] = rows
        old = records.full_batch.rows(theta)
        found.append((records.full_batch(theta + 0.2, old, 0.05).total, old))
    table[:] = x
    (total, own), (moved, others) = found
    np.testing.assert_array_equal(np.delete(own, place), np.delete(others, place))
    assert own[place] != others[place] and moved == int(moved) and abs(moved - total) <= 2 * GRID


ODD = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, -1e-310, 1e308, -1e154, 1e20, -745.0, 709.0, 710.0, -708.5]


@pytest.mark.slow
def test_odd_numbers_and_few_records_are_pytensors(compiled):
    """Of any number of records; in a record no other one changes, by no bit."""
    model, records = compiled
    fast_rows, plain_rows = records._some_rows, RecordModel(model)._some_rows
    theta = np.array([0.3, -0.2, 0.5, 0.4])
    whole = [np.array(graph.leaf_value(root)) for root in records._roots]

    def rows(parts):
        with np.errstate(all="ignore"):
            found, expected = fast_rows(theta, *parts), plain_rows(theta, *parts)
        unknown = ~np.isfinite(found) & ~np.isfinite(expected)
        found_there, there = (np.where(unknown, 0.0, values) for values in (found, expected))
        np.testing.assert_allclose(found_there, there, rtol=1e-9, atol=1e-12)
        return found

    for n in range(18):
        assert rows([table[:n].copy() for table in whole]).shape == (n,)
    usual = rows(whole)
    for value in ODD:
        for place, column in ((7, slice(None)), (40, 0), (0, 2)):
            parts = [table.copy() for table in whole]
            for table in parts:
                if table.ndim == 2:
                    table[place, column] = value
            found = rows(parts)
            np.testing.assert_array_equal(np.delete(found, place), np.delete(usual, place))
            assert found[place] != usual[place]  # the control: it is read


def test_other_backends_keep_pytensors():
    _, x = data()
    records = RecordModel(declared(data()[0], x))  # of the tests' own backend
    ops = in_loops(records.full_batch._function)
    assert ops and not any(isinstance(op, fast_forms._Compiled | fast_forms._Inlined) for op in ops)


def test_a_record_is_rounded_the_same_at_any_place():
    """In the body of a vectorised loop and in its remainder: 203 records, rolled.

    It fails with OpenBLAS's product, from 8 columns on.
    """
    x, y = R.normal(size=(203, 9)), R.integers(2, size=203)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=9)
        pm.Bernoulli("y", logit_p=pm.Data("x", x) @ beta, observed=pm.Data("seen", y))
    records = RecordModel(model, compile_kwargs=NUMBA)
    records.check_data = lambda: None  # a step refuses data that were changed
    point = R.normal(size=9)
    rows = np.array(records.full_batch.rows(point))
    for shift in (1, 2, 3, 5, 7, 100):
        with model:
            pm.set_data({"x": np.roll(x, shift, axis=0), "seen": np.roll(y, shift)})
        np.testing.assert_array_equal(records.full_batch.rows(point), np.roll(rows, shift))


def test_a_sum_is_the_same_whether_others_stand_beside_it():
    """Control: NumPy adds another way where a record is alone."""
    values = np.random.default_rng(0).uniform(size=(12, 200))
    alone = np.concatenate([fast.add_in_order(values[:, k : k + 1].copy()) for k in range(200)])
    np.testing.assert_array_equal(fast.add_in_order(values), alone)
    others = np.concatenate([np.sum(values[:, k : k + 1].copy(), axis=0) for k in range(200)])
    assert np.any(np.sum(values, axis=0) != others)
