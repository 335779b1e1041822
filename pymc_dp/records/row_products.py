"""Matrix products and triangular systems in which a record's result does not depend on its row's position.

A library's product rounds the last rows of a matrix differently from the others. Where large numbers cancel,
only rounding errors are left: the same record would then have another score when other records are added or
removed.
"""

from collections.abc import Callable, Sequence

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.graph import Apply, Op, Variable
from pytensor.graph.op import OutputStorageType
from pytensor.scalar import upcast


# Loops instead of NumPy's functions, for which Numba takes seconds to compile the errors about shapes.
# `fastmath=False` keeps the order of sums, also where a function is inlined into a loop that reorders.
@numba.njit(cache=True, nogil=True, fastmath=False)
def _by_number(rows, columns, out):
    width = rows.shape[1]
    fours = width - width % 4
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(columns.shape[0]):
            column, total = columns[j], 0.0
            for k in range(0, fours, 4):
                total += (row[k] * column[k] + row[k + 1] * column[k + 1]) + (
                    row[k + 2] * column[k + 2] + row[k + 3] * column[k + 3]
                )
            for k in range(fours, width):
                total += row[k] * column[k]
            out[i, j] = total


@numba.njit(cache=True, nogil=True, fastmath=False)
def _by_row(rows, matrix, out):
    width = rows.shape[1]
    fours = width - width % 4
    total = np.empty(matrix.shape[1])
    for i in range(rows.shape[0]):
        for j in range(total.size):
            total[j] = 0.0
        for k in range(0, fours, 4):
            a, b, c, d = rows[i, k], rows[i, k + 1], rows[i, k + 2], rows[i, k + 3]
            for j in range(total.size):
                total[j] += (a * matrix[k, j] + b * matrix[k + 1, j]) + (
                    c * matrix[k + 2, j] + d * matrix[k + 3, j]
                )
        for k in range(fours, width):
            for j in range(total.size):
                total[j] += rows[i, k] * matrix[k, j]
        for j in range(total.size):
            out[i, j] = total[j]


@numba.njit(cache=True, nogil=True, fastmath=False)
def _multiply_some(rows, matrix, columns, out):
    # Up to this number of columns of the result, each number is summed in a loop of its own.
    few_columns = 3
    if out.shape[1] <= few_columns:
        _by_number(rows, columns, out)
    else:
        _by_row(rows, matrix, out)


@numba.njit(cache=True, nogil=True, fastmath=False)
def multiply(left, right):
    """Compute ``left @ right``.

    Parameters
    ----------
    left : ndarray, shape (m, c)
    right : ndarray, shape (c, q)

    Returns
    -------
    ndarray of float64, shape (m, q)

    Raises
    ------
    ValueError
        Shapes do not fit.

    Notes
    -----
    **Privacy.** Each number of the result is the same function of its row of `left` and its column of
    `right`: products are added in groups of four, in the order of the columns, each rounded according to
    IEEE 754. So it does not depend on the position of that row or column, on their number, or on the memory
    layout.
    """
    (m, width), q = left.shape, right.shape[1]
    if right.shape[0] != width:
        raise ValueError("the matrices have other shapes than a product needs.")
    out, matrix, columns = np.empty((m, q)), np.empty((width, q)), np.empty((q, width))
    for k in range(width):
        for j in range(q):
            matrix[k, j] = columns[j, k] = right[k, j]
    if left.flags.c_contiguous:
        _multiply_some(left, matrix, columns, out)
        return out
    # Number of rows that are copied at once if the matrix is not contiguous.
    rows_at_once = 256
    rows = np.empty((min(rows_at_once, m), width))
    for first in range(0, m, rows_at_once):
        some = rows[: min(rows_at_once, m - first)]
        for i in range(len(some)):
            for k in range(width):
                some[i, k] = left[first + i, k]
        _multiply_some(some, matrix, columns, out[first : first + rows_at_once])
    return out


