"""What a proposal is."""

from typing import Protocol

import numpy as np


class Proposal(Protocol):
    """A symmetric random move.

    An object with `move` is a proposal. Two more methods are used if it has them:

    - ``decided(move, accepted, tune)`` is told what became of each move (its displacement, shape (d,)), and
      whether the chain was tuning. A proposal with a memory is copied for every chain, and its moves must
      leave the posterior invariant together with that memory (docs/proofs/penalty).
    - ``parts(d)`` is the number of kinds of moves; then the attribute ``part`` is the kind of the last one,
      and tuning gives each kind a step size of its own.

    Notes
    -----
    **Privacy.** A move may depend on earlier decisions and on public randomness, never on the data.
    """

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Displacement, shape (d,), for step size 1."""
