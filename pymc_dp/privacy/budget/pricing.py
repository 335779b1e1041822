"""From a call's budget to the noise, or the bound, of each kind of release: one function a kind."""

import math
from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache

from dp_accounting import dp_event

from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting import calibration, gaussian
from pymc_dp.privacy.accounting.accountants import exact_gaussian
from pymc_dp.privacy.accounting.composition import compose
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.events import (
    BoundedRangeDecisionDpEvent,
    FixedScalePenaltyDecisionDpEvent,
    PenaltyDecisionDpEvent,
)
from pymc_dp.privacy.accounting.values import round_up
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan, not_private
from pymc_dp.privacy.mechanisms.drawn_batches import FixedSizeBatches

# Share of the budget, as rho = mu^2 / 2, for the released clip fractions of all chains together.
CLIP_FRACTION_SHARE = 1e-4
# Relative headroom of a noise multiplier over the exact calibration: covers the rounding of a few operations.
_HEADROOM = 1e-9


class Budget:
    """What a call has left for its iterations.

    Parameters
    ----------
    call : Call
        epsilon is finite.
    clip_fraction : bool
        Each chain releases its mean clipped share, for 1e-4 of the budget.
    once : EventSet, optional
        Gaussian releases made once for all chains.
    """

    def __init__(self, call: Call, clip_fraction: bool = False, once: EventSet | None = None):
        relation = call.neighboring_relation
        self.call = call
        self.once = EventSet([], relation) if once is None else once
        self.parameters: dict[str, float] = {}
        self.chain = EventSet([], relation)
        squared = float(gaussian.mu(call.epsilon, call.delta)) ** 2
        if clip_fraction:
            share = math.sqrt(call.chains / (squared * CLIP_FRACTION_SHARE)) * (1 + _HEADROOM)
            self.parameters["clip_fraction_noise_multiplier"] = share
            self.chain = EventSet([dp_event.GaussianDpEvent(share)], relation)
        # mu^2 that is left for the iterations of all chains, counting Gaussians only.
        spent = exact_gaussian(self.once).mu ** 2 + call.chains * exact_gaussian(self.chain).mu ** 2
        self.mu_squared = squared - spent
        if self.mu_squared <= 0:
            raise BudgetError("What is released once costs the whole budget: nothing is left for draws.")

    def plan(
        self,
        event: dp_event.DpEvent | EventSet,
        release: str = "decisions",
        chain: EventSet | None = None,
        **parameters: float,
    ) -> PrivacyPlan:
        """Plan whose iterations each release `event`, and whose chains also release `chain` once."""
        own = {f.name: getattr(self.call, f.name) for f in fields(Call)}
        return PrivacyPlan(
            **own,
            iteration=(EventSet(event, self.call.neighboring_relation),),
            chain=self.chain if chain is None else self.chain + chain,
            once=self.once,
            release=release,
            parameters={**parameters, **self.parameters},
        )

    def solve(self, plan_at: Callable[[float], PrivacyPlan], low: float, high: float) -> float:
        """Parameter in [low, high] whose plan costs the budget, never more (see `calibration.calibrate`)."""
        return calibration.calibrate(
            lambda value: plan_at(value).events, self.call.epsilon, self.call.delta, low=low, high=high
        )

    def fits(self, plan: PrivacyPlan) -> bool:
        """Whether a plan is within the budget."""
        return plan.epsilon_at(self.call.delta) <= self.call.epsilon


def calibrate(
    epsilon: float,
    delta: float,
    *,
    draws: int = 1000,
    tune: int,
    chains: int,
    neighboring_relation: str = "substitute",
    clip_fraction: bool = True,
    release: str = "decisions",
    shift: float | None = None,
    noise_std: float | None = None,
) -> PrivacyPlan:
    """Noise of the penalty algorithm that keeps a whole call within (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        Target, > 0; ``inf`` for no privacy.
    delta : float
        Target, in (0, 1); well below 1 / number of records.
    draws, tune, chains : int
        As in `pymc.sample`.
    neighboring_relation : {"substitute", "add_remove"}
    clip_fraction : bool
        Release each chain's mean clipped share, for 1e-4 of the budget.
    release : {"decisions", "noisy_ratio"}
        What each iteration lets out: the accept decision alone, or the noisy log-ratio as well.
    shift, noise_std : float, optional
        At most one of them, when it is the same public number at every iteration: the sensitivity of the
        tempered log-ratio, or the standard deviation of its noise, in nats. Decisions then cost less.

    Returns
    -------
    PrivacyPlan
        Its `epsilon_at(delta)` is never above `epsilon`.
    """
    call = Call(epsilon, delta, neighboring_relation, chains, tune, draws)
    return penalty(call, clip_fraction=clip_fraction, release=release, shift=shift, noise_std=noise_std)


@lru_cache(maxsize=256)
def penalty(
    call: Call,
    *,
    clip_fraction: bool = True,
    release: str = "decisions",
    shift: float | None = None,
    noise_std: float | None = None,
    once: EventSet | None = None,
) -> PrivacyPlan:
    """Noise multiplier of the penalty test on the full batch; see `calibrate`."""
    if release not in ("decisions", "noisy_ratio"):
        raise ValueError(f"release must be one of decisions, noisy_ratio, got {release!r}.")
    if shift is not None and noise_std is not None:
        raise ValueError("give shift or noise_std, not both.")
    if math.isinf(call.epsilon):
        return not_private(call, release, noise_multiplier=0.0)
    budget = Budget(call, clip_fraction, once)
    exact = math.sqrt(call.iterations / budget.mu_squared) * (1 + _HEADROOM)

    def at(noise_multiplier: float) -> PrivacyPlan:
        if release == "noisy_ratio":
            event: dp_event.DpEvent = dp_event.GaussianDpEvent(noise_multiplier)
            return budget.plan(event, release, noise_multiplier=noise_multiplier)
        scale = noise_multiplier * shift if shift is not None else noise_std
        if scale is None:
            event = PenaltyDecisionDpEvent(noise_multiplier)
            return budget.plan(event, noise_multiplier=noise_multiplier)
        event = FixedScalePenaltyDecisionDpEvent(scale, scale / noise_multiplier)
        return budget.plan(event, noise_multiplier=noise_multiplier, noise_std=scale)

    if release == "noisy_ratio":
        return at(exact)
    # Decisions never cost more than the Gaussians behind them, so `exact` fits; look below it.
    low = exact / 1.5
    while low > 1e-3 * exact and budget.fits(at(low)):
        low /= 1.5
    return at(budget.solve(at, low, min(1.5 * low, exact)))


