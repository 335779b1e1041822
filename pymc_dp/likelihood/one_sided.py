"""Parameters that records bound on one side alone: information falls so fast that all farther ones are alike.

Where outcomes are all equal, or a plane separates them, the likelihood has no maximum. Nor has it one that
shows where noise hides the few records that would say so: it grows, and then is flat, and no normal one is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.mixtures import RIDGE, Message, Mixture, Normal, inverse
from pymc_dp.likelihood.rounds import Round

# Standard deviation of rho before it is seen, for distances in prior standard deviations.
_FASTEST = 2.0
# Its logarithm is a straight line but for this standard deviation, and hidden by noise where draws have that.
_BENT, _HIDDEN = 0.15, 0.5
# Less than this of the logarithm of the likelihood between the nearest and the farthest: two standard errors.
_OPEN = 2.0
# Part of the information along the way that is taken at most.
_MOST_TAKEN = 0.99
# Nearer than the last place, information is at most e to this power times what it is there.
_STEEPEST = 20.0
# Standard deviations that are looked at, of the prior and of what is known, each in so many points.
_FARTHEST, _POINTS = 8.0, 2001


class OneSided(NamedTuple):
    """A likelihood, and where it is bounded on one side alone.

    Attributes
    ----------
    message : Message
        As wide, along the way, as what falls leaves it.
    way : ndarray, shape (p,)
        From the start, of length 1, if farther parameters are as likely; else zeros.
    """

    message: Message
    way: np.ndarray

    @classmethod
    def nowhere(cls, message: Message) -> "OneSided":
        """Of a likelihood that is bounded on both sides, or that says nothing."""
        return cls(message, np.zeros_like(message.vector))


def widen_one_sided(rounds: Sequence[Round], message: Message, prior: Normal) -> OneSided:
    """Make a likelihood wider where what records tell falls along the way.

    Parameters
    ----------
    rounds : sequence of Round
    message : Message
        What they say, with slopes that are the same everywhere.
    prior : Normal
        Of the same coordinates.

    Notes
    -----
    Let u be the distance along the way from the start to the mean, the last round be at t, and information
    fall like ``exp(-rho u)``, as the slopes J of all rounds show it. The score at t of parameters at u is not
    ``J (u - t)``, but ``J (1 - exp(-rho (u - t))) / rho``: at most ``J / rho``, however far they are. With
    that in its place the likelihood of u is ``exp(-lambda g(u)^2 / 2)``, flat far out. The variance is that
    around the same mean.

    **Privacy.** Post-processing.
    """
    known = prior.precision + message.information
    covariance = inverse(known)
    mean = covariance @ (prior.precision @ prior.mean + message.vector)
    way = mean - rounds[0].point
    length = float(np.linalg.norm(way))
    if not (message.information.any() and length > 0):
        return OneSided.nowhere(message)
    way /= length
    variance, before = float(way @ covariance @ way), float(way @ inverse(prior.precision) @ way)
    middle, told = float(way @ prior.mean), 1 / variance - 1 / before
    falls = _falls(rounds, way)
    if not (falls > 0 and told > 0):
        return OneSided.nowhere(message)
    u, last = float(way @ mean), float(way @ rounds[-1].point)
    says = (u / variance - middle / before) / told - last
    far = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
    points = np.sort(np.append(middle + np.sqrt(before) * far, u + np.sqrt(variance) * far))
    apart = -np.expm1(np.minimum(-falls * (points - last), _STEEPEST)) / falls - says
    density = -0.5 * (points - middle) ** 2 / before - 0.5 * told * apart**2
    weights = np.gradient(points) * np.exp(density - density.max())
    more = float(weights @ (points - u) ** 2 / weights.sum()) - variance
    is_open = 0.5 * told * max(1 / falls - says, 0.0) ** 2 < _OPEN
    if more > 0:
        alone = float(way @ inverse(message.information + RIDGE * prior.precision) @ way)
        taken = min(more / (variance * (variance + more)), _MOST_TAKEN / alone)  # what is left is positive
        values, vectors = np.linalg.eigh(message.information - taken * np.outer(way, way))
        information = (vectors * np.maximum(values, 0.0)) @ vectors.T
        vector = (information + prior.precision) @ mean - prior.precision @ prior.mean
        message = Mixture(information[None], vector[None], np.ones(1)).matched(prior)
    return OneSided(message, way) if is_open else OneSided.nowhere(message)


def _falls(rounds: Sequence[Round], way: np.ndarray) -> float:
    """Rho: how fast the logarithm of the information falls along the way, by least squares.

    What noise hides of a slope is positive, and the larger the more noise there is: it would fall from round
    to round, at one place. So rounds count that know it.
    """
    places = np.array([way @ one.point for one in rounds])
    known = np.array([_logarithm(one, way) for one in rounds])
    weights = np.maximum(1 / (known[:, 1] ** 2 + _BENT**2) - 1 / (_HIDDEN**2 + _BENT**2), 0.0)
    away = places - weights @ places / max(weights.sum(), 1e-300)
    return -float(weights * away @ known[:, 0]) / (float(weights @ away**2) + _FASTEST**-2)


def _logarithm(one: Round, way: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation, over draws of the slope, of the logarithm of what a round tells."""
    along = one.back.T @ way
    told = np.log(np.maximum(np.einsum("i,kij,j->k", along, one.slopes, along), 1e-300))
    mean = float(one.weights @ told)
    return mean, float(np.sqrt(one.weights @ (told - mean) ** 2))
