"""The log-likelihood ratio on a batch of TunaMH, with which Metropolis-Hastings remains exact.

Zhang, Cooper & De Sa (2020).
"""

import math

import numpy as np

from pymc_dp.clipping import clipped
from pymc_dp.kernels.metropolis import LogRatio, Move, State
from pymc_dp.privacy.mechanisms.randomness import DECIDED, ExactSum, Gaussian, PrivacyRandom, TunaBatches
from pymc_dp.ratios.all_records import Fresh, Records
from pymc_dp.records.sums import GRID


class TunaBatch(Fresh[Records]):
    """Log-ratio of TunaMH, on a new batch for each comparison.

    Parameters
    ----------
    records : RecordModel or ShardedRecords
    tempering : float
    batches : TunaBatches
    noise_std : float
        Standard deviation of the noise at the largest clip bound, in nats; 0 for none.
    """

    def __init__(self, records: Records, tempering: float, batches: TunaBatches, noise_std: float = 0.0):
        self.records, self.tempering, self.batches = records, tempering, batches
        self._noise = noise_std / largest_term(batches.clip_bound, batches)

    def __call__(self, state: State, move: Move, random: PrivacyRandom) -> LogRatio:
        """Draw a batch, evaluate it at both points, and return the log-ratio, with noise if there is any."""
        bound = min(self.tempering * move.clip_bound, self.batches.clip_bound)
        index = self.batches.draw(random, self.records.n)
        ratios = self.tempering * self.records.ratios(state.theta, move.new, index)
        value = log_ratio(ratios, bound, self.batches, random.uniform(index.size))
        noise_std = self._noise * largest_term(bound, self.batches)
        if noise_std:
            value = Gaussian(noise_std, DECIDED).release(ExactSum(value), random)
        return LogRatio(value, noise_std, 0.0, None, self.records.log_prior(move.new))


def largest_term(bound: float, batches: TunaBatches) -> float:
    """Return the most that one draw of a record adds to the log-ratio: ``2 artanh(b / (2 lambda / N + B))``.

    Parameters
    ----------
    bound : float
        b, in nats; at most ``batches.clip_bound``.
    batches : TunaBatches

    Returns
    -------
    float
    """
    return 2 * math.atanh(bound / batches.spread)


def log_ratio(ratios: np.ndarray, bound: float, batches: TunaBatches, uniforms: np.ndarray) -> float:
    """Compute the log-likelihood ratio of TunaMH from the drawn records.

    Parameters
    ----------
    ratios : ndarray, shape (b,)
        Tempered log-likelihood ratio of each draw; clipped here.
    bound : float
        Clip bound of this move and of its reverse, in nats, > 0; at most ``batches.clip_bound``.
    batches : TunaBatches
        The settings with which the records were drawn.
    uniforms : ndarray, shape (b,)
        Uniform draws in [0, 1).

    Returns
    -------
    float
        ``2 sum artanh(w / (2 lambda / N + B))`` over the draws that are kept; one of ratio w is kept with
        probability ``(lambda / N + (B - w) / 2) / (lambda / N + B)``.

    Raises
    ------
    ValueError
        `bound` is not in (0, B].

    Notes
    -----
    Zhang & Zhang 2023, Algorithm 1, with equal c_i: sampling probabilities do not depend on data. With an
    acceptance probability ``a(l) = exp(l) a(-l)`` the chain is reversible (docs/proofs/fast_mh, Theorem 1).

    **Privacy.** A term is rounded first. The probability with which it is kept is that of the ratio to which
    the rounded term corresponds: the identities of the proofs hold for that ratio, which lies in [-bound,
    bound], and the sum of the terms is exact (docs/proofs/fast_mh, section 6).
    """
    if not 0 < bound <= batches.clip_bound:
        raise ValueError(f"bound must lie in (0, {batches.clip_bound!r}], got {bound!r}.")
    unit = largest_term(bound, batches) / GRID
    steps = np.rint(2 * np.arctanh(clipped(ratios, bound) / batches.spread) / unit)
    rounded = batches.spread * np.tanh(0.5 * unit * steps)
    kept = uniforms < 1 - (batches.clip_bound + rounded) / (2 * batches.inclusion)
    return unit * float(np.sum(steps[kept]))
