"""Renyi divergence of accept decisions: the cost of one bit, not of the noisy log-ratio behind it.

An accept decision is ``V <= u`` for a noisy threshold V and a point u that moves by at most a known shift
between neighbouring data sets. The functions here bound ``sup_u D_alpha`` between the two bits, in both
directions. The bounds are proved in docs/proofs/decision_accounting: a closed form for bounded-range
decisions, and branch and bound with tangents for the two penalty decisions.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from pymc_dp.privacy.accounting.thresholds import (
    LARGEST_SHIFT,
    GaussianThreshold,
    PenaltyThreshold,
    Threshold,
    around,
    on_batches,
    pairs,
)

#: Relative margin for the rounding error of the divergences at a point (docs/proofs/decision_accounting,
#: "Rounding").
ROUNDING = 1e-8
#: Number of cells with which a search for a supremum starts.
CELLS = 64
#: Largest product of order and range for which exponentials are computed: larger ones might overflow.
LARGEST_EXPONENT = 600.0


# ---- bounded range -----------------------------------------------------------------------------------------


def bounded_range_rdp(eta: float, order: float) -> float:
    """Bound the Renyi divergence of an eta-bounded-range decision (exact for Barker's test).

    Parameters
    ----------
    eta : float
        The most by which one record moves the log-odds of the decision, in nats, >= 0.
    order : float
        > 1.

    Returns
    -------
    float
        ``sup_u D_alpha(Bern(sigma(u)) || Bern(sigma(u + eta)))``; both directions are equal.

    Notes
    -----
    **Privacy.** Likelihood ratios of an eta-bounded-range mechanism lie in an interval
    ``[e^(x - eta), e^x]``. The worst mechanism has all mass on its ends, and the worst x has a closed form
    (Dong, Durfee & Rogers 2020 for the mechanism; docs/proofs/decision_accounting, Proposition 1). The bound
    is never more than ``alpha eta^2 / 8``, or eta.
    """
    coarse = min(eta, order * eta * eta / 8 * (1 + ROUNDING))
    if eta == 0 or order * eta > LARGEST_EXPONENT:
        return coarse
    one = np.asarray(eta, dtype=float)
    exact = math.log1p(float(range_excess(range_peak(one, order), one, order))) / (order - 1)
    return min(exact * (1 + ROUNDING), coarse)


def range_peak(eta: np.ndarray, order: float) -> np.ndarray:
    """Return the probability at which `range_excess` is largest (decision_accounting, Proposition 1)."""
    log_a = np.log(-np.expm1(-order * eta))
    log_b = -eta + np.log(-np.expm1(-(order - 1) * eta))
    log_ratio = np.clip(math.log1p(-1 / order) + log_a - log_b, 0.0, eta)
    return np.expm1(eta - log_ratio) / np.expm1(eta)


def range_excess(q: np.ndarray, eta: np.ndarray, order: float) -> np.ndarray:
    """Return ``sum_b q_b (r_b^order - 1 - order (r_b - 1))`` for odds of q multiplied by ``exp(eta)``."""
    log_reject = -np.log1p(q * np.expm1(eta))
    with np.errstate(over="ignore"):
        return q * convex_excess(eta + log_reject, order) + (1 - q) * convex_excess(log_reject, order)


# ---- penalty: thresholds with log-concave noise ------------------------------------------------------------


@lru_cache(maxsize=20_000)
def penalty_rdp(noise_multiplier: float, order: float, noise_std: float = math.inf) -> float:
    """Bound the Renyi divergence of one penalty accept decision, by a certified search.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise of the log-ratio over its sensitivity, > 0.
    order : float
        Renyi order, > 1.
    noise_std : float
        Standard deviation s of the noise of the (tempered) log-ratio, in nats, if it is known before the
        run and the same in every iteration (fixed-radius proposals); inf for a bound that holds for every s.

    Returns
    -------
    float
        Upper bound, within 2e-4 relative, of the supremum of the divergence over the log-ratio, in both
        directions.

    Notes
    -----
    **Privacy.** The decision is a function of the noisy log-ratio and of a uniform, so that it never costs
    more than the Gaussian release, ``alpha / (2 nm^2)``: that is the largest value returned. Released: the
    decision (for ``noise_std=inf`` also the uniform), not the noisy log-ratio. Proof:
    docs/proofs/decision_accounting, Theorems 2 and 3.
    """
    gaussian = order / (2 * noise_multiplier**2)
    # Beyond these limits the gain over the Gaussian release is small or useless, and the search takes long.
    if order < 1.02 or order / noise_multiplier > 8 or gaussian > 30 or noise_multiplier > 1e8:
        return gaussian
    if noise_std > 30:  # the bound for every scale is nearly as good
        return min(threshold_rdp(GaussianThreshold(), 1.0, 1 / noise_multiplier, order), gaussian)
    # The divergence does not fall with the scale (Proposition 9), so that small scales may be rounded up.
    noise_std = max(noise_std, 1e-3)
    found = threshold_rdp(PenaltyThreshold(noise_std), 1.0, noise_std / noise_multiplier, order)
    return min(found, gaussian)


def threshold_rdp(threshold: Threshold, q: float, shift: float, alpha: float) -> float:
    """Bound the Renyi divergence of a bit ``V <= u`` whose u moves by at most a shift, in a share of batches.

    Parameters
    ----------
    threshold : Threshold
        Distribution of V.
    q : float
        Share of the batches in which u moves, in (0, 1].
    shift : float
        > 0.
    alpha : float
        Order, > 1.

    Returns
    -------
    float
        Upper bound over all u, in both directions; inf where the search finds none.
    """

    def bounds(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return _excess_on_cells(threshold, q, left, right, shift, alpha)

    spread = max(threshold.scale, threshold.std)
    points = threshold.centre + np.linspace(-4 * spread - shift, 4 * spread, CELLS + 1)
    best = float(np.max(bounds(points, points)))
    # With little noise, one tail of V is much longer than the standard deviation of the noise.
    reach = 4 * spread * 1.3 ** np.arange(60)
    below = q * _below(threshold, threshold.centre - shift - reach, shift, alpha) <= best
    above = q * _above(threshold, threshold.centre + reach, shift, alpha) <= best
    if not (best < math.inf and below.any() and above.any()):
        return math.inf
    low, high = threshold.centre - shift - reach[np.argmax(below)], threshold.centre + reach[np.argmax(above)]
    rarest = threshold.log_probabilities(np.array([low, high + shift]))
    if min(rarest[0][0], rarest[1][1]) < -690:  # their exponentials would underflow
        return math.inf
    largest = supremum(bounds, np.linspace(low, high, CELLS + 1))
    return math.log1p(max(largest, best)) / (alpha - 1)


def supremum(
    bounds: Callable[[np.ndarray, np.ndarray], np.ndarray],
    edges: np.ndarray,
) -> float:
    """Bound a function from above: cells are cut until their bounds are close to the largest value found.

    Parameters
    ----------
    bounds : callable
        Upper bounds of an excess on cells, as a function of both ends of each cell. Where the ends are the
        same point, its value there.
    edges : ndarray
        Edges of the first cells. Cells with an infinite edge are never cut.

    Returns
    -------
    float
        inf if the search is not conclusive.
    """
    left, right = edges[:-1], edges[1:]
    best = settled = 0.0
    # Largest relative difference between the certified bound and the largest value found.
    tolerance = 1e-4
    while left.size:
        best = max(best, float(np.max(bounds(left, left))))
        found = bounds(left, right)
        # Once F is large, the error of log F matters, and not that of F - 1.
        done = found <= best * (1 + tolerance * max(1.0, math.log1p(best)))
        settled = max(settled, float(np.max(found[done], initial=0.0)))
        left, right = left[~done], right[~done]
        if left.size > 200_000 or np.any(np.isinf(right - left)):
            return math.inf
        cuts = np.linspace(left, right, 6)  # each cell is cut into five
        left, right = cuts[:-1].ravel(), cuts[1:].ravel()
    return settled * (1 + ROUNDING)


def _excess_on_cells(
    threshold: Threshold, q: float, left: np.ndarray, right: np.ndarray, shift: float, alpha: float
) -> np.ndarray:
    """Bound ``exp((alpha - 1) D) - 1`` for u in [left, right], in both directions, by three corners.

    The larger of the two probabilities of a bit is a concave function of the smaller one, since the density
    is log-concave (Lemma 5). The less probable of the two bits is used.
    """
    rare, common = threshold.log_probabilities(left)[0], threshold.log_probabilities(right + shift)[1]
    rejecting = rare > common
    u = np.where(rejecting, [right, left], [left, right])
    curve = pairs(threshold, u, shift, rejecting)
    ways = (False, True) if q < 1 else (False,)
    return largest_excess([on_batches(q, *curve, below) for below in ways], alpha)


def largest_excess(curves: Sequence[tuple[np.ndarray, ...]], alpha: float) -> np.ndarray:
    """Bound the excess on cells of concave curves, each given at both ends as for `thresholds.around`."""
    corners = [(lower, gap) for curve in curves for lower, gap in zip(*curve[:2], strict=True)]
    if any(np.any(curve[0][0] != curve[0][1]) for curve in curves):  # cells, not points
        corners += [around(*curve) for curve in curves]
    lower, gap = np.array(corners).swapaxes(0, 1)
    return np.max(excess(lower, gap, alpha), axis=0)


def excess(low: np.ndarray, gap: np.ndarray, alpha: float) -> np.ndarray:
    """Return ``exp((alpha - 1) D) - 1`` of pairs of probabilities: the larger one of both directions.

    Parameters
    ----------
    low, gap : ndarray
        The smaller of the two probabilities of one outcome of a decision, and the larger one minus it.
    alpha : float
        Order.
    """
    high = low + gap
    with np.errstate(divide="ignore", invalid="ignore"):  # log-ratios of this outcome, and of the other one
        up, down = np.log1p(gap / low), np.log1p(-gap / (1 - low))
    with np.errstate(over="ignore", invalid="ignore"):
        one, other, back, rest = convex_excess(np.array([up, down, -up, -down]), alpha)
        values = np.maximum(low * one + (1 - low) * other, high * back + (1 - low - gap) * rest)
    return np.where(np.isnan(values), np.inf, values)


def convex_excess(log_ratio: np.ndarray, alpha: float) -> np.ndarray:
    """Return ``r^alpha - 1 - alpha (r - 1)`` at r = exp(log_ratio)."""
    power, plain = _exp_minus_two_terms(np.array([alpha * log_ratio, log_ratio]))
    return power - alpha * plain


def _exp_minus_two_terms(x: np.ndarray) -> np.ndarray:
    """Return ``e^x - 1 - x``."""
    small = np.abs(x) < 0.1
    if not small.any():
        return np.expm1(x) - x
    y = np.where(small, x, 0.0)
    series = 1 + y / 9
    for n in range(8, 2, -1):
        series = 1 + y / n * series
    near = y * y / 2 * series
    return near if small.all() else np.where(small, near, np.expm1(x) - x)


def _below(threshold: Threshold, low: np.ndarray, shift: float, alpha: float) -> np.ndarray:
    """Return upper bounds of the excess below `low`, in both directions (Lemma 6)."""
    if math.isinf(threshold.steepest):  # the normal threshold, which is symmetric
        return _above(threshold, -low - shift, shift, alpha)
    with np.errstate(over="ignore"):
        rejected = np.expm1(-alpha * threshold.log_probabilities(low + shift)[1])
        accepted = np.exp(threshold.log_probabilities(low)[0] + alpha * shift * threshold.steepest)
    return np.maximum(rejected, accepted)


def _above(threshold: Threshold, high: np.ndarray, shift: float, alpha: float) -> np.ndarray:
    """Return upper bounds of the excess above `high`, in both directions (Lemma 6)."""
    log_accepted, log_rejected = threshold.log_probabilities(high)
    _, log_shifted = threshold.log_probabilities(high + shift)
    with np.errstate(over="ignore", invalid="ignore"):
        hazard = np.exp(threshold.log_density(high) - log_rejected)
        falling = hazard >= (alpha - 1) * shift / threshold.std**2
        rejected = np.exp(alpha * log_rejected - (alpha - 1) * log_shifted)
        return np.where(falling, np.maximum(rejected, np.expm1(-alpha * log_accepted)), np.inf)


# ---- batches drawn without replacement (docs/proofs/barker) ----------------------------------------------
#
# To charge the noisy log-ratio that the bit is computed from would cost 1.4 to 1.8 times as much for the
# penalty test, and hundreds of times as much for Barker's test by Räisä 2021, Theorem 8.


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
