"""Beliefs about the parameters, updated round by round, and the likelihood of all rounds at the end."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from pymc_dp.likelihood.brackets import Brackets, pulls_of_all
from pymc_dp.likelihood.group_differences import (
    at_mean_slope,
    believed_of_groups,
    with_differences,
    without_hidden_differences,
)
from pymc_dp.likelihood.groups import FEWEST, Spreads
from pymc_dp.likelihood.hidden_sizes import untold
from pymc_dp.likelihood.mixtures import Message, Mixture, Normal, Relaxed, inverse, inverse_and_volume, roots
from pymc_dp.likelihood.near_zero import NearZero
from pymc_dp.likelihood.one_sided import OneSided, widen_one_sided
from pymc_dp.likelihood.rounds import AT_REST, OF_GROUPS, WALK, Allowances, Round

# After the last round the likelihood and the misfits, which depend on each other, are computed at most this
# often.
_LAST_PASSES = 10
# Beliefs after the last round are settled if no mean and no standard deviation changes by more than this part
# of the latter.
_LAST_SETTLED = 0.01


class Beliefs:
    """Posterior of the parameters during a search, and the rounds that it is made of.

    Parameters
    ----------
    prior : Normal
        Prior of the released coordinates.
    near_zero : NearZero
        Map between these and the coordinates of the search.
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group.
    places : sequence of ndarray of int, shape (G, q)
        Coordinates of the metric that belong to each group.

    Attributes
    ----------
    rounds : list of Round
    prior : Normal
        Prior with the groups' spreads that were learnt: of the search coordinates, and once `result` was
        called of the released ones.
    mean : ndarray, shape (p,)
        Posterior mean.
    covariance : ndarray, shape (p, p)
        Posterior covariance.
    around : ndarray, shape (p, p)
        Covariance of the points of the next round: the mean of `covariance` and of that under the original
        prior, in which groups' spreads are not learnt.
    exact : bool
        Whether the last round alone counts, since it has neither noise nor clipping.
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
        self.exact = False

    def learn(self, one: Round, last: bool) -> None:
        """Add a round, and update beliefs."""
        self.rounds.append(one)
        # `WALK` takes slopes to be large, and groups to be alike: groups' spreads are learnt without that.
        allowances = self._spreads.allowances
        first = (allowances,) if allowances is OF_GROUPS else ()
        # As `_LAST_PASSES` and `_LAST_SETTLED`, after earlier rounds.
        passes, settled = 8, 0.1
        if last:
            self._look((WALK, *(allowances,) * _LAST_PASSES), _LAST_SETTLED)
        else:
            self._look((*first, *(WALK,) * passes), settled)
        self.around = (self.covariance + self._mixture.moments(self._whole)[1]) / 2

    @property
    def brackets(self) -> Brackets:
        """Limits of the coordinates of groups that the rounds so far have shown."""
        return Brackets(self.rounds, self._lookups, self._places)

    @property
    def is_far(self) -> tuple[bool, bool]:
        """Whether the last round shows that the parameters are far away, and that those of a group are."""
        return self.rounds[-1].is_far, self.brackets.still_pull

    def _look(self, passes: Iterable[Allowances], settled: float) -> None:
        """Compute the likelihood of all rounds and the posterior, in passes until beliefs settle."""
        says = self.rounds[-1:] if self.exact else self.rounds
        for allowances, times in groupby(passes):
            for one in says:
                one.doubt = 1.0
            beliefs = Relaxed(self.brackets.within(self.mean), self.covariance)
            for _ in times:
                self._mixture: Mixture = believed(
                    says, beliefs.mean, beliefs.covariance, self.prior, allowances
                )
                if allowances is OF_GROUPS:
                    self._spreads.learn(self._mixture)
                    self.prior = self._spreads.prior
                if beliefs.step(*self._mixture.moments(self.prior)) <= settled:
                    break
            self.mean, self.covariance = beliefs.mean, beliefs.covariance

    def result(self, shares: np.ndarray) -> OneSided:
        """Return the likelihood of all rounds, in the released coordinates.

        The records' sampling variance is included. If the search did not converge there is no information:
        of single groups, or of anything.

        Parameters
        ----------
        shares : ndarray, shape (p,)
            Ratio of the variance of the records' sum of scores to its slope, by coordinate of the metric.
        """
        if self._near_zero.spreads:
            self._restate()
        last = self.rounds[-1]
        far = self._find_far()
        arrived = not (far[self._of_all].any() or far.all()) and last.pulling < AT_REST
        if not (self.exact or arrived):
            return OneSided.nowhere(Message.nothing(len(self.mean)))
        variances = _of_sampling(last, shares)
        adrift = np.zeros_like(self.covariance) if self.exact else last.adrift(far)
        found = self._mixture.widened(variances + adrift).matched(self._whole)
        if self._spreads.allowances is OF_GROUPS and not self.exact:
            own = _of_sampling(at_mean_slope(last), shares)
            levels = self._straight().widened(own + adrift).matched(self._whole)
            found = with_differences(found, levels, self._whole, self._lookups)
        if not np.isfinite(found.information).all():
            return OneSided.nowhere(Message.nothing(len(self.mean)))
        if self.exact:
            return OneSided.nowhere(found)
        if self._spreads.allowances is OF_GROUPS:
            found = without_hidden_differences(found, self._whole, self._lookups)
            found = found.widened(last.taken_for_other(*found.moments(self._whole), OF_GROUPS, self._places))
        if (last.sizes[1] > 0).any():
            found = found.widened(untold(last, *found.moments(self._whole), self._whole))
        return widen_one_sided(self.rounds, found, self._whole)

    @property
    def _of_all(self) -> np.ndarray:
        """Coordinates of the metric, shape (p,), but for those of groups: single groups may be unknown."""
        result = np.ones(len(self.mean), dtype=bool)
        for places in self._places:
            result[places] = len(places) < FEWEST
        return result

    def _find_far(self) -> np.ndarray:
        """Return the coordinates of the metric, shape (p,), at which the search did not arrive.

        Groups that are far away make the mean distance over all records large, but not those of other groups.
        """
        last = self.rounds[-1]
        spread = last.spread_of(self.mean, self.covariance)
        # If the parameters are at a larger distance than this from the last point, in standard errors of one
        # record, nothing is known: the slope at the point is not that between the point and the parameters.
        arrived = 1.5
        alone = np.sqrt(last.weights @ last.own_squares(spread)) >= arrived
        alone |= self.brackets.open_ended
        kept = ~alone | self._of_all
        last.find_distances(spread * np.outer(kept, kept), self._spreads.allowances)
        return alone | last.is_beyond(arrived, pulls_of_all(self.rounds))

    def _straight(self) -> Mixture:
        """Return the likelihood of all rounds with slopes at their means, for differences between groups."""
        spreads, beliefs = Spreads(self._whole, self._lookups), Relaxed(self.mean, self.covariance)
        for _ in range(_LAST_PASSES):
            found = believed_of_groups(self.rounds, beliefs.mean, beliefs.covariance)
            spreads.learn(found)
            if beliefs.step(*found.moments(spreads.prior)) <= _LAST_SETTLED:
                break
        return found

    def _restate(self) -> None:
        """Express all rounds in the released coordinates, and compute the posterior again."""
        near_zero, point = self._near_zero, self.rounds[-1].point
        slopes, other = near_zero.slopes(point), near_zero.psi(point)
        self.mean = other + slopes * (self.mean - point)
        self.covariance = np.outer(slopes, slopes) * self.covariance
        self._whole = self._released
        self._spreads = Spreads(self._whole, self._lookups)
        self.prior = self._spreads.prior
        for k, one in enumerate(self.rounds):  # A times d psi/d phi makes the same of scores by psi
            metric = one.metric * near_zero.slopes(one.point)
            variances = self.prior.variances(metric)
            self.rounds[k] = replace(one, point=near_zero.psi(one.point), metric=metric, prior=variances)
        self._look([self._spreads.allowances] * _LAST_PASSES, _LAST_SETTLED)


