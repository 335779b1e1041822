"""Means of look-ups that no record sees: they are held where they are, as if public records had said so."""

from typing import NamedTuple

import numpy as np


class Pinned(NamedTuple):
    """Combinations ``C psi`` of coordinates whose values are chosen, since no record tells of them.

    Attributes
    ----------
    rows : ndarray, shape (k, p)
        C: each a mean of coordinates.
    values : ndarray, shape (k,)
    """

    rows: np.ndarray
    values: np.ndarray

    @classmethod
    def none(cls, size: int) -> "Pinned":
        """Nothing is held."""
        return cls(np.zeros((0, size)), np.zeros(0))

    def in_units(self, unit: np.ndarray) -> "Pinned":
        """The same of the coordinates over these numbers, shape (p,)."""
        return self._replace(rows=self.rows * unit)

    def information(self, records: np.ndarray) -> np.ndarray:
        """Of the public records, shape (p, p): as much of each mean as records tell of its groups together.

        Their number does not matter to what is found: along a direction that no record sees these alone
        speak. A metric in which other directions are as well told as this one has rows for all groups.

        Parameters
        ----------
        records : ndarray, shape (p, p)
            What records tell.
        """
        return self.rows.T @ (self._told(records)[:, None] * self.rows)

    def score(self, records: np.ndarray, point: np.ndarray) -> np.ndarray:
        """What they say at a point, shape (p,)."""
        return self.rows.T @ (self._told(records) * (self.values - self.rows @ point))

    def _told(self, records: np.ndarray) -> np.ndarray:
        return np.maximum((self.rows != 0) @ np.diag(records), 0.0)
