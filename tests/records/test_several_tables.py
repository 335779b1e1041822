"""Observed variables of different lengths: several tables of records over the same parameters."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph
from pytensor.printing import debugprint

import pymc_dp as dp
from pymc_dp.errors import ModelRefusedError
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.several_tables import Tables, TablesTwins, read_records
from tests.records.derivatives import gradients_of

N, M = 60, 45
RNG = np.random.default_rng(0)
A, B, XA, XB = RNG.normal(size=N), RNG.normal(1, 2, M), RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3))
GA, GB = RNG.integers(0, 4, N), RNG.integers(0, 4, M)


def best(a=A, b=B):
    """As in PyMC's gallery."""
    m1, m2 = pm.Normal("group1_mean", 0, 4), pm.Normal("group2_mean", 0, 4)
    s1, s2 = pm.Uniform("group1_std", 0.1, 10), pm.Uniform("group2_std", 0.1, 10)
    nu = pm.Deterministic("nu", pm.Exponential("nu_minus_one", 1 / 29.0) + 1)
    pm.StudentT("group1", nu=nu, mu=m1, lam=s1**-2, observed=a)
    pm.StudentT("group2", nu=nu, mu=m2, lam=s2**-2, observed=b)
    pm.Deterministic("difference of means", m1 - m2)


def a_b_test(a=A, b=B):
    """Conversions as two arrays."""
    p = pm.Beta("p", 1, 1, shape=2)
    pm.Bernoulli("a", p[0], observed=(a > 0).astype(int))
    pm.Bernoulli("b", p[1], observed=(b > 0).astype(int))
    pm.Deterministic("lift", p[1] - p[0])


def two_surveys(a=A, b=B):
    """The same levels, and a Deterministic that reads the rows of one."""
    level = pm.Normal("mean") + pm.HalfNormal("tau") * pm.Normal("z", shape=4)
    pm.Normal("a", pm.Deterministic("mu", level[GA]), 1, observed=a)
    pm.Poisson("b", pm.math.exp(level[GB]), observed=np.abs(b).astype(int))


def model_of(declare, *arrays, **kwargs):
    with pm.Model(**kwargs) as model:
        declare(*arrays)
    return model


@pytest.mark.parametrize("declare", [best, a_b_test, two_surveys])
def test_rows_of_all_tables_and_the_prior_add_up_to_the_model(declare):
    model = model_of(declare)
    tables = read_records(model)
    assert isinstance(tables, Tables)
    assert (tables.n, [table.n for table in tables.tables]) == (N + M, [N, M])
    theta = tables.ravel(model.initial_point(0)) + RNG.normal(scale=0.3, size=tables.d)
    first = tables.tables[0]
    rows = [table.full_batch.rows(theta) for table in tables.tables]
    assert [len(of_one) for of_one in rows] == [N, M]
    total = model.compile_logp()(first.unravel(theta))
    np.testing.assert_allclose(sum(map(np.sum, rows)) + first.log_prior(theta), total)


@pytest.mark.parametrize(("declare", "size"), [(best, 5), (a_b_test, 2), (two_surveys, 4)])
def test_tables_have_the_same_coordinates(declare, size):
    """Their own, where these are the same; else the parameters."""
    tables = read_records(model_of(declare))
    theta = RNG.normal(scale=0.3, size=tables.d)
    found = [table.coordinates for table in tables.tables]
    assert [seen.size for seen in found] == [size, size] and tables.coordinates is found[0]
    np.testing.assert_array_equal(found[0](theta), found[1](theta))
    gradients = [gradients_of(table, table.coordinates(theta)).sum(axis=0) for table in tables.tables]
    rows = [table.full_batch.rows for table in tables.tables]
    slope = found[0].jacobian(theta).T @ sum(gradients)
    numerical = [
        (sum(r(theta + e).sum() - r(theta - e).sum() for r in rows)) / 2e-5 for e in 1e-5 * np.eye(tables.d)
    ]
    np.testing.assert_allclose(slope, numerical, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("declare", "lookups"),
    [(best, [[[0], [1]], [[2], [3]]]), (a_b_test, []), (two_surveys, [[[0], [1], [2], [3]]])],
)
def test_scores_of_all_tables_are_derivatives_of_the_likelihood(declare, lookups):
    """Also by parameters that a table does not read: zero."""
    tables = read_records(model_of(declare), verify=False)
    source = TablesTwins(tables)
    phi = 0.3 + 0.1 * np.arange(source.size)
    found = []
    for chunk in source(phi, 2, PrivacyRandom(debug_seed=1)):
        (term,) = chunk().terms
        rows = np.broadcast_to(term.rows(np.eye(source.size)), (*term.own.T.shape, source.size))
        found.append(np.einsum("mk,kmp->mp", term.own, rows))
    assert [len(scores) for scores in found] == [N, M]
    for table, scores in zip(tables.tables, found, strict=True):
        wanted = gradients_of(table, phi)
        np.testing.assert_allclose(scores, wanted, rtol=1e-9, atol=1e-9)
    assert [place.tolist() for place in source.lookups] == lookups
    assert source.touched == (3 if declare is best else 1)


