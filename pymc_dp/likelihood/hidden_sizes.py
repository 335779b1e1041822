"""Coordinates of which noise hides how many records touch them: perhaps hardly any.

Each round releases a score and its slope. Where the slope may be zero within its noise, all rounds together
may say nothing of the coordinate: they have the same records.
"""

import numpy as np
from scipy.special import ndtr, ndtri

from pymc_dp.likelihood.mixtures import Normal, inverse
from pymc_dp.likelihood.rounds import Round

# Draws of a round's slopes allow for those that are smaller by this factor than was assumed.
_OF_DRAWS = 0.7


def untold(one: Round, mean: np.ndarray, covariance: np.ndarray, prior: Normal) -> np.ndarray:
    """Return a root R, shape (p, q), of the covariance ``R R'`` of errors by unknown numbers of records.

    Parameters
    ----------
    one : Round
        The last one.
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        Posterior of the parameters.
    prior : Normal
    """
    some, back = np.flatnonzero(one.sizes[1] > 0), one.back
    means = (mean @ back[:, some], prior.mean @ back[:, some])
    variances = (
        np.einsum("ik,ij,jk->k", back[:, some], whole, back[:, some])
        for whole in (covariance, inverse(prior.precision))
    )
    posterior, before = map(np.array, zip(means, variances, strict=True))
    assumed = np.einsum("k,kii->i", one.weights, one.slopes)[some]
    added = noise_of_sizes(one.sizes[:, some], assumed, posterior, before, one.point @ back[:, some])
    return one.metric[some].T * np.sqrt(added)


def noise_of_sizes(
    sizes: np.ndarray, assumed: np.ndarray, posterior: np.ndarray, prior: np.ndarray, points: np.ndarray
) -> np.ndarray:
    """Return the variance, shape (q,), that unknown slopes add to estimates of q coordinates.

    The score of a coordinate is ``J (theta - t)`` plus noise. If noise hides how many records touch it, J
    may be nearly zero; and then it is in all rounds, which together seem to tell more. The likelihood is a
    mixture over J of normal ones. With this variance added, a normal one has the posterior variance of that.

    Parameters
    ----------
    sizes : ndarray, shape (2, q)
        Mean and standard deviation of J, which is positive.
    assumed : ndarray, shape (q,)
        What J was taken to be.
    posterior, prior : ndarray, shape (2, q)
        Mean and variance of theta.
    points : ndarray, shape (q,)
        t.
    """
    # Number of slopes of a coordinate, equally likely quantiles, that stand for all that it may have.
    number = 64
    chances = (np.arange(number) + 0.5)[:, None] / number
    below = ndtr(-sizes[0] / sizes[1])
    drawn = sizes[0] + sizes[1] * ndtri(below + chances * (1 - below))
    ratios = np.maximum(np.where(np.isfinite(drawn), drawn, 0.0), 0.0) / np.maximum(assumed, 1e-300)
    ratios = np.minimum(ratios / _OF_DRAWS, 1.0)
    (mean, variance), (middle, before) = posterior, prior
    told = np.maximum(1 / variance - 1 / before, 1e-12 / before)
    apart = (mean / variance - middle / before) / told - points
    total = 1 / told + ratios**2 * before
    off = apart - ratios * (middle - points)
    weights = np.exp(-0.5 * (off**2 / total - (off**2 / total).min(0))) / np.sqrt(total)
    weights /= weights.sum(0)
    spread = 1 / (1 / before + ratios**2 * told)
    means = spread * (middle / before + ratios * told * (apart + ratios * points))
    around = (weights * means).sum(0)
    whole = (weights * (spread + (means - around) ** 2)).sum(0)
    # Least information about a coordinate that is left, over that of the prior.
    least_told = 1e-3
    left = np.maximum(1 / whole - 1 / before, least_told / before)
    return np.maximum(1 / left - 1 / told, 0.0)
