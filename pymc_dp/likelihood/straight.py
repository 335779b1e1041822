"""What groups differ by: of all scores together, each with the mean of its slope.

Few draws of a slope of many groups cannot tell which of them is right. And noise that is overstated, to be on
the safe side, is not safe here: levels that are nearer to each other than their noise is said to be are taken
for equal, and their spread for zero. So noise is said as it is. What all groups have in common is another
thing: signals are strong there, and that slopes change on the way counts for more than noise
(`learnt.believed`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import eigh, helmert

from pymc_dp.likelihood.groups import FEWEST
from pymc_dp.likelihood.mixtures import RIDGE, Message, Mixture, Normal, inverse, symmetric
from pymc_dp.likelihood.rounds import OF_GROUPS, SHARP, Round

# Where squares of what groups differ by are so many times what noise makes of them, slopes count for more.
_MUCH = 5.0
# What groups differ by is told by one minus this power of the part of the prior variance that is left.
_HIDDEN = 1.5
# Part of the mean prior variance that is added to each: reference levels are constants, and have none.
_CONSTANT = 1e-10
# Fewer groups are known like other coordinates: little depends on how their spread is told.
_MANY = 10


def believed_of_groups(
    rounds: Sequence[Round], mean: np.ndarray, covariance: np.ndarray, lookups: Sequence[np.ndarray]
) -> Mixture:
    """Likelihood of all scores: one normal one.

    Parameters
    ----------
    rounds : sequence of Round
        Their distances are renewed.
    mean : ndarray, shape (p,)
    covariance : ndarray, shape (p, p)
        What is believed of the parameters: misfits go by it.
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of the metric, of each group.

    Notes
    -----
    With score ``z_r = S_r (phi - t_r) + e_r`` and ``I_r = S_r' N_r^-1 S_r``, N_r the covariance of e_r, it is
    the estimate ``(sum w I)^-1 sum w S' N^-1 (z + S t)`` with its own covariance,
    ``(sum w I)^-1 (sum w^2 I) (sum w I)^-1``: weights w of earlier rounds that were far from the parameters
    are small.
    """
    size = len(mean)
    weighted, noise, vector = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    for one in rounds:
        middle = at_mean_slope(one)
        more = _over_all_groups(_not_noise(one, middle, mean, covariance), one.touched, lookups)
        slope = middle.slopes[0] @ one.back.T
        within = slope.T @ inverse(one.noises + more)
        weight = 1.0 if one is rounds[-1] else 1 / (1 + (one.distance / OF_GROUPS.half) ** SHARP)
        information = symmetric(within @ slope)
        weighted += weight * information
        noise += weight**2 * information
        vector += weight * (within @ one.score + information @ one.point)
    back = inverse(weighted)
    found = inverse(symmetric(back @ noise @ back))
    return Mixture(found[None], (found @ (back @ vector))[None], np.ones(1))


def at_mean_slope(one: Round) -> Round:
    """The same round, as if its slope were known: the mean of its draws."""
    mean = np.einsum("k,kij->ij", one.weights, one.slopes)[None]
    return replace(one, slopes=mean, volumes=one.volumes[:1], weights=np.ones(1))


def _not_noise(one: Round, middle: Round, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Covariance (p, p) of what is not known of a score beside its noise: its misfit, and that of its slope.

    With the same round at the mean of its slopes; the distance is that of this one.
    """
    misfit = middle.misfit(mean, covariance, OF_GROUPS)
    one.distance = middle.distance
    apart = one.slopes - middle.slopes
    moved = np.einsum("kij,j->ki", apart, one.back.T @ (mean - one.point))
    unknown = np.diag(one.back.T @ covariance @ one.back)
    own = np.einsum("k,kij,j->i", one.weights, apart**2, unknown)
    return misfit + np.einsum("k,ki,kj->ij", one.weights, moved, moved) + np.diag(own)


def _over_all_groups(
    covariance: np.ndarray, touched: np.ndarray, lookups: Sequence[np.ndarray]
) -> np.ndarray:
    """What groups' scores may be off by, each like the others with as many records.

    It is reckoned from where a group's level seems to be: one that seems far from the others would be less
    certain than one that seems near, and count less where the spread of all of them is asked for, which would
    be found too small. So it is the mean over all permutations of groups, in units of what touches each.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
    touched : ndarray, shape (p,)
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of the metric, of each group.
    """
    units = np.outer(touched, touched)
    found = covariance / units
    for places in lookups:
        found = _permuted(found, places)
    return symmetric(found * units)


def _permuted(covariance: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Mean of a covariance over all permutations of groups, with their coordinates in these rows."""
    number, size = places.shape
    if number < 2:
        return covariance
    found, flat = covariance.copy(), places.ravel()
    rest = np.setdiff1d(np.arange(len(covariance)), flat)
    blocks = covariance[np.ix_(flat, flat)].reshape(number, size, number, size)
    own = np.einsum("gigj->ij", blocks)
    other = (blocks.sum((0, 2)) - own) / (number * (number - 1))
    mean = np.kron(np.eye(number), own / number - other) + np.tile(other, (number, number))
    found[np.ix_(flat, flat)] = mean
    beside = covariance[np.ix_(rest, flat)].reshape(len(rest), number, size).mean(1)
    found[np.ix_(rest, flat)] = np.tile(beside, (1, number))
    found[np.ix_(flat, rest)] = found[np.ix_(rest, flat)].T
    return found


def without_hidden_differences(message: Message, prior: Normal, lookups: Sequence[np.ndarray]) -> Message:
    """A likelihood that says the less of what groups differ by the less of it is known.

    Parameters
    ----------
    message : Message
    prior : Normal
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group.

    Notes
    -----
    Take combinations of what groups differ by that are independent of each other under the prior and under
    the likelihood, and let r be the part of the prior variance of one that the likelihood leaves. The result
    at c is the given likelihood at ``m + (1 - r^1.5)(c - m)``, where m is the prior's mean of it.
    """
    change = np.eye(len(message.vector))
    before, after = inverse(prior.precision), inverse(prior.precision + message.information)
    for column in (column for rows in lookups for column in rows.T if len(column) >= FEWEST):
        apart, at = helmert(len(column)), np.ix_(column, column)
        whole = apart @ before[at] @ apart.T
        whole += _CONSTANT * np.trace(whole) / len(whole) * np.eye(len(whole))
        left, axes = eigh(apart @ after[at] @ apart.T, whole)
        change[at] -= apart.T @ whole @ (axes * np.clip(left, 0.0, 1.0) ** _HIDDEN) @ axes.T @ apart
    information = symmetric(change.T @ message.information @ change)
    score = change.T @ (message.vector - message.information @ prior.mean)
    return Message(information, score + information @ prior.mean)


def with_differences(
    message: Message, levels: Message, prior: Normal, lookups: Sequence[np.ndarray]
) -> Message:
    """One likelihood, in which what groups differ by is as another one has it, where that is little.

    Parameters
    ----------
    message, levels : Message
    prior : Normal
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group.

    Notes
    -----
    With c what the groups of a column differ by, the normal density of ``p(c) p(phi | c)``, with the first
    from `levels` and the second from what `message` has become: column by column.
    """
    wide = prior.times(RIDGE)
    for column in (column for rows in lookups for column in rows.T if len(column) >= _MANY):
        apart = np.zeros((len(column) - 1, len(message.vector)))
        apart[:, column] = helmert(len(column))
        middle, own = levels.of_some(apart, wide)
        if middle @ own @ middle > _MUCH * len(middle):
            continue
        message = message.with_some_of(levels, apart, wide).matched(prior)
    return message
