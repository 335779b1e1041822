"""The noisy sums that a surrogate is made of: exact sums of integers, known sensitivities, Gaussians."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pymc_dp.control_variates.clipped_rows import (
    GRID,
    OUTER_GRID,
    RecordRows,
    clipped_integers,
    norms_of,
    rows_at,
)
from pymc_dp.control_variates.histograms import Histogram
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.structure import structure_of
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian, PrivacyRandom
from pymc_dp.records import curvature_kernels as kernels

# Rows whose outer products are added in floating point, exactly.
_EXACT = 4096
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
    progress : callable, optional
        Called with the number of passes over the data that are done, and that there will be.

    Notes
    -----
    Derivatives are in likelihood coordinates phi (`pymc_dp.records.coordinates`), of size p.

    **Privacy.** Neighbouring data sets: one record (privacy unit) replaced. A release is a sum over records
    of a function with values of norm at most 1 in the units of its bound, so that one record moves it by at
    most 2 (a histogram or a sum of outer products: by sqrt(2); a line search of k points: by 2 sqrt(k));
    rounding towards zero never increases a norm, and the sums are of integers. Its noise multiplier is
    ``1 / sqrt(share mu^2)``. A release that is not the next of the schedule is refused.
    """

    def __init__(
        self,
        records: Any,
        settings: ControlVariates,
        mu_squared: float,
        random: PrivacyRandom,
        progress: Callable[[int, int], None] | None = None,
    ):
        self._progress, self._done, self._passes = progress, 0, passes(settings)
        self.records, self.random, self.mu_squared = records, random, mu_squared
        self._left = settings.schedule()
        self.p: int = records.coordinates.size
        self.structure = structure_of(settings.structure, records.coordinates)
        # Derivatives at one point serve several releases; kept for the last point when they are not too many.
        entries = self.p**2 if self.structure.full else self.structure.rows.size
        self._keeps = getattr(records, "curvature", None) is None and 8.0 * records.n * entries <= _KEPT
        self._kept: tuple[bytes, list[RecordRows]] = (b"", [])

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

    def _rows(self, phi: np.ndarray, hessians: bool = False) -> Iterable[RecordRows]:
        self._passed()
        if not self._keeps:
            return rows_at(self.records, phi, self.structure, hessians)
        if self._kept[0] != phi.tobytes():
            self._kept = phi.tobytes(), list(rows_at(self.records, phi, self.structure, True))
        return self._kept[1]

    def _passed(self, number: int = 1) -> None:
        """Count passes; how many there will be is public, and so is that they are made."""
        self._done += number
        if self._progress is not None:
            self._progress(self._done, self._passes)

    def _noisy(self, total: np.ndarray, std: float) -> np.ndarray:
        return Gaussian(std).release(ExactSum(total), self.random)

    def gradient(
        self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, bound: float
    ) -> tuple[np.ndarray, float]:
        """Sum of ``clip(A (g_i - m))`` in units of `bound`, and its noise's standard deviation there."""
        std = self._noise("gradient", 2.0)
        total = np.zeros(self.p, dtype=np.int64)
        for part in self._rows(phi):
            total += part.integers(metric, centre, bound, GRID).sum(axis=0).astype(np.int64)
        return self._noisy(total / GRID, std), std

    def hessian(self, phi: np.ndarray, metric: np.ndarray, bound: float) -> tuple[np.ndarray, float]:
        """Sum of ``clip(A H_i A')`` in Frobenius norm, in units of `bound`, and its noise's scale.

        The noise is symmetric and isotropic in the Frobenius norm: variance s^2 on the diagonal, s^2 / 2 off
        it.
        """
        std = self._noise("hessian", 2.0)
        total = np.zeros(self.structure.rows.size, dtype=np.int64)
        for part in self._rows(phi, hessians=True):
            part.add_hessians(metric, bound, total)
        return self.structure.unpacked(self._noisy(total / GRID, std)), std

    def fisher(self, phi: np.ndarray, metric: np.ndarray, bound: float) -> tuple[np.ndarray, float]:
        """Sum of ``v v'``, ``v = clip(A g_i)`` in units of `bound`, and its noise's scale (see `hessian`)."""
        std = self._noise("fisher", math.sqrt(2.0))
        total = np.zeros((self.p, self.p), dtype=np.int64)
        for part in self._rows(phi):
            inside = part.integers(metric, np.zeros(self.p), bound, OUTER_GRID)
            # Products of integers below 2^31 and sums of 4096 of them are exact in floating point.
            for start in range(0, len(inside), _EXACT):
                some = inside[start : start + _EXACT]
                total += (some.T @ some).astype(np.int64)
        entries = total[self.structure.rows, self.structure.columns] / OUTER_GRID**2
        return self.structure.unpacked(self._noisy(self.structure.packed(entries), std)), std

    def split(self, first: float) -> None:
        """Share the budget of the next pair: `first` of it for the Hessian, the rest for the gradient.

        **Privacy.** Neither is made yet, and both have parameters that were released before, so that they are
        one Gaussian mechanism, whose noise multiplier does not depend on how it is shared.
        """
        if [kind for kind, _ in self._left[:1]] != ["pair"] or not 0 < first < 1:
            raise PrivacyError("The budget of a pair is shared once, and at its turn.")
        share = self._left.pop(0)[1]
        self._left[:0] = [("hessian", first * share), ("gradient", (1 - first) * share)]

    def norms(
        self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, cells: Sequence[int]
    ) -> list[Histogram]:
        """Histograms of the norms of ``A (g_i - m)`` and, for a second number of cells, of ``A H_i A'``."""
        histograms = [Histogram(c, self._noise("histogram", math.sqrt(2.0))) for c in cells]
        for part in self._rows(phi, hessians=len(cells) > 1):
            histograms[0].add(part.norms(metric, centre))
            if len(cells) > 1:
                histograms[1].add(part.hessian_norms(metric))
        for histogram in histograms:
            histogram.counts = self._noisy(histogram.counts, histogram.std)
        return histograms

    def direction(self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, beyond: float) -> np.ndarray:
        """Sum of the unit vectors of ``A (g_i - m)`` over the records whose norm is above `beyond`."""
        std = self._noise("direction", 2.0)
        total = np.zeros(self.p, dtype=np.int64)
        for part in self._rows(phi):
            vectors = part.whitened(metric, centre)
            norms = norms_of(vectors)
            far = norms > beyond
            total += clipped_integers(vectors[far] / norms[far][:, None], 1.0)
        return self._noisy(total / GRID, std)

    def cut(
        self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, bound: float, depth: float
    ) -> tuple[np.ndarray, float]:
        """Sum of what lies of ``A (g_i - m)`` between `bound` and ``bound + depth``, in units of `depth`.

        And its noise's standard deviation there. A record adds a vector along ``A (g_i - m)``, of length 0 if
        its norm is below `bound` and of at most 1.
        """
        std = self._noise("cut", 2.0)
        total = np.zeros(self.p, dtype=np.int64)
        for part in self._rows(phi):
            vectors = part.whitened(metric, centre)
            norms = norms_of(vectors)
            far = norms > bound
            length = np.minimum((norms[far] - bound) / depth, 1.0)
            total += clipped_integers(vectors[far] * (length / norms[far])[:, None], 1.0)
        return self._noisy(total / GRID, std), std

    def line(
        self, theta: np.ndarray, candidates: Sequence[np.ndarray], tempering: float
    ) -> tuple[np.ndarray, float]:
        """Log-likelihood of each candidate against `theta`, clipped at 1 nat a record, and its noise."""
        rows: Callable[[np.ndarray], np.ndarray] = self.records.full_batch.rows
        std = self._noise("line", 2.0 * math.sqrt(len(candidates)))
        base = rows(theta)
        self._passed()
        total = np.zeros(len(candidates), dtype=np.int64)
        for k, candidate in enumerate(candidates):
            total[k] = kernels.sum_of_ratios(rows(candidate), base, tempering, float(GRID))
            self._passed()
        return self._noisy(total / GRID, std), std


def passes(settings: ControlVariates) -> int:
    """How many times a surrogate reads all records: a function of its settings."""
    kinds, number = [kind for kind, _ in settings.schedule()], 0
    for k, kind in enumerate(kinds):
        if kind == "histogram" and kinds[k - 1 : k] == ["histogram"]:
            continue  # of gradients and of Hessians, in one
        number += {"line": 1 + 2 * len(settings.line_steps), "pair": 2}.get(kind, 1)
    return number
