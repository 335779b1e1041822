"""Cells that numbers are counted in: first powers of two, then as many cells as noise leaves something in.

**Privacy.** Edges are public: constants, or functions of noisy counts. A number is in one cell, always.
"""

from dataclasses import dataclass

import numpy as np

#: Edges between cells of powers of two, the outer ones open: -2**40, ..., -2**-40, 2**-40, ..., 2**40.
OCTAVE_EDGES = np.concatenate([-(2.0 ** np.arange(40, -41, -1)), 2.0 ** np.arange(-40, 41)])
# A cell holds somebody if its noisy count is so many standard deviations above 0. Of 200 empty cells one
# reaches it by chance in one of 50 tables, and makes bounds wider than they need to be.
SIGNIFICANT = 4.0


def span_of_octaves(noisy: np.ndarray, std: float) -> tuple[float, float] | None:
    """Outer edges of the octaves that hold somebody, and one more on each side; None if none does."""
    found = np.flatnonzero(noisy > SIGNIFICANT * std)
    if not found.size:
        return None
    first, last = max(found[0] - 1, 1), min(found[-1] + 1, len(OCTAVE_EDGES) - 1)
    return float(OCTAVE_EDGES[first - 1]), float(OCTAVE_EDGES[last])


def number_of_cells(records: float, std: float) -> int:
    """Of the second grid, each with about four standard deviations of records.

    A function of a public or a noisy number of records.
    """
    return int(np.clip(records / (4 * std), 8, 256))


def edges_by_octaves(noisy: np.ndarray, std: float, span: tuple[float, float], cells: int) -> np.ndarray:
    """Edges of cells with about equally many records each, by the noisy counts of powers of two."""
    outer = OCTAVE_EDGES[(OCTAVE_EDGES >= span[0]) & (OCTAVE_EDGES <= span[1])]
    first = int(np.searchsorted(OCTAVE_EDGES, span[0]))
    inside = noisy[first + 1 : first + len(outer)]
    mass = np.where(inside > 2 * std, inside, 0.0)
    below = np.r_[0.0, np.cumsum(mass)] / max(mass.sum(), 1e-300)
    # Equal steps of records, records spread evenly in an octave; the ends of the span stay.
    rising, where = np.unique(below, return_index=True)
    inner = np.interp(np.linspace(0, 1, cells - 1), rising, outer[where])
    # Of steps without records the upper end matters too: an empty octave has no cell inside, but edges.
    stops = outer[np.flatnonzero(np.diff(mass > 0)) + 1] if len(mass) > 1 else outer[:0]
    return np.unique(np.r_[span[0], inner, stops, span[1]])


@dataclass(frozen=True)
class Cells:
    """Noisy counts of cells of numbers.

    Attributes
    ----------
    edges : tuple of float, length m
    counts : tuple of float, length m + 1
        Below the first edge, between edges, above the last.
    std : float
        Standard deviation of each count's noise.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    std: float

    def bounds(self) -> tuple[float, float]:
        """Where somebody is, beyond doubt, and as far again as the last cell is wide; all if nobody is.

        Cells stand out of their noise alone or together with those next to them, towards the middle.
        """
        inner, edges = np.array(self.counts[1:-1]), np.array(self.edges)
        first, last = self._first(inner), self._first(inner[::-1])
        if first is None or last is None:
            return self.edges[0], self.edges[-1]
        last = len(inner) - 1 - last
        lower = max(edges[0], 2 * edges[first] - edges[first + 1])
        upper = min(edges[-1], 2 * edges[last + 1] - edges[last])
        return (float(lower), float(upper)) if first <= last else (self.edges[0], self.edges[-1])

    def _first(self, counts: np.ndarray) -> int | None:
        """First cell that holds somebody, alone or with the one or three after it, and shows it itself."""
        found = []
        for width in (1, 2, 4):
            sums = np.convolve(counts, np.ones(width), "valid") if len(counts) >= width else counts[:0]
            itself = counts[: len(sums)] > 2.5 * self.std
            found += list(np.flatnonzero(itself & (sums > SIGNIFICANT * self.std * np.sqrt(width)))[:1])
        return int(min(found)) if found else None

    def quantile(self, share: float, z: float = 0.0) -> tuple[float, float, float]:
        """Estimate, and an interval that holds the quantile of the records with `z` deviations of the noise.

        The interval ends at edges: where in its cell a record is, is not known.
        """
        counts, edges = np.array(self.counts), np.array(self.edges)
        total, k, m = max(float(counts.sum()), 1.0), np.arange(1, len(counts)), len(counts)
        below = np.cumsum(counts)[:-1] / total  # at each edge
        std = self.std / total * np.sqrt(k * (1 - share) ** 2 + (m - k) * share**2)
        # Between the two rising curves around it; the slope keeps flat parts apart.
        rising = np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1]
        at = np.interp(share, rising / 2 + 1e-9 * k / m, edges)
        # Only the edges next to the quantile itself can make these wrong, so that z holds for one edge.
        reached, short = np.flatnonzero(below + z * std >= share), np.flatnonzero(below - z * std < share)
        first = reached[0] if reached.size else len(edges)
        last = short[-1] if short.size else -1
        lower = edges[first - 1] if first else -np.inf
        upper = edges[last + 1] if last + 1 < len(edges) else np.inf
        return float(at), float(lower), float(upper)
