"""Base class of random-walk steps: the moves and their arguments."""

from collections.abc import Sequence
from typing import Unpack

from pytensor.graph import Variable

from pymc_dp.clipping import LipschitzClip
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches
from pymc_dp.proposals import Proposal
from pymc_dp.proposals.walk import RandomWalk, check_walk
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.chain import StepSettings


class WalkSettings(StepSettings, total=False):
    """Arguments of every random walk, other than its budget."""

    proposal: str | Proposal | None
    step_size: float | None
    target_accept: float | None
    adapt_step_size: bool


class WalkStep(DPStep):
    """Base class of random walks; see `DPPenaltyMH` for the parameters."""

    moves: RandomWalk
    # Batches drawn without replacement; None: each iteration reads all records, or its own batches.
    _batches: FixedSizeBatches | None = None

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        epsilon: float,
        delta: float,
        batch_size: int | None = None,
        proposal: str | Proposal | None = None,
        step_size: float | None = None,
        target_accept: float | None = None,
        adapt_step_size: bool = True,
        **kwargs: Unpack[StepSettings],
    ):
        check_walk(proposal, step_size, target_accept)
        if batch_size is not None:
            kwargs["clip_fraction"] = False  # the clipped share of a batch has another sensitivity
        super().__init__(vars, epsilon=epsilon, delta=delta, **kwargs)
        self.moves = RandomWalk(
            proposal, self.records.d, step_size=step_size, target_accept=target_accept, adapt=adapt_step_size
        )
        if batch_size is not None:
            if self.neighboring_relation != "substitute":
                raise ValueError(
                    "batch_size= is for neighboring_relation='substitute' only: n must be public."
                )
            self._batches = FixedSizeBatches(self.records.n, batch_size)

    def _limit_moves(self, bound: float | None) -> None:
        """Limit the length of moves so that no ratio exceeds `bound`, if the Lipschitz constant holds."""
        if bound is not None and isinstance(self.clip, LipschitzClip):
            self.moves.longest = bound / self.clip.constant
