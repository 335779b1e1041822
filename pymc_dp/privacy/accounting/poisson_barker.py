"""Renyi divergence of Barker's decision on a sum that each record enters a Poisson number of times (fast MH).

The shift of the log-odds by one record depends on the log-odds: it is twice the clip bound at even odds, as
with the full batch, and larger only where one of the two outcomes is unlikely. Proof: docs/proofs/fast_mh.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit, log_expit, ndtri_exp

from pymc_dp.privacy.accounting.decisions import (
    CELLS,
    LARGEST_EXPONENT,
    ROUNDING,
    range_excess,
    range_peak,
    supremum,
)


def largest_range(rate: float, clip_bound: float, substitute: bool) -> float:
    """Return the most by which one record moves the log-odds of the decision, whatever they are (eta).

    Parameters
    ----------
    rate, clip_bound : float
        See `pymc_dp.privacy.accounting.events.PoissonBarkerDecisionDpEvent`.
    substitute : bool
        One record replaced; otherwise one added or removed.

    Returns
    -------
    float
        ``B (1 + x)`` with ``x = B / rate``; with `substitute` plus ``B / (1 + x)``, or if ``x > sqrt(2)``
        plus ``(6 - 4 sqrt(2)) (rate + B / 2)``. It is attained in the limit of log-odds towards infinity.
    """
    one = np.ones(1)
    up = float(_up(one, rate, clip_bound)[0]) if substitute else 0.0
    return (float(_down(one, rate, clip_bound)[0]) + up) * (1 + ROUNDING)


def probit_range(eta: float) -> float:
    """Return the most by which two acceptance probabilities differ in probits, if by `eta` in log-odds.

    Parameters
    ----------
    eta : float
        >= 0.

    Returns
    -------
    float
        The decision is mu-Gaussian-DP with this mu: the difference of the probits at log-odds of plus and
        minus ``eta / 2``, at most ``eta sqrt(2 pi) / 4``. docs/accounting, Proposition 1.
    """
    return float(_probit(np.array(0.5 * eta)) * 2) * (1 + ROUNDING)


def _probit(log_odds: np.ndarray) -> np.ndarray:
    """Return the standard normal quantile of ``expit(log_odds)``."""
    return -np.sign(log_odds) * ndtri_exp(log_expit(-np.abs(log_odds)))


@lru_cache(maxsize=200_000)
def poisson_barker_rdp(rate: float, clip_bound: float, order: float, substitute: bool) -> float:
    """Bound the Renyi divergence of one decision, by a certified search.

    Parameters
    ----------
    rate, clip_bound : float
        See `pymc_dp.privacy.accounting.events.PoissonBarkerDecisionDpEvent`.
    order : float
        > 1.
    substitute : bool
        One record replaced; otherwise one added or removed.

    Returns
    -------
    float
        Upper bound, in both directions, within 2e-4 relative of the supremum over the log-odds of the
        divergence at the shifts of Theorem 4.

    Notes
    -----
    **Privacy.** Released: the decision; not the drawn indices, nor their number. docs/proofs/fast_mh,
    Theorem 5. The supremum is found by branch and bound: on a cell of log-odds the upward shift is largest at
    its lower end, the downward shift at its upper end, and for constant shifts the divergence has one peak.
    """
    eta = largest_range(rate, clip_bound, substitute)
    coarse = min(eta, order * eta * eta / 8) * (1 + ROUNDING)  # the bounds from the bounded range alone
    if order * eta > LARGEST_EXPONENT:
        return coarse
    added = ((1.0, 1.0),) if substitute else ((1.0, 0.0), (0.0, 1.0))
    return min(coarse, max(_supremum(rate, clip_bound, order, *shifts) for shifts in added))


def _up(s: np.ndarray, rate: float, clip_bound: float) -> np.ndarray:
    """Return the largest increase of the log-odds by an added record, at acceptance probability s.

    It decreases with s.
    """
    root = 1 + np.sqrt(2 * s)
    middle = rate + 0.5 * clip_bound
    return np.where(
        clip_bound * root <= 2 * middle, clip_bound / (1 + clip_bound / rate * s), 2 * middle / root**2
    )


def _down(s: np.ndarray, rate: float, clip_bound: float) -> np.ndarray:
    """Return the largest decrease of the log-odds by an added record. It increases with s."""
    return clip_bound / (1 - clip_bound / (rate + clip_bound) * s)


def _supremum(rate: float, clip_bound: float, order: float, up: float, down: float) -> float:
    """Bound the divergence between log-odds ``y + up(y)`` and ``y - down(y)``, both directions, over real y.

    `up` and `down` are 1, or 0 to omit that shift. inf if the search is not conclusive.
    """
    reach = 40.0 + order * (rate + clip_bound) * clip_bound / rate  # the divergence is small beyond it

    def bounds(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        rise, fall = up * _up(expit(left), rate, clip_bound), down * _down(expit(right), rate, clip_bound)
        return _largest_excess(left, right, rise, fall, order)

    edges = np.concatenate([[-np.inf], np.linspace(-reach, reach, CELLS), [np.inf]])
    return math.log1p(supremum(bounds, edges)) / (order - 1)


def _largest_excess(
    low: np.ndarray, high: np.ndarray, rise: np.ndarray, fall: np.ndarray, order: float
) -> np.ndarray:
    """Return the largest ``exp((order - 1) D) - 1``, y in [low, high], both directions, constant shifts."""
    eta = rise + fall
    peak = range_peak(eta, order)
    # Probability q, under the second data set, of the outcome that is more likely under the first.
    accept = np.clip(peak, expit(low - fall), expit(high - fall))
    reject = np.clip(peak, expit(-high - rise), expit(-low - rise))
    return np.maximum(range_excess(accept, eta, order), range_excess(reject, eta, order))
