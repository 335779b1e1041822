"""The penalty test's noisy ratio from sufficient statistics, at a cost that does not depend on n."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from pymc_dp.bounds import check_bound
from pymc_dp.clipping import SMALLEST_BOUND
from pymc_dp.kernels.metropolis import LogRatio
from pymc_dp.privacy.mechanisms.randomness import DECIDED, ExactSum, Gaussian, PrivacyRandom
from pymc_dp.records.statistics import GRID, StatisticBound, Statistics, StatisticSum
from pymc_dp.records.sufficient import Natural, SufficientStatistics

# Relative headroom of a bound over its rounding errors.
_HEADROOM = 1 + 1e-12
# Largest number whose sum over records is sure not to overflow.
_LARGEST = 1e280
# Move over which the bound of a short move is measured.
_SHORT = 1e-4


class StatisticClip(StatisticBound):
    """The clip of a step that compares sufficient statistics: on them, not on ratios.

    Parameters
    ----------
    statistics : "auto" or Statistics
    bound : float or array_like of shape (k,)
        As in `StatisticBound`.
    """

    def __init__(self, statistics: "str | Statistics", bound: float | Sequence[float] | np.ndarray):
        check_bound("clip_bound", bound, several=True)
        super().__init__(bound)
        self.statistics = statistics

    def bound(self, move: np.ndarray) -> float:
        """NaN: the bound of a ratio depends on both points, and is computed with it."""
        return math.nan


class OnStatistics:
    """Sum of sufficient statistics, with fresh noise at each comparison (Yıldırım & Ermiş 2019, Algorithm 3).

    Parameters
    ----------
    statistics : SufficientStatistics
    clip : StatisticClip
    tempering : float
    sensitivity : float
        2 if a record is replaced, 1 if it is added or removed.
    noise_multiplier : float

    Notes
    -----
    **Privacy.** The log-ratio between two points is ``n (ln g' - ln g) + (phi' - phi)' S``, S the sum of
    clipped statistics, computed once. One record moves it by at most ``2 R norm(phi' - phi)`` (substitute),
    or by ``|ln g' - ln g| + R norm(phi' - phi)`` (add/remove, n private): the noise is in proportion. A fresh
    noisy S at each iteration, as in Algorithm 3, would be used through this projection only, which has this
    noise (docs/proofs/penalty).
    """

    def __init__(
        self,
        statistics: SufficientStatistics,
        clip: StatisticClip,
        tempering: float,
        sensitivity: float,
        noise_multiplier: float,
    ):
        self.statistics, self.tempering, self.clip = statistics, tempering, clip
        self._sensitivity, self.noise_multiplier = sensitivity, noise_multiplier
        self._sum: StatisticSum | None = None

    def bound_of_noise(self, noise_std: float) -> float:
        """Largest change of a record's part at which the noise has a given standard deviation."""
        return noise_std / (self.tempering * self._sensitivity * self.noise_multiplier)

    def rate(self, start: np.ndarray) -> Callable[[np.ndarray], float] | None:
        """Bound of a short move from `start`; None where there is no density."""
        here = self.statistics.natural(start)

        def rate(move: np.ndarray) -> float:
            return self._bound(here, self.statistics.natural(start + _SHORT * move)) / _SHORT

        return rate if math.isfinite(rate(np.ones(start.size))) else None

    def _bound(self, here: Natural, there: Natural) -> float:
        """Most that a record adds; its ln g as well if n is private. NaN or inf if an input is."""
        bound = self.clip.largest(there.phi - here.phi)
        own = (
            0.0 if self._sensitivity == ExactSum.sensitivity("substitute") else abs(there.log_g - here.log_g)
        )
        return max((bound + own) * _HEADROOM, SMALLEST_BOUND)

    def at(self, theta: np.ndarray) -> tuple[Natural, float]:
        """Natural parameter, and log-prior; the records are read at a chain's first point."""
        if self._sum is None:
            self._sum = self.statistics.total()
        natural = self.statistics.natural(theta)
        return natural, natural.log_prior

    def __call__(
        self, theta: np.ndarray, new: np.ndarray, kept: Natural, clip_bound: float, random: PrivacyRandom
    ) -> LogRatio:
        """Project the sum, and add noise; reads no record. `clip_bound` follows from the points."""
        there = self.statistics.natural(new)
        bound, total = self._bound(kept, there), self._total
        log_g = there.log_g - kept.log_g
        if not (bound < _LARGEST and abs(log_g) < _LARGEST):  # no density there: public, and never accepted
            return LogRatio(-math.inf, 0.0, 0.0, total.clipped, there, there.log_prior)
        noise = self.noise_multiplier * self._sensitivity * bound
        ratio = self.tempering * self._projected(
            there.phi - kept.phi, log_g, Gaussian(noise, DECIDED), random
        )
        return LogRatio(ratio, self.tempering * noise, bound, total.clipped, there, there.log_prior)

    @property
    def _total(self) -> StatisticSum:
        if self._sum is None:
            raise ValueError("The sum is computed at a chain's first point.")
        return self._sum

    def _projected(self, phi: np.ndarray, log_g: float, noise: Gaussian, random: PrivacyRandom) -> float:
        """``n log_g + phi' S`` and noise, rounded once: the sum is exact, so its sensitivity holds."""
        total = self._total
        units = (phi * self.clip.widths / GRID).tolist()
        # Whole numbers below 2**62, in two halves that float64 holds exactly.
        high, low = (total.total >> 31).tolist(), (total.total & (2**31 - 1)).tolist()
        return noise.release_product(
            [*(unit * 2.0**31 for unit in units), *units, log_g],
            [*map(float, high), *map(float, low), float(total.n)],
            random,
        )
