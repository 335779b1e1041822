"""Groups of a look-up: how far their levels are spread, and what their slopes have in common."""

import math
from collections.abc import Sequence

import numpy as np

from pymc_dp.likelihood.information import InCommon, Slope
from pymc_dp.likelihood.mixtures import Mixture, Normal, inverse, symmetric
from pymc_dp.likelihood.overall import Overall
from pymc_dp.likelihood.rounds import OF_GROUPS, RESULT, Care

# Standard deviations that are tried: as many quantiles of the prior's draws of it.
_LEVELS = 8
#: Fewest groups that have one.
FEWEST = 4
# Least standard deviation, over the largest.
_LEAST = 1e-3
# Power of the evidence: slopes are known roughly, and what they are off by is the same for all groups.
_POWER = 0.5
# It is averaged over draws of the slope: ``_ENTRIES / p`` of them, for p coordinates,
_ENTRIES = 800
# at least
_FEWEST_DRAWS = 4
# and at most.
_MOST_DRAWS = 24
# Slopes of groups are like each other but for this relative standard deviation.
_UNLIKE = 0.5
# What they have in common, over what is expected, is no smaller.
_LEAST_LEVEL = 0.2


class Spreads:
    """The prior of a search, with groups' levels as far from each other as releases say.

    A normal prior of levels whose spread is unknown is as wide as the largest spread that may be: noise of
    small groups would be believed. Of each look-up's column the spread is one of some levels, weighed by what
    was released; the prior is the normal one with their mean variance.

    Parameters
    ----------
    prior : Normal
        With its draws, or there is nothing to learn.
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group.
    """

    def __init__(self, prior: Normal, lookups: Sequence[np.ndarray]):
        self._mean, self._covariance = prior.mean, inverse(prior.precision)
        self._columns: list[np.ndarray] = []
        self._levels: list[np.ndarray] = []
        draws = np.zeros((0, len(prior.mean))) if prior.draws is None else prior.draws
        draws = draws[np.isfinite(draws).all(axis=1)]
        for column in (column for rows in lookups for column in rows.T if len(draws)):
            whole = self._covariance[np.ix_(column, column)]
            usual = np.sqrt((np.trace(whole) - whole.sum() / len(column)) / max(len(column) - 1, 1))
            if len(column) >= FEWEST and usual > 0:
                spread = draws[:, column].std(axis=1, ddof=1) / usual
                levels = np.quantile(spread, (np.arange(_LEVELS) + 0.5) / _LEVELS)
                self._columns.append(column)
                self._levels.append(np.maximum(levels, _LEAST * max(float(levels[-1]), _LEAST)))
        self._factors = [1.0] * len(self._columns)
        self._known = self._scaled(self._factors)

    @property
    def prior(self) -> Normal:
        """The normal prior, with spreads as they are believed to be."""
        return self._known

    @property
    def care(self) -> Care:
        """Of the result."""
        return OF_GROUPS if self._columns else RESULT

    def learn(self, mixture: Mixture) -> None:
        """Weigh the levels of each column by what was released."""
        m = int(np.clip(_ENTRIES // len(self._mean), _FEWEST_DRAWS, _MOST_DRAWS))
        some = mixture.part(m)
        for k, levels in enumerate(self._levels):
            tried = [[*self._factors[:k], float(level), *self._factors[k + 1 :]] for level in levels]
            evidence = _POWER * np.array([some.evidence(self._scaled(factors)) for factors in tried])
            weights = np.exp(evidence - evidence.max())
            self._factors[k] = float(np.sqrt(weights @ levels**2 / weights.sum()))
        if self._columns:
            self._known = self._scaled(self._factors)

    def _scaled(self, factors: Sequence[float]) -> Normal:
        """With differences between the groups of each column times a factor."""
        change = np.eye(len(self._mean))
        for column, factor in zip(self._columns, factors, strict=True):
            change[np.ix_(column, column)] -= (1 - factor) * (np.eye(len(column)) - 1 / len(column))
        return Normal(symmetric(inverse(change @ self._covariance @ change.T)), self._mean)


def slopes_alike(
    before: Slope,
    seen: Slope,
    touched: np.ndarray,
    groups: Sequence[np.ndarray],
    overall: Overall,
    first: float,
) -> tuple[Slope, np.ndarray]:
    """What was known of a slope, where what is seen of all groups says what these have in common.

    Each group's own slope is behind its noise, and would be anything that is positive.

    Parameters
    ----------
    before, seen : Slope
    touched : ndarray, shape (p,)
        What the slopes' diagonal is expected to be.
    groups : sequence of ndarray of int
        Coordinates of the metric, of each look-up.
    overall : Overall
    first : float
        Relative change, since it was known, of what they have in common.

    Returns
    -------
    Slope
    common : ndarray, shape (p,)
        Relative error of what they have in common.
    """
    mean, variance, common = before.mean.copy(), before.variance.copy(), np.zeros(len(touched))
    for places in groups:
        total = float(touched[places].sum())
        old = float(np.diag(mean)[places].sum()) / total
        now = float(np.diag(seen.mean)[places].sum()) / total
        noise = overall.in_sum(places) * float(np.diag(seen.variance)[places].sum())
        error = math.sqrt(noise) / total
        expected = first * max(old, 1.0)
        part = expected**2 / (expected**2 + error**2)
        level = max(old + part * (now - old), _LEAST_LEVEL)
        if old > _LEAST_LEVEL * level:
            roots = np.ones(len(touched))
            roots[places] = math.sqrt(level / old)
            mean *= np.outer(roots, roots)
        else:
            mean[places, places] = level * touched[places]
        most = (_UNLIKE * level * touched[places]) ** 2
        variance[places, places] = np.minimum(variance[places, places], most)
        common[places] = min(math.sqrt(part) * error / level, 1.0)
    return Slope(before.metric, mean, variance), common


class Alike:
    """How look-ups' groups go with other coordinates, on average: what is known of it, round by round.

    A covariate is, on average, alike in all groups: beside a look-up's coordinates a column of the slope is
    about a number times the units that they touch. Each entry is behind its noise; the number is less so, and
    it decides how well the level of all groups is told from the covariate's effect.

    Parameters
    ----------
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of the metric, of each group.
    sums : sequence of ndarray of int
        Coordinates whose entries the graph shows: see `Places.alike`.
    size : int
        p.
    overall : Overall

    Attributes
    ----------
    known : ndarray, shape (p, p)
        Weight of such a number in the metric: nearly 1 where it is known.
    """

    def __init__(
        self,
        lookups: Sequence[np.ndarray],
        sums: Sequence[np.ndarray],
        size: int,
        overall: Overall,
    ):
        self.known = np.ones((size, size))
        self._columns: list[tuple[np.ndarray, np.ndarray]] = []
        for rows in lookups:
            others = np.setdiff1d(np.arange(size), rows)
            for one in sums:
                others = np.setdiff1d(others, one) if np.isin(rows, one).any() else others
            self._columns += [(column, others) for column in rows.T]
        self._shared = [overall.shared(column) for column, _ in self._columns]
        self._variances = [np.zeros(len(others)) for _, others in self._columns]

    def learn(
        self, before: Slope, seen: Slope, touched: np.ndarray, change: float
    ) -> tuple[Slope, list[InCommon]]:
        """What was known of a slope, with what is seen of all groups together; and what is not known of that.

        Parameters
        ----------
        before, seen : Slope
        touched : ndarray, shape (p,)
            What the slopes' diagonal is expected to be.
        change : float
            Of such a number, since it was known.
        """
        mean, variance, unknown = before.mean.copy(), before.variance.copy(), []
        for k, (column, others) in enumerate(self._columns):
            beside, units = np.ix_(column, others), touched[column][:, None]
            noise = seen.variance[beside]
            together = self._shared[k] * noise
            alone = 1 / (before.variance[beside] + noise + together)
            within = units * alone
            within = within + alone * together * within.sum(0) / (1 - (together * alone).sum(0))
            found = (within * units).sum(0)
            # Where a covariate is zero but for a part q of units, and about 1 there, its mean is at most q;
            # counts are noisy.
            most_mean = np.minimum(2 * touched[others] / touched[column].sum(), 1.0)
            precision = 1 / (self._variances[k] + (change * most_mean) ** 2) + found
            self.known[beside] = found / precision
            mean[beside] += units * (within * (seen.mean[beside] - mean[beside])).sum(0) / precision
            unlike = _unlike(seen.mean[beside] / units, noise / units**2, before.variance[beside] / units**2)
            most = unlike * units**2
            number = (within * mean[beside]).sum(0) / found
            part = most / (most + before.variance[beside])
            mean[beside] = units * number + part * (mean[beside] - units * number)
            variance[beside] = np.minimum(before.variance[beside], most)
            variance[np.ix_(others, column)] = variance[beside].T
            mean[np.ix_(others, column)] = mean[beside].T
            self._variances[k] = 1 / precision
            unknown.append(InCommon(column, others, units * np.sqrt(self._variances[k])))
        return before._replace(mean=mean, variance=variance), unknown


def _unlike(seen: np.ndarray, noise: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """How far groups are from each other beside each of r other coordinates: variances, shape (r,).

    As noise of what is seen of them leaves it, and its error.

    Parameters
    ----------
    seen, noise, prior : ndarray, shape (G, r)
    """
    weights = 1 / (prior + noise)
    apart = seen - (weights * seen).sum(0) / weights.sum(0)
    weights = weights**2
    square = (weights * (apart**2 - noise)).sum(0) + 2 * np.sqrt((weights**2 * noise**2).sum(0))
    return np.maximum(square, 0.0) / weights.sum(0)


def with_common_factors(slopes: np.ndarray, common: np.ndarray) -> np.ndarray:
    """Draws of slopes, shape (m, p, p), with what groups have in common as uncertain as it is."""
    rng = np.random.default_rng(2)
    shifts = rng.normal(size=len(slopes))
    roots = np.exp(0.5 * common * shifts[:, None])
    return slopes * roots[:, :, None] * roots[:, None, :]
