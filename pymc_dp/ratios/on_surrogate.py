"""No records at all: moves on a public density that a whole budget was spent on."""

from typing import Any

import numpy as np

from pymc_dp.kernels.metropolis import LogRatio


class OnSurrogate:
    """Compares points on what is public: moves that leave it invariant are all accepted.

    Parameters
    ----------
    target : object
        With `log_prior`.

    Notes
    -----
    **Privacy.** Reads nothing but what was released.
    """

    def __init__(self, target: Any):
        self._target = target

    def at(self, theta: np.ndarray) -> tuple[None, float]:
        """Nothing, and the public density."""
        return None, self._target.log_prior(theta)

    def __call__(
        self, theta: np.ndarray, new: np.ndarray, kept: None, clip_bound: float, random: Any
    ) -> LogRatio:
        """A ratio of 1, without noise."""
        return LogRatio(0.0, 0.0, clip_bound, 0.0, None, self._target.log_prior(new))
