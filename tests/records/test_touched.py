"""Which coordinates no record sees together: read from the graph, never from codes."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_dp.records.model import RecordModel
from pymc_dp.records.touched import Lookup, seen_apart
from pymc_dp.records.twins import Twins

N = 40
CODE, OTHER = np.arange(N) % 4, np.arange(N) % 3
X = np.linspace(-1, 1, N)


def intercept_and_slope(a, b):
    return a[CODE] + b[CODE] * X


def by_two_arrays_of_codes(a, b):
    return a[CODE] + b[CODE.copy()] * X


def also_read_whole(a, b):
    return a[CODE] + b[CODE] * X + a.sum()


def one_by_computed_codes(a, b):
    return a[CODE] + b[(CODE * 2) % 4]


def one_table_by_two_codes(a, b):
    return a[CODE] + a[OTHER] + b[CODE]


@pytest.mark.parametrize(
    ("mu", "found"),
    [
        (intercept_and_slope, [[[0, 4], [1, 5], [2, 6], [3, 7]]]),
        # The same numbers in another place of the memory: whether they are the same is private.
        (by_two_arrays_of_codes, [[[0], [1], [2], [3]], [[4], [5], [6], [7]]]),
        (also_read_whole, []),
        # Codes that are computed outside of the graph are another array.
        (one_by_computed_codes, [[[0], [1], [2], [3]], [[4], [5], [6], [7]]]),
        (one_table_by_two_codes, []),
    ],
)
def test_look_ups(mu, found):
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=4), pm.Normal("b", shape=4)
        pm.Normal("y", mu(a, b), 1, observed=np.zeros(N))
    twins = Twins(RecordModel(model, verify=False))
    if mu is one_table_by_two_codes:
        assert all(0 not in rows for rows in twins.lookups)
    else:
        assert sorted(sorted(map(sorted, rows.tolist())) for rows in twins.lookups) == found


PAIRS = np.array([[0, 1], [2, 3], [0, 1], [2, 3], [1, 2], [0, 3]])


def test_records_that_see_several_numbers_of_a_table_see_any_of_them_together():
    """Said to be apart, they were taken for independent: two codes a record, pairs, computed codes."""

    def two_codes(a, b):
        return a[np.column_stack([CODE, OTHER])].sum(axis=1)

    def public_pairs(a, b):
        return a[pt.constant(PAIRS)[np.arange(N) % 6]].sum(axis=1)

    def computed(a, b):
        code = pm.Data("code", np.arange(N) % 16)
        return a[code % 4] + b[(code // 4 + code) % 4]

    for mu in (two_codes, public_pairs, computed):
        with pm.Model() as model:
            a, b = pm.Normal("a", shape=4), pm.Normal("b", shape=4)
            pm.Normal("y", mu(a, b), 1, observed=np.zeros(N))
        for rows in Twins(RecordModel(model, verify=False)).lookups:
            assert mu is computed and rows.shape == (4, 1)


def test_codes_may_hold_anything():
    """The structure is a function of the graph and of shapes: the codes themselves are not read."""
    found = []
    for codes in (CODE, np.zeros(N, dtype=int), np.full(N, 2**40), np.full(N, -1)):
        with pm.Model() as model:
            a, b = pm.Normal("a", shape=4), pm.Normal("b", shape=4)
            pm.Normal("y", a[codes] + b[codes], 1, observed=np.zeros(N))
        found.append([rows.tolist() for rows in Twins(RecordModel(model, verify=False)).lookups])
    assert found[0] and all(one == found[0] for one in found)


def test_rows_that_meet_are_no_rows():
    """Control: of rows that share a coordinate nothing is said, nor of coordinates that are read whole."""
    whole = np.zeros(6, dtype=bool)
    apart, meeting = np.array([[0, 1], [2, 3]]), np.array([[0, 1], [1, 2]])
    assert [rows.tolist() for rows in seen_apart([Lookup(None, apart)], whole)] == [apart.tolist()]
    assert seen_apart([Lookup(None, meeting)], whole) == []
    assert seen_apart([Lookup(None, apart), Lookup(None, meeting)], whole) == []
    whole[3] = True
    assert seen_apart([Lookup(None, apart)], whole) == []


def test_codes_below_zero_that_are_shifted_are_not_known():
    """Of codes from zero on alone a table would seem to begin at its third level."""
    with pm.Model() as model:
        a = pm.Normal("a", shape=6)
        pm.Normal("y", a[pm.Data("code", CODE - 2) + 2], 1, observed=np.zeros(N))
    (scores,) = Twins(RecordModel(model, verify=False))._scores
    assert [one.root for one in scores.lookups] == [None]
    with pm.Model() as model:  # control
        a = pm.Normal("a", shape=6)
        pm.Normal("y", a[pm.Data("code", CODE)], 1, observed=np.zeros(N))
    (scores,) = Twins(RecordModel(model, verify=False))._scores
    assert all(one.root is not None for one in scores.lookups) and len(scores.lookups) == 1
