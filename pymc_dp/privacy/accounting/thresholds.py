"""Random thresholds of the penalty test: a decision is ``V <= u`` (docs/proofs/decision_accounting)."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import erfcx, log_ndtr


class Threshold(Protocol):
    """A random threshold V with a log-concave density g; psi is ``-(log g)'``."""

    def __hash__(self) -> int:
        """Searches remember what they computed of it."""

    @property
    def scale(self) -> float:
        """Length over which the density changes."""

    @property
    def curvature(self) -> float:
        """Upper bound of psi'."""

    @property
    def centre(self) -> float:
        """About the mean of V; where the search starts."""

    def log_probabilities(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of P(V <= u) and P(V > u)."""

    def hazards(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``g(u)`` over P(V <= u), non-increasing, and over P(V > u), non-decreasing."""

    def score(self, u: np.ndarray) -> np.ndarray:
        """Psi, non-decreasing."""

    def score_slopes(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds of psi' and of the absolute value of psi'' on [low, high]."""


@dataclass(frozen=True)
class GaussianThreshold:
    """Standard normal threshold: the penalty decision when its uniform is published as well."""

    scale: float = 1.0
    curvature: float = 1.0
    centre: float = 0.0

    def log_probabilities(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of P(V <= u) and P(V > u)."""
        return log_ndtr(u), log_ndtr(-u)

    def hazards(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Density over P(V <= u), and over P(V > u)."""
        return _hazard(-u), _hazard(u)

    def score(self, u: np.ndarray) -> np.ndarray:
        """Minus the derivative of the log density; non-decreasing."""
        return u

    def score_slopes(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds of psi' and of the absolute value of psi'' on [low, high]."""
        return np.ones(high.shape), np.zeros(high.shape)


@dataclass(frozen=True)
class PenaltyThreshold:
    """Threshold of the penalty test with noise of standard deviation s: ``V = ln U + s^2 / 2 + s N(0, 1)``.

    ``P(V <= u) = a(u)`` is the acceptance probability at log-ratio u; its density is
    ``e^u Phi(-(u + s^2 / 2) / s)``.
    """

    noise_std: float

    @property
    def scale(self) -> float:
        """Length over which the density changes."""
        return min(self.noise_std, 1.0)

    @property
    def curvature(self) -> float:
        """Upper bound of psi'."""
        return self.noise_std**-2

    @property
    def centre(self) -> float:
        """About the mean of V; where the search starts."""
        return 0.5 * self.noise_std**2

    def _mills(self, u: np.ndarray) -> np.ndarray:
        return (u + 0.5 * self.noise_std**2) / self.noise_std

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Logarithm of the density of V."""
        return u + log_ndtr(-self._mills(u))

    def log_probabilities(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of a(u) and 1 - a(u)."""
        s = self.noise_std
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

    def hazards(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Density over a(u), and over 1 - a(u)."""
        log_accept, log_reject = self.log_probabilities(u)
        log_density = self.log_density(u)
        return np.exp(log_density - log_accept), np.exp(log_density - log_reject)

    def score(self, u: np.ndarray) -> np.ndarray:
        """Minus the derivative of the log density; non-decreasing."""
        return _hazard(self._mills(u)) / self.noise_std - 1.0

    def score_slopes(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds of psi' and of the absolute value of psi'' on [low, high]."""
        x_low, x_high = self._mills(low), self._mills(high)
        m_low, m_high = _hazard(x_low), _hazard(x_high)
        # m' = m (m - x) is increasing and below 1; 0 <= m'' <= m' (m - x), with m - x decreasing (Sampford
        # 1953).
        slope = np.minimum(m_high * (m_high - x_high), 1.0)
        return slope / self.noise_std**2, slope * (m_low - x_low) / self.noise_std**3


@dataclass(frozen=True)
class Flipped:
    """The threshold -V: swaps the two directions of the divergence."""

    of: Threshold

    @property
    def scale(self) -> float:
        """As of V."""
        return self.of.scale

    @property
    def curvature(self) -> float:
        """As of V."""
        return self.of.curvature

    @property
    def centre(self) -> float:
        """Minus that of V."""
        return -self.of.centre

    def log_probabilities(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of V, exchanged."""
        accept, reject = self.of.log_probabilities(-u)
        return reject, accept

    def hazards(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of V, exchanged."""
        accept, reject = self.of.hazards(-u)
        return reject, accept

    def score(self, u: np.ndarray) -> np.ndarray:
        """Minus that of V."""
        return -self.of.score(-u)

    def score_slopes(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As of V."""
        return self.of.score_slopes(-high, -low)


def _hazard(x: np.ndarray) -> np.ndarray:
    """Normal hazard phi(x) / Phi(-x)."""
    with np.errstate(over="ignore"):
        return math.sqrt(2 / math.pi) / erfcx(x / math.sqrt(2))
