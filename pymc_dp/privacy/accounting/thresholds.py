"""Random thresholds of the penalty test: a decision is ``V <= u`` (docs/proofs/decision_accounting)."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, log_ndtr


@dataclass(frozen=True)
class GaussianThreshold:
    """Standard normal threshold: the penalty decision when its uniform is published as well.

    Attributes
    ----------
    scale : float
        Length over which the density changes.
    centre : float
        About the mean of V; where the search starts.
    std : float
        Standard deviation s of the noise in V: the slope of the score is at most ``1 / s^2``.
    steepest : float
        Most that the logarithm of P(V <= u) rises with u; inf if nothing bounds it.
    """

    scale: float = 1.0
    centre: float = 0.0
    std: float = 1.0
    steepest: float = math.inf

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Logarithm of the density."""
        return -0.5 * u * u - 0.5 * math.log(2 * math.pi)

    def log_probabilities(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of P(V <= u) and P(V > u)."""
        return log_ndtr(u), log_ndtr(-u)

    def score(self, u: np.ndarray) -> np.ndarray:
        """Minus the derivative of the log density; non-decreasing."""
        return u


@dataclass(frozen=True)
class PenaltyThreshold:
    """Threshold of the penalty test with noise of standard deviation s: ``V = ln U + s^2 / 2 + s N(0, 1)``.

    ``P(V <= u) = a(u)`` is the acceptance probability at log-ratio u; its density is
    ``e^u Phi(-(u + s^2 / 2) / s)``, at most a(u).
    """

    std: float
    steepest: float = 1.0

    @property
    def scale(self) -> float:
        """Length over which the density changes."""
        return min(self.std, 1.0)

    @property
    def centre(self) -> float:
        """About the mean of V; where the search starts."""
        return 0.5 * self.std**2

    def _mills(self, u: np.ndarray) -> np.ndarray:
        return (u + 0.5 * self.std**2) / self.std

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Logarithm of the density of V."""
        return u + log_ndtr(-self._mills(u))

    def log_probabilities(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of a(u) and 1 - a(u)."""
        s = self.std
        x = (u - 0.5 * s * s) / s
        log_normal, log_tail = log_ndtr(x), self.log_density(u)
        log_accept = np.logaddexp(log_normal, log_tail)
        # 1 - a = phi(x) (M(x) - M(x + s)) with the Mills ratio M (x >= 0); its definition is well
        # conditioned for x < 0.
        y = np.maximum(x, 0.0) / math.sqrt(2)
        with np.errstate(divide="ignore"):
            right = np.log(0.5 * (erfcx(y) - erfcx(y + s / math.sqrt(2)))) - y * y
            left = np.log(-np.expm1(np.minimum(log_accept, 0.0)))
        return np.minimum(log_accept, 0.0), np.where(x >= 0, right, left)

    def score(self, u: np.ndarray) -> np.ndarray:
        """Minus the derivative of the log density; non-decreasing."""
        with np.errstate(over="ignore"):
            hazard = math.sqrt(2 / math.pi) / erfcx(self._mills(u) / math.sqrt(2))
        return hazard / self.std - 1.0


#: What a bit is compared with: a random V with a log-concave density.
type Threshold = GaussianThreshold | PenaltyThreshold
