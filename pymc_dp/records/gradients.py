"""The exact sum of clipped per-record gradients, on all records or on a batch, in one pass over the data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pytensor.graph.basic import Variable

from pymc_dp.records import graph, kernels
from pymc_dp.records.clipped_sums import LARGEST_N, Clip, Dense
from pymc_dp.records.gradient_rows import GradientRows
from pymc_dp.records.sums import gather

# Rows that are worked on at once, and numbers that belong to them: they should fit into a core's cache.
_ROWS, _NUMBERS = 16384, 2**17


class SumOfGradients(NamedTuple):
    """What one pass over the data gives. Both are private.

    Attributes
    ----------
    total : ndarray, shape (d,)
        Sum over privacy units of the clipped gradient; exact, each coordinate a multiple of `Clip.step`.
    clipped : float
        Number of units whose gradient was clipped or was not finite.
    """

    total: np.ndarray
    clipped: float


class Gradients:
    """Clipped sums of the gradients of any model of the record layer.

    Parameters
    ----------
    theta : Variable, vector of length d
    columns : mapping of Variable to slice
        The parameters that `terms` is a function of, and where they are in `theta`.
    on_theta : callable
        Rewrites graphs of the parameters as graphs of `theta`.
    terms : sequence of Variable
        Flattened per-record terms (see `graph.flatten`).
    roots : mapping of Variable to int
        Data leaves with one entry a record, and the axis of the records.
    n_rows : int
    rows_of_unit : tuple of ndarray, or None
        Rows sorted by unit, and the position of each unit's first; None when each row is a unit.
    start : ndarray, shape (d,)
        Any point of the parameter space.
    compile_kwargs : mapping
        Passed to `pytensor.function`.

    Notes
    -----
    **Privacy.** One unit adds a vector of Euclidean norm at most `clip_bound`: the sum moves by at most twice
    that when a unit is replaced, by `clip_bound` when one is added or removed, in floating point as in theory
    (`Clip`, docs/proofs/hmc). Sums of integers are exact: neither the order of the units nor where a chunk
    ends matters. A gradient that is not finite adds zero. The gradients of a unit's rows are added before
    they are clipped. What is compiled depends on the model and on shapes, not on values.
    """

    def __init__(
        self,
        theta: Variable,
        columns: Mapping[Variable, slice],
        on_theta: Callable[[Sequence[Variable]], list[Variable]],
        terms: Sequence[Variable],
        roots: Mapping[Variable, int],
        n_rows: int,
        rows_of_unit: tuple[np.ndarray, np.ndarray] | None,
        start: np.ndarray,
        compile_kwargs: Mapping[str, Any],
    ):
        self.d = start.size
        self._tables = [(graph.storage(root), axis) for root, axis in roots.items()]
        self._n_rows, self._rows_of_unit = n_rows, rows_of_unit
        stand_ins, rows = graph.symbolic_rows(terms, roots, n_rows)
        self._rows = GradientRows(
            theta,
            columns,
            on_theta,
            rows,
            {stand_ins[root]: axis for root, axis in roots.items()},
            start,
            [tuple(np.delete(np.shape(table[0]), axis).tolist()) for table, axis in self._tables],
            compile_kwargs,
        )
        width = self._rows.width + (0 if rows_of_unit is None else 2 * self.d)
        self._chunk = max(min(_ROWS, _NUMBERS // width), 64)

    def __call__(self, theta: np.ndarray, clip_bound: float) -> SumOfGradients:
        """Sum the clipped gradients of all privacy units.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        clip_bound : float
            b: a gradient g adds ``g min(1, b / |g|)``, Euclidean norm, but for rounding (`Clip`).

        Returns
        -------
        SumOfGradients

        Raises
        ------
        ValueError
            b is not a positive, ordinary number; there are more than 2**29 units.
        PrivacyError
            The gradients could not be evaluated.
        """
        if self._rows_of_unit is not None:
            order, first = self._rows_of_unit
            return self._sum_of_units(theta, clip_bound, order, first[1:])
        return self._sum(theta, clip_bound, self._slices(), self._n_rows)

    def batch(self, theta: np.ndarray, units: np.ndarray, clip_bound: float) -> SumOfGradients:
        """Sum the clipped gradients of some privacy units, at a cost that does not depend on n.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        units : ndarray of int, shape (b,)
            Positions in 0..n-1; one that is there k times is added k times.
        clip_bound : float

        Returns
        -------
        SumOfGradients

        Raises
        ------
        IndexError
            A position outside 0..n-1 (compiled code would not notice).
        ValueError, PrivacyError
            As for all units.
        """
        units = np.asarray(units, dtype=np.int64)
        n = self._n_rows if self._rows_of_unit is None else self._rows_of_unit[1].size - 1
        if units.size and (units.min() < 0 or units.max() >= n):
            raise IndexError(f"privacy units are 0..{n - 1}")
        if self._rows_of_unit is None:
            return self._sum(theta, clip_bound, self._gathers(units), units.size)
        order, first = self._rows_of_unit
        lengths = first[units + 1] - first[units]
        ends = np.cumsum(lengths)
        within = np.arange(lengths.sum()) - np.repeat(ends - lengths, lengths)
        return self._sum_of_units(theta, clip_bound, order[np.repeat(first[units], lengths) + within], ends)

    def _sum(
        self, theta: np.ndarray, clip_bound: float, chunks: Iterator[list[np.ndarray]], rows: int
    ) -> SumOfGradients:
        _exact(rows)
        clip, total, clipped = Clip(clip_bound, self.d), np.zeros(self.d), 0
        jacobians = self._rows.jacobians(theta)
        for start, data in zip(range(0, rows, self._chunk), chunks, strict=True):
            m = min(self._chunk, rows - start)
            clipped += clip.add(self._rows(theta, jacobians, data, m), m, total)
        return SumOfGradients(total * clip.step, float(clipped))

    def _sum_of_units(
        self, theta: np.ndarray, clip_bound: float, rows: np.ndarray, ends: np.ndarray
    ) -> SumOfGradients:
        """Sum over units; unit k has the rows ``rows[ends[k - 1]:ends[k]]``."""
        _exact(ends.size)
        clip, total, clipped = Clip(clip_bound, self.d), np.zeros(self.d), 0
        jacobians = self._rows.jacobians(theta)
        columns = np.arange(self.d)
        unfinished = np.zeros((1, self.d))
        for start, data in zip(range(0, rows.size, self._chunk), self._gathers(rows), strict=True):
            stop = min(start + self._chunk, rows.size)
            gradients = np.zeros((stop - start, self.d))
            for block in self._rows(theta, jacobians, data, stop - start):
                block.put(gradients)
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            sums = np.zeros((last - first + 1, self.d))
            sums[0] = unfinished
            kernels.add_rows(gradients, ends[first : last + 1] - start, sums)
            finished = sums.shape[0] if ends[last] == stop else sums.shape[0] - 1
            unfinished = sums[finished:] if ends[last] != stop else np.zeros((1, self.d))
            clipped += clip.add([Dense(columns, sums[:finished])], finished, total)
        return SumOfGradients(total * clip.step, float(clipped))

    def _slices(self) -> Iterator[list[np.ndarray]]:
        for start in range(0, self._n_rows, self._chunk):
            index = slice(start, min(start + self._chunk, self._n_rows))
            yield [_plain(table[0][(slice(None),) * axis + (index,)]) for table, axis in self._tables]

    def _gathers(self, rows: np.ndarray) -> Iterator[list[np.ndarray]]:
        for start in range(0, rows.size, self._chunk):
            some = rows[start : start + self._chunk]
            yield [gather(table[0], some, axis) for table, axis in self._tables]


def _plain(values: np.ndarray) -> np.ndarray:
    """In the memory layout that functions are compiled for."""
    return values if values.flags.c_contiguous and values.flags.writeable else np.array(values, order="C")


def _exact(units: int) -> None:
    if units > LARGEST_N:
        raise ValueError(f"more than 2**29 privacy units ({units}): their sum would not be exact.")
