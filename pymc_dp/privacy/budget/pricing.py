"""From a call to its plan: the noise, the bound or the batches of each mechanism that its budget allows.

A function a mechanism. Each says which settings are tried; `Budget.solve` finds the dearest that were
composed and found within the budget.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache

import numpy as np
from dp_accounting import dp_event

from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting import calibration, gaussian
from pymc_dp.privacy.accounting.accountants import exact_gaussian
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.values import round_down, round_up
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.mechanisms.clip_fraction import ClipFraction
from pymc_dp.privacy.mechanisms.friction import Dynamics
from pymc_dp.privacy.mechanisms.iterations import (
    Barker,
    BarkerOnBatches,
    Friction,
    Hamiltonian,
    Mechanism,
    NoisyRatio,
    OnTunaBatches,
    Penalty,
    PenaltyOnBatches,
    Unlimited,
)
from pymc_dp.privacy.mechanisms.randomness import ExactSum, FixedSizeBatches, TunaBatches

# Share of the budget, as rho = mu^2 / 2, for the released clip fractions of all chains together.
CLIP_FRACTION_SHARE = 1e-4
# Relative headroom of a noise multiplier over the exact calibration: covers the rounding of a few operations.
_HEADROOM = 1e-9

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

# A bound for runs without privacy that clips nothing of interest, in nats.
UNCLIPPED = 1e3
# A batch for what a surrogate leaves, in expected draws: it is so little that nothing more is needed.
_RESIDUAL_BATCH = 100.0
# In draws of a record: a smaller clip bound is not tried.
_LEAST_BOUND = 1e-3

# Ends of searches for settings without other ones: nothing of use is beyond.
_LEAST, _MOST = 1e-12, 1e12
# Events in another order may be composed to another last digit.
_NUDGE = 1e-9


def plan_of(call: Call, mechanism: Mechanism) -> PrivacyPlan:
    """Plan of a call that releases nothing but its iterations; without a budget, one that is not private."""
    return Budget(call).plan(mechanism)


class Budget:
    """What a call has left for its iterations.

    Parameters
    ----------
    call : Call
    clip_fraction : bool
        Each chain releases its mean clipped share, for 1e-4 of the budget.
    once : EventSet, optional
        Gaussian releases made once for all chains.
    """

    def __init__(self, call: Call, clip_fraction: bool = False, once: EventSet | None = None):
        nothing = EventSet([], call.neighboring_relation)
        self.call, self.once = call, nothing if once is None else once
        self.share: ClipFraction | None = None
        self.mu_squared = math.inf
        if math.isinf(call.epsilon):
            self.once = nothing
            return
        squared, shares = float(gaussian.mu(call.epsilon, call.delta)) ** 2, 0.0
        if clip_fraction:
            noise = math.sqrt(call.chains / (squared * CLIP_FRACTION_SHARE)) * (1 + _HEADROOM)
            self.share = ClipFraction(noise)
            shares = exact_gaussian(EventSet(self.share.event(), call.neighboring_relation)).mu ** 2
        # mu^2 that is left for the iterations of all chains, counting Gaussians only.
        self.mu_squared = squared - (exact_gaussian(self.once).mu ** 2 + call.chains * shares)
        if self.mu_squared <= 0:
            raise BudgetError("What is released once costs the whole budget: nothing is left for draws.")

    def plan(self, mechanism: Mechanism) -> PrivacyPlan:
        """Plan whose iterations run a mechanism."""
        own = {f.name: getattr(self.call, f.name) for f in fields(Call)}
        return PrivacyPlan(**own, mechanism=mechanism, clip_fraction=self.share, once=self.once)

    def fits(self, mechanism: Mechanism, coarse: bool = False) -> bool:
        """Whether its plan is within the budget."""
        return self.cost(mechanism, coarse) <= self.call.epsilon

    def cost(self, mechanism: Mechanism, coarse: bool = False) -> float:
        """Epsilon of its plan, an upper bound (`calibration.epsilon_of`)."""
        return calibration.epsilon_of(self.plan(mechanism).events, self.call.delta, coarse)

    def solve(
        self,
        at: Callable[[float], Mechanism],
        start: float,
        *,
        rising: bool = False,
        low: float = _LEAST,
        high: float = _MOST,
    ) -> PrivacyPlan:
        """Dearest plan with a setting in [low, high], never over the budget (`calibration.dearest`).

        Raises
        ------
        BudgetError
            There is none.
        """
        call = self.call

        def events(value: float) -> EventSet:
            return self.plan(at(value)).events

        found = calibration.dearest(
            events, call.epsilon, call.delta, start, low=low, high=high, rising=rising
        )
        if found is None:
            raise BudgetError(
                f"No setting between {low:g} and {high:g} is within epsilon = {call.epsilon:g} at delta = "
                f"{call.delta:g}: raise epsilon or delta, or sample fewer iterations."
            )
        return self.plan(at(found))


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
        return plan_of(call, NoisyRatio(0.0) if release == "noisy_ratio" else Penalty(0.0))
    budget = Budget(call, clip_fraction, once)
    exact = math.sqrt(call.iterations / budget.mu_squared) * (1 + _HEADROOM)
    if release == "noisy_ratio":
        return budget.plan(NoisyRatio(exact))

    def at(noise_multiplier: float) -> Penalty:
        return Penalty(noise_multiplier, noise_std if shift is None else noise_multiplier * shift)

    # Decisions never cost more than the Gaussians behind them, so `exact` fits; look below it.
    return budget.solve(at, 0.8 * exact, low=1e-3 * exact, high=exact)


@lru_cache(maxsize=256)
def barker(
    call: Call,
    tempering: float = 1.0,
    *,
    clip_fraction: bool = False,
    once: EventSet | None = None,
    most: float = math.inf,
) -> PrivacyPlan:
    """Barker's test on all records, with the largest clip bound, up to `most`; none without privacy."""
    relation = call.neighboring_relation
    if math.isinf(call.epsilon):
        return plan_of(call, Barker(math.inf, None if math.isinf(most) else most))
    budget = Budget(call, clip_fraction, once)

    def at(eta: float) -> Barker:
        return Barker.of_range(eta, tempering, relation, most)

    # eta^2 / 8-zCDP is mu = eta / 2: as much as that is always allowed, up to the tightness of zCDP.
    return budget.solve(at, 2 * math.sqrt(budget.mu_squared / call.iterations), rising=True)


