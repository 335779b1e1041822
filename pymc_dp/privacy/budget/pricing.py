"""From a call to its plan: the noise, the clip bound or the batches of each mechanism that the budget allows.

There is one function for each mechanism, which defines the settings to be tried. `Budget.solve` finds the
most expensive setting whose composed price is within the budget.
"""

import math
from functools import lru_cache

import numpy as np

from pymc_dp.bounds import check_choice, check_count
from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.budget.remaining import LEAST, MOST, Budget, fixed
from pymc_dp.privacy.mechanisms.gradients import Dynamics, Friction, Hamiltonian
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
    """Find the noise of the penalty algorithm that keeps a whole call within (epsilon, delta).

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
        Whether each chain releases the mean share of clipped ratios, for 1e-4 of the budget.
    release : {"decisions", "noisy_ratio"}
        What each iteration releases: the accept decision alone, or the noisy log-ratio as well.
    shift, noise_std : float, optional
        The sensitivity of the tempered log-ratio, or the standard deviation of its noise, in nats. Give one
        of them if it is the same public number at every iteration: decisions then cost less.

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
    """Find the noise multiplier of the penalty test on the full batch; see `calibrate`."""
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

    # Decisions never cost more than the Gaussian releases they are computed from, so `exact` fits: search
    # below it.
    return budget.solve(at, 0.8 * exact, (exact, 1e-3 * exact), free=Penalty(0.0))


@lru_cache(maxsize=256)
def barker(call: Call, tempering: float = 1.0, *, clip_fraction: bool = False) -> PrivacyPlan:
    """Plan Barker's test on all records, with the largest clip bound that fits (none without privacy)."""
    budget = Budget(call, clip_fraction)
    sensitivity = ExactSum.sensitivity(call.neighboring_relation)

    def at(eta: float) -> Barker:
        # The margin is for rounding: the eta of the bound must not exceed the eta that is charged.
        return Barker(eta, eta / (tempering * sensitivity) * (1 - 1e-12))

    # A decision is eta^2 / 8-zCDP, as a Gaussian with mu = eta / 2. The search starts at the eta that the
    # budget allows by this formula.
    start = 2 * math.sqrt(budget.mu_squared / call.iterations)
    return budget.solve(at, start, (LEAST, MOST), free=Barker(math.inf, None))


def barker_at(call: Call, clip_bound: float, tempering: float, clip_fraction: bool) -> PrivacyPlan:
    """Plan Barker's test on all records at a given clip bound.

    Raises
    ------
    BudgetError
        Its price does not fit the budget.
    """
    eta = tempering * ExactSum.sensitivity(call.neighboring_relation) * clip_bound

    def advice() -> str:
        largest = barker(call, tempering, clip_fraction=clip_fraction).clip_bound
        return "" if largest is None else f"clip_bound = {round_down(largest, 3)} would fit too."

    return fixed(call, Barker(eta, clip_bound), advice, clip_fraction=clip_fraction)


def barker_on_batches(call: Call, batches: FixedSizeBatches, clip_bound: float) -> PrivacyPlan:
    """Plan minibatch Barker, whose price is determined by the sizes of batch and data.

    Raises
    ------
    BudgetError
        Its price does not fit the budget.
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
    """Find the noise of the subsampled penalty algorithm (Räisä 2021, Theorem 9).

    The noise multiplier is the standard deviation of the noise divided by the sensitivity of the corrected
    ratio.
    """
    budget = Budget(call)
    plain = 1.01 * math.sqrt(call.iterations / budget.mu_squared)  # noise multiplier without subsampling
    many = batches.batch_size / batches.dataset_size * plain  # in the limit of many small releases
    start = max(many, min(plain, 0.3))

    def at(noise_multiplier: float) -> PenaltyOnBatches:
        return PenaltyOnBatches(batches, noise_multiplier, release)

    return budget.solve(at, start, (MOST, 1e-3), free=at(0.0))


@lru_cache(maxsize=256)
def hamiltonian(
    call: Call, n_leapfrog: int, gradient_share: float, *, clip_fraction: bool = False
) -> PrivacyPlan:
    """Find the noise of DP HMC (Räisä 2021, section 5.2).

    Each iteration releases `n_leapfrog` gradients and one decision, and each chain one more gradient.
    """
    budget = Budget(call, clip_fraction)
    gradients = call.iterations * n_leapfrog + call.chains
    ratio = budget.gaussian(call.iterations, 1 - gradient_share)
    gradient = budget.gaussian(gradients, gradient_share)

    # At scale 1 the budget is met if each decision is charged as a Gaussian release. Decisions cost less.
    def at(scale: float) -> Hamiltonian:
        return Hamiltonian(scale * ratio, scale * gradient, n_leapfrog)

    return budget.solve(at, 0.9, (1.0, 0.5), free=at(0.0))


@lru_cache(maxsize=64)
def friction(call: Call, dynamics: Dynamics, n_steps: int) -> PrivacyPlan:
    """Plan DPSGHMC, with the noise of its friction, or more where the budget needs it.

    Parameters
    ----------
    call : Call
    dynamics : Dynamics
    n_steps : int
        Number of gradients in an iteration, >= 1.

    Returns
    -------
    PrivacyPlan
        Plan of the mechanism `Friction`. If the noise of `dynamics` is within the budget, it is used as it
        is; otherwise noise multipliers below a common floor are raised to it, so that the budget is spent.

    Raises
    ------
    ValueError
        `n_steps` is out of range.
    BudgetError
        The accountants find no noise within the budget.
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
    # Start of the search: the Gaussian limit of equal releases, ``mu^2 = k q^2 (exp(1 / nm^2) - 1)``.
    q = dynamics.batches.sampling_probability
    guess = 1 / math.sqrt(math.log1p(budget.mu_squared / (call.iterations * n_steps * q * q)))
    return budget.solve(at, guess, free=at(0.0))


