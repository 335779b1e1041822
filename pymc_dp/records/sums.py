"""The full-batch sum: clipped log-likelihood ratios, added exactly, in one pass over the data."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_dp.records.guard import guarded

# A clipped ratio is rounded to a multiple of clip_bound / GRID: an integer of at most GRID = 2**20. Sums of
# up to 2**33 of these are exact in float64, in any order, so that one record moves the sum by at most what is
# stated.
GRID = float(2**20)
LARGEST_N = 2**33


class SumOfRatios(NamedTuple):
    """What one pass over the data gives. All of it is private.

    Attributes
    ----------
    total : float
        Sum over records of the clipped ratio, an integer in units of ``clip_bound / GRID``.
    clipped : float
        Number of records whose ratio was clipped or was not a number.
    rows : ndarray, shape (n,)
        Log-likelihood of each record at the new point.
    log_prior : float
        Log-prior at the new point, with Jacobians (data-free).
    """

    total: float
    clipped: float
    rows: np.ndarray
    log_prior: float


class FullBatch:
    """Compiled function of a point and the stored rows of another.

    Parameters
    ----------
    theta : Variable, vector of length d
    rows : Variable, vector of length n
        Per-record log-likelihood as a function of `theta`.
    log_prior : Variable, scalar
    n : int
        Number of records.
    compile_kwargs : mapping
        Passed to `pytensor.function`.

    Notes
    -----
    **Privacy.** With ``r = new - old`` a record contributes ``round(clip(r / B, -1, 1) * GRID)``: an odd
    function of r with values in [-GRID, GRID]; NaN gives 0, infinities give the bound. The integer total
    therefore moves by at most ``2 * GRID`` when a record is replaced and by ``GRID`` when one is added or
    removed, in floating point as in theory (see docs/proofs/penalty).
    """

    def __init__(
        self, theta: Variable, rows: Variable, log_prior: Variable, n: int, compile_kwargs: Mapping[str, Any]
    ):
        if n > LARGEST_N:
            raise ValueError(f"more than 2**33 records ({n}): their grid sum would not be exact.")
        self.n = n
        self._graph, self._kwargs = (theta, rows, log_prior), dict(compile_kwargs)

    @cached_property
    def _function(self) -> Callable[..., list[np.ndarray]]:
        theta, rows, log_prior = self._graph
        old = pt.vector("old", shape=(self.n,), dtype="float64")
        scale = pt.scalar("scale", dtype="float64")
        ratio = (rows - old) * scale
        inside = pt.le(pt.abs(ratio), GRID)  # False for NaN as well
        step = pt.round(pt.switch(pt.isnan(ratio), 0.0, pt.clip(ratio, -GRID, GRID)), mode="half_to_even")
        return pytensor.function(
            [theta, old, scale],
            [step.sum(), inside.sum(dtype="float64"), rows, log_prior],
            on_unused_input="ignore",
            trust_input=True,
            **self._kwargs,
        )

    def __call__(self, theta: np.ndarray, old: np.ndarray, clip_bound: float) -> SumOfRatios:
        """Sum the clipped ratios between `theta` and the point whose rows are `old`.

        Parameters
        ----------
        theta : ndarray, shape (d,)
        old : ndarray, shape (n,)
            Rows at the other point.
        clip_bound : float
            B > 0, finite.

        Returns
        -------
        SumOfRatios
        """
        total, inside, rows, log_prior = guarded(self._function, theta, old, np.float64(GRID / clip_bound))
        return SumOfRatios(float(total), self.n - float(inside), rows, float(log_prior))

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Rows and log-prior at one point."""
        _, _, rows, log_prior = guarded(self._function, theta, np.zeros(self.n), np.float64(1.0))
        return rows, float(log_prior)

    def rows(self, theta: np.ndarray) -> np.ndarray:
        """Log-likelihood of each record, shape (n,), at `theta`."""
        return self.at(theta)[0]
