"""What the noisy scores of all rounds say together of the likelihood coordinates."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.mixtures import Message, Mixture, Normal, inverse, squares_within, symmetric
from pymc_dp.likelihood.rounds import Care, Round

#: Power of the distance with which an earlier score loses its worth.
SHARP = 4
# A sum of squares of p normal numbers is a surprise beyond ``p + _SURPRISE sqrt(2 p)``.
_SURPRISE = 1.0
# Then what was known before is doubted: its information is divided by twice the surprise, at most so many
# times.
_DOUBTS = 12
# The effective number of draws is at least this part of them: densities are taken to a power for it.
_EFFECTIVE = 0.3
# That power is never below this.
_FLAT = 1e-3


def believed(
    rounds: Sequence[Round], mean: np.ndarray, covariance: np.ndarray, prior: Normal, care: Care
) -> Mixture:
    """Likelihood of all scores, each a linear one up to its misfit.

    Where a score is not what those before it lead to expect, they were taken for better than they are: they
    count less, until it is.

    Parameters
    ----------
    rounds : sequence of Round
        Their weights and distances are renewed.
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        What is believed of the parameters: misfits go by it.
    prior : Normal
    care : Care
    """
    message, last = Message.nothing(len(mean)), rounds[-1]
    for one in rounds:
        noise = one.noises + one.misfit(mean, covariance, care)
        slopes = one.slopes
        if one is not last:
            noise = noise * (1 + (one.distance / care.half) ** SHARP)
            slopes = one.no_steeper_than(last)
        says = _Score.of(one, slopes, noise)
        for _ in range(_DOUBTS):
            mixture, surprise = _learnt(one, says, message, prior, care)
            if surprise <= 1 or not message.information.any():
                break
            message = Message(message.information / (2 * surprise), message.vector / (2 * surprise))
        one.weights = mixture.weights
        if one is not last:
            message = mixture.matched(prior)
    return mixture


def _weights(density: np.ndarray) -> np.ndarray:
    """Weights of draws by the logarithms of their densities: flatter where few would have all the weight.

    Few draws of many numbers cannot tell which is nearest; one with all the weight would count as known.
    """
    power = 1.0
    while True:
        weights = np.exp(power * (density - density.max()))
        weights = weights / weights.sum()
        if 1 / (weights @ weights) >= _EFFECTIVE * len(weights) or power < _FLAT:
            return weights
        power /= 2


class _Score(NamedTuple):
    """What a round's score says by itself, linear and with noise: for each draw of its slope.

    Attributes
    ----------
    slopes : ndarray, shape (m, p, p)
        Of the score in the metric, by the parameters.
    within : ndarray, shape (p, p)
        Inverse covariance of its noise.
    weighted : ndarray, shape (m, p, p)
        Slopes' transposes times that.
    information, vectors : ndarray, shape (m, p, p) and (m, p)
    """

    slopes: np.ndarray
    within: np.ndarray
    weighted: np.ndarray
    information: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, one: Round, slopes: np.ndarray, noise: np.ndarray) -> "_Score":
        """With draws of the slope in the metric, and noise of this covariance, (p, p)."""
        slopes = slopes @ one.back.T
        within = inverse(noise)
        weighted = slopes.transpose(0, 2, 1) @ within
        found = symmetric(weighted @ slopes)
        return cls(slopes, within, weighted, found, weighted @ one.score + found @ one.point)


def _learnt(one: Round, says: _Score, earlier: Message, prior: Normal, care: Care) -> tuple[Mixture, float]:
    """Likelihood of an earlier message and of a score.

    And how much larger the square of what was not expected of the score is than what may be.
    """
    known = prior.precision + earlier.information
    mean = inverse(known) @ (prior.precision @ prior.mean + earlier.vector)
    apart = one.score - says.slopes @ (mean - one.point)
    # Of ``noise + G known^-1 G'``: what belief explains is taken from the square, and its determinant added.
    pulls = np.einsum("kij,kj->ki", says.weighted, apart)
    explained, volumes = squares_within(known + says.information, pulls)
    squares = np.maximum(np.einsum("ki,ij,kj->k", apart, says.within, apart) - explained, 0.0)
    density = -0.5 * squares - 0.5 * volumes + care.regular * one.volumes
    weights = _weights(density)
    expected = len(mean) + _SURPRISE * math.sqrt(2 * len(mean))
    mixture = Mixture(says.information + earlier.information, says.vectors + earlier.vector, weights)
    return mixture, float(squares.min()) / expected
