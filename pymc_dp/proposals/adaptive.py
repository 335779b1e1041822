"""Moves whose covariance follows the draws of the tuning phase."""

from typing import Any

import numpy as np

from pymc_dp.proposals.walk import FixedRadius, GaussianWalk

# Draws after which the covariance is set for the first time, and the ratio of later times to the one before.
_FIRST, _RATIO = 100, 1.5
# The estimate is mixed with the scale that was given as if that were worth this many draws a component:
# draws of a private chain are strongly dependent.
_PRIOR_DRAWS = 20.0
# Smallest ratio of variances that is believed.
_NARROWEST = 1e-8


class AdaptiveWalk:
    """A walk whose covariance is learnt, during tuning, from the chain's own released draws.

    At draws 100, 150, 225, ... of the tuning phase the covariance is set to that of the latter half of the
    draws so far, mixed with the given scale, and scaled to the given volume: how long the moves are remains
    the step size's business. It is fixed when tuning ends.

    Parameters
    ----------
    scale : float, array_like of shape (d,) or (d, d), optional
        To begin with: as in `GaussianWalk`.

    Notes
    -----
    **Privacy.** Draws are released, also those of the tuning phase, which are paid for like others; a
    covariance that is computed from them costs nothing.
    """

    def __init__(self, scale: Any = 1.0):
        FixedRadius(scale)  # checks it
        self._given = np.asarray(scale, dtype=float)
        self._covariance: np.ndarray | None = None
        self._walk: FixedRadius | GaussianWalk | None = None
        self._place: np.ndarray | None = None
        self._draws: list[np.ndarray] = []
        self._next = _FIRST

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Displacement, shape (d,), for step size 1."""
        if self._walk is None:
            self._walk = GaussianWalk(self._given) if d == 1 else FixedRadius(self._given)
        return self._walk.move(rng, d)

    def decided(self, move: np.ndarray, accepted: bool, tune: bool) -> None:
        """Follow the chain, up to its unknown starting point; at times learn the covariance."""
        if not tune:
            self._draws = []
            return
        if self._place is None:
            self._place = np.zeros(move.size)
        self._place = self._place + accepted * move
        self._draws.append(self._place)
        if len(self._draws) == self._next and move.size > 1:
            self._next = int(_RATIO * self._next)
            self._walk = FixedRadius(self._learnt(np.array(self._draws[len(self._draws) // 2 :])))

    def _learnt(self, draws: np.ndarray) -> np.ndarray:
        m, d = draws.shape
        given = np.eye(d) * self._given**2 if self._given.ndim < 2 else self._given
        factor = np.linalg.cholesky(given)
        whitened = np.linalg.solve(factor, np.linalg.solve(factor, np.cov(draws.T)).T)
        variances, axes = np.linalg.eigh(whitened)
        if variances[-1] <= 0:  # nothing was accepted
            return given
        # In logarithms, so that the estimate of the narrowest direction does not drown in the widest's.
        logs = np.log(np.maximum(variances, _NARROWEST * variances[-1]))
        weight = m / (m + _PRIOR_DRAWS * d)
        root = factor @ (axes * np.exp(0.5 * weight * (logs - logs.mean())))
        return root @ root.T
