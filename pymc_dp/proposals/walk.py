"""Proposals that move all components together; scaling of proposals by step sizes, and tuning of these."""

import copy
import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from pymc_dp.bounds import check_positive, check_share
from pymc_dp.clipping import Clip, ConstantClip, LipschitzClip
from pymc_dp.proposals.components import GuidedWalk, OneAtATime


@runtime_checkable
class Proposal(Protocol):
    """A symmetric random move.

    An object with `move` is a proposal. If it also is a `Learner`, it receives the decisions about its moves.
    If it is `ByParts`, tuning adapts a step size for each kind of its moves.

    Notes
    -----
    **Privacy.** A move may depend on earlier decisions and on public randomness, never on the data.
    """

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Draw a displacement, shape (d,), for step size 1."""


@runtime_checkable
class Learner(Protocol):
    """A proposal with a memory.

    It is copied for every chain, and its moves must leave the posterior invariant together with that memory
    (docs/proofs/penalty).
    """

    def decided(self, accepted: bool) -> None:
        """Receive the decision about the last move."""


@runtime_checkable
class ByParts(Protocol):
    """A proposal of several kinds of moves.

    Attributes
    ----------
    part : int
        Index of the kind of the last move.
    """

    part: int

    def parts(self, d: int) -> int:
        """Return the number of kinds."""


class _Scaled:
    def __init__(self, scale: ArrayLike = 1.0):
        array = np.asarray(scale, dtype=float)
        if array.ndim > 2 or not np.all(np.isfinite(array)):
            raise ValueError(
                "the scale of a proposal is a finite number, vector (d,) or covariance matrix (d, d)."
            )
        if array.ndim == 2:
            if array.shape[0] != array.shape[1] or not np.allclose(array, array.T):
                raise ValueError("the covariance matrix of a proposal must be square and symmetric.")
            try:
                array = np.linalg.cholesky(array)
            except np.linalg.LinAlgError:
                raise ValueError("the covariance matrix of a proposal must be positive definite.") from None
        elif np.any(array <= 0):
            raise ValueError("the scale of a proposal must be positive.")
        self._factor = array

    def _scaled(self, z: np.ndarray) -> np.ndarray:
        if self._factor.ndim and self._factor.shape[0] != z.size:
            raise ValueError(
                f"the proposal's scale has {self._factor.shape[0]} entries, the model {z.size} "
                "unconstrained parameters."
            )
        return self._factor @ z if self._factor.ndim == 2 else self._factor * z


class GaussianWalk(_Scaled):
    """Gaussian random walk.

    Parameters
    ----------
    scale : float, array_like of shape (d,) or (d, d), optional
        Standard deviation(s) or covariance of a move with step size 1, in unconstrained space.
        Must come from public knowledge or from earlier releases.

    Notes
    -----
    **Privacy.** Reads no data; the moves use PyMC's generator.
    """

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Draw a displacement, shape (d,), for step size 1."""
        return self._scaled(rng.standard_normal(d))


