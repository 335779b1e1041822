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
    ``n q_h`` beside that. It is asked which q is likelier, given the noise: one that is the same for all
    groups, or for each of them one that is 1 in a single place, which may be any.
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
    alike = 0.5 * ((both - own * parts) ** 2 / noise).sum()
    # Of each place in turn: what all others have beside zero, and it beside 1; and of none of them.
    none = 0.5 * (both**2 / noise).sum(1, keepdims=True)
    each = np.hstack([none + (0.5 * own**2 - own * both) / noise, none])
    chances = np.append(parts, max(1 - parts.sum(), 0.0) if some_left else 0.0)
    with np.errstate(divide="ignore"):
        single = -logsumexp(np.log(chances) - each, axis=1).sum()
    if single >= alike:
        return nothing
    chosen = np.where(chances > 0, each, np.inf).argmin(1)
    directions = np.zeros((len(seen.mean), len(within)))
    directions[within, np.arange(len(within))] = other
    known = chosen < len(within)
    directions[groups[known], chosen[known]] = -sign
    return directions
