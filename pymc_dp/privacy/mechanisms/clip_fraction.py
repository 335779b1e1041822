"""The one number about clipping that a chain releases."""

import math

import numpy as np

from pymc_dp.privacy.mechanisms.noise import ExactSum, Gaussian
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom


def noisy_share(
    clipped: float, n: int, iterations: int, noise_multiplier: float, random: PrivacyRandom
) -> float:
    """Mean share of clipped ratios over a chain, with Gaussian noise.

    Parameters
    ----------
    clipped : float
        Number of clipped ratios, summed over the chain's iterations.
    n : int
        Number of records (public).
    iterations : int
        Iterations of the chain, tuning included.
    noise_multiplier : float
        Standard deviation of the noise over the sensitivity 1 / n; 0 for none.
    random : PrivacyRandom

    Returns
    -------
    float
        May lie slightly outside [0, 1].

    Notes
    -----
    **Privacy.** Given the chain's trajectory, one record moves each iteration's share, and so their mean, by
    at most 1 / n: one Gaussian release. Rounded to a grid of a sixteenth to a thirty-second of the noise, so
    that the last bits of a floating-point sum are not released.
    """
    share = clipped / (n * iterations)
    if noise_multiplier == 0:
        return share
    return float(Gaussian(noise_multiplier / n).release(ExactSum(share), random))


def rounded(value: float, std: float) -> float:
    """Round to a grid of 1/16 to 1/32 of the noise: the last bits are not released (Mironov 2012)."""
    if not (std > 0 and math.isfinite(value)):
        return value
    grid = rounding_grid(std)
    return float(np.round(value / grid) * grid)


def rounding_grid(std: float) -> float:
    """Width of the grid that `rounded` uses; 0 without noise."""
    return Gaussian(std).grid
