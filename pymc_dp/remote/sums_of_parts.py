"""Comparisons of points on records in parts: of the likelihood, and of what a surrogate leaves of it."""

from typing import Any

import numpy as np

from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.records.model import RecordModel
from pymc_dp.records.public_density import PublicDensity
from pymc_dp.records.sums import SumOfRatios


class ResidualsElsewhere:
    """What is public of what a surrogate leaves of records elsewhere, with the interface of `Residuals`.

    Parameters
    ----------
    records : ShardedRecords or RecordsOfOwners
    model : RecordModel
        Of the template: for coordinates and prior.

    Attributes
    ----------
    log_prior, log_prior_gradient : callable
        Of the public density: prior times surrogate.
    surrogate : str
        In JSON: part of a question. Where records are, their own clip factors are made of it.
    """

    def __init__(self, records: Any, model: RecordModel):
        self._records, self.n, self.d = records, records.n, records.d
        self.public, self.surrogate = PublicDensity(model), ""
        self.log_prior, self.log_prior_gradient = self.public.log_prior, self.public.log_prior_gradient

    def expand(self, surrogate: Surrogate) -> None:
        """Take a surrogate."""
        self.public.set(surrogate.phi, *surrogate.public())
        self.surrogate = surrogate.to_json()

    def displacement(self, theta: np.ndarray) -> np.ndarray:
        """See `Residuals.displacement`."""
        return self._records.coordinates(theta) - self.public.origin.get_value(borrow=True)

    def forget(self) -> None:
        """Nothing here is private."""


class ShardedResiduals(ResidualsElsewhere):
    """What a surrogate leaves of records in parts.

    Attributes
    ----------
    full_batch : SumOverShards
    """

    def __init__(self, records: Any, model: RecordModel):
        super().__init__(records, model)
        self.full_batch = SumOverShards(self)

    def forget(self) -> None:
        """Drop the private factors, where they are."""
        self._records.forget()

    def totals(self, theta: np.ndarray, new: np.ndarray, clip_bound: float) -> tuple[float, float]:
        """See `ShardedRecords.totals`."""
        return self._records.totals(theta, new, clip_bound, self.surrogate)

    def ratios(self, theta: np.ndarray, new: np.ndarray, units: np.ndarray) -> np.ndarray:
        """See `Residuals.ratios`."""
        return self._records.ratios(theta, new, units, self.surrogate)


class SumOverShards:
    """As `FullBatch`, with points in the place of their rows, which stay where they are.

    Parameters
    ----------
    records : ShardedRecords or ShardedResiduals
    """

    def __init__(self, records: Any):
        self._records = records

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
        total, clipped = self._records.totals(old, theta, clip_bound)
        return SumOfRatios(total, clipped, theta.copy(), self._records.log_prior(theta))

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Stand-in for the rows at a point, and log-prior."""
        return theta.copy(), self._records.log_prior(theta)
