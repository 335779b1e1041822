"""Proposal distributions: symmetric, and never dependent on private data."""

from pymc_dp.proposals.adaptive import AdaptiveWalk
from pymc_dp.proposals.blocks import Blocks
from pymc_dp.proposals.components import GuidedWalk, OneAtATime
from pymc_dp.proposals.lookup import PROPOSALS, as_proposal
from pymc_dp.proposals.protocol import Proposal
from pymc_dp.proposals.walks import FixedRadius, GaussianWalk

__all__ = [
    "PROPOSALS",
    "AdaptiveWalk",
    "Blocks",
    "FixedRadius",
    "GaussianWalk",
    "GuidedWalk",
    "OneAtATime",
    "Proposal",
    "as_proposal",
]
