"""Renyi divergence of accept decisions on a batch drawn without replacement: the cost of one bit.

Charging the noisy log-ratio that the bit is computed from would cost 1.4 to 1.8 times as much for the penalty
test, and hundreds of times as much for Barker's test by Räisä 2021, Theorem 8. Proofs: docs/proofs/barker.
"""

import math
from functools import lru_cache

import numpy as np

from pymc_dp.privacy.accounting.decisions import CELLS, largest_excess, supremum, threshold_rdp
from pymc_dp.privacy.accounting.thresholds import LARGEST_SHIFT, GaussianThreshold, on_batches, pairs


@lru_cache(maxsize=100_000)
def subset_penalty_rdp(q: float, noise_multiplier: float, order: float) -> float:
    """Bound the Renyi divergence of one decision of the penalty test, "substitute".

    Parameters
    ----------
    q : float
        Batch size divided by the number of records, in (0, 1].
    noise_multiplier : float
        Standard deviation of the noise of the batch's log-ratio, divided by the most by which one record of
        the batch moves it.
    order : float
        > 1.

    Returns
    -------
    float
        Upper bound, in both directions; inf where the search finds none.

    Notes
    -----
    **Privacy.** Released: the decision, and its uniform. docs/proofs/barker, Theorem 6: one record moves the
    normal quantile of the acceptance probability by at most ``1 / noise_multiplier``.
    """
    shift = 1 / noise_multiplier
    return math.inf if shift > LARGEST_SHIFT else threshold_rdp(GaussianThreshold(), q, shift, order)


@lru_cache(maxsize=100_000)
def subset_barker_rdp(batch_size: int, dataset_size: int, order: float) -> float:
    """Bound the Renyi divergence of one decision of minibatch Barker, "substitute".

    Parameters
    ----------
    batch_size, dataset_size : int
        b >= 2 records out of n, without replacement. Ratios are clipped at ``sqrt(b) / (T n)``, and the noise
        variance is 2 minus at most the variance of the batch with divisor b.
    order : float
        > 1.

    Returns
    -------
    float
        Upper bound, in both directions; inf at orders of about b / 5 and above.

    Notes
    -----
    **Privacy.** Released: the decision; not which records were drawn. The distribution of V, which is added
    to the noise, and what is added to the log-ratio are arbitrary but public. docs/proofs/barker, Theorem 4:
    wherever the record is in its range, the acceptance probability is in ``[Phi(y), Phi(y + shift)]``, and
    the ends are the worst case.
    """
    q = batch_size / dataset_size
    beta, gamma = rates = _rates(batch_size)
    step = math.expm1(2 * gamma) / gamma
    quadratic = step * gamma * (1 + step * gamma)
    linear = step * beta * (1 + 2 * step * gamma)

    def tail(reach: float) -> float:
        falling = reach * (1 - 2 * order * quadratic) > order * linear and reach > gamma / beta
        return _log_tail(reach, order, float(_shift(np.asarray(reach), rates)), q) if falling else math.inf

    def bounds(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        shift = _shift(-left, rates)  # the largest of each cell
        found = []
        for below in (False, True):
            # The quantile of the larger probability of a rejection is as far below 0 as that of the smaller
            # probability of an acceptance.
            curve = pairs(GaussianThreshold(), np.array([left, right]) - (shift if below else 0), shift)
            found.append(on_batches(q, *curve, below))
        return largest_excess(found, order)

    # Lengths of the range of quantiles that are tried. Beyond the last, probabilities would underflow.
    reaches = (8.0, 12.0, 18.0, 27.0, 36.0)
    points = np.linspace(-reaches[0], 0.0, CELLS + 1)
    best = float(np.max(bounds(points, points)))
    small = min(math.log(best) if best > 0 else -math.inf, -math.log(2 * order))
    reach = next((one for one in reaches if tail(one) < small), None)
    if reach is None or not best < math.inf:
        return math.inf
    largest = supremum(bounds, np.linspace(-reach, 0.0, CELLS + 1))
    return math.log1p(max(largest, best)) / (order - 1)


def _rates(batch_size: int) -> tuple[float, float]:
    """Return the rates (beta, gamma) at which the quantile of the acceptance probability moves (Lemma 3).

    Its derivative by the record's ratio, in units of the clip bound, is at most ``beta + gamma max(|y|, gamma
    / beta)``.
    """
    return 1 / math.sqrt(batch_size), (1 + math.sqrt(2)) / (2 * batch_size)


def _shift(distance: np.ndarray, rates: tuple[float, float]) -> np.ndarray:
    """Return the most by which the quantile moves from y, ``|y| <= distance``, over the record's range."""
    beta, gamma = rates
    return (beta + gamma * np.maximum(distance, gamma / beta)) * math.expm1(2 * gamma) / gamma


def _log_tail(reach: float, order: float, shift: float, q: float) -> float:
    """Return the log of a bound of the excess at ``|y| >= reach`` (Lemma 5), given the shift at `reach`."""
    ratio = shift * (reach + shift + 1 / reach)
    mixed = min(ratio, max(ratio + math.log(2 * q), math.log(2)))
    return -0.5 * reach**2 + order * mixed + math.log1p(2 * order**2)
