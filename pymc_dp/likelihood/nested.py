"""Look-ups within another: levels of schools beside those of their classes, of which records see the sum.

``a[school] + b[class]``, where a class is in one school, tells no more of a school than of its classes: along
what is added to a school and taken from all its classes records say nothing. The graph does not show that:
codes are of records. A believed slope is zero in such a direction but for its errors, and what these do to a
score would be taken for what is told.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from pymc_dp.likelihood.information import Slope
from pymc_dp.likelihood.mixtures import Message

# A group's own information is at least this part of the mean of all.
_LEAST = 0.2
# Of a group's records in a single place: shares that are no nesting, each as likely.
_SHARES = 0.0, 0.2, 0.4, 0.6
# A direction's information is zero below this part of the largest.
_ROUNDING = 1e-12


def without_nested(
    message: Message, seen: Slope, sums: Sequence[Sequence[tuple[int, np.ndarray]]]
) -> Message:
    """What a likelihood says if nothing is known along directions that no record seems to see.

    Its maximum stays where it is; information is never more than it was.

    Parameters
    ----------
    message : Message
    seen : Slope
        As released in the last round, in the coordinates of the message.
    sums : sequence of sequence of tuple
        See `Shapes.sums`; -1 for what is none of the coordinates.
    """
    found = [_nested(seen, one, other) for whole in sums for one in whole for other in whole]
    directions = np.hstack([np.zeros((len(message.vector), 0)), *found])
    told = message.information @ directions
    values, vectors = np.linalg.eigh(directions.T @ told)
    some = values > _ROUNDING * np.abs(np.diag(message.information)).max(initial=0.0)
    taken = told @ vectors[:, some] / np.sqrt(values[some])
    mean = np.linalg.lstsq(message.information, message.vector)[0] if taken.size else message.vector
    information = message.information - taken @ taken.T
    return Message(information, information @ mean) if taken.size else message


def _nested(seen: Slope, fine: tuple[int, np.ndarray], coarse: tuple[int, np.ndarray]) -> np.ndarray:
    """Directions, shape (p, groups of `coarse`), if each group of `fine` is in one of these; else (p, 0).

    A group with n records, of which a part q_h is in group h of the other look-up, has n beside itself and
    ``n q_h`` beside that. It is asked how likely it is, given the noise, that all of a group is in one place,
    which may be any: beside shares of less that are there, and else where groups are on average.
    """
    (sign, groups), (other, within) = fine, coarse
    some_left, groups, within = bool((within < 0).any()), groups[groups >= 0], within[within >= 0]
    nothing = np.zeros((len(seen.mean), 0))
    if not 1 < len(within) < len(groups) or np.isin(groups, within).any():
        return nothing
    beside = np.ix_(groups, within)
    own, part = np.diag(seen.mean)[groups], np.maximum(np.diag(seen.mean)[within], 0.0)
    own = np.maximum(own, _LEAST * max(own.mean(), 1e-300))[:, None]
    both, noise = sign * other * seen.mean[beside], seen.variance[beside]
    parts = part / own.sum()
    chances = np.append(parts, max(1 - parts.sum(), 0.0) if some_left else 0.0)

    def each(share: float) -> np.ndarray:
        """Minus log-likelihoods of each group's place, or of none, with this share of its records there."""
        rest, there = both - (1 - share) * own * parts, share * own
        none = 0.5 * (rest**2 / noise).sum(1, keepdims=True)
        return np.hstack([none + (0.5 * there**2 - there * rest) / noise, none])

    with np.errstate(divide="ignore"):
        known = [logsumexp(np.log(chances) - each(share), axis=1).sum() for share in (*_SHARES, 1.0)]
    if known[-1] < logsumexp(known[:-1]) - np.log(len(_SHARES)):
        return nothing
    chosen = np.where(chances > 0, each(1.0), np.inf).argmin(1)
    # Each coarse group has one within it: where one has nearly all records, all seem to be within that.
    if len(np.unique(chosen[chosen < len(within)])) < len(within):
        return nothing
    directions = np.zeros((len(seen.mean), len(within)))
    directions[within, np.arange(len(within))] = other
    told = chosen < len(within)
    directions[groups[told], chosen[told]] = -sign
    return directions