def barker_at(call: Call, clip_bound: float, tempering: float, clip_fraction: bool) -> PrivacyPlan:
    """Barker's test on all records at a given clip bound.

    Raises
    ------
    BudgetError
        It does not fit.
    """
    eta = tempering * ExactSum.sensitivity(call.neighboring_relation) * clip_bound

    def advice() -> str:
        largest = barker(call, tempering, clip_fraction=clip_fraction).clip_bound
        return "" if largest is None else f"clip_bound = {round_down(largest, 3)} would fit too."

    return fixed(call, Barker(eta, clip_bound), advice, clip_fraction=clip_fraction)


def barker_on_batches(call: Call, batches: FixedSizeBatches, clip_bound: float) -> PrivacyPlan:
    """Minibatch Barker, whose price is fixed by the sizes of batch and data.

    Raises
    ------
    BudgetError
        It does not fit.
    """

    def advice() -> str:
        budget, size = Budget(call), batches.batch_size
        while (size := int(0.8 * size)) > 10:
            smaller = FixedSizeBatches(batches.dataset_size, size)
            if budget.fits(BarkerOnBatches(smaller, clip_bound)):
                return f"batch_size = {size} would fit too; a smaller batch allows shorter moves only."
        return "No smaller batch fits: make fewer draws, a shorter tune or fewer chains, or raise epsilon."

    return fixed(call, BarkerOnBatches(batches, clip_bound), advice)


