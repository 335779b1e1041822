"""What is known of the slope of scores, round by round: by counts, by rounds before, by what groups share."""

import math
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood import information
from pymc_dp.likelihood.efficiency import Efficiency
from pymc_dp.likelihood.groups import Alike, slopes_alike, with_common_factors
from pymc_dp.likelihood.information import DRIFT, Slope
from pymc_dp.likelihood.metric import Places
from pymc_dp.likelihood.octaves import Counted
from pymc_dp.likelihood.overall import Apart

# Relative standard deviation of a slope before it is released, of what records can tell of two coordinates
# together: on its diagonal, from counts of octaves;
_OF_COUNTS = 0.35
# beside the diagonal;
_CORRELATED = 0.25
# and where an earlier round was at the same point.
_ALIKE = 0.04
# A row of so many entries is short. In a longer one what is not known beside the diagonal is less, by their
# ratio, unless a first slope shows more: eigenvalues of a matrix differ by all its entries together. In a
# short one all of it counts twice, in a longer one less: entries are taken for independent, but where
# signals are strong, slopes are off in one direction, that of the parameters.
_ENTRIES_OF = 3.0
# Of their mean diagonal, added to draws: of a group that is empty they may be singular.
_RIDGE = 1e-7
# A correlation of scores of which nothing is known.
_ANY = 0.5
# The same of what all groups have in common beside the diagonal.
_IN_COMMON = 0.5
# Relative error of the slope of a coordinate whose count does not stand out: nothing is known of it.
_UNKNOWN = 1e6


class Drawn(NamedTuple):
    """Draws of a slope.

    Attributes
    ----------
    slopes : ndarray, shape (m, p, p)
        In the metric, of clipped scores.
    volumes : ndarray, shape (m,)
        Logarithms of their determinants, but for what groups have in common.
    """

    slopes: np.ndarray
    volumes: np.ndarray


