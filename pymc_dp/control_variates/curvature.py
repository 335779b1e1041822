"""Positive definite curvatures from noisy ones: functions of what is released, no data."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_dp.records.public_density import DIFFERENCE, curvature

# Relative rounding of the log-prior's gradient, and a curvature below which a prior counts as flat.
_ROUNDING, _FLAT = 1e-14, 1e-40
# Prior precision that is assumed at least, in units of that at the start: keeps flat directions finite.
_LEAST_PRIOR = 0.01
# Least eigenvalue of a noisy curvature: as it is, and over the largest. Roots of less are rounding errors.
_NOTHING, _RELATIVE = 1e-12, 1e-10


def prior_curvature(records: Any, point: np.ndarray) -> np.ndarray:
    """Minus the Hessian of the log-prior, by central differences of its gradient; zero where undefined."""
    return curvature(records.log_prior_gradient, point)


def inverse_root(precision: np.ndarray) -> np.ndarray:
    """Symmetric ``precision^(-1/2)``; directions 10^10 times weaker than the strongest are not told apart."""
    values, vectors = np.linalg.eigh(precision)
    return (vectors / np.sqrt(np.maximum(values, 1e-20 * values.max()))) @ vectors.T


def root_of_square(matrix: np.ndarray, blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Symmetric root of the blocks of ``M M'``, shape (p, p), zero between them.

    In no block a direction 10^10 times shorter than the longest.
    """
    root = np.zeros((len(matrix), len(matrix)))
    for block in blocks:
        vectors, values, _ = np.linalg.svd(matrix[block], full_matrices=False)
        root[np.ix_(block, block)] = (vectors * np.maximum(values, 1e-10 * values.max())) @ vectors.T
    return root


class Prior:
    """The prior's share of precisions.

    Parameters
    ----------
    records : RecordModel
        Or its prior functions.
    start : ndarray, shape (d,)

    Attributes
    ----------
    scale : ndarray, shape (d,)
        Prior standard deviations at the start, given the others; 1 where the prior has no curvature.
    spread : ndarray, shape (d,)
        The same, whatever the others are.
    """

    def __init__(self, records: Any, start: np.ndarray):
        self._records = records
        curvature = np.diag(prior_curvature(records, start))
        # Above the rounding of the differences: a prior of dollars has a curvature of 1e-10.
        slope = np.nan_to_num(np.abs(records.log_prior_gradient(start)))
        rounding = _ROUNDING * slope / (DIFFERENCE * np.maximum(1.0, np.abs(start)))
        self.scale = 1 / np.sqrt(np.where(curvature > np.maximum(rounding, _FLAT), curvature, 1.0))
        inverse = np.linalg.inv(self.precision(start) * np.outer(self.scale, self.scale))
        self.spread = self.scale * np.sqrt(np.diag(inverse))

    def precision(self, point: np.ndarray) -> np.ndarray:
        """Curvature at a point, positive semi-definite, and a little of that at the start."""
        values, vectors = np.linalg.eigh(prior_curvature(self._records, point))
        return (vectors * np.maximum(values, 0.0)) @ vectors.T + np.diag(_LEAST_PRIOR / self.scale**2)


class NoisyCurvature:
    """A tempered curvature that is known up to noise.

    Parameters
    ----------
    matrix : ndarray, shape (d, d)
        ``T A M A'`` for the tempering T and a curvature M in the units of the parameters.
    noise : float
        About the largest eigenvalue of its noise, before tempering.
    metric : ndarray, shape (d, d)
        A.
    tempering : float
    """

    def __init__(self, matrix: np.ndarray, noise: float, metric: np.ndarray, tempering: float):
        self.metric = metric
        self._values, self._vectors = np.linalg.eigh(tempering * matrix)
        self._level = tempering * noise
        self._least = max(_NOTHING, _RELATIVE * float(np.abs(self._values).max()))

    def absolute(self) -> np.ndarray:
        """Absolute eigenvalues, not below the noise's; in the units of the parameters."""
        return self._with(np.maximum(np.abs(self._values), max(self._level, self._least)))

    def positive(self) -> np.ndarray:
        """Eigenvalues not below the noise's."""
        return self._with(np.maximum(self._values, max(self._level, self._least)))

    def weakest(self) -> np.ndarray:
        """Eigenvalues not below the square of the noise's over the largest one.

        So that the scale of a weak direction approaches its own quadratically from round to round.
        """
        largest = max(float(self._values.max()), self._level, _NOTHING)
        return self._with(np.maximum(self._values, max(self._level**2 / largest, self._least)))

    def surely(self) -> np.ndarray:
        """Eigenvalues less the noise's: what is there beyond it."""
        return self._with(np.maximum(self._values - self._level, max(1e-6 * self._level, self._least)))

    def _with(self, values: np.ndarray) -> np.ndarray:
        inverse = np.linalg.inv(self.metric)
        return inverse @ ((self._vectors * values) @ self._vectors.T) @ inverse.T


def at_least(curvature: np.ndarray, other: np.ndarray, share: float) -> np.ndarray:
    """`curvature`, its eigenvalues relative to `other` not below `share`; both positive definite."""
    root = inverse_root(other)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(root @ curvature @ root.T)
    return inverse @ ((vectors * np.maximum(values, share)) @ vectors.T) @ inverse.T


def symmetric(matrix: np.ndarray) -> np.ndarray:
    """Its symmetric part."""
    return 0.5 * (matrix + matrix.T)