@lru_cache(maxsize=256)
def bounded_range(call: Call, *, clip_fraction: bool = False, once: EventSet | None = None) -> PrivacyPlan:
    """Largest eta of bounded-range decisions, in parameter "eta" (nats); inf without privacy."""
    if math.isinf(call.epsilon):
        return not_private(call, "decisions", eta=math.inf)
    budget = Budget(call, clip_fraction, once)

    def at(eta: float) -> PrivacyPlan:
        return budget.plan(BoundedRangeDecisionDpEvent(eta), eta=eta)

    # eta^2 / 8-zCDP is mu = eta / 2: as much as that is always allowed, up to the tightness of zCDP.
    low = high = 2 * math.sqrt(budget.mu_squared / call.iterations)
    while not budget.fits(at(low)):
        low /= 1.5
    while budget.fits(at(high)):
        high *= 1.5
    return at(budget.solve(at, low, high))


@lru_cache(maxsize=256)
def penalty_on_batches(
    call: Call, batches: FixedSizeBatches, *, release: str = "decisions", once: EventSet | None = None
) -> PrivacyPlan:
    """Noise of the subsampled penalty (Räisä 2021, Theorem 9), in parameter "noise_multiplier".

    The noise multiplier is the noise's standard deviation over the sensitivity of the corrected ratio.
    """
    if math.isinf(call.epsilon):
        return not_private(call, release, noise_multiplier=0.0)
    budget = Budget(call, once=once)

    def at(noise_multiplier: float) -> PrivacyPlan:
        event = batches.gaussian_event(noise_multiplier)
        return budget.plan(event, release, noise_multiplier=noise_multiplier)

    high = 1.01 * math.sqrt(call.iterations / budget.mu_squared)  # a Gaussian without sampling
    while not budget.fits(at(high)):
        high *= 1.5
    low = high / 1.5
    while low > 1e-3 and budget.fits(at(low)):
        low /= 1.5
    return at(budget.solve(at, low, high))


@lru_cache(maxsize=256)
def hamiltonian(
    call: Call,
    n_leapfrog: int,
    gradient_share: float,
    *,
    clip_fraction: bool = False,
) -> PrivacyPlan:
    """Noise of DP HMC (Räisä 2021, section 5.2): `n_leapfrog` gradients and one decision an iteration.

    Parameters "noise_multiplier" (of the final ratio) and "gradient_noise_multiplier"; each chain releases
    one gradient more.
    """
    if math.isinf(call.epsilon):
        return not_private(call, "decisions", noise_multiplier=0.0, gradient_noise_multiplier=0.0)
    budget = Budget(call, clip_fraction)
    relation = call.neighboring_relation
    gradients = call.iterations * n_leapfrog + call.chains
    ratio = math.sqrt(call.iterations / ((1 - gradient_share) * budget.mu_squared)) * (1 + _HEADROOM)
    gradient = math.sqrt(gradients / (gradient_share * budget.mu_squared)) * (1 + _HEADROOM)

    def at(scale: float) -> PrivacyPlan:
        release = dp_event.GaussianDpEvent(scale * gradient)
        decision = PenaltyDecisionDpEvent(scale * ratio)
        return budget.plan(
            EventSet([decision, dp_event.SelfComposedDpEvent(release, n_leapfrog)], relation),
            chain=EventSet(release, relation),
            noise_multiplier=scale * ratio,
            gradient_noise_multiplier=scale * gradient,
        )

    # At scale 1 the Gaussians behind the decisions fit; decisions cost less.
    return at(budget.solve(at, 0.5, 1.0))


def fixed(
    call: Call,
    event: dp_event.DpEvent,
    advice: str,
    *,
    clip_fraction: bool = False,
    once: EventSet | None = None,
    **parameters: float,
) -> PrivacyPlan:
    """Plan of an iteration whose price is given.

    Parameters
    ----------
    call : Call
    event : DpEvent
        What an iteration releases.
    advice : str
        How to make it cheaper, for the error.
    clip_fraction, once
        As in `Budget`.
    **parameters : float
        For the plan.

    Raises
    ------
    BudgetError
        It does not fit; nothing has been read.
    """
    if math.isinf(call.epsilon):
        return not_private(call, "decisions", **parameters)
    budget = Budget(call, clip_fraction, once)
    plan = budget.plan(event, "decisions", None, **parameters)
    if budget.fits(plan):
        return plan
    allowed = calibration.iterations_allowed(
        EventSet(event, call.neighboring_relation),
        call.epsilon,
        call.delta,
        once=[budget.once, budget.chain.repeated(call.chains)],
    )
    cost = compose(plan.events).epsilon(call.delta)
    raise BudgetError(
        f"{call.iterations} iterations (chains x (tune + draws)) cost epsilon = {round_up(cost)} at delta = "
        f"{call.delta:g}, and the budget is {call.epsilon:g}: {allowed} iterations would fit. {advice}"
    )
