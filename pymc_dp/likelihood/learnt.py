"""What is believed of the parameters, round by round, and what all rounds say at the end."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.groups import Spreads
from pymc_dp.likelihood.mixtures import Message, Mixture, Normal, inverse, squares_within, symmetric
from pymc_dp.likelihood.near_zero import NearZero
from pymc_dp.likelihood.one_sided import OneSided, widen_one_sided
from pymc_dp.likelihood.rounds import AT_REST, OF_GROUPS, SHARP, WALK, Care, Round
from pymc_dp.likelihood.straight import (
    at_mean_slope,
    believed_of_groups,
    with_differences,
    without_hidden_differences,
)

_PASSES = 3  # of misfits and beliefs, of a round
_LAST_PASSES = 4  # of the last round
# A last round that is further from the parameters says nothing: its slope is not that of the way to them.
_ARRIVED = 1.5
# A sum of squares of p normal numbers is a surprise beyond ``p + _SURPRISE sqrt(2 p)``.
_SURPRISE = 1.0
# Then what was known before is doubted: its information is divided by twice the surprise, at most so many
# times.
_DOUBTS = 12
# The effective number of draws is at least this part of them: densities are taken to a power for it.
_EFFECTIVE = 0.3
# That power is never below this.
_FLAT = 1e-3


class Learnt:
    """What is believed of the parameters, and the rounds that say so.

    Parameters
    ----------
    prior : Normal
        Of the released coordinates.
    near_zero : NearZero
        What these are of those of the walk.
    lookups, places : sequence of ndarray of int, shape (G, q)
        Coordinates of groups, and those of the metric that are theirs.

    Attributes
    ----------
    rounds : list of Round
    prior : Normal
        Of the walk's coordinates, with groups' spreads as they are believed to be.
    mean : ndarray, shape (p,)
    covariance, around : ndarray, shape (p, p)
        Of what is believed; and where parameters are looked for, as if less were known of groups' spreads.
    wide : bool
        Whether the last round alone counts, which has neither noise nor bounds.
    """

    def __init__(
        self,
        prior: Normal,
        near_zero: NearZero,
        lookups: Sequence[np.ndarray],
        places: Sequence[np.ndarray],
    ):
        self._near_zero, self._released, self._lookups, self._places = near_zero, prior, lookups, places
        self.prior = self._whole = prior = near_zero.of_walk(prior)
        self._spreads = Spreads(prior, lookups)
        self.rounds: list[Round] = []
        self.mean, self.covariance = prior.mean, inverse(prior.precision)
        self.around = self.covariance
        self.wide = False

    def learn(self, one: Round, last: bool) -> None:
        """Learn from one round more."""
        self.rounds.append(one)
        # On the way slopes are taken for large, and groups for alike: what these are is learnt without that.
        care = self._spreads.care
        first = (care,) if care is OF_GROUPS else ()
        self._look((WALK, *(care,) * _LAST_PASSES) if last else (*first, *(WALK,) * _PASSES))
        self.around = (self.covariance + self._mixture.moments(self._whole)[1]) / 2

    def _look(self, cares: Iterable[Care]) -> None:
        """Look at all rounds, once with each of these."""
        says = self.rounds[-1:] if self.wide else self.rounds
        for care in cares:
            self._mixture: Mixture = believed(says, self.mean, self.covariance, self.prior, care)
            if care is OF_GROUPS:
                self._spreads.learn(self._mixture)
                self.prior = self._spreads.prior
            self.mean, self.covariance = self._mixture.moments(self.prior)

    def result(self, share: float) -> OneSided:
        """What all rounds say of the released coordinates.

        With the records' own variance; nothing where it did not arrive.

        Parameters
        ----------
        share : float
            Of the variance of the records' own sum over its slope.
        """
        if self._near_zero.spreads:
            self._restate()
        last = self.rounds[-1]
        if not (self.wide or (last.distance < _ARRIVED and last.pulling < AT_REST)):
            return OneSided.nowhere(Message.nothing(len(self.mean)))
        variances = share * last.metric.T @ np.linalg.inv(last.slopes) @ last.metric
        adrift = np.zeros_like(self.covariance) if self.wide else last.adrift()
        found = self._mixture.widened(variances + adrift).matched(self._whole)
        if self._spreads.care is OF_GROUPS and not self.wide:
            own = share * last.metric.T @ np.linalg.inv(at_mean_slope(last).slopes) @ last.metric
            levels = self._straight().widened(own + adrift).matched(self._whole)
            found = with_differences(found, levels, self._whole, self._lookups)
        if not np.isfinite(found.information).all():
            return OneSided.nowhere(Message.nothing(len(self.mean)))
        if self.wide:
            return OneSided.nowhere(found)
        if self._spreads.care is OF_GROUPS:
            found = without_hidden_differences(found, self._whole, self._lookups)
            left = inverse(self._whole.precision + found.information)
            mean = left @ (self._whole.precision @ self._whole.mean + found.vector)
            found = found.widened(last.taken_for_other(mean, left, OF_GROUPS, self._places))
        return widen_one_sided(self.rounds, found, self._whole)

    def _straight(self) -> Mixture:
        """What all rounds say, if slopes are taken for their means: of what groups differ by."""
        spreads, mean, covariance = Spreads(self._whole, self._lookups), self.mean, self.covariance
        for _ in range(_LAST_PASSES):
            found = believed_of_groups(self.rounds, mean, covariance, self._places)
            spreads.learn(found)
            mean, covariance = found.moments(spreads.prior)
        return found

    def _restate(self) -> None:
        """Learn from all rounds once more, as from those of the released coordinates."""
        near_zero, point = self._near_zero, self.rounds[-1].point
        slopes, other = near_zero.slopes(point), near_zero.psi(point)
        self.mean = other + slopes * (self.mean - point)
        self.covariance = np.outer(slopes, slopes) * self.covariance
        self._whole = self._released
        self._spreads = Spreads(self._whole, self._lookups)
        self.prior = self._spreads.prior
        for k, one in enumerate(self.rounds):  # the same scores, in a metric that is from psi
            metric = one.metric * near_zero.slopes(one.point)
            variances = self.prior.variances(metric)
            self.rounds[k] = replace(one, point=near_zero.psi(one.point), metric=metric, prior=variances)
        self._look([self._spreads.care] * _LAST_PASSES)


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
