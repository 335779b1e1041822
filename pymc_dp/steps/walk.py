"""Random-walk moves of a step: a proposal, its step size, and what tuning does to it."""

import numpy as np

from pymc_dp.proposals import FixedRadius, GaussianWalk, Proposal, as_proposal
from pymc_dp.steps.tuning import adapted


class RandomWalk:
    """Symmetric moves, no longer than a public bound.

    Parameters
    ----------
    proposal : str or Proposal, optional
        Default: "fixed_radius"; "gaussian" in one dimension.
    d : int
        Number of parameters.
    step_size : float, optional
        Initial multiple of the proposal's scale; None for the step's own default.
    target_accept : float, optional
        Acceptance rate that tuning aims at; None for the step to set.
    adapt : bool
        Whether tuning adapts the step size.

    Attributes
    ----------
    step_size : float
        Current multiple of the proposal's scale.
    longest : float
        Longer moves are shortened to this length: an odd function of the move, so that it stays symmetric.

    Raises
    ------
    ValueError
        An argument is out of range, or the proposal's scale has another number of entries.

    Notes
    -----
    **Privacy.** Reads no data; learns from released decisions.
    """

    def __init__(
        self,
        proposal: str | Proposal | None,
        d: int,
        *,
        step_size: float | None,
        target_accept: float | None,
        adapt: bool,
    ):
        check_walk(proposal, step_size, target_accept)
        self.proposal = as_proposal(proposal or ("fixed_radius" if d > 1 else "gaussian"))
        self.proposal.move(np.random.default_rng(0), d)  # refuses a scale of the wrong shape now
        self.d, self.initial, self.target_accept, self.adapt = d, step_size, target_accept, adapt
        self.step_size, self.longest = np.nan, np.inf
        self._shortened = False

    @property
    def name(self) -> str:
        """Of the proposal, for a report."""
        return type(self.proposal).__name__

    @property
    def gaussian(self) -> bool:
        """Whether the lengths of moves vary like those of a Gaussian vector."""
        return isinstance(self.proposal, GaussianWalk)

    def fixed_length(self) -> float | None:
        """Length of every move per unit of step size, if that is one number throughout the run."""
        scalar = isinstance(self.proposal, FixedRadius) and self.proposal.length(self.d)
        return scalar or None if not self.adapt else None

    def move(self, rng: np.random.Generator) -> np.ndarray:
        """Displacement, shape (d,)."""
        move = self.step_size * self.proposal.move(rng, self.d)
        self._shortened = False
        if self.longest < np.inf:
            length = float(np.sqrt(move @ move))
            # A length of at most `longest` in floating point too: a bound L * length must not exceed B.
            if length > self.longest * (1 - 1e-12):
                move *= self.longest * (1 - 1e-12) / length
                self._shortened = True
        return move

    def learn(self, accepted: bool, iteration: int) -> None:
        """Adapt the step size to a decision; `iteration` counts from 1."""
        # A larger step size would not make a shortened move longer.
        if self.adapt and self.target_accept and not (self._shortened and accepted):
            self.step_size = adapted(self.step_size, accepted, self.target_accept, iteration)


def check_walk(proposal: str | Proposal | None, step_size: float | None, target_accept: float | None) -> None:
    """Raise ValueError for arguments that no random walk can have."""
    if proposal is not None:
        as_proposal(proposal)
    if step_size is not None and not (np.isfinite(step_size) and step_size > 0):
        raise ValueError(f"step_size must be positive and finite, got {step_size!r}.")
    if target_accept is not None and not 0 < target_accept < 1:
        raise ValueError(f"target_accept must lie in (0, 1), got {target_accept!r}.")
