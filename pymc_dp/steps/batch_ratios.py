"""Where DPFastMH's log-likelihood ratio comes from: batches of TunaMH, or all records."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_dp import tuna
from pymc_dp.privacy.multisets import Multisets
from pymc_dp.privacy.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID


class Difference(NamedTuple):
    """A proposal against the current point.

    Attributes
    ----------
    ratio : float
        Tempered log-likelihood ratio, in nats, with Gaussian noise if there is any (private).
    noise_std : float
        Standard deviation of that noise, in nats; public.
    log_prior : float
        At the proposal; data-free.
    kept : object
        What is stored if the proposal is accepted (private).
    """

    ratio: float
    noise_std: float
    log_prior: float
    kept: Any


class Ratio(Protocol):
    """Compares two points on the records."""

    def at(self, theta: np.ndarray) -> tuple[Any, float]:
        """What is kept at a starting point, and its log-prior."""

    def compare(
        self, theta: np.ndarray, new: np.ndarray, kept: Any, bound: float, random: PrivacyRandom
    ) -> Difference:
        """`new` against `theta`; each record's tempered ratio is clipped at `bound`, in nats."""


class OnAllRecords:
    """Exact sum over all records.

    Parameters
    ----------
    records : RecordModel
    tempering : float
    noise : float
        Standard deviation of the noise on the sum, in units of the clip bound; 0 for none.
    """

    def __init__(self, records: RecordModel, tempering: float, noise: float):
        self.records, self.tempering, self.noise = records, tempering, noise

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Log-likelihood of each record, and log-prior."""
        return self.records.full_batch.at(theta)

    def compare(
        self, theta: np.ndarray, new: np.ndarray, kept: np.ndarray, bound: float, random: PrivacyRandom
    ) -> Difference:
        """One pass over the data."""
        found = self.records.full_batch(new, kept, bound / self.tempering)
        noise = self.noise * random.normal() if self.noise else 0.0
        ratio = bound * (found.total / GRID + noise)
        return Difference(ratio, bound * self.noise, found.log_prior, found.rows)


class OnMultisets:
    """Batches of TunaMH.

    Parameters
    ----------
    records : RecordModel
    tempering : float
    batches : Multisets
    noise_std : float
        Standard deviation of the noise of the longest move, in nats; 0 for none.
    """

    def __init__(self, records: RecordModel, tempering: float, batches: Multisets, noise_std: float):
        self.records, self.tempering, self.batches = records, tempering, batches
        self._noise = noise_std / tuna.largest_term(batches.clip_bound, batches)

    def at(self, theta: np.ndarray) -> tuple[None, float]:
        """Nothing, and the log-prior."""
        return None, self.records.log_prior(theta)

    def compare(
        self, theta: np.ndarray, new: np.ndarray, kept: None, bound: float, random: PrivacyRandom
    ) -> Difference:
        """Two evaluations of the drawn records."""
        index = self.batches.draw(random, self.records.n)
        ratios = self.tempering * self.records.ratios(theta, new, index)
        ratio = tuna.log_ratio(ratios, bound, self.batches, random.uniform(index.size))
        noise_std = self._noise * tuna.largest_term(bound, self.batches)
        if noise_std:
            ratio += noise_std * random.normal()
        return Difference(ratio, noise_std, self.records.log_prior(new), None)
