"""Some rows at a time: taken from arrays, and added up by privacy unit."""

from collections.abc import Iterator
from typing import Any

import numba
import numpy as np


@numba.njit(cache=True)
def _gather_rows(table, index):
    rows, columns = index.size, table.shape[1]
    # Ask for both ends of every row first: these loads do not wait for each other, and a random row of a
    # large table is not in the cache.
    touched = table[0, 0] * 0
    for k in range(rows):
        touched += table[index[k], 0] + table[index[k], columns - 1]
    out = np.empty((rows, columns), table.dtype)
    for k in range(rows):
        i = index[k]
        for j in range(columns):
            out[k, j] = table[i, j]
    return out, touched


def gather(table: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray:
    """Entries `index` of a data array along `axis`; positions are valid."""
    simple = (
        table.ndim == 2
        and axis == 0
        and table.size
        and table.dtype.kind in "fiu"
        and table.flags.c_contiguous
    )
    return _gather_rows(table, index)[0] if simple else np.take(table, index, axis=axis)


def part_of(values: np.ndarray, rows: slice | np.ndarray, axis: int) -> np.ndarray:
    """Some rows, in the memory layout that functions are compiled for."""
    if not isinstance(rows, slice):
        return gather(values, rows, axis)
    part = values[(slice(None),) * axis + (rows,)]
    return part if part.flags.c_contiguous and part.flags.writeable else np.array(part, order="C")


def sums(rows: np.ndarray, first: np.ndarray | None) -> np.ndarray:
    """Sum the rows of each unit, from the first to the last.

    Parameters
    ----------
    rows : ndarray, shape (b, ...)
        Sorted by unit.
    first : ndarray of int, shape (k,), or None
        Position of each unit's first row, increasing; None when each row is a unit.

    Returns
    -------
    ndarray, shape (k, ...)
        NaN and infinities are left in, and no warning tells of them.
    """
    if first is None or not first.size:
        return rows
    flat = np.ascontiguousarray(rows, dtype=np.float64).reshape(len(rows), -1)
    return _sums(flat, first).reshape(first.size, *rows.shape[1:])


@numba.njit(cache=True)
def _sums(rows, first):
    out = np.zeros((first.size, rows.shape[1]))
    for unit in range(first.size):
        for i in range(first[unit], first[unit + 1] if unit + 1 < first.size else rows.shape[0]):
            for j in range(rows.shape[1]):
                out[unit, j] += rows[i, j]
    return out


def chunks_of(
    number: int, most: int, rows: np.ndarray | None, starts: np.ndarray | None
) -> Iterator[tuple[slice, Any, np.ndarray | None]]:
    """Units, their rows, and where the rows of each begin: as many as stay in the cache.

    Parameters
    ----------
    number : int
        Of rows.
    most : int
        Rows at once, but for a unit that has more by itself.
    rows : ndarray of int, or None
        Which rows, by unit; None for all, in their order.
    starts : ndarray of int, or None
        Where in `rows` those of each unit begin, and where the last end; None: each row is a unit.
    """
    most = max(most // 4 * 4, 64)
    if rows is None or starts is None:
        for start in range(0, number, most):
            units = slice(start, min(start + most, number))
            yield units, units if rows is None else rows[units], None
        return
    unit = 0
    while unit < starts.size - 1:
        last = max(int(np.searchsorted(starts, starts[unit] + most, side="right")) - 1, unit + 1)
        yield slice(unit, last), rows[starts[unit] : starts[last]], starts[unit:last] - starts[unit]
        unit = last
