"""Loops over what is released of records: whitened rows of predictors, ratios; compiled once, cached on disk.

`rows` has shape (k, m, p): for each predictor a and record i the vector ``v_a = A x_a``. `weights`, shape
(m, k (k + 1) / 2), has the upper triangle of each record's W. No floating-point operation below may be
reordered or fused where its result is rounded to the grid: a record's integers must not depend on its
neighbours.
"""

import numba
import numpy as np

# Squared lengths of rows outside of this range count as not finite: their products are not exact enough.
_SMALL, _LARGE = 1e-200, 1e200


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_constant(out, row):
    """Add one row to all rows of (m, p)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += row[j]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_looked_up(out, table, positions):
    """Add the rows `positions` of a table to (m, p); NaN where there is no such row."""
    for i in range(out.shape[0]):
        k = positions[i]
        if 0 <= k < table.shape[0]:
            for j in range(out.shape[1]):
                out[i, j] += table[k, j]
        else:
            out[i] = np.nan


# Sums of squares may be added in any order: the room that clips leave covers it.
@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _dot(left, right):
    total = 0.0
    for j in range(left.size):
        total += left[j] * right[j]
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def combined(rows, factors, centre):
    """``sum_a factors[:, a] v_a - centre``, shape (m, p); 0 where its square is not below 1e200."""
    k, m, p = rows.shape
    out = np.empty((m, p))
    for i in range(m):
        line = out[i]
        for j in range(p):
            line[j] = -centre[j]
        for a in range(k):
            factor, row = factors[i, a], rows[a, i]
            for j in range(p):
                line[j] += factor * row[j]
        if not _dot(line, line) < _LARGE:
            line[:] = 0.0
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def lengths(vectors):
    """Euclidean norms of rows."""
    out = np.empty(vectors.shape[0])
    for i in range(out.size):
        out[i] = np.sqrt(_dot(vectors[i], vectors[i]))
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def to_grid(vectors, scale, steps):
    """Turn rows, times `scale`, into integers: clipped to the norm `steps`, truncated. In place.

    A row whose square is not finite becomes 0.
    """
    for i in range(vectors.shape[0]):
        row = vectors[i]
        for j in range(row.size):
            row[j] *= scale
        square = _dot(row, row)
        factor = 1.0 if square <= steps * steps else steps / np.sqrt(square)
        if square < np.inf:
            for j in range(row.size):
                row[j] = np.trunc(row[j] * factor)
        else:
            row[:] = 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def norms(rows, weights):
    """Frobenius norms of ``sum_ab W_ab v_a v_b'``, shape (m,); 0 where one is not finite."""
    k, m, _ = rows.shape
    out = np.empty(m)
    gram, product = np.empty((k, k)), np.empty((k, k))
    for i in range(m):
        for a in range(k):
            for b in range(a + 1):
                gram[a, b] = gram[b, a] = _dot(rows[a, i], rows[b, i])
        if k == 1:
            square = gram[0, 0]
            norm = abs(weights[i, 0]) * square
            out[i] = norm if _SMALL < square < _LARGE and norm < np.inf else 0.0
            continue
        for a in range(k):  # |V W V'|^2 = trace (W G)^2
            for b in range(k):
                product[a, b] = 0.0
                for c in range(k):
                    product[a, b] += weights[i, _place(a, c, k)] * gram[c, b]
        square = 0.0
        for a in range(k):
            for b in range(k):
                square += product[a, b] * product[b, a]
        out[i] = np.sqrt(max(square, 0.0)) if square < np.inf else 0.0
    return out


