"""What moves next, and how far, when not everything moves together."""

from typing import Any

import numpy as np


class Scan:
    """Which part is moved next.

    Parameters
    ----------
    order : {"random", "systematic"}
        Independent uniform picks, or in turn.

    Attributes
    ----------
    part : int
        The last part that was picked; -1 before.
    """

    def __init__(self, order: str):
        if order not in ("random", "systematic"):
            raise ValueError(f"scan must be one of random, systematic, got {order!r}.")
        self.order, self.part = order, -1

    def next(self, rng: np.random.Generator, parts: int) -> int:
        """Pick one of 0..parts-1."""
        self.part = int(rng.integers(parts)) if self.order == "random" else (self.part + 1) % parts
        return self.part


class Lengths:
    """Lengths of moves along an axis: uniform between 1 - spread and 1 + spread times a scale.

    Parameters
    ----------
    scale : float or array_like of shape (d,)
    spread : float
        In (0, 1].
    """

    def __init__(self, scale: Any, spread: float):
        self._scale = np.asarray(scale, dtype=float)
        if self._scale.ndim > 1 or not (np.all(np.isfinite(self._scale)) and np.all(self._scale > 0)):
            raise ValueError("the scale is a positive, finite number, or one for each parameter.")
        if not (np.isscalar(spread) and np.isreal(spread) and 0 < spread <= 1):
            raise ValueError(f"spread must lie in (0, 1], got {spread!r}.")
        self._spread = float(spread)

    def check(self, d: int) -> None:
        """Raise ValueError if the scale has another number of entries than d."""
        if self._scale.ndim and self._scale.size != d:
            raise ValueError(
                f"the proposal's scale has {self._scale.size} entries, the model {d} unconstrained "
                "parameters."
            )

    def scale(self, positions: Any) -> Any:
        """Scale at positions of the flat vector."""
        return self._scale[positions] if self._scale.ndim else self._scale

    def factor(self, rng: np.random.Generator) -> float:
        """Draw from [1 - spread, 1 + spread]."""
        return rng.uniform(1 - self._spread, 1 + self._spread)
