"""Scores of some rows, for any outcomes of theirs."""

from collections.abc import Callable, Sequence, Set
from functools import cache
from itertools import batched

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar.basic import GE, GT, LE, LT
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.records.predictors import WithData
from pymc_dp.records.sums import guarded


class ScoresAt:
    """Scores of some rows, or of persons with effects, for any outcomes.

    At each of several points a score counts by the likelihood there: this is the derivative of the
    logarithm of the mean of the likelihoods, where all points move together.

    Parameters
    ----------
    each : callable
        Of a number of copies of the rows, one after the other. Gives a list of callables, one for each point:
        from outcomes of these rows to their scores, and to log-densities where these are wanted.
    pieces
        See `pymc_dp.records.twins.TermScores`.
    m : int
        Number of rows.
    count : int
        Number of outcomes, if all are taken.
    dtype : str
        Of outcomes.

    Notes
    -----
    **Privacy.** Numbers of a row (a person) are functions of its own data, of the points and of its outcomes.
    A point at which a density is not a number counts nothing; where all are, the score is not a number. No
    warning tells of it, whoever asks.
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
        """Scores, shape (G, m, k), and log-densities, (G, m), where these are wanted; of persons, one each.

        Parameters
        ----------
        outcomes : sequence of sequence of ndarray
            Those of all rows, G times. As many are worked on at once as have `most` rows together.
        most : int
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
        total = np.sum(weights, 0)
        score = np.zeros_like(each[0][0])
        for weight, (own, _) in zip(weights, each, strict=True):
            score += np.where(weight[:, None] > 0, own, 0.0) * (weight / total)[:, None]
        score[~(total > 0)] = np.nan
        return [score, highest + np.log(total / len(each))]

    @np.errstate(all="ignore")
    def all_outcomes(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores of all outcomes, and their probabilities; NaN where these do not add up to 1."""
        scores, densities = self([[np.full(self._m, y, dtype=self._dtype)] for y in range(self._count)], most)
        weights = np.exp(densities)
        total = np.sum(weights, 0)
        bad = ~(np.abs(total - 1) <= 1e-6)
        weights /= np.where(bad, 1.0, total)
        weights[:, bad] = np.nan
        return scores, weights


def repeated(values: np.ndarray, axis: int, copies: int) -> np.ndarray:
    """Give rows several times, one copy after the other."""
    return values if copies == 1 else np.concatenate([values] * copies, axis=axis)


@np.errstate(all="ignore")
def pull_back(group: np.ndarray, density: np.ndarray, outcomes: Sequence[Sequence[np.ndarray]]) -> None:
    """Give a record that cannot be, at these parameters, the score of the twin that is nearest to it.

    Outside of the support of its distribution an outcome has a derivative of zero, or none: nothing would
    tell of it, and a search whose parameters exclude records would stay. At the truth there are none. This
    is for a support that moves (`bounds_outcomes`): what no parameters allow, as a lognormal outcome of zero,
    would pull at the truth as well.

    Parameters
    ----------
    group : ndarray, shape (1 + K, m, k)
        Scores of records and of their twins; changed in place.
    density : ndarray, shape (m,)
        Log-densities of the records.
    outcomes : sequence of sequence of ndarray
        Of records and of their twins, m each of every observed variable.

    Notes
    -----
    **Privacy.** What a record adds is a function of its own outcomes and twins, and bounded later.
    """
    off = np.flatnonzero(np.isneginf(density))
    if not off.size:
        return
    flat = [np.concatenate([np.reshape(y, (len(y), -1))[off] for y in each], axis=1) for each in outcomes]
    away = np.sum(np.square(np.array(flat[1:], dtype=float) - flat[0]), axis=2)
    known = np.isfinite(away).all(axis=0)
    group[0, off[known]] = group[1 + np.argmin(away[:, known], axis=0), off[known]]


def bounds_outcomes(terms: Sequence[Variable], places: Sequence[Variable], parameters: Set[Variable]) -> bool:
    """Whether log-densities compare outcomes with parameters, as where the support has a bound that moves."""
    for node in toposort(list(terms)):
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, GT | GE | LT | LE):
            read = set(ancestors(node.inputs))
            if not read.isdisjoint(places) and not read.isdisjoint(parameters):
                return True
    return False
