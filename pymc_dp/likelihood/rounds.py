"""A round: a released score at a point, with draws of its slope; and what a search finds in all of them.

Distances are in standard errors of one record: ``t + d`` is at the distance ``sqrt(d' J d / n)`` from t, with
the slope J of the score of n records.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.mixtures import Message, no_steeper, roots, symmetric

# If the sum of scores is a part q of the largest that the records can reach, most of them are clipped, and
# the slope at the point is not that between the point and the parameters: these are taken to be at least at
# the distance (q / _PULLED)**2.
_PULLED = 0.2
#: A coordinate clearly pulls beyond this many standard deviations of its score's noise, and beyond `AT_REST`.
CLEARLY = 3.0
#: With at least this many groups some seem to be far away by noise alone. Little depends on how differences
#: between fewer are found.
MANY = 10
#: If the sum of scores is more than this part of the largest that the records can reach, most informative
#: records are clipped, and steps are too short: the search did not converge.
AT_REST = 0.12


class Allowances(NamedTuple):
    """How much allowance is made for errors that the releases do not show.

    Attributes
    ----------
    misfit : float
        Relative change of a score's slope over a distance of 1.
    bounded : float
        How soon this change stops growing with the squared distance; with 0 it never does.
    half : float
        Distance at which an earlier score counts half.
    regular : float
        Power of a slope's determinant in its prior density: nearly singular slopes are unlikely.
    pulled : float
        1 if the size of a score is evidence of distance (see `Round.pulled`), 0 if not: during the search it
        would only slow it down.
    taken : float
        Part of the squares of unknown deviations that a scale may absorb.
    """

    misfit: float
    bounded: float
    half: float
    regular: float
    pulled: float
    taken: float


#: During the search: standing still is worse than going too far, and if earlier scores did not count, a step
#: would have the noise of one round alone.
WALK = Allowances(0.4, 1.0, 2.0, 2.0, 0.0, 0.0)
#: For the result.
RESULT = Allowances(0.4, 0.0, 0.9, 0.0, 1.0, 0.35)
#: For the result if there are groups: what is unknown of these is a sum of many squares, which a scale would
#: absorb.
OF_GROUPS = Allowances(0.4, 0.0, 0.7, 0.0, 1.0, 0.35)


@dataclass(eq=False)
class Round:
    """A released score at a point t, and beliefs about its slope J, minus its derivative by the parameters.

    Attributes
    ----------
    point : ndarray, shape (p,)
        t.
    metric : ndarray, shape (p, p)
        A.
    score : ndarray, shape (p,)
        Noisy ``A s(t)``.
    noise : float
        Standard deviation of its noise, but for the sum of all groups, which has less: the covariance is
        ``noise**2 * spread``.
    spread : ndarray, shape (p, p)
    bound : float
        Clipping bound of what one record adds to the score.
    slopes : ndarray, shape (m, p, p)
        Draws of ``A J A'``.
    volumes : ndarray, shape (m,)
        Logarithms of the determinants of these draws, before they were multiplied by what groups have in
        common.
    sizes : ndarray, shape (2, p)
        Mean and standard deviation of the diagonal of ``A J A'`` where noise hides how many records touch a
        coordinate; elsewhere the latter are zero.
    errors : ndarray, shape (p, p)
        Standard deviations of the noise of the slope's entries, as it was released.
    touched : ndarray, shape (p,)
        Number of records that each coordinate of the metric touches, times the efficiency of the clipping:
        about the diagonal of ``A J A'``.
    prior : ndarray, shape (p,)
        Prior variances of the coordinates of the metric.
    weights : ndarray, shape (m,)
        Posterior weights of the draws.
    records : float
        Number of records, at least approximately: public.
    effective : float
        The same times the efficiency of the clipping: `touched` of a coordinate that all records touch.
    reachable : float
        Largest sum of scores that the records can reach, over `bound`, as far as it was seen (`largest_sum`).
    hidden : ndarray of bool, shape (p,)
        Coordinates of the metric for which no count shows how many records they touch.
    most : ndarray, shape (p,)
        Largest sum of scores that the records which touch a coordinate of the metric can reach.
    groups : sequence of ndarray of int, shape (G, q)
        Coordinates of the metric that belong to each group, of each look-up.
    distances : ndarray, shape (p,)
        Distance to the parameters that the records see which touch a coordinate of the metric, as `misfit`
        found it.
    doubt : float
        What information from earlier rounds was divided by, as this score was surprising given these.
    """

    point: np.ndarray
    metric: np.ndarray
    score: np.ndarray
    noise: float
    spread: np.ndarray
    bound: float
    slopes: np.ndarray
    volumes: np.ndarray
    sizes: np.ndarray
    errors: np.ndarray
    touched: np.ndarray
    prior: np.ndarray
    weights: np.ndarray
    records: float
    effective: float
    reachable: float
    hidden: np.ndarray
    most: np.ndarray
    groups: Sequence[np.ndarray] = ()

    doubt: float = 1.0

    def __post_init__(self) -> None:
        self.distances = np.zeros(len(self.point))
        self._bounded: tuple[Round | None, np.ndarray] = (None, self.slopes)

    @cached_property
    def back(self) -> np.ndarray:
        """Inverse of the metric, shape (p, p)."""
        return np.linalg.inv(self.metric)

    @cached_property
    def roots(self) -> np.ndarray:
        """Roots of the draws of the slope, shape (m, p, p)."""
        return roots(self.slopes)

    @cached_property
    def _back_roots(self) -> np.ndarray:
        """Inverses of `roots`, shape (m, p, p)."""
        return np.linalg.inv(self.roots)

    def no_steeper_than(self, last: "Round") -> np.ndarray:
        """Return draws of the slope, in no direction steeper than a draw of the last one.

        Shape (m, p, p). Where the last slope is steeper they are not changed: scores are divided by scales,
        which may have changed.
        """
        change, back = self.metric @ last.back, last.metric @ self.back
        return no_steeper(self.slopes, change @ last.roots, last._back_roots @ back)

    def slopes_up_to(self, last: "Round") -> np.ndarray:
        """Return draws of the score's slope by the parameters, no steeper than the last one's: (m, p, p)."""
        if self._bounded[0] is not last:
            slopes = self.slopes if last is self else self.no_steeper_than(last)
            self._bounded = last, slopes @ self.back.T
        return self._bounded[1]

    @property
    def noises(self) -> np.ndarray:
        """Covariance of the score's noise, shape (p, p)."""
        return self.noise**2 * self.spread

    @property
    def mean(self) -> np.ndarray:
        """Expected slope J, shape (p, p)."""
        slopes = np.einsum("k,kij->ij", self.weights, self.slopes)
        return symmetric(self.back @ slopes @ self.back.T)

    def squares(self, spread: np.ndarray) -> np.ndarray:
        """Return squared distances to parameters, by draw and coordinate of the metric: shape (m, p).

        The parameters' second moment around the point, in the metric, is `spread`. Each is the largest of
        three: the mean over all records; the mean over those that touch the coordinate; and the distance by
        the coordinate's prior.
        """
        whole = np.maximum(np.einsum("kij,ji->k", self.slopes, spread) / self.effective, 0.0)
        return np.maximum(whole[:, None], self.own_squares(spread))

    def own_squares(self, spread: np.ndarray) -> np.ndarray:
        """Return each coordinate's own squared distances, arguments and result as those of `squares`.

        Each is the larger of two: the mean over records that touch the coordinate, and the distance by its
        prior.
        """
        own = np.einsum("kii,ii->ki", self.slopes, spread) / self.touched
        # A prior standard deviation is taken to be at least this distance: over about that much the scores of
        # scales and shapes are not linear.
        least_distance = 0.6
        return np.maximum(own, least_distance**2 * np.diag(spread) / self.prior)

    @property
    def _pull(self) -> float:
        """Norm of the score, without what its noise adds on average."""
        square = float(self.score @ np.linalg.solve(self.spread, self.score))
        return math.sqrt(max(square - self.noise**2 * self.score.size, 0.0))

    @property
    def pulling(self) -> float:
        """Norm of the score, over the largest that the records can reach."""
        return self._pull / (self.bound * self.records)

    @property
    def is_far(self) -> bool:
        """Whether the norm is beyond `AT_REST` by more than noise explains: a result would say nothing."""
        noise = 2 * math.sqrt(2 * self.score.size) * self.noise**2
        return self._pull**2 > (AT_REST * self.bound * self.records) ** 2 + noise

    @property
    def pulled(self) -> float:
        """Distance that the norm of the score implies."""
        return (self.pulling / _PULLED) ** 2

    @property
    def parts(self) -> np.ndarray:
        """Each coordinate's score, over the largest sum that its records can reach: shape (p,)."""
        return self.score / self.most

    @property
    def noises_of_parts(self) -> np.ndarray:
        """Standard deviations of the noise of `parts`, shape (p,)."""
        return self.noise * np.sqrt(np.diag(self.spread)) / self.most

    def is_beyond(self, distance: float, pulls: np.ndarray) -> np.ndarray:
        """Return which coordinates are at a larger distance, by that or by pulls of their own: shape (p,)."""
        return np.maximum(self.distances, (pulls / _PULLED) ** 2) >= distance

    @property
    def saturated(self) -> float:
        """Part of the largest possible sum of scores that is reached, or may be with noise, over the rest.

        Where all of it is reached the parameters may be anywhere, as with a count that noise does not
        distinguish from zero.
        """
        # Upper limit of the part of the largest possible sum that counts as reached: the distance is then 19.
        all_pull = 0.95
        part = min((self._pull + self.noise) / (self.bound * self.reachable), all_pull)
        return part / (1 - part)

    def adrift(self, far: np.ndarray) -> np.ndarray:
        """Return the covariance (p, p) of coordinates for which the search did not converge.

        These are those that are `far`, shape (p,), and hidden ones: how many records touch a hidden
        coordinate is not known, but a record adds at most the square of its bound to a slope, which gives a
        lower limit. One standard deviation of the score counts as noise.
        """
        least = np.maximum(np.einsum("k,kii->i", self.weights, self.slopes), 1e-300) / self.bound**2
        pull = np.maximum(np.abs(self.score) - self.noise, 0.0) / (self.bound * least)
        rows = self.metric[far | self.hidden & (pull > AT_REST)]
        # Standard deviation, over the prior's, of a coordinate for which the search did not converge.
        nowhere = 30.0
        rows = nowhere * rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.T @ rows

    def taken(self, spread: np.ndarray, allowances: Allowances) -> np.ndarray:
        """Return how much of each coordinate's score, shape (p,), may be due to errors in other coordinates.

        A scale takes for noise what unknown levels add to squared residuals. Of many coordinates few absorb
        anything, and it is not known which. A group's coordinate absorbs what its own records see. They add
        no more to another score than all of them can reach.

        Parameters
        ----------
        spread : ndarray, shape (p, p)
            Second moment of the parameters around the point, in the metric.
        allowances : Allowances
        """
        part = self.touched / self.effective
        own = allowances.taken * np.einsum("k,kij,ji->i", self.weights, self.slopes, spread)
        own = np.minimum(own, self.most)
        # Number of coordinates, of those that a record touches, that may absorb what all records see: scales.
        takers = 2.0
        few = min(1.0, math.sqrt(takers / float(part.sum())))
        return np.maximum(own, few * part * max(own.sum(), 0.0))

    def taken_for_other(
        self, mean: np.ndarray, covariance: np.ndarray, allowances: Allowances, lookups: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return a root R, shape (p, p), of the covariance ``R R'`` of errors by absorption (see `taken`).

        The error is the same in every round, so that more rounds do not reduce it. It is the same for all
        groups of a look-up as well: differences between groups do not have it.

        Parameters
        ----------
        mean : ndarray, shape (p,)
        covariance : ndarray, shape (p, p)
            Posterior of the parameters.
        allowances : Allowances
        lookups : sequence of ndarray of int, shape (G, q)
            Coordinates of the metric that belong to each group.
        """
        taken = self.taken(self.spread_of(mean, covariance), allowances)
        columns = np.diag(taken)
        # What the groups of a look-up absorb has this part of its variance in common.
        part_in_common = 0.5
        for places in lookups:
            columns[:, places] = 0.0
            for column in places.T:
                columns[column, column[0]] = math.sqrt(part_in_common) * taken[column]
        return self.metric.T @ np.linalg.solve(self.metric @ self.mean @ self.metric.T, columns)

    def counting(self, half: float) -> np.ndarray:
        """Return how much of each coordinate's precision, shape (p,), the score has as an earlier one.

        A group that is far away, or of which little is known, takes nothing from what others are known by.
        But it is not known which of many groups are: each is taken to be as far as most of them are at most.

        Parameters
        ----------
        half : float
            Distance at which it is a half.
        """
        # A distance counts as at least this quantile of all coordinates' distances (of ten: as the largest).
        usual_quantile = 0.9
        usual = np.quantile(self.distances, usual_quantile, method="higher")
        # An earlier score's variance is multiplied by 1 + (distance / `Allowances.half`)**sharp.
        sharp = 4
        return 1 / (1 + (np.maximum(self.distances, usual) / half) ** sharp)

    def length(self, spread: np.ndarray) -> float:
        """Return the distance to parameters with this second moment (p, p) around the point.

        It is the largest of all coordinates. Of many groups, those whose scores do not stand out of their
        noise count by the mean of their squares over records: some always seem to be far away.
        """
        squares = self.squares(self.back.T @ spread @ self.back)
        is_noise = np.abs(self.parts) <= CLEARLY * self.noises_of_parts
        for places in (rows for rows in self.groups if len(rows) >= MANY):
            weights = self.touched[places] / self.touched[places].sum(0)
            mean = (weights * squares[:, places]).sum(1, keepdims=True)
            squares[:, places] = np.where(is_noise[places], mean, squares[:, places])
        return math.sqrt(float(self.weights @ squares.max(1)))

    def spread_of(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Return the second moment of parameters around the point, in the metric, for their posterior."""
        away = self.back.T @ (mean - self.point)
        return np.outer(away, away) + self.back.T @ covariance @ self.back

    def find_distances(self, spread: np.ndarray, allowances: Allowances) -> np.ndarray:
        """Keep distances to parameters with this second moment around the point, in the metric: `distances`.

        Returned are their squares by draw and coordinate, shape (m, p).
        """
        shown = max(self.pulled, self.saturated)
        each = np.maximum(self.squares(spread), allowances.pulled * shown**2)
        self.distances = np.sqrt(self.weights @ each)
        return each

    def misfit(self, mean: np.ndarray, covariance: np.ndarray, allowances: Allowances) -> np.ndarray:
        """Return the covariance, in the metric, of the score's deviation from a linear function.

        The parameters have the posterior with this mean and covariance. Relative to the change of the score,
        each coordinate's deviation grows with the distance that the records which touch it see. Distances
        are kept as `distances`.
        """
        spread = self.spread_of(mean, covariance)
        each = self.find_distances(spread, allowances)
        factor = allowances.misfit * np.sqrt(each / (1 + allowances.bounded * each))
        scaled = (np.sqrt(self.weights)[:, None] * factor)[:, None, :] * (roots(spread).T @ self.slopes)
        scaled = scaled.reshape(-1, len(spread))
        total = scaled.T @ scaled
        part, most = self.touched / self.effective, self.effective
        # Part of a misfit's total variance that is spread over all directions; and upper limit of its
        # standard deviation there, over the largest sum of scores that the records can reach.
        part_sideways = 0.3
        sideways = part * part_sideways * np.trace(total) / part.sum()
        taken = self.taken(spread, allowances) ** 2
        limit = part * (part_sideways * self.bound * most) ** 2
        return total + np.diag(np.minimum(np.maximum(sideways, taken), limit))


class Found(NamedTuple):
    """The result of a search.

    Attributes
    ----------
    point : ndarray, shape (p,)
        Point of the last round; not the posterior mean.
    message : Message
        Normal likelihood of phi.
    rounds : list of Round
        In units of the prior's standard deviations: a round's metric divided by these is the metric of phi.
    shares : list of float
        Shares of the budget: of each count of scales and each round, in their order, without the test of fit.
    information : ndarray, shape (p, p)
        Information that the records would give without privacy, as far as released numbers show: the last
        slope over the part of it that clipping leaves.
    least : ndarray, shape (p, p)
        Lower limit of that information: the message's, times the factor by which noise and clipping of the
        last round would increase the variance with usual scores, made of public numbers.
    one_sided : ndarray, shape (p,)
        Direction in which parameters farther out are as likely as those that the message is about; or zeros.
    """

    point: np.ndarray
    message: Message
    rounds: list[Round]
    shares: list[float]
    information: np.ndarray
    least: np.ndarray
    one_sided: np.ndarray

    @classmethod
    def joined(cls, found: Sequence["Found"]) -> "Found":
        """Combine the results of searches, of which each has zeros for the coordinates of the others."""
        points, messages, rounds, shares, informations, least, one_sided = zip(*found, strict=True)
        return cls(
            np.sum(points, axis=0),
            Message(*(np.sum(each, axis=0) for each in zip(*messages, strict=True))),
            list(chain.from_iterable(rounds)),
            list(chain.from_iterable(shares)),
            np.sum(informations, axis=0),
            np.sum(least, axis=0),
            np.sum(one_sided, axis=0),
        )
