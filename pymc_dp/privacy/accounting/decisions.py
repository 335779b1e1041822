"""Renyi divergence of accept decisions: what one bit costs, instead of the noisy log-ratio behind it.

An accept decision is ``V <= u`` for a noisy threshold V and a point u that moves by at most a known shift
between neighbouring data sets. The functions here bound ``sup_u D_alpha`` between the two bits, in both
directions. The bounds are proved in docs/proofs/decision_accounting: closed form for bounded-range
decisions, branch and bound with a curvature certificate for the two penalty decisions.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

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
_AT_ONCE = 100_000  # pieces times cells
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
    return _excess_of(_log_ratios(threshold, u, shift), alpha)


def _log_ratios(threshold: Threshold, u: np.ndarray, shift: float) -> tuple[np.ndarray, ...]:
    """Logarithms of the bits' probabilities at u + shift, and of those at u over them."""
    log_q1, log_q0 = threshold.log_probabilities(u + shift)
    if shift <= 0.5 * threshold.scale:
        h1, h0 = threshold.hazards(u[:, None] + 0.5 * shift * (1 + _NODES))
        return log_q1, log_q0, -0.5 * shift * (h1 @ _WEIGHTS), 0.5 * shift * (h0 @ _WEIGHTS)
    log_p1, log_p0 = threshold.log_probabilities(u)
    return log_q1, log_q0, log_p1 - log_q1, log_p0 - log_q0


def _excess_of(log_ratios: tuple[np.ndarray, ...], alpha: float) -> np.ndarray:
    log_q1, log_q0, ratio1, ratio0 = log_ratios
    with np.errstate(over="ignore"):
        # sum_b q_b (r_b - 1) = 0, so subtracting alpha times it changes nothing but the rounding error:
        # `convex_excess` of both.
        whole1, whole0, terms1, terms0 = _exp_minus_two_terms(
            np.array([alpha * ratio1, alpha * ratio0, ratio1, ratio0])
        )
        return np.exp(log_q1) * (whole1 - alpha * terms1) + np.exp(log_q0) * (whole0 - alpha * terms0)


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
    if not small.any():
        return np.expm1(x) - x
    y = np.where(small, x, 0.0)
    series = 1 + y / 9
    for n in range(8, 2, -1):
        series = 1 + y / n * series
    near = y * y / 2 * series
    return near if small.all() else np.where(small, near, np.expm1(x) - x)


def _curvature(
    threshold: Threshold, low: np.ndarray, high: np.ndarray, shift: float, alpha: float
) -> np.ndarray:
    """Upper bound of minus the second derivative of ``log _excess`` on the cells [low, high] (Lemma 5)."""
    return _curvature_of(_shapes(threshold, low, high, shift), low.shape, alpha)


class _Shape(NamedTuple):
    """What the curvature bound takes of a threshold, for pieces of the shift: shape (pieces, cells)."""

    bits: tuple[tuple[np.ndarray, ...], ...]  # for each of the two: largest slope, hazard, gap, rise
    slope: np.ndarray
    bend: np.ndarray


def _shapes(threshold: Threshold, low: np.ndarray, high: np.ndarray, shift: float) -> Iterator[_Shape]:
    pieces = max(1, math.ceil(shift / (_SLICE * threshold.scale)))
    ends = shift * np.arange(pieces + 1) / pieces
    first1 = threshold.hazards(low)[0]
    at_once = max(1, _AT_ONCE // low.size)
    for start in range(0, pieces, at_once):
        stop = min(start + at_once, pieces)
        y1, y2 = low + ends[start:stop, None], high + ends[start + 1 : stop + 1, None]
        t = ends[start + 1 : stop + 1, None]
        h1_max, h0_min = threshold.hazards(y1)
        h1_min, h0_max = threshold.hazards(y2)
        score_min, score_max = threshold.score(y1), threshold.score(y2)
        slope, bend = threshold.score_slopes(low, y2)  # from low: y runs over [u, u + t] below
        sum1 = first1 + score_max
        steepest1 = first1 * sum1 * (2 * first1 + np.maximum(score_max, 0.0))
        rise1, rise0 = t * np.maximum(steepest1, 0.0), t * h0_max * slope
        bits = tuple(
            (
                np.minimum(h_max * np.maximum(gap_max, 0.0), threshold.curvature),
                h_min,
                np.maximum(gap_min, 0.0),
                np.minimum(rise, threshold.curvature),
            )
            for h_max, h_min, gap_max, gap_min, rise in (
                (h1_max, h1_min, h1_max + score_max, h1_min + score_min, rise1),
                (h0_max, h0_min, h0_max - score_min, h0_min - score_max, rise0),
            )
        )
        yield _Shape(bits, slope, bend)


def _curvature_of(shapes: Iterable[_Shape], cells: tuple[int, ...], alpha: float) -> np.ndarray:
    worst = np.zeros(cells)
    for bits, slope, bend in shapes:
        for r_max, h_min, gap_min, rise in bits:
            w_min = (alpha - 1) * h_min + gap_min
            with np.errstate(divide="ignore", over="ignore"):
                log_slope = np.maximum(slope, alpha * r_max) / w_min
                value = alpha * rise + slope * (1 + alpha / (alpha - 1)) + log_slope**2 + bend / w_min
            worst = np.maximum(worst, np.max(value, axis=0))
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


@lru_cache(maxsize=16)
def _grid(
    threshold: Threshold, shift: float, origin: float, low: float, high: float, cells: bool = False
) -> tuple[np.ndarray, tuple[np.ndarray, ...], tuple[_Shape, ...]]:
    """Where a search starts, and what is known there whatever the order: dozens are searched, on one grid."""
    points = origin + np.linspace(low, high, 65)
    shapes = tuple(_shapes(threshold, points[:-1], points[1:], shift)) if cells else ()
    return points, _log_ratios(threshold, points, shift), shapes


def _certified_maximum(threshold: Threshold, shift: float, alpha: float, least: float) -> float:
    """Upper bound of ``sup_u _excess``, or `least` if that is larger: branch and bound."""
    spread = max(threshold.scale, 1 / math.sqrt(threshold.curvature))
    _, found, _ = _grid(threshold, shift, threshold.centre, -4 * spread - shift, 4 * spread)
    best = max(float(np.max(_excess_of(found, alpha))), least)
    # With little noise one tail is longer by far than the noise.
    reach = 4 * spread * _FARTHER
    below = _below(threshold, threshold.centre - reach, shift, alpha) <= best
    above = _above(threshold, threshold.centre + reach, shift, alpha) <= best
    if not (below.any() and above.any()):
        return math.inf
    start, end = threshold.centre - reach[np.argmax(below)], threshold.centre + reach[np.argmax(above)]
    edges, found, shapes = _grid(threshold, shift, 0.0, float(start), float(end), cells=True)
    left, right = edges[:-1], edges[1:]
    values = _excess_of(found, alpha)
    f_left, f_right = values[:-1], values[1:]
    bend = _curvature_of(shapes, left.shape, alpha)
    settled = 0.0
    while left.size:
        best = max(best, float(np.max(f_left)), float(np.max(f_right)))
        # An error of log F - not of F - 1 - is what counts once F is large.
        allowed = best * (1 + _TOLERANCE * max(1.0, math.log1p(best)))
        width = right - left
        with np.errstate(over="ignore"):
            bound = np.maximum(f_left, f_right) * np.exp(bend * width**2 / 8)
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
        bend = _curvature(threshold, left, right, shift, alpha)
    return max(settled, best * (1 + _ROUNDING))
