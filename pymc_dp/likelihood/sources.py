"""Exact sums over the records of this process: of octaves of scores, and of comparisons with twins."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds, Totals, compare
from pymc_dp.likelihood.fit import CELLS, FIT_TWINS, count_places
from pymc_dp.likelihood.score_sizes import OCTAVES, count_octaves
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.several_tables import TablesTwins
from pymc_dp.records.threads import InThreads
from pymc_dp.records.twins import Chunk, Twins

#: Privacy units whose scores can be computed.
type Units = Twins | TablesTwins


class RecordsHere:
    """The `Source` of records of this process.

    Parameters
    ----------
    units : Units
    random : PrivacyRandom
        Source of randomness for the twins.
    cores : int
        Number of threads, in which outcomes are drawn, scores computed and records compared.

    Notes
    -----
    **Privacy.** Sums are of integers in floating point, exact in any order (docs/proofs/twins, section 1).
    Twins are drawn from streams of their own, which do not depend on the number of threads.
    """

    def __init__(self, units: Units, random: PrivacyRandom, cores: int = 1):
        self.units, self._random, self._cores, self._threads = units, random, cores, InThreads(cores)

    @property
    def apart(self) -> Sequence["RecordsHere"]:
        """See `Source.apart`."""
        return [RecordsHere(units, self._random, self._cores) for units in self.units.apart]

    @property
    def with_known_bounds(self) -> "RecordsHere":
        """See `Source.with_known_bounds`."""
        return RecordsHere(self.units.with_known_bounds, self._random, self._cores)

    def count_unknown_bounds(self) -> np.ndarray:
        """See `Source.count_unknown_bounds`."""
        return np.array([float(self.units.count_unknown_bounds())])

    @np.errstate(all="ignore")
    def scales(self, phi: np.ndarray, twins: int) -> np.ndarray:
        """See `Source.scales`."""
        size, touched = self.units.size, self.units.touched
        counted = self._each(lambda chunk: count_octaves(chunk, size, touched), phi, twins)
        return sum(counted, start=np.zeros((size, OCTAVES)))

    @np.errstate(all="ignore")
    def compare(self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int) -> Totals:
        """See `Source.compare`."""

        def of_some(chunk: Chunk) -> Totals:
            totals = Totals(self.units.size)
            own, group, weights, rows, first, leaves = one_after_the_other(chunk, metric)
            compare(own, group, weights, rows, bounds, totals, first, leaves)
            return totals

        total = Totals(self.units.size)
        for some in self._each(of_some, phi, twins):
            total.add(some)
        return total

    @np.errstate(all="ignore")
    def spread(self, phi: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """See `Source.spread`."""
        (places,) = self._random.generators(1)
        chunks = self._each(lambda chunk: chunk, phi, FIT_TWINS)
        return sum((count_places(chunk, metric, places) for chunk in chunks), start=np.zeros(CELLS))

    def _each[T](self, function: Callable[[Chunk], T], points: np.ndarray, twins: int) -> Iterator[T]:
        """Apply a function to all chunks of units, in threads."""
        return self._threads(
            lambda chunk: function(chunk()), self.units(points, twins, self._random, self._threads)
        )


class Rows(NamedTuple):
    """Arguments of `compare` that come from a chunk; see there."""

    own: np.ndarray
    group: np.ndarray
    weights: np.ndarray | None
    rows: np.ndarray
    first: np.ndarray | None
    leaves: np.ndarray | None


def one_after_the_other(chunk: Chunk, metric: np.ndarray) -> Rows:
    """Return the terms of each row as separate rows of its unit, in the order of the terms.

    If a term has fewer predictors than others, the missing ones are zero. If it has fewer points, the missing
    ones have no weight.

    Parameters
    ----------
    chunk : Chunk
    metric : ndarray, shape (p, p)
    """
    terms = chunk.terms
    if len(terms) == 1:
        (term,) = terms
        return Rows(term.own, term.group, term.weights, term.rows(metric), chunk.first, None)
    number, m, p = len(terms), len(terms[0].own), metric.shape[0]
    k, most = max(term.own.shape[1] for term in terms), max(len(term.group) for term in terms)
    own, rows = np.zeros((m, number, k)), np.zeros((k, m, number, p))
    group, weights = np.zeros((most, m, number, k)), np.zeros((most, m, number))
    leaves = np.zeros((m, number), dtype=bool)
    for j, term in enumerate(terms):
        size, width = len(term.group), term.own.shape[1]
        own[:, j, :width], rows[:width, :, j] = term.own, term.rows(metric)
        group[:size, :, j, :width], group[size:, :, j, :width] = term.group, term.group[:1]
        weights[:size, :, j] = 1 / size if term.weights is None else term.weights
        leaves[:, j] = (term.weights is None or term.at_risk) and size > 2
    first = number * (np.arange(m) if chunk.first is None else chunk.first)
    whole = m * number
    return Rows(
        own.reshape(whole, k),
        group.reshape(most, whole, k),
        weights.reshape(most, whole),
        rows.reshape(k, whole, p),
        first,
        leaves.ravel(),
    )
