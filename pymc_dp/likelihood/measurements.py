"""The noisy sums of a round: what each sum is, its sensitivity to one record, and its noise."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pymc_dp.likelihood.comparisons import SCORE_GRID, SLOPE_GRID, VARIANCE_WEIGHT, Bounds, Totals
from pymc_dp.likelihood.fit import Spread
from pymc_dp.likelihood.score_sizes import Scales
from pymc_dp.likelihood.sources import Units
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian


class Shapes(Protocol):
    """Public facts about the scores of records.

    Attributes
    ----------
    size : int
        p, the number of likelihood coordinates.
    touched : int
        Most coordinates in which the score of a unit can differ from zero.
    rank : int
        Most predictors of a record.
    """

    size: int
    touched: int
    rank: int

    @property
    def lookups(self) -> Sequence[np.ndarray]:
        """Look-ups: arrays of coordinates, shape (G, q), of which each unit touches those of one row."""

    @property
    def sums(self) -> Sequence[Sequence[tuple[int, np.ndarray]]]:
        """Sums through which units depend on coordinates, and on nothing else of them.

        Each is a list of signs and arrays: a unit's sum has one coordinate of each array, with the sign.
        """


class Source(Protocol):
    """Exact sums over records, in this process or in parts elsewhere.

    Attributes
    ----------
    units : Twins or TablesTwins
        Public facts about the records.

    Notes
    -----
    **Privacy.** The methods return private values, for `Measurements` alone.
    """

    units: Units

    @property
    def apart(self) -> Sequence["Source"]:
        """Sources of fewer observed variables: one for all variables that have coordinates in common."""

    @property
    def with_known_bounds(self) -> "Source":
        """The same records, compared on the assumption that all their bounds of censoring are known."""

    def count_unknown_bounds(self) -> np.ndarray:
        """Count the units that have an unknown bound of censoring, shape (1,)."""

    def scales(self, phi: np.ndarray, twins: int) -> np.ndarray:
        """Count units by the octaves of their scores, shape (p, OCTAVES): integers; see `score_sizes`."""

    def compare(self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int) -> Totals:
        """Add up scores and slopes of units, each within these bounds: integers; see `comparisons`.

        Where twins are drawn there is at least one: without it a score would be compared with nothing.
        """

    def spread(self, phi: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """Count units by their place among their twins, shape (CELLS,): integers; see `fit`."""


class Comparison(NamedTuple):
    """A noisy score with its slope, in a metric A.

    Attributes
    ----------
    score : ndarray, shape (p,)
    score_noise : float
        Standard deviation of each coordinate's noise.
    slope : ndarray, shape (p, p)
    slope_noise : float
        Standard deviation of the noise on the diagonal; off the diagonal it is this over sqrt(2).
    variances : ndarray, shape (p,)
        Variances of the sum of scores: the diagonal of its covariance.
    variance_noise : float
        Standard deviation of the noise of each.
    """

    score: np.ndarray
    score_noise: float
    slope: np.ndarray
    slope_noise: float
    variances: np.ndarray
    variance_noise: float

    @property
    def trace(self) -> float:
        """Sum of the variances."""
        return float(self.variances.sum())

    @property
    def trace_noise(self) -> float:
        """Standard deviation of the noise of `trace`."""
        return self.variance_noise * math.sqrt(len(self.variances))


class Count(NamedTuple):
    """A noisy count of units, and the standard deviation of its noise."""

    number: float
    noise: float


class NoisySums(Protocol):
    """Noisy sums that a search asks for: `Measurements` of a source, or those of several owners.

    Attributes
    ----------
    source : Shapes
    """

    source: Shapes

    @property
    def left(self) -> float:
        """Share of the budget that is neither spent nor kept."""

    def scales(self, phi: np.ndarray, twins: int, share: float) -> Scales:
        """See `Measurements.scales`."""

    def compare(
        self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int, shares: tuple[float, float]
    ) -> Comparison:
        """See `Measurements.compare`."""


class AllSums(NoisySums, Protocol):
    """`NoisySums` of all observed variables, which can be split into those without common coordinates."""

    @property
    def apart(self) -> Sequence[NoisySums]:
        """Noisy sums of each of `Source.apart`, from one budget."""

    @property
    def doubtful(self) -> Mapping[str, bool]:
        """See `Twins.doubtful`."""

    @property
    def with_known_bounds(self) -> "AllSums":
        """Noisy sums of `Source.with_known_bounds`, from the same budget."""

    def count_unknown_bounds(self, share: float) -> Count:
        """See `Measurements.count_unknown_bounds`."""


class Measurements:
    """Noisy sums of a source, each with a share of one budget.

    Parameters
    ----------
    source : Source
    spending : Spending
        A budget that was paid for, as one release: all sums spend portions of it.
    kept : mapping of str to float, optional
        Shares that are kept for the end, by the method that spends each: see `pymc_dp.likelihood.releases`.

    Attributes
    ----------
    source : Shapes
        The public facts of the source.
    kept : dict of str to float
        Kept shares that are not spent yet.

    Notes
    -----
    **Privacy.** Let ``c`` be 2 if a record may be replaced, and 1 if it may be added or removed. Then one
    record changes a score, with all its terms together, by at most ``c C``. It changes a slope with
    the variances by at most ``sqrt(c) B``: slopes are positive semi-definite, and variances not negative;
    scales by at most ``sqrt(c t)``, where a unit is counted in the rows of at most t coordinates; a spread
    by at most ``sqrt(c)``; and a count by at most 1 (docs/proofs/twins, section 1).
    """

    def __init__(self, source: Source, spending: Spending, kept: Mapping[str, float] | None = None):
        self.source: Shapes = source.units
        self._sums, self._spending, self.kept = source, spending, dict(kept or {})
        self._sensitivity = ExactSum.sensitivity(spending.neighboring_relation)

    @property
    def apart(self) -> Sequence["Measurements"]:
        """See `AllSums.apart`."""
        apart = self._sums.apart
        return [self] if len(apart) == 1 else [Measurements(one, self._spending, self.kept) for one in apart]

    @property
    def doubtful(self) -> Mapping[str, bool]:
        """See `Twins.doubtful`."""
        return self._sums.units.doubtful

    @property
    def with_known_bounds(self) -> "Measurements":
        """See `AllSums.with_known_bounds`."""
        return Measurements(self._sums.with_known_bounds, self._spending, self.kept)

    @property
    def left(self) -> float:
        """Share of the budget that is neither spent nor kept."""
        return self._spending.unspent - math.fsum(self.kept.values())

    def _release(self, total: np.ndarray, std: float) -> np.ndarray:
        return Gaussian(std).release(ExactSum(total), self._spending.random)

    def count_unknown_bounds(self, share: float) -> Count:
        """Release a noisy count of the units that have an unknown bound of censoring."""
        noise = self._spending.portion(share)
        return Count(float(self._release(self._sums.count_unknown_bounds(), noise)[0]), noise)

    def scales(self, phi: np.ndarray, twins: int, share: float) -> Scales:
        """Release, for each coordinate, noisy counts of units by the octave of their scores."""
        noise = self._spending.portion(share) * math.sqrt(self._sensitivity * self.source.touched)
        return Scales(self._release(self._sums.scales(phi, twins), noise), noise)

    def spread(self, phi: np.ndarray, metric: np.ndarray) -> Spread:
        """Release noisy counts of records by their place among their twins, with the share kept for that.

        Parameters
        ----------
        phi : ndarray, shape (p,)
        metric : ndarray, shape (p, p)
        """
        noise = self._spending.portion(self.kept.pop("spread", 0.0)) * math.sqrt(self._sensitivity)
        return Spread(self._release(self._sums.spread(phi, metric), noise), noise)

    @np.errstate(all="ignore")
    def compare(
        self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int, shares: tuple[float, float]
    ) -> Comparison:
        """Release a score and its slope.

        Parameters
        ----------
        phi : ndarray, shape (p,)
        metric : ndarray, shape (p, p)
        bounds : Bounds
        twins : int
        shares : tuple of float
            Shares of the budget for the score, and for the slope with the variances.
        """
        size = self.source.size
        noise = self._spending.portion(shares[0]) * self._sensitivity * SCORE_GRID
        std = self._spending.portion(shares[1]) * math.sqrt(self._sensitivity) * SLOPE_GRID
        totals = self._sums.compare(phi, metric, bounds, twins)
        unit, area = bounds.score / SCORE_GRID, bounds.slope / SLOPE_GRID
        score = self._release(totals.score, noise) * unit
        # Entries off the diagonal count twice in the Frobenius norm: with their noise divided by sqrt(2), the
        # whole matrix is one Gaussian release.
        lower = self._release(totals.slope[np.tril_indices(size, -1)], std / math.sqrt(2.0))
        diagonal = self._release(np.append(np.diag(totals.slope), totals.variances), std)
        slope = np.diag(diagonal[:size])
        slope[np.tril_indices(size, -1)] = lower
        slope = (slope + np.tril(slope, -1).T) * area
        extra = area / VARIANCE_WEIGHT
        return Comparison(score, noise * unit, slope, std * area, diagonal[size:] * extra, std * extra)
