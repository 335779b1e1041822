"""The best step length of a random walk, and the acceptance rate at it."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import optimize, stats
from scipy.special import erf, erfc, expit


def largest_acceptance[T: (float, np.ndarray)](noise_std: T) -> T:
    """Return the acceptance probability between two points of equal density, ``erfc(s / sqrt(8))``."""
    return erfc(noise_std / math.sqrt(8.0))


# Probabilities of the quantiles by which the distributions of lengths and of log-ratios are represented.
_QUANTILES = (np.arange(400) + 0.5) / 400


@cache
def optimal_walk(d: int, fixed_length: bool) -> tuple[float, float]:
    """Find the step length with the largest expected squared jump, where noise limits it, not the posterior.

    A move whose noise has standard deviation s, between points of equal density, is accepted with probability
    ``erfc(s / sqrt(8))``; s is proportional to the length of the move, so the expected squared jump is
    proportional to ``E[s**2 erfc(s / sqrt(8))]``. Where the posterior limits the step length instead, the
    best acceptance rate is nearly the same (Roberts, Gelman & Gilks 1997, in many dimensions).

    Parameters
    ----------
    d : int
        Number of parameters.
    fixed_length : bool
        Whether all moves have one length, so that s is constant. Otherwise s varies like the norm of a
        Gaussian vector.

    Returns
    -------
    noise_std : float
        Root mean square of s at the best step length: 2.38 for moves of one length.
    acceptance : float
        Acceptance rate at the best step length: .234 for moves of one length; .44, .35, .28 for a Gaussian
        walk in 1, 2, 5 dimensions.
    """
    return _best(d, fixed_length, largest_acceptance)


@cache
def optimal_barker_walk(d: int, fixed_length: bool) -> tuple[float, float]:
    """Find the step length as `optimal_walk`, for Barker's test and log-ratios that are N(-s**2 / 2, s**2).

    Log-ratios of long moves in many dimensions have this distribution, and so has the noise of an exact
    minibatch test. The best values for moves of one length are 2.46 and .16 (Agrawal, Vats,
    Łatuszyński & Roberts 2023).
    """
    normal = stats.norm.ppf(_QUANTILES)
    return _best(d, fixed_length, lambda s: expit(s[..., None] * (normal - s[..., None] / 2)).mean(axis=-1))


@cache
def optimal_guided_walk() -> tuple[float, float]:
    """Find the step length as `optimal_walk` does, for moves that keep a direction until one is rejected.

    All moves have one length. On a flat posterior the mean squared displacement of an iteration is ``s**2 a /
    (1 - a)``, ``a = erfc(s / sqrt(8))`` (docs/penalty): at the best step, 1.43 times that of the best walk in
    random directions.

    Returns
    -------
    noise_std, acceptance : float
        s and the acceptance rate at the best step length: 1.73 and .39.
    """

    def distance(s: float) -> float:
        return -(s**2) * largest_acceptance(s) / erf(s / math.sqrt(8))

    best = float(optimize.minimize_scalar(distance, bounds=(0.1, 10), method="bounded").x)
    return best, float(largest_acceptance(best))


def _best(d: int, fixed_length: bool, acceptance: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Return the root mean square of s with the largest expected squared jump, and its acceptance rate."""
    lengths = np.ones(1) if fixed_length else stats.chi.ppf(_QUANTILES, d) / math.sqrt(d)

    def distance(noise_std: float) -> float:
        s = noise_std * lengths
        return -float(np.mean(s**2 * acceptance(s)))

    best = optimize.minimize_scalar(distance, bounds=(0.1, 10), method="bounded").x
    return float(best), float(np.mean(acceptance(best * lengths)))
