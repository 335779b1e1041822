"""Renyi divergence of accept decisions on a batch drawn without replacement: one bit.

Charging the noisy log-ratio behind it costs 1.4 to 1.8 times as much for the penalty test, hundreds of times
for Barker's by Räisä 2021, Theorem 8 (`rdp.barker_minibatch_rdp`). Proofs: docs/proofs/barker.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from pymc_dp.privacy.accounting.corners import (
    LARGEST_SHIFT,
    Corners,
    around,
    normal_curve,
    of_normal,
)
from pymc_dp.privacy.accounting.decisions import convex_excess, largest_excess

# Cells of quantiles: tangents at their ends are within a ten-thousandth of the curve between.
_REACHES = (8.0, 12.0, 18.0, 27.0, 36.0)
_EDGES = np.concatenate([np.arange(36, 12, -0.1), np.arange(12, 6, -0.04), np.arange(6, 0.01, -0.025), [0.0]])
# Beyond the last of these only logarithms can be written down; little happens there, and cells may be wide.
_FAR = np.linspace(36.0, 100.0, 641)
_PARTS = 6
_LARGEST_EXPONENT = 600.0
_ROUNDING = 1e-8  # relative; far more than the rounding error of the divergence at a point
_NEGLIGIBLE = 1e-6


@lru_cache(maxsize=100_000)
def subset_penalty_rdp(q: float, noise_multiplier: float, order: float) -> float:
    """Renyi divergence bound of one decision of the penalty test, "substitute".

    Parameters
    ----------
    q : float
        Batch size over number of records, in (0, 1].
    noise_multiplier : float
        Noise of the log-ratio of the batch over what one record of the batch moves it by.
    order : float
        > 1.

    Returns
    -------
    float
        Upper bound, both directions; inf where the search does not reach.

    Notes
    -----
    **Privacy.** Released: the decision, and its uniform. docs/proofs/barker, Theorem 6: the normal quantile
    of the acceptance probability moves by at most ``1 / noise_multiplier``.
    """
    shift = 1 / noise_multiplier
    if shift > LARGEST_SHIFT:
        return math.inf

    def tail(reach: float) -> float:
        return _log_tail(reach, order, shift) if reach > order * shift else math.inf

    def constant(distance: np.ndarray) -> np.ndarray:
        return np.full(distance.shape, shift)

    return _supremum(order, q, lambda reach: _penalty_corners(q, shift, reach), constant, tail, q * shift)


@lru_cache(maxsize=100_000)
def subset_barker_rdp(batch_size: int, dataset_size: int, order: float) -> float:
    """Renyi divergence bound of one decision, "substitute".

    Parameters
    ----------
    batch_size, dataset_size : int
        b >= 2 out of n, without replacement; ratios clipped at ``sqrt(b) / (T n)``; noise variance 2 less at
        most the variance of the batch with divisor b.
    order : float
        > 1.

    Returns
    -------
    float
        Upper bound, both directions; inf at orders of about b / 5 and above.

    Notes
    -----
    **Privacy.** Released: the decision; not which records were drawn. The distribution V that completes the
    noise, and what is added to the log-ratio, are arbitrary but public. docs/proofs/barker, Theorem 4: with
    the record anywhere in its range the acceptance probability stays in ``[Phi(y), Phi(y + shift)]``, and
    the worst are the ends.
    """
    q = batch_size / dataset_size
    beta, gamma = rates = _rates(batch_size)
    step = math.expm1(2 * gamma) / gamma
    quadratic = step * gamma * (1 + step * gamma)
    linear = step * beta * (1 + 2 * step * gamma)

    def tail(reach: float) -> float:
        falling = reach * (1 - 2 * order * quadratic) > order * linear and reach > gamma / beta
        return _log_tail(reach, order, float(_shift(np.asarray(reach), rates))) if falling else math.inf

    def at(distance: np.ndarray) -> np.ndarray:
        return _shift(distance, rates)

    return _supremum(order, q, lambda reach: _barker_corners(q, batch_size, reach), at, tail, q * beta)


def _supremum(
    order: float,
    q: float,
    corners: Callable[[float], Corners],
    shift_at: Callable[[np.ndarray], np.ndarray],
    tail: Callable[[float], float],
    scale: float,
) -> float:
    """Largest divergence between a bit and its mixture, over where the quantile y of its probability is.

    Parameters
    ----------
    order, q : float
    corners : callable
        Corners of the decisions with ``|y|`` up to a distance.
    shift_at : callable
        Most that y moves from ``|y|`` up to a distance; does not fall with the distance.
    tail : callable
        Logarithm of a bound of the excess beyond a distance; inf where there is none.
    scale : float
        About how far the mixture moves y; says which tails are negligible.
    """
    small = min(math.log(_NEGLIGIBLE * order * (order - 1)) + 2 * math.log(scale), -math.log(2 * order))
    reach = next((one for one in (*_REACHES, float(_FAR[-1])) if tail(one) < small), None)
    if reach is None:
        return math.inf
    largest = max(math.exp(tail(reach)), largest_excess(corners(min(reach, _REACHES[-1])), order))
    if reach > _REACHES[-1]:
        far = _largest(order, q, -_FAR[1:], -_FAR[:-1], shift_at(_FAR[1:]))
        largest = max(largest, far, _largest(order, q, _FAR[:-1], _FAR[1:], shift_at(_FAR[1:])))
    return math.log1p(largest * (1 + _ROUNDING)) / (order - 1) if largest < math.inf else math.inf


def _largest(order: float, q: float, low: np.ndarray, high: np.ndarray, shift: np.ndarray) -> float:
    """Upper bound of the excess on cells of y: each term at the end where it is larger."""
    # Logarithms of P(accept) and P(reject) at the upper end over those at the lower one fall with y.
    accept = _mixed(log_ndtr(low + shift) - log_ndtr(low), q)
    reject = _mixed(log_ndtr(-high - shift) - log_ndtr(-high), q)
    up = _term(log_ndtr(high), accept, order) + _term(log_ndtr(-low), reject, order)
    # The other direction: the mixture is the second argument.
    mixed_accept = log_ndtr(high) + _mixed(log_ndtr(high + shift) - log_ndtr(high), q)
    mixed_reject = log_ndtr(-low) + _mixed(log_ndtr(-low - shift) - log_ndtr(-low), q)
    down = _term(mixed_accept, -accept, order) + _term(mixed_reject, -reject, order)
    return float(np.max(np.maximum(up, down)))


def _mixed(log_ratio: np.ndarray, q: float) -> np.ndarray:
    """Logarithm of ``1 - q + q r`` at r = exp(log_ratio)."""
    if q == 1:
        return log_ratio
    near = np.log1p(q * np.expm1(np.minimum(log_ratio, 1.0)))
    return np.where(log_ratio < 1, near, np.logaddexp(math.log1p(-q), math.log(q) + log_ratio))


def _term(log_weight: np.ndarray, log_ratio: np.ndarray, order: float) -> np.ndarray:
    """Upper bound of weight times ``r^order - 1 - order (r - 1)``; exact unless the power overflows."""
    large = order * log_ratio > _LARGEST_EXPONENT
    # Below exp(-1000) the ratio is 0 for every purpose.
    moderate = np.where(large, 0.0, np.maximum(log_ratio, -1000.0))
    small = np.exp(log_weight) * convex_excess(moderate, order)
    with np.errstate(over="ignore"):
        return np.where(large, np.exp(log_weight + order * log_ratio), small)


def _edges(reach: float) -> np.ndarray:
    return np.append(reach, _EDGES[reach > _EDGES])


@lru_cache(maxsize=64)
def _penalty_corners(q: float, shift: float, reach: float) -> Corners:
    return of_normal(q, shift, _edges(reach))


@lru_cache(maxsize=64)
def _barker_corners(q: float, batch_size: int, reach: float) -> Corners:
    """As of normal decisions, with the largest shift of each cell."""
    edges = _edges(reach)
    # Cut into parts, for the shift within a cell is taken to be its largest.
    edges = np.append(np.linspace(edges[:-1], edges[1:], _PARTS, endpoint=False).T.ravel(), 0.0)
    far, near = edges[:-1], edges[1:]
    shift = _shift(far, _rates(batch_size))
    found = []
    for below in (False, True):
        # The larger probability of a refusal is as far below the middle as the smaller one of an acceptance.
        y = np.array([-far, -near]) - (shift if below else 0)
        curve = normal_curve(q, y, shift, below)
        found.append(around(*curve))
        found += [Corners(curve[0][i], curve[1][i] * (1 + _ROUNDING)) for i in (0, 1)]
    return sum(found[1:], found[0])


def _rates(batch_size: int) -> tuple[float, float]:
    """How fast the normal quantile of the acceptance probability moves with the record (Lemma 3).

    By at most ``beta + gamma max(|y|, gamma / beta)``, the record's ratio in units of the clip bound.
    """
    return 1 / math.sqrt(batch_size), (1 + math.sqrt(2)) / (2 * batch_size)


def _shift(distance: np.ndarray, rates: tuple[float, float]) -> np.ndarray:
    """Most that the quantile moves from y, ``|y| <= distance``, while the record crosses its range."""
    beta, gamma = rates
    return (beta + gamma * np.maximum(distance, gamma / beta)) * math.expm1(2 * gamma) / gamma


def _log_tail(reach: float, order: float, shift: float) -> float:
    """Logarithm of a bound of the excess at ``|y| >= reach`` (Lemma 5), given the shift at `reach`."""
    return -0.5 * reach**2 + order * shift * (reach + shift + 1 / reach) + math.log1p(2 * order**2)
