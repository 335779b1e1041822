"""Whether arrays are views of the same memory; no entry is read."""

import math

import numpy as np


def _parts(array: object) -> list[np.ndarray]:
    """Return the arrays in which a dense or sparse matrix is stored."""
    if hasattr(array, "indptr"):
        return [array.data, array.indices]
    return [np.asarray(array)] if isinstance(array, np.ndarray) else []


def same(a: object, b: object) -> bool:
    """Return whether two arrays are one: the same memory, shape, strides and type."""
    if a is b:
        return True
    x, y = _parts(a), _parts(b)
    return len(x) == len(y) == 1 and x[0].size > 0 and _read_as(x[0]) == _read_as(y[0])


def _read_as(array: np.ndarray) -> tuple[int, object, object, object]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def shared(a: object, b: object) -> bool:
    """Return whether two arrays have an entry in common.

    How many entries a sparse matrix stores is private, so that an overlap of its entries must not decide: its
    memory counts as shared with all that has the same owner.
    """
    if hasattr(a, "indptr") or hasattr(b, "indptr"):
        return any(_owner(x) is _owner(y) for x in _parts(a) for y in _parts(b))
    return any(_overlap(x, y) for x in _parts(a) for y in _parts(b))


def overlapping(a: object, axis: int) -> bool:
    """Return whether records of an array share memory (windows, one record repeated)."""
    if not isinstance(a, np.ndarray):
        return False
    a, half = np.moveaxis(a, axis, 0), a.shape[axis] // 2
    return _overlap(a[:half], a[half:])


def shifted(a: object, b: object, axis_a: int, axis_b: int) -> bool:
    """Return whether two arrays are views of one table, shifted by some rows (``y[:-1]`` and ``y[1:]``).

    Of two parts of a table that have no row in common, no row stands in two records.

    Parameters
    ----------
    a, b : ndarray or sparse matrix
        Arrays with the same number of records.
    axis_a, axis_b : int
        Axes of the records.
    """
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return a is not b and shared(a, b)
    a, b = np.moveaxis(a, axis_a, 0), np.moveaxis(b, axis_b, 0)
    if same(a, b):
        return False
    half = len(a) // 2
    if _overlap(a[:half], b[half:]) or _overlap(a[half:], b[:half]):
        return True
    table = _table(a)
    if table is not _table(b) or table is a:
        return False
    (first, step, rows), other = _first(a, table), _first(b, table)
    begins = [min(start, start + (len(a) - 1) * np.sign(step)) for start in (first, other[0])]
    within = min(begins) >= 0 and max(begins) + len(a) <= rows
    apart = step == other[1] and within and abs(first - other[0]) >= len(a)
    return not apart and (first, step) != other[:2]


def _table(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _owner(array: np.ndarray) -> object:
    """Return what owns the memory of an array, which need not be an array."""
    table = _table(array)
    return table if table.base is None else table.base


def _first(array: np.ndarray, table: np.ndarray) -> tuple[int, int, float]:
    """Return the row of the table in which the first record is, the step between records, and all rows.

    Rows are counted in steps; in a flat view of a table records may go from one column to the next.
    """
    step = array.strides[0]
    offset = _read_as(array)[0] - _read_as(table)[0]
    larger = [abs(s) for s in table.strides if abs(s) > abs(step)]
    within = offset % min(larger) if larger else offset
    rows = min(larger) // max(abs(step), 1) if larger else math.inf
    return within // max(abs(step), 1), step, rows


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))
    except (np.exceptions.TooHardError, OverflowError):
        return True
