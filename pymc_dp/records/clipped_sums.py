"""Exact sums of clipped vectors, one a record, which are stored in the smallest form.

A chunk of vectors is a list of *blocks*, each with columns of its own (no column is in two blocks).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pymc_dp.bounds import check_bound
from pymc_dp.records import kernels

# Most records. A clipped coordinate is a multiple of the grid step, a power of two; the clip bound is 2**23
# to 2**24 steps. A sum of up to 2**29 such coordinates is exact in float64, in any order.
LARGEST_N = 2**29


class Block(Protocol):
    """Some columns of the vectors of m records."""

    def add_squares(self, squares: np.ndarray, scale: float) -> None:
        """Add the squared norms of these columns times `scale` to `squares`, shape (m,)."""

    def add_rounded(self, weights: np.ndarray, total: np.ndarray) -> None:
        """Add the weighted columns, rounded to integers, to `total`, shape (d,); weight 0: nothing."""

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
    **Privacy.** A vector v adds ``round(v min(1, b' / |v|) / step) step`` with
    ``b' = (1 - 2**-30) (b - sqrt(d) step / 2)``. Rounding to the nearest grid point moves each coordinate by
    at most half a step, the vector by at most ``sqrt(d) step / 2``; the first factor covers the rounding
    errors of the norm and of the scaling. What is added therefore has Euclidean norm at most b, in exact
    arithmetic, and the sum moves by at most 2b when a record is replaced and by b when one is added or
    removed, in floating point as in theory. A vector that is not finite, or whose squared length in steps is
    not (from about 1e154 steps on), adds zero. (docs/proofs/hmc, section 3)
    """

    def __init__(self, bound: float, d: int):
        check_bound("clip_bound", bound)
        if d > 2**20:
            raise ValueError(
                f"more than 2**20 parameters ({d}): the rounding errors of a norm are not covered."
            )
        self.step = math.ldexp(1.0, math.frexp(bound)[1] - 24)
        # Room for the rounding errors of a norm of up to 2**20 squares and of its scaling (2**-53 each).
        room = 1.0 - 2.0**-30
        self._steps = room * (bound / self.step - math.sqrt(d) / 2)

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
            Number of vectors that were longer than the bound, or not finite.
        """
        weights = np.zeros(m)
        for block in blocks:
            block.add_squares(weights, 1.0 / self.step)
        clipped = kernels.to_weights(weights, 1.0 / self.step, self._steps)
        for block in blocks:
            block.add_rounded(weights, total)
        return clipped


class Dense(NamedTuple):
    """Numbers stored as a matrix.

    Attributes
    ----------
    columns : slice or ndarray of int, shape (p,)
    values : ndarray, shape (m, p)
    """

    columns: slice | np.ndarray
    values: np.ndarray

    def add_squares(self, squares: np.ndarray, scale: float) -> None:
        """See `Block`."""
        kernels.squares_dense(self.values, scale, squares)

    def add_rounded(self, weights: np.ndarray, total: np.ndarray) -> None:
        """See `Block`."""
        part = total[self.columns]
        kernels.rounded_dense(self.values, weights, part)
        total[self.columns] = part

    def put(self, out: np.ndarray) -> None:
        """See `Block`."""
        out[:, self.columns] = self.values


class Scaled(NamedTuple):
    """Rows of a table, each multiplied by a number: the gradient of a regression.

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
        kernels.squares_scaled(self.table, self.factor, scale, squares)

    def add_rounded(self, weights: np.ndarray, total: np.ndarray) -> None:
        """See `Block`."""
        part = total[self.start : self.start + self.table.shape[1]]
        kernels.rounded_dense(self.table, kernels.products(self.factor, weights), part)

    def put(self, out: np.ndarray) -> None:
        """See `Block`."""
        with np.errstate(all="ignore"):
            np.multiply(
                self.table, self.factor[:, None], out=out[:, self.start : self.start + self.table.shape[1]]
            )


class Sparse(NamedTuple):
    """A few numbers a record, in columns that depend on the record: the gradient of group effects.

    Attributes
    ----------
    start, size : int
        First column, and number of columns.
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
        kernels.squares_sparse(self.positions, self.values, self.size, scale, squares)

    def add_rounded(self, weights: np.ndarray, total: np.ndarray) -> None:
        """See `Block`."""
        kernels.rounded_sparse(
            self.positions, self.values, weights, total[self.start : self.start + self.size]
        )

    def put(self, out: np.ndarray) -> None:
        """See `Block`."""
        part = out[:, self.start : self.start + self.size]
        part[:] = 0.0
        kernels.add_looked_up(self.positions, self.values, *identity(self.size), part)


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
    """Return the Jacobian of numbers that are columns themselves."""
    return Jacobian(
        np.arange(size + 1), np.arange(size) if columns is None else columns, np.ones(size, dtype=np.float64)
    )


def sparse(dense: np.ndarray, columns: np.ndarray) -> Jacobian:
    """Return the nonzero entries of a matrix whose columns have the numbers `columns`."""
    row, column = np.nonzero(dense)
    first = np.searchsorted(row, np.arange(dense.shape[0] + 1))
    return Jacobian(first, columns[column], dense[row, column])
