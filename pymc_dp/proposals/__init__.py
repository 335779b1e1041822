"""Proposal distributions: symmetric, and independent of private data."""

from pymc_dp.proposals.components import GuidedWalk, OneAtATime
from pymc_dp.proposals.walk import PROPOSALS, FixedRadius, GaussianWalk, Proposal, as_proposal

__all__ = ["PROPOSALS", "FixedRadius", "GaussianWalk", "GuidedWalk", "OneAtATime", "Proposal", "as_proposal"]
