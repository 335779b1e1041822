"""Exact sums of clipped vectors, one a record, that are kept in whatever form is smallest.

A chunk of vectors is a list of *blocks*, each with columns of its own (no column is in two blocks).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numba
import numpy as np

# A clipped coordinate is a multiple of the grid step, a power of two; the clip bound is 2**23 to 2**24 steps. A
# sum of up to 2**29 such coordinates is exact in float64, in any order.
_BITS = 24
LARGEST_N = 2**29
# Clip bounds whose grid steps, and their reciprocals, are ordinary float64 numbers.
SMALLEST_BOUND, LARGEST_BOUND = 1e-100, 1e100
# Relative room for the rounding errors of a norm of up to 2**20 squares and of its scaling (2**-53 each).
_ROOM = 1.0 - 2.0**-30


class Block(Protocol):
    """Some columns of the vectors of m records."""

    def add_squares(self, squares: np.ndarray, scale: float) -> None:
        """Add the squared norms of these columns times `scale` to `squares`, shape (m,)."""

    def add_rounded(self, weights: np.ndarray, total: np.ndarray) -> None:
        """Add the weighted columns, rounded to integers, to `total`, shape (d,); weight 0 leaves a record out."""

    def put(self, out: np.ndarray) -> None:
        """Write the columns into `out`, shape (m, d)."""


class Clip:
    """Euclidean clipping on a grid.

    Parameters
    ----------
    bound : float
        b.
    d : int
        Length of the vectors.

    Attributes
    ----------
    step : float
        The grid: ``2**(e - 24)`` for b in ``[2**(e - 1), 2**e)``.

    Raises
    ------
    ValueError
        b is not a number between 1e-100 and 1e100; d is over 2**20.

    Notes
    -----
    **Privacy.** A vector adds ``round(v min(1, b' / |v|) / step) step`` with ``b' = (1 - 2**-30) (b - sqrt(d) step
    / 2)``. Rounding to the nearest grid point moves each coordinate by at most half a step, the vector by at most
    ``sqrt(d) step / 2``; the first factor covers the rounding errors of the norm. What is added therefore has
    Euclidean norm at most b in exact arithmetic, and the sum moves by at most 2b when a record is replaced and by
    b when one is added or removed, in floating point as in theory. A vector whose norm is not a finite float64 adds
    zero.
    """

    def __init__(self, bound: float, d: int):
        if not SMALLEST_BOUND <= bound <= LARGEST_BOUND:
            raise ValueError(f"clip_bound must lie between 1e-100 and 1e100, got {bound!r}.")
        if d > 2**20:
            raise ValueError(
                f"more than 2**20 parameters ({d}): the rounding errors of a norm are not covered."
            )
        self.step = math.ldexp(1.0, math.frexp(bound)[1] - _BITS)
        self._steps = _ROOM * (bound / self.step - math.sqrt(d) / 2)

    def add(self, blocks: Sequence[Block], m: int, total: np.ndarray) -> int:
        """Clip m vectors and add them.

        Parameters
        ----------
        blocks : sequence of Block
        m : int
        total : ndarray, shape (d,)
            In grid steps: integers. Changed in place.

        Returns
        -------
        int
            How many were longer than the bound, or not finite.
        """
        weights = np.zeros(m)
        for block in blocks:
            block.add_squares(weights, 1.0 / self.step)
        clipped = _to_weights(weights, 1.0 / self.step, self._steps)
        for block in blocks:
            block.add_rounded(weights, total)
        return clipped


class Dense(NamedTuple):
    """Numbers as they are.

    Attributes
    ----------
    columns : ndarray of int, shape (p,)
    values : ndarray, shape (m, p)
    """

    columns: np.ndarray
    values: np.ndarray

    def add_squares(self, squares: np.ndarray, scale: float) -> None:
        """See `Block`."""
        _squares_dense(self.values, scale, squares)

    def add_rounded(self, weights: np.ndarray, total: np.ndarray) -> None:
        """See `Block`."""
        part = np.zeros(self.columns.size)
        _rounded_dense(self.values, weights, part)
        total[self.columns] += part

    def put(self, out: np.ndarray) -> None:
        """See `Block`."""
        out[:, self.columns] = self.values


class Scaled(NamedTuple):
    """Rows of a table, each times a number: the gradient of a regression.

    Attributes
    ----------
    start : int
        First column.
    table : ndarray, shape (m, p)
    factor : ndarray, shape (m,)
    """

    start: int
    table: np.ndarray
    factor: np.ndarray

    def add_squares(self, squares: np.ndarray, scale: float) -> None:
        """See `Block`."""
        _squares_scaled(self.table, self.factor, scale, squares)

    def add_rounded(self, weights: np.ndarray, total: np.ndarray) -> None:
        """See `Block`."""
        _rounded_scaled(
            self.table, self.factor, weights, total[self.start : self.start + self.table.shape[1]]
        )

    def put(self, out: np.ndarray) -> None:
        """See `Block`."""
        with np.errstate(all="ignore"):
            np.multiply(
                self.table,
                self.factor[:, None],
                out=out[:, self.start : self.start + self.table.shape[1]],
            )


class Sparse(NamedTuple):
    """A few numbers a record, each in the column that the record says: the gradient of group effects.

    Attributes
    ----------
    start, size : int
        First column, and how many there are.
    positions : ndarray of int, shape (m, q)
        Columns, counted from `start`. A position outside makes the vector not a number.
    values : ndarray, shape (m, q)
    """

    start: int
    size: int
    positions: np.ndarray
    values: np.ndarray

    def add_squares(self, squares: np.ndarray, scale: float) -> None:
        """See `Block`."""
        _squares_sparse(self.positions, self.values, self.size, scale, squares)

    def add_rounded(self, weights: np.ndarray, total: np.ndarray) -> None:
        """See `Block`."""
        _rounded_sparse(self.positions, self.values, weights, total[self.start : self.start + self.size])

    def put(self, out: np.ndarray) -> None:
        """See `Block`."""
        part = out[:, self.start : self.start + self.size]
        part[:] = 0.0
        add_looked_up(self.positions, self.values, *identity(self.size), part)


class Jacobian(NamedTuple):
    """Sparse rows: derivatives of p numbers with respect to some columns.

    Attributes
    ----------
    first : ndarray of int, shape (p + 1,)
    columns : ndarray of int
    values : ndarray
        Row k has ``values[first[k]:first[k + 1]]`` in ``columns[first[k]:first[k + 1]]``.
    """

    first: np.ndarray
    columns: np.ndarray
    values: np.ndarray


def identity(size: int, columns: np.ndarray | None = None) -> Jacobian:
    """Of numbers that are columns themselves."""
    return Jacobian(
        np.arange(size + 1), np.arange(size) if columns is None else columns, np.ones(size, dtype=np.float64)
    )


def sparse(dense: np.ndarray, columns: np.ndarray) -> Jacobian:
    """The nonzero entries of a matrix, whose columns are called `columns`."""
    row, column = np.nonzero(dense)
    first = np.searchsorted(row, np.arange(dense.shape[0] + 1))
    return Jacobian(first, columns[column], dense[row, column])


@numba.njit(cache=True, error_model="numpy")
def _to_weights(squares, scale, steps):
    """From squared norms, in grid steps, to factors into grid steps; how many are below `scale`."""
    clipped = 0
    for i in range(squares.size):
        square = squares[i]
        inside = square <= steps * steps
        shorter = scale * steps / np.sqrt(square)
        squares[i] = scale if inside else (shorter if square < np.inf else 0.0)
        clipped += not inside
    return clipped


# Sums of squares may be added in any order: the room in `Clip` covers it. Nothing else may be reordered.
@numba.njit(cache=True, fastmath={"reassoc", "contract"})
def _square(row, scale):
    square = 0.0
    for j in range(row.size):
        square += (row[j] * scale) * (row[j] * scale)
    return square


@numba.njit(cache=True)
def _squares_dense(values, scale, squares):
    for i in range(values.shape[0]):
        squares[i] += _square(values[i], scale)


@numba.njit(cache=True)
def _squares_scaled(table, factor, scale, squares):
    for i in range(table.shape[0]):
        squares[i] += _square(table[i], factor[i] * scale)


@numba.njit(cache=True)
def _squares_sparse(positions, values, size, scale, squares):
    for i in range(positions.shape[0]):
        for k in range(positions.shape[1]):
            if not 0 <= positions[i, k] < size:
                squares[i] = np.nan
                continue
            for before in range(k):  # the same column twice: one number
                if positions[i, before] == positions[i, k]:
                    values[i, before] += values[i, k]
                    values[i, k] = 0.0
                    break
        squares[i] += _square(values[i], scale)


# Sums of integers are exact in any order.
@numba.njit(cache=True, fastmath={"reassoc"})
def _rounded_column(values, weights):
    total = 0.0
    for i in range(values.size):
        total += np.rint(values[i] * weights[i]) if weights[i] != 0.0 else 0.0
    return total


@numba.njit(cache=True)
def _rounded_dense(values, weights, total):
    if values.shape[1] < 3:
        for j in range(values.shape[1]):
            total[j] += _rounded_column(values[:, j], weights)
        return
    for i in range(values.shape[0]):
        if weights[i] != 0.0:
            for j in range(values.shape[1]):
                total[j] += np.rint(values[i, j] * weights[i])


@numba.njit(cache=True)
def _rounded_scaled(table, factor, weights, total):
    for i in range(table.shape[0]):
        if weights[i] != 0.0:
            weight = factor[i] * weights[i]
            for j in range(table.shape[1]):
                total[j] += np.rint(table[i, j] * weight)


@numba.njit(cache=True)
def _rounded_sparse(positions, values, weights, total):
    for i in range(positions.shape[0]):
        if weights[i] != 0.0:
            for k in range(positions.shape[1]):
                total[positions[i, k]] += np.rint(values[i, k] * weights[i])


@numba.njit(cache=True)
def add_values(values, first, columns, derivatives, out):
    """``out += values @ Jacobian``."""
    for i in range(values.shape[0]):
        for k in range(values.shape[1]):
            for j in range(first[k], first[k + 1]):
                out[i, columns[j]] += values[i, k] * derivatives[j]


@numba.njit(cache=True)
def add_looked_up(positions, values, first, columns, derivatives, out):
    """Add ``values[i, k]`` times the Jacobian's row ``positions[i, k]``; NaN where there is no such row."""
    for i in range(positions.shape[0]):
        for k in range(positions.shape[1]):
            row = positions[i, k]
            if not 0 <= row < first.size - 1:
                out[i] = np.nan
                continue
            for j in range(first[row], first[row + 1]):
                out[i, columns[j]] += values[i, k] * derivatives[j]


@numba.njit(cache=True)
def add_rows(values, ends, out):
    """Sums of consecutive rows, each strictly from the first to the last: sum k ends before row ``ends[k]``.

    `out`, shape (groups, d), may hold the beginning of the first.
    """
    group = 0
    for i in range(values.shape[0]):
        while i >= ends[group]:
            group += 1
        for j in range(values.shape[1]):
            out[group, j] += values[i, j]