def test_a_lookup_of_one_table_alone_is_none_if_another_reads_all():
    def declare(other):
        level = pm.Normal("level", shape=4)
        pm.Normal("a", level[GA], 1, observed=A)
        pm.Normal("b", other(level), 1, observed=B)

    found = []
    for other in (lambda level: level.sum(), lambda level: pm.Normal("c")):
        source = TablesTwins(read_records(model_of(declare, other), verify=False))
        found.append(([place.tolist() for place in source.lookups], source.size))
    assert found == [([], 4), ([[[0], [1], [2], [3]]], 5)]


def test_what_is_released_left_out_and_withheld():
    coords = {"first": np.arange(N) + 1000, "second": np.arange(M) + 2000}
    tables = read_records(model_of(two_surveys, coords=coords))
    assert tables.released_variables == ["mean", "tau", "z"] and list(tables.reading.left_out) == ["mu"]
    assert tables.withheld_dims == ["first", "second"]
    found = dp.inspect(model_of(two_surveys, coords=coords))
    assert found.accepted and (found.n, found.tables) == (N + M, [N, M])
    assert {v.name: v.role for v in found.variables} == {
        "mean": "sampled",
        "tau": "sampled",
        "z": "sampled",
        "mu": "left out",
        "a": "likelihood",
        "b": "likelihood",
    }
    assert {a.kind for a in found.arrays} == {"private rows"} and {a.axis for a in found.arrays} == {0}
    assert "2 tables (60, 45 rows, each number taken as public): a record is a row of one of them" in str(
        found
    )


def arrays_of_another():
    b = pm.Normal("b")
    pm.Normal("a", b * pt.mean(pm.Data("other", B)), 1, observed=A)
    pm.Normal("b_", b, 1, observed=B)


def outcome_of_another():
    b = pm.Normal("b")
    a = pm.Normal("a", b, 1, observed=A)
    pm.Normal("b_", b * a.mean(), 1, observed=B)


def looked_up_in_another():
    b = pm.Normal("b")
    pm.Normal("a", b * pt.constant(B)[GA], 1, observed=A)
    pm.Normal("b_", b, 1, observed=B)


def shape_of_another():
    b, other = pm.Normal("b"), pm.Data("other", B)
    pm.Normal("a", b * pt.sum(pt.zeros_like(other) + 1), 1, observed=A)
    pm.Normal("b_", b, 1, observed=B)


def pairs_of_both():
    b = pm.Normal("b")
    pairs = RNG.normal(size=(N, M))
    pm.Normal("a", b * pt.sum(pt.constant(pairs), axis=1), 1, observed=A)
    pm.Normal("b_", b, 1, observed=B)


def prior_of_another():
    b = pm.Normal("b", pt.mean(pt.constant(B)))
    pm.Normal("a", b, 1, observed=A)
    pm.Normal("b_", 0, pm.HalfNormal("s"), observed=B)


def potential_of_another():
    b = pm.Normal("b")
    pm.Potential("c", -b * pt.max(pt.constant(B)))
    pm.Normal("a", b, 1, observed=A)
    pm.Normal("b_", b, 1, observed=B)


def start_of_another():
    b = pm.Normal("b", initval=pt.mean(pt.constant(B)))
    pm.Normal("a", b, 1, observed=A)
    pm.Normal("b_", b, 1, observed=B)


def closure_of_another():
    def logp(value, m):
        return -((value - m * pt.mean(pt.constant(B))) ** 2)

    b = pm.Normal("b")
    pm.CustomDist("a", b, logp=logp, observed=A)
    pm.Normal("b_", b, 1, observed=B)


def inner_graph_of_another():
    b, u = pm.Normal("b"), pt.scalar()
    pm.Normal("a", OpFromGraph([u], [u * pt.constant(B)[0]])(b), 1, observed=A)
    pm.Normal("b_", b, 1, observed=B)


