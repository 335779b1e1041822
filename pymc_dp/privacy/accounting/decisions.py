"""Renyi divergence of accept decisions: what one bit costs, instead of the noisy log-ratio behind it.

An accept decision is ``V <= u`` for a noisy threshold V and a point u that moves by at most a known shift
between neighbouring data sets. The functions here bound ``sup_u D_alpha`` between the two bits, in both
directions. The bounds are proved in docs/proofs/decision_accounting: closed form for bounded-range
decisions, branch and bound with a curvature certificate for the two penalty decisions.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from pymc_dp.privacy.accounting.corners import Corners
from pymc_dp.privacy.accounting.thresholds import Flipped, GaussianThreshold, PenaltyThreshold, Threshold

# Relative distance between the certified bound and the largest value found.
_TOLERANCE = 1e-4
# More than the rounding error of the divergences at a point (docs/proofs/decision_accounting, "Rounding").
_ROUNDING = 1e-8
_MAX_CELLS = 200_000
_PARTS = 5  # a cell that is not settled is cut into
# Orders minus 1 of the search, over the noise multiplier.
_AT = np.array([0, 0.06, 0.12, 0.18, 0.25, 0.35, 0.45, 0.55, 0.7, 0.85, 1])
_LEAST_ORDER = 0.02
_LARGEST = 30.0  # of divergences that are searched for
_FARTHER = 1.3 ** np.arange(60)  # where tails are tried
_SLICE = 0.25  # the curvature bound treats shifts in pieces of this many noise scales
# Noise scales that are searched; beyond, that of the next larger one, or of all, is nearly as good.
_SMALLEST_STD, _LARGEST_STD = 1e-3, 30.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


# ---- bounded range -----------------------------------------------------------------------------------------


def bounded_range_rdp(eta: float, orders: Sequence[float]) -> np.ndarray:
    """Renyi divergence bound of an eta-bounded-range decision (exact for Barker's test).

    Parameters
    ----------
    eta : float
        The log-odds of the decision move by at most this much, >= 0 (nats).
    orders : sequence of float, shape (m,)
        Renyi orders, > 1.

    Returns
    -------
    ndarray, shape (m,)
        ``sup_u D_alpha(Bern(sigma(u)) || Bern(sigma(u + eta)))``; both directions are equal.

    Notes
    -----
    **Privacy.** Likelihood ratios of an eta-bounded-range mechanism lie in an interval
    ``[e^(x - eta), e^x]``; the worst mechanism puts all mass on its ends, and the worst x is a root in
    closed form (Dong, Durfee & Rogers 2020 for the mechanism; docs/proofs/decision_accounting, Proposition
    1). Never more than ``alpha eta^2 / 8``.
    """
    alpha = np.asarray(orders, dtype=float)
    if eta == 0:
        return np.zeros(alpha.shape)
    if not np.isfinite(eta):
        return np.full(alpha.shape, np.inf)
    # e^x = (alpha - 1) A / (alpha B), A = 1 - e^(-alpha eta), B = e^-eta - e^(-alpha eta); F = e^((alpha-1)
    # x) A / (alpha (1 - e^-eta)).
    log_a = np.log(-np.expm1(-alpha * eta))
    log_b = -eta + np.log(-np.expm1(-(alpha - 1) * eta))
    x = np.log1p(-1 / alpha) + log_a - log_b
    log_f = (alpha - 1) * x + log_a - np.log(alpha) - math.log(-math.expm1(-eta))
    # All terms are of order one and cancel to (alpha - 1) alpha eta^2 / 8.
    rounding = 64 * np.finfo(float).eps * (1 + np.abs((alpha - 1) * x) + np.abs(np.log(eta)) + alpha)
    exact = (log_f + rounding) / (alpha - 1)
    return np.minimum(np.minimum(exact, alpha * eta * eta / 8 * (1 + _ROUNDING)), eta)


# ---- penalty: thresholds with log-concave noise ------------------------------------------------------------


def penalty_rdp(noise_multiplier: float, orders: Sequence[float], noise_std: float = math.inf) -> np.ndarray:
    """Certified Renyi divergence bound of one penalty accept decision.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise of the log-ratio over its sensitivity, > 0.
    orders : sequence of float, shape (m,)
        Renyi orders, > 1.
    noise_std : float
        Standard deviation s of the noise of the (tempered) log-ratio, in nats, when it is known before the
        run and the same in every iteration (fixed-radius proposals); inf bounds every s.

    Returns
    -------
    ndarray, shape (m,)
        Upper bound, within 2e-4 relative, of the supremum over the log-ratio of the divergence, both
        directions.

    Notes
    -----
    **Privacy.** The decision is a function of the noisy log-ratio and of a uniform, so that it never costs
    more than the Gaussian release, ``alpha / (2 nm^2)``: that is the largest value returned. Released: the
    decision (for ``noise_std=inf`` also the uniform), not the noisy log-ratio. Proof:
    docs/proofs/decision_accounting, Theorems 2 and 3.
    """
    return np.array(
        [_penalty_rdp(float(noise_multiplier), float(alpha), float(noise_std)) for alpha in orders]
    )


def penalty_curve(noise_multiplier: float, order: float, noise_std: float = math.inf) -> float:
    """As `penalty_rdp` at one order, from a few searches for all orders next to 1.

    At most a few ten-thousandths more: ``(F - 1) / (order (order - 1))`` is log-convex (Lemma 10), so that
    chords of its logarithm are above it.
    """
    if order / noise_multiplier**2 > 2 * _LARGEST:
        return _penalty_rdp(noise_multiplier, order, noise_std)
    sigma, log_moments = _nodes(noise_multiplier, noise_std)
    if not sigma[0] <= order - 1 <= sigma[-1]:
        return _penalty_rdp(noise_multiplier, order, noise_std)
    moment = math.exp(float(np.interp(order - 1, sigma, log_moments)) + _ROUNDING)
    between = math.log1p(order * (order - 1) * moment) / (order - 1)
    return min(between, order / (2 * noise_multiplier**2))


@lru_cache(maxsize=5_000)
def _nodes(noise_multiplier: float, noise_std: float) -> tuple[np.ndarray, np.ndarray]:
    sigma = np.unique(np.maximum(_AT * noise_multiplier, _LEAST_ORDER))
    divergence = [_penalty_rdp(noise_multiplier, 1 + float(one), noise_std) for one in sigma]
    return sigma, np.log(np.expm1(sigma * divergence) / (sigma * (sigma + 1)))


@lru_cache(maxsize=20_000)
def _penalty_rdp(noise_multiplier: float, alpha: float, noise_std: float) -> float:
    gaussian = alpha / (2 * noise_multiplier**2)
    # Beyond these the gain over the Gaussian is small, or of no use, and the search long.
    if alpha < 1.02 or alpha / noise_multiplier > 8 or gaussian > _LARGEST or noise_multiplier > 1e8:
        return gaussian
    if math.isinf(noise_std):
        thresholds: list[Threshold] = [GaussianThreshold()]
        shift = 1 / noise_multiplier
    else:
        if noise_std > _LARGEST_STD:
            return _penalty_rdp(noise_multiplier, alpha, math.inf)
        # The divergence grows with the scale (Proposition 9): a smaller one may be rounded up.
        noise_std = max(noise_std, _SMALLEST_STD)
        one = PenaltyThreshold(noise_std)
        thresholds, shift = [one, Flipped(one)], noise_std / noise_multiplier
    bound = 0.0
    for threshold in thresholds:
        bound = _certified_maximum(threshold, shift, alpha, bound)
    return min(math.log1p(bound) / (alpha - 1), gaussian)


def _excess(threshold: Threshold, u: np.ndarray, shift: float, alpha: float) -> np.ndarray:
    """``exp((alpha - 1) D) - 1`` between the bits at u and at u + shift, without cancellation."""
    log_q1, log_q0 = threshold.log_probabilities(u + shift)
    if shift <= 0.5 * threshold.scale:
        h1, h0 = threshold.hazards(u[:, None] + 0.5 * shift * (1 + _NODES))
        ratio1, ratio0 = -0.5 * shift * (h1 @ _WEIGHTS), 0.5 * shift * (h0 @ _WEIGHTS)
    else:
        log_p1, log_p0 = threshold.log_probabilities(u)
        ratio1, ratio0 = log_p1 - log_q1, log_p0 - log_q0
    with np.errstate(over="ignore"):
        # sum_b q_b (r_b - 1) = 0, so subtracting alpha times it changes nothing but the rounding error.
        terms = np.exp(log_q1) * convex_excess(ratio1, alpha) + np.exp(log_q0) * convex_excess(ratio0, alpha)
    return terms


def convex_excess(log_ratio: np.ndarray, alpha: float) -> np.ndarray:
    """``r^alpha - 1 - alpha (r - 1)`` at r = exp(log_ratio)."""
    return _exp_minus_two_terms(alpha * log_ratio) - alpha * _exp_minus_two_terms(log_ratio)


def largest_excess(corners: Corners, alpha: float) -> float:
    """Largest ``exp((alpha - 1) D) - 1`` at corners, in both orders of the data sets."""
    low, high = corners.lower, corners.lower + corners.gap
    up, down = corners.losses
    with np.errstate(over="ignore", invalid="ignore"):
        forth = low * convex_excess(up, alpha) + (1 - low) * convex_excess(down, alpha)
        back = high * convex_excess(-up, alpha) + (1 - low - corners.gap) * convex_excess(-down, alpha)
    values = np.maximum(forth, back)
    return float(np.max(np.where(np.isnan(values), np.inf, values)))


def _exp_minus_two_terms(x: np.ndarray) -> np.ndarray:
    """``e^x - 1 - x``."""
    small = np.abs(x) < 0.1
    y = np.where(small, x, 0.0)
    series = 1 + y / 9
    for n in range(8, 2, -1):
        series = 1 + y / n * series
    return np.where(small, y * y / 2 * series, np.expm1(x) - x)


def _curvature(
    threshold: Threshold, low: np.ndarray, high: np.ndarray, shift: float, alpha: float
) -> np.ndarray:
    """Upper bound of minus the second derivative of ``log _excess`` on the cells [low, high] (Lemma 5)."""
    pieces = max(1, math.ceil(shift / (_SLICE * threshold.scale)))
    worst = np.zeros(low.shape)
    for piece in range(pieces):
        y1, y2 = low + shift * piece / pieces, high + shift * (piece + 1) / pieces
        t = shift * (piece + 1) / pieces
        h1_max, h0_min = threshold.hazards(y1)
        h1_min, h0_max = threshold.hazards(y2)
        score_min, score_max = threshold.score(y1), threshold.score(y2)
        slope, bend = threshold.score_slopes(low, y2)  # from low: y runs over [u, u + t] below
        first1 = threshold.hazards(low)[0]
        sum1 = first1 + score_max
        steepest1 = first1 * sum1 * (2 * first1 + np.maximum(score_max, 0.0))
        rise1, rise0 = t * np.maximum(steepest1, 0.0), t * h0_max * slope
        for h_max, h_min, gap_max, gap_min, rise in (
            (h1_max, h1_min, h1_max + score_max, h1_min + score_min, rise1),
            (h0_max, h0_min, h0_max - score_min, h0_min - score_max, rise0),
        ):
            r_max = h_max * np.maximum(gap_max, 0.0)
            rise = np.minimum(rise, threshold.curvature)
            w_min = (alpha - 1) * h_min + np.maximum(gap_min, 0.0)
            with np.errstate(divide="ignore", over="ignore"):
                log_slope = np.maximum(slope, alpha * np.minimum(r_max, threshold.curvature)) / w_min
                value = alpha * rise + slope * (1 + alpha / (alpha - 1)) + log_slope**2 + bend / w_min
            worst = np.maximum(worst, value)
    return worst


def _below(threshold: Threshold, low: np.ndarray, shift: float, alpha: float) -> np.ndarray:
    """Upper bounds of `_excess` below `low` (Lemma 6)."""
    with np.errstate(over="ignore"):
        return np.expm1(-alpha * threshold.log_probabilities(low + shift)[1])


def _above(threshold: Threshold, high: np.ndarray, shift: float, alpha: float) -> np.ndarray:
    """Upper bounds of `_excess` above `high` (Lemma 6)."""
    _, log_rejected = threshold.log_probabilities(high)
    with np.errstate(over="ignore"):
        if isinstance(threshold, Flipped):
            # Reject probabilities a' >= e^-shift a at the far end of -V: the ratio of the bits is at most
            # e^shift.
            return np.exp(log_rejected + alpha * shift)
        _, log_shifted = threshold.log_probabilities(high + shift)
        falling = threshold.hazards(high)[1] >= (alpha - 1) * shift * threshold.curvature
        return np.where(falling, np.exp(alpha * log_rejected - (alpha - 1) * log_shifted), np.inf)


def _certified_maximum(threshold: Threshold, shift: float, alpha: float, least: float) -> float:
    """Upper bound of ``sup_u _excess``, or `least` if that is larger: branch and bound."""
    spread = max(threshold.scale, 1 / math.sqrt(threshold.curvature))
    points = threshold.centre + np.linspace(-4 * spread - shift, 4 * spread, 65)
    best = max(float(np.max(_excess(threshold, points, shift, alpha))), least)
    # With little noise one tail is longer by far than the noise.
    reach = 4 * spread * _FARTHER
    below = _below(threshold, threshold.centre - reach, shift, alpha) <= best
    above = _above(threshold, threshold.centre + reach, shift, alpha) <= best
    if not (below.any() and above.any()):
        return math.inf
    edges = np.linspace(
        threshold.centre - reach[np.argmax(below)], threshold.centre + reach[np.argmax(above)], 65
    )
    left, right = edges[:-1], edges[1:]
    values = _excess(threshold, edges, shift, alpha)
    f_left, f_right = values[:-1], values[1:]
    settled = 0.0
    while left.size:
        best = max(best, float(np.max(f_left)), float(np.max(f_right)))
        # An error of log F - not of F - 1 - is what counts once F is large.
        allowed = best * (1 + _TOLERANCE * max(1.0, math.log1p(best)))
        width = right - left
        with np.errstate(over="ignore"):
            bound = np.maximum(f_left, f_right) * np.exp(
                _curvature(threshold, left, right, shift, alpha) * width**2 / 8
            )
        bound *= 1 + _ROUNDING
        done = bound <= allowed
        settled = max(settled, float(np.max(bound[done], initial=0.0)))
        if np.all(done):
            break
        if np.sum(~done) > _MAX_CELLS:
            return math.inf
        edges = np.linspace(left[~done], right[~done], _PARTS + 1)
        values = np.empty(edges.shape)
        values[0], values[-1] = f_left[~done], f_right[~done]
        values[1:-1] = _excess(threshold, edges[1:-1].ravel(), shift, alpha).reshape(_PARTS - 1, -1)
        left, right, f_left, f_right = (
            one.ravel() for one in (edges[:-1], edges[1:], values[:-1], values[1:])
        )
    return max(settled, best * (1 + _ROUNDING))
