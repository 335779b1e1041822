"""Compiled loops of value iteration; every number is rounded as by NumPy, term by term."""

import numba
import numpy as np


@numba.njit(cache=True)
def _row(found, around, below, low, high, sure):
    low_one, high_one, low_other, high_other = low[0], high[0], low[1], high[1]
    one, other = around[below[0] :][: found.size + 1], around[below[1] :][: found.size + 1]
    for k in range(found.size):
        value = sure + low_one * one[k] + high_one * one[k + 1]
        found[k] = value + low_other * other[k] + high_other * other[k + 1]


@numba.njit(cache=True)
def rows(
    around: np.ndarray, below: np.ndarray, low: np.ndarray, high: np.ndarray, sure: np.ndarray, size: int
) -> np.ndarray:
    """Expected values one step earlier: of two outcomes, each between two losses of the grid.

    Parameters
    ----------
    around : ndarray
        Values, beyond both ends too.
    below : ndarray of int, shape (2, r)
        Where each outcome of each row begins in `around`.
    low, high : ndarray, shape (2, r)
        Weights of the losses below and above.
    sure : ndarray, shape (r,)
        Added to each row.
    size : int
        Numbers of a row.

    Returns
    -------
    ndarray, shape (r, size)
    """
    found = np.empty((sure.size, size))
    for r in range(sure.size):
        _row(found[r], around, below[:, r], low[:, r], high[:, r], sure[r])
    return found


@numba.njit(cache=True)
def largest(
    around: np.ndarray, below: np.ndarray, low: np.ndarray, high: np.ndarray, sure: np.ndarray, size: int
) -> np.ndarray:
    """The largest of each column of `rows`; NaN where one is NaN."""
    row, found = np.empty(size), np.full(size, -np.inf)
    for r in range(sure.size):
        _row(row, around, below[:, r], low[:, r], high[:, r], sure[r])
        for k in range(size):
            if not row[k] <= found[k]:
                found[k] = row[k] if found[k] == found[k] else found[k]
    return found
