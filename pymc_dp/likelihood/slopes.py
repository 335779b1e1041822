"""Beliefs about the slope of scores, round by round: from counts, earlier rounds, and what groups share."""

import math
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood import information
from pymc_dp.likelihood.brackets import pulls_of
from pymc_dp.likelihood.efficiency import Efficiency
from pymc_dp.likelihood.groups import Alike, Diagonal, with_common_factors
from pymc_dp.likelihood.information import DRIFT, Slope
from pymc_dp.likelihood.metric import ByGroup, Places
from pymc_dp.likelihood.rounds import AT_REST
from pymc_dp.likelihood.score_sizes import Counted

# Standard deviation of an entry beside a slope's diagonal before its release, over the number of records that
# touch both coordinates.
_CORRELATED = 0.25


class Drawn(NamedTuple):
    """Draws of a slope.

    Attributes
    ----------
    slopes : ndarray, shape (m, p, p)
        Slopes of clipped scores, in the metric.
    volumes : ndarray, shape (m,)
        Logarithms of their determinants, before the multiplication by what groups have in common.
    sizes : ndarray, shape (2, p)
        Mean and standard deviation of the diagonal's entries, where counts do not show how many records touch
        a coordinate; elsewhere the latter are zero.
    errors : ndarray, shape (p, p)
        Standard deviations of the noise of the released slope's entries.
    """

    slopes: np.ndarray
    volumes: np.ndarray
    sizes: np.ndarray
    errors: np.ndarray


