"""From a call to its plan: the noise, the bound or the batches of each mechanism that its budget allows.

A function a mechanism. Each says which settings are tried; `Budget.solve` finds the dearest that were
composed and found within the budget.
"""

import math
from functools import lru_cache

import numpy as np

from pymc_dp.bounds import check_choice, check_count
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.budget.remaining import LEAST, MOST, Budget, fixed
from pymc_dp.privacy.mechanisms.friction import Dynamics
from pymc_dp.privacy.mechanisms.gradients import Friction, Hamiltonian
from pymc_dp.privacy.mechanisms.iterations import (
    Barker,
    BarkerOnBatches,
    Mechanism,
    NoisyRatio,
    OnTunaBatches,
    Penalty,
    PenaltyOnBatches,
    Unlimited,
)
from pymc_dp.privacy.mechanisms.randomness import ExactSum, FixedSizeBatches, TunaBatches
from pymc_dp.rounding import round_down


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
) -> PrivacyPlan:
    """Noise multiplier of the penalty test on the full batch; see `calibrate`."""
    check_choice("release", release, ("decisions", "noisy_ratio"))
    if shift is not None and noise_std is not None:
        raise ValueError("give shift or noise_std, not both.")
    budget = Budget(call, clip_fraction)
    exact = budget.gaussian(call.iterations)
    if release == "noisy_ratio":
        return budget.plan(NoisyRatio(exact))

    def at(noise_multiplier: float) -> Penalty:
        std = noise_std if shift is None else noise_multiplier * shift
        return Penalty(noise_multiplier, std, one_scale=std is not None)

    # Decisions never cost more than the Gaussians behind them, so `exact` fits; look below it.
    return budget.solve(at, 0.8 * exact, (exact, 1e-3 * exact), free=Penalty(0.0))


@lru_cache(maxsize=256)
def barker(call: Call, tempering: float = 1.0, *, clip_fraction: bool = False) -> PrivacyPlan:
    """Barker's test on all records, with the largest clip bound; none without privacy."""
    budget = Budget(call, clip_fraction)
    sensitivity = ExactSum.sensitivity(call.neighboring_relation)

    def at(eta: float) -> Barker:
        # The bound is less by the rounding of a few operations on the way from one to the other.
        return Barker(eta, eta / (tempering * sensitivity) * (1 - 1e-12))

    # eta^2 / 8-zCDP is mu = eta / 2: as much as that is always allowed, up to the tightness of zCDP.
    start = 2 * math.sqrt(budget.mu_squared / call.iterations)
    return budget.solve(at, start, (LEAST, MOST), free=Barker(math.inf, None))


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
def penalty_on_batches(call: Call, batches: FixedSizeBatches, *, release: str = "decisions") -> PrivacyPlan:
    """Noise of the subsampled penalty (Räisä 2021, Theorem 9).

    The noise multiplier is the noise's standard deviation over the sensitivity of the corrected ratio.
    """
    budget = Budget(call)
    plain = 1.01 * math.sqrt(call.iterations / budget.mu_squared)  # a Gaussian without sampling
    many = batches.batch_size / batches.dataset_size * plain  # where releases are many and small
    start = max(many, min(plain, 0.3))

    def at(noise_multiplier: float) -> PenaltyOnBatches:
        return PenaltyOnBatches(batches, noise_multiplier, release)

    return budget.solve(at, start, (MOST, 1e-3), free=at(0.0))


@lru_cache(maxsize=256)
def hamiltonian(
    call: Call, n_leapfrog: int, gradient_share: float, *, clip_fraction: bool = False
) -> PrivacyPlan:
    """Noise of DP HMC (Räisä 2021, section 5.2): `n_leapfrog` gradients and one decision an iteration.

    Each chain releases one gradient more.
    """
    budget = Budget(call, clip_fraction)
    gradients = call.iterations * n_leapfrog + call.chains
    ratio = budget.gaussian(call.iterations, 1 - gradient_share)
    gradient = budget.gaussian(gradients, gradient_share)

    # At scale 1 the Gaussians behind the decisions fit; decisions cost less.
    def at(scale: float) -> Hamiltonian:
        return Hamiltonian(scale * ratio, scale * gradient, n_leapfrog)

    return budget.solve(at, 0.9, (1.0, 0.5), free=at(0.0))


