"""Gradients and Hessians of each record as a few numbers times its rows, a chunk of records at a time."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_dp.records import curvature_kernels as kernels
from pymc_dp.records import graph
from pymc_dp.records.predictors import Piece, Predictors
from pymc_dp.records.sums import compiled, guarded

# Rows that are worked on at once, at most, and numbers of their whitened rows: they stay in the cache.
_ROWS, _NUMBERS = 4096, 2**16
# Posterior standard deviations of a predictor on each side of a kink, over which its curvature is spread.
_BEND = 5.0


class CurvatureRows(NamedTuple):
    """Derivatives of m records at one point. All of it is private.

    Attributes
    ----------
    units : slice
        Which records.
    first : ndarray, shape (m, k)
        Derivatives by the predictors.
    second : ndarray, shape (m, k (k + 1) / 2)
        Second ones: the upper triangle, row by row.
    values : ndarray, shape (m, k)
        Predictors.
    pieces : list of (Piece, ndarray or None)
        With the matrix, shape (m, c), or the positions, (m, numbers), of these records.
    """

    units: slice
    first: np.ndarray
    second: np.ndarray
    values: np.ndarray
    pieces: list[tuple[Piece, Any]]

    def rows(self, metric: np.ndarray) -> np.ndarray:
        """Rows of the predictors, each times a matrix A of shape (q, p): shape (k, m, q)."""
        return rows_in(metric, self.pieces, *self.first.shape)


def rows_in(metric: np.ndarray, pieces: Sequence[tuple[Piece, Any]], m: int, k: int) -> np.ndarray:
    """Rows of k predictors of m records, each times a matrix A of shape (q, p): shape (k, m, q)."""
    out = np.zeros((k, m, len(metric)))
    fresh = [True] * k
    with np.errstate(all="ignore"):
        for piece, other in pieces:
            for j in range(piece.numbers):
                target = out[piece.first + j]
                if piece.kind == "values":
                    kernels.add_constant(target, np.ascontiguousarray(metric[:, piece.columns[j]]))
                elif piece.kind == "lookup":
                    table = np.ascontiguousarray(metric[:, piece.columns].T)
                    kernels.add_looked_up(target, table, np.ascontiguousarray(other[:, j]))
                else:
                    matrix = metric[:, piece.columns[:, j]].T
                    if fresh[piece.first + j]:
                        np.matmul(other, matrix, out=target)
                    else:
                        target += other @ matrix
                fresh[piece.first + j] = False
    return out


class CurvatureSource:
    """Compiled derivatives by predictors.

    Parameters
    ----------
    predictors : Predictors
    coordinates : Coordinates
    roots : mapping of Variable to int
        Data leaves with one entry a record, and the axis of the records, in the order of
        ``predictors.records``.
    n : int
    compile_kwargs : mapping
        Passed to `pytensor.function`.

    Notes
    -----
    **Privacy.** What is compiled depends on the model and on shapes. Row i of all outputs is a function of
    record i and of the point: tried on made-up records when the predictors were found. Look-ups stay
    within their tables (`pymc_dp.records.graph.within_tables`).
    """

    def __init__(
        self,
        predictors: Predictors,
        coordinates: Any,
        roots: Mapping[Variable, int],
        n: int,
        compile_kwargs: Mapping[str, Any],
    ):
        self.predictors, self.n = predictors, n
        self._coordinates, self._roots, self._kwargs = coordinates, dict(roots), dict(compile_kwargs)
        inputs = list(predictors.records)
        self._table = [
            inputs.index(p.other)
            if p.other in inputs and predictors.records[p.other] == 0
            else None
            for p in predictors.pieces
        ]  # fmt: skip
        size = predictors.size * coordinates.size
        self._chunk = max(min(_ROWS, _NUMBERS // size // 4 * 4), 64)

    @cached_property
    def _function(self) -> Any:
        p = self.predictors
        given = [
            piece.other
            for piece, table in zip(p.pieces, self._table, strict=True)
            if table is None and piece.other is not None
        ]
        outputs = self._coordinates.joined([*p.derivatives(), *given])
        return compiled([self._coordinates.vector, *p.records], outputs, self._kwargs, private=p.records)

    @cached_property
    def _shifted(self) -> Any:
        """First derivatives where each record's predictors are moved."""
        shifts = pt.matrix("shifts", dtype="float64")
        (output,) = self._coordinates.joined([self.predictors.shifted(shifts)])
        given = list(self.predictors.records)
        return compiled([self._coordinates.vector, shifts, *given], output, self._kwargs, private=given)

    def __call__(self, phi: np.ndarray, metric: np.ndarray) -> Iterator[CurvatureRows]:
        """Go through all records in chunks.

        Parameters
        ----------
        phi : ndarray, shape (p,)
        metric : ndarray, shape (p, p)
            A, for kinks: about posterior standard deviations, that is, of ``|A x|`` for a row x.
        """
        for start in range(0, self.n, self._chunk):
            units = slice(start, min(start + self._chunk, self.n))
            data = [
                _plain(graph.leaf_value(root)[(slice(None),) * axis + (units,)])
                for root, axis in self._roots.items()
            ]
            first, second, values, *others = guarded(self._function, phi, *data)
            given, m = iter(others), units.stop - units.start
            pieces: list[tuple[Piece, np.ndarray | None]] = []
            for piece, table in zip(self.predictors.pieces, self._table, strict=True):
                other = None
                if piece.other is not None:
                    other = np.reshape(next(given) if table is None else data[table], (m, -1))
                    dtype = np.int64 if piece.kind == "lookup" else np.float64
                    other = np.ascontiguousarray(other, dtype=dtype)
                pieces.append((piece, other))
            rows = CurvatureRows(
                units, np.ascontiguousarray(first), np.ascontiguousarray(second), values, pieces
            )
            self._bend(rows, phi, metric, data)
            yield rows

    def _bend(self, rows: CurvatureRows, phi: np.ndarray, metric: np.ndarray, data: list[np.ndarray]) -> None:
        """Put secants of first derivatives in the place of second ones that are 0 almost everywhere."""
        m, k = rows.first.shape
        for a in self.predictors.kinks:
            shifts = np.zeros((m, k))
            with np.errstate(all="ignore"):
                shifts[:, a] = _BEND * np.linalg.norm(rows.rows(metric)[a], axis=1)
            above, below = (guarded(self._shifted, phi, sign * shifts, *data)[:, a] for sign in (1, -1))
            with np.errstate(all="ignore"):
                secant = (above - below) / (2 * shifts[:, a])
            rows.second[:, a * k - a * (a - 1) // 2] = np.nan_to_num(secant, posinf=0.0, neginf=0.0)


def _plain(values: np.ndarray) -> np.ndarray:
    """In the memory layout that functions are compiled for."""
    return values if values.flags.c_contiguous and values.flags.writeable else np.array(values, order="C")
