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
# That groups cross is shown by a likelihood of e to this power of that for nesting.
_SHOWN = 5.0
# A direction's information is zero below this part of the largest.
_ROUNDING = 1e-12


def without_nested(
    message: Message, seen: Sequence[Slope], sums: Sequence[Sequence[tuple[int, np.ndarray]]]
) -> Message:
    """What a likelihood says if nothing is known along directions that no record seems to see.

    Its maximum stays where it is; information is never more than it was.

    Parameters
    ----------
    message : Message
    seen : sequence of Slope
        As released in all rounds, in the coordinates of the message.
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


def _nested(
    seen: Sequence[Slope], fine: tuple[int, np.ndarray], coarse: tuple[int, np.ndarray]
) -> np.ndarray:
    """Directions, shape (p, groups of `coarse`), if each group of `fine` is in one of these; else (p, 0).

    It is asked how likely it is, given the noise of all rounds, that all of a group is in one place, which
    may be any: beside shares of less that are there, and else where groups are on average.
    """
    (sign, groups), (other, within), size = fine, coarse, len(seen[0].mean)
    some_left, groups, within = bool((within < 0).any()), groups[groups >= 0], within[within >= 0]
    nothing = np.zeros((size, 0))
    if not 1 < len(within) < len(groups) or np.isin(groups, within).any():
        return nothing
    likely, parts = _log_likelihoods(_pooled(seen, groups, within), groups, within, sign * other)
    chances = np.append(parts, max(1 - parts.sum(), 0.0) if some_left else 0.0)
    with np.errstate(divide="ignore"):
        known = logsumexp(np.log(chances) + likely, axis=2).sum(1)
    if not known[-1] >= logsumexp(known[:-1]) - np.log(len(_SHARES)) - _SHOWN:
        return nothing
    chosen = np.where(chances > 0, likely[-1], -np.inf).argmax(1)
    # Each coarse group has one within it: where one has nearly all records, all seem to be within that.
    if len(np.unique(chosen[chosen < len(within)])) < len(within):
        return nothing
    directions = np.zeros((size, len(within)))
    directions[within, np.arange(len(within))] = other
    told = chosen < len(within)
    directions[groups[told], chosen[told]] = -sign
    return directions


def _pooled(seen: Sequence[Slope], groups: np.ndarray, within: np.ndarray) -> Slope:
    """All rounds' slopes in one: each over what groups tell on average there, by its noise."""
    beside = np.ix_(groups, within)
    told = np.array([np.diag(one.mean)[groups].mean() for one in seen])
    noise = np.array([np.median(one.variance[beside]) for one in seen])
    weights = np.maximum(told, _ROUNDING * np.abs(told).max()) / noise
    total = float(weights @ told)
    mean = np.einsum("k,kij->ij", weights / total, [one.mean for one in seen])
    variance = np.einsum("k,kij->ij", (weights / total) ** 2, [one.variance for one in seen])
    return Slope(seen[0].metric, mean, variance)


def _log_likelihoods(
    seen: Slope, groups: np.ndarray, within: np.ndarray, sign: int
) -> tuple[np.ndarray, np.ndarray]:
    """Of each share and each group's place, or of none: shape (shares, G, H + 1). And parts of all, (H,).

    A group with n records, of which a part q_h is in group h of the other look-up, has n beside itself and
    ``n q_h`` beside that.
    """
    beside = np.ix_(groups, within)
    own, part = np.diag(seen.mean)[groups], np.maximum(np.diag(seen.mean)[within], 0.0)
    own = np.maximum(own, _LEAST * max(own.mean(), 1e-300))[:, None]
    both, noise, parts = sign * seen.mean[beside], seen.variance[beside], part / own.sum()
    unsure = np.diag(seen.variance)[groups][:, None]
    found = []
    for share in (*_SHARES, 1.0):
        rest, there, more = both - (1 - share) * own * parts, share * own, noise + share**2 * unsure
        none = -0.5 * (rest**2 / noise).sum(1, keepdims=True)
        placed = 0.5 * (rest**2 / noise - (rest - there) ** 2 / more - np.log(more / noise))
        found.append(np.hstack([none + placed, none]))
    return np.array(found), parts
