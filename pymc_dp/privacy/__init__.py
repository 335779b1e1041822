"""Privacy accounting: events say what happened, accountants what it costs. No PyMC, no PyTensor."""

from pymc_dp.privacy.calibration import (
    calibrate,
    iterations_allowed,
    smallest_noise_multiplier,
)
from pymc_dp.privacy.composition import AccountantComparison, Guarantee, compare_accountants, compose
from pymc_dp.privacy.events import (
    BarkerMinibatchDpEvent,
    BoundedRangeDecisionDpEvent,
    EventSet,
    FixedScalePenaltyDecisionDpEvent,
    PenaltyDecisionDpEvent,
    PoissonBarkerDecisionDpEvent,
    PoissonMixtureDpEvent,
    subsampled_penalty,
)
from pymc_dp.privacy.running import running_epsilon

__all__ = [
    "AccountantComparison",
    "BarkerMinibatchDpEvent",
    "BoundedRangeDecisionDpEvent",
    "EventSet",
    "FixedScalePenaltyDecisionDpEvent",
    "Guarantee",
    "PenaltyDecisionDpEvent",
    "PoissonBarkerDecisionDpEvent",
    "PoissonMixtureDpEvent",
    "calibrate",
    "compare_accountants",
    "compose",
    "iterations_allowed",
    "running_epsilon",
    "smallest_noise_multiplier",
    "subsampled_penalty",
]
