"""Small linear programs that are solved again and again as constraints are added: a dense dual simplex.

What it finds is tested where it is used: nothing that is proved depends on its rounding.
"""

import numpy as np

_CLOSE, _LEAST_PIVOT = 1e-9, 1e-9
_MOST_PIVOTS = 400


class Cover:
    """Weights ``w >= 0`` with ``gains w >= needed``, ``sum(w) <= most``, at the least price.

    Parameters
    ----------
    price : ndarray, shape (n,)
        Not negative.
    most : float
        Largest total weight.

    Notes
    -----
    A dictionary (Chvátal 1983, chapters 2 and 10): what is basic, as affine functions of what is not. Prices
    are never negative, so that it stays optimal for what is required so far, and constraints may be added, or
    moved, without starting anew.
    """

    def __init__(self, price: np.ndarray, most: float):
        self._size = price.size
        # Columns: the constant, then what is not basic. Rows: the price, then what is basic.
        self._table = np.array([[0.0, *price], [most, *np.full(price.size, -1.0)]])
        self._columns = np.arange(price.size)  # weights, then slacks in the order of their constraints
        self._rows = np.array([price.size])
        self._needed = np.array([-most])

    def require(self, gains: np.ndarray, needed: np.ndarray) -> None:
        """Add constraints: gains of shape (m, n)."""
        slacks = self._size + self._needed.size + np.arange(needed.size)
        table = np.zeros((needed.size, self._table.shape[1]))
        free = self._columns < self._size
        table[:, 1:][:, free] = gains[:, self._columns[free]]
        basic = self._rows < self._size
        table += gains[:, self._rows[basic]] @ self._table[1:][basic]
        table[:, 0] -= needed
        self._table = np.vstack([self._table, table])
        self._rows = np.append(self._rows, slacks)
        self._needed = np.append(self._needed, needed)

    def move(self, needed: np.ndarray) -> None:
        """Other requirements, in the order in which they were added."""
        change = np.append(0.0, needed - self._needed[1:])
        slack = self._columns >= self._size
        self._table[:, 0] += self._table[:, 1:][:, slack] @ change[self._columns[slack] - self._size]
        slack = self._rows >= self._size
        self._table[1:, 0][slack] -= change[self._rows[slack] - self._size]
        self._needed = np.append(self._needed[0], needed)

    def weights(self) -> np.ndarray | None:
        """The cheapest weights; None if there are none, or if they were not found."""
        table = self._table
        for _ in range(_MOST_PIVOTS):
            row = 1 + int(np.argmin(table[1:, 0]))
            if table[row, 0] >= -_CLOSE:
                found = np.zeros(self._size)
                basic = self._rows < self._size
                found[self._rows[basic]] = np.maximum(table[1:, 0][basic], 0.0)
                return found
            possible = table[row, 1:] > _LEAST_PIVOT
            if not possible.any():
                return None
            ratio = np.full(possible.size, np.inf)
            ratio[possible] = np.maximum(table[0, 1:][possible], 0.0) / table[row, 1:][possible]
            column = int(np.argmin(ratio))
            self._pivot(row, column)
        return None

    def _pivot(self, row: int, column: int) -> None:
        """Exchange what is basic in a row with what a column stands for."""
        table = self._table
        pivot = table[row, column + 1]
        line = -table[row] / pivot
        line[column + 1] = 1 / pivot
        factor = table[:, column + 1].copy()
        table[:, column + 1] = 0.0
        table += factor[:, None] * line
        table[row] = line
        self._rows[row - 1], self._columns[column] = self._columns[column], self._rows[row - 1]
