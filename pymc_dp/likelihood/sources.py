"""Exact sums over the records of this process: of octaves of scores, and of comparisons with twins."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds, Totals, compare
from pymc_dp.likelihood.fit import CELLS, FIT_TWINS, count_places
from pymc_dp.likelihood.measurements import Shapes
from pymc_dp.likelihood.octaves import OCTAVES, count_octaves
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.threads import Each, InThreads
from pymc_dp.records.twins import Chunk


class Units(Shapes, Protocol):
    """Privacy units whose scores can be had: `Twins`, or `TablesTwins`."""

    @property
    def apart(self) -> Sequence["Units"]:
        """Of observed variables that have coordinates in common one: these alone."""

    def __call__(
        self, points: np.ndarray, twins: int, random: PrivacyRandom, each: Each
    ) -> Iterator[Callable[[], Chunk]]:
        """Go through all units, in chunks that are computed when they are called."""


class RecordsHere:
    """The `Source` of records of this process.

    Parameters
    ----------
    units : Units
    random : PrivacyRandom
        Twins are drawn from it.
    cores : int
        Threads in which outcomes are drawn, scores computed and records compared.

    Notes
    -----
    **Privacy.** Sums are of integers in floating point, exact in any order (docs/proofs/twins, section 1).
    Twins are drawn from streams of their own, which do not depend on how many threads there are.
    """

    def __init__(self, units: Units, random: PrivacyRandom, cores: int = 1):
        self._units, self._random, self._cores, self._threads = units, random, cores, InThreads(cores)
        self.size, self.touched, self.parts, self.rank = units.size, units.touched, units.parts, units.rank
        self.lookups, self.sums = units.lookups, units.sums

    @property
    def apart(self) -> Sequence["RecordsHere"]:
        """See `Source.apart`."""
        return [RecordsHere(units, self._random, self._cores) for units in self._units.apart]

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
                rows = term.rows(metric)
                compare(term.own, term.group, term.weights, rows, bounds, totals, chunk.first, self.parts)
            return totals

        total = Totals(self.size)
        for some in self._each(of_some, phi, twins):
            total.add(some)
        return total

    @np.errstate(all="ignore")
    def spread(self, phi: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """See `Source.spread`."""
        total = np.zeros(CELLS)
        (places,) = self._random.generators(1)
        for chunk in self._each(lambda chunk: chunk, phi, FIT_TWINS):
            total += count_places(chunk, metric, places)
        return total

    def _each[T](self, function: Callable[[Chunk], T], points: np.ndarray, twins: int) -> Iterator[T]:
        """Apply a function to all chunks, in threads."""
        return self._threads(
            lambda chunk: function(chunk()), self._units(points, twins, self._random, self._threads)
        )
