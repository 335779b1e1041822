"""Noisy histograms of norms, and the clip bounds that are read off them."""

from typing import Any

import numpy as np

# Histograms of log2 of a norm; the first and the last cell are open.
OCTAVES = 40
# Cells are merged to up to so many where no single one stands out of its noise.
_WIDTHS = (1, 2, 4, 8)


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
        with np.errstate(divide="ignore"):
            cell = np.floor(np.log2(np.maximum(norms, 1e-300)) * self.cells)
        most = OCTAVES * self.cells
        self.counts += np.bincount(
            (np.clip(cell, -most, most) + most).astype(int), minlength=self.counts.size
        )

    def edge(self, cell: int) -> float:
        """Lower edge of a cell."""
        return float(self._edges(cell))

    def _edges(self, cells: Any) -> Any:
        return 2.0 ** ((cells - OCTAVES * self.cells) / self.cells)

    def top(self, significance: float) -> int | None:
        """Highest cell that is not empty, beyond doubt; None if all may be empty.

        Where no cell stands out, neighbouring ones are merged.
        """
        for width in _WIDTHS:
            used = self.counts.size // width * width
            merged = self.counts[:used].reshape(-1, width).sum(axis=1)
            found = np.flatnonzero(merged > significance * np.sqrt(width) * max(self.std, 0.25))
            if found.size:
                return int((found[-1] + 1) * width - 1)
        return None

    def upper(self, top: int, number: float) -> int:
        """Cell from which up to `top` there are at least `number` records."""
        enough = np.flatnonzero(np.cumsum(self.counts[top::-1]) >= number)
        return top - (int(enough[0]) if enough.size else 0)

    def best_bound(self, top: int, noise: float, d: int, align: float) -> float:
        """Clip bound of least squared noise plus squared bias, up to half an octave above the cell `top`.

        Parameters
        ----------
        top : int
        noise : float
            Standard deviation per coordinate of the clipped sum's noise, for a bound of 1.
        d : int
            Coordinates.
        align : float
            Share of the norm beyond the bound that is assumed to point in one direction.

        Notes
        -----
        Counts above `top` are lost in noise, and are extrapolated geometrically from how they fall there.
        """
        counts, std = self.counts, max(self.std, 0.25)
        below = max(counts[top - 1], counts[top]) if top else counts[top]
        above = counts[min(top + 1, counts.size - 1)]
        fall = np.clip(0.5 * np.log(max(above, std) / max(below, std)), np.log(1e-3), -0.2)
        cells = np.arange(top + 1, top + 1 + 4 * self.cells)
        seen = np.maximum(counts[np.minimum(cells, counts.size - 1)], 0) + 2 * std
        expected = np.minimum(max(counts[top], std) * np.exp(fall * (cells - top)), seen)
        middles = self._edges(cells + 0.5)
        bounds = [self.edge(top + 1 + j) for j in range(1 + self.cells // 2)]
        loss = [
            d * (noise * b) ** 2 + (align * float(expected @ np.maximum(middles - b, 0.0))) ** 2
            for b in bounds
        ]
        return bounds[int(np.argmin(loss))]
