"""Parameters that records bound on one side alone: information falls so fast that all farther ones are alike.

Where outcomes are all equal, or a plane separates them, the likelihood has no maximum. Nor has it one that
shows where noise hides the few records that would say so: it grows, and then is flat, and no normal one is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.beliefs import Round
from pymc_dp.likelihood.mixtures import Message, Normal, inverse

# Standard deviation of rho before it is seen, for distances in prior standard deviations.
_FASTEST = 2.0
# Its logarithm is a straight line but for this standard deviation, and hidden by noise where draws have that.
_BENT, _HIDDEN = 0.15, 0.5
# Less than this of the logarithm of the likelihood between the nearest and the farthest: two standard errors.
_OPEN = 2.0
# Nearer than the last place, information is at most e to this power times what it is there.
_STEEPEST = 20.0
# Standard deviations that are looked at, of the prior and of what is known, each in so many points.
_FARTHEST, _POINTS = 8.0, 2001


class OneSided(NamedTuple):
    """A likelihood, and where it is bounded on one side alone.

    Attributes
    ----------
    message : Message
        As wide as what falls leaves it.
    unbounded : ndarray, shape (p,)
        1 for the coordinates that are, else 0.
    """

    message: Message
    unbounded: np.ndarray

    @classmethod
    def nowhere(cls, message: Message) -> "OneSided":
        """Of a likelihood that is bounded on both sides, or that says nothing."""
        return cls(message, np.zeros_like(message.vector))


def widen_one_sided(rounds: Sequence[Round], message: Message, prior: Normal) -> OneSided:
    """Make a likelihood wider where what records tell falls along the way of a coordinate.

    Parameters
    ----------
    rounds : sequence of Round
    message : Message
        What they say, with slopes that are the same everywhere.
    prior : Normal
        Of the same coordinates.

    Notes
    -----
    Let u be the distance of a coordinate from its start, the last round be at t, and information
    fall like ``exp(-rho u)``, as the slopes J of all rounds show it. The score at t of parameters at u is not
    ``J (u - t)``, but ``J (1 - exp(-rho (u - t))) / rho``: at most ``J / rho``, however far they are. With
    that in its place the likelihood of u is ``exp(-lambda g(u)^2 / 2)``, flat far out. The variance is that
    around the same mean.

    **Privacy.** Post-processing.
    """
    if not message.information.any():
        return OneSided.nowhere(message)
    covariance = inverse(prior.precision + message.information)
    mean = covariance @ (prior.precision @ prior.mean + message.vector)
    before, variances = np.diag(inverse(prior.precision)), np.diag(covariance)
    unbounded, found, falls = np.zeros(len(mean)), message, _falls(rounds)
    for k, away in enumerate(np.sign(mean - rounds[0].point)):
        of_prior, known = _Normal(away * prior.mean[k], before[k]), _Normal(away * mean[k], variances[k])
        law = _law(away * falls[k], away * rounds[-1].point[k], of_prior, known)
        found, unbounded[k] = _wider(found, prior, mean, k, law.variance), law.is_open
    return OneSided(found, unbounded)


class _Normal(NamedTuple):
    mean: float
    variance: float


class _Law(NamedTuple):
    variance: float
    is_open: bool


def _law(falls: float, last: float, prior: _Normal, known: _Normal) -> _Law:
    """Variance of a coordinate around the known mean; and whether it is bounded on one side."""
    told = 1 / known.variance - 1 / prior.variance
    if not (falls > 0 and told > 0):
        return _Law(known.variance, False)
    says = (known.mean / known.variance - prior.mean / prior.variance) / told - last
    far = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
    points = np.sort(np.concatenate([one.mean + np.sqrt(one.variance) * far for one in (prior, known)]))
    apart = -np.expm1(np.minimum(-falls * (points - last), _STEEPEST)) / falls - says
    density = -0.5 * (points - prior.mean) ** 2 / prior.variance - 0.5 * told * apart**2
    weights = np.gradient(points) * np.exp(density - density.max())
    variance = float(weights @ (points - known.mean) ** 2 / weights.sum())
    return _Law(variance, 0.5 * told * max(1 / falls - says, 0.0) ** 2 < _OPEN)


def _wider(message: Message, prior: Normal, mean: np.ndarray, k: int, variance: float) -> Message:
    """A likelihood with at least this posterior variance of a coordinate, and the same mean."""
    now = float(inverse(prior.precision + message.information)[k, k])
    if variance <= now:
        return message
    less = message.information.copy()
    less[k, k] -= (variance - now) / (now * variance)
    values, vectors = np.linalg.eigh(less)
    information = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return Message(information, (information + prior.precision) @ mean - prior.precision @ prior.mean)


def _falls(rounds: Sequence[Round]) -> np.ndarray:
    """Rho of each coordinate: how fast the logarithm of its information falls, by least squares; shape (p,).

    What noise hides of a slope is positive, and the larger the more noise there is: it would fall from round
    to round, at one place. So rounds count that know it.
    """
    places = np.array([one.point for one in rounds])
    told, errors = np.array([_logarithms(one) for one in rounds]).swapaxes(0, 1)
    weights = np.maximum(1 / (errors**2 + _BENT**2) - 1 / (_HIDDEN**2 + _BENT**2), 0.0)
    away = places - (weights * places).sum(0) / np.maximum(weights.sum(0), 1e-300)
    return -(weights * away * told).sum(0) / ((weights * away**2).sum(0) + _FASTEST**-2)


def _logarithms(one: Round) -> tuple[np.ndarray, np.ndarray]:
    """Of what is told of each coordinate: means and deviations, over draws of the slope, of logarithms."""
    told = np.log(np.maximum(((one.back @ one.slopes) * one.back).sum(2), 1e-300))
    mean = one.weights @ told
    return mean, np.sqrt(one.weights @ (told - mean) ** 2)
