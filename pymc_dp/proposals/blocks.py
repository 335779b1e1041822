"""Moves of a block of components at a time."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pymc_dp.proposals.parts import Lengths, Scan
from pymc_dp.records.gate import initial_point


class Blocks:
    """Move the components of one block together, one block after the other.

    Parameters
    ----------
    blocks : sequence of sequence of int
        Positions in the flat unconstrained vector; each position is in one block. `of_variables` makes them
        from names.
    scale : float or array_like of shape (d,), optional
        Each component's share in a move with step size 1: with a scalar scale a block moves by that length,
        in a uniformly random direction. Tuning gives each block a step size of its own.
    spread : float, optional
        For blocks of one component: see `OneAtATime`.
    scan : {"random", "systematic"}, optional
        Whether the block is picked at random, or all take turns.

    Raises
    ------
    ValueError
        An argument is out of range, or the blocks are not a division of the components.

    Notes
    -----
    **Privacy.** Reads no data; the moves use PyMC's generator.
    """

    def __init__(
        self,
        blocks: Iterable[Sequence[int] | np.ndarray],
        scale: Any = 1.0,
        *,
        spread: float = 0.2,
        scan: str = "systematic",
    ):
        self._blocks = [np.atleast_1d(np.asarray(block)) for block in blocks]
        if not self._blocks or any(
            b.ndim > 1 or not b.size or b.dtype.kind not in "iu" for b in self._blocks
        ):
            raise ValueError("blocks are sequences of positions in the flat vector, none of them empty.")
        self._lengths, self._scan = Lengths(scale, spread), Scan(scan)

    @classmethod
    def of_variables(cls, model: Any, *blocks: str | Sequence[str], **kwargs: Any) -> "Blocks":
        """Blocks of free variables.

        Parameters
        ----------
        model : pymc.Model
        *blocks : str or sequence of str
            Names of free variables that move together. Variables that are in none have a block each.
        **kwargs
            As in `Blocks`.

        Raises
        ------
        ValueError
            The model has no such free variable, or it is named twice.
        """
        start, positions, point = 0, {}, initial_point(model)
        name_of = {model.rvs_to_values[rv].name: rv.name for rv in model.free_RVs}
        for value in model.value_vars:
            stop = start + int(np.size(point[value.name]))
            positions[name_of[value.name]] = np.arange(start, stop)
            start = stop
        named = [[block] if isinstance(block, str) else list(block) for block in blocks]
        flat = [name for block in named for name in block]
        for name in flat:
            if name not in positions:
                raise ValueError(f"the model has no free variable {name!r}; it has {', '.join(positions)}.")
        if len(set(flat)) < len(flat):
            raise ValueError("a variable is in two blocks.")
        named += [[name] for name in positions if name not in flat]
        return cls([np.concatenate([positions[name] for name in block]) for block in named], **kwargs)

    @property
    def part(self) -> int:
        """Number of the block that moved last."""
        return self._scan.part

    def parts(self, d: int) -> int:
        """Number of blocks."""
        covered = np.sort(np.concatenate(self._blocks))
        if not np.array_equal(covered, np.arange(d)):
            raise ValueError(f"each of the {d} unconstrained parameters must be in exactly one block.")
        self._lengths.check(d)
        return len(self._blocks)

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Displacement, shape (d,), for step size 1: zero outside one block."""
        block = self._blocks[self._scan.next(rng, len(self._blocks))]
        if block.size == 1:
            direction = rng.choice([-1.0, 1.0], size=1) * self._lengths.factor(rng)
        else:
            z = rng.standard_normal(block.size)
            direction = z / np.sqrt(z @ z)
        move = np.zeros(d)
        move[block] = direction * self._lengths.scale(block)
        return move
