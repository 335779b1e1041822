"""Acceptance tests for a noisy log-ratio."""

import math
from typing import Any


def penalty(log_ratio: float, variance: float, exponential: float) -> bool:
    """Penalty test (Ceperley & Dewing 1999): accept when ``ln u < log_ratio - variance / 2``.

    Parameters
    ----------
    log_ratio : float
        Unbiased Gaussian estimate of ln [posterior(proposal) q(point | proposal) / posterior(point)
        q(proposal | point)].
    variance : float
        Variance of its noise.
    exponential : float
        A standard exponential draw; ``ln u`` is minus this.

    Returns
    -------
    bool
        False for NaN: a move to a point without a density is never made.
    """
    return -exponential < log_ratio - 0.5 * variance


def accept_penalty(log_ratio: float, noise_std: float, random: Any) -> bool:
    """`penalty`, with a draw of `random`."""
    return penalty(log_ratio, noise_std * noise_std, random.exponential())


def accept_barker(log_ratio: float, noise_std: float, random: Any) -> bool:
    """`barker`, with draws of `random`; the noise is not looked at."""
    return barker(log_ratio, random.exponential(), random.exponential())


def barker(log_ratio: float, first: float, second: float) -> bool:
    """Barker's test (Barker 1965): accept with probability ``1 / (1 + exp(-log_ratio))``.

    Parameters
    ----------
    log_ratio : float
        ln [posterior(proposal) q(point | proposal) / posterior(point) q(proposal | point)], or what
        `pymc_dp.ratios.tuna` puts in its place.
    first, second : float
        Independent standard exponential draws: the logarithm of their quotient is logistic.

    Returns
    -------
    bool
        False for NaN: a move to a point without a density is never made.
    """
    return first < math.exp(min(log_ratio, 700.0)) * second


def largest_acceptance(noise_std: float) -> float:
    """Acceptance probability between two points of equal density, ``erfc(s / sqrt(8))``."""
    return math.erfc(noise_std / math.sqrt(8.0))
