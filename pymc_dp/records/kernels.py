"""Loops over the vectors of a chunk of records; compiled once, cached on disk."""

import numba
import numpy as np


@numba.njit(cache=True, error_model="numpy")
def to_weights(squares, scale, steps):
    """Replace squared norms, in grid steps, by factors into grid steps; return how many were clipped."""
    clipped = 0
    for i in range(squares.size):
        square = squares[i]
        inside = square <= steps * steps
        shorter = scale * steps / np.sqrt(square)
        squares[i] = scale if inside else (shorter if square < np.inf else 0.0)
        clipped += not inside
    return clipped


# Four partial sums at once, added in the same order for every row, wherever it stands.
@numba.njit(cache=True)
def _square(row, scale):
    a = b = c = d = 0.0
    fours = row.size - row.size % 4
    for j in range(0, fours, 4):
        a += (row[j] * scale) * (row[j] * scale)
        b += (row[j + 1] * scale) * (row[j + 1] * scale)
        c += (row[j + 2] * scale) * (row[j + 2] * scale)
        d += (row[j + 3] * scale) * (row[j + 3] * scale)
    for j in range(fours, row.size):
        a += (row[j] * scale) * (row[j] * scale)
    return (a + b) + (c + d)


@numba.njit(cache=True)
def squares_dense(values, scale, squares):
    """Add the squared norms of ``values * scale`` to `squares`."""
    for i in range(values.shape[0]):
        squares[i] += _square(values[i], scale)


@numba.njit(cache=True)
def squares_scaled(table, factor, scale, squares):
    """Add the squared norms of ``table * factor[:, None] * scale`` to `squares`."""
    for i in range(table.shape[0]):
        squares[i] += _square(table[i], factor[i] * scale)


@numba.njit(cache=True)
def squares_sparse(positions, values, size, scale, squares):
    """Add the squared norms of values at `positions`; NaN if one is out of range. Merges equal positions."""
    if positions.shape[1] == 1:
        for i in range(positions.shape[0]):
            value = values[i, 0] * scale
            squares[i] += value * value if 0 <= positions[i, 0] < size else np.nan
        return
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
def _rounded_rows(values, weights, total):
    for i in range(values.shape[0]):
        if weights[i] != 0.0:
            for j in range(values.shape[1]):
                total[j] += np.rint(values[i, j] * weights[i])


@numba.njit(cache=True)
def rounded_dense(values, weights, total):
    """Add the rounded ``values * weights[:, None]`` to `total`."""
    if values.shape[1] == 1:
        total[0] += _rounded_column(values.ravel(), weights)
        return
    # Four records at a time where none has weight zero, so that `total` is read and written less often.
    fours = values.shape[0] - values.shape[0] % 4
    for i in range(0, fours, 4):
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        if a != 0.0 and b != 0.0 and c != 0.0 and d != 0.0:
            for j in range(values.shape[1]):
                total[j] += (np.rint(values[i, j] * a) + np.rint(values[i + 1, j] * b)) + (
                    np.rint(values[i + 2, j] * c) + np.rint(values[i + 3, j] * d)
                )
        else:
            _rounded_rows(values[i : i + 4], weights[i : i + 4], total)
    _rounded_rows(values[fours:], weights[fours:], total)


@numba.njit(cache=True)
def products(factor, weights):
    """Compute ``factor * weights``; weight 0 gives 0, whatever the factor."""
    out = np.empty(factor.size)
    for i in range(factor.size):
        out[i] = factor[i] * weights[i] if weights[i] != 0.0 else 0.0
    return out


@numba.njit(cache=True)
def rounded_sparse(positions, values, weights, total):
    """Add the rounded ``values * weights[:, None]``, which are at `positions`, to `total`."""
    if positions.shape[1] == 1:
        for i in range(positions.shape[0]):
            if weights[i] != 0.0:
                total[positions[i, 0]] += np.rint(values[i, 0] * weights[i])
        return
    for i in range(positions.shape[0]):
        if weights[i] != 0.0:
            for k in range(positions.shape[1]):
                total[positions[i, k]] += np.rint(values[i, k] * weights[i])


@numba.njit(cache=True)
def outer(left, right):
    """Compute outer products of the rows of two matrices (m, a) and (m, q), shape (m, a * q)."""
    m, a, q = left.shape[0], left.shape[1], right.shape[1]
    out = np.empty((m, a * q))
    for i in range(m):
        for j in range(a):
            for k in range(q):
                out[i, j * q + k] = left[i, j] * right[i, k]
    return out


@numba.njit(cache=True)
def add_values(values, first, columns, derivatives, out):
    """Add ``values @ Jacobian`` to `out`."""
    # One loop over all entries of the Jacobian, most of whose rows have one entry or none.
    row = np.empty(derivatives.size, dtype=np.int64)
    for k in range(first.size - 1):
        row[first[k] : first[k + 1]] = k
    for i in range(values.shape[0]):
        for j in range(derivatives.size):
            out[i, columns[j]] += values[i, row[j]] * derivatives[j]


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