@lru_cache(maxsize=256)
def penalty_on_batches(
    call: Call, batches: FixedSizeBatches, *, release: str = "decisions", once: EventSet | None = None
) -> PrivacyPlan:
    """Noise of the subsampled penalty (Räisä 2021, Theorem 9).

    The noise multiplier is the noise's standard deviation over the sensitivity of the corrected ratio.
    """
    if math.isinf(call.epsilon):
        return plan_of(call, PenaltyOnBatches(batches, 0.0, release))
    budget = Budget(call, once=once)
    plain = 1.01 * math.sqrt(call.iterations / budget.mu_squared)  # a Gaussian without sampling
    many = batches.batch_size / batches.dataset_size * plain  # where releases are many and small
    start = max(many, min(plain, 0.3))
    return budget.solve(lambda nm: PenaltyOnBatches(batches, nm, release), start, low=1e-3)


@lru_cache(maxsize=256)
def hamiltonian(
    call: Call, n_leapfrog: int, gradient_share: float, *, clip_fraction: bool = False
) -> PrivacyPlan:
    """Noise of DP HMC (Räisä 2021, section 5.2): `n_leapfrog` gradients and one decision an iteration.

    Each chain releases one gradient more.
    """
    if math.isinf(call.epsilon):
        return plan_of(call, Hamiltonian(0.0, 0.0, n_leapfrog))
    budget = Budget(call, clip_fraction)
    gradients = call.iterations * n_leapfrog + call.chains
    ratio = math.sqrt(call.iterations / ((1 - gradient_share) * budget.mu_squared)) * (1 + _HEADROOM)
    gradient = math.sqrt(gradients / (gradient_share * budget.mu_squared)) * (1 + _HEADROOM)
    # At scale 1 the Gaussians behind the decisions fit; decisions cost less.
    return budget.solve(
        lambda scale: Hamiltonian(scale * ratio, scale * gradient, n_leapfrog), 0.9, low=0.5, high=1.0
    )


def fixed(
    call: Call,
    mechanism: Mechanism,
    advice: Callable[[], str],
    *,
    clip_fraction: bool = False,
    once: EventSet | None = None,
) -> PrivacyPlan:
    """Plan of an iteration whose price is given.

    Parameters
    ----------
    call : Call
    mechanism : Mechanism
    advice : callable
        How to make it cheaper, for the error.
    clip_fraction, once
        As in `Budget`.

    Raises
    ------
    BudgetError
        It does not fit; nothing has been read.
    """
    budget = Budget(call, clip_fraction, once)
    if math.isinf(call.epsilon) or budget.fits(mechanism):
        return budget.plan(mechanism)
    plan = budget.plan(mechanism)
    (one,) = plan.iteration
    other = [budget.once, plan.chain.repeated(call.chains)]
    allowed = calibration.iterations_allowed(one, call.epsilon, call.delta, once=other)
    raise BudgetError(
        f"{call.iterations} iterations (chains x (tune + draws)) cost epsilon = "
        f"{round_up(plan.epsilon_at(call.delta))} at delta = {call.delta:g}, and the budget is "
        f"{call.epsilon:g}: {allowed} iterations would fit. {advice()}"
    )


# ---- DP-Fast MH --------------------------------------------------------------------------------------------


