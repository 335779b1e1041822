"""Loops in the place of narrow products: the same numbers, a record's from its own row."""

import functools

import numpy as np
import pymc as pm
import pytest
from pytensor.tensor.math import Dot

from pymc_dp.records import fast_forms, graph
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID
from tests.conftest import NUMBA

BOUND = 0.05


def data(n, d):
    r = np.random.default_rng(0)
    return r.normal(size=(n, d)), r.integers(0, 2, n)


def made(family, d, x, y):
    with pm.Model() as model:
        eta = pm.Data("x", x) @ pm.Normal("beta", 0, 1, shape=d)
        if family == "linear":
            pm.Normal("y", eta, pm.HalfNormal("sigma"), observed=y.astype(float))
        elif family == "logistic":
            pm.Bernoulli("y", logit_p=eta, observed=y)
        else:
            pm.NegativeBinomial("y", pm.math.exp(eta), 2.0 + pm.math.exp(eta), observed=y)
    return model, RecordModel(model, compile_kwargs=NUMBA)


def has_product(records):
    nodes = records.full_batch._function.maker.fgraph.toposort()
    assert any(isinstance(node.op, Dot | fast_forms.NarrowProduct) for node in nodes)
    return any(isinstance(node.op, Dot) for node in nodes)


@pytest.mark.parametrize(
    ("family", "d", "product"),
    [
        ("linear", 2, False),
        ("linear", 12, False),
        ("linear", 13, True),
        ("logistic", 5, False),
        ("negative binomial", 5, False),
    ],
)
def test_where_columns_are_taken(family, d, product):
    _, records = made(family, d, *data(20, d))
    assert has_product(records) is product


@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_values_and_gradients_are_pymcs(family):
    model, records = made(family, 4, *data(300, 4))
    theta = 0.3 * np.random.default_rng(1).normal(size=records.d)
    (expected,) = model.compile_fn(model.logp(model.observed_RVs, sum=False))(records.unravel(theta))
    np.testing.assert_allclose(records.full_batch.rows(theta), expected, rtol=1e-12)
    found, steps = records.gradients(theta, 1e3).total, 1e-5 * np.eye(records.d)
    total = [[records.full_batch.rows(theta + s * h).sum() for s in (1, -1)] for h in steps]
    np.testing.assert_allclose(found, -np.diff(total, axis=1)[:, 0] / 2e-5, rtol=1e-5, atol=1e-2)


@functools.cache
def of_forty(family):
    """A model of forty records, and its table, which can be written to."""
    x, y = data(40, 4)
    _, records = made(family, 4, x, y)
    (table,) = (graph.leaf_value(r) for r in records._roots if graph.leaf_value(r).ndim == 2)
    return records, table


def sum_and_rows(records):
    """At two points: the clipped sum of ratios, and the rows."""
    theta = np.full(records.d, 0.2)
    old, _ = records.full_batch.at(theta)
    return records.full_batch(theta + 0.3, old, BOUND).total, records.full_batch.rows(theta)


@pytest.mark.parametrize("family", ["linear", "logistic"])
@pytest.mark.parametrize("place", [0, 17, 39])
@pytest.mark.parametrize("value", [0.5, -1e3, 1e200, np.inf, np.nan])
def test_one_record_moves_the_sum_by_twice_its_bound_at_most(family, place, value):
    records, table = of_forty(family)
    found, own = [sum_and_rows(records)], table[place].copy()
    table[place] = value
    found.append(sum_and_rows(records))
    table[place] = own
    totals, rows = zip(*found, strict=True)
    np.testing.assert_array_equal(*(np.delete(one, place) for one in rows))
    assert rows[0][place] != rows[1][place]
    assert totals[0] == int(totals[0]) and abs(totals[1] - totals[0]) <= 2 * GRID


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_table_of_another_width_is_not_read_beyond_its_end(width):
    """That would be memory of something else."""
    loop, column = fast_forms._loop(4), np.ones((4, 1))
    table = np.arange(8.0 * width).reshape(8, width)
    with pytest.raises(ValueError):
        loop(table, column)
    np.testing.assert_array_equal(loop(np.ones((8, 4)), column), np.full((8, 1), 4.0))
    np.testing.assert_array_equal(loop(np.asfortranarray(np.ones((8, 4))), column), np.full((8, 1), 4.0))
