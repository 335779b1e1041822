"""The exact sums over records behind the releases of a surrogate: integers, which parts of a data set add."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
from pymc_dp.control_variates.histograms import counts_of
from pymc_dp.control_variates.structure import Structure
from pymc_dp.errors import PrivacyError
from pymc_dp.records import curvature_kernels as kernels

# Chunks that wait for each thread.
_AHEAD = 2
# Rows whose outer products are added in floating point, exactly.
_EXACT = 4096
#: Bytes of derivatives that are kept between sums.
KEPT = 2**28
#: What is summed; and what of it can be at one point in one pass.
KINDS = ("gradient", "hessian", "fisher", "histogram", "direction", "cut", "line")
TOGETHER = ("gradient", "hessian", "fisher", "direction", "cut")

#: ``total(kind, *arguments)``: a sum over all records, as integers of 64 bits. Private.
Totals = Callable[..., np.ndarray]
_PartOf = Callable[[RecordRows], np.ndarray]


class RecordSums:
    """Sums over the records of one model.

    Parameters
    ----------
    records : RecordModel
        Or anything with `coordinates`, `derivatives` or `curvature`, `full_batch.rows`, n.
    structure : Structure
        Which entries of Hessians are wanted.
    kept : int
        Bytes of derivatives at one point that may be kept: they serve several sums.

    Attributes
    ----------
    threads : int
        That chunks of records are divided among: of `records`, or one. Sums are the same integers.

    Notes
    -----
    **Privacy.** All sums are private and exact. What a record adds is a function of that record and of the
    arguments, a vector of integers whose norm is at most `GRID` (histogram: 1 each; outer products:
    ``OUTER_GRID**2``; line search: `GRID` a candidate). Sums of integers do not depend on the order or on how
    records are divided into parts.
    """

    def __init__(self, records: Any, structure: Structure, kept: int | None = None):
        self.records, self.structure, self.p = records, structure, structure.p
        entries = self.p**2 if structure.full else structure.rows.size
        most = KEPT if kept is None else kept
        self._keeps = getattr(records, "curvature", None) is None and 8.0 * records.n * entries <= most
        self._kept: tuple[bytes, list[RecordRows]] = (b"", [])
        self._made: dict[bytes, np.ndarray] = {}
        self.threads: int = getattr(records, "threads", 1)

    def __call__(self, kind: str, *arguments: Any) -> np.ndarray:
        """A sum, by its kind."""
        if kind not in KINDS:
            raise PrivacyError("There is no such sum.")
        return getattr(self, kind)(*arguments)

    def ahead(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """Make sums at one point in one pass over the data; each is kept until it is asked for.

        Parameters
        ----------
        requests : sequence of (str, sequence)
            Of `TOGETHER`, and their arguments: with the same phi and metric.
        """
        phi, metric = requests[0][1][:2]
        if any(kind not in TOGETHER or a[0] is not phi or a[1] is not metric for kind, a in requests):
            raise PrivacyError("These sums are not at one point.")
        parts = [self._part_of(kind, *arguments[2:], metric=metric) for kind, arguments in requests]
        totals = self._added(phi, metric, parts, any(kind == "hessian" for kind, _ in requests))
        self._made = {
            _key(kind, arguments): total for (kind, arguments), total in zip(requests, totals, strict=True)
        }

    def _rows(self, phi: np.ndarray, metric: np.ndarray, hessians: bool = False) -> Iterable[RecordRows]:
        if not self._keeps:
            return rows_at(self.records, phi, metric, self.structure, hessians)
        place = phi.tobytes() + metric.tobytes()
        if self._kept[0] != place:
            self._kept = place, list(rows_at(self.records, phi, metric, self.structure, True))
        return self._kept[1]

    def _added(
        self, phi: np.ndarray, metric: np.ndarray, parts: Sequence[_PartOf], hessians: bool = False
    ) -> list[np.ndarray]:
        """Sums of functions of chunks of records, in one pass."""

        def of_chunk(rows: RecordRows) -> list[np.ndarray]:
            return [part(rows) for part in parts]

        totals: list[Any] = [0] * len(parts)
        for found in in_threads(of_chunk, self._rows(phi, metric, hessians), self.threads):
            totals = [total + new for total, new in zip(totals, found, strict=True)]
        return totals

    def _sum(self, kind: str, phi: np.ndarray, metric: np.ndarray, *arguments: Any) -> np.ndarray:
        """One of them; if it was made ahead, without a pass."""
        made = self._made.pop(_key(kind, (phi, metric, *arguments)), None)
        if made is not None:
            return made
        part = self._part_of(kind, *arguments, metric=metric)
        return self._added(phi, metric, [part], kind == "hessian")[0]

    def _part_of(self, kind: str, *arguments: Any, metric: np.ndarray) -> _PartOf:
        return partial(getattr(self, f"_{kind}_of"), metric, *arguments)

    def gradient(self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, bound: float) -> np.ndarray:
        """``clip(A (g_i - m))`` in units of bound / GRID, shape (p,)."""
        return self._sum("gradient", phi, metric, centre, bound)

    def _gradient_of(
        self, metric: np.ndarray, centre: np.ndarray, bound: float, part: RecordRows
    ) -> np.ndarray:
        return part.integers(metric, centre, bound, GRID).sum(axis=0).astype(np.int64)

    def hessian(self, phi: np.ndarray, metric: np.ndarray, bound: float) -> np.ndarray:
        """Packed ``clip(A H_i A')`` in units of bound / GRID, shape (m,)."""
        return self._sum("hessian", phi, metric, bound)

    def _hessian_of(self, metric: np.ndarray, bound: float, part: RecordRows) -> np.ndarray:
        total = np.zeros(self.structure.rows.size, dtype=np.int64)
        part.add_hessians(metric, bound, total)
        return total

    def fisher(self, phi: np.ndarray, metric: np.ndarray, bound: float) -> np.ndarray:
        """Released entries of ``v v'``, ``v = clip(A g_i)`` in units of bound / OUTER_GRID, shape (m,)."""
        return self._sum("fisher", phi, metric, bound)

    def _fisher_of(self, metric: np.ndarray, bound: float, part: RecordRows) -> np.ndarray:
        total = np.zeros((self.p, self.p), dtype=np.int64)
        inside = part.integers(metric, np.zeros(self.p), bound, OUTER_GRID)
        # Products of integers below 2^31 and sums of 4096 of them are exact in floating point.
        for start in range(0, len(inside), _EXACT):
            some = inside[start : start + _EXACT]
            total += (some.T @ some).astype(np.int64)
        return total[self.structure.rows, self.structure.columns]

    def histogram(
        self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, cells: Sequence[int]
    ) -> np.ndarray:
        """Counts of norms of ``A (g_i - m)`` and, for a second number of cells, of ``A H_i A'``; joined."""

        def of_chunk(part: RecordRows) -> np.ndarray:
            found = [counts_of(part.norms(metric, centre), cells[0])]
            if len(cells) > 1:
                found.append(counts_of(part.hessian_norms(metric), cells[1]))
            return np.concatenate(found)

        return self._added(phi, metric, [of_chunk], len(cells) > 1)[0]

    def direction(self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, beyond: float) -> np.ndarray:
        """Unit vectors of ``A (g_i - m)`` of the records whose norm is above `beyond`, in 1 / GRID."""
        return self._sum("direction", phi, metric, centre, beyond)

    def _direction_of(
        self, metric: np.ndarray, centre: np.ndarray, beyond: float, part: RecordRows
    ) -> np.ndarray:
        vectors = part.whitened(metric, centre)
        norms = norms_of(vectors)
        far = norms > beyond
        return clipped_integers(vectors[far] / norms[far][:, None], 1.0)

    def cut(
        self, phi: np.ndarray, metric: np.ndarray, centre: np.ndarray, bound: float, depth: float
    ) -> np.ndarray:
        """What lies of ``A (g_i - m)`` between `bound` and ``bound + depth``, in units of depth / GRID."""
        return self._sum("cut", phi, metric, centre, bound, depth)

    def _cut_of(
        self, metric: np.ndarray, centre: np.ndarray, bound: float, depth: float, part: RecordRows
    ) -> np.ndarray:
        vectors = part.whitened(metric, centre)
        norms = norms_of(vectors)
        far = norms > bound
        length = np.minimum((norms[far] - bound) / depth, 1.0)
        return clipped_integers(vectors[far] * (length / norms[far])[:, None], 1.0)

    def line(self, theta: np.ndarray, candidates: Sequence[np.ndarray], tempering: float) -> np.ndarray:
        """Log-likelihood of each candidate against `theta`, clipped at 1 nat a record, in 1 / GRID nats."""
        rows: Callable[[np.ndarray], np.ndarray] = self.records.full_batch.rows
        base = rows(theta)
        total = np.zeros(len(candidates), dtype=np.int64)
        for k, candidate in enumerate(candidates):
            total[k] = kernels.sum_of_ratios(rows(candidate), base, tempering, float(GRID))
        return total


def _key(kind: str, arguments: Sequence[Any]) -> bytes:
    """What tells two sums apart."""
    return kind.encode() + b"".join(np.asarray(a, dtype=np.float64).tobytes() for a in arguments)


def in_threads(function: Callable[[Any], Any], parts: Iterable[Any], threads: int) -> Iterator[Any]:
    """Values of a function of chunks of records, in their order; a few chunks at a time."""
    if threads == 1:
        yield from map(function, parts)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Any] = deque()
        for part in parts:
            waiting.append(pool.submit(function, part))
            if len(waiting) > _AHEAD * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def totals_of(records: Any, structure: Structure) -> Totals:
    """Sums over records wherever they are.

    Parameters
    ----------
    records : RecordModel or ShardedRecords
        With ``surrogate_sums(structure)`` where they are not here.
    structure : Structure
    """
    elsewhere = getattr(records, "surrogate_sums", None)
    return RecordSums(records, structure) if elsewhere is None else elsewhere(structure)
