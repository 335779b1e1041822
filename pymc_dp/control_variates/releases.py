"""The noisy sums that a surrogate is made of: exact sums of integers, known sensitivities, Gaussians."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.records.derivatives import Derivatives

# A clipped vector is rounded towards zero, coordinate by coordinate, to multiples of its bound / GRID.
GRID = 2**24
# Histograms of log2 of a norm; the first and the last cell are open.
OCTAVES = 40
# A record with a derivative beyond this counts like one whose derivative is not finite: its square, and its
# quotient by any clip bound, are then finite.
_LARGEST = 1e100
# Bytes of derivatives that are kept between releases.
_KEPT = 2**28


class Releases:
    """Makes the releases of a schedule, in its order, each once.

    Parameters
    ----------
    records : RecordModel
    settings : ControlVariates
    mu_squared : float
        Budget of the whole call; inf for no noise.
    random : PrivacyRandom

    Notes
    -----
    **Privacy.** Neighbouring data sets: one record (privacy unit) replaced. A release is a sum over records
    of a function with values of norm at most 1 in the units of its bound, so that one record moves it by at
    most 2 (a histogram: by sqrt(2); a line search of k points: by 2 sqrt(k)); rounding towards zero never
    increases a norm, and the sums are of integers. Its noise multiplier is ``1 / sqrt(share mu^2)``. A
    release that is not the next of the schedule is refused.
    """

    def __init__(self, records: Any, settings: ControlVariates, mu_squared: float, random: PrivacyRandom):
        self.records, self.random, self.mu_squared = records, random, mu_squared
        self._left = settings.schedule()
        # Derivatives at one point serve several releases; kept for the last point when they are not too many.
        self._keeps = 8.0 * records.n * records.d**2 <= _KEPT
        self._kept: tuple[bytes, list[Derivatives]] = (b"", [])

    @property
    def finished(self) -> bool:
        """Whether every release was made."""
        return not self._left

    def _noise(self, kind: str, sensitivity: float) -> float:
        """Standard deviation of the next release's noise; it is spent."""
        if not self._left or self._left[0][0] != kind:
            raise PrivacyError(
                f"The surrogate's next release is not a {kind}: nothing is made that was not paid."
            )
        _, share = self._left.pop(0)
        return sensitivity / math.sqrt(share * self.mu_squared)

    def _derivatives(self, theta: np.ndarray, hessians: bool = False) -> Iterable[Derivatives]:
        if not self._keeps:
            return self.records.derivatives(theta, hessians=hessians)
        if self._kept[0] != theta.tobytes():
            self._kept = theta.tobytes(), list(self.records.derivatives(theta, hessians=True))
        return self._kept[1]

    def _noisy(self, total: np.ndarray, std: float) -> np.ndarray:
        return total + std * self.random.normals(total.shape)

    def gradient(
        self, theta: np.ndarray, metric: np.ndarray, centre: np.ndarray, bound: float
    ) -> tuple[np.ndarray, float]:
        """Sum of ``clip(A (g_i - m))`` in units of `bound`, and its noise's standard deviation there."""
        std = self._noise("gradient", 2.0)
        total = np.zeros(self.records.d, dtype=np.int64)
        for part in self._derivatives(theta):
            total += _integers(whitened(part.gradient, metric, centre) / bound)
        return self._noisy(total / GRID, std), std

    def hessian(self, theta: np.ndarray, metric: np.ndarray, bound: float) -> tuple[np.ndarray, float]:
        """Sum of ``clip(A H_i A')`` in Frobenius norm, in units of `bound`, and its noise's scale.

        The noise is symmetric and isotropic in the Frobenius norm: variance s^2 on the diagonal, s^2 / 2 off
        it.
        """
        std = self._noise("hessian", 2.0)
        d = self.records.d
        scale, rows, columns = _packing(d)
        total = np.zeros(scale.size, dtype=np.int64)
        for part in self._derivatives(theta, hessians=True):
            packed = squared(part.hessian, metric)[:, rows, columns] * scale
            total += _integers(packed / bound)
        return unpacked(self._noisy(total / GRID, std), d), std

    def norms(
        self, theta: np.ndarray, metric: np.ndarray, centre: np.ndarray, cells: int, hessians_too: bool
    ) -> "list[Histogram]":
        """Histograms of the norms of ``A (g_i - m)`` and, if asked for, of ``A H_i A'``: one pass."""
        histograms = [self._histogram(cells) for _ in range(1 + hessians_too)]
        for part in self._derivatives(theta, hessians=hessians_too):
            histograms[0].add(_norms(whitened(part.gradient, metric, centre)))
            if hessians_too:
                histograms[1].add(_norms(squared(part.hessian, metric).reshape(len(part.gradient), -1)))
        for histogram in histograms:
            histogram.counts = self._noisy(histogram.counts, histogram.std)
        return histograms

    def _histogram(self, cells: int) -> "Histogram":
        return Histogram(cells, self._noise("histogram", math.sqrt(2.0)))

    def direction(
        self, theta: np.ndarray, metric: np.ndarray, centre: np.ndarray, beyond: float
    ) -> np.ndarray:
        """Sum of the unit vectors of ``A (g_i - m)`` over the records whose norm is above `beyond`."""
        std = self._noise("direction", 2.0)
        total = np.zeros(self.records.d, dtype=np.int64)
        for part in self._derivatives(theta):
            vectors = whitened(part.gradient, metric, centre)
            norms = _norms(vectors)
            far = norms > beyond
            total += _integers(vectors[far] / norms[far][:, None])
        return self._noisy(total / GRID, std)

    def line(
        self, theta: np.ndarray, candidates: Sequence[np.ndarray], tempering: float
    ) -> tuple[np.ndarray, float]:
        """Log-likelihood of each candidate against `theta`, clipped at 1 nat a record, and its noise."""
        rows: Callable[[np.ndarray], np.ndarray] = self.records.full_batch.rows
        std = self._noise("line", 2.0 * math.sqrt(len(candidates)))
        base = rows(theta)
        total = np.zeros(len(candidates), dtype=np.int64)
        for k, candidate in enumerate(candidates):
            with np.errstate(all="ignore"):
                ratio = np.nan_to_num(tempering * (rows(candidate) - base), nan=-1.0)
            total[k] = np.trunc(np.clip(ratio, -1, 1) * GRID).astype(np.int64).sum()
        return self._noisy(total / GRID, std), std


