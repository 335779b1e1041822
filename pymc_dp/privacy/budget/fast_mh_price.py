"""What DP-Fast MH pays: from a call's budget to the bound on a record and the size of the batches."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dp_accounting import dp_event

from pymc_dp.privacy.accounting.calibration import calibrate
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.events import (
    BoundedRangeDecisionDpEvent,
    FixedScalePenaltyDecisionDpEvent,
    PenaltyDecisionDpEvent,
)
from pymc_dp.privacy.accounting.values import round_down
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan, not_private
from pymc_dp.privacy.mechanisms.drawn_batches import TunaBatches
from pymc_dp.privacy.mechanisms.noise import ExactSum

# Expected draws of a record from which on all records are used instead: a draw costs two evaluations of the
# log-likelihood, a record of the full batch one, and the full batch is cheaper in privacy and has no noise.
FULL_BATCH_FROM = 0.5
# Batches below this save no time: an iteration costs as much without any record.
SMALLEST_BATCH = 1000
# Largest x = N B / lambda of a bound that is found from a batch size: longer moves would drown in the noise
# of their batch, at any price.
LARGEST_X = 10.0
# Share of the records in a batch when there is no privacy to pay for, and so nothing to derive it from.
NON_PRIVATE_SHARE = 0.1
_TOLERANCE = 1e-4  # relative, of a bound; never over the budget


@dataclass(frozen=True)
class BarkerTest:
    """Barker's test; no noise is added (docs/proofs/fast_mh, Theorem 5)."""

    def full(self, call: Call) -> PrivacyPlan:
        """Plan of the full-batch form, with the largest "clip_bound" that fits."""
        plan = pricing.bounded_range(call)
        bound = plan.parameters["eta"] / sensitivity(call)
        return replace(plan, parameters={"clip_bound": bound})

    def full_event(self, clip_bound: float, sensitivity: float) -> dp_event.DpEvent:
        """What an iteration of the full-batch form releases."""
        return BoundedRangeDecisionDpEvent(sensitivity * clip_bound)

    def event(self, batches: TunaBatches) -> dp_event.DpEvent:
        """What an iteration on batches releases."""
        return batches.barker_event()

    def parameters(self) -> dict[str, Any]:
        """Public numbers of the test, for the plan: none."""
        return {}


@dataclass(frozen=True)
class PenaltyTest:
    """Gaussian noise and the penalty test.

    Parameters
    ----------
    noise_std : float
        Standard deviation of the noise of the longest move, in nats; shorter ones have less.
    constant : bool
        Whether all moves have that bound and noise; decisions are then cheaper on the full batch.
    """

    noise_std: float
    constant: bool

    def full(self, call: Call) -> PrivacyPlan:
        """Plan of the full-batch form, with the largest "clip_bound" that fits."""
        plan = pricing.penalty(call, clip_fraction=False, noise_std=self.noise_std if self.constant else None)
        bound = self.noise_std / (plan.noise_multiplier * sensitivity(call))
        return replace(plan, parameters={"clip_bound": bound, **self.parameters()})

    def full_event(self, clip_bound: float, sensitivity: float) -> dp_event.DpEvent:
        """What an iteration of the full-batch form releases."""
        shift = sensitivity * clip_bound
        if self.constant:
            return FixedScalePenaltyDecisionDpEvent(self.noise_std, shift)
        return PenaltyDecisionDpEvent(self.noise_std / shift)

    def event(self, batches: TunaBatches) -> dp_event.DpEvent:
        """What an iteration on batches releases."""
        return batches.mixture_event(self.noise_std)

    def parameters(self) -> dict[str, Any]:
        """Public numbers of the test, for the plan."""
        return {"noise_std": self.noise_std}


#: An accept test, as its price sees it.
Test = BarkerTest | PenaltyTest


def sensitivity(call: Call) -> float:
    """Most that one record moves a sum of ratios, in units of the bound."""
    return ExactSum.sensitivity(call.neighboring_relation)


def default_inclusion(clip_bound: float, n: int, d: int) -> float:
    """Expected draws of a record when no batch size is given.

    Parameters
    ----------
    clip_bound : float
        B, in nats.
    n : int
        Number of records, public.
    d : int
        Number of parameters.

    Returns
    -------
    float
        Large enough that (1) drawing a batch adds a variance of at most about 1 to the log-ratio, in the mean
        over directions of a short move, whatever the records (docs/proofs/fast_mh, section 7); (2) ``x = N B
        / lambda <= 1``, where batches cost next to nothing in privacy; (3) there are 1,000 records.
    """
    return max(n * clip_bound**2 / d + 0.5 * clip_bound, 2 * clip_bound, SMALLEST_BATCH / n)


