"""Proposals that move one component at a time."""

import numpy as np
from numpy.typing import ArrayLike

from pymc_dp.bounds import check_choice, check_share


class OneAtATime:
    """Move one component, up or down (Räisä 2021, section 3.1, after Yıldırım & Ermiş 2019).

    A move of component j changes a record's log-likelihood by at most ``L_j`` times its length, where ``L_j``
    bounds the j-th partial derivative alone. It therefore needs less noise than a move of all components, and
    allows longer steps. Give the ``L_j`` as ``lipschitz=[...]``, or their largest as a number.

    Parameters
    ----------
    scale : float or array_like of shape (d,), optional
        Length of a move of each component with step size 1, in unconstrained space. Tuning adapts a step size
        for each component.
    spread : float, optional
        Number in (0, 1]. Lengths are uniform between ``1 - spread`` and ``1 + spread`` times the scale. With
        moves of one length the chain would never leave a lattice.
    scan : {"random", "systematic"}, optional
        Whether the component is picked at random, or the components take turns.

    Attributes
    ----------
    part : int
        Index of the component of the last move; -1 before the first.

    Raises
    ------
    ValueError
        An argument is out of range.

    Notes
    -----
    **Privacy.** Reads no data; the moves use PyMC's generator.
    """

    def __init__(self, scale: ArrayLike = 1.0, *, spread: float = 0.2, scan: str = "random"):
        self._scale = np.asarray(scale, dtype=float)
        if self._scale.ndim > 1 or not (np.all(np.isfinite(self._scale)) and np.all(self._scale > 0)):
            raise ValueError("the scale is a positive, finite number, or one for each parameter.")
        check_share("spread", spread, whole=True)
        check_choice("scan", scan, ("random", "systematic"))
        self._spread, self._scan, self.part = float(spread), scan, -1

    def parts(self, d: int) -> int:
        """Return the number of components, each of which is moved by itself."""
        if self._scale.ndim and self._scale.size != d:
            raise ValueError(
                f"the proposal's scale has {self._scale.size} entries, the model {d} unconstrained "
                "parameters."
            )
        return d

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Draw a displacement, shape (d,), for step size 1: one entry is not zero."""
        parts = self.parts(d)
        self.part = int(rng.integers(parts)) if self._scan == "random" else (self.part + 1) % parts
        sign = self._sign(rng, self.part, d)
        length = rng.uniform(1 - self._spread, 1 + self._spread)
        move = np.zeros(d)
        move[self.part] = sign * length * (self._scale[self.part] if self._scale.ndim else self._scale)
        return move

    def _sign(self, rng: np.random.Generator, j: int, d: int) -> float:
        return 1.0 if rng.random() < 0.5 else -1.0


class GuidedWalk(OneAtATime):
    """Guided random walk: each component keeps its direction until a move is rejected (Gustafson 1998).

    After a rejected move the component's direction is reversed. The chain on parameters and directions
    together is not reversible, but has the right stationary distribution (docs/proofs/penalty). Far from the
    bulk of the posterior many moves of a plain walk go in the wrong direction and are rejected; a guided walk
    reverses once and then keeps its direction. It also diffuses faster where noise dominates (docs/penalty).

    Parameters
    ----------
    scale, spread, scan
        As in `OneAtATime`.

    Notes
    -----
    **Privacy.** Reads no data. The directions depend on released decisions and on PyMC's generator alone.
    """

    _directions: np.ndarray | None = None

    def _sign(self, rng: np.random.Generator, j: int, d: int) -> float:
        if self._directions is None:
            self._directions = rng.choice([-1.0, 1.0], size=d)
        return self._directions[j]

    def decided(self, accepted: bool) -> None:
        """Reverse the component's direction after a rejection."""
        if not accepted and self._directions is not None:
            self._directions[self.part] *= -1.0
