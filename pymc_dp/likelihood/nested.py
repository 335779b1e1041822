"""Nested look-ups: of the levels of schools and of their classes records see only the sum.

With ``a[school] + b[class]``, where each class is in one school, records have no information about what is
added to a school and taken from all its classes. The graph does not show this, since codes belong to records.
A believed slope is zero in such a direction but for its errors, and the effect of these errors on a score
would be taken for information.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from pymc_dp.likelihood.information import Slope
from pymc_dp.likelihood.mixtures import Message

# Parts of a group's records that may be in a single group of the other look-up if it is not nested, all
# equally likely.
_SHARES = 0.0, 0.2, 0.4, 0.6
# Information about a direction counts as zero below this part of the largest about a coordinate.
_ROUNDING = 1e-12


def without_nested(
    message: Message, seen: Sequence[Slope], sums: Sequence[Sequence[tuple[int, np.ndarray]]]
) -> Message:
    """Remove the information of a likelihood about directions that no record seems to see.

    Its maximum is not changed, and the information is never larger than before.

    Parameters
    ----------
    message : Message
    seen : sequence of Slope
        Released slopes of all rounds, in the coordinates of the message.
    sums : sequence of sequence of tuple
        See `Shapes.sums`; -1 stands for a level that is none of the coordinates.
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
    """Return directions (p, groups of `coarse`) if each group of `fine` seems to be within one; else (p, 0).

    Given the noise of all rounds, the hypothesis that all records of a group are in one place, which may be
    any, is compared with those of smaller parts there, the others being placed like all records.
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
    # Look-ups are taken to cross, not to be nested, if that is e to this power times as likely.
    shown = 5.0
    if not known[-1] >= logsumexp(known[:-1]) - np.log(len(_SHARES)) - shown:
        return nothing
    chosen = np.where(chances > 0, likely[-1], -np.inf).argmax(1)
    # Each coarse group needs one within it. Where one has nearly all records, all seem to be within that.
    if len(np.unique(chosen[chosen < len(within)])) < len(within):
        return nothing
    directions = np.zeros((size, len(within)))
    directions[within, np.arange(len(within))] = other
    told = chosen < len(within)
    directions[groups[told], chosen[told]] = -sign
    return directions


def _pooled(seen: Sequence[Slope], groups: np.ndarray, within: np.ndarray) -> Slope:
    """Return the mean of all rounds' slopes, each over its groups' mean and weighted by its precision."""
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
    """Return log-likelihoods, shape (parts, G, H + 1), and the parts of all records in each place, (H,).

    They are by the part of a group's records that is in one place; by group; and by place, the last one for
    none. If a part q_h of a group's n records is in group h of the other look-up, the slope of the group is n
    on the diagonal and ``n q_h`` beside h.
    """
    beside = np.ix_(groups, within)
    own, part = np.diag(seen.mean)[groups], np.maximum(np.diag(seen.mean)[within], 0.0)
    # A group's own information is taken to be at least this part of the mean of all groups.
    least = 0.2
    own = np.maximum(own, least * max(own.mean(), 1e-300))[:, None]
    both, noise, parts = sign * seen.mean[beside], seen.variance[beside], part / own.sum()
    unsure = np.diag(seen.variance)[groups][:, None]
    found = []
    for share in (*_SHARES, 1.0):
        rest, there, more = both - (1 - share) * own * parts, share * own, noise + share**2 * unsure
        none = -0.5 * (rest**2 / noise).sum(1, keepdims=True)
        placed = 0.5 * (rest**2 / noise - (rest - there) ** 2 / more - np.log(more / noise))
        found.append(np.hstack([none + placed, none]))
    return np.array(found), parts
