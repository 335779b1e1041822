"""Minibatch Barker: the log-ratio on a batch, and the variable V that makes its noise approximately logistic.

The distribution of N(0, 2) + V is close to the standard logistic one, which Barker's test needs. V takes five
values. `benchmarks/fit_barker_correction.py` finds them, and proves that the smallest possible error is less
than `LARGEST_ERROR` by no more than a few parts in 10,000.
"""

import math

import numpy as np

from pymc_dp.clipping import shares
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom

#: Variance of the Gaussian noise to which V is added.
NOISE_VARIANCE = 2.0
#: Absolute values that V takes; each but 0 has both signs.
POINTS = (0.0, 2.951340, 9.220991)
#: Probabilities of these absolute values, each for both signs together.
WEIGHTS = (0.865969, 0.131796, 0.002235)
#: Largest difference of the CDFs of N(0, 2) + V and of the standard logistic, rounded up.
LARGEST_ERROR = 5.875e-4

# The five values of V in increasing order.
_SORTED = np.array([*(-p for p in POINTS[:0:-1]), *POINTS])
# Their probabilities.
_MASS = np.array([*(w / 2 for w in WEIGHTS[:0:-1]), WEIGHTS[0], *(w / 2 for w in WEIGHTS[1:])])
# For each value but the first, the probability of a smaller value.
_CUMULATIVE = np.cumsum(_MASS)[:-1]


#: Ratios of a batch are rounded to multiples of their clip bound over this number.
GRID = 2**20


def exact_sums(ratios: np.ndarray, bound: float) -> tuple[int, int]:
    """Return a batch's sum of clipped ratios, and b times their sum of squared deviations, in grid units."""
    grid = np.round(shares(ratios, bound) * GRID).astype(np.int64)
    total = int(grid.sum())
    return total, grid.size * int((grid * grid).sum()) - total * total


def clip_bound(b: int, n: int, tempering: float) -> float:
    """Return the clip bound of a record's log-ratio: ``sqrt(b) / (n T)`` nats (Räisä 2021, Theorem 8)."""
    return math.sqrt(b) / (n * tempering)


def batch_ratio(ratios: np.ndarray, n: int, tempering: float) -> tuple[float, float]:
    """Estimate the tempered log-likelihood ratio, and the variance of the estimate.

    Parameters
    ----------
    ratios : ndarray, shape (b,)
        Log-likelihood ratios of a batch drawn without replacement; clipped here at `clip_bound`. b >= 2.
    n : int
        Number of records.
    tempering : float
        T.

    Returns
    -------
    ratio : float
        ``(n T / b) sum r_j``.
    variance : float
        ``(n T)**2 / b`` times the variance of the r_j with divisor b, times ``(1 - b / n) b / (b - 1)`` if
        this factor is below 1, in which case the estimate is unbiased. At most 1.

    Notes
    -----
    **Privacy.** Ratios are rounded to multiples of ``clip_bound * 2**-20``, and their sums are exact
    integers: `ratio` moves by at most ``2 / sqrt(b)`` when one record of the batch is replaced.
    docs/proofs/barker derives the cost of this.
    """
    b = ratios.size
    total, squares = exact_sums(ratios, clip_bound(b, n, tempering))
    finite_population = min(1.0, (n - b) * b / (n * (b - 1)))
    return total / GRID / math.sqrt(b), finite_population * (squares / (b * GRID) ** 2)


def draw(random: PrivacyRandom) -> float:
    """Draw V once.

    Parameters
    ----------
    random : PrivacyRandom

    Returns
    -------
    float
    """
    return float(_SORTED[np.searchsorted(_CUMULATIVE, random.uniform(1)[0], side="right")])


def accepts(log_ratio: float, noise_std: float, random: PrivacyRandom) -> bool:
    """Decide by Barker's test on a ratio with noise of variance 2: accept if the ratio plus V is positive.

    False for NaN.
    """
    return log_ratio + draw(random) > 0
