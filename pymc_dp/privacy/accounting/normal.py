"""Density and tails of the standard normal distribution, as ratios and logarithms that keep their digits."""

import math

import numpy as np
from scipy.special import erfcx, log_ndtr


def log_density(x: np.ndarray) -> np.ndarray:
    """Logarithm of the density."""
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi)


def mills(x: np.ndarray) -> np.ndarray:
    """Probability above x over the density there; not in floating point's range far below 0."""
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))


def log_mills(x: np.ndarray) -> np.ndarray:
    """Logarithm of `mills`, in range everywhere."""
    with np.errstate(all="ignore"):
        return np.where(x > 0, np.log(mills(x)), log_ndtr(-x) - log_density(x))
