"""What releases ask of a record: whitened gradients, and norms and sums of whitened Hessians, on the grid."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from pymc_dp.control_variates.structure import Structure
from pymc_dp.errors import PrivacyError
from pymc_dp.records import curvature_kernels as kernels
from pymc_dp.records.curvature_rows import CurvatureRows
from pymc_dp.records.derivatives import Derivatives

# A clipped vector is rounded towards zero, coordinate by coordinate, to multiples of its bound / GRID.
GRID = 2**24
# Outer products are of gradients rounded to multiples of bound / OUTER_GRID: exact integers.
OUTER_GRID = 2**15
# A record with a derivative beyond this counts like one whose derivative is not finite: its square, and its
# quotient by any clip bound, are then finite.
_LARGEST = 1e100
# Relative room for the rounding errors of a norm of up to 2**20 squares and of its scaling (2**-53 each).
_ROOM, _MOST_ENTRIES = 1.0 - 2.0**-30, 2**20
# Records whose integers are added in floating point, exactly: each is at most GRID.
_MOST_RECORDS = 2**29


class RecordRows(Protocol):
    """Derivatives of some records at one point. All of it is private.

    Attributes
    ----------
    units : slice
        Which.
    """

    @property
    def units(self) -> slice:
        """Which."""

    def whitened(self, metric: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """``A (g_i - m)``, shape (m, p); a gradient that is not finite, or enormous, counts as m."""

    def norms(self, metric: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Their norms, shape (m,)."""

    def integers(self, metric: np.ndarray, centre: np.ndarray, bound: float, grid: int) -> np.ndarray:
        """Clipped to `bound` and truncated, in units of bound / grid: integers, shape (m, p).

        The Euclidean norm of a row is at most `grid`.
        """

    def hessian_norms(self, metric: np.ndarray) -> np.ndarray:
        """Frobenius norms of ``A H_i A'``, shape (m,); a Hessian that is not finite counts as 0."""

    def add_hessians(self, metric: np.ndarray, bound: float, total: np.ndarray) -> None:
        """Add packed ``A H_i A'``, clipped to `bound` and truncated to multiples of bound / GRID.

        To `total`, integers of shape (entries,). What a record adds has a Euclidean norm of at most GRID.
        """

    def entries(self) -> np.ndarray:
        """Released entries of H_i, shape (m, entries)."""