class Slopes:
    """Beliefs of the slope of unclipped scores, from one point to the next.

    Noise hides slopes of a thousand records. A metric that goes by what noise shows makes some scores so
    large that they are clipped to nothing, and a slope that is clipped seems small, so that the next makes
    them larger. What counts say bounds how far a belief goes.

    Parameters
    ----------
    places : Places
    n : float
        Number of units, or about that.
    most : int
        Coordinates that a unit touches.
    counted : Counted
        Sizes of scores.

    Attributes
    ----------
    counted : ndarray, shape (p, p)
        What records tell, as far as counts and the graph show it.
    touched : ndarray, shape (p,)
        Units that each coordinate of the metric touches.
    expected : ndarray, shape (p, p)
        In the metric of the last round.
    released : list of Slope
        Of unclipped scores, of each round.
    """

    def __init__(self, places: Places, n: float, most: int, counted: Counted):
        touched = counted.touched
        self._places, self._n, self._most, self._told = places, n, most, touched > 0
        number = np.where(self._told, np.clip(touched, 1.0, n), places.hidden(n))
        self.touched, self._number = number[places.order], number
        self._alone = ~self._told & (places.hidden(n) >= n)  # of no look-up, whose others would show them
        # What counts are off by, where about four octaves are added up. Scores of hidden coordinates may be
        # so large that a clip leaves nothing of the others.
        off = np.minimum(2 * counted.noise / number, 1.0) if touched.all() else np.ones(len(number))
        self._errors = np.hypot(_OF_COUNTS, off)
        self.counted = self.expected = places.information(counted.information, touched, n)
        self._slope: Slope | None = None
        self.released: list[Slope] = []
        self._few = min(1.0, _ENTRIES_OF / places.entries(self.touched))
        self._beside = 1.0
        self._alike = Alike(places.lookups, places.alike, len(number), places.overall)

    @property
    def sure(self) -> np.ndarray:
        """How far a metric may go by each entry, shape (p, p)."""
        return self._alike.known

    @property
    def hidden(self) -> np.ndarray:
        """Coordinates of the metric whose count does not stand out, shape (p,); none within look-ups."""
        return self._alone[self._places.order]

    @property
    def least(self) -> np.ndarray:
        """What a metric takes each coordinate's information to be at least, shape (p,).

        Zero where a count shows it, and within look-ups. A coordinate that few records touch seems to tell
        little once they are clipped, and a metric that goes by that would make their scores larger still.
        """
        return np.where(self._alone, np.diag(self.counted), 0.0)

    def count_again(self, counted: Counted) -> None:
        """Learn from counts at another point how much all of it has changed: of each they know less."""
        self.counted = self.counted * counted.over(self.counted, self._told & (counted.touched > 0))[0]

    def scale(self, factor: float) -> None:
        """Scale what is believed, where counts differ from it by this factor."""
        if self._slope is not None:
            self._slope = self._slope._replace(metric=self._slope.metric / math.sqrt(factor))

    def draw(
        self,
        seen: Apart,
        metric: np.ndarray,
        held: np.ndarray,
        left: Efficiency,
        largest: float,
        moved: float,
        since: float,
    ) -> Drawn:
        """Learn from a released slope, and draw what may be behind it.

        Parameters
        ----------
        seen : Apart
        metric, held : ndarray, shape (p, p)
            And the information about what no record sees (`seen.py`).
        left : Efficiency
            What the clip leaves.
        largest : float
            Bound of the trace of a clipped slope.
        moved, since : float
            Distances from the point of the last round, and from where sizes were counted.
        """
        first, drift = self._slope is None, _ALIKE + DRIFT * min(moved, 1.0)
        both = np.where(np.eye(len(metric)) > 0, 1.0, 0.5)
        here = Slope(metric, seen.seen.slope / left.slope, seen.variance / left.slope**2)
        self.released.append(here)
        if first:
            self._beside = self._correlated(here)
        before = self._before(metric, drift, since)
        before = before._replace(variance=(1 + self._few**2) * before.variance)
        before, common = slopes_alike(
            before,
            here,
            self.touched,
            self._places.alike,
            self._places.overall,
            1.0 if first else DRIFT + min(moved, 1.0),
        )
        before, in_common = self._alike.learn(before, here, self.touched, _IN_COMMON if first else drift)
        now, together = before.and_also(here.mean, here.variance), self._places.together
        now = self._slope = now._replace(mean=together * now.mean, variance=together * now.variance)
        self.expected = now.mean
        noise = left.slope * np.sqrt(now.variance / both)
        shared = [one.times(left.slope) for one in in_common]
        known = left.slope * metric @ held @ metric.T
        largest += float(np.trace(known))
        drawn = information.draws(left.slope * now.mean + known, noise, largest, together, shared)
        drawn = self._places.possible(drawn - known, metric, self._most) + known
        drawn += _RIDGE * np.trace(drawn, axis1=1, axis2=2).mean() / len(metric) * np.eye(len(metric))
        return Drawn(with_common_factors(drawn, common), np.linalg.slogdet(drawn)[1])

    def _before(self, metric: np.ndarray, drift: float, since: float) -> Slope:
        """What is known before a slope is released: from the last round, and by counts."""
        diagonal, beside = np.eye(len(metric)) > 0, self._beside
        both = np.minimum.outer(self.touched, self.touched)
        errors = np.where(diagonal, self._errors[self._places.order], beside * _CORRELATED)
        if self._slope is None:
            return Slope(metric, metric @ self.counted @ metric.T, (errors * both) ** 2)
        last = self._slope.seen_in(metric)
        last = last._replace(variance=last.variance + (np.where(diagonal, 1.0, beside) * drift * both) ** 2)
        number = self._number
        both = np.minimum.outer(number, number) / np.sqrt(np.outer(number, number))
        if not self._places.shown.any():  # coordinates of which each has many records
            return last
        errors = both * np.where(self._places.shown, beside * _CORRELATED, _ANY)
        errors[diagonal] = self._errors + DRIFT * min(since, 1.0)
        told = np.outer(self._told, self._told)
        sizes = np.sqrt(np.where(self._told, np.diag(self.counted), number))
        errors = np.where(told, errors, _UNKNOWN) * np.outer(sizes, sizes)
        return last.within(Slope(np.eye(len(metric)), self.counted, errors**2).seen_in(metric))

    def _correlated(self, here: Slope) -> float:
        """How large correlations of scores may be, over `_CORRELATED`, as a released slope shows of them all.

        Of covariates that are independent it is little: eigenvalues of a matrix differ by all its entries
        together. An intercept beside dummies has large ones. Beside look-ups the graph and counts show them.
        """
        if self._places.lookups:
            return self._few
        some = (self._places.together > 0) & ~np.eye(len(here.mean), dtype=bool)
        both = np.minimum.outer(self.touched, self.touched)[some]
        apart = (here.mean - here.metric @ self.counted @ here.metric.T)[some] / both
        noise = here.variance[some] / both**2
        weights = 1 / (_CORRELATED**2 + noise) ** 2
        square = weights @ (apart**2 - noise) + 2 * math.sqrt(weights**2 @ noise**2)  # and its error
        root = math.sqrt(max(square / max(weights.sum(), 1e-300), 0.0))
        return float(np.clip(root / _CORRELATED, self._few, 1.0))
