"""Proposals by name."""

from collections.abc import Callable

from pymc_dp.proposals.components import GuidedWalk, OneAtATime
from pymc_dp.proposals.protocol import Proposal
from pymc_dp.proposals.walks import FixedRadius, GaussianWalk

PROPOSALS: dict[str, Callable[[], Proposal]] = {
    "fixed_radius": FixedRadius,
    "gaussian": GaussianWalk,
    "guided": GuidedWalk,
    "one_at_a_time": OneAtATime,
}


def as_proposal(proposal: "str | Proposal") -> Proposal:
    """Look a proposal up by name, or pass an object with a `move` through."""
    if isinstance(proposal, str):
        if proposal not in PROPOSALS:
            raise ValueError(f"unknown proposal {proposal!r}; known: {', '.join(sorted(PROPOSALS))}.")
        return PROPOSALS[proposal]()
    if isinstance(proposal, type) or not callable(getattr(proposal, "move", None)):
        raise ValueError(
            f"a proposal is one of {', '.join(sorted(PROPOSALS))} or an object with move(rng, d)."
        )
    return proposal
