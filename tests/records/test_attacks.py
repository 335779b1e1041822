"""What somebody found who tried to break the record layer; each was accepted once."""

from operator import call

import numpy as np
import pymc as pm
import pytensor.sparse
import pytensor.tensor as pt
import pytest
import scipy.sparse
from pytensor.tensor.extra_ops import Repeat

import pymc_dp as dp
from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel

N = 40
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 3)), RNG.normal(size=N)


@pytest.mark.parametrize("outcome", [False, True])
def test_how_full_one_row_of_a_sparse_design_is_moves_no_other(outcome):
    """NumPy adds up to seven numbers in their order, and more in groups: of these only rounding is left.

    Arrays as wide as the fullest row made one record decide how all others were rounded, and, since made-up
    rows have the same shapes, whether a model was refused.
    """
    scores, shapes = [], []
    for entries in (7, 8):
        S = np.tile([1e17, 7, 7, 7, 7, 7, -1e17, 0.0], (N, 1))
        S[0] = np.arange(8) < entries
        design = pytensor.sparse.as_sparse_variable(scipy.sparse.csr_matrix(S))
        with pm.Model() as model:
            b = pm.Normal("b")
            total = pytensor.sparse.dot(design, (pt.ones((8, 1)) if outcome else pt.ones((8, 1)) * b))[:, 0]
            if outcome:
                pm.Normal("y", b * X[:, 0], 10, observed=total)
            else:
                pm.Normal("y", total, 1, observed=Y)
        records = RecordModel(model)
        (chunk,) = map(call, records.twins(np.zeros(1), 2, PrivacyRandom(debug_seed=1)))
        scores.append(chunk.terms[0].own)
        shapes.append([root.get_value(borrow=True).shape for root in records._roots])
    np.testing.assert_array_equal(scores[0][1:], scores[1][1:])
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("codes", [[5], [-1], [12], [5, 10, 15, 20], [10**6], [2**31 - 1], [-(2**31)]])
def test_a_column_of_a_sparse_design_that_is_out_of_range_is_of_no_other_row(codes):
    """One-hot rows of codes with -1 for a missing one: SciPy writes such an entry into another row."""
    classes, seven = 5, 7

    def design(columns):
        indices = [[i % classes] if i != seven else columns for i in range(N)]
        ends = np.cumsum([0, *map(len, indices)])
        flat = np.concatenate(indices)
        return scipy.sparse.csr_matrix((np.ones(len(flat)), flat, ends), shape=(N, classes))

    def rows(columns):
        with pm.Model() as model:
            b = pm.Normal("b", shape=(classes, 1))
            pm.Normal("y", pytensor.sparse.dot(design(columns), b)[:, 0], 1, observed=Y)
        return RecordModel(model).full_batch.rows(np.arange(1.0, classes + 1))

    right, found = rows([seven % classes]), rows(codes)
    np.testing.assert_array_equal(np.delete(found, seven), np.delete(right, seven))
    assert np.all(np.isfinite(right)) and not np.isfinite(found[seven])
    if max(map(abs, codes)) < N:  # control, where it does not end the process
        moved = np.any(design(codes).toarray() != design([seven % classes]).toarray(), axis=1)
        assert np.delete(moved, seven).any()


def test_how_full_one_row_of_a_sparse_design_is_decides_nothing():
    said = []
    for words in (5, 60):
        S = np.tile(np.arange(60) < 5, (N, 1)).astype(float)
        S[0, :words] = 1.0
        with pm.Model() as model:
            b = pm.HalfNormal("b", shape=(60, 1))
            p = pm.math.invprobit(pytensor.sparse.dot(scipy.sparse.csr_matrix(S), b)[:, 0])
            pm.Bernoulli("y", p, observed=Y > 0)
        said.append(str(dp.inspect(model)))
    assert said[0] == said[1] and said[0].startswith("accepted") and "Refused" not in said[0]


@pytest.mark.parametrize("entry", [0.0, 1.0])
@pytest.mark.parametrize("same_starts", [False, True])
def test_how_many_entries_sparse_designs_store_does_not_decide_whether_they_share_memory(entry, same_starts):
    S = scipy.sparse.lil_matrix((N, 3))
    S[7, 1] = entry
    one = S.tocsr()
    two = scipy.sparse.csr_matrix(
        (one.data, one.indices, one.indptr.copy()) if same_starts else one, shape=S.shape
    )
    with pm.Model() as model:
        b, c = pm.Normal("b", shape=(3, 1)), pm.Normal("c", shape=(3, 1))
        means, scales = (
            pytensor.sparse.dot(pytensor.shared(X, borrow=True), by)[:, 0] for X, by in ((one, b), (two, c))
        )
        pm.Normal("y", means, pm.math.exp(scales), observed=Y)
    with pytest.raises(ModelRefusedError, match="views of one array"):
        RecordModel(model)


