"""Which entries of Hessians are released: all of them, or those of blocks on the diagonal."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


class Structure:
    """Blocks of likelihood coordinates; entries of a Hessian between two of them are taken to be 0.

    Parameters
    ----------
    labels : array_like of int, shape (p,)
        Coordinates with the same label are in one block.

    Attributes
    ----------
    full : bool
        Whether there is one block only.
    rows, columns : ndarray of int, shape (m,)
        The m released entries: row <= column.
    weights : ndarray, shape (m,)
        1 on the diagonal, 2 off it.
    mask : ndarray of bool, shape (p, p)
    noise_norm : float
        About the largest eigenvalue of symmetric noise in these entries, of variance 1 on the diagonal and
        1/2 off it.

    Notes
    -----
    A symmetric matrix is *packed* as the vector of its released entries, those off the diagonal times
    sqrt(2): its Euclidean norm is the Frobenius norm.

    **Privacy.** Labels are public. Leaving entries out never increases a norm.
    """

    def __init__(self, labels: Any):
        self.labels = np.asarray(labels, dtype=int)
        self.p = self.labels.size
        self.mask = self.labels[:, None] == self.labels[None, :]
        self.full = bool(self.mask.all())
        rows, columns = np.triu_indices(self.p)
        kept = self.mask[rows, columns]
        self.rows, self.columns = rows[kept], columns[kept]
        self._scale = np.where(self.rows == self.columns, 1.0, math.sqrt(2.0))
        self.weights = np.where(self.rows == self.columns, 1.0, 2.0)
        self.blocks = [np.flatnonzero(self.labels == label) for label in np.unique(self.labels)]
        # Of each block: its released entries, and where they are in it.
        parts = [np.flatnonzero(np.isin(self.rows, block)) for block in self.blocks]
        self._parts = [
            (block, part, np.searchsorted(block, self.rows[part]), np.searchsorted(block, self.columns[part]))
            for block, part in zip(self.blocks, parts, strict=True)
        ]
        largest = max(block.size for block in self.blocks)
        self.noise_norm = math.sqrt(2.0 * largest + 2.0 * math.log(len(self.blocks)))

    def packed(self, entries: np.ndarray) -> np.ndarray:
        """From released entries, shape (..., m)."""
        return entries * self._scale

    def unpacked(self, values: np.ndarray) -> np.ndarray:
        """Symmetric matrix, shape (p, p), of packed values, shape (m,)."""
        matrix = np.zeros((self.p, self.p))
        matrix[self.rows, self.columns] = matrix[self.columns, self.rows] = values / self._scale
        return matrix

    def transformed(self, hessians: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """``A H A'``, packed, shape (k, m).

        Parameters
        ----------
        hessians : ndarray, shape (k, p, p), or (k, m) if not full
            Whole matrices, or released entries.
        metric : ndarray, shape (p, p)
            A; if not full, zero between blocks.
        """
        if self.full:
            return self.packed((metric @ hessians @ metric.T)[:, self.rows, self.columns])
        found = np.empty_like(hessians)
        for block, part, rows, columns in self._parts:
            whole = np.empty((len(hessians), block.size, block.size))
            whole[:, rows, columns] = whole[:, columns, rows] = hessians[:, part]
            root = metric[np.ix_(block, block)]
            found[:, part] = (root @ whole @ root.T)[:, rows, columns]
        return self.packed(found)

    def products(self, delta: np.ndarray) -> np.ndarray:
        """Vector whose product with the released entries of H is ``delta' H delta``, shape (m,)."""
        return self.weights * delta[self.rows] * delta[self.columns]


def structure_of(wanted: str | Sequence[Sequence[str]], coordinates: Any) -> Structure:
    """Structure that settings ask for.

    Parameters
    ----------
    wanted : "full", "diagonal", or sequence of sequences of str
        Blocks of variables, by name; what is in none of them is diagonal.
    coordinates : Coordinates

    Raises
    ------
    ValueError
        A name is unknown or in two blocks.
    """
    if wanted == "full":
        return Structure(np.zeros(coordinates.size))
    labels = np.arange(coordinates.size)
    if wanted == "diagonal":
        return Structure(labels)
    known = {name: where for name, where in coordinates.names if name is not None}
    names = [name for block in wanted for name in block]
    unknown = sorted(set(names) - set(known))
    if unknown or len(set(names)) < len(names):
        what = (
            f"no likelihood coordinates are called {', '.join(unknown)}" if unknown else "a name is repeated"
        )
        raise ValueError(f"structure: {what}; there are {', '.join(known)}. structure='diagonal' needs none.")
    for block in wanted:
        for name in block:
            labels[known[name]] = known[block[0]].start
    return Structure(labels)
