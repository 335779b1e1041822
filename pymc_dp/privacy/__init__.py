"""Privacy accounting: events describe releases, accountants compute their cost. No PyMC, no PyTensor."""

from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.calibration import calibrate, iterations_allowed
from pymc_dp.privacy.accounting.composition import Guarantee, compose
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.events import (
    ApproximateZCDpEvent,
    BarkerMinibatchDpEvent,
    BatchPenaltyDecisionDpEvent,
    BoundedRangeDecisionDpEvent,
    FixedScalePenaltyDecisionDpEvent,
    PenaltyDecisionDpEvent,
    PoissonBarkerDecisionDpEvent,
    PoissonMixtureDpEvent,
)
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.plan import running_epsilon

__all__ = [
    "ApproximateZCDpEvent",
    "BarkerMinibatchDpEvent",
    "BatchPenaltyDecisionDpEvent",
    "BoundedRangeDecisionDpEvent",
    "EventSet",
    "FixedScalePenaltyDecisionDpEvent",
    "Guarantee",
    "Ledger",
    "PenaltyDecisionDpEvent",
    "PoissonBarkerDecisionDpEvent",
    "PoissonMixtureDpEvent",
    "calibrate",
    "compose",
    "gaussian",
    "iterations_allowed",
    "running_epsilon",
]