def default_inclusion(clip_bound: float, n: int, d: int) -> float:
    """Expected draws of a record when no batch size is given.

    Parameters
    ----------
    clip_bound : float
        B, in nats of the tempered ratio.
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
def fast_mh(
    call: Call,
    *,
    n: int,
    d: int,
    tempering: float = 1.0,
    noise_std: float | None = None,
    one_scale: bool = False,
    inclusion: float | None = None,
    clip_bound: float | None = None,
) -> PrivacyPlan:
    """Bound and batches of DP-Fast MH.

    Parameters
    ----------
    call : Call
    n : int
        Number of records, public.
    d : int
        Number of parameters.
    tempering : float
    noise_std : float, optional
        Standard deviation of the noise of the longest move, in nats, for the penalty test. Default: Barker's
        test, and no noise (docs/proofs/fast_mh, Theorem 5).
    one_scale : bool
        Whether all moves have that noise; decisions are then cheaper on the full batch.
    inclusion : float, optional
        Expected draws of a record, batch size over n. Default: `default_inclusion`. From `FULL_BATCH_FROM`
        on, all records are used.
    clip_bound : float, optional
        In nats of the untempered ratio. Default: the largest that fits.

    Returns
    -------
    PrivacyPlan
        Of `OnTunaBatches`, or of `Barker` or `Penalty` on all records.

    Raises
    ------
    BudgetError
        The bound does not fit the budget, whatever the batches.
    ValueError
        The batch is too small for the bound: no lambda is left.
    """
    sensitivity = ExactSum.sensitivity(call.neighboring_relation)
    given = None if clip_bound is None else tempering * clip_bound

    def batches(draws: float, bound: float, noise: float | None = noise_std) -> OnTunaBatches:
        return OnTunaBatches(TunaBatches(draws, bound), n, tempering, noise)

    if math.isinf(call.epsilon):
        share = max(NON_PRIVATE_SHARE, SMALLEST_BATCH / n) if inclusion is None else inclusion
        if inclusion is None and given is not None:
            share = max(share, 2 * given)
        if share >= FULL_BATCH_FROM:
            return plan_of(call, Unlimited(clip_bound))
        # TunaMH: a bound that leaves some lambda.
        bound = share * LARGEST_X / (1 + LARGEST_X) if given is None else given
        return plan_of(call, batches(share, bound, 0.0))

    def on_all(bound: float) -> Mechanism:
        shift = sensitivity * bound
        if noise_std is None:
            return Barker(shift, bound / tempering)
        return Penalty(noise_std / shift, noise_std, bound / tempering, one_scale)

    budget = Budget(call)
    if noise_std is None:
        full = barker(call, tempering)
        largest = full.mechanism.eta / sensitivity  # type: ignore[attr-defined]
    else:
        nm = penalty(call, clip_fraction=False, noise_std=noise_std if one_scale else None).noise_multiplier
        largest = noise_std / (nm * sensitivity)
        full = budget.plan(Penalty(nm, noise_std, largest / tempering, one_scale))
    if given is not None:
        most = round_down(0.999 * largest / tempering, 3)
        less = f"Take clip_bound = {most} or less, fewer draws, a shorter tune, fewer chains"
        advice = f"{less}, or a larger epsilon."
        # The smallest batches that fit, not below the default.
        least = default_inclusion(given, n, d) if inclusion is None else inclusion
        if least < FULL_BATCH_FROM:
            if inclusion is not None:
                return fixed(call, batches(least, given), lambda: f"Take a larger batch_size. {advice}")
            if budget.fits(batches(least, given)):
                return budget.plan(batches(least, given))
            if budget.fits(batches(FULL_BATCH_FROM, given)):
                start = math.sqrt(least * FULL_BATCH_FROM)
                return budget.solve(
                    lambda draws: batches(draws, given), start, low=least, high=FULL_BATCH_FROM
                )
        return fixed(call, on_all(given), lambda: advice)
    if (default_inclusion(largest, n, d) if inclusion is None else inclusion) >= FULL_BATCH_FROM:
        return full

    def at(bound: float) -> OnTunaBatches:
        return batches(inclusion or default_inclusion(bound, n, d), bound)

    if inclusion is not None:
        largest = min(largest, inclusion * LARGEST_X / (1 + LARGEST_X))
    # With a batch for far shorter moves the largest bound is far too dear, and its price takes long.
    return budget.solve(at, min(largest, inclusion or largest) / 2, rising=True, high=largest)


def penalty_on_residuals(
    call: Call, noise_std: float, tempering: float, clip_fraction: bool, once: EventSet
) -> PrivacyPlan:
    """The clip bound at which noise of one scale is enough; one that clips nothing without privacy."""
    plan = penalty(call, clip_fraction=clip_fraction, noise_std=noise_std, once=once)
    nm = plan.noise_multiplier
    if nm == 0:
        return plan_of(call, Penalty(nm, clip_bound=UNCLIPPED))
    bound = noise_std / (ExactSum.sensitivity(call.neighboring_relation) * tempering * nm)
    return replace(plan, mechanism=Penalty(nm, noise_std, bound))


def barker_on_residuals(call: Call, n: int, tempering: float, once: EventSet) -> PrivacyPlan:
    """Batches of 100 draws, and the largest clip bound that fits, up to half a draw a record.

    Residuals are far smaller than that where there are many records: halving it clips nothing.

    Raises
    ------
    BudgetError
        Not even the smallest fits.
    """
    inclusion = min(_RESIDUAL_BATCH / n, 0.5)
    budget, bound = Budget(call, once=once), 0.5 * inclusion

    def at(bound: float) -> OnTunaBatches:
        return OnTunaBatches(TunaBatches(inclusion, bound), n, tempering)

    least = 2 * _LEAST_BOUND * inclusion
    while math.isfinite(call.epsilon) and bound >= least and not budget.fits(at(bound)):
        bound /= 2
    advice = "Take fewer draws, a larger epsilon, or a larger share of the budget for the chain."
    return fixed(call, at(bound), lambda: advice, once=once)


# ---- friction ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def friction(call: Call, dynamics: Dynamics, n_steps: int, *, clip_fraction: bool = False) -> PrivacyPlan:
    """DPSGHMC, with as much more noise than its friction's as the budget needs.

    Parameters
    ----------
    call : Call
    dynamics : Dynamics
    n_steps : int
        Gradients of an iteration, >= 1.
    clip_fraction : bool
        Each chain releases its mean clipped share, for 1e-4 of the budget.

    Returns
    -------
    PrivacyPlan
        Of `Friction`. Where the friction of `dynamics` alone is within the budget, that is the plan;
        otherwise the smallest noise multipliers are raised to a common floor, so that the budget is spent.

    Raises
    ------
    ValueError
        `n_steps` is out of range.
    BudgetError
        No noise is within the budget, as far as the accountants can tell.
    """
    if isinstance(n_steps, bool) or not isinstance(n_steps, int | np.integer) or n_steps < 1:
        raise ValueError(f"n_steps must be an integer of at least 1, got {n_steps!r}.")
    own = dynamics.noise_multipliers(call.length, call.neighboring_relation)
    budget = Budget(call, clip_fraction)

    def at(floor: float) -> Friction:
        noise = np.maximum(own, floor)
        alike = np.all(noise == noise[0])
        return Friction(dynamics, int(n_steps), tuple((noise[:1] if alike else noise).tolist()))

    if math.isinf(call.epsilon):
        return budget.plan(at(0.0))

    def fits(plan: PrivacyPlan) -> bool:
        return calibration.epsilon_of(plan.events, call.delta) <= call.epsilon

    if own.min() > 0 and fits(found := budget.plan(at(0.0))):
        return found

    chain = budget.plan(at(1.0)).chain.repeated(call.chains)

    def events(floor: float) -> EventSet:  # those of the plan, in one pass
        counts = Counter(np.maximum(own, floor).tolist())
        releases = [
            dp_event.SelfComposedDpEvent(dynamics.batches.gaussian_event(nm), count * n_steps * call.chains)
            for nm, count in counts.items()
        ]
        return EventSet([*releases, chain, budget.once])

    # Equal releases in the Gaussian limit: ``mu^2 = k q^2 (exp(1 / nm^2) - 1)``.
    q = dynamics.batches.sampling_probability
    guess = 1 / math.sqrt(math.log1p(budget.mu_squared / (call.iterations * n_steps * q * q)))
    floor = calibration.dearest(events, call.epsilon, call.delta, guess, low=_LEAST, high=_MOST, rising=False)
    if floor is None:
        raise BudgetError(
            f"No amount of noise is within epsilon = {call.epsilon:g} at delta = {call.delta:g} by the "
            "accounting of releases on batches: raise epsilon or delta, or sample fewer iterations."
        )
    nudge = _NUDGE
    while not fits(found := budget.plan(at(floor))):
        floor, nudge = floor * (1 + nudge), 2 * nudge
    return found
