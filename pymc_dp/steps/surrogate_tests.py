"""Accept tests on what a surrogate leaves: penalty or Barker on all records, Barker on a TunaMH batch."""

import math
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_dp import tuna
from pymc_dp.acceptance import barker, penalty
from pymc_dp.errors import BudgetError
from pymc_dp.privacy import pricing
from pymc_dp.privacy.events import EventSet
from pymc_dp.privacy.multisets import Multisets
from pymc_dp.privacy.plan import Call, PrivacyPlan
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.records.sums import GRID

# Expected draws of a batch: residuals are so small that nothing more is needed.
_BATCH = 100.0
# In draws of a record: a smaller clip bound is not tried.
_LEAST_BOUND = 1e-3
# Clip bounds that go by distance stay in floating point's range.
_SMALLEST = 1e-100


class Decision(NamedTuple):
    """What came of a proposal; `kept` and `clipped` are private."""

    accepted: bool
    kept: Any
    clipped: float
    noise_std: float
    clip_bound: float
    batch_size: float


class ResidualTest(Protocol):
    """Decides on residual log-likelihood ratios, and says what that costs."""

    on_all: bool
    # Share of moves that are accepted where the surrogate is the likelihood.
    expected_acceptance: float

    def price(self, call: Call, once: EventSet, clip_fraction: bool) -> PrivacyPlan:
        """Plan of a call."""

    def bound(self, plan: PrivacyPlan) -> str:
        """Where untempered ratios are clipped, for a report."""

    def decide(
        self,
        target: Any,
        theta: np.ndarray,
        new: np.ndarray,
        kept: Any,
        plan: PrivacyPlan,
        random: PrivacyRandom,
    ) -> Decision:
        """Accept or reject."""


class PenaltyOnResiduals:
    """Gaussian noise on the sum over all records, penalty test.

    Parameters
    ----------
    tempering, noise_std : float
        The noise's standard deviation, which fixes the clip bound.
    third : float, optional
        A bound of third derivatives: clip bound and noise then go by the points' distances.
    """

    on_all = True

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
        bound = self.noise_std / (2 * self.tempering * nm) if nm > 0 else _unclipped(call)
        return replace(plan, parameters={**plan.parameters, "clip_bound": bound})

    def bound(self, plan: PrivacyPlan) -> str:
        """Constant, or a function of distances."""
        if self.third is not None:
            return f"{self.third:g} x (|delta|^3 + |delta'|^3) / 6 nats"
        return f"{plan.parameters['clip_bound']:.3g} nats"

    def decide(
        self,
        target: Any,
        theta: np.ndarray,
        new: np.ndarray,
        kept: Any,
        plan: PrivacyPlan,
        random: PrivacyRandom,
    ) -> Decision:
        """One pass over the data."""
        noise = 2 * plan.noise_multiplier
        if self.third is None:
            bound = plan.parameters["clip_bound"]
        else:
            first, second = (float(np.linalg.norm(target.displacement(x))) for x in (theta, new))
            cubes = first * first * first + second * second * second
            bound = min(max(self.third * cubes / 6, _SMALLEST), 1 / _SMALLEST)
        ratios = target.full_batch(new, kept, bound)
        scale = self.tempering * bound
        noisy = scale * (ratios.total / GRID + noise * random.normal())
        accepted = penalty(noisy, scale * noise * scale * noise, random.exponential())
        return Decision(accepted, ratios.rows, ratios.clipped, scale * noise, bound, math.nan)


class BarkerOnResiduals:
    """Barker's test on the sum over all records, without noise.

    Parameters
    ----------
    tempering : float
    """

    on_all = True
    expected_acceptance = 0.5

    def __init__(self, tempering: float):
        self.tempering = tempering

    def price(self, call: Call, once: EventSet, clip_fraction: bool) -> PrivacyPlan:
        """The largest clip bound."""
        plan = pricing.bounded_range(call, clip_fraction=clip_fraction, once=once)
        bound = min(plan.parameters["eta"] / (2 * self.tempering), _unclipped(call))
        return replace(plan, parameters={**plan.parameters, "clip_bound": bound})

    def bound(self, plan: PrivacyPlan) -> str:
        """Constant."""
        return f"{plan.parameters['clip_bound']:.3g} nats"

    def decide(
        self,
        target: Any,
        theta: np.ndarray,
        new: np.ndarray,
        kept: Any,
        plan: PrivacyPlan,
        random: PrivacyRandom,
    ) -> Decision:
        """One pass over the data."""
        bound = plan.parameters["clip_bound"]
        ratios = target.full_batch(new, kept, bound)
        log_ratio = self.tempering * bound * (ratios.total / GRID)
        return Decision(
            barker(log_ratio, random.exponential(), random.exponential()),
            ratios.rows,
            ratios.clipped,
            0.0,
            bound,
            math.nan,
        )


class FastBarkerOnResiduals:
    """Barker's test on a batch of TunaMH: an iteration does not depend on the number of records.

    Parameters
    ----------
    tempering : float
    n : int
    """

    on_all = False
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
                    Multisets(self.inclusion, bound).barker_event(),
                    "Take fewer draws, a larger epsilon, or a larger share of the budget for the chain.",
                    once=once,
                    clip_bound=bound / self.tempering,
                    batch_size=self.n * self.inclusion,
                )
            except BudgetError:
                bound /= 2
                if bound < _LEAST_BOUND * self.inclusion:
                    raise

    def bound(self, plan: PrivacyPlan) -> str:
        """Constant."""
        return f"{plan.parameters['clip_bound']:.3g} nats"

    def decide(
        self,
        target: Any,
        theta: np.ndarray,
        new: np.ndarray,
        kept: Any,
        plan: PrivacyPlan,
        random: PrivacyRandom,
    ) -> Decision:
        """Two evaluations of a new batch."""
        batches = Multisets(self.inclusion, self.tempering * plan.parameters["clip_bound"])
        drawn = batches.draw(random, self.n)
        ratios = self.tempering * target.ratios(theta, new, drawn)
        uniforms = random.uniform(drawn.size)
        log_ratio = tuna.log_ratio(ratios, batches.clip_bound, batches, uniforms)
        accepted = barker(log_ratio, random.exponential(), random.exponential())
        bound = plan.parameters["clip_bound"]
        return Decision(accepted, None, 0.0, 0.0, bound, plan.parameters["batch_size"])


def _unclipped(call: Call) -> float:
    """A bound for runs without privacy that clips nothing of interest."""
    return 1e3
