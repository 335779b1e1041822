"""Rows of predictors, times a matrix, for some records at a time."""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from pymc_dp.records.predictors import Piece


def rows_in(metric: np.ndarray, pieces: Sequence[tuple[Piece, Any]], m: int, k: int) -> np.ndarray:
    """Rows of k predictors of m records, each times a matrix A of shape (q, p): shape (k, m, q)."""
    out = np.zeros((k, m, len(metric)))
    fresh = [True] * k
    with np.errstate(all="ignore"):
        for piece, other in pieces:
            for j in range(piece.numbers):
                target = out[piece.first + j]
                if piece.kind == "values":
                    _add_constant(target, np.ascontiguousarray(metric[:, piece.columns[j]]))
                elif piece.kind == "lookup":
                    table = np.ascontiguousarray(metric[:, piece.columns].T)
                    _add_looked_up(target, table, np.ascontiguousarray(other[:, j]))
                else:
                    matrix = metric[:, piece.columns[:, j]].T
                    if fresh[piece.first + j]:
                        np.matmul(other, matrix, out=target)
                    else:
                        target += other @ matrix
                fresh[piece.first + j] = False
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add_constant(out, row):
    """Add one row to all rows of (m, p)."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] += row[j]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add_looked_up(out, table, positions):
    """Add the rows `positions` of a table to (m, p); NaN where there is no such row."""
    for i in range(out.shape[0]):
        k = positions[i]
        if 0 <= k < table.shape[0]:
            for j in range(out.shape[1]):
                out[i, j] += table[k, j]
        else:
            out[i] = np.nan
