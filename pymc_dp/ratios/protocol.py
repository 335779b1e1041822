"""What a source of log-likelihood ratios is."""

from typing import Any, Protocol

import numpy as np

from pymc_dp.kernels.metropolis import LogRatio
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom


class Ratio(Protocol):
    """Compares two points on the records."""

    def at(self, theta: np.ndarray) -> tuple[Any, float]:
        """What is kept at a starting point (private), and its log-prior."""

    def __call__(
        self, theta: np.ndarray, new: np.ndarray, kept: Any, clip_bound: float, random: PrivacyRandom
    ) -> LogRatio:
        """`new` against `theta`; each record's untempered ratio is clipped at `clip_bound` nats."""
