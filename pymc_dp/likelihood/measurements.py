"""The noisy sums of a round: what each is, what one record moves it by, and its noise."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pymc_dp.likelihood.comparisons import SCORE_GRID, SLOPE_GRID, Bounds, Totals, trace_weight
from pymc_dp.likelihood.fit import Spread
from pymc_dp.likelihood.octaves import Scales
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian


class Shapes(Protocol):
    """What is public of records' scores.

    Attributes
    ----------
    size : int
        p, likelihood coordinates.
    touched : int
        Most coordinates that the score of a unit has.
    rank : int
        Most predictors of a record.
    """

    size: int
    touched: int
    rank: int

    @property
    def lookups(self) -> Sequence[np.ndarray]:
        """Coordinates of which each unit touches those of one row, shape (G, q)."""

    @property
    def sums(self) -> Sequence[Sequence[tuple[int, np.ndarray]]]:
        """What units see: the sum of one coordinate of each array, with its sign, and nothing else."""


class Source(Shapes, Protocol):
    """Exact sums over records, wherever these are: here, or in parts elsewhere.

    Notes
    -----
    **Privacy.** What the methods return is private, and for `Measurements` alone.
    """

    @property
    def apart(self) -> Sequence["Source"]:
        """Of observed variables that have coordinates in common one: the sums of their scores alone."""

    @property
    def doubtful(self) -> Mapping[str, bool]:
        """See `pymc_dp.likelihood.sources.Units`."""

    @property
    def with_known_bounds(self) -> "Source":
        """The same, if arrays of bounds of censoring are known of all records."""

    def count_unknown_bounds(self) -> np.ndarray:
        """Count units of which a bound of censoring is unknown, shape (1,)."""

    def scales(self, phi: np.ndarray, twins: int) -> np.ndarray:
        """Count units by the octaves of their scores, shape (p, OCTAVES): integers; see `octaves`."""

    def compare(self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int) -> Totals:
        """Add what units say, each within these bounds: integers; see `comparisons`.

        Of twins there is one at least where they are drawn: without any, a score would be no comparison.
        """

    def spread(self, phi: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """Count units by how far out they are among their twins, shape (CELLS,): integers; see `fit`."""


class Comparison(NamedTuple):
    """A noisy score with its slope, in a metric A.

    Attributes
    ----------
    score : ndarray, shape (p,)
    score_noise : float
        Standard deviation of each coordinate's noise.
    slope : ndarray, shape (p, p)
    slope_noise : float
        Of entries on the diagonal; off it that over sqrt(2).
    trace : float
        Of the variance of the sum.
    trace_noise : float
    """

    score: np.ndarray
    score_noise: float
    slope: np.ndarray
    slope_noise: float
    trace: float
    trace_noise: float


class Count(NamedTuple):
    """A noisy count of units, and the standard deviation of its noise."""

    number: float
    noise: float


class NoisySums(Protocol):
    """What a search asks, wherever the records are: `Measurements` of a source, or of several owners.

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
    """`NoisySums` of all observed variables, and of those that have coordinates in common."""

    @property
    def apart(self) -> Sequence[NoisySums]:
        """Of each of `Source.apart`, from one budget."""

    @property
    def doubtful(self) -> Mapping[str, bool]:
        """See `Source.doubtful`."""

    @property
    def with_known_bounds(self) -> "AllSums":
        """Of `Source.with_known_bounds`, from one budget."""

    def count_unknown_bounds(self, share: float) -> Count:
        """See `Measurements.count_unknown_bounds`."""


class Measurements:
    """Makes noisy sums, each of a share of one budget.

    Parameters
    ----------
    source : Source
    spending : Spending
        Whose next release is the whole. It was paid.
    kept : mapping of str to float, optional
        Shares that are kept for the end, by the method that spends each: see `pymc_dp.likelihood.releases`.

    Attributes
    ----------
    source : Shapes
        The same: what is public of it.
    kept : dict of str to float
        Shares that are not spent yet.

    Notes
    -----
    **Privacy.** With ``c = 2`` where a record may be replaced and 1 where it may be added or removed, one
    record moves a score, of all its terms together, by at most ``c C``; a slope with its trace by
    ``sqrt(c) B``, since slopes are positive semi-definite and traces are not negative; scales by
    ``sqrt(c t)``, where a unit counts in the rows of at most t coordinates; a spread by ``sqrt(c)``; a count
    by 1 (docs/proofs/twins, section 1).
    """

    def __init__(self, source: Source, spending: Spending, kept: Mapping[str, float] | None = None):
        self.source: Shapes = source
        self._sums, self._spending, self.kept = source, spending, dict(kept or {})
        self._sensitivity = ExactSum.sensitivity(spending.neighboring_relation)

    @property
    def apart(self) -> Sequence["Measurements"]:
        """See `AllSums.apart`."""
        apart = self._sums.apart
        return [self] if len(apart) == 1 else [Measurements(one, self._spending, self.kept) for one in apart]

    @property
    def doubtful(self) -> Mapping[str, bool]:
        """See `Source.doubtful`."""
        return self._sums.doubtful

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
        """Count units of which a bound of censoring is unknown."""
        noise = self._spending.portion(share)
        return Count(float(self._release(self._sums.count_unknown_bounds(), noise)[0]), noise)

    def scales(self, phi: np.ndarray, twins: int, share: float) -> Scales:
        """Count in which octaves the scores of each coordinate are."""
        noise = self._spending.portion(share) * math.sqrt(self._sensitivity * self.source.touched)
        return Scales(self._release(self._sums.scales(phi, twins), noise), noise)

    def spread(self, phi: np.ndarray, metric: np.ndarray) -> Spread:
        """Count how far out records are among their twins, with the share that was kept.

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
            Of the score, and of the slope.
        """
        size = self.source.size
        noise = self._spending.portion(shares[0]) * self._sensitivity * SCORE_GRID
        std = self._spending.portion(shares[1]) * math.sqrt(self._sensitivity) * SLOPE_GRID
        totals = self._sums.compare(phi, metric, bounds, twins)
        unit, area = bounds.score / SCORE_GRID, bounds.slope / SLOPE_GRID
        score = self._release(totals.score, noise) * unit
        # Entries off the diagonal are there twice: with noise over sqrt(2) all is one Gaussian release.
        lower = self._release(totals.slope[np.tril_indices(size, -1)], std / math.sqrt(2.0))
        diagonal = self._release(np.append(np.diag(totals.slope), totals.trace), std)
        slope = np.diag(diagonal[:-1])
        slope[np.tril_indices(size, -1)] = lower
        slope = (slope + np.tril(slope, -1).T) * area
        extra = area / trace_weight(size)
        return Comparison(score, noise * unit, slope, std * area, diagonal[-1] * extra, std * extra)
