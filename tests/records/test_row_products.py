"""Loops in the place of a library's products: the same numbers, a record's from its own row alone."""

import functools
from operator import call

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.tensor.blas import Dot22, Dot22Scalar, Gemm, Gemv
from pytensor.tensor.blas.batched import BatchedDot
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot

from pymc_dp.likelihood.comparisons import SCORE_GRID, Bounds
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import gate, graph
from pymc_dp.records.model import RecordModel
from pymc_dp.records.row_products import ColumnsSolved, RowProduct, multiply
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


@pytest.mark.parametrize("linker", ["py", "vm", "cvm", "numba"])
@pytest.mark.parametrize("d", [2, 40])
def test_no_librarys_product_is_left(linker, d):
    mode = Mode(linker, optimizer="fast_run")
    x, k = pt.matrix("x", shape=(None, d)), pt.tensor3("k")
    b, m = pt.vector("b", shape=(d,)), pt.matrix("m", shape=(d, 3))
    outputs = [x @ b, b @ x.T, x @ m, 2 * (x @ m) + 1, k @ k.mT, k @ m]
    found = gate.compile_graph([x, k, b, m], outputs, private=[x, k], mode=mode)
    ops = [core_of(node.op) for node in found.maker.fgraph.toposort()]
    assert sum(isinstance(op, RowProduct) for op in ops) == 4
    assert not any(isinstance(op, Dot | BatchedDot | Gemv | Gemm | Dot22 | Dot22Scalar) for op in ops)
    r = np.random.default_rng(0)
    given = [r.normal(size=size) for size in [(6, d), (2, 5, d), d, (d, 3)]]
    x, k, b, m = given
    expected = [x @ b, x @ b, x @ m, 2 * (x @ m) + 1, k @ k.swapaxes(1, 2), k @ m]
    for one, other in zip(found(*given), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def core_of(op):
    return getattr(op, "core_op", op)


def cancelling(n, width):
    """One row n times, whose numbers are large and add up to almost nothing."""
    row = np.random.default_rng(width).normal(size=width) * 1e16
    row[-1] = -row[:-1].sum()
    return np.repeat(row[None], n, axis=0)


LAYOUTS = [
    np.ascontiguousarray,
    np.asfortranarray,
    lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    lambda a: a[::-1].copy()[::-1],
]


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 7, 20])
def test_a_row_is_multiplied_alike_wherever_it_stands(columns):
    """By no bit otherwise: shuffled, dropped, among few or many, in any layout; as a row or as a column."""
    r = np.random.default_rng(columns)
    for width in range(1, 71):
        matrix = r.normal(size=(width, columns))
        table = r.normal(size=(300, width)) * 10.0 ** r.uniform(-8, 8, size=(300, width))
        whole = multiply(table, matrix)
        np.testing.assert_allclose(whole, table @ matrix, rtol=1e-9, atol=1e-12 * np.abs(table).max())
        order = r.permutation(300)
        for rows in (order, slice(1, None), slice(298, None), slice(0, 1), np.arange(257)):
            for layout in LAYOUTS if width in (5, 20) else LAYOUTS[:1]:
                np.testing.assert_array_equal(multiply(layout(table[rows]), matrix), whole[rows])
                np.testing.assert_array_equal(multiply(matrix.T, layout(table[rows]).T), whole[rows].T)
        same = multiply(cancelling(67, width), matrix)
        np.testing.assert_array_equal(same, np.broadcast_to(same[0], same.shape))


def test_a_librarys_product_is_not_alike():
    """The control: the test above would notice what OpenBLAS does."""
    products = [cancelling(67, width) @ np.ones(width) for width in range(1, 71)]
    if all(np.all(one == one[0]) for one in products):
        pytest.skip("this library's products do not depend on places")
    assert any(np.abs(one - one[0]).max() > 0.5 * np.abs(one).max() for one in products)


