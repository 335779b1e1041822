"""Random-walk moves of a step: a proposal, its step sizes, and what tuning does to them."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_dp.clipping import Clip, ConstantClip, LipschitzClip
from pymc_dp.kernels.tuning import adapted
from pymc_dp.proposals import FixedRadius, GaussianWalk, GuidedWalk, Proposal, as_proposal
from pymc_dp.proposals.moves import Moves


class RandomWalk(Moves):
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
    proposal : Proposal
        This chain's copy: a proposal with a memory learns from the chain's decisions.
    step_size : float
        Current multiple of the proposal's scale.
    relative : ndarray, shape (parts,)
        Further multiple of each part that the proposal moves by itself: one number if it moves everything.
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
        given = as_proposal(proposal or ("fixed_radius" if d > 1 else "gaussian"))
        self._given: Proposal = copy.deepcopy(given)
        self.d, self.initial, self.target_accept, self.adapt = d, step_size, target_accept, adapt
        self.step_size, self.longest = np.nan, np.inf
        self.begin()
        self.proposal.move(np.random.default_rng(0), d)  # refuses a scale of the wrong shape now
        self.begin()

    def begin(self) -> None:
        """Start from the proposal as it was given: nothing is carried from one chain to another."""
        self.proposal = copy.deepcopy(self._given)
        parts = getattr(self.proposal, "parts", None)
        self.relative = np.ones(parts(self.d) if parts else 1)
        self._tried = np.zeros(self.relative.size, dtype=int)
        self._move = np.zeros(self.d)
        self._shortened = False

    @property
    def name(self) -> str:  # type: ignore[override]
        """Of the proposal, for a report."""
        return type(self.proposal).__name__

    @property
    def gaussian(self) -> bool:
        """Whether the lengths of moves vary like those of a Gaussian vector."""
        return isinstance(self._given, GaussianWalk)

    @property
    def guided(self) -> bool:
        """Whether moves keep a direction while they are accepted."""
        return isinstance(self._given, GuidedWalk)

    @property
    def unit_length(self) -> float:
        """Root mean square length of a move of step size 1; of 1,000 public ones."""
        return float(np.sqrt(np.mean(self._trial_moves(_length)[1] ** 2)))

    def _trial_moves(self, measure: Callable[[np.ndarray], float]) -> tuple[np.ndarray, np.ndarray]:
        """Part and measure of public moves of step size 1."""
        rng, proposal = np.random.default_rng(0), copy.deepcopy(self._given)
        size = max(1000, 20 * self.relative.size)
        found = [(measure(proposal.move(rng, self.d)), getattr(proposal, "part", 0)) for _ in range(size)]
        values, parts = np.array(found).T
        return parts.astype(int) % self.relative.size, values

    def set_steps(self, rate: Callable[[np.ndarray], float], bound: float) -> None:
        """Give each part the step size at which the root mean square of its clip bound is `bound`.

        Parameters
        ----------
        rate : callable
            Clip bound of a short move, proportional to its length.
        bound : float

        Notes
        -----
        Moves that tuning may shorten are no longer than 1 to begin with: unconstrained parameters seldom ask
        for more.
        """
        parts, bounds = self._trial_moves(rate)
        lengths = self._trial_moves(_length)[1]
        steps = np.empty(self.relative.size)
        for part in range(steps.size):
            here = parts == part if np.any(parts == part) else slice(None)
            steps[part] = bound / np.sqrt(np.mean(bounds[here] ** 2))
            if not self.fixed_length():
                steps[part] = min(steps[part], 1 / np.sqrt(np.mean(lengths[here] ** 2)))
        self.step_size = float(np.exp(np.mean(np.log(steps))))
        self.relative = steps / self.step_size

    def fixed_length(self) -> float | None:
        """Length of every move per unit of step size, if that is one number throughout the run."""
        scalar = isinstance(self._given, FixedRadius) and self._given.length(self.d)
        return scalar or None if not self.adapt else None

    def constant_clip_bound(self, clip: Clip, step_size: float | None) -> float | None:
        """Clip bound of all moves, if it is one public number: constant, or of one length throughout."""
        if isinstance(clip, ConstantClip):
            return clip.constant
        length = self.fixed_length()
        if isinstance(clip, LipschitzClip) and length and step_size:
            return clip.constant * length * step_size
        return None

    @property
    def _part(self) -> int:
        return getattr(self.proposal, "part", 0) if self.relative.size > 1 else 0

    def move(self, rng: np.random.Generator) -> np.ndarray:
        """Displacement, shape (d,)."""
        unit = self.proposal.move(rng, self.d)
        move = self.step_size * self.relative[self._part] * unit
        self._shortened = False
        if self.longest < np.inf:
            length = _length(move)
            # A length of at most `longest` in floating point too: a bound L * length must not exceed B.
            if length > self.longest * (1 - 1e-12):
                move *= self.longest * (1 - 1e-12) / length
                self._shortened = True
        self._move = move
        return move

    def decided(self, accepted: bool, tune: bool) -> None:
        """Tell the proposal what became of its last move."""
        told = getattr(self.proposal, "decided", None)
        if told is not None:
            told(self._move, accepted, tune)

    def learn(self, accepted: bool, iteration: int) -> None:
        """Adapt the step sizes to a decision; `iteration` counts from 1."""
        # A larger step size would not make a shortened move longer.
        if not self.adapt or not self.target_accept or (self._shortened and accepted):
            return
        self.step_size = adapted(self.step_size, accepted, self.target_accept, iteration)
        if self.relative.size > 1:
            part = self._part
            self._tried[part] += 1
            self.relative[part] = adapted(
                self.relative[part], accepted, self.target_accept, int(self._tried[part])
            )

    @property
    def state(self) -> Any:
        """The proposal with its memory, and the relative step sizes; a copy."""
        return copy.deepcopy((self.proposal, self.relative, self._tried))

    @state.setter
    def state(self, value: Any) -> None:
        self.proposal, self.relative, self._tried = copy.deepcopy(value)


def _length(move: np.ndarray) -> float:
    return float(np.sqrt(move @ move))


def check_walk(proposal: str | Proposal | None, step_size: float | None, target_accept: float | None) -> None:
    """Raise ValueError for arguments that no random walk can have."""
    if proposal is not None:
        as_proposal(proposal)
    if step_size is not None and not (np.isfinite(step_size) and step_size > 0):
        raise ValueError(f"step_size must be positive and finite, got {step_size!r}.")
    if target_accept is not None and not 0 < target_accept < 1:
        raise ValueError(f"target_accept must lie in (0, 1), got {target_accept!r}.")
