"""The exact sum of clipped per-record gradients, on all records or on a batch, in one pass over the data."""

from typing import NamedTuple

import numpy as np

from pymc_dp.records import graph, kernels
from pymc_dp.records.clipped_sums import LARGEST_N, Block, Clip, Dense
from pymc_dp.records.gradient_rows import GradientRows
from pymc_dp.records.sums import Points, part_of

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
    records : Points

    Notes
    -----
    **Privacy.** One unit adds a vector of Euclidean norm at most `clip_bound`: the sum moves by at most twice
    that when a unit is replaced, by `clip_bound` when one is added or removed, in floating point as in theory
    (`Clip`, docs/proofs/hmc). Sums of integers are exact: neither the order of the units nor where a chunk
    ends matters. A gradient that is not finite adds zero. The gradients of a unit's rows are added before
    they are clipped. What is compiled depends on the model and on shapes, not on values.
    """

    def __init__(self, records: Points):
        self._records, self.d = records, records._start.size
        stand_ins, rows = graph.symbolic_rows(records._terms_of_values, records._roots, records.n_rows)
        inputs = {stand_ins[root]: axis for root, axis in records._roots.items()}
        self._rows = GradientRows(records, rows, inputs)
        width = self._rows.width + (0 if records.unit_of_row is None else 2 * self.d)
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
        return self._sum(theta, clip_bound, *(self._records._rows_of_unit or (None, None)))

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
        return self._sum(theta, clip_bound, *self._records.rows_of(units))

    def _sum(
        self, theta: np.ndarray, clip_bound: float, rows: np.ndarray | None, starts: np.ndarray | None
    ) -> SumOfGradients:
        """Sum over units; unit k has ``rows[starts[k]:starts[k + 1]]``, or row k. Default: all rows."""
        number = self._records.n_rows if rows is None else rows.size
        units = number if starts is None else starts.size - 1
        if units > LARGEST_N:
            raise ValueError(f"more than 2**29 privacy units ({units}): their sum would not be exact.")
        clip, total, clipped = Clip(clip_bound, self.d), np.zeros(self.d), 0
        jacobians = self._rows.jacobians(theta)
        unfinished = np.zeros(self.d)
        for start in range(0, number, self._chunk):
            stop = min(start + self._chunk, number)
            some = slice(start, stop) if rows is None else rows[start:stop]
            data = [part_of(table[0], some, axis) for table, axis in self._records._tables]
            m = stop - start
            blocks = self._rows(theta, jacobians, data, m)
            if starts is not None:
                sums, unfinished = self._of_units(blocks, starts[1:], start, stop, unfinished)
                blocks, m = [Dense(slice(0, self.d), sums)], len(sums)
            clipped += clip.add(blocks, m, total)
        return SumOfGradients(total * clip.step, float(clipped))

    def _of_units(
        self, blocks: list[Block], ends: np.ndarray, start: int, stop: int, unfinished: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums of the units that end within the rows from start to stop, and of those rows that are left."""
        gradients = np.zeros((stop - start, self.d))
        for block in blocks:
            block.put(gradients)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        sums = np.zeros((last - first + 1, self.d))
        sums[0] = unfinished
        kernels.add_rows(gradients, ends[first : last + 1] - start, sums)
        finished = len(sums) if ends[last] == stop else len(sums) - 1
        return sums[:finished], sums[finished:].sum(axis=0)