class FixedRadius(_Scaled):
    """Moves that are uniform on a sphere, or with several scales on an ellipsoid.

    With a scalar scale all moves have the same length for a given step size. With a Lipschitz clip the noise
    of the log-ratio then has the same standard deviation at every iteration.

    Parameters
    ----------
    scale : float, array_like of shape (d,) or (d, d), optional
        Root mean square of each coordinate of a move, or covariance, as in `GaussianWalk`.

    Notes
    -----
    **Privacy.** Reads no data; the moves use PyMC's generator.
    """

    def length(self, d: int) -> float | None:
        """Return the length of every move for step size 1, or None if it depends on the direction."""
        return float(self._factor) * np.sqrt(d) if self._factor.ndim == 0 else None

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Draw a displacement, shape (d,), for step size 1."""
        if d < 2:
            raise ValueError(
                "a fixed radius in one dimension only reaches a lattice: use the Gaussian proposal."
            )
        z = rng.standard_normal(d)
        return self._scaled(z * np.sqrt(d / (z @ z)))


#: Names by which proposals can be given.
PROPOSALS: dict[str, Callable[[], Proposal]] = {
    "fixed_radius": FixedRadius,
    "gaussian": GaussianWalk,
    "guided": GuidedWalk,
    "one_at_a_time": OneAtATime,
}


def as_proposal(proposal: "str | Proposal") -> Proposal:
    """Return the proposal of a name, or a given object that has a `move`."""
    if isinstance(proposal, str):
        if proposal not in PROPOSALS:
            raise ValueError(f"unknown proposal {proposal!r}; known: {', '.join(sorted(PROPOSALS))}.")
        return PROPOSALS[proposal]()
    if isinstance(proposal, type) or not isinstance(proposal, Proposal):
        raise ValueError(
            f"a proposal is one of {', '.join(sorted(PROPOSALS))} or an object with move(rng, d)."
        )
    return proposal


def adapted(step_size: float, accepted: bool, target: float, iteration: int) -> float:
    """Adapt a step size to a decision: Robbins-Monro on its logarithm (Garthwaite, Fan & Sisson 2016).

    Parameters
    ----------
    step_size : float
    accepted : bool
    target : float
        Acceptance rate that is aimed at.
    iteration : int
        Number of decisions so far, this one included.

    Returns
    -------
    float
        The new step size.

    Notes
    -----
    **Privacy.** A function of released decisions.
    """
    # The gain is constant for 20 iterations, and then decreases like 1 / t.
    gain = 1.0 / (target * (1 - target) * max(20.0, iteration))
    return step_size * math.exp(gain * (accepted - target))


class Moves:
    """Proposals of a step and their tuning, in one chain at a time.

    Attributes
    ----------
    name : str
        Name in the report.
    step_size : float

    Notes
    -----
    **Privacy.** Reads no data; adapts to released numbers.
    """

    name = ""
    step_size = math.nan

    def begin(self) -> None:
        """Reset everything that was adapted to the last chain."""

    def learn(self, accepted: bool, iteration: int) -> None:
        """Adapt to a decision, during tuning; `iteration` counts from 1."""

    def decided(self, accepted: bool) -> None:
        """Receive a decision, whether or not the chain is tuning."""


class RandomWalk(Moves):
    """Symmetric moves, no longer than a public bound.

    Parameters
    ----------
    proposal : str or Proposal, optional
        Default: "fixed_radius"; "gaussian" in one dimension.
    d : int
        Number of parameters.
    step_size : float, optional
        Initial multiple of the proposal's scale; None for the default of the step method.
    target_accept : float, optional
        Acceptance rate that tuning aims at; None if the step method sets it.
    adapt : bool
        Whether tuning adapts the step size.

    Attributes
    ----------
    proposal : Proposal
        This chain's copy: a proposal with a memory depends on the chain's decisions.
    step_size : float
        Current multiple of the proposal's scale.
    gaussian : bool
        Whether the lengths of moves vary like those of a Gaussian vector.
    guided : bool
        Whether moves keep a direction while they are accepted.
    relative : ndarray, shape (parts,)
        Factors of the step size, one for each kind of move of the proposal (one number if all components move
        together).
    longest : float
        Longer moves are shortened to this length. Shortening is an odd function of the move, so that the
        proposal stays symmetric.

    Raises
    ------
    ValueError
        An argument is out of range, or the proposal's scale has the wrong number of entries.

    Notes
    -----
    **Privacy.** Reads no data; adapts to released decisions.
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
        self.name = type(given).__name__
        self.gaussian, self.guided = isinstance(given, GaussianWalk), isinstance(given, GuidedWalk)
        self.d, self.initial, self.target_accept, self.adapt = d, step_size, target_accept, adapt
        self.longest = np.inf
        self.begin()
        self.proposal.move(np.random.default_rng(0), d)  # refuses a scale of the wrong shape now
        self.begin()

    def begin(self) -> None:
        """Start from the proposal as it was given: no adaptation is kept from one chain to another."""
        self.proposal = copy.deepcopy(self._given)
        self.relative = np.ones(self.proposal.parts(self.d) if isinstance(self.proposal, ByParts) else 1)
        self._tried = np.zeros(self.relative.size, dtype=int)
        self._shortened = False

    @property
    def unit_length(self) -> float:
        """Root mean square length of a move with step size 1, over 1,000 or more trial moves."""
        return float(np.sqrt(np.mean(self._trial_moves(np.linalg.norm)[1] ** 2)))

    def _trial_moves(self, measure: Callable[[np.ndarray], float]) -> tuple[np.ndarray, np.ndarray]:
        """Draw trial moves with step size 1; return the part of each, and its measure."""
        rng, proposal = np.random.default_rng(0), copy.deepcopy(self._given)
        size = max(1000, 20 * self.relative.size)
        found = [(measure(proposal.move(rng, self.d)), self._part(proposal)) for _ in range(size)]
        values, parts = np.array(found).T
        return parts.astype(int), values

    def set_steps(self, rate: Callable[[np.ndarray], float], bound: float) -> None:
        """Give each part the step size at which the root mean square of its clip bound is `bound`.

        Parameters
        ----------
        rate : callable
            Clip bound of a move, proportional to its length.
        bound : float

        Notes
        -----
        Unless all moves of the run have one length (`fixed_length`), their root mean square length is at most
        1 in the beginning: unconstrained parameters seldom need more.
        """
        parts, bounds = self._trial_moves(rate)
        lengths = self._trial_moves(np.linalg.norm)[1]
        steps = np.empty(self.relative.size)
        for part in range(steps.size):
            here = parts == part if np.any(parts == part) else slice(None)
            steps[part] = bound / np.sqrt(np.mean(bounds[here] ** 2))
            if not self.fixed_length():
                steps[part] = min(steps[part], 1 / np.sqrt(np.mean(lengths[here] ** 2)))
        self.step_size = float(np.exp(np.mean(np.log(steps))))
        self.relative = steps / self.step_size

    def fixed_length(self) -> float | None:
        """Return the length of every move for step size 1, if it is constant in the run; otherwise None."""
        scalar = isinstance(self._given, FixedRadius) and self._given.length(self.d)
        return scalar or None if not self.adapt else None

    def constant_clip_bound(self, clip: Clip, step_size: float | None) -> float | None:
        """Return the clip bound if it is one public number for all moves of the run; otherwise None."""
        if isinstance(clip, ConstantClip):
            return clip.constant
        length = self.fixed_length()
        if isinstance(clip, LipschitzClip) and length and step_size:
            return clip.constant * length * step_size
        return None

    def _part(self, proposal: Proposal) -> int:
        return proposal.part % self.relative.size if isinstance(proposal, ByParts) else 0

    def move(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a displacement, shape (d,)."""
        unit = self.proposal.move(rng, self.d)
        move = self.step_size * self.relative[self._part(self.proposal)] * unit
        self._shortened = False
        if self.longest < np.inf:
            length = np.linalg.norm(move)
            # The margin keeps the length at most `longest` in floating point: L * length must not exceed B.
            if length > self.longest * (1 - 1e-12):
                move *= self.longest * (1 - 1e-12) / length
                self._shortened = True
        return move

    def decided(self, accepted: bool) -> None:
        """Pass the decision about its last move to the proposal."""
        if isinstance(self.proposal, Learner):
            self.proposal.decided(accepted)

    def learn(self, accepted: bool, iteration: int) -> None:
        """Adapt the step sizes to a decision; `iteration` counts from 1."""
        # Not after an accepted move that was shortened: a larger step size would not make it longer.
        if not self.adapt or not self.target_accept or (self._shortened and accepted):
            return
        self.step_size = adapted(self.step_size, accepted, self.target_accept, iteration)
        if self.relative.size > 1:
            part = self._part(self.proposal)
            self._tried[part] += 1
            self.relative[part] = adapted(
                self.relative[part], accepted, self.target_accept, int(self._tried[part])
            )


def check_walk(proposal: str | Proposal | None, step_size: float | None, target_accept: float | None) -> None:
    """Raise ValueError for arguments that no random walk can have."""
    if proposal is not None:
        as_proposal(proposal)
    if step_size is not None:
        check_positive("step_size", step_size)
    if target_accept is not None:
        check_share("target_accept", target_accept)