def effect_of_each_record_of_the_second():
    b = pm.Normal("b")
    pm.Normal("a", b, 1, observed=A)
    pm.Normal("b_", pm.Normal("z", shape=M), 1, observed=B)


def one_record_in_both():
    b, table = pm.Normal("b"), np.random.default_rng(1).normal(size=N + M)
    pm.Normal("a", b * pt.constant(table[:N]), 1, observed=A)
    pm.Normal("b_", b * pt.constant(table[N - 1 : N - 1 + M]), 1, observed=B)


def covariance_of_the_second():
    b = pm.Normal("b")
    pm.Normal("a", b, 1, observed=A)
    pm.Normal("b_", b * (pt.constant(XB) / pt.max(pt.constant(XB)))[:, 0], 1, observed=B)


REFUSED = {
    arrays_of_another: "'a' does not factorise.*of another table",
    outcome_of_another: "'b_' does not factorise.*of another table",
    looked_up_in_another: "'a' does not factorise.*of another table",
    shape_of_another: "'a' does not factorise.*of another table",
    pairs_of_both: "'a' does not factorise.*of another table",
    prior_of_another: "The prior of 'b' reads private records",
    potential_of_another: "Potential 'c' reads private records",
    start_of_another: "initial value of 'b' reads private records",
    closure_of_another: "is inside of an operation",
    inner_graph_of_another: "is inside of an operation",
    effect_of_each_record_of_the_second: "'z' has an entry for each record",
    one_record_in_both: "views of one array",
    covariance_of_the_second: "'b_' does not factorise.*`max` over the records",
}


@pytest.mark.parametrize("declare", REFUSED, ids=lambda f: f.__name__)
def test_what_one_table_reads_of_another_couples_records(declare):
    model = model_of(declare)
    with pytest.raises(ModelRefusedError, match=f"(?s){REFUSED[declare]}"):
        read_records(model)
    assert not dp.inspect(model).accepted


def test_private_numbers_of_records_are_refused():
    """With one record more or less, two tables would be read as one."""
    model = model_of(a_b_test)
    with pytest.raises(ModelRefusedError, match=r"add_remove.*different lengths"):
        read_records(model, neighboring_relation="add_remove")
    assert not dp.inspect(model, neighboring_relation="add_remove").accepted


def test_a_deterministic_of_the_other_table_is_left_out_in_both():
    def declare():
        b = pm.Normal("b")
        pm.Normal("a", b, 1, observed=A)
        pm.Normal("b_", b, 1, observed=B)
        pm.Deterministic("of_a", b * pt.mean(pt.constant(A)))
        pm.Deterministic("of_b", b * pt.mean(pt.constant(B)))

    tables = read_records(model_of(declare))
    assert [t.released_variables for t in tables.tables] == [["b"], ["b"]]
    assert [sorted(t.reading.left_out) for t in tables.tables] == [["of_a", "of_b"]] * 2


@pytest.mark.parametrize("declare", [best, a_b_test, two_surveys])
def test_other_values_read_the_same(declare):
    found = []
    for a, b in ((A, B), (np.zeros(N), np.full(M, 1e300)), (np.full(N, np.inf), np.zeros(M))):
        with np.errstate(all="ignore"):
            tables = Tables(model_of(declare, a, np.minimum(b, 1e6)), verify=False)
        found.append(
            [
                (debugprint(t._terms, file="str"), debugprint([t._log_prior], file="str"), t.coordinates.size)
                for t in tables.tables
            ]
        )
    assert found[0] == found[1] == found[2]


def test_equal_lengths_are_one_table():
    def declare():
        m = pm.Normal("m")
        pm.Normal("a", m, 1, observed=A[:M])
        pm.Normal("b", m, 1, observed=B)

    records = read_records(model_of(declare))
    assert isinstance(records, RecordModel) and records.n == M


def test_steps_take_one_table_and_ids_go_with_one():
    model = model_of(a_b_test)
    with pytest.raises(ModelRefusedError, match=r"different lengths(?s:.*)several tables"), model:
        dp.DPPenaltyMH(epsilon=1, delta=1e-6, lipschitz=1, chains=1)
    with pytest.raises(ModelRefusedError, match="2 tables, with 60, 45 rows"):
        read_records(model, privacy_unit=np.arange(N))
    found = dp.inspect(model, privacy_unit=np.arange(N))
    assert not found.accepted and "privacy_unit=" in str(found)
