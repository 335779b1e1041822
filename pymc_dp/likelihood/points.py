"""Points around that of a round, where the parameters may be; and how many twins are drawn at them."""

import math

import numpy as np

from pymc_dp.likelihood.mixtures import symmetric

# Twins on the way: least, most, and all comparisons that are wanted. The more records there are the fewer,
# since their own noise is then all that counts.
_ON_THE_WAY = 6, 32, 30_000
# Twins at the end.
_AT_THE_END = 16, 128, 2_000_000
# At most, where there is no noise but that of twins.
_WITHOUT_NOISE = 1024
#: Least and largest numbers, for coordinates that may be any.
UNBOUNDED = np.array([[-np.inf], [np.inf]])


def number_of_twins(n: float, last: bool = False, wide: bool = False) -> int:
    """Of each record: an even number, since points come in pairs.

    Parameters
    ----------
    n : float
        Number of records.
    last : bool
        Whether they are those of the last round.
    wide : bool
        Whether there is neither noise nor a bound that cuts scores.
    """
    least, most, comparisons = _AT_THE_END if last else _ON_THE_WAY
    return 2 * int(np.clip(comparisons / n, least, _WITHOUT_NOISE if wide else most) / 2)


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
