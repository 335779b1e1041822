"""Log-likelihood of some records, at a cost that does not depend on how many there are."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numba
import numpy as np
import pytensor
from pytensor.graph.basic import Variable

from pymc_dp.records import graph
from pymc_dp.records.guard import guarded


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


class Batches:
    """Rows of any records of a log-likelihood.

    Parameters
    ----------
    theta : Variable, vector of length d
    terms : sequence of Variable
        Flattened per-record terms (see `graph.flatten`).
    roots : mapping of Variable to int
        Data leaves with one entry a record, and the axis of the records.
    n_rows : int
    compile_kwargs : mapping
        Passed to `pytensor.function`.
    """

    def __init__(
        self,
        theta: Variable,
        terms: Sequence[Variable],
        roots: Mapping[Variable, int],
        n_rows: int,
        compile_kwargs: Mapping[str, Any],
    ):
        self._roots = dict(roots)
        self._function = compiled_rows(theta, terms, roots, n_rows, trust_input=True, **compile_kwargs)

    def __call__(self, theta: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Log-likelihood, shape (b,), of the rows at the valid positions `index`, shape (b,), int64."""
        return guarded(self._function, theta, *self._gather(index))

    def ratios(self, theta: np.ndarray, new: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Log-likelihood at `new` minus that at `theta`, shape (b,), of the rows at `index`."""
        parts = self._gather(index)
        return guarded(lambda: self._function(new, *parts) - self._function(theta, *parts))

    def _gather(self, index: np.ndarray) -> list[np.ndarray]:
        return [gather(graph.leaf_value(root), index, axis) for root, axis in self._roots.items()]


def compiled_rows(
    theta: Variable, terms: Sequence[Variable], roots: Mapping[Variable, int], n_rows: int, **kwargs: Any
) -> Callable[..., np.ndarray]:
    """Compile rows as a function of (theta, *roots), where the roots hold as many records as one likes."""
    stand_ins, rows = graph.symbolic_rows(terms, roots, n_rows)
    fast = graph.simplify([rows])[0]
    return pytensor.function([theta, *stand_ins.values()], fast, on_unused_input="ignore", **kwargs)
