"""The law of minibatch Barker's decisions, from the points that the package ships."""

import numpy as np
from scipy.special import ndtr

from pymc_dp.ratios.barker_correction import NOISE_VARIANCE, POINTS, WEIGHTS


def cdf(x):
    """CDF of N(0, 2) + V: the probability that minibatch Barker accepts at log-ratio x."""
    x = np.asarray(x, dtype=float) / np.sqrt(NOISE_VARIANCE)
    points = np.array(POINTS) / np.sqrt(NOISE_VARIANCE)
    return sum(w * (ndtr(x - v) + ndtr(x + v)) / 2 for v, w in zip(points, WEIGHTS, strict=True))
