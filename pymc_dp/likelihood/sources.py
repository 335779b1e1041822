"""Exact sums over the records of this process: of octaves of scores, and of comparisons with twins."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds, Totals, compare
from pymc_dp.likelihood.measurements import Shapes
from pymc_dp.likelihood.octaves import OCTAVES, count_octaves


class TermScores(Protocol):
    """Scores of m privacy units and of what they are compared with: see `records.twins`."""

    @property
    def own(self) -> np.ndarray:
        """Shape (m, k)."""

    @property
    def group(self) -> np.ndarray:
        """Shape (G, m, k)."""

    @property
    def weights(self) -> np.ndarray | None:
        """Shape (G, m), or None."""

    def rows(self, metric: np.ndarray) -> np.ndarray:
        """Derivatives of the predictors by the coordinates, each times the metric: shape (k, m, p)."""


class Chunk(Protocol):
    """Some privacy units."""

    @property
    def terms(self) -> Sequence[TermScores]:
        """Scores by groups of observed variables."""


class Units(Shapes, Protocol):
    """Privacy units whose scores can be had: `Twins`, or `TablesTwins`."""

    def __call__(self, phi: np.ndarray, twins: int, random: Any) -> Iterator[Chunk]:
        """Go through all units, in chunks."""


class RecordsHere:
    """The `Source` of records of this process.

    Parameters
    ----------
    units : Units
    random : PrivacyRandom
        Twins are drawn from it.

    Notes
    -----
    **Privacy.** Sums are of integers in floating point, exact in any order (docs/proofs/twins, section 1).
    """

    def __init__(self, units: Units, random: Any):
        self._units, self._random = units, random
        self.size, self.touched, self.parts, self.rank = units.size, units.touched, units.parts, units.rank
        self.lookups = units.lookups

    @np.errstate(all="ignore")
    def scales(self, phi: np.ndarray, twins: int) -> np.ndarray:
        """See `Source.scales`."""
        total = np.zeros((self.size, OCTAVES))
        for chunk in self._units(phi, twins, self._random):
            total += count_octaves(chunk, self.size, self.touched)
        return total

    @np.errstate(all="ignore")
    def compare(self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int) -> Totals:
        """See `Source.compare`.

        Raises
        ------
        RuntimeError
            A unit has more terms than the bounds were divided by: a bug.
        """
        totals = Totals(self.size)
        for chunk in self._units(phi, twins, self._random):
            if len(chunk.terms) > self.parts:
                raise RuntimeError("a unit has more terms than its bounds were divided by.")
            for term in chunk.terms:
                compare(term.own, term.group, term.weights, term.rows(metric), bounds, totals)
        return totals
