"""The log-likelihood ratio as an exact sum over all records, with or without noise."""

import math

import numpy as np

from pymc_dp.errors import PrivacyError
from pymc_dp.kernels.metropolis import LogRatio, Move, State
from pymc_dp.privacy.mechanisms.randomness import DECIDED, ExactSum, Gaussian, PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID
from pymc_dp.remote.owners import RecordsOfOwners
from pymc_dp.remote.shards import ShardedRecords

# Records in one place, or in several parts.
Records = RecordModel | ShardedRecords


class Fresh[R: Records | RecordsOfOwners]:
    """Base class of ratios that keep nothing from one iteration to the next, such as those of new batches."""

    records: R

    def at(self, theta: np.ndarray) -> tuple[None, float]:
        """Return None, as nothing is kept, and the log-prior."""
        return None, self.records.log_prior(theta)


class AllRecords:
    """Sum of clipped log-likelihood ratios over all records (Yıldırım & Ermiş 2019, Algorithm 1).

    Parameters
    ----------
    records : RecordModel or ShardedRecords
    tempering : float
    noise : float, optional
        Standard deviation of the Gaussian noise on the sum, in units of the clip bound. Default: no noise.
    largest : float
        Largest clip bound, in untempered nats: the bound that was paid for, to which larger ones are lowered.
        A shorter move has a smaller bound, and less noise, unless `Chain.clip_bound` fixes the bound.
    only : float, optional
        Standard deviation of the noise of every move, in tempered nats, if the price is that of decisions
        whose noise has this scale.

    Raises
    ------
    PrivacyError
        When called, if the clip bound of a move, which is public, gives noise of another scale than `only`.

    Notes
    -----
    **Privacy.** In units of the clip bound one record moves the sum by at most 2 if it is replaced, by 1 if
    it is added or removed: the sum is an exact integer over ``2**20``. Scaling comes after the noise.
    """

    def __init__(
        self,
        records: Records,
        tempering: float,
        noise: float | None = None,
        largest: float = math.inf,
        only: float | None = None,
    ):
        self.records, self.tempering, self.noise, self.largest = records, tempering, noise, largest
        self._only = only
        self._gaussian = Gaussian(noise or 0.0, DECIDED)
        _ = records.full_batch  # made now, before anything is paid for

    def at(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the log-likelihood of each record, and the log-prior."""
        return self.records.full_batch.at(theta)

    def bound_of_noise(self, noise_std: float) -> float:
        """Return the clip bound at which the noise has a given standard deviation, in tempered nats."""
        return noise_std / (self.tempering * (self.noise or 0.0))

    def __call__(self, state: State, move: Move, random: PrivacyRandom) -> LogRatio:
        """Compute the noisy log-ratio, in one pass over the data."""
        bound = min(move.clip_bound, self.largest)
        scale = self.tempering * bound
        if self._only is not None and not math.isclose(scale * (self.noise or 0.0), self._only, rel_tol=1e-9):
            raise PrivacyError(
                "A move has another clip bound than the one whose noise was paid for: each has to be as long."
            )
        found = self.records.full_batch(move.new, state.kept, bound)
        total, noise = found.total / GRID, self.noise
        if noise is None:
            value, noise = scale * total, 0.0
        else:
            value = self._gaussian.release(ExactSum(total, scale), random)
        return LogRatio(value, scale * noise, found.clipped, found.rows, found.log_prior)
