"""Whether arrays are views of the same memory; nothing reads what is in it."""

from typing import Any

import numpy as np

# How hard NumPy may think about whether two views overlap.
_WORK = 10_000


def _parts(array: Any) -> list[np.ndarray]:
    """The arrays that something is stored in."""
    if hasattr(array, "indptr"):
        return [array.data, array.indices]
    return [np.asarray(array)] if isinstance(array, np.ndarray) else []


def same(a: Any, b: Any) -> bool:
    """Whether two arrays are one: the same memory, read in the same way."""
    if a is b:
        return True
    return all(
        len(x) == len(y) == 1 and x[0].__array_interface__ == y[0].__array_interface__ and x[0].size > 0
        for x, y in [(_parts(a), _parts(b))]
    )


def shared(a: Any, b: Any) -> bool:
    """Whether two arrays have an entry in common."""
    return any(_overlap(x, y) for x in _parts(a) for y in _parts(b))


def shifted(a: Any, b: Any, axis_a: int, axis_b: int) -> bool:
    """Whether a record of one array is, in memory, another record of the other (``y[:-1]`` and ``y[1:]``).

    Parameters
    ----------
    a, b : ndarray or sparse matrix
        With the same number of records.
    axis_a, axis_b : int
        Axes of the records.
    """
    if hasattr(a, "indptr") or hasattr(b, "indptr"):
        return a is not b and shared(a, b)
    if not np.may_share_memory(a, b) or same(a, b):
        return False
    a, b = np.moveaxis(a, axis_a, 0), np.moveaxis(b, axis_b, 0)
    half = len(a) // 2
    return _overlap(a[:half], b[half:]) or _overlap(a[half:], b[:half])


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=_WORK))
    except (np.exceptions.TooHardError, OverflowError):
        return True
