"""What one row can do to each exact sum, whatever stands in it."""

import itertools
import math

import numpy as np
import pytest

from pymc_dp.prepare import cells
from pymc_dp.prepare.grid import OCTAVE_EDGES
from pymc_dp.prepare.releases import (
    GRID,
    histogram,
    histogram_sensitivity,
    level_counts,
    moments,
    moments_sensitivity,
    named_counts,
)

ANYTHING = [
    *(0, 1, -1, 0.5, -0.0, True, 3.7, 1e-320, 2**63, 10**400, -(10**400), 1e308, -1e308),
    *(math.nan, math.inf, -math.inf, np.float32(2.5), np.int8(-7), np.datetime64("2020-01-01"), np.ma.masked),
    *("", "a", "b", "3.7", "nan", "inf", "x" * 100_000, "\0", "\ud800", b"bytes"),
    *(None, [1, 2], {"a": 1}, object(), 1j, Exception("secret")),
]


def column(*cells_):
    out = np.empty(len(cells_), dtype=object)
    for k, cell in enumerate(cells_):
        out[k] = cell
    return out


SUMS = {
    "octaves": lambda c: histogram(cells.numbers_of(c), OCTAVE_EDGES),
    "cells": lambda c: histogram(cells.numbers_of(c), np.array([-3.0, 0.0, 0.5, 4.0])),
    "bool": lambda c: histogram(cells.truths_of(c), np.array([-0.5, 0.5, 1.5])),
    "named": lambda c: named_counts(cells.levels_of(c), ("a", "3.7")),
    "moments": lambda c: moments(cells.numbers_of(c), -1.0, 4.0),
}
OTHERS = (0.3, "a", 2.0, None, "b")


def bound(name, relation):
    return moments_sensitivity() if name == "moments" else histogram_sensitivity(relation)


@pytest.mark.parametrize("name", SUMS)
def test_one_row_moves_a_sum_by_no_more_than_is_stated(name):
    summed = SUMS[name]
    alone = [summed(column(*OTHERS, cell)).astype(float) for cell in ANYTHING]
    without = summed(column(*OTHERS)).astype(float)
    replaced = max(np.linalg.norm(a - b) for a, b in itertools.combinations(alone, 2))
    added = max(np.linalg.norm(a - without) for a in alone)
    assert replaced <= bound(name, "substitute") and added <= bound(name, "add_remove")
    assert added >= 0.99 * bound(name, "add_remove")  # and the bound is not idle


def test_moments_of_any_two_numbers():
    """The bound is met by the ends of the interval, by a number and a missing one, and by no other pair."""
    z = np.linspace(-1, 1, 201)
    rows = np.array([moments(np.array([x]), -1, 1) for x in [*z, math.nan, 9.0, -9.0]], dtype=float)
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert 1.9999 * GRID < distances.max() <= moments_sensitivity()
    assert distances[0, 201] > 1.9999 * GRID  # -1 against missing
    assert distances[100, 101:].max() < 1.75 * GRID  # from the middle


def test_an_unclipped_moment_would_be_noticed():
    """Control: without the clip the same pair is further apart than is stated."""
    far = np.array([GRID, 9.0 * GRID, math.sqrt(2) * 81 * GRID])
    assert np.linalg.norm(far - moments(np.array([0.0]), -1, 1)) > moments_sensitivity()


def test_levels_of_a_row_are_one_cell():
    for cell, other in itertools.product(ANYTHING, repeat=2):
        one, two = (level_counts(cells.levels_of(column(*OTHERS, c))) for c in (cell, other))
        moved = {k: one.get(k, 0) - two.get(k, 0) for k in one | two}
        assert sum(abs(d) for d in moved.values()) in (0, 2) and max(map(abs, moved.values())) <= 1


def test_a_cell_is_read_by_itself():
    """Neither its neighbours nor the storage type that they lead to change what a cell says."""
    for read in (cells.numbers_of, cells.truths_of, cells.levels_of):
        whole = read(column(*ANYTHING))
        single = [read(column(cell))[0] for cell in ANYTHING]
        np.testing.assert_equal(list(whole), single)
    assert cells.levels_of(column("x" * 201, "", "NaT", math.nan, "x" * 200)) == [None] * 4 + ["x" * 200]
    plain = np.array([1, 0, 3, 2**60 + 1])
    for typed in (plain, plain.astype(float), plain.astype(object), plain.astype(str).astype(object)):
        np.testing.assert_equal(cells.numbers_of(typed), plain.astype(float))
        np.testing.assert_equal(cells.truths_of(typed), [1, 0, np.nan, np.nan])
    for typed in (plain, plain.astype(float), plain.astype(object)):
        assert cells.levels_of(typed) == ["1", "0", "3", str(2**60)]
