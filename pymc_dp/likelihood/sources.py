"""Exact sums over the records of this process: of octaves of scores, and of comparisons with twins."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds, Totals, compare
from pymc_dp.likelihood.fit import CELLS, FIT_TWINS, count_places
from pymc_dp.likelihood.measurements import Shapes
from pymc_dp.likelihood.octaves import OCTAVES, count_octaves
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.twins import Chunk

# Chunks that wait, for each thread: they are in memory.
_WAITING = 2


class Units(Shapes, Protocol):
    """Privacy units whose scores can be had: `Twins`, or `TablesTwins`."""

    def __call__(self, points: np.ndarray, twins: int, random: PrivacyRandom) -> Iterator[Chunk]:
        """Go through all units, in chunks."""


class RecordsHere:
    """The `Source` of records of this process.

    Parameters
    ----------
    units : Units
    random : PrivacyRandom
        Twins are drawn from it.
    cores : int
        Threads in which records are compared, while the scores of the next ones are computed here.

    Notes
    -----
    **Privacy.** Sums are of integers in floating point, exact in any order (docs/proofs/twins, section 1).
    Twins are drawn in one thread, in the order of the records.
    """

    def __init__(self, units: Units, random: PrivacyRandom, cores: int = 1):
        self._units, self._random, self._cores = units, random, cores
        self.size, self.touched, self.parts, self.rank = units.size, units.touched, units.parts, units.rank
        self.lookups, self.sums = units.lookups, units.sums

    @np.errstate(all="ignore")
    def scales(self, phi: np.ndarray, twins: int) -> np.ndarray:
        """See `Source.scales`."""
        total = np.zeros((self.size, OCTAVES))
        for counts in self._each(lambda chunk: count_octaves(chunk, self.size, self.touched), phi, twins):
            total += counts
        return total

    @np.errstate(all="ignore")
    def compare(self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int) -> Totals:
        """See `Source.compare`.

        Raises
        ------
        RuntimeError
            A unit has more terms than the bounds were divided by: a bug.
        """

        def of_some(chunk: Chunk) -> Totals:
            if len(chunk.terms) > self.parts:
                raise RuntimeError("a unit has more terms than its bounds were divided by.")
            totals = Totals(self.size)
            for term in chunk.terms:
                compare(term.own, term.group, term.weights, term.rows(metric), bounds, totals)
            return totals

        total = Totals(self.size)
        for some in self._each(of_some, phi, twins):
            total.add(some)
        return total

    @np.errstate(all="ignore")
    def spread(self, phi: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """See `Source.spread`."""
        total = np.zeros(CELLS)
        for chunk in self._units(phi, FIT_TWINS, self._random):
            total += count_places(chunk, metric, self._random)
        return total

    def _each[T](self, function: Callable[[Chunk], T], phi: np.ndarray, twins: int) -> Iterator[T]:
        """Apply a function to all chunks, of which a few wait at most."""

        def quiet(chunk: Chunk) -> T:
            with np.errstate(all="ignore"):  # of this thread
                return function(chunk)

        chunks = self._units(phi, twins, self._random)
        if self._cores == 1:
            yield from map(quiet, chunks)
            return
        waiting: deque[Future[T]] = deque()
        with ThreadPoolExecutor(self._cores) as pool:
            for chunk in chunks:
                waiting.append(pool.submit(quiet, chunk))
                if len(waiting) > _WAITING * self._cores:
                    yield waiting.popleft().result()
            for one in waiting:
                yield one.result()
