"""Minibatch Barker: the log-ratio on a batch, and the distribution V that makes its noise about logistic.

N(0, 2) + V is close to the standard logistic, which Barker's test needs. V takes five values.
`benchmarks/fit_barker_correction.py` finds them, and proves that no distribution does better than
`LARGEST_ERROR` by more than a few parts in 10,000.
"""

import math
from typing import Protocol

import numpy as np

from pymc_dp.clipping import shares

#: Variance of the Gaussian noise that V completes.
NOISE_VARIANCE = 2.0
#: V is 0 or plus or minus one of the other points; the weight is that of a pair.
POINTS = (0.0, 2.951340, 9.220991)
WEIGHTS = (0.865969, 0.131796, 0.002235)
#: Largest difference of the CDFs of N(0, 2) + V and of the standard logistic, rounded up.
LARGEST_ERROR = 5.875e-4

_SORTED = np.array([*(-p for p in POINTS[:0:-1]), *POINTS])
_MASS = np.array([*(w / 2 for w in WEIGHTS[:0:-1]), WEIGHTS[0], *(w / 2 for w in WEIGHTS[1:])])
_CUMULATIVE = np.cumsum(_MASS)[:-1]


_GRID = 2**20


def clip_bound(b: int, n: int, tempering: float) -> float:
    """Bound on a record's log-likelihood ratio, in nats: ``sqrt(b) / (n T)`` (Räisä 2021, Theorem 8)."""
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
        that is below 1: then it is unbiased. At most 1.

    Notes
    -----
    **Privacy.** Ratios are rounded to multiples of ``clip_bound * 2**-20``, and their sums are exact
    integers: `ratio` moves by at most ``2 / sqrt(b)`` when one record of the batch is replaced.
    docs/proofs/barker says what that costs.
    """
    b = ratios.size
    grid = np.round(shares(ratios, clip_bound(b, n, tempering)) * _GRID).astype(np.int64)
    total = int(grid.sum())
    squares = b * int((grid * grid).sum()) - total * total  # b^2 times the variance, exact
    finite_population = min(1.0, (n - b) * b / (n * (b - 1)))
    return total / _GRID / math.sqrt(b), finite_population * (squares / (b * _GRID) ** 2)


class _Uniform(Protocol):
    def uniform(self, size: int) -> np.ndarray: ...


def draw(random: _Uniform) -> float:
    """One draw of V.

    Parameters
    ----------
    random : PrivacyRandom
        Anything with ``uniform(size)``.

    Returns
    -------
    float
    """
    return float(_SORTED[np.searchsorted(_CUMULATIVE, random.uniform(1)[0], side="right")])


def accepts(log_ratio: float, noise_std: float, random: _Uniform) -> bool:
    """Barker's test of a ratio with noise of variance 2: positive after the correction; False for NaN."""
    return log_ratio + draw(random) > 0
