"""The best step of a random walk, and the acceptance rate there."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import optimize, stats
from scipy.special import erf, erfc, expit


def largest_acceptance[T: (float, np.ndarray)](noise_std: T) -> T:
    """Acceptance probability between two points of equal density, ``erfc(s / sqrt(8))``."""
    return erfc(noise_std / math.sqrt(8.0))


# At which the laws of lengths and of log-ratios are looked at.
_QUANTILES = (np.arange(400) + 0.5) / 400


@cache
def optimal_walk(d: int, fixed_length: bool) -> tuple[float, float]:
    """Find the step that moves farthest when noise, not the posterior, limits the step.

    A move of noise standard deviation s between points of equal density is accepted with probability
    ``erfc(s / sqrt(8))``; the expected squared distance is proportional to ``E[s**2 erfc(s / sqrt(8))]``.
    When the posterior limits the step instead, the best acceptance is nearly the same (Roberts, Gelman &
    Gilks 1997, in many dimensions).

    Parameters
    ----------
    d : int
        Number of parameters.
    fixed_length : bool
        Whether all moves have one length (s is constant) or s varies like the norm of a Gaussian vector.

    Returns
    -------
    noise_std : float
        Root mean square of s at the best step: 2.38 for moves of one length.
    acceptance : float
        Acceptance rate there: .234 for moves of one length; .44, .35, .28 for a Gaussian walk in 1, 2, 5
        dimensions.
    """
    return _best(d, fixed_length, largest_acceptance)


@cache
def optimal_barker_walk(d: int, fixed_length: bool) -> tuple[float, float]:
    """`optimal_walk` for Barker's test, where s**2 is the variance of a log-ratio that is N(-s**2 / 2, s**2).

    So are the log-ratios of long moves in many dimensions, and the noise of an exact minibatch test; 2.46 and
    .16 for moves of one length (Agrawal, Vats, Łatuszyński & Roberts 2023).
    """
    normal = stats.norm.ppf(_QUANTILES)
    return _best(d, fixed_length, lambda s: expit(s[..., None] * (normal - s[..., None] / 2)).mean(axis=-1))


@cache
def optimal_guided_walk() -> tuple[float, float]:
    """`optimal_walk` for moves of one length in a direction that is kept until one is rejected.

    On a flat posterior the mean squared displacement an iteration is ``s**2 a / (1 - a)``, ``a = erfc(s /
    sqrt(8))`` (docs/penalty): 1.43 times that of the best walk in random directions.

    Returns
    -------
    noise_std, acceptance : float
        s at the best step, and the acceptance there: 1.73 and .39.
    """

    def distance(s: float) -> float:
        return -(s**2) * largest_acceptance(s) / erf(s / math.sqrt(8))

    best = float(optimize.minimize_scalar(distance, bounds=(0.1, 10), method="bounded").x)
    return best, float(largest_acceptance(best))


def _best(d: int, fixed_length: bool, acceptance: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """Root mean square of s at the longest expected squared distance, and the acceptance there."""
    lengths = np.ones(1) if fixed_length else stats.chi.ppf(_QUANTILES, d) / math.sqrt(d)

    def distance(noise_std: float) -> float:
        s = noise_std * lengths
        return -float(np.mean(s**2 * acceptance(s)))

    best = optimize.minimize_scalar(distance, bounds=(0.1, 10), method="bounded").x
    return float(best), float(np.mean(acceptance(best * lengths)))
