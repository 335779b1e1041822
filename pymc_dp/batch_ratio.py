"""The log-likelihood ratio on a batch drawn without replacement, corrected for the batch's own error."""

import math

import numpy as np

from pymc_dp.clipping import shares

_GRID = 2**20


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
    grid = np.round(shares(ratios, bound) * _GRID).astype(np.int64)
    total = int(grid.sum())
    squares = b * int((grid * grid).sum()) - total * total  # b * sum of squared deviations, exact
    variance = bound * _variance_factor(b, n, tempering) * (squares / (b * _GRID**2))
    return n * tempering / b * (total / _GRID) - 0.5 * variance


def sensitivity(bound: float, b: int, n: int, tempering: float) -> float:
    """Most that one record of the batch moves `corrected_ratio`, in units of `bound`.

    ``2 n T / b + B f 2 (b - 1) / b`` with f the factor of the sum of squares in the variance. Attained: with
    all other records at B, replacing -B by B. (Räisä 2021, Lemma 1, has 3 in place of the second 2.)
    """
    return 2 * n * tempering / b + 2 * bound * _variance_factor(b, n, tempering) * (b - 1) / b


def bound_of_noise(noise_std: float, noise_multiplier: float, b: int, n: int, tempering: float) -> float:
    """Bound B at which the noise of `corrected_ratio`, in nats, has a given standard deviation."""
    linear = noise_multiplier * 2 * n * tempering / b
    quadratic = noise_multiplier * 2 * _variance_factor(b, n, tempering) * (b - 1) / b
    # The positive root of quadratic B^2 + linear B = noise_std, without cancellation.
    return 2 * noise_std / (linear + math.sqrt(linear**2 + 4 * quadratic * noise_std))


def _variance_factor(b: int, n: int, tempering: float) -> float:
    """``sigma_b**2`` over the sum of squared deviations of the batch."""
    return (n * tempering) ** 2 * (1 - b / n) / (b * (b - 1))
