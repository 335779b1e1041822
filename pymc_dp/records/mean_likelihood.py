"""Scores of the mean of records' likelihoods at some points, where parameters may be any of these."""

from collections.abc import Sequence

import numpy as np

from pymc_dp.records.chunks import sums
from pymc_dp.records.outcome_scores import OutcomeScores

# How far the probabilities of all outcomes may be from adding up to 1.
_SUM = 1e-6


class MeanLikelihood:
    """Scores of some units, for any outcomes.

    At each point a unit's score counts by its likelihood there: this is the derivative of the logarithm of
    the mean, where all points move together.

    Parameters
    ----------
    scores : OutcomeScores
    points : ndarray, shape (q, p)
    data : sequence of ndarray
        Of these rows, for each of the model's roots.
    m : int
        Number of rows.
    first : ndarray of int, or None
        Where the rows of each unit begin; None: each is a unit.
    finite : bool
        Whether log-densities are wanted of one point as well.

    Attributes
    ----------
    positions, pieces
        See `pymc_dp.records.twins.TermScores`.

    Notes
    -----
    **Privacy.** Unit i's numbers are functions of its own rows, of the points and of its outcomes. A point at
    which a density is not a number counts nothing; where all are, the score is not a number. No warning tells
    of it, whoever asks.
    """

    def __init__(
        self,
        scores: OutcomeScores,
        points: np.ndarray,
        data: Sequence[np.ndarray],
        m: int,
        first: np.ndarray | None,
        finite: bool,
    ):
        dense = finite or len(points) > 1
        self._each = [scores.at(point, data, m, dense) for point in points]
        self._scores, self._first = scores, first
        self.positions, self.pieces = self._each[0].positions, self._each[0].pieces

    @np.errstate(all="ignore")
    def __call__(self, outcomes: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Scores, shape (m, k), and log-densities, (m,), where these are wanted."""
        each = [[sums(part, self._first) for part in at(outcomes)] for at in self._each]
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
    def all_outcomes(self, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores of all outcomes, and their probabilities; NaN where these do not add up to 1."""
        outcomes = range(self._scores.count or 0)
        found = [self([np.full(m, y, dtype=self._scores.dtype)]) for y in outcomes]
        weights = np.exp(np.array([density for _, density in found]))
        total = np.sum(weights, 0)
        bad = ~(np.abs(total - 1) <= _SUM)
        weights /= np.where(bad, 1.0, total)
        weights[:, bad] = np.nan
        return np.array([score for score, _ in found]), weights