def test_sparse_designs_of_their_own_are_taken():
    one = scipy.sparse.csr_matrix(np.round(X))
    with pm.Model() as model:
        b = pm.Normal("b", shape=(3, 1))
        pm.Normal("y", sum(pytensor.sparse.dot(d, b)[:, 0] for d in (one, one, one.copy())), observed=Y)
    assert RecordModel(model).n == N


def test_memory_that_was_not_written_is_not_public():
    with pm.Model() as model:
        b = pm.Normal("b")
        pm.Deterministic("e", pt.basic.empty((7,)) + 0 * b)
        pm.Normal("y", b, 1, observed=Y)
    records = RecordModel(model)
    assert records.released_variables == ["b"] and "not written" in records.reading.left_out["e"].why


def test_memory_that_was_not_written_is_not_written_by_itself():
    with pm.Model() as model:
        b, empty = pm.Normal("b"), pt.basic.empty((7,))
        e = pt.set_subtensor(pt.set_subtensor(pt.zeros(7)[0], empty[0])[1:], empty[1:])
        pm.Deterministic("e", e + b)
        pm.Normal("y", b, 1, observed=Y)
    records = RecordModel(model)
    assert records.released_variables == ["b"] and "not written" in records.reading.left_out["e"].why


def chosen(n, a, c):
    return pt.switch(n >= N, a, c)


NUMBER_AS_ARGUMENT = {
    "index": lambda x, n: x[:, chosen(n, 0, 1)],
    "slice": lambda x, n: x[:, : chosen(n, 2, 1)].sum(1),
    "indices": lambda x, n: x[:, pt.stack([chosen(n, 0, 1), 0])].sum(1),
    "written": lambda x, n: pt.set_subtensor(x[:, chosen(n, 0, 1)], 5.0).sum(1),
    "repeats": lambda x, n: Repeat(axis=1)(x[:, :1], pt.stack([chosen(n, 2, 1)])).sum(1),
    "split": lambda x, n: pt.split(x, pt.stack([chosen(n, 1, 2), chosen(n, 2, 1)]), n_splits=2, axis=1)[
        0
    ].sum(1),
}


@pytest.mark.parametrize("name", NUMBER_AS_ARGUMENT)
def test_a_private_number_of_records_is_no_public_argument(name):
    with pm.Model() as model:
        x, y = pm.Data("x", X), pm.Data("data", Y)
        pm.Normal("y", NUMBER_AS_ARGUMENT[name](x, x.shape[0]) * pm.Normal("b"), 1, observed=y)
    assert not dp.inspect(model, neighboring_relation="add_remove").accepted


def test_numbers_that_say_which_records_are_read_are_watched():
    with pm.Model() as model:
        start, stop = pm.Data("start", np.int64(0)), pm.Data("stop", np.int64(N))
        x = pm.Data("x", X)[pt.arange(start, stop), 0]
        pm.Normal("y", x * pm.Normal("b"), 1, observed=Y)
    try:
        records = RecordModel(model)
    except PrivacyError:
        return
    with model:
        pm.set_data({"start": np.int64(-1), "stop": np.int64(N - 1)})
    with pytest.raises(PrivacyError, match="changed"):
        records.check_data()


def test_how_many_records_there_are_is_not_a_value_of_one():
    with pm.Model() as model:
        data = pm.Data("data", np.arange(30.0, 30.0 + N))
        pm.Normal("y", pm.Normal("b"), 1, observed=data[: pt.cast(data[0], "int64")])
    with pytest.raises(ModelRefusedError, match="computed from their values") as caught:
        RecordModel(model)
    assert "30" not in str(caught.value)


def test_rows_by_position_are_refused():
    with pm.Model() as model:
        data = pm.Data("data", Y)
        pm.Normal("y", pm.Normal("b") * pt.arange(data.shape[0]), 1, observed=data)
    with pytest.raises(ModelRefusedError, match="by the place of a record"):
        RecordModel(model)


def test_the_variable_without_a_density_is_named():
    with pm.Model() as model:
        m = pm.Normal("m")

        def largest(m, size):
            return pt.max(pm.Normal.dist(m, 1, size=(3, N)), axis=0) ** 2 + pt.sin(m)

        pm.CustomDist("z", m, dist=largest, observed=Y)
    with pytest.raises(ModelRefusedError, match="observed variable 'z'"):
        RecordModel(model)
