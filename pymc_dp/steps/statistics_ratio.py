"""The penalty test's noisy ratio from sufficient statistics, at a cost that does not depend on n."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

from pymc_dp.bounds import check_bound
from pymc_dp.clipping import SMALLEST_BOUND, Clip, as_clip
from pymc_dp.privacy import pricing
from pymc_dp.privacy.plan import Call, PrivacyPlan
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.statistics import GRID, StatisticBound, Statistics, StatisticSum
from pymc_dp.records.sufficient import Natural, SufficientStatistics
from pymc_dp.steps.noisy_ratios import Comparison, NoisyRatio

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

    def __init__(self, statistics: "str | Statistics", bound: Any):
        check_bound("statistic_bound", bound, several=True)
        super().__init__(bound)
        self.statistics = statistics

    def bound(self, move: np.ndarray) -> float:
        """NaN: the bound of a ratio depends on both points, and is computed with it."""
        return math.nan


class OnStatistics(NoisyRatio):
    """Sum of sufficient statistics, with fresh noise at each comparison (Yıldırım & Ermiş 2019, Algorithm 3).

    Parameters
    ----------
    model : pymc.Model
    records : RecordModel
        Of this model.
    clip : StatisticClip
    tempering : float
    sensitivity : float
        2 if a record is replaced, 1 if it is added or removed.

    Raises
    ------
    ValueError, ModelRefusedError
        See `SufficientStatistics`.

    Notes
    -----
    **Privacy.** The log-ratio between two points is ``n (ln g' - ln g) + (phi' - phi)' S``, S the sum of
    clipped statistics, computed once. One record moves it by at most ``2 R norm(phi' - phi)`` (substitute),
    or by ``|ln g' - ln g| + R norm(phi' - phi)`` (add/remove, n private): the noise is in proportion. A fresh
    noisy S at each iteration, as in Algorithm 3, would be used through this projection only, which has this
    noise (docs/proofs/penalty).
    """

    mechanism = "Gaussian noise on the projected sum of clipped sufficient statistics, penalty test"

    def __init__(
        self,
        model: pm.Model,
        records: RecordModel,
        clip: StatisticClip,
        tempering: float,
        sensitivity: float,
    ):
        self.statistics = SufficientStatistics(model, records, clip.statistics, clip)
        self.tempering, self.clip, self._start = tempering, clip, records.ravel(model.initial_point(0))
        self._sensitivity = sensitivity
        self._sum: StatisticSum | None = None

    def price(self, call: Call, *, release: str, clip_fraction: bool, **scale: Any) -> PrivacyPlan:
        """See `pricing.penalty`; the noise has no one public size."""
        return pricing.penalty(call, clip_fraction=clip_fraction, release=release)

    def bound_of_noise(self, noise_std: float, noise_multiplier: float) -> float:
        """Largest change of a record's part at which the noise has a given standard deviation."""
        return noise_std / (self.tempering * self._sensitivity * noise_multiplier)

    def rate(self, clip: Clip) -> Callable[[np.ndarray], float] | None:
        """Bound of a short move from the model's initial point."""
        here = self.statistics.natural(self._start)

        def rate(move: np.ndarray) -> float:
            return self._bound(here, self.statistics.natural(self._start + _SHORT * move)) / _SHORT

        return rate if math.isfinite(rate(np.ones(self._start.size))) else None

    def _bound(self, here: Natural, there: Natural) -> float:
        """Most that a record adds; its ln g as well if n is private. NaN or inf if an input is."""
        bound = self.clip.largest(there.phi - here.phi)
        own = 0.0 if self._sensitivity == 2 else abs(there.log_g - here.log_g)
        return max((bound + own) * _HEADROOM, SMALLEST_BOUND)

    def at(self, theta: np.ndarray) -> tuple[Natural, float]:
        """Natural parameter, and log-prior; the records are read at a chain's first point."""
        if self._sum is None:
            self._sum = self.statistics.total()
        natural = self.statistics.natural(theta)
        return natural, natural.log_prior

    def compare(
        self,
        theta: np.ndarray,
        new: np.ndarray,
        kept: Natural,
        bound: float,
        noise_multiplier: float,
        random: PrivacyRandom,
    ) -> Comparison:
        """Project the sum, and add noise; reads no record."""
        there = self.statistics.natural(new)
        bound, total = self._bound(kept, there), self._total
        log_g = there.log_g - kept.log_g
        if not (bound < _LARGEST and abs(log_g) < _LARGEST):  # no density there: public, and never accepted
            return Comparison(there, there.log_prior, -math.inf, 0.0, total.clipped, 0.0)
        noise = noise_multiplier * self._sensitivity * bound
        ratio = self.tempering * self._projected(there.phi - kept.phi, log_g, noise, random.normal())
        return Comparison(there, there.log_prior, ratio, self.tempering * noise, total.clipped, bound)

    @property
    def _total(self) -> StatisticSum:
        if self._sum is None:
            raise ValueError("The sum is computed at a chain's first point.")
        return self._sum

    def _projected(self, phi: np.ndarray, log_g: float, noise: float, normal: float) -> float:
        """``n log_g + phi' S + noise * normal``, rounded once: the sum is exact, so its sensitivity holds."""
        total = self._total
        units = (phi * self.clip.widths / GRID).tolist()
        # Whole numbers below 2**62, in two halves that float64 holds exactly.
        high, low = (total.total >> 31).tolist(), (total.total & (2**31 - 1)).tolist()
        return math.sumprod(
            [*(unit * 2.0**31 for unit in units), *units, log_g, noise],
            [*map(float, high), *map(float, low), float(total.n), normal],
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sum": None}  # a copy holds nothing that was computed from records


def clip_of(
    statistics: Any,
    statistic_bound: Any,
    lipschitz: Any,
    clip_bound: float | None,
    batch_size: int | None,
    kwargs: dict[str, Any],
) -> Clip:
    """Clip of a step: of its sufficient statistics if it has some, otherwise of ratios (see `as_clip`).

    Raises
    ------
    ValueError
        An argument is missing, out of range, or does not go with the others.
    """
    if statistics is None and statistic_bound is None:
        return as_clip(lipschitz, clip_bound, by_part=True)
    if statistics is None or statistic_bound is None:
        raise ValueError(
            "sufficient_statistics= and statistic_bound= belong together: the bound is a public bound on the "
            "norm of a record's statistic (docs/exponential_families)."
        )
    others = {"lipschitz": lipschitz, "clip_bound": clip_bound, "batch_size": batch_size}
    others |= {name: kwargs.get(name) for name in ("privacy_unit", "data")}
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise ValueError(f"With sufficient_statistics=, leave out {', '.join(given)}.")
    return StatisticClip(statistics, statistic_bound)