class ByDerivatives:
    """From gradients and Hessians as they are.

    Parameters
    ----------
    part : Derivatives
    structure : Structure
    """

    def __init__(self, part: Derivatives, structure: Structure):
        self._part, self._structure = part, structure
        self.units = part.units

    def whitened(self, metric: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """See `RecordRows`."""
        return whitened(self._part.gradient, metric, centre)

    def norms(self, metric: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """See `RecordRows`."""
        return norms_of(self.whitened(metric, centre))

    def integers(self, metric: np.ndarray, centre: np.ndarray, bound: float, grid: int) -> np.ndarray:
        """See `RecordRows`."""
        return rounded(self.whitened(metric, centre), bound, grid)

    def hessian_norms(self, metric: np.ndarray) -> np.ndarray:
        """See `RecordRows`."""
        return norms_of(squared(self._part.hessian, metric, self._structure))

    def add_hessians(self, metric: np.ndarray, bound: float, total: np.ndarray) -> None:
        """See `RecordRows`."""
        total += clipped_integers(squared(self._part.hessian, metric, self._structure), bound)

    def entries(self) -> np.ndarray:
        """See `RecordRows`."""
        if self._part.hessian is None:
            raise PrivacyError("Hessians were not computed.")
        return self._part.hessian


class ByPredictors:
    """From a few numbers times rows: about p^2 operations a record instead of p^3.

    Parameters
    ----------
    part : CurvatureRows
    structure : Structure

    Notes
    -----
    **Privacy.** docs/proofs/predictors. What a record adds to a sum is a vector of integers: the entries of
    its whitened Hessian, as they were computed in floating point, times a factor that makes their norm at
    most (1 - 2**-30) GRID, truncated towards zero. It depends on the record, its place and public numbers.
    """

    def __init__(self, part: CurvatureRows, structure: Structure):
        self._part, self._structure = part, structure
        self.units = part.units
        self._last: tuple[Any, Any] = (None, None)

    def _rows(self, metric: np.ndarray) -> np.ndarray:
        """Whitened rows of the predictors; several sums ask for those of one metric."""
        if self._last[0] is not metric:
            self._last = metric, self._part.rows(metric)
        return self._last[1]

    def whitened(self, metric: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """See `RecordRows`."""
        return kernels.combined(self._rows(metric), self._part.first, metric @ centre)

    def norms(self, metric: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """See `RecordRows`."""
        return kernels.lengths(self.whitened(metric, centre))

    def integers(self, metric: np.ndarray, centre: np.ndarray, bound: float, grid: int) -> np.ndarray:
        """See `RecordRows`."""
        vectors = self.whitened(metric, centre)
        kernels.to_grid(vectors, _steps(grid, bound), _ROOM * grid)
        return vectors

    def hessian_norms(self, metric: np.ndarray) -> np.ndarray:
        """See `RecordRows`."""
        rows, second = self._rows(metric), self._part.second
        if self._structure.full:
            return kernels.norms(rows, second)
        return kernels.entry_norms(rows, second, *self._wanted())

    def add_hessians(self, metric: np.ndarray, bound: float, total: np.ndarray) -> None:
        """See `RecordRows`."""
        rows, second = self._rows(metric), self._part.second
        scale, steps = _steps(GRID, bound), _ROOM * GRID
        if self._structure.full and len(rows) == 1:
            whole = np.zeros((rows.shape[2], rows.shape[2]))
            kernels.add_rank_one(rows, second, scale, steps, whole)
            found = whole[self._structure.rows, self._structure.columns]
        elif self._structure.full:
            found = np.zeros(total.size)
            kernels.add_whole(rows, second, scale, steps, found)
        else:
            found = np.zeros(total.size)
            kernels.add_entries(rows, second, *self._wanted(), scale, steps, found)
        total += found.astype(np.int64)

    def entries(self) -> np.ndarray:
        """See `RecordRows`."""
        columns, factors = self._wanted()
        rows = self._part.rows(np.eye(self._structure.p))
        return kernels.all_entries(rows, self._part.second, columns, np.ones_like(factors))

    def _wanted(self) -> tuple[np.ndarray, np.ndarray]:
        structure = self._structure
        return np.stack([structure.rows, structure.columns]), np.sqrt(structure.weights)


def _steps(grid: int, bound: float) -> float:
    """Grid steps of 1; where that is infinite every record counts as 0."""
    return grid / bound if bound > 0 else np.inf


def rows_at(
    records: Any, phi: np.ndarray, metric: np.ndarray, structure: Structure, hessians: bool
) -> Iterator[RecordRows]:
    """Go through all records in chunks.

    Parameters
    ----------
    records : RecordModel
        Or anything with `derivatives`.
    phi : ndarray, shape (p,)
    metric : ndarray, shape (p, p)
        About posterior standard deviations: over so many curvature is spread that is all in a kink.
    structure : Structure
        Which entries of Hessians are wanted.
    hessians : bool
        Whether any is.
    """
    p = structure.p
    if np.shape(phi) != (p,) or np.shape(metric) != (p, p):
        raise PrivacyError("A point or a metric of another size: rows would be read that are not a record's.")
    source = getattr(records, "curvature", None)
    if source is not None and structure.rows.size <= _MOST_ENTRIES and records.n <= _MOST_RECORDS:
        for rows in source(phi, metric):
            yield ByPredictors(rows, structure)
        return
    wanted = hessians and (True if structure.full else (structure.rows, structure.columns))
    for part in records.derivatives(phi, hessians=wanted):
        yield ByDerivatives(part, structure)


def whitened(gradient: np.ndarray, metric: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """``A (g_i - m)``, shape (k, p); a gradient that is not finite, or enormous, counts as m."""
    with np.errstate(all="ignore"):
        vectors = (gradient - centre) @ metric.T
    return _finite(vectors)


def squared(hessian: np.ndarray | None, metric: np.ndarray, structure: Structure) -> np.ndarray:
    """``A H_i A'``, packed, shape (k, m); a Hessian that is not finite, or enormous, counts as 0."""
    if hessian is None:
        raise PrivacyError("Hessians were not computed.")
    with np.errstate(all="ignore"):
        return _finite(structure.transformed(hessian, metric))


def factors(vectors: np.ndarray, bound: float) -> np.ndarray:
    """Factors that clip vectors, shape (k, m), to a norm."""
    return shares(norms_of(vectors), bound)


def shares(norms: np.ndarray, bound: float) -> np.ndarray:
    """Factors that make norms at most `bound`."""
    with np.errstate(all="ignore"):
        return np.where(norms > bound, bound / np.maximum(norms, 1e-300), 1.0)


def _finite(vectors: np.ndarray) -> np.ndarray:
    return np.where(np.all(np.abs(vectors) <= _LARGEST, axis=1, keepdims=True), vectors, 0.0)


def norms_of(vectors: np.ndarray) -> np.ndarray:
    """Euclidean norms of rows."""
    return np.linalg.norm(vectors, axis=1)


def rounded(vectors: np.ndarray, bound: float, grid: int) -> np.ndarray:
    """Rows, each clipped to norm `bound` and rounded towards zero, in units of bound / grid."""
    with np.errstate(all="ignore"):
        # A quotient may overflow, if the bound is tiny: such a record counts as 0, as enormous ones do.
        quotients = _finite(vectors / bound)
    # The norm is at most 1 in floating point too.
    return np.trunc(quotients * (factors(quotients, 1.0) * (1 - 1e-12))[:, None] * grid)


def clipped_integers(vectors: np.ndarray, bound: float) -> np.ndarray:
    """Sum of rows, each clipped to norm `bound` and rounded towards zero to multiples of bound / GRID."""
    return rounded(vectors, bound, GRID).astype(np.int64).sum(axis=0)
