"""Where the penalty test's noisy log-likelihood ratio comes from: all records, or a batch of them."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_dp import batch_ratio
from pymc_dp.clipping import Clip, ConstantClip
from pymc_dp.privacy import pricing
from pymc_dp.privacy.plan import Call, PrivacyPlan
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.privacy.subsets import Subsets
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID


class Comparison(NamedTuple):
    """A proposal against the current point.

    Attributes
    ----------
    kept : object
        What is stored if the proposal is accepted (private).
    log_prior : float
        At the proposal; data-free.
    ratio : float
        Tempered log-likelihood ratio with Gaussian noise, in nats.
    noise_std : float
        Standard deviation of that noise, public.
    clipped : float
        Number of clipped records (private).
    bound : float, optional
        Clip bound, public, where it is not the one that was asked for.
    """

    kept: Any
    log_prior: float
    ratio: float
    noise_std: float
    clipped: float
    bound: float | None = None


class NoisyRatio(Protocol):
    """Compares two points on the records, and says what that costs.

    Attributes
    ----------
    mechanism : str
        For the report.
    approximation : str
        How the chain's law differs from the exact posterior even if nothing is clipped.
    """

    mechanism: str = "Gaussian noise on the sum of clipped log-likelihood ratios, penalty test"
    approximation: str = ""

    def price(self, call: Call, *, release: str, clip_fraction: bool, **scale: Any) -> PrivacyPlan:
        """Noise for a call; `scale` as in `pricing.penalty`."""

    def facts(self, plan: PrivacyPlan) -> dict[str, Any]:
        """More public facts, for the report."""
        return {}

    def start(self, plan: PrivacyPlan) -> None:
        """Before a chain's first iteration."""
        return None

    def bound_of_noise(self, noise_std: float, noise_multiplier: float) -> float:
        """Clip bound, in nats, at which the noise has a given standard deviation."""

    def rate(self, clip: Clip) -> Callable[[np.ndarray], float] | None:
        """Clip bound of a short move, or None if that does not depend on the move."""
        return None if isinstance(clip, ConstantClip) else clip.bound

    def at(self, theta: np.ndarray) -> tuple[Any, float]:
        """What is kept at a starting point, and its log-prior."""

    def compare(
        self,
        theta: np.ndarray,
        new: np.ndarray,
        kept: Any,
        bound: float,
        noise_multiplier: float,
        random: PrivacyRandom,
    ) -> Comparison:
        """Noisy ratio of `new` against `theta`, each record's clipped at `bound`."""


class OnAllRecords(NoisyRatio):
    """Exact sum over all records, plus noise (Yıldırım & Ermiş 2019, Algorithm 1).

    Parameters
    ----------
    records : RecordModel
    tempering : float
    sensitivity : float
        Most that one record moves the sum, in units of the clip bound.
    """

    def __init__(self, records: RecordModel, tempering: float, sensitivity: float):
        self.records, self.tempering, self.sensitivity = records, tempering, sensitivity

    def price(self, call: Call, *, release: str, clip_fraction: bool, **scale: Any) -> PrivacyPlan:
        """See `pricing.penalty`."""
        return pricing.penalty(call, clip_fraction=clip_fraction, release=release, **scale)

    def bound_of_noise(self, noise_std: float, noise_multiplier: float) -> float:
        """Clip bound at which the noise has a given standard deviation."""
        return noise_std / (self.tempering * self.sensitivity * noise_multiplier)

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Log-likelihood of each record, and log-prior."""
        return self.records.full_batch.at(theta)

    def compare(
        self,
        theta: np.ndarray,
        new: np.ndarray,
        kept: np.ndarray,
        bound: float,
        noise_multiplier: float,
        random: PrivacyRandom,
    ) -> Comparison:
        """One pass over the data."""
        ratios = self.records.full_batch(new, kept, bound)
        # The noise is added to the exact sum, in units of the bound; scaling and rounding come after it.
        noise = noise_multiplier * self.sensitivity
        noisy_sum = ratios.total / GRID + noise * random.normal()
        scale = self.tempering * bound
        return Comparison(ratios.rows, ratios.log_prior, scale * noisy_sum, scale * noise, ratios.clipped)


class OnBatches(NoisyRatio):
    """Batches without replacement, corrected for their own variance (Räisä 2021, section 4.1).

    Parameters
    ----------
    records : RecordModel
    tempering : float
    batch_size : int
    neighboring_relation : {"substitute"}

    Raises
    ------
    ValueError
        The relation is another, or the batch size is not between 2 and n.
    """

    approximation = "approximate: the error of a batch is taken for normal, of estimated variance"

    def __init__(self, records: RecordModel, tempering: float, batch_size: int, neighboring_relation: str):
        if neighboring_relation != "substitute":
            raise ValueError("batch_size= is for neighboring_relation='substitute' only: n must be public.")
        self.records, self.batches = records, Subsets(records.n, batch_size)
        self._sizes = (batch_size, records.n, tempering)

    def price(self, call: Call, *, release: str, clip_fraction: bool, **scale: Any) -> PrivacyPlan:
        """Räisä 2021, Theorem 9; neither a known scale nor the clip fraction is used."""
        return pricing.penalty_on_batches(call, self.batches, release=release)

    def bound_of_noise(self, noise_std: float, noise_multiplier: float) -> float:
        """Clip bound at which the noise has a given standard deviation."""
        return batch_ratio.bound_of_noise(noise_std, noise_multiplier, *self._sizes)

    def at(self, theta: np.ndarray) -> tuple[None, float]:
        """Nothing, and the log-prior."""
        return None, self.records.log_prior(theta)

    def compare(
        self,
        theta: np.ndarray,
        new: np.ndarray,
        kept: None,
        bound: float,
        noise_multiplier: float,
        random: PrivacyRandom,
    ) -> Comparison:
        """Two evaluations of a new batch."""
        ratios = self.records.ratios(theta, new, self.batches.draw(random))
        value = batch_ratio.corrected_ratio(ratios, bound, *self._sizes[1:])
        noise = noise_multiplier * batch_ratio.sensitivity(bound, *self._sizes)
        noisy = bound * (value + noise * random.normal())
        return Comparison(None, self.records.log_prior(new), noisy, bound * noise, 0.0)
