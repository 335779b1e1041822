"""Differences between groups: estimated from all scores, each with the mean of its slope.

With many groups a few draws of a slope do not show which of them is right. Nor is it safe here to overstate
the noise: levels whose distances are below the stated noise would be taken for equal, and their spread for
zero. So the noise is stated as it is: what slopes and linearity are off by grows with the differences, and is
nothing where there are none. What all groups have in common is estimated by `beliefs.believed`: there signals
are strong, and that slopes change between points matters more than noise.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import eigh, helmert

from pymc_dp.likelihood.groups import FEWEST
from pymc_dp.likelihood.mixtures import RIDGE, Message, Mixture, Normal, inverse, symmetric
from pymc_dp.likelihood.rounds import MANY, OF_GROUPS, Round


def believed_of_groups(rounds: Sequence[Round], mean: np.ndarray, covariance: np.ndarray) -> Mixture:
    """Return the likelihood of all scores, a single normal one, with slopes at their means.

    In no direction is a slope steeper than the last one, of which most is known.

    Parameters
    ----------
    rounds : sequence of Round
        Their distances are updated.
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        Posterior of the parameters as known so far, on which distances depend.

    Notes
    -----
    With scores ``z_r = S_r (phi - t_r) + e_r``, N_r the noise's covariance, and ``I_r = S_r' N_r^-1 S_r``, it
    is that of the estimate ``(sum w I)^-1 sum w S' N^-1 (z + S t)`` with the covariance
    ``(sum w I)^-1 (sum w^2 I) (sum w I)^-1``. The weights w are small for earlier rounds that were far from
    the parameters of some group: these differences are small beside noise, and which is far is not known.
    """
    size = len(mean)
    weighted, noise, vector = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    last = rounds[-1]
    for one in rounds:
        middle = at_mean_slope(one)
        middle.find_distances(middle.spread_of(mean, covariance), OF_GROUPS)
        one.distances = middle.distances
        slope = np.einsum("k,kij->ij", one.weights, one.slopes_up_to(last))
        within = slope.T @ inverse(one.noises)
        weight = 1.0 if one is last else float(one.counting(OF_GROUPS.half).min())
        information = symmetric(within @ slope)
        weighted += weight * information
        noise += weight**2 * information
        vector += weight * (within @ one.score + information @ one.point)
    back = inverse(weighted)
    found = inverse(symmetric(back @ noise @ back))
    return Mixture(found[None], (found @ (back @ vector))[None], np.ones(1))


def at_mean_slope(one: Round) -> Round:
    """Return the same round with a known slope, the mean of its draws."""
    mean = np.einsum("k,kij->ij", one.weights, one.slopes)[None]
    return replace(one, slopes=mean, volumes=one.volumes[:1], weights=np.ones(1))


def without_hidden_differences(message: Message, prior: Normal, lookups: Sequence[np.ndarray]) -> Message:
    """Return a likelihood that has less information on differences between groups the less they are known.

    Parameters
    ----------
    message : Message
    prior : Normal
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group.

    Notes
    -----
    Take linear combinations c of differences that are independent of each other under the prior and under the
    likelihood. Let r be the part of the prior variance of one that the likelihood leaves, and m its prior
    mean. The result at c is the given likelihood at ``m + (1 - r^1.5)(c - m)``. What all groups have in
    common changes with c such that those of which much is known stay where they are.
    """
    change = np.eye(len(message.vector))
    before, after = inverse(prior.precision), inverse(prior.precision + message.information)
    # A difference counts by one minus this power of the part of its prior variance that is left.
    hidden = 1.5
    # Part of the mean prior variance that is added to each: reference levels are constants, and have none.
    constant = 1e-10
    for column in (column for rows in lookups for column in rows.T if len(column) >= FEWEST):
        apart, at = helmert(len(column)), np.ix_(column, column)
        whole = apart @ before[at] @ apart.T
        whole += constant * np.trace(whole) / len(whole) * np.eye(len(whole))
        left, axes = eigh(apart @ after[at] @ apart.T, whole)
        moved = apart.T @ whole @ (axes * np.clip(left, 0.0, 1.0) ** hidden)
        weights = inverse(after[at]).sum(0)
        change[at] -= (moved - weights @ moved / weights.sum()) @ axes.T @ apart
    information = symmetric(change.T @ message.information @ change)
    score = change.T @ (message.vector - message.information @ prior.mean)
    return Message(information, score + information @ prior.mean)


def with_differences(
    message: Message, levels: Message, prior: Normal, lookups: Sequence[np.ndarray]
) -> Message:
    """Return a likelihood in which small differences between groups are as in another likelihood.

    Parameters
    ----------
    message : Message
    levels : Message
        The other likelihood.
    prior : Normal
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group.

    Notes
    -----
    Column by column, with c the differences between its groups, the result is the normal likelihood of
    ``p(c) p(phi | c)``, with p(c) from `levels` and p(phi | c) from the message so far.
    """
    wide = prior.times(RIDGE)
    # Differences are taken from here if their squares are at most this many times those of their noise:
    # beyond, the uncertainty of slopes matters more.
    much = 5.0
    for column in (column for rows in lookups for column in rows.T if len(column) >= MANY):
        apart = np.zeros((len(column) - 1, len(message.vector)))
        apart[:, column] = helmert(len(column))
        middle, own = levels.of_some(apart, wide)
        if middle @ own @ middle > much * len(middle):
            continue
        message = message.with_some_of(levels, apart, wide).matched(prior)
    return message
