"""From a call to the bound and the batches of DP-Fast MH."""

import math
from functools import lru_cache

from pymc_dp.privacy.budget.plan import Call, PrivacyPlan
from pymc_dp.privacy.budget.pricing import barker, penalty
from pymc_dp.privacy.budget.remaining import Budget, fixed, plan_of
from pymc_dp.privacy.mechanisms.iterations import Barker, Mechanism, OnTunaBatches, Penalty, Unlimited
from pymc_dp.privacy.mechanisms.randomness import ExactSum, TunaBatches
from pymc_dp.rounding import round_down

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
