"""Density and tails of the standard normal distribution, as ratios and logarithms that stay accurate."""

import math

import numpy as np
from scipy.special import erfcx, log_ndtr


def log_density(x: np.ndarray) -> np.ndarray:
    """Return the logarithm of the density."""
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi)


def mills(x: np.ndarray) -> np.ndarray:
    """Return the probability above x divided by the density at x. It overflows far below 0."""
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))


def log_mills(x: np.ndarray) -> np.ndarray:
    """Return the logarithm of `mills`, which is finite for all x."""
    with np.errstate(all="ignore"):
        return np.where(x > 0, np.log(mills(x)), log_ndtr(-x) - log_density(x))
