"""Noisy histograms of norms."""

from typing import Any

import numpy as np

# Histograms of log2 of a norm; the first and the last cell are open.
OCTAVES = 40
# Cells that may stand out of their noise together.
_WIDTHS = (1, 2, 4, 8)


def counts_of(norms: np.ndarray, cells: int) -> np.ndarray:
    """Counts of log2 of some norms, finite and >= 0, by cell; so many cells an octave."""
    with np.errstate(divide="ignore"):
        cell = np.floor(np.log2(np.maximum(norms, 1e-300)) * cells)
    most = OCTAVES * cells
    return np.bincount((np.clip(cell, -most, most) + most).astype(int), minlength=2 * most + 1)


class Histogram:
    """Counts of log2 of norms.

    Parameters
    ----------
    cells : int
        Of an octave.
    std : float
        Standard deviation of the noise of each count.

    Notes
    -----
    **Privacy.** Once noise has been added to `counts`, all methods but `add` are functions of what is
    released.
    """

    def __init__(self, cells: int, std: float):
        self.cells, self.std = cells, std
        self.counts = np.zeros(2 * OCTAVES * cells + 1)

    def add(self, norms: np.ndarray) -> None:
        """Count some norms, finite and >= 0."""
        self.counts += counts_of(norms, self.cells)

    def edge(self, cell: float) -> float:
        """Lower edge of a cell."""
        return float(self._edges(cell))

    def _edges(self, cells: Any) -> Any:
        return 2.0 ** ((cells - OCTAVES * self.cells) / self.cells)

    def top(self, significance: float, far: bool = False) -> int | None:
        """Highest cell that is not empty, beyond doubt; None if all may be empty.

        Where no cell stands out, neighbouring ones are merged; and, if `far`, above the highest that does.
        """
        least = significance * max(self.std, 0.25)
        top = self._single(least)
        if top is None or not far:
            return top
        for width in _WIDTHS[1:]:
            while self.counts[top + 1 : top + 1 + width].sum() > least * np.sqrt(width):
                top += width // 2
        return top

    def _single(self, least: float) -> int | None:
        # Norms of 0, which need no bound, are in the first cell.
        counts = np.r_[0.0, self.counts[1:]]
        for width in _WIDTHS:
            used = counts.size // width * width
            merged = counts[:used].reshape(-1, width).sum(axis=1)
            found = np.flatnonzero(merged > least * np.sqrt(width))
            if found.size:
                return int((found[-1] + 1) * width - 1)
        return None

    def upper(self, top: int, number: float) -> int:
        """Cell from which up to `top` there are at least `number` records."""
        enough = np.flatnonzero(np.cumsum(self.counts[top::-1]) >= number)
        return top - (int(enough[0]) if enough.size else 0)

    def second_moment(self, top: int) -> tuple[float, float]:
        """Sum of squared norms of the records up to a cell, and its noise's standard deviation."""
        edges = self.edges(0, top)
        # Norms are spread evenly over the octaves of a cell.
        squares = (edges[1:] ** 2 - edges[:-1] ** 2) * self.cells / (2 * np.log(2))
        return float(squares @ self.counts[: top + 1]), self.std * float(np.linalg.norm(squares))

    def edges(self, first: int, last: int) -> np.ndarray:
        """Edges of the cells from `first` to `last`: one more than there are cells."""
        return self._edges(np.arange(first, last + 2))