class Slopes:
    """Beliefs about the slope of unclipped scores, carried from one point to the next.

    With about a thousand records slopes are hidden by noise. A metric that follows the noise makes some
    scores so large that hardly anything is left of them after clipping; the slope of clipped scores seems
    small, and the next metric makes them larger still. So counts limit how far beliefs go.

    Parameters
    ----------
    places : Places
    n : float
        Number of units, at least approximately.
    most : int
        Largest number of coordinates that a unit touches.
    counted : Counted
        Counted sizes of scores.

    Attributes
    ----------
    counted : ndarray, shape (p, p)
        Information of the records, as far as counts and the graph show it.
    touched, number : ndarray, shape (p,)
        Number of units that touch each coordinate of the metric: at least the noise of counts, and as it is
        on average (`Counted`).
    expected : ndarray, shape (p, p)
        Expected slope, in the metric of the last round.
    released : list of Slope
        Released slope of each round, over what clipping leaves of it.
    """

    def __init__(self, places: Places, n: float, most: int, counted: Counted):
        touched = counted.touched
        self._places, self._n, self._most, self._shown = places, n, most, touched > 0
        number, own = (
            np.where(self._shown, np.clip(each, 1.0, n), places.hidden(n))
            for each in (touched, counted.number)
        )
        self.touched, self._touched, self.number = number[places.order], number, own[places.order]
        self._own, self._own_error = own, counted.number_error
        # Slopes that numbers of records show: those of look-ups whose groups have scores of about one size.
        self._by_counts = self._shown & counted.alike
        self._alone = ~self._shown & (places.hidden(n) >= n)  # of a look-up, other groups show it
        # Relative errors of counts that are sums of about four octaves; 1 if some coordinate is not shown:
        # its scores may be so large that clipping leaves nothing of the others.
        off = np.minimum(2 * counted.noise / number, 1.0) if touched.all() else np.ones(len(number))
        # Standard deviation of an entry on a slope's diagonal before its release, as counts of octaves show
        # it, over the number of records that touch the coordinate.
        of_counts = 0.35
        self._errors = np.hypot(of_counts, off)
        self.counted = self.expected = places.information(counted.information, touched, n)
        self._slope: Slope | None = None
        self.released: list[Slope] = []
        # A row with at most this many entries is short. In a longer one, let r be the ratio of this to its
        # entries. The standard deviation beside the diagonal is multiplied by r, unless the first slope shows
        # larger entries: eigenvalues of a matrix vary with all its entries together. All variances are
        # multiplied by 1 + r^2, with r = 1 in a short row: entries are taken to be independent, but where
        # signals are strong, slopes have errors in one direction, that of the parameters.
        entries_of = 3.0
        self._few = min(1.0, entries_of / places.entries(self.touched))
        self._beside, self._diagonal, self._alike = 1.0, Diagonal(places), Alike(places)

    @property
    def sure(self) -> np.ndarray:
        """Factors of single groups' entries in a metric, shape (p, p): see `Alike.known`."""
        return self._alike.known

    @property
    def hidden(self) -> np.ndarray:
        """Coordinates of the metric, shape (p,), that counts do not show; those of look-ups are left out."""
        return self._alone[self._places.order]

    @property
    def least(self) -> np.ndarray:
        """Lower limit of each coordinate's information in a metric, shape (p,).

        A coordinate that few records touch seems to have little information once they are clipped, and a
        metric made of that would make their scores larger still. So where counts do not show a coordinate,
        the limit is what they can hide; in look-ups of which they show all groups together, a part of that.
        Else it is zero.
        """
        # Least information of a group in a metric, over what counts show: more records than it has, as far as
        # noise hides them, would make the scores of those that it has larger and larger.
        least_of_groups = 0.25
        part = np.where(self._alone, 1.0, np.where(self._by_counts, least_of_groups, 0.0))
        return part * np.diag(self.counted)

    def count_again(self, counted: Counted) -> None:
        """Scale the counted information as counts at another point show: one factor for all coordinates.

        Where groups' scores there have different sizes, their slopes are no longer expected by numbers of
        records.
        """
        self._by_counts = self._by_counts & counted.alike
        self.counted = self.counted * counted.over(self.counted, self._shown & (counted.touched > 0))[0]

    def scale(self, factor: float) -> None:
        """Multiply what is believed of the slope by a factor by which counts differ from it."""
        if self._slope is not None:
            self._slope = self._slope._replace(metric=self._slope.metric / math.sqrt(factor))

    def draw(
        self,
        seen: ByGroup,
        metric: np.ndarray,
        held: np.ndarray,
        efficiency: Efficiency,
        bound: float,
        largest: float,
        moved: float,
        since: float,
    ) -> Drawn:
        """Update beliefs by a released slope, and draw from them.

        Parameters
        ----------
        seen : ByGroup
        metric : ndarray, shape (p, p)
        held : ndarray, shape (p, p)
            Information that is added in directions that no record sees (`identified.py`).
        efficiency : Efficiency
            Part of the slope that clipping leaves.
        bound : float
            Clipping bound of what one record adds to the score.
        largest : float
            Upper bound of the trace of a slope of clipped scores.
        moved : float
            Distance from the point of the last round.
        since : float
            Distance from the point where sizes were counted.
        """
        # Standard deviation of entries, over the number of records, if the last round was at the same point.
        alike = 0.04
        first, drift = self._slope is None, alike + DRIFT * min(moved, 1.0)
        change = (drift * np.minimum.outer(self.touched, self.touched)) ** 2
        both = np.where(np.eye(len(metric)) > 0, 1.0, 0.5)
        here = Slope(metric, seen.comparison.slope / efficiency.slope, seen.variance / efficiency.slope**2)
        self.released.append(here)
        if first:
            self._beside = self._correlated(here)
        most = bound * self.number
        noises = seen.comparison.score_noise * np.sqrt(np.diag(self._places.overall.spread))
        before = self._before(metric, drift, since)
        before = before._replace(variance=(1 + self._few**2) * before.variance)
        root = metric * np.sqrt(self._own / self._touched)
        expected = np.where(
            self._by_counts[self._places.order], np.diag(root @ self.counted @ root.T), self.touched
        )
        before = self._diagonal.learn(
            before, here, expected, 1.0 if first else DRIFT + min(moved, 1.0), change
        )
        # Standard deviation of what all groups have in common beside the diagonal, before the first release.
        unreleased = 0.5
        before, in_common = self._alike.learn(before, here, self.touched, unreleased if first else drift)
        now, together = before.and_also(here.mean, here.variance), self._places.together
        now = self._slope = now._replace(mean=together * now.mean, variance=together * now.variance)
        errors = expected * (self._own_error / self._own)[self._places.order]
        near = pulls_of(seen.comparison.score / most, noises / most) <= AT_REST
        now = self._diagonal.within(now, expected, errors, near)
        self.expected = now.mean
        noise = efficiency.slope * np.sqrt(now.variance / both)
        shared = [one.times(efficiency.slope) for one in in_common]
        known = efficiency.slope * metric @ held @ metric.T
        largest += float(np.trace(known))
        drawn = information.draws(efficiency.slope * now.mean + known, noise, largest, together, shared)
        drawn = self._places.possible(drawn - known, metric, self._most) + known
        # Part of the mean diagonal that is added to draws, which empty groups may leave singular.
        ridge = 1e-7
        drawn += ridge * np.trace(drawn, axis1=1, axis2=2).mean() / len(metric) * np.eye(len(metric))
        volumes = np.linalg.slogdet(drawn)[1]
        slopes = with_common_factors(drawn, self._diagonal.error_of_level)
        hidden = (self._alone | (self._own_error > 0))[self._places.order]
        mean, deviation = np.diag(now.mean), hidden * np.sqrt(np.diag(now.variance))
        sizes = np.array([efficiency.slope * mean + np.diag(known), efficiency.slope * deviation])
        return Drawn(slopes, volumes, sizes, np.sqrt(seen.variance))

    def _before(self, metric: np.ndarray, drift: float, since: float) -> Slope:
        """Return what is known before a slope is released: from the last round, and from counts."""
        diagonal, beside = np.eye(len(metric)) > 0, self._beside
        both = np.minimum.outer(self.touched, self.touched)
        errors = np.where(diagonal, self._errors[self._places.order], beside * _CORRELATED)
        if self._slope is None:
            return Slope(metric, metric @ self.counted @ metric.T, (errors * both) ** 2)
        last = self._slope.seen_in(metric)
        last = last._replace(variance=last.variance + (np.where(diagonal, 1.0, beside) * drift * both) ** 2)
        number = self._touched
        both = np.minimum.outer(number, number) / np.sqrt(np.outer(number, number))
        if not self._places.shown.any():  # no look-ups: each coordinate has many records
            return last
        # Standard deviation of a correlation of scores about which nothing is known.
        anything = 0.5
        errors = both * np.where(self._places.shown, beside * _CORRELATED, anything)
        errors[diagonal] = self._errors + DRIFT * min(since, 1.0)
        shown = np.outer(self._shown, self._shown)
        sizes = np.sqrt(np.where(self._shown, np.diag(self.counted), number))
        # Relative error of the slope of a coordinate that counts do not show: nothing is known.
        unknown = 1e6
        errors = np.where(shown, errors, unknown) * np.outer(sizes, sizes)
        return last.within(Slope(np.eye(len(metric)), self.counted, errors**2).seen_in(metric))

    def _correlated(self, here: Slope) -> float:
        """Return the typical correlation of scores in a released slope, over `_CORRELATED`, at most 1.

        Between independent covariates it is small; as eigenvalues vary with all entries together, it matters.
        An intercept beside dummies has large ones. With look-ups it is not estimated: there the graph and
        counts show correlations.
        """
        if self._places.lookups:
            return self._few
        some = (self._places.together > 0) & ~np.eye(len(here.mean), dtype=bool)
        both = np.minimum.outer(self.touched, self.touched)[some]
        apart = (here.mean - here.metric @ self.counted @ here.metric.T)[some] / both
        noise = here.variance[some] / both**2
        weights = 1 / (_CORRELATED**2 + noise) ** 2
        square = weights @ (apart**2 - noise) + 2 * math.sqrt(weights**2 @ noise**2)  # with its error
        root = math.sqrt(max(square / max(weights.sum(), 1e-300), 0.0))
        return float(np.clip(root / _CORRELATED, self._few, 1.0))
