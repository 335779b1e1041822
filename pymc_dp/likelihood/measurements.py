"""The noisy sums of a round: what each is, what one record moves it by, and its noise."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_dp.likelihood.comparisons import SCORE_GRID, SLOPE_GRID, Bounds, Totals, compare, trace_weight
from pymc_dp.likelihood.fit import CELLS, FIT_TWINS, Spread, count_places
from pymc_dp.likelihood.octaves import OCTAVES, Scales, count_octaves
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum, Gaussian


class TermScores(Protocol):
    """Scores of m privacy units and of what they are compared with: see `records.twins`."""

    @property
    def own(self) -> np.ndarray:
        """Shape (m, k)."""

    @property
    def group(self) -> np.ndarray:
        """Shape (G, m, k)."""

    @property
    def weights(self) -> np.ndarray | None:
        """Shape (G, m), or None."""

    def rows(self, metric: np.ndarray) -> np.ndarray:
        """Derivatives of the predictors by the coordinates, each times the metric: shape (k, m, p)."""


class Chunk(Protocol):
    """Some privacy units."""

    @property
    def terms(self) -> Sequence[TermScores]:
        """Scores by groups of observed variables."""


class Source(Protocol):
    """Where records are: here, in parts, or with owners.

    Attributes
    ----------
    size : int
        p, likelihood coordinates.
    touched : int
        Most coordinates that the score of a unit has.
    parts : int
        Groups of observed variables that are centred by themselves.
    """

    size: int
    touched: int
    parts: int

    @property
    def lookups(self) -> Sequence[np.ndarray]:
        """Coordinates of which each unit touches one."""

    def __call__(self, phi: np.ndarray, twins: int, random: Any) -> Iterator[Chunk]:
        """Go through all privacy units."""


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


class Measurements:
    """Makes noisy sums, each of a share of one budget.

    Parameters
    ----------
    source : Source
    spending : Spending
        Whose next release is the whole. It was paid.
    kept : float
        Share that is kept for the end: see `spread`.

    Notes
    -----
    **Privacy.** With ``c = 2`` where a record may be replaced and 1 where it may be added or removed, one
    record moves a score by at most ``c C``; a slope with its trace by ``sqrt(c) B``, since slopes are
    positive semi-definite and traces are not negative; scales by ``sqrt(c t)``, where a unit counts in the
    rows of at most t coordinates; a spread by ``sqrt(c)`` (docs/proofs/twins, section 1).
    """

    def __init__(self, source: Source, spending: Spending, kept: float = 0.0):
        self.source, self._spending, self.kept = source, spending, kept
        self._two = 2.0 if spending.neighboring_relation == "substitute" else 1.0

    @property
    def left(self) -> float:
        """Share of the budget that is neither spent nor kept."""
        return self._spending.unspent - self.kept

    def _release(self, total: np.ndarray, std: float) -> np.ndarray:
        return Gaussian(std).release(ExactSum(total), self._spending.random)

    def scales(self, phi: np.ndarray, twins: int, share: float) -> Scales:
        """Count in which octaves the scores of each coordinate are."""
        noise = self._spending.portion(share) * math.sqrt(self._two * self.source.touched)
        total = np.zeros((self.source.size, OCTAVES))
        for chunk in self.source(phi, twins, self._spending.random):
            total += count_octaves(chunk, self.source.size, self.source.touched)
        return Scales(self._release(total, noise), noise)

    def spread(self, phi: np.ndarray, metric: np.ndarray) -> Spread:
        """Count how far out records are among their twins, with the share that was kept.

        Parameters
        ----------
        phi : ndarray, shape (p,)
        metric : ndarray, shape (p, p)
        """
        noise = self._spending.portion(self.kept) * math.sqrt(self._two)
        total = np.zeros(CELLS)
        for chunk in self.source(phi, FIT_TWINS, self._spending.random):
            total += count_places(chunk, metric, self._spending.random)
        return Spread(self._release(total, noise), noise)

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
        size, parts = self.source.size, self.source.parts
        noise = self._spending.portion(shares[0]) * self._two * SCORE_GRID * parts
        std = self._spending.portion(shares[1]) * math.sqrt(self._two) * SLOPE_GRID * parts
        totals, own = Totals(size), Bounds(bounds.score / parts, bounds.slope / parts)
        for chunk in self.source(phi, twins, self._spending.random):
            if len(chunk.terms) > parts:
                raise RuntimeError("a unit has more terms than its bounds were divided by.")
            for term in chunk.terms:
                compare(term.own, term.group, term.weights, term.rows(metric), own, totals)
        unit, area = own.score / SCORE_GRID, own.slope / SLOPE_GRID
        score = self._release(totals.score, noise) * unit
        # Entries off the diagonal are there twice: with noise over sqrt(2) all is one Gaussian release.
        lower = self._release(totals.slope[np.tril_indices(size, -1)], std / math.sqrt(2.0))
        diagonal = self._release(np.append(np.diag(totals.slope), totals.trace), std)
        slope = np.diag(diagonal[:-1])
        slope[np.tril_indices(size, -1)] = lower
        slope = (slope + np.tril(slope, -1).T) * area
        extra = area / trace_weight(size)
        return Comparison(score, noise * unit, slope, std * area, diagonal[-1] * extra, std * extra)
