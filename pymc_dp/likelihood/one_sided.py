"""Parameters that are bounded on one side alone, since the information falls too fast with the distance.

If all outcomes are equal, or a plane separates them, the likelihood has no maximum. Nor does it show one if
noise hides the few records with other outcomes: it grows and then is flat, unlike any normal likelihood.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.mixtures import RIDGE, Message, Mixture, Normal, inverse
from pymc_dp.likelihood.rounds import Round


class OneSided(NamedTuple):
    """A likelihood, and the direction in which it is open, if there is one.

    Attributes
    ----------
    message : Message
        Widened in that direction, as the fall of the information requires.
    direction : ndarray, shape (p,)
        Direction from the start, of length 1, if parameters farther out are as likely; else zeros.
    """

    message: Message
    direction: np.ndarray

    @classmethod
    def nowhere(cls, message: Message) -> "OneSided":
        """Return one for a likelihood that is bounded on both sides, or that has no information."""
        return cls(message, np.zeros_like(message.vector))


def widen_one_sided(rounds: Sequence[Round], message: Message, prior: Normal) -> OneSided:
    """Widen a likelihood where information falls in the direction from the start to the posterior mean.

    Parameters
    ----------
    rounds : sequence of Round
    message : Message
        Likelihood of all rounds, with slopes that are taken to be constant.
    prior : Normal
        Prior of the same coordinates.

    Notes
    -----
    Let u be the distance from the start in the direction of the mean, and t that of the last round. As the
    slopes J of all rounds show, information falls like ``exp(-rho u)``. The expected score at t, for
    parameters at u, is then not ``J (u - t)`` but ``J (1 - exp(-rho (u - t))) / rho``: at most ``J / rho``,
    however far away they are. With that in its place, g(u) from the observed one, the likelihood of u is
    ``exp(-lambda g(u)^2 / 2)``, which is flat far out. The message's variance becomes that of this law around
    the same mean.

    **Privacy.** Post-processing.
    """
    known = prior.precision + message.information
    covariance = inverse(known)
    mean = covariance @ (prior.precision @ prior.mean + message.vector)
    direction = mean - rounds[0].point
    length = float(np.linalg.norm(direction))
    if not (message.information.any() and length > 0):
        return OneSided.nowhere(message)
    direction /= length
    variance = float(direction @ covariance @ direction)
    before = float(direction @ inverse(prior.precision) @ direction)
    middle, precision = float(direction @ prior.mean), 1 / variance - 1 / before
    falls = _falls(rounds, direction)
    if not (falls > 0 and precision > 0):
        return OneSided.nowhere(message)
    u, last = float(direction @ mean), float(direction @ rounds[-1].point)
    says = (u / variance - middle / before) / precision - last
    # Range of the integral on each side of the mean, in standard deviations of prior and of posterior.
    farthest = 8.0
    # Number of points of the integral, for each of the two.
    number = 2001
    far = np.linspace(-farthest, farthest, number)
    points = np.sort(np.append(middle + np.sqrt(before) * far, u + np.sqrt(variance) * far))
    # Before the last point, the information is at most e to this power times that at the point.
    steepest = 20.0
    apart = -np.expm1(np.minimum(-falls * (points - last), steepest)) / falls - says
    density = -0.5 * (points - middle) ** 2 / before - 0.5 * precision * apart**2
    weights = np.gradient(points) * np.exp(density - density.max())
    more = float(weights @ (points - u) ** 2 / weights.sum()) - variance
    # The likelihood is open on one side if its logarithm infinitely far out is less than this below its
    # maximum: two standard errors.
    barely_lower = 2.0
    is_open = 0.5 * precision * max(1 / falls - says, 0.0) ** 2 < barely_lower
    # Largest part of the information along the direction that is removed.
    most_taken = 0.99
    if more > 0:
        alone = float(direction @ inverse(message.information + RIDGE * prior.precision) @ direction)
        taken = min(more / (variance * (variance + more)), most_taken / alone)  # what is left is positive
        values, vectors = np.linalg.eigh(message.information - taken * np.outer(direction, direction))
        information = (vectors * np.maximum(values, 0.0)) @ vectors.T
        vector = (information + prior.precision) @ mean - prior.precision @ prior.mean
        message = Mixture(information[None], vector[None], np.ones(1)).matched(prior)
    return OneSided(message, direction) if is_open else OneSided.nowhere(message)


def _falls(rounds: Sequence[Round], direction: np.ndarray) -> float:
    """Return rho, the slope at which the logarithm of the information falls, by least squares.

    Draws of a slope that noise hides are positive, and the larger the more noise there is: the information
    would seem to fall from round to round, even at one point. So only rounds count that determine it.
    """
    places = np.array([direction @ one.point for one in rounds])
    known = np.array([_logarithm(one, direction) for one in rounds])
    # Standard deviation of the logarithm of the information around a straight line.
    bent = 0.15
    # A round does not count if the standard deviation of its logarithm is this, or more: see `_logarithm`.
    hidden = 0.5
    weights = np.maximum(1 / (known[:, 1] ** 2 + bent**2) - 1 / (hidden**2 + bent**2), 0.0)
    away = places - weights @ places / max(weights.sum(), 1e-300)
    # Prior standard deviation of rho, with distances in prior standard deviations.
    fastest = 2.0
    return -float(weights * away @ known[:, 0]) / (float(weights @ away**2) + fastest**-2)


def _logarithm(one: Round, direction: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm of the information in a round.

    The latter is that of draws of the slope, or of what was released if that is more: of many coordinates,
    draws are alike in a direction that noise hides, and all of them too large.
    """
    along = one.back.T @ direction
    informations = np.maximum(np.einsum("i,kij,j->k", along, one.slopes, along), 1e-300)
    mean = float(one.weights @ np.log(informations))
    squares = along**2
    twice = np.where(np.eye(len(along)) > 0, 1.0, 2.0)  # an entry beside the diagonal counts in two places
    noise = math.sqrt(squares @ (twice * one.errors**2) @ squares) / float(one.weights @ informations)
    return mean, max(float(np.sqrt(one.weights @ (np.log(informations) - mean) ** 2)), noise)