def believed(
    rounds: Sequence[Round], mean: np.ndarray, covariance: np.ndarray, prior: Normal, allowances: Allowances
) -> Mixture:
    """Compute the likelihood of all scores, each linear in the parameters up to its misfit.

    If a score is surprising given the rounds before, these were less accurate than assumed: their information
    is reduced until the score no longer is.

    Parameters
    ----------
    rounds : sequence of Round
        Their weights, distances and doubts are updated.
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        Posterior of the parameters as known so far, on which misfits depend.
    prior : Normal
    allowances : Allowances
    """
    message, last = Message.nothing(len(mean)), rounds[-1]
    # Information from earlier rounds is divided by twice the surprise of a score, until it was divided by
    # this much.
    most_doubt = 4096.0
    for one in rounds:
        noise = one.noises + one.misfit(mean, covariance, allowances)
        if one is not last:
            more = 1 / np.sqrt(one.counting(allowances.half))
            noise = noise * np.outer(more, more)
        says = _Score.of(one, one.slopes_up_to(last), noise)
        mixture, covariances, surprise = _combined(one, says, message.over(one.doubt), prior, allowances)
        while surprise > 1 and one.doubt < most_doubt and message.information.any():
            one.doubt *= 2 * surprise
            mixture, covariances, surprise = _combined(one, says, message.over(one.doubt), prior, allowances)
        one.weights = mixture.weights
        if one is not last:
            message = mixture.matched(prior, covariances)
    return mixture


