"""Groups of a look-up: the spread of their levels, and what their slopes have in common."""

import math
from collections.abc import Sequence

import numpy as np

from pymc_dp.likelihood.identified import variance_of_levels
from pymc_dp.likelihood.information import InCommon, Slope
from pymc_dp.likelihood.metric import Places
from pymc_dp.likelihood.mixtures import Mixture, Normal, inverse, symmetric
from pymc_dp.likelihood.rounds import OF_GROUPS, RESULT, Allowances

#: Columns of fewer groups than this have no spread that is learnt.
FEWEST = 4
# A group's slope that is farther from the common level than this many standard deviations is its own.
_DIFFERENT = 3.0


class Spreads:
    """The prior of a search, in which the spread of groups' levels is learnt.

    A normal prior of levels with an unknown spread is as wide as the largest spread that is possible: the
    noise of small groups would be taken for differences. So each column of a look-up has a spread that is one
    of several, weighed by their evidence; the prior is the normal one with the mean variance.

    Parameters
    ----------
    prior : Normal
        With its draws: without any, nothing is learnt.
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group.
    """

    def __init__(self, prior: Normal, lookups: Sequence[np.ndarray]):
        self._mean, self._covariance = prior.mean, inverse(prior.precision)
        self._columns: list[np.ndarray] = []
        self._levels: list[np.ndarray] = []
        draws = np.zeros((0, len(prior.mean))) if prior.draws is None else prior.draws
        draws = draws[np.isfinite(draws).all(axis=1)]
        # Number of spreads (standard deviations of levels) that are tried: equally spaced quantiles of the
        # spreads of the prior's draws.
        number = 8
        # Smallest spread that is tried, over the largest.
        least = 1e-3
        for column in (column for rows in lookups for column in rows.T if len(draws)):
            usual = np.sqrt(variance_of_levels(self._covariance, column))
            if len(column) >= FEWEST and usual > 0:
                spread = draws[:, column].std(axis=1, ddof=1) / usual
                levels = np.quantile(spread, (np.arange(number) + 0.5) / number)
                self._columns.append(column)
                self._levels.append(np.maximum(levels, least * max(float(levels[-1]), least)))
        self._factors = [1.0] * len(self._columns)
        self._known = self._scaled(self._factors)

    @property
    def prior(self) -> Normal:
        """The normal prior with the spreads as learnt so far."""
        return self._known

    @property
    def allowances(self) -> Allowances:
        """Allowance for errors in the result, which depends on whether there are groups."""
        return OF_GROUPS if self._columns else RESULT

    def learn(self, mixture: Mixture) -> None:
        """Weigh the possible spreads of each column by their evidence, from a likelihood."""
        # Number of draws of the slope over which the evidence is averaged, times the number of coordinates.
        entries = 800
        # Smallest number of these draws.
        fewest_draws = 4
        # Largest number of these draws.
        most_draws = 24
        m = int(np.clip(entries // len(self._mean), fewest_draws, most_draws))
        some = mixture.part(m)
        # Power of the evidence by which spreads are weighed: slopes are known only roughly, and their errors
        # are the same for all groups.
        power = 0.5
        for k, levels in enumerate(self._levels):
            tried = [[*self._factors[:k], float(level), *self._factors[k + 1 :]] for level in levels]
            evidence = power * np.array([some.evidence(self._scaled(factors)) for factors in tried])
            weights = np.exp(evidence - evidence.max())
            self._factors[k] = float(np.sqrt(weights @ levels**2 / weights.sum()))
        if self._columns:
            self._known = self._scaled(self._factors)

    def _scaled(self, factors: Sequence[float]) -> Normal:
        """Return the prior with the differences between groups of each column multiplied by its factor."""
        change = np.eye(len(self._mean))
        for column, factor in zip(self._columns, factors, strict=True):
            change[np.ix_(column, column)] -= (1 - factor) * (np.eye(len(column)) - 1 / len(column))
        return Normal(symmetric(inverse(change @ self._covariance @ change.T)), self._mean)


class Diagonal:
    """Entries on the slope's diagonal for groups of look-ups: a common level times each group's records.

    A single group's slope is mostly noise, and would be anything that is positive. So it is the level times
    the slope that is expected by counts, as far as groups are alike. How alike they are is seen in all
    releases together: a single one often shows no differences by chance.

    Parameters
    ----------
    places : Places
        Those that are `alike` have a level.

    Attributes
    ----------
    error_of_level : ndarray, shape (p,)
        Standard deviation of the level's error, over the level.
    """

    def __init__(self, places: Places):
        self._groups, self._overall, self._size = places.alike, places.overall, places.size
        self._levels = [1.0] * len(self._groups)
        self._seen: Slope | None = None

    def learn(
        self, before: Slope, seen: Slope, expected: np.ndarray, first: float, change: np.ndarray
    ) -> Slope:
        """Update levels by a release; return the slope known before with these.

        A level is the sum of the slope's diagonal over the groups, divided by the expected sum.

        Parameters
        ----------
        before, seen : Slope
            As known before, and as released.
        expected : ndarray, shape (p,)
            Diagonal of the slope that counts show.
        first : float
            Standard deviation of the level's change since it was known, over the level.
        change : ndarray, shape (p, p)
            Variance of the change of entries since they were known.
        """
        mean, roots, self.error_of_level = before.mean.copy(), np.ones(self._size), np.zeros(self._size)
        # Smallest common level, over the expected one.
        least_level = 0.2
        for k, places in enumerate(self._groups):
            total = float(expected[places].sum())
            old = float(np.diag(mean)[places].sum()) / total
            now = float(np.diag(seen.mean)[places].sum()) / total
            noise = self._overall.in_sum(places) * float(np.diag(seen.variance)[places].sum())
            error = math.sqrt(noise) / total
            likely = first * max(old, 1.0)
            part = likely**2 / (likely**2 + error**2)
            level = self._levels[k] = max(old + part * (now - old), least_level)
            if old > least_level * level:
                roots[places] = math.sqrt(level / old)
            else:
                mean[places, places] = level * expected[places]
            self.error_of_level[places] = min(math.sqrt(part) * error / level, 1.0)
        if self._seen is not None:
            last = self._seen.seen_in(seen.metric)
            seen = last._replace(variance=last.variance + change).and_also(seen.mean, seen.variance)
        self._seen = seen
        return before._replace(mean=mean * np.outer(roots, roots))

    def within(self, slope: Slope, expected: np.ndarray, errors: np.ndarray, near: np.ndarray) -> Slope:
        """Return a slope with the diagonal that groups have as they are alike.

        Parameters
        ----------
        slope : Slope
            As known after the release.
        expected : ndarray, shape (p,)
            As for `learn`.
        errors : ndarray, shape (p,)
            Standard deviation of what counts show.
        near : ndarray of bool, shape (p,)
            Coordinates whose records do not pull with most of what they have: where they do, a group's slope
            is not like those of others.
        """
        mean, variance = slope.mean.copy(), slope.variance.copy()
        # Largest standard deviation of a group's slope around the level of all groups, over that level.
        most_unlike = 0.5
        for places, level in zip(self._groups, self._levels, strict=True):
            most = level**2 * ((most_unlike * expected) ** 2 + errors**2)
            known = np.minimum(np.diag(variance), most)
            some = places[near[places]]
            if self._seen is not None and len(some) >= FEWEST:
                own, noise = np.diag(self._seen.mean)[some], np.diag(self._seen.variance)[some]
                # Around what is common to the same rounds. A group of which nothing is expected for sure,
                # since hardly any record was counted, says little of that.
                known_well = expected[some] / (noise + most[some])
                apart = own - (known_well @ own) / (known_well @ expected[some]) * expected[some]
                # Numbers of records differ by chance: about by their roots.
                unlike = np.maximum(_part_of(most[some], apart, noise) * most[some], expected[some])
                part = noise / (noise + unlike)
                different = np.abs(apart) > _DIFFERENT * np.sqrt(noise + unlike)
                together = part * level * expected[some] + (1 - part) * own
                mean[some, some] = np.where(different, np.diag(mean)[some], together)
                known[some] = np.where(different, np.diag(variance)[some], part * unlike)
            variance[places, places] = known[places]
        return slope._replace(mean=mean, variance=variance)


def _part_of(most: np.ndarray, apart: np.ndarray, noise: np.ndarray) -> float:
    """Return q such that deviations `apart` have the variances ``q * most + noise``; all three of shape (G,).

    It is the posterior mean of q, between 0 and 1, with a uniform prior of its root. Where noise hides the
    deviations, q is that of the prior: a third.
    """
    # Number of variances of groups' slopes that are tried, between zero and the largest.
    number = 40
    parts = ((np.arange(number) + 0.5) / number) ** 2
    variances = noise + parts[:, None] * most
    density = -0.5 * (np.log(variances) + apart**2 / variances).sum(1)
    weights = np.exp(density - density.max())
    return float(weights @ parts / weights.sum())


class Alike:
    """Entries of the slope between groups of look-ups and other coordinates, as far as groups are alike.

    A covariate has, on average, the same values in all groups: then these entries are, for each covariate, a
    number times the units that each group touches. A single entry is mostly noise, but the number is not; it
    decides how well the level of all groups can be separated from the effect of the covariate.

    Parameters
    ----------
    places : Places
        Between those that are `alike` the graph shows the entries.

    Attributes
    ----------
    known : ndarray, shape (p, p)
        For each entry, the part of its number's precision that the releases give: a metric multiplies what
        single groups differ in by it.
    """

    def __init__(self, places: Places):
        self.known = np.ones((places.size, places.size))
        self._columns: list[tuple[np.ndarray, np.ndarray]] = []
        for rows in places.lookups:
            with_rows = [one for one in places.alike if np.isin(rows, one).any()]
            others = np.setdiff1d(np.arange(places.size), np.concatenate(with_rows))
            self._columns += [(column, others) for column in rows.T]
        self._shared = [places.overall.shared(column) for column, _ in self._columns]
        self._variances = [np.zeros(len(others)) for _, others in self._columns]

    def learn(
        self, before: Slope, seen: Slope, touched: np.ndarray, change: float
    ) -> tuple[Slope, list[InCommon]]:
        """Update the numbers by a release; return the slope known before with them, and their errors.

        Parameters
        ----------
        before : Slope
            As known before.
        seen : Slope
            As released.
        touched : ndarray, shape (p,)
            Expected diagonal of the slope.
        change : float
            Standard deviation of a number's change since it was known, over the largest likely number.
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
            # If a covariate is about 1 for a part q of the units, and 0 for others, its mean is at most q.
            # Twice that is allowed, since counts are noisy.
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
    """Return the variance of entries between groups, for each of r other coordinates: shape (r,).

    This is the weighted variance of what was released, less that of its noise, plus an allowance for error.

    Parameters
    ----------
    seen : ndarray, shape (G, r)
        Released entries, per unit.
    noise : ndarray, shape (G, r)
        Variances of their noise.
    prior : ndarray, shape (G, r)
        Variances that were expected.
    """
    weights = 1 / (prior + noise)
    apart = seen - (weights * seen).sum(0) / weights.sum(0)
    weights = weights**2
    square = (weights * (apart**2 - noise)).sum(0) + 2 * np.sqrt((weights**2 * noise**2).sum(0))
    return np.maximum(square, 0.0) / weights.sum(0)


def with_common_factors(slopes: np.ndarray, common: np.ndarray) -> np.ndarray:
    """Multiply draws of slopes, shape (m, p, p), by factors with the relative errors of common levels."""
    rng = np.random.default_rng(2)
    shifts = rng.normal(size=len(slopes))
    roots = np.exp(0.5 * common * shifts[:, None])
    return slopes * roots[:, :, None] * roots[:, None, :]