@lru_cache(maxsize=64)
def friction(call: Call, dynamics: Dynamics, n_steps: int) -> PrivacyPlan:
    """DPSGHMC, with as much more noise than its friction's as the budget needs.

    Parameters
    ----------
    call : Call
    dynamics : Dynamics
    n_steps : int
        Gradients of an iteration, >= 1.

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
    check_count("n_steps", n_steps)
    own = dynamics.noise_multipliers(call.length, call.neighboring_relation)
    budget = Budget(call)

    def at(floor: float) -> Friction:
        noise = np.maximum(own, floor)
        alike = np.all(noise == noise[0])
        return Friction(dynamics, int(n_steps), tuple((noise[:1] if alike else noise).tolist()))

    if own.min() > 0 and budget.fits(at(0.0)):
        return budget.plan(at(0.0))
    # Equal releases in the Gaussian limit: ``mu^2 = k q^2 (exp(1 / nm^2) - 1)``.
    q = dynamics.batches.sampling_probability
    guess = 1 / math.sqrt(math.log1p(budget.mu_squared / (call.iterations * n_steps * q * q)))
    return budget.solve(at, guess, free=at(0.0))


# Expected draws of a record from which on all records are used instead: a draw costs two evaluations of the
# log-likelihood, a record of the full batch one, and the full batch is cheaper in privacy and has no noise.
FULL_BATCH_FROM = 0.5
# Batches below this save no time: an iteration costs as much without any record.
SMALLEST_BATCH = 1000
# Largest x = N B / lambda of a bound that is found from a batch size: longer moves would drown in the noise
# of their batch, at any price.
LARGEST_X = 10.0


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

    budget = Budget(call)
    if math.isinf(call.epsilon):
        # A tenth of the records in a batch, when there is no privacy to pay for, and so nothing to derive it
        # from.
        share = inclusion or max(0.1, SMALLEST_BATCH / n, 2 * (given or 0.0))
        if share >= FULL_BATCH_FROM:
            return budget.plan(Unlimited(clip_bound))
        # TunaMH: a bound that leaves some lambda.
        bound = share * LARGEST_X / (1 + LARGEST_X) if given is None else given
        return budget.plan(batches(share, bound, 0.0))

    def on_all(bound: float) -> Mechanism:
        shift = sensitivity * bound
        if noise_std is None:
            return Barker(shift, bound / tempering)
        return Penalty(noise_std / shift, noise_std, bound / tempering, one_scale)

    if noise_std is None:
        largest = barker(call, tempering).mechanism.eta / sensitivity  # type: ignore[attr-defined]
    else:
        nm = penalty(call, clip_fraction=False, noise_std=noise_std if one_scale else None).noise_multiplier
        largest = noise_std / (nm * sensitivity)
    largest *= 1 - 1e-12  # less by the rounding of a few operations on the way back
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
                return budget.solve(lambda draws: batches(draws, given), start, (FULL_BATCH_FROM, least))
        return fixed(call, on_all(given), lambda: advice)
    if (default_inclusion(largest, n, d) if inclusion is None else inclusion) >= FULL_BATCH_FROM:
        return budget.plan(on_all(largest))

    def at(bound: float) -> OnTunaBatches:
        return batches(inclusion or default_inclusion(bound, n, d), bound)

    if inclusion is not None:
        largest = min(largest, inclusion * LARGEST_X / (1 + LARGEST_X))
    # With a batch for far shorter moves the largest bound is far too dear, and its price takes long.
    return budget.solve(at, min(largest, inclusion or largest) / 2, (LEAST, largest))