# Expected number of draws of a record from which on all records are used instead of a batch. A draw takes two
# evaluations of the log-likelihood and a record of the full batch one, and the full batch costs less privacy
# and has no sampling noise.
FULL_BATCH_FROM = 0.5
# Smallest default batch, in records: smaller ones save no time, as the fixed cost of an iteration is as
# large.
SMALLEST_BATCH = 1000
# Largest x = N B / lambda of a clip bound that is found from a given batch size: for longer moves the
# sampling noise of the batch would be too large, whatever the budget.
LARGEST_X = 10.0


def default_inclusion(clip_bound: float, n: int, d: int) -> float:
    """Compute the expected number of draws of a record for a call that gives no batch size.

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
        Large enough that (1) sampling of the batch adds a variance of at most about 1 to the log-ratio, on
        average over the directions of a short move, whatever the records (docs/proofs/fast_mh, section 7);
        (2) ``x = N B / lambda <= 1``, where batches cost hardly more privacy than all records do, if records
        are replaced; (3) a batch has 1,000 records or more.
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
    """Find the clip bound and the batches of DP-Fast MH.

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
        Whether all moves have noise of this standard deviation. Decisions then cost less on the full batch.
    inclusion : float, optional
        Expected number of draws of a record: batch size divided by n. Default: `default_inclusion`. From
        `FULL_BATCH_FROM` on, all records are used.
    clip_bound : float, optional
        Clip bound in nats of the untempered ratio. Default: the largest that fits.

    Returns
    -------
    PrivacyPlan
        Plan of `OnTunaBatches`, or of `Barker` or `Penalty` on all records.

    Raises
    ------
    BudgetError
        The bound does not fit the budget, whatever the batches.
    ValueError
        The batch is too small for the bound: no lambda > 0 is left.
    """
    sensitivity = ExactSum.sensitivity(call.neighboring_relation)
    given = None if clip_bound is None else tempering * clip_bound

    def batches(draws: float, bound: float, noise: float | None = noise_std) -> OnTunaBatches:
        return OnTunaBatches(TunaBatches(draws, bound), n, tempering, noise)

    budget = Budget(call)
    if math.isinf(call.epsilon):
        # Without a budget to derive the batch size from, a batch has a tenth of the records.
        share = inclusion or max(0.1, SMALLEST_BATCH / n, 2 * (given or 0.0))
        if share >= FULL_BATCH_FROM:
            return budget.plan(Unlimited(clip_bound))
        # Plain TunaMH: the largest bound with x <= LARGEST_X, so that lambda > 0.
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
    largest *= 1 - 1e-12  # a margin for rounding: the price of this bound must not exceed the budget
    if given is not None:
        most = round_down(0.999 * largest / tempering, 3)
        less = f"Take clip_bound = {most} or less, fewer draws, a shorter tune, fewer chains"
        advice = f"{less}, or a larger epsilon."
        # Take the smallest batches that fit, but none below the default size.
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
    # If the given batch is small, the largest bound costs far too much, and pricing it takes long: start
    # lower.
    return budget.solve(at, min(largest, inclusion or largest) / 2, (LEAST, largest))
