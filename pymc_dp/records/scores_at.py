"""Scores of some rows, with any outcomes in the place of the recorded ones."""

from collections.abc import Callable, Sequence, Set
from functools import cache
from itertools import batched

import numpy as np
from pytensor.graph import Variable, ancestors
from pytensor.graph.traversal import toposort
from pytensor.scalar import GE, GT, LE, LT
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.records.predictors import WithData
from pymc_dp.records.sums import guarded
from pymc_dp.records.vector_math import add_in_order


class ScoresAt:
    """Scores of some rows, or of persons with effects, for any outcomes.

    With several points, a score is the mean of the points' scores with their likelihoods as weights: the
    derivative of the logarithm of the mean likelihood by a common shift of all points.

    Parameters
    ----------
    each : callable
        Takes a number of copies of the rows, one after the other. Returns a list of callables, one for each
        point: from outcomes of the copies to their scores, and to log-densities where these are wanted.
    pieces
        See `pymc_dp.records.twins.TermScores`.
    m : int
        Number of rows.
    count : int
        Number of possible outcomes, if all are taken.
    dtype : str
        Type of outcomes.

    Notes
    -----
    **Privacy.** The numbers of a row (a person) are functions of its own data, of the points and of its
    outcomes. A point at which the density is not a number has weight zero; if that is so at all points, the
    score is not a number. No warning is shown.
    """

    def __init__(
        self,
        each: Callable[[int], list[Callable[..., list[np.ndarray]]]],
        pieces: list[WithData] | None,
        m: int,
        count: int,
        dtype: str,
    ):
        self._each, self.pieces, self._count, self._dtype = cache(each), pieces, count, dtype
        self._m = m

    def __call__(self, outcomes: Sequence[Sequence[np.ndarray]], most: int) -> list[np.ndarray]:
        """Compute scores, shape (G, m, k), and log-densities, (G, m), where these are wanted.

        With effects, m is the number of persons.

        Parameters
        ----------
        outcomes : sequence of sequence of ndarray
            G times the outcomes of all rows.
        most : int
            Most rows, copies for several outcomes included, that are worked on at once.
        """
        parts = []
        for some in batched(outcomes, max(most // max(self._m, 1), 1)):
            rows = some[0] if len(some) == 1 else [np.concatenate(one) for one in zip(*some, strict=True)]
            found = self._of_copies(len(some), rows)
            parts.append([one.reshape((len(some), -1, *one.shape[1:])) for one in found])
        return parts[0] if len(parts) == 1 else [np.concatenate(one) for one in zip(*parts, strict=True)]

    @np.errstate(all="ignore")
    def _of_copies(self, copies: int, outcomes: Sequence[np.ndarray]) -> list[np.ndarray]:
        each = [guarded(at, *outcomes) for at in self._each(copies)]
        if len(each) == 1:
            return each[0]
        densities = np.array([density for _, density in each])
        highest = np.max(np.where(np.isfinite(densities), densities, -np.inf), 0)
        weights = np.exp(densities - highest)
        weights[~(weights > 0)] = 0.0
        total = add_in_order(weights)
        score = np.zeros_like(each[0][0])
        for weight, (own, _) in zip(weights, each, strict=True):
            score += np.where(weight[:, None] > 0, own, 0.0) * (weight / total)[:, None]
        score[~(total > 0)] = np.nan
        return [score, highest + np.log(total / len(each))]

    @np.errstate(all="ignore")
    def all_outcomes(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute scores of all possible outcomes, and their probabilities; NaN if these do not sum to 1."""
        scores, densities = self([[np.full(self._m, y, dtype=self._dtype)] for y in range(self._count)], most)
        weights = np.exp(densities)
        total = add_in_order(weights)
        bad = ~(np.abs(total - 1) <= 1e-6)
        weights /= np.where(bad, 1.0, total)
        weights[:, bad] = np.nan
        return scores, weights


def repeated(values: np.ndarray, axis: int, copies: int) -> np.ndarray:
    """Repeat rows, one copy after the other."""
    return values if copies == 1 else np.concatenate([values] * copies, axis=axis)


@np.errstate(all="ignore")
def pull_back(group: np.ndarray, density: np.ndarray, outcomes: Sequence[Sequence[np.ndarray]]) -> None:
    """Replace the score of a record that is impossible at these parameters by that of its nearest twin.

    An outcome outside of the support has a derivative of zero, or none. Such records would not contribute,
    and a search at parameters that exclude records would not move. At the true parameters there are no such
    records. This is only for a support that depends on parameters (`bounds_outcomes`): outcomes that are
    impossible at all parameters, such as a lognormal outcome of zero, would contribute at the true parameters
    as well.

    Parameters
    ----------
    group : ndarray, shape (1 + K, m, k)
        Scores of records and of their twins; changed in place.
    density : ndarray, shape (m,)
        Log-densities of the records.
    outcomes : sequence of sequence of ndarray
        Outcomes of records and of their twins: for each an array of length m per observed variable.

    Notes
    -----
    **Privacy.** What a record adds is a function of its own outcomes and twins, and is bounded later.
    """
    off = np.flatnonzero(np.isneginf(density))
    if not off.size:
        return
    flat = [np.concatenate([np.reshape(y, (len(y), -1))[off] for y in each], axis=1) for each in outcomes]
    away = np.sum(np.square(np.array(flat[1:], dtype=float) - flat[0]), axis=2)
    known = np.isfinite(away).all(axis=0)
    group[0, off[known]] = group[1 + np.argmin(away[:, known], axis=0), off[known]]


def bounds_outcomes(terms: Sequence[Variable], places: Sequence[Variable], parameters: Set[Variable]) -> bool:
    """Return whether log-densities compare outcomes with parameters: the support may depend on these."""
    for node in toposort(list(terms)):
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, GT | GE | LT | LE):
            read = set(ancestors(node.inputs))
            if not read.isdisjoint(places) and not read.isdisjoint(parameters):
                return True
    return False
