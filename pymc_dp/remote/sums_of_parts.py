"""Exact sums over records in parts: of ratios, and of what a likelihood is made of."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from pymc_dp.likelihood.comparisons import Bounds, Totals
from pymc_dp.likelihood.measurements import Shapes
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.records.sums import SumOfRatios


class SumOverShards:
    """As `FullBatch`, with points in the place of their rows, which stay where they are.

    Parameters
    ----------
    totals : callable
        As `ShardedRecords.totals`.
    log_prior : callable
    """

    def __init__(self, totals: Callable[..., tuple[float, float]], log_prior: Callable[[np.ndarray], float]):
        self._totals, self._log_prior = totals, log_prior

    def __call__(self, theta: np.ndarray, old: np.ndarray, clip_bound: float) -> SumOfRatios:
        """Sum the clipped ratios between `theta` and `old`.

        Parameters
        ----------
        theta, old : ndarray, shape (d,)
        clip_bound : float
            B > 0, finite.

        Returns
        -------
        SumOfRatios
            Its rows are a copy of `theta`.
        """
        total, clipped = self._totals(old, theta, clip_bound)
        return SumOfRatios(total, clipped, theta.copy(), self._log_prior(theta))

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Stand-in for the rows at a point, and log-prior."""
        return theta.copy(), self._log_prior(theta)


class Ask(Protocol):
    """From a method of `RecordsHere` and its arguments to the answers of all parts."""

    def __call__[T](self, method: Callable[..., T], *arguments: object) -> list[T]:
        """Ask all parts."""


class SumsOfParts:
    """The `Source` of records in parts.

    Parameters
    ----------
    shapes : Shapes
        On which all parts agree.
    ask : Ask

    Notes
    -----
    **Privacy.** Each part adds integers, in floating point and exact: their sum is that of all records in one
    place, in any parts.
    """

    def __init__(self, shapes: Shapes, ask: Ask):
        self._ask, self.size = ask, shapes.size
        self.lookups, self.sums = shapes.lookups, shapes.sums
        self.touched, self.parts, self.rank = shapes.touched, shapes.parts, shapes.rank

    def scales(self, phi: np.ndarray, twins: int) -> np.ndarray:
        """See `Source.scales`."""
        return np.sum(self._ask(RecordsHere.scales, phi, twins), axis=0)

    def compare(self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int) -> Totals:
        """See `Source.compare`."""
        total = Totals(self.size)
        for part in self._ask(RecordsHere.compare, phi, metric, bounds, twins):
            total.add(part)
        return total

    def spread(self, phi: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """See `Source.spread`."""
        return np.sum(self._ask(RecordsHere.spread, phi, metric), axis=0)