@lru_cache(maxsize=256)
def plan(
    call: Call,
    test: Test,
    *,
    n: int,
    d: int,
    inclusion: float | None = None,
    clip_bound: float | None = None,
) -> PrivacyPlan:
    """Bound and batches of a call.

    Parameters
    ----------
    call : Call
    test : BarkerTest or PenaltyTest
    n : int
        Number of records, public.
    d : int
        Number of parameters.
    inclusion : float, optional
        Expected draws of a record, batch size over n. Default: `default_inclusion`. From `FULL_BATCH_FROM`
        on, all records are used.
    clip_bound : float, optional
        B, in nats of the tempered log-ratio. Default: the largest that fits.

    Returns
    -------
    PrivacyPlan
        With parameters "clip_bound", and "inclusion" and "batch_size" unless all records are used, and those
        of the test.

    Raises
    ------
    BudgetError
        The bound does not fit the budget, whatever the batches.
    ValueError
        The batch is too small for the bound: no lambda is left.
    """
    if math.isinf(call.epsilon):
        return _not_private(call, n, inclusion, clip_bound)
    if clip_bound is not None:
        return _at_bound(call, test, n, d, inclusion, clip_bound)
    full = test.full(call)
    largest = full.parameters["clip_bound"]
    if (default_inclusion(largest, n, d) if inclusion is None else inclusion) >= FULL_BATCH_FROM:
        return full
    budget = pricing.Budget(call)

    def at(bound: float) -> PrivacyPlan:
        return _on_batches(budget, test, n, inclusion or default_inclusion(bound, n, d), bound)

    if inclusion is not None:
        largest = min(largest, inclusion * LARGEST_X / (1 + LARGEST_X))
    low = high = largest
    while (cost := at(low).epsilon_at(call.delta)) > call.epsilon:
        low, high = low * max(0.95 * call.epsilon / cost, 0.2), low  # epsilon is about linear in the bound
    return at(low if low == largest else _solve(at, call, low, high))


def _solve(at: Callable[[float], PrivacyPlan], call: Call, low: float, high: float) -> float:
    def events(value: float) -> EventSet:
        return at(value).events

    return calibrate(events, call.epsilon, call.delta, low=low, high=high, tolerance=_TOLERANCE)


def _on_batches(
    budget: pricing.Budget, test: Test, n: int, inclusion: float, clip_bound: float
) -> PrivacyPlan:
    event = test.event(TunaBatches(inclusion, clip_bound))
    sizes: dict[str, Any] = {"clip_bound": clip_bound, "batch_size": n * inclusion, "inclusion": inclusion}
    return budget.plan(event, **sizes, **test.parameters())


def _at_bound(
    call: Call, test: Test, n: int, d: int, inclusion: float | None, clip_bound: float
) -> PrivacyPlan:
    """The smallest batches, not below the default, that fit."""
    budget = pricing.Budget(call)
    largest = round_down(0.999 * test.full(call).parameters["clip_bound"])
    advice = (
        f"Take clip_bound = {largest} or less, fewer draws, a shorter tune, fewer chains, or a larger "
        "epsilon."
    )

    def at(draws: float) -> PrivacyPlan:
        return _on_batches(budget, test, n, draws, clip_bound)

    least = default_inclusion(clip_bound, n, d) if inclusion is None else inclusion
    if least < FULL_BATCH_FROM:
        cheapest = at(least)
        if budget.fits(cheapest):
            return cheapest
        if inclusion is not None:
            event = test.event(TunaBatches(inclusion, clip_bound))
            return pricing.fixed(call, event, f"Take a larger batch_size. {advice}")
        if budget.fits(at(FULL_BATCH_FROM)):
            return at(_solve(at, call, least, FULL_BATCH_FROM))
    event = test.full_event(clip_bound, sensitivity(call))
    return pricing.fixed(call, event, advice, clip_bound=clip_bound, **test.parameters())


def _not_private(call: Call, n: int, inclusion: float | None, clip_bound: float | None) -> PrivacyPlan:
    """TunaMH: a bound that leaves some lambda."""
    share = max(NON_PRIVATE_SHARE, SMALLEST_BATCH / n) if inclusion is None else inclusion
    if inclusion is None and clip_bound is not None:
        share = max(share, 2 * clip_bound)
    if share >= FULL_BATCH_FROM:
        bound: dict[str, Any] = {} if clip_bound is None else {"clip_bound": clip_bound}
        return not_private(call, "decisions", **bound)
    bound = {"clip_bound": share * LARGEST_X / (1 + LARGEST_X) if clip_bound is None else clip_bound}
    TunaBatches(share, bound["clip_bound"])  # refuses a batch without lambda
    return not_private(call, "decisions", **bound, batch_size=n * share, inclusion=share)
