"""Cells of histograms: first powers of two, then as many cells as have counts well above the noise.

**Privacy.** Edges are public: constants, or functions of noisy counts. A number is always in one cell.
"""

from dataclasses import dataclass

import numpy as np

#: Edges of the cells (octaves), the outer cells open: -2**40, ..., -2**-40, 2**-40, ..., 2**40.
OCTAVE_EDGES = np.concatenate([-(2.0 ** np.arange(40, -41, -1)), 2.0 ** np.arange(-40, 41)])
# A cell counts as occupied if its noisy count is this many standard deviations of the noise above 0. By
# chance one of 200 empty cells does so in one of 50 tables, which makes bounds wider than necessary.
SIGNIFICANT = 4.0


def span_of_octaves(noisy: np.ndarray, std: float) -> tuple[float, float] | None:
    """Return the outer edges of the occupied octaves and one more on each side; None if none is occupied."""
    found = np.flatnonzero(noisy > SIGNIFICANT * std)
    if not found.size:
        return None
    first, last = max(found[0] - 1, 1), min(found[-1] + 1, len(OCTAVE_EDGES) - 1)
    return float(OCTAVE_EDGES[first - 1]), float(OCTAVE_EDGES[last])


def number_of_cells(records: float, std: float) -> int:
    """Return the number of cells of the second grid: about four standard deviations of noise in records each.

    It is a function of a public or a noisy number of records.
    """
    return int(np.clip(records / (4 * std), 8, 256))


def edges_by_octaves(noisy: np.ndarray, std: float, span: tuple[float, float], cells: int) -> np.ndarray:
    """Compute edges of cells with about equally many records each, from the noisy counts of octaves."""
    outer = OCTAVE_EDGES[(OCTAVE_EDGES >= span[0]) & (OCTAVE_EDGES <= span[1])]
    first = int(np.searchsorted(OCTAVE_EDGES, span[0]))
    inside = noisy[first + 1 : first + len(outer)]
    mass = np.where(inside > 2 * std, inside, 0.0)
    below = np.r_[0.0, np.cumsum(mass)] / max(mass.sum(), 1e-300)
    # Quantiles in equal steps, with records spread evenly within an octave; the ends of the span are kept.
    rising, where = np.unique(below, return_index=True)
    inner = np.interp(np.linspace(0, 1, cells - 1), rising, outer[where])
    # A run of empty octaves gets edges at both ends, and none inside.
    stops = outer[np.flatnonzero(np.diff(mass > 0)) + 1] if len(mass) > 1 else outer[:0]
    return np.unique(np.r_[span[0], inner, stops, span[1]])


@dataclass(frozen=True)
class Cells:
    """Noisy counts of numbers in cells.

    Attributes
    ----------
    edges : tuple of float, length m
    counts : tuple of float, length m + 1
        Counts below the first edge, between edges, and above the last.
    std : float
        Standard deviation of the noise in each count.
    """

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    std: float

    def bounds(self) -> tuple[float, float]:
        """Return bounds of the cells that are certainly occupied, wider by the width of the outermost cell.

        Without such cells, return the outermost edges. A cell is judged alone, or together with cells next to
        it towards the middle.
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
        """Return the first occupied cell: significant alone, or together with the one or three after it.

        The cell itself has to be 2.5 standard deviations above 0.
        """
        found = []
        for width in (1, 2, 4):
            sums = np.convolve(counts, np.ones(width), "valid") if len(counts) >= width else counts[:0]
            itself = counts[: len(sums)] > 2.5 * self.std
            found += list(np.flatnonzero(itself & (sums > SIGNIFICANT * self.std * np.sqrt(width)))[:1])
        return int(min(found)) if found else None

    def quantile(self, share: float, z: float = 0.0) -> tuple[float, float, float]:
        """Estimate a quantile of the records, with an interval of `z` standard deviations of the noise.

        The interval ends at edges, since the position of a record within its cell is not known.
        """
        counts, edges = np.array(self.counts), np.array(self.edges)
        total, k, m = max(float(counts.sum()), 1.0), np.arange(1, len(counts)), len(counts)
        below = np.cumsum(counts)[:-1] / total  # at each edge
        std = self.std / total * np.sqrt(k * (1 - share) ** 2 + (m - k) * share**2)
        # Make the curve increasing: the mean of the increasing curves above and below it. A small slope is
        # added, so that flat parts can be inverted.
        rising = np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1]
        at = np.interp(share, rising / 2 + 1e-9 * k / m, edges)
        # Only errors at the edges next to the quantile can make these wrong: z is for a single edge.
        reached, short = np.flatnonzero(below + z * std >= share), np.flatnonzero(below - z * std < share)
        first = reached[0] if reached.size else len(edges)
        last = short[-1] if short.size else -1
        lower = edges[first - 1] if first else -np.inf
        upper = edges[last + 1] if last + 1 < len(edges) else np.inf
        return float(at), float(lower), float(upper)
