"""Points around that of a round: where the parameters may be."""

import math

import numpy as np

from pymc_dp.likelihood.mixtures import symmetric


def points_around(covariance: np.ndarray, spread: float, n: float, number: float, seed: int) -> np.ndarray:
    """Steps to points that are spread like the parameters, each followed by one on the other side.

    So any even number of twins, drawn at one after the other, has no side that is drawn at more often.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        What is believed of them.
    spread : float
        Its length, in units of what one record tells.
    n : float
        Number of records.
    number : float
        About so many points there may be, and at least two.
    seed : int
        Public.

    Returns
    -------
    ndarray, shape (q, p)
        Of mean zero; one step of length zero where one point is enough.

    Notes
    -----
    **Privacy.** A function of released and of public numbers.
    """
    # How far they are from the point at most, in units of what one record tells: beyond it a mean of a few
    # likelihoods would have gaps.
    furthest = 1.5
    away = min(spread, furthest)
    # One point is enough where a scale that takes the squared distance of all others for its own is shifted
    # by less than so many of its standard deviations, about 1 / sqrt(2 n).
    no_shift = 0.1
    if away**2 * math.sqrt(n / 2) < no_shift:
        return np.zeros((1, len(covariance)))
    most_pairs = 8
    rng, pairs = np.random.default_rng(seed), int(np.clip(number // 2, 1, most_pairs))
    drawn = rng.normal(size=(pairs, len(covariance)))
    drawn *= math.sqrt(drawn.size / float(np.sum(drawn**2))) * away / spread
    values, vectors = np.linalg.eigh(symmetric(covariance))
    steps = (drawn * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.stack([steps, -steps], axis=1).reshape(-1, len(covariance))