def declared(family, x):
    """One row after the other is the same record."""
    y, width = np.zeros(len(x)), x.shape[1]
    if family == "softmax":
        pm.Categorical("y", logit_p=x @ pm.Normal("b", 0, 1, shape=(width, 3)), observed=y.astype(int))
    elif family == "correlated":
        chol = pt.as_tensor(1e-8 * np.tril(np.random.default_rng(0).normal(size=(width, width))))
        pm.MvNormal("y", pm.Normal("b", shape=width), chol=chol + 0 * pm.Normal("s"), observed=x)
    elif family == "two sums":
        terms = [pm.Normal(f"b{k}") * pt.as_tensor(np.ascontiguousarray(x[:, k])) for k in range(2)]
        pm.Normal("y", terms[0] + terms[1], 1, observed=y)
    else:
        pm.Normal("y", x @ pm.Normal("b", 0, 1, shape=width), 1, observed=y)


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize(
    ("family", "width"), [("normal", 16), ("normal", 40), ("softmax", 4), ("correlated", 5), ("two sums", 2)]
)
@pytest.mark.parametrize("mode", [{}, NUMBA], ids=["py", "numba"])
def test_one_record_has_the_same_scores_at_any_place(family, width, persons, mode):
    """Also where persons are: PyTensor's own fast mathematics fails it with two terms that cancel."""
    for n in (65, 66, 67):
        with pm.Model() as model:
            declared(family, cancelling(n, width))
        records = RecordModel(model, compile_kwargs=mode, privacy_unit=np.arange(n) if persons else None)
        point = np.full(records.d, 1 / 3)
        found = [
            term.own for chunk in map(call, records.twins(point, 0, PrivacyRandom(1))) for term in chunk.terms
        ]
        for scores in (*found, records.full_batch.rows(point)):
            np.testing.assert_array_equal(scores, np.broadcast_to(scores[0], scores.shape))


def test_a_record_that_leaves_takes_with_it_what_it_may_add():
    """Under add_remove others move by one place: with a library's product the score moved by 3 C."""
    scores = []
    for n in (65, 66):
        with pm.Model() as model:
            declared("normal", cancelling(n, 16))
        records = RecordModel(model, neighboring_relation="add_remove")
        here = RecordsHere(records.twins, PrivacyRandom(1))
        scores.append(here.compare(np.ones(16), 1e-17 * np.eye(16), Bounds(1.0, 1.0), 0).score / SCORE_GRID)
    assert 0 < np.linalg.norm(scores[0] - scores[1]) <= 1


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


@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_table_of_another_width_is_not_read_beyond_its_end(width):
    """That would be memory of something else."""
    with pytest.raises(ValueError, match="shapes"):
        multiply(np.ones((8, width)), np.ones((4, 1)))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", ["triangular", "unit", "Cholesky"])
@pytest.mark.parametrize("linker", ["py", "numba"])
def test_a_column_is_solved_alike_wherever_it_stands(lower, kind, linker):
    """And as LAPACK solves it; a matrix that has no inverse gives no number."""
    r = np.random.default_rng(0)
    a, b = pt.matrix("a"), pt.matrix("b")
    solver = SolveTriangular(lower=lower, unit_diagonal=kind == "unit", b_ndim=2)
    out = (CholeskySolve(lower=lower, b_ndim=2) if kind == "Cholesky" else solver)(a, b)
    found = gate.compile_graph([a, b], out, private=[b], mode=Mode(linker))
    assert any(isinstance(node.op, ColumnsSolved) for node in found.maker.fgraph.toposort())
    for k in (1, 2, 5):
        whole, right = r.normal(size=(k, k)) + 3 * np.eye(k), r.normal(size=(k, 67))
        used = np.tril(whole) if lower else np.triu(whole)
        if kind == "unit":
            np.fill_diagonal(used, 1.0)
        matrix = (used @ used.T if lower else used.T @ used) if kind == "Cholesky" else used
        solved = found(whole, right)
        np.testing.assert_allclose(matrix @ solved, right, rtol=1e-9, atol=1e-9)
        for columns in (r.permutation(67), slice(1, None), slice(66, None)):
            np.testing.assert_array_equal(found(whole, right[:, columns]), solved[:, columns])
        if kind != "unit":
            assert np.all(np.isnan(found(np.zeros((k, k)), right)[-1 if lower and kind != "Cholesky" else 0]))
    with pytest.raises(ValueError, match="shapes"):
        found(np.eye(3), np.ones((4, 5)))


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "bool"])
def test_numbers_of_other_types(dtype):
    table = np.random.default_rng(0).integers(0, 2, (40, 6)).astype(dtype)
    np.testing.assert_array_equal(multiply(table, np.arange(6.0)[:, None])[:, 0], table @ np.arange(6.0))
