"""Moves of all components together."""

from typing import Any

import numpy as np


def _transform(scale: Any) -> np.ndarray:
    """Check a scale: scalar, vector of standard deviations, or covariance matrix (returned as its factor)."""
    array = np.asarray(scale, dtype=float)
    if array.ndim > 2 or not np.all(np.isfinite(array)):
        raise ValueError(
            "the scale of a proposal is a finite number, vector (d,) or covariance matrix (d, d)."
        )
    if array.ndim == 2:
        if array.shape[0] != array.shape[1] or not np.allclose(array, array.T):
            raise ValueError("the covariance matrix of a proposal must be square and symmetric.")
        try:
            return np.linalg.cholesky(array)
        except np.linalg.LinAlgError:
            raise ValueError("the covariance matrix of a proposal must be positive definite.") from None
    if np.any(array <= 0):
        raise ValueError("the scale of a proposal must be positive.")
    return array


class _Scaled:
    def __init__(self, scale: Any = 1.0):
        self._factor = _transform(scale)

    def _scaled(self, z: np.ndarray) -> np.ndarray:
        if self._factor.ndim and self._factor.shape[0] != z.size:
            raise ValueError(
                f"the proposal's scale has {self._factor.shape[0]} entries, the model {z.size} "
                "unconstrained parameters."
            )
        return self._factor @ z if self._factor.ndim == 2 else self._factor * z


class GaussianWalk(_Scaled):
    """Gaussian random walk.

    Parameters
    ----------
    scale : float, array_like of shape (d,) or (d, d), optional
        Standard deviation(s) or covariance of a move with step size 1, in unconstrained space.
        Must come from public knowledge or from earlier releases.

    Notes
    -----
    **Privacy.** Reads no data; the moves use PyMC's generator.
    """

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Displacement, shape (d,), for step size 1."""
        return self._scaled(rng.standard_normal(d))


class FixedRadius(_Scaled):
    """Uniform on a sphere (an ellipsoid, when scaled): every move has the same length.

    With a scalar scale and a Lipschitz clip the noise of the log-ratio has the same standard deviation at
    every iteration.

    Parameters
    ----------
    scale : float, array_like of shape (d,) or (d, d), optional
        Root mean square of each coordinate of a move, or covariance, as in `GaussianWalk`.

    Notes
    -----
    **Privacy.** Reads no data; the moves use PyMC's generator.
    """

    def length(self, d: int) -> float | None:
        """Length of every move for step size 1, or None if it depends on the direction."""
        return float(self._factor) * np.sqrt(d) if self._factor.ndim == 0 else None

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Displacement, shape (d,), for step size 1."""
        if d < 2:
            raise ValueError(
                "a fixed radius in one dimension only reaches a lattice: use the Gaussian proposal."
            )
        z = rng.standard_normal(d)
        return self._scaled(z * np.sqrt(d / (z @ z)))