class _ByRow(Op):
    """An Op that is computed by one of the functions above."""

    def function(self, dtype: np.dtype) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return what is computed, in a type of numbers, as a function that Numba can compile."""
        raise NotImplementedError

    def perform(self, node: Apply, inputs: Sequence[np.ndarray], outputs: OutputStorageType) -> None:
        """Compute the result, where the Numba backend is not used."""
        outputs[0][0] = self.function(np.dtype(node.outputs[0].type.dtype))(*inputs)


class RowProduct(_ByRow):
    """`multiply` as an Op."""

    __props__ = ()
    gufunc_signature = "(m,n),(n,p)->(m,p)"

    def make_node(self, *inputs: Variable) -> Apply:
        """Make a node with the type of a matrix product."""
        left, right = inputs
        dtype, shape = upcast(left.type.dtype, right.type.dtype), (left.type.shape[0], right.type.shape[1])
        return Apply(self, [left, right], [pt.tensor(dtype=dtype, shape=shape)])

    def function(self, dtype: np.dtype) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return the product as a function that Numba can compile."""

        def product(left, right):
            return multiply(left, right).astype(dtype)

        return multiply if dtype == np.float64 else product


@numba.njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def solve(triangle, right, lower, unit, turned):
    """Solve a triangular system for each column.

    Parameters
    ----------
    triangle : ndarray, shape (k, k)
    right : ndarray, shape (k, m)
    lower : bool
        Whether the lower triangle is read; the other one is not.
    unit : bool
        Whether the diagonal consists of ones, and is not read.
    turned : bool
        Whether to solve the system of the transposed triangle.

    Returns
    -------
    ndarray of float64, shape (k, m)
        NaN where an entry of the diagonal is zero.

    Raises
    ------
    ValueError
        Shapes do not fit.

    Notes
    -----
    **Privacy.** As for `multiply`: a column of the result is the same function of its column of `right`,
    wherever that stands.
    """
    k, m = right.shape
    if triangle.shape != (k, k):
        raise ValueError("the matrices have other shapes than a system needs.")
    out = np.empty((k, m))
    for step in range(k):
        i = step if lower != turned else k - 1 - step
        for column in range(m):
            out[i, column] = right[i, column]
        for done in range(step):
            j = done if lower != turned else k - 1 - done
            factor = triangle[j, i] if turned else triangle[i, j]
            for column in range(m):
                out[i, column] -= factor * out[j, column]
        if not unit:
            pivot = triangle[i, i] if triangle[i, i] != 0 else np.nan
            for column in range(m):
                out[i, column] /= pivot
    return out


class ColumnsSolved(_ByRow):
    """`solve` as an Op; if `twice`, the system is that of the triangle times its transpose."""

    __props__ = ("lower", "unit", "twice")
    gufunc_signature = "(m,m),(m,n)->(m,n)"

    def __init__(self, lower: bool, unit: bool, twice: bool):
        self.lower, self.unit, self.twice = lower, unit, twice

    def make_node(self, *inputs: Variable) -> Apply:
        """Make a node with the type of a triangular system's solution."""
        triangle, right = inputs
        dtype = upcast(triangle.type.dtype, right.type.dtype, "float32")
        return Apply(self, [triangle, right], [pt.tensor(dtype=dtype, shape=right.type.shape)])

    def function(self, dtype: np.dtype) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return the solution as a function that Numba can compile."""
        lower, unit, twice = self.lower, self.unit, self.twice

        def once(triangle, right):
            return solve(triangle, right, lower, unit, False).astype(dtype)

        def both(triangle, right):
            first = solve(triangle, right, lower, False, not lower)
            return solve(triangle, first, lower, False, lower).astype(dtype)

        return both if twice else once


def _register() -> None:
    """Register the Ops with PyTensor's Numba backend; versions without that interface run `perform`."""
    try:
        from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_default_op_cache_key
    except ImportError:
        return

    def compiled(op, node, **kwargs):
        function = op.function(np.dtype(node.outputs[0].type.dtype))
        if function is not multiply:
            function = numba_njit(function, fastmath=False)
        return function, 1  # version of the code, for what is cached

    register_funcify_default_op_cache_key(_ByRow)(compiled)


_register()
