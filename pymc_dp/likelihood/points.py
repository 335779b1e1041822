"""Points around that of a round, spread like the parameters, and the number of twins drawn at them."""

import math

import numpy as np

from pymc_dp.likelihood.mixtures import symmetric

#: Lower and upper bound of coordinates that are not bounded.
UNBOUNDED = np.array([[-np.inf], [np.inf]])


def number_of_twins(n: float, last: bool = False, exact: bool = False) -> int:
    """Return the number of twins of each record: an even number, since points come in pairs.

    Parameters
    ----------
    n : float
        Number of records.
    last : bool
        Whether this is the last round.
    exact : bool
        Whether there is neither noise nor clipping.
    """
    # Number of twins of each record during the search: the least, the most, and the total for all records.
    # The more records there are the fewer, since their own noise is then all that counts.
    on_the_way = 6, 32, 30_000
    # The same in the last round.
    at_the_end = 16, 128, 2_000_000
    least, most, comparisons = at_the_end if last else on_the_way
    # The most, if there is no noise but that of twins.
    without_noise = 1024
    return 2 * int(np.clip(comparisons / n, least, without_noise if exact else most) / 2)


def points_around(covariance: np.ndarray, spread: float, n: float, number: float, seed: int) -> np.ndarray:
    """Return steps to points that are spread like the parameters, each followed by its opposite.

    Twins are drawn at one point after the other: with an even number of them, no side has more.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        Covariance of the parameters around the point.
    spread : float
        Their distance, as `Round.length` has it, in standard errors of one record.
    n : float
        Number of records.
    number : float
        Largest number of points, about; there are at least two.
    seed : int
        Public seed of the points.

    Returns
    -------
    ndarray, shape (q, p)
        They have mean zero; a single step of length zero if one point is enough.

    Notes
    -----
    **Privacy.** A function of released and of public numbers.
    """
    # Largest distance of points, in standard errors of one record: with larger ones the mean of a few
    # likelihoods would have gaps.
    furthest = 1.5
    away = min(spread, furthest)
    # One point is enough if a scale that absorbs the squared distance of all other coordinates is shifted by
    # less than this many of its standard errors, which are about 1 / sqrt(2 n).
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
