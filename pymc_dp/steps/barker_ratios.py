"""Barker's test on all records, and on batches (Heikkilä et al. 2019): ratio, price, decision."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from dp_accounting import dp_event

from pymc_dp import barker_correction
from pymc_dp.acceptance import barker
from pymc_dp.clipping import Clip, ConstantClip
from pymc_dp.errors import BudgetError
from pymc_dp.privacy import pricing
from pymc_dp.privacy.events import BoundedRangeDecisionDpEvent
from pymc_dp.privacy.plan import Call, PrivacyPlan
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.privacy.subsets import Subsets
from pymc_dp.privacy.values import round_down
from pymc_dp.records.sums import GRID

# Relative distance of a bound from the calibrated one: covers the rounding of a few operations.
_HEADROOM = 1e-12


class Comparison(NamedTuple):
    """A proposal against the current point.

    Attributes
    ----------
    kept : object
        What is stored if the proposal is accepted (private).
    log_prior : float
        At the proposal; data-free.
    ratio : float
        Tempered log-likelihood ratio, in nats, with its noise if there is any (private).
    clipped : float
        Number of clipped records (private); 0 on a batch, where nothing is made of it.
    """

    kept: Any
    log_prior: float
    ratio: float
    clipped: float


class OnAllRecords:
    """Exact sum over all records; no noise.

    Parameters
    ----------
    records : RecordModel
    tempering : float
    sensitivity : float
        Most that one record moves the sum, in units of the clip bound.
    clip : Clip
        With a constant bound the price is fixed; otherwise the bound follows from the budget.
    """

    mechanism = "sum of clipped log-likelihood ratios, no noise, Barker's test"
    approximation = ""

    def __init__(self, records: Any, tempering: float, sensitivity: float, clip: Clip):
        self.records, self.tempering, self.sensitivity, self.clip = records, tempering, sensitivity, clip
        self.stats = {"noise_std": 0.0}

    def price(self, call: Call, clip_fraction: bool) -> PrivacyPlan:
        """Decisions of bounded range; "clip_bound" is missing where nothing bounds the ratios."""
        unit = self.tempering * self.sensitivity
        if isinstance(self.clip, ConstantClip):
            bound = self.clip.constant
            return _fixed(
                call,
                BoundedRangeDecisionDpEvent(unit * bound),
                lambda: f"clip_bound = {round_down(self._largest(call, clip_fraction))} would fit too.",
                clip_fraction=clip_fraction,
                clip_bound=bound,
            )
        plan = pricing.bounded_range(call, clip_fraction=clip_fraction)
        if math.isinf(call.epsilon):
            return replace(plan, parameters={})
        bound = self._largest(call, clip_fraction)
        return replace(plan, parameters={"clip_bound": bound, **plan.parameters})

    def _largest(self, call: Call, clip_fraction: bool) -> float:
        eta = pricing.bounded_range(call, clip_fraction=clip_fraction).parameters["eta"]
        return eta / (self.tempering * self.sensitivity) * (1 - _HEADROOM)

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Log-likelihood of each record, and log-prior."""
        return self.records.full_batch.at(theta)

    def compare(
        self, theta: np.ndarray, new: np.ndarray, kept: np.ndarray, bound: float, random: PrivacyRandom
    ) -> Comparison:
        """One pass over the data."""
        found = self.records.full_batch(new, kept, bound)
        # The total is an exact integer; its scale and the tempering come after it.
        ratio = self.tempering * bound * (found.total / GRID)
        return Comparison(found.rows, found.log_prior, ratio, found.clipped)

    def accepts(self, log_ratio: float, random: PrivacyRandom) -> bool:
        """Barker's decision."""
        return barker(log_ratio, random.exponential(), random.exponential())


class OnBatches:
    """Batches without replacement, with noise that makes their own error about logistic.

    Parameters
    ----------
    records : RecordModel
    tempering : float
    batch_size : int

    Raises
    ------
    ValueError
        The batch size is not between 11 and n.
    """

    mechanism = "clipped log-likelihood ratios of a batch, noise up to variance 2, Barker's test"
    approximation = (
        "approximate: the error of a batch is taken for normal, and a correction makes noise of variance 2 "
        f"logistic up to {barker_correction.LARGEST_ERROR:.2g} in its distribution function"
    )

    def __init__(self, records: Any, tempering: float, batch_size: int):
        self.records, self.tempering = records, tempering
        self.batches = Subsets(records.n, batch_size)
        self.batches.barker_event()  # refuses batches so small that no order is left
        self.bound = barker_correction.clip_bound(batch_size, records.n, tempering)
        # The standard deviation of the noise itself tells the variance of the batch: this is the total.
        self.stats = {
            "noise_std": math.sqrt(barker_correction.NOISE_VARIANCE),
            "batch_size": float(batch_size),
        }

    def price(self, call: Call, clip_fraction: bool) -> PrivacyPlan:
        """The price of an iteration is fixed by the sizes of batch and data."""
        return _fixed(
            call,
            self.batches.barker_event(),
            lambda: self._advice(call),
            clip_bound=self.bound,
            batch_size=self.batches.batch_size,
        )

    def _advice(self, call: Call) -> str:
        budget, size = pricing.Budget(call), self.batches.batch_size
        while (size := int(0.8 * size)) > 10:
            if budget.fits(budget.plan(Subsets(self.records.n, size).barker_event())):
                return f"batch_size = {size} would fit too; a smaller batch allows shorter moves only."
        return "No smaller batch fits: make fewer draws, a shorter tune or fewer chains, or raise epsilon."

    def at(self, theta: np.ndarray) -> tuple[None, float]:
        """Nothing, and the log-prior."""
        return None, self.records.log_prior(theta)

    def compare(
        self, theta: np.ndarray, new: np.ndarray, kept: None, bound: float, random: PrivacyRandom
    ) -> Comparison:
        """Two evaluations of a new batch, and Gaussian noise: 2 minus the variance of the batch."""
        ratios = self.records.ratios(theta, new, self.batches.draw(random))
        ratio, variance = barker_correction.batch_ratio(ratios, self.records.n, self.tempering)
        noise = math.sqrt(barker_correction.NOISE_VARIANCE - variance) * random.normal()
        return Comparison(None, self.records.log_prior(new), ratio + noise, 0.0)

    def accepts(self, log_ratio: float, random: PrivacyRandom) -> bool:
        """Positive after the correction; False for NaN."""
        return log_ratio + barker_correction.draw(random) > 0


def _fixed(call: Call, event: dp_event.DpEvent, advice: Callable[[], str], **settings: Any) -> PrivacyPlan:
    """`pricing.fixed`, with advice that takes time to find."""
    try:
        return pricing.fixed(call, event, "", **settings)
    except BudgetError as error:
        raise BudgetError(f"{error}{advice()}") from None
