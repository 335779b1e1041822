"""Accept tests on what a surrogate leaves: penalty or Barker on all records, Barker on a TunaMH batch."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from pymc_dp.errors import BudgetError
from pymc_dp.kernels.acceptance import accept_barker, accept_penalty
from pymc_dp.kernels.metropolis import Accept
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.drawn_batches import TunaBatches
from pymc_dp.privacy.mechanisms.noise import ExactSum
from pymc_dp.ratios.all_records import AllRecords
from pymc_dp.ratios.protocol import Ratio
from pymc_dp.ratios.tuna import TunaBatch

# Expected draws of a batch: residuals are so small that nothing more is needed.
_BATCH = 100.0
# In draws of a record: a smaller clip bound is not tried.
_LEAST_BOUND = 1e-3
# Clip bounds that go by distance stay in floating point's range.
_SMALLEST = 1e-100
# One record is replaced: n is public.
_SENSITIVITY = ExactSum.sensitivity("substitute")
# A bound for runs without privacy that clips nothing of interest.
_UNCLIPPED = 1e3

#: From two points to where residual ratios are clipped, in untempered nats.
ClipBound = Callable[[np.ndarray, np.ndarray], float]


class ResidualTest(Protocol):
    """Decides on residual log-likelihood ratios, and says what that costs."""

    name: str
    on_all: bool
    accept: Accept
    # Share of moves that are accepted where the surrogate is the likelihood.
    expected_acceptance: float

    def price(self, call: Call, once: EventSet, clip_fraction: bool) -> PrivacyPlan:
        """Plan of a call."""

    def bound(self, plan: PrivacyPlan) -> str:
        """Where untempered ratios are clipped, for a report."""
        return f"{plan.parameters['clip_bound']:.3g} nats"

    def clip_bound(self, target: Any, plan: PrivacyPlan) -> ClipBound:
        """The same, as a function of two points."""
        constant = plan.parameters["clip_bound"]
        return lambda theta, new: constant

    def ratio(self, target: Any, plan: PrivacyPlan) -> Ratio:
        """Of the residuals."""


class PenaltyOnResiduals(ResidualTest):
    """Gaussian noise on the sum over all records, penalty test.

    Parameters
    ----------
    tempering, noise_std : float
        The noise's standard deviation, which fixes the clip bound.
    third : float, optional
        A bound of third derivatives: clip bound and noise then go by the points' distances.
    """

    name, on_all, accept = "penalty", True, staticmethod(accept_penalty)

    def __init__(self, tempering: float, noise_std: float, third: float | None = None):
        self.tempering, self.noise_std, self.third = tempering, noise_std, third
        # Of the penalty test: 2 Phi(-s / 2). Noise that goes by distance is smaller near the mode.
        self.expected_acceptance = math.erfc(noise_std / math.sqrt(8)) if third is None else 0.5

    def price(self, call: Call, once: EventSet, clip_fraction: bool) -> PrivacyPlan:
        """The clip bound at which noise of this scale is enough; or the noise, in clip bounds."""
        if self.third is not None:
            return pricing.penalty(call, clip_fraction=clip_fraction, once=once)
        plan = pricing.penalty(call, clip_fraction=clip_fraction, noise_std=self.noise_std, once=once)
        nm = plan.noise_multiplier
        bound = self.noise_std / (_SENSITIVITY * self.tempering * nm) if nm > 0 else _UNCLIPPED
        return replace(plan, parameters={**plan.parameters, "clip_bound": bound})

    def bound(self, plan: PrivacyPlan) -> str:
        """Constant, or a function of distances."""
        if self.third is not None:
            return f"{self.third:g} x (|delta|^3 + |delta'|^3) / 6 nats"
        return super().bound(plan)

    def clip_bound(self, target: Any, plan: PrivacyPlan) -> ClipBound:
        """Constant, or a function of distances."""
        third = self.third
        if third is None:
            return super().clip_bound(target, plan)

        def bound(theta: np.ndarray, new: np.ndarray) -> float:
            first, second = (float(np.linalg.norm(target.displacement(x))) for x in (theta, new))
            cubes = first * first * first + second * second * second
            return min(max(third * cubes / 6, _SMALLEST), 1 / _SMALLEST)

        return bound

    def ratio(self, target: Any, plan: PrivacyPlan) -> AllRecords:
        """One pass over the data."""
        return AllRecords(target, self.tempering, _SENSITIVITY * plan.noise_multiplier)


class BarkerOnResiduals(ResidualTest):
    """Barker's test on the sum over all records, without noise.

    Parameters
    ----------
    tempering : float
    """

    name, on_all, accept = "barker", True, staticmethod(accept_barker)
    expected_acceptance = 0.5

    def __init__(self, tempering: float):
        self.tempering = tempering

    def price(self, call: Call, once: EventSet, clip_fraction: bool) -> PrivacyPlan:
        """The largest clip bound."""
        plan = pricing.bounded_range(call, clip_fraction=clip_fraction, once=once)
        bound = min(plan.parameters["eta"] / (_SENSITIVITY * self.tempering), _UNCLIPPED)
        return replace(plan, parameters={**plan.parameters, "clip_bound": bound})

    def ratio(self, target: Any, plan: PrivacyPlan) -> AllRecords:
        """One pass over the data."""
        return AllRecords(target, self.tempering)


class FastBarkerOnResiduals(ResidualTest):
    """Barker's test on a batch of TunaMH: an iteration does not depend on the number of records.

    Parameters
    ----------
    tempering : float
    n : int
    """

    name, on_all, accept = "fast", False, staticmethod(accept_barker)
    expected_acceptance = 0.5

    def __init__(self, tempering: float, n: int):
        self.tempering, self.n = tempering, n
        self.inclusion = min(_BATCH / n, 0.5)

    def price(self, call: Call, once: EventSet, clip_fraction: bool) -> PrivacyPlan:
        """Price of batches of 100 draws, and the largest clip bound that fits, up to half a draw a record."""
        # Residuals are far smaller than that where there are many records: halving it clips nothing.
        bound = 0.5 * self.inclusion
        while True:
            try:
                return pricing.fixed(
                    call,
                    TunaBatches(self.inclusion, bound).barker_event(),
                    "Take fewer draws, a larger epsilon, or a larger share of the budget for the chain.",
                    once=once,
                    clip_bound=bound / self.tempering,
                    batch_size=self.n * self.inclusion,
                )
            except BudgetError:
                bound /= 2
                if bound < _LEAST_BOUND * self.inclusion:
                    raise

    def ratio(self, target: Any, plan: PrivacyPlan) -> TunaBatch:
        """Two evaluations of a new batch."""
        batches = TunaBatches(self.inclusion, self.tempering * plan.parameters["clip_bound"])
        return TunaBatch(target, self.tempering, batches)