def _of_sampling(last: Round, shares: np.ndarray) -> np.ndarray:
    """Return the sampling covariance of the parameters, shape (m, p, p), for each draw of the slope.

    With the slope M in the metric A, the variance of the score is taken to be ``S M S``, where S is diagonal
    and has the roots of the shares. The result is ``A' M^-1 S M S M^-1 A``.
    """
    root, back = np.sqrt(shares), np.linalg.inv(last.slopes) @ last.metric
    return back.swapaxes(1, 2) @ (np.outer(root, root) * last.slopes) @ back


def _weights(density: np.ndarray) -> np.ndarray:
    """Return weights of draws from log densities, flattened where few draws would have all the weight.

    A few draws of many numbers do not show which is right; if one had all the weight, the slope would be
    treated as known.
    """
    density = np.nan_to_num(density - density.max())
    # The effective number of draws of a slope is at least this part of their number: to that end their
    # densities are raised to a power.
    effective = 0.3
    least = effective * len(density)

    def more_than_least(power: float) -> float:
        weights = np.exp(power * density)
        return float(weights.sum() ** 2 / (weights @ weights)) - least

    power = 1.0 if more_than_least(1.0) >= 0 else brentq(more_than_least, 0.0, 1.0)
    weights = np.exp(power * density)
    return weights / weights.sum()


class _Score(NamedTuple):
    """Likelihood of a single score, linear and with normal noise, for each draw of its slope.

    Attributes
    ----------
    score : ndarray, shape (p,)
        The score in units in which its noise is standard normal.
    slopes : ndarray, shape (m, p, p)
        Its slope by the parameters, in the same units.
    information, vectors : ndarray, shape (m, p, p) and (m, p)
        As those of a `Message`.
    """

    score: np.ndarray
    slopes: np.ndarray
    information: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, one: Round, slopes: np.ndarray, noise: np.ndarray) -> "_Score":
        """Return that of a round, for draws of the slope by the parameters and noise of covariance (p, p)."""
        unit = np.linalg.inv(roots(noise))
        score, slopes = unit @ one.score, unit @ slopes
        found = slopes.swapaxes(1, 2) @ slopes
        return cls(score, slopes, found, score @ slopes + found @ one.point)


def _combined(
    one: Round, says: _Score, earlier: Message, prior: Normal, allowances: Allowances
) -> tuple[Mixture, np.ndarray, float]:
    """Return the likelihood of an earlier message and of a score, and how surprising the score is.

    The surprise is the square of its deviation from the prediction, over the largest usual square. Between
    these are the posterior covariances of the likelihood's components, shape (m, p, p).
    """
    known = prior.precision + earlier.information
    mean = inverse(known) @ (prior.precision @ prior.mean + earlier.vector)
    apart = says.score - says.slopes @ (mean - one.point)
    # In the covariance ``noise + G known^-1 G'``: Woodbury's identity gives the square, and the determinant.
    pulls = np.einsum("ki,kij->kj", apart, says.slopes)
    covariances, volumes = inverse_and_volume(known + says.information)
    explained = np.einsum("ki,kij,kj->k", pulls, covariances, pulls)
    squares = np.maximum((apart**2).sum(1) - explained, 0.0)
    density = -0.5 * squares - 0.5 * volumes + allowances.regular * one.volumes
    weights = _weights(density)
    # The sum of squares of p standard normal numbers is surprising beyond ``p + deviations sqrt(2 p)``.
    deviations = 1.0
    expected = len(mean) + deviations * math.sqrt(2 * len(mean))
    mixture = Mixture(says.information + earlier.information, says.vectors + earlier.vector, weights)
    return mixture, covariances, float(squares.min()) / expected
