"""The correction distribution of minibatch Barker: N(0, 2) + V is close to the standard logistic.

V takes five values. `benchmarks/fit_barker_correction.py` finds them, and proves that no distribution does
better than `LARGEST_ERROR` by more than a few parts in 10,000.
"""

from typing import Any, Protocol

import numpy as np
from scipy.special import ndtr

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


def cdf(x: Any) -> np.ndarray:
    """CDF of N(0, 2) + V: the probability that minibatch Barker accepts at log-ratio x."""
    return ndtr((np.asarray(x, dtype=float)[..., None] - _SORTED) / np.sqrt(NOISE_VARIANCE)) @ _MASS
