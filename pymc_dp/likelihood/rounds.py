"""A round: a released score at a point, with draws of its slope, and how far the parameters may be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.mixtures import roots, symmetric

# A prior standard deviation, as a distance: scales and shapes bend over about that.
_PRIOR = 0.6
# Part of a misfit's size that goes in all directions; and at most of what all records can add.
_SIDEWAYS = 0.3
# Where records, on average, pull with a part q of their bound, most of them are clipped, and the slope of the
# score is not that of the way to the parameters: the distance is taken to be at least (q / _PULLED)**2.
_PULLED = 0.2
# No more than this part of the records that tell is taken to pull: the distance is then 19.
_ALL_PULL = 0.95
# Coordinates of those of a record that take what all records see together for their own: scales.
_TAKERS = 2.0
# What the groups of a look-up take has this part of its variance in common.
_IN_COMMON = 0.5
#: Power of the distance with which an earlier score loses its worth.
SHARP = 4
#: Where records pull, on average, with more than this part of their bound, most that tell are clipped, and
#: steps are too short: the search did not arrive.
AT_REST = 0.12
# Of one that did not arrive nothing is known within so many prior standard deviations.
_NOWHERE = 30.0


class Care(NamedTuple):
    """How much is made of what cannot be known from the releases.

    Attributes
    ----------
    misfit : float
        Relative change of a score's slope over a distance of 1.
    bounded : float
        How soon that no longer grows, far away.
    half : float
        Distance from which an earlier score counts half.
    regular : float
        Slopes are expected to be far from singular: their prior density is this power of the determinant.
    pulled : float
        1 where the size of a score counts as a distance (see `Round.pulled`), 0 where it does not: on the way
        it would only slow the walk.
    taken : float
        Part of the squares of what is not known that a scale may take for its own.
    """

    misfit: float
    bounded: float
    half: float
    regular: float
    pulled: float
    taken: float


#: On the way, standing still is worse than going too far; and if earlier scores did not count there, a step
#: would have the noise of one round alone. Then that of the result; and that beside groups, of which what is
#: not known is the sum of many squares: a scale would take it for its own.
WALK = Care(0.4, 1.0, 2.0, 2.0, 0.0, 0.0)
RESULT = Care(0.4, 0.0, 0.9, 0.0, 1.0, 0.35)
OF_GROUPS = Care(0.4, 0.0, 0.7, 0.0, 1.0, 0.35)


@dataclass(eq=False)
class Round:
    """A released score at a point, and what its slope may be.

    Attributes
    ----------
    point : ndarray, shape (p,)
        t.
    metric : ndarray, shape (p, p)
        A.
    score : ndarray, shape (p,)
        Noisy ``A s(t)``.
    noise : float
        Its standard deviation, but for what groups' sum has less: its covariance is a square of it times
        `spread`, shape (p, p).
    bound : float
        Of what one record adds to it.
    slopes : ndarray, shape (m, p, p)
        Draws of ``A J A'``, for minus the slope J of the score.
    volumes : ndarray, shape (m,)
        Logarithms of the determinants of these draws, as far as they differ in more than what groups have in
        common.
    touched : ndarray, shape (p,)
        Records that each coordinate of the metric touches, times the efficiency of the clip: what the
        diagonal of ``A J A'`` is about. Distances are in units of what one record tells.
    prior : ndarray, shape (p,)
        Prior variances of the coordinates of the metric.
    weights : ndarray, shape (m,)
        Posterior ones of the draws.
    records, telling : float
        Their number, or about that: public; and of those that tell nearly all.
    hidden : ndarray of bool, shape (p,)
        Coordinates of the metric of which no count shows how many records they touch.
    distance : float
        From here to the parameters, in units of what one record tells.
    """

    point: np.ndarray
    metric: np.ndarray
    score: np.ndarray
    noise: float
    spread: np.ndarray
    bound: float
    slopes: np.ndarray
    volumes: np.ndarray
    touched: np.ndarray
    prior: np.ndarray
    weights: np.ndarray
    records: float
    telling: float
    hidden: np.ndarray
    distance: float = 0.0

    def __post_init__(self) -> None:
        self._bounded: tuple[Round | None, np.ndarray] = (None, self.slopes)

    @cached_property
    def back(self) -> np.ndarray:
        """Inverse of the metric."""
        return np.linalg.inv(self.metric)

    @cached_property
    def roots(self) -> np.ndarray:
        """Roots of the draws of the slope, shape (m, p, p)."""
        return roots(self.slopes)

    def no_steeper_than(self, last: "Round") -> np.ndarray:
        """Draws of the slope, in no direction steeper than a draw of the last one's.

        Shape (m, p, p). Where the last is steeper they stay: scales may have changed, which divide scores
        here.
        """
        if self._bounded[0] is not last:
            change = self.metric @ np.linalg.inv(last.metric)
            self._bounded = last, _no_steeper(self.slopes, change @ last.roots)
        return self._bounded[1]

    @property
    def noises(self) -> np.ndarray:
        """Covariance of the score's noise, shape (p, p)."""
        return self.noise**2 * self.spread

    @property
    def mean(self) -> np.ndarray:
        """Expected J, shape (p, p)."""
        slopes = np.einsum("k,kij->ij", self.weights, self.slopes)
        return symmetric(self.back @ slopes @ self.back.T)

    def squares(self, spread: np.ndarray) -> np.ndarray:
        """Squared distances that the records of each coordinate see, for each draw: shape (m, p).

        Of parameters that are spread like this around the point, in the metric: what all records see
        together; of a coordinate that few touch what these see; and its prior's.
        """
        whole = np.maximum(np.einsum("kij,ji->k", self.slopes, spread) / self.touched.max(), 0.0)
        own = np.einsum("kii,ii->ki", self.slopes, spread) / self.touched
        return np.maximum(np.maximum(whole[:, None], own), _PRIOR**2 * np.diag(spread) / self.prior)

    @property
    def _pull(self) -> float:
        """Size of the score, of which noise is not a part."""
        square = float(self.score @ np.linalg.solve(self.spread, self.score))
        return math.sqrt(max(square - self.noise**2 * self.score.size, 0.0))

    @property
    def pulling(self) -> float:
        """The size of the score over what all records could pull with."""
        return self._pull / (self.bound * self.records)

    @property
    def is_far(self) -> bool:
        """Whether records pull by more than noise would show: a result from here would say nothing."""
        noise = 2 * math.sqrt(2 * self.score.size) * self.noise**2
        return self._pull**2 > (AT_REST * self.bound * self.records) ** 2 + noise

    @property
    def pulled(self) -> float:
        """Distance that this shows."""
        return (self.pulling / _PULLED) ** 2

    @property
    def saturated(self) -> float:
        """How much of what those that tell could pull with is used, or may be, over what is left of it.

        With all of it the parameters may be anywhere: a count that noise does not tell from zero.
        """
        part = min((self._pull + self.noise) / (self.bound * self.telling), _ALL_PULL)
        return part / (1 - part)

    def adrift(self) -> np.ndarray:
        """Covariance (p, p) of coordinates of which nothing is known: their records still pull.

        It is not known how many touch a hidden one; but a record adds at most the square of its bound to a
        slope, so that there are as many, at least, as that says. Of the score one standard deviation is taken
        for noise.
        """
        least = np.maximum(np.einsum("k,kii->i", self.weights, self.slopes), 1e-300) / self.bound**2
        pull = np.maximum(np.abs(self.score) - self.noise, 0.0) / (self.bound * least)
        rows = self.metric[self.hidden & (pull > AT_REST)]
        rows = _NOWHERE * rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.T @ rows

    def taken(self, spread: np.ndarray, care: Care) -> np.ndarray:
        """How much of each coordinate's score, shape (p,), may be of other coordinates that are not known.

        A scale takes for noise what unknown levels add to squares. Of many coordinates few take anything, and
        it is not known which. A group's coordinate takes what its own records see.

        Parameters
        ----------
        spread : ndarray, shape (p, p)
            Of the parameters around the point, in the metric.
        care : Care
        """
        part = self.touched / self.touched.max()
        own = np.einsum("k,kij,ji->i", self.weights, self.slopes, spread)
        few = min(1.0, math.sqrt(_TAKERS / float(part.sum())))
        return care.taken * np.maximum(own, few * part * max(own.sum(), 0.0))

    def taken_for_other(
        self, mean: np.ndarray, covariance: np.ndarray, care: Care, lookups: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Root R, shape (p, p), of ``R R'``: how far coordinates are off because of what they take, `taken`.

        Every round is off by the same, so that more rounds do not make it smaller. All groups of a look-up
        are off by the same as well: what they differ by is not.

        Parameters
        ----------
        mean : ndarray, shape (p,)
        covariance : ndarray, shape (p, p)
            What is believed of the parameters.
        care : Care
        lookups : sequence of ndarray of int, shape (G, q)
            Coordinates of the metric, of each group.
        """
        away = self.back.T @ (mean - self.point)
        taken = self.taken(np.outer(away, away) + self.back.T @ covariance @ self.back, care)
        columns = np.diag(taken)
        for places in lookups:
            columns[:, places] = 0.0
            for column in places.T:
                columns[column, column[0]] = math.sqrt(_IN_COMMON) * taken[column]
        return self.metric.T @ np.linalg.solve(self.metric @ self.mean @ self.metric.T, columns)

    def length(self, spread: np.ndarray) -> float:
        """Distance of parameters that are spread like this, a matrix in coordinates, around the point."""
        squares = self.squares(self.back.T @ spread @ self.back)
        return math.sqrt(float(self.weights @ squares.max(1)))

    def misfit(self, mean: np.ndarray, covariance: np.ndarray, care: Care) -> np.ndarray:
        """Covariance in the metric of what the score differs by from a linear one, for parameters like these.

        Relatively, each coordinate's goes by the distance that the records which touch it see.
        """
        away = self.back.T @ (mean - self.point)
        spread = np.outer(away, away) + self.back.T @ covariance @ self.back
        shown = max(self.pulled, self.saturated)
        each = np.maximum(self.squares(spread), care.pulled * shown**2)
        self.distance = math.sqrt(float(self.weights @ each.max(1)))
        factor = care.misfit * np.sqrt(each / (1 + care.bounded * each))
        moved = factor[:, :, None] * (self.slopes @ spread @ self.slopes) * factor[:, None, :]
        total = np.einsum("k,kij->ij", self.weights, moved)
        part, most = self.touched / self.touched.max(), self.touched.max()
        sideways = part * _SIDEWAYS * np.trace(total) / part.sum()
        taken = self.taken(spread, care) ** 2
        limit = part * (_SIDEWAYS * self.bound * most) ** 2
        return total + np.diag(np.minimum(np.maximum(sideways, taken), limit))


def _no_steeper(slopes: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Draws of an earlier slope, in no direction steeper than a draw of the last one.

    What noise hides of a slope is positive in all draws: where records say nearly nothing of a direction,
    early rounds would each say the same that is not so. Later metrics see such directions better.

    Parameters
    ----------
    slopes : ndarray, shape (m, p, p)
    last : ndarray, shape (k, p, p)
        Roots of draws of the last slope, in the metric of these.
    """
    root = last[np.arange(len(slopes)) % len(last)]
    back = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(symmetric(back @ slopes @ back.swapaxes(1, 2)))
    if values.max() <= 1:
        return slopes
    half = root @ vectors
    return (half * np.minimum(values, 1.0)[:, None, :]) @ half.swapaxes(1, 2)
