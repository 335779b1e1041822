"""The log-likelihood ratio on a batch drawn without replacement, for the penalty or Barker's test."""

import math

import numpy as np

from pymc_dp.kernels.metropolis import LogRatio, Move, State
from pymc_dp.privacy.mechanisms.randomness import DECIDED, ExactSum, FixedSizeBatches, Gaussian, PrivacyRandom
from pymc_dp.ratios import barker_correction
from pymc_dp.ratios.all_records import Fresh, Records
from pymc_dp.ratios.barker_correction import GRID, exact_sums


class CorrectedBatch(Fresh[Records]):
    """Log-ratio for the penalty test, corrected for the batch's estimated variance (Räisä 2021, section 4.1).

    Parameters
    ----------
    records : RecordModel
    tempering : float
    batches : FixedSizeBatches
    noise_multiplier : float
        Standard deviation of the noise, divided by the sensitivity of the corrected ratio.
    """

    approximation = "approximate: the error of a batch is taken for normal, of estimated variance"

    def __init__(
        self, records: Records, tempering: float, batches: FixedSizeBatches, noise_multiplier: float
    ):
        self.records, self.batches, self.noise_multiplier = records, batches, noise_multiplier
        self._sizes = (batches.batch_size, batches.dataset_size, tempering)

    def bound_of_noise(self, noise_std: float) -> float:
        """Return the clip bound at which the noise has a given standard deviation."""
        return bound_of_noise(noise_std, self.noise_multiplier, *self._sizes)

    def __call__(self, state: State, move: Move, random: PrivacyRandom) -> LogRatio:
        """Draw a batch, evaluate it at both points, and return the noisy corrected ratio."""
        ratios = self.records.ratios(state.theta, move.new, self.batches.draw(random))
        value = corrected_ratio(ratios, move.clip_bound, *self._sizes[1:])
        noise = self.noise_multiplier * sensitivity(move.clip_bound, *self._sizes)
        noisy = Gaussian(noise, DECIDED).release(ExactSum(value, move.clip_bound), random)
        return LogRatio(noisy, move.clip_bound * noise, 0.0, None, self.records.log_prior(move.new))


class BarkerBatch(Fresh[Records]):
    """Log-ratio for Barker's test: noise makes the batch's error about logistic (Heikkilä et al. 2019).

    Parameters
    ----------
    records : RecordModel
    tempering : float
    batches : FixedSizeBatches
    """

    approximation = (
        "approximate: the error of a batch is taken for normal, and a correction makes noise of variance 2 "
        f"logistic up to {barker_correction.LARGEST_ERROR:.2g} in its distribution function"
    )

    def __init__(self, records: Records, tempering: float, batches: FixedSizeBatches):
        self.records, self.tempering, self.batches = records, tempering, batches

    def __call__(self, state: State, move: Move, random: PrivacyRandom) -> LogRatio:
        """Draw a batch, evaluate it at both points, and add noise of variance 2 minus the estimate's."""
        ratios = self.records.ratios(state.theta, move.new, self.batches.draw(random))
        value, variance = barker_correction.batch_ratio(ratios, self.records.n, self.tempering)
        noise = Gaussian(math.sqrt(barker_correction.NOISE_VARIANCE - variance), DECIDED)
        value = noise.release(ExactSum(value), random)
        # The total, which is public. The standard deviation of the added noise would reveal the batch's
        # variance.
        total = math.sqrt(barker_correction.NOISE_VARIANCE)
        return LogRatio(value, total, 0.0, None, self.records.log_prior(move.new))


def corrected_ratio(ratios: np.ndarray, bound: float, n: int, tempering: float) -> float:
    """Estimate the tempered log-likelihood ratio minus half its variance.

    Parameters
    ----------
    ratios : ndarray, shape (b,)
        Log-likelihood ratios of a batch; clipped here. b >= 2.
    bound : float
        B > 0, in nats.
    n : int
        Number of records.
    tempering : float
        T.

    Returns
    -------
    float
        ``lambda - sigma_b**2 / 2`` in units of `bound`, with ``lambda = (n T / b) sum r_j`` and ``sigma_b**2
        = (n T)**2 / b (1 - b / n) S**2``, S**2 the sample variance: the unbiased estimate of the variance of
        ``lambda`` (Räisä 2021, section 4.1, has neither the finite-population factor nor b - 1).

    Notes
    -----
    **Privacy.** One record moves the result by at most `sensitivity`. Ratios are rounded to multiples of
    ``bound * 2**-20`` and their sums are exact integers.
    """
    b = ratios.size
    total, squares = exact_sums(ratios, bound)
    variance = bound * _variance_factor(b, n, tempering) * (squares / (b * GRID**2))
    return n * tempering / b * (total / GRID) - 0.5 * variance


def sensitivity(bound: float, b: int, n: int, tempering: float) -> float:
    """Return the most by which one record of the batch moves `corrected_ratio`, in units of `bound`.

    ``2 n T / b + B f 2 (b - 1) / b`` with f the factor of the sum of squares in the variance. It is attained
    by replacing -B by B when all other records are at B. (Räisä 2021, Lemma 1, has 3 in place of the second
    2.)
    """
    return 2 * n * tempering / b + 2 * bound * _variance_factor(b, n, tempering) * (b - 1) / b


def bound_of_noise(noise_std: float, noise_multiplier: float, b: int, n: int, tempering: float) -> float:
    """Return the bound B at which the noise of `corrected_ratio`, in nats, has a given standard deviation."""
    linear = noise_multiplier * 2 * n * tempering / b
    quadratic = noise_multiplier * 2 * _variance_factor(b, n, tempering) * (b - 1) / b
    # The positive root of quadratic B^2 + linear B = noise_std, without cancellation.
    return 2 * noise_std / (linear + math.sqrt(linear**2 + 4 * quadratic * noise_std))


def _variance_factor(b: int, n: int, tempering: float) -> float:
    """Return ``sigma_b**2`` divided by the sum of squared deviations of the batch."""
    return (n * tempering) ** 2 * (1 - b / n) / (b * (b - 1))