class Histogram:
    """Counts of log2 of norms.

    Parameters
    ----------
    cells : int
        Of an octave.
    std : float
        Standard deviation of the noise of each count.
    """

    def __init__(self, cells: int, std: float):
        self.cells, self.std = cells, std
        self.counts = np.zeros(2 * OCTAVES * cells + 1)

    def add(self, norms: np.ndarray) -> None:
        """Count some norms, finite and >= 0."""
        with np.errstate(divide="ignore"):
            cell = np.floor(np.log2(np.maximum(norms, 1e-300)) * self.cells)
        most = OCTAVES * self.cells
        self.counts += np.bincount(
            (np.clip(cell, -most, most) + most).astype(int), minlength=self.counts.size
        )

    def edge(self, cell: int) -> float:
        """Lower edge of a cell."""
        return 2.0 ** ((cell - OCTAVES * self.cells) / self.cells)

    def top(self, significance: float) -> int | None:
        """Highest cell that is not empty, beyond doubt; None if all may be empty."""
        found = np.flatnonzero(self.counts > significance * max(self.std, 0.25))
        return int(found[-1]) if found.size else None

    def upper(self, top: int, number: float) -> int:
        """Cell from which up to `top` there are at least `number` records."""
        enough = np.flatnonzero(np.cumsum(self.counts[top::-1]) >= number)
        return top - (int(enough[0]) if enough.size else 0)


def whitened(gradient: np.ndarray, metric: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """``A (g_i - m)``, shape (k, d); a gradient that is not finite, or enormous, counts as m."""
    with np.errstate(all="ignore"):
        vectors = (gradient - centre) @ metric.T
    return _finite(vectors)


def squared(hessian: np.ndarray | None, metric: np.ndarray) -> np.ndarray:
    """``A H_i A'``, shape (k, d, d); a Hessian that is not finite, or enormous, counts as 0."""
    if hessian is None:
        raise PrivacyError("Hessians were not computed.")
    with np.errstate(all="ignore"):
        matrices = metric @ hessian @ metric.T
    return _finite(matrices.reshape(len(matrices), -1)).reshape(matrices.shape)


def factors(vectors: np.ndarray, bound: float) -> np.ndarray:
    """Factors that clip vectors, shape (k, ...), to a norm."""
    norms = _norms(vectors.reshape(len(vectors), -1))
    return np.where(norms > bound, bound / np.maximum(norms, 1e-300), 1.0)


def unpacked(values: np.ndarray, d: int) -> np.ndarray:
    """Symmetric matrix from its packed upper triangle."""
    scale, rows, columns = _packing(d)
    matrix = np.zeros((d, d))
    matrix[rows, columns] = matrix[columns, rows] = values / scale
    return matrix


def _packing(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Upper triangle with off-diagonals times sqrt(2): its Euclidean norm is the Frobenius norm."""
    rows, columns = np.triu_indices(d)
    return np.where(rows == columns, 1.0, math.sqrt(2.0)), rows, columns


def _finite(vectors: np.ndarray) -> np.ndarray:
    return np.where(np.all(np.abs(vectors) <= _LARGEST, axis=1, keepdims=True), vectors, 0.0)


def _norms(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=1)


def _integers(vectors: np.ndarray) -> np.ndarray:
    """Sum over rows, each clipped to norm 1 and rounded towards zero to multiples of 1 / GRID."""
    # The norm is at most 1 in floating point too.
    inside = vectors * (factors(vectors, 1.0) * (1 - 1e-12))[:, None]
    return np.trunc(inside * GRID).astype(np.int64).sum(axis=0)