@numba.njit(cache=True, inline="always")
def _place(a, b, k):
    low, high = min(a, b), max(a, b)
    return low * k - low * (low - 1) // 2 + high - low


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_rank_one(rows, weights, scale, steps, total):
    """Add the clipped, truncated ``w v v'`` of one predictor to the upper triangle of `total`, shape (p, p).

    In units of 1 / `scale`, clipped to the Frobenius norm `steps`; entries off the diagonal times sqrt(2).
    """
    _, m, p = rows.shape
    root = np.sqrt(2.0)
    left, right = np.zeros((4, p)), np.zeros((4, p))
    for start in range(0, m, 4):
        for q in range(4):
            left[q] = 0.0
            right[q] = 0.0
            i = start + q
            if i >= m:
                continue
            row = rows[0, i]
            square, weight = _dot(row, row), weights[i, 0] * scale
            norm = abs(weight) * square
            if not (_SMALL < square < _LARGE and norm < np.inf):
                continue
            weight = weight if norm <= steps else weight * (steps / norm)
            for j in range(p):
                left[q, j] = weight * row[j]
                right[q, j] = row[j]
                total[j, j] += np.trunc(left[q, j] * row[j])
                left[q, j] *= root
        _add_four(left, right, total)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add_four(left, right, total):
    """Add four truncated outer products above the diagonal."""
    p = total.shape[0]
    right0, right1, right2, right3 = right[0], right[1], right[2], right[3]
    for r in range(p):
        a, b, c, d = left[0, r], left[1, r], left[2, r], left[3, r]
        line = total[r]
        for j in range(r + 1, p):
            line[j] += (np.trunc(a * right0[j]) + np.trunc(b * right1[j])) + (
                np.trunc(c * right2[j]) + np.trunc(d * right3[j])
            )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_entries(rows, weights, columns, factors, scale, steps, total):
    """Add entries of the clipped, truncated ``sum_ab W_ab v_a v_b'`` to `total`, shape (entries,).

    `columns`, shape (2, entries), says which; they are multiplied by `factors` (sqrt(2) off the diagonal),
    and clipped to the norm `steps` in units of 1 / `scale`.
    """
    k, m, p = rows.shape
    count = columns.shape[1]
    entries, left = np.empty(count), np.empty((k, p))
    for i in range(m):
        _entries(rows[:, i], weights[i], columns, factors, scale, left, entries)
        square = _dot(entries, entries)
        if not square < np.inf:
            continue
        factor = 1.0 if square <= steps * steps else steps / np.sqrt(square)
        for t in range(count):
            total[t] += np.trunc(entries[t] * factor)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_whole(rows, weights, scale, steps, total):
    """Add all entries: as `add_entries` with those of the upper triangle, row by row."""
    k, m, p = rows.shape
    entries, left, row = np.empty(total.size), np.empty((k, p)), np.empty((k, p))
    for i in range(m):
        for a in range(k):  # next to each other in memory
            row[a] = rows[a, i]
        _lefts(row, weights[i], scale, left)
        at = 0
        for r in range(p):
            _line(row, left, r, entries[at : at + p - r])
            at += p - r
        square = _dot(entries, entries)
        if square < np.inf:
            factor = 1.0 if square <= steps * steps else steps / np.sqrt(square)
            for t in range(entries.size):
                total[t] += np.trunc(entries[t] * factor)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _line(row, left, r, line):
    """Entries of one row of the matrix, from its diagonal on."""
    root, k = np.sqrt(2.0), len(row)
    first, a = row[0][r:], left[0, r]
    for j in range(line.size):
        line[j] = a * first[j]
    for q in range(1, k):
        other, b = row[q][r:], left[q, r]
        for j in range(line.size):
            line[j] += b * other[j]
    for j in range(1, line.size):
        line[j] *= root


@numba.njit(cache=True, nogil=True, error_model="numpy")
def entry_norms(rows, weights, columns, factors):
    """Euclidean norms of these entries, shape (m,); 0 where one is not finite."""
    k, m, p = rows.shape
    out, entries, left = np.empty(m), np.empty(columns.shape[1]), np.empty((k, p))
    for i in range(m):
        _entries(rows[:, i], weights[i], columns, factors, 1.0, left, entries)
        square = _dot(entries, entries)
        out[i] = np.sqrt(square) if square < np.inf else 0.0
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def all_entries(rows, weights, columns, factors):
    """The entries themselves, shape (m, entries)."""
    k, m, p = rows.shape
    out, left = np.empty((m, columns.shape[1])), np.empty((k, p))
    for i in range(m):
        _entries(rows[:, i], weights[i], columns, factors, 1.0, left, out[i])
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _lefts(row, weights, scale, left):
    """``scale sum_b W_ab v_b`` for each a."""
    k, p = row.shape
    for a in range(k):
        for j in range(p):
            left[a, j] = 0.0
        for b in range(k):
            weight = weights[_place(a, b, k)] * scale
            if weight != 0.0:
                for j in range(p):
                    left[a, j] += weight * row[b, j]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _entries(row, weights, columns, factors, scale, left, out):
    k = len(row)
    _lefts(row, weights, scale, left)
    for t in range(columns.shape[1]):
        r, c = columns[0, t], columns[1, t]
        value = left[0, r] * row[0, c]
        for a in range(1, k):
            value += left[a, r] * row[a, c]
        out[t] = value * factors[t]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def sum_of_ratios(new, base, tempering, grid):
    """Sum of ``tempering (new - base)``, clipped to [-1, 1] and truncated to 1 / `grid`; NaN counts as -1."""
    total = np.int64(0)
    for i in range(new.size):
        ratio = tempering * (new[i] - base[i])
        # A comparison with NaN is false.
        ratio = min(ratio, 1.0) if ratio >= -1.0 else -1.0
        total += np.int64(np.trunc(ratio * grid))
    return total
