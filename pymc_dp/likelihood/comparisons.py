"""What a record adds to the sums of a round: its score, compared with those of its twins, and the slope."""

import math
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.centre import (
    compiled,
    find_centre,
    find_factors,
    find_squares,
    length_of,
    subtract,
    sum_products,
    sum_weighted,
)

# Integers: a score of the length of the clip bound has this length; and the square root of the slope's bound.
SCORE_GRID = 2**20
ROOT_GRID = 2**12
#: A slope of the norm of its bound, in units of the sum.
SLOPE_GRID = ROOT_GRID**2
# Passes of the search for the centre. What they leave is subtracted.
_PASSES = 6
# Weight of the variance's trace in the vector that holds the slope: this over sqrt(p).
_OF_TRACE = 0.5
#: Of the slope's bound, for all points but the farthest: the rest is for that.
TYPICAL = 0.8
# Room for rounding errors before integers are made; the integers themselves are checked exactly.
_ROOM = 1 - 2.0**-20


class Bounds(NamedTuple):
    """Clip bounds of one record, in the metric of a round.

    Attributes
    ----------
    score : float
        C: Euclidean norm of what a record adds to the score.
    slope : float
        B: Frobenius norm of what it adds to the slope, with the trace of the variance.
    """

    score: float
    slope: float


class Totals:
    """Exact sums over records: integers in floating point.

    Parameters
    ----------
    size : int
        p, likelihood coordinates.

    Attributes
    ----------
    score : ndarray, shape (p,)
        In units of ``C / SCORE_GRID``.
    slope : ndarray, shape (p, p)
        In units of ``B / SLOPE_GRID``.
    trace : float
        Of the variance, in units of ``B / SLOPE_GRID / trace_weight``.
    """

    def __init__(self, size: int):
        self.score, self.slope, self.trace = np.zeros(size), np.zeros((size, size)), np.zeros(1)

    def add(self, other: "Totals") -> None:
        """Add sums over other records."""
        self.score += other.score
        self.slope += other.slope
        self.trace += other.trace


def trace_weight(size: int) -> float:
    """Weight of the variance's trace beside a slope of p coordinates: little is added to the slope's norm."""
    return _OF_TRACE / math.sqrt(size)


def compare(
    own: np.ndarray,
    group: np.ndarray,
    weights: np.ndarray | None,
    rows: np.ndarray,
    bounds: Bounds,
    totals: Totals,
) -> None:
    """Add what m records have to say.

    Parameters
    ----------
    own : ndarray, shape (m, k)
        Derivatives of each record's log-likelihood by its k predictors.
    group : ndarray, shape (G, m, k)
        Those of the points that it is compared with: itself and its twins, or all possible outcomes. With
        G = 0 it is compared with nothing: the centre is 0.
    weights : ndarray, shape (G, m), or None
        Probabilities of these points; None for 1 / G.
    rows : ndarray, shape (k, m, p) or (k, 1, p)
        Derivatives of the predictors by the coordinates, in the metric.
    bounds : Bounds
    totals : Totals
        Changed in place.

    Notes
    -----
    With ``u_j = sum_a group[j, a] rows[a]``, c is Huber's centre: ``sum_j w_j clip(u_j - c) = 0``, found by
    weighted means with Anderson's acceleration of depth one (Walker & Ni 2011, Anderson acceleration for
    fixed-point iterations, section 2), of which six passes come nearer than eight without it. A record
    adds ``w clip(u - c)`` and ``w sum_j w_j kappa_j (u_j - c)(u_j - c)'``, kappa the factors of the clip
    and w at most 1 the same for all points of the group. The weight w depends on both bounds, C and B: it
    holds the slope of all points but the farthest within a part of B (docs/proofs/twins). A slope that is
    still beyond its bound is cut off.

    **Privacy.** A record adds integers: a vector of norm at most `SCORE_GRID`, and a positive semi-definite
    matrix that, with the trace, has a norm of at most `SLOPE_GRID`. Both norms are computed of the integers,
    and exact. A record of which any number is not finite, or a probability negative, adds zero.
    """
    k, p = rows.shape[0], rows.shape[2]
    empty = group.shape[0] == 0
    points = np.ascontiguousarray(own[None] if empty else group, dtype=np.float64)
    given = np.full((1, 1), 1.0 / len(points)) if weights is None else np.ascontiguousarray(weights)
    vectors = np.zeros((len(own) * k, p))
    _compare(
        np.ascontiguousarray(own, dtype=np.float64),
        points,
        given,
        np.ascontiguousarray(rows, dtype=np.float64),
        0 if empty else _PASSES,
        weights is None and len(points) > 2,
        (bounds.score, bounds.slope, trace_weight(p)),
        totals.score,
        vectors,
        totals.trace,
    )
    totals.slope += vectors.T @ vectors


@compiled
def _frobenius(matrix, gram):
    """Norm of ``sum_ab matrix[a, b] r_a r_b'`` of rows r with these inner products."""
    total = 0.0
    for a in range(len(gram)):
        for b in range(len(gram)):
            one, two = 0.0, 0.0
            for c in range(len(gram)):
                one += matrix[a, c] * gram[c, b]
                two += matrix[b, c] * gram[c, a]
            total += one * two
    return math.sqrt(max(total, 0.0))


@compiled
def _factor(matrix, root):
    """Lower triangular root of a positive semi-definite matrix; columns without a positive pivot are zero."""
    k = len(matrix)
    largest = 0.0
    for a in range(k):
        largest = max(largest, matrix[a, a])
    for a in range(k):
        for b in range(a + 1):
            total = matrix[a, b]
            for c in range(b):
                total -= root[a, c] * root[b, c]
            if a == b:
                root[a, a] = math.sqrt(total) if total > 1e-14 * largest else 0.0
            else:
                root[a, b] = total / root[b, b] if root[b, b] > 0 else 0.0


@compiled
def _norm_of_outer(vectors, first, k, extra):
    """Frobenius norm of ``sum_b v_b v_b'`` of integer vectors with one integer more; squared."""
    p = vectors.shape[1]
    total = extra * extra
    for a in range(k):
        for b in range(a + 1):
            product = 0.0
            for d in range(p):
                product += vectors[first + a, d] * vectors[first + b, d]
            total += product * product * (1.0 if a == b else 2.0)
    return total


@compiled
def _compare(own, points, weights, rows, passes, leaves, bounds, score, vectors, trace):
    clip, most, of_trace = bounds
    number, m, k = points.shape
    p = rows.shape[2]
    gram, slope, root, others = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
    centre, d, mean, mine, vector = np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(p)
    group, apart, moved = np.zeros((k, number)), np.zeros((k, number)), np.zeros((k, number))
    given, factors, squares, clipped = np.zeros(number), np.zeros(number), np.zeros(number), np.zeros(number)
    work = np.zeros((3, k)), apart, squares, factors
    for i in range(m):
        row = i if rows.shape[1] == m else 0
        finite = True
        for a in range(k):
            for b in range(a + 1):
                product = 0.0
                for e in range(p):
                    product += rows[a, row, e] * rows[b, row, e]
                gram[a, b] = gram[b, a] = product
                finite &= math.isfinite(product)
            finite &= math.isfinite(own[i, a])
            for j in range(number):
                group[a, j] = points[j, i, a]
                finite &= math.isfinite(group[a, j])
        for j in range(number):
            given[j] = weights[0, 0] if weights.size == 1 else weights[j, i]
            finite &= math.isfinite(given[j]) and given[j] >= 0
        if not finite:
            continue
        find_centre(group, gram, given, clip, passes, work, centre)
        # What the passes left is the mean of the clipped differences.
        subtract(group, centre, apart)
        find_squares(apart, gram, squares)
        find_factors(squares, clip, factors)
        farthest = int(np.argmax(squares))
        part = given[farthest] * factors[farthest]
        for a in range(k):
            mean[a] = 0.0 if passes == 0 else sum_products(given, factors, apart, a)
            for j in range(number):
                clipped[j] = factors[j] * apart[a, j]
                moved[a, j] = clipped[j] - mean[a]
            for b in range(a + 1):
                slope[a, b] = slope[b, a] = sum_products(given, clipped, apart, b)
        find_squares(moved, gram, squares)
        longest, variance = math.sqrt(max(np.max(squares), 0.0)), sum_weighted(given, squares)
        for a in range(k):
            d[a] = own[i, a] - centre[a]
        length = length_of(d, gram)
        factor = 1.0 if length <= clip else clip / length
        for a in range(k):
            mine[a] = factor * d[a] - mean[a]
        longest = max(longest, length_of(mine, gram))
        norm = math.hypot(_frobenius(slope, gram), of_trace * variance)
        # The weight goes by the slope without the farthest point, which may be the record itself: else
        # records that are far from their twins would weigh nothing, as if they had arrived.
        typical = norm
        if leaves:
            for a in range(k):
                for b in range(k):
                    others[a, b] = slope[a, b] - part * apart[a, farthest] * apart[b, farthest]
            typical = math.hypot(_frobenius(others, gram), of_trace * variance) / TYPICAL
        weight = 1.0
        if longest > clip:
            weight = clip / longest
        if weight * typical > most:
            weight = most / typical
        weight *= _ROOM
        if not math.isfinite(weight * norm) or not math.isfinite(longest):
            continue
        # What is beyond the bound then is cut off from the slope alone.
        cut = 1.0
        if weight * norm > most * _ROOM:
            cut = most * _ROOM / (weight * norm)
        # The slope: k vectors of integers, whose outer products add up to it.
        _factor(slope, root)
        scale = math.sqrt(cut * weight / most) * ROOT_GRID
        extra = np.floor(of_trace * variance * cut * weight * weight / most * SLOPE_GRID)
        fits = False
        for _ in range(64):
            for b in range(k):
                for e in range(p):
                    value = 0.0
                    for a in range(b, k):
                        value += root[a, b] * rows[a, row, e]
                    vectors[i * k + b, e] = np.trunc(value * scale)
            squared = _norm_of_outer(vectors, i * k, k, extra)
            if squared <= float(SLOPE_GRID) * float(SLOPE_GRID):
                fits = True
                break
            scale *= 0.98
            extra = np.floor(extra * 0.96)
        if not fits:
            vectors[i * k : (i + 1) * k] = 0.0
            continue
        trace[0] += extra
        # The score.
        scale = weight / clip * SCORE_GRID
        fits = False
        for _ in range(64):
            squared = 0.0
            for e in range(p):
                value = 0.0
                for a in range(k):
                    value += mine[a] * rows[a, row, e]
                vector[e] = np.trunc(value * scale)
                squared += vector[e] * vector[e]
            if squared <= float(SCORE_GRID) * float(SCORE_GRID):
                fits = True
                break
            scale *= 0.98
        if fits:
            for e in range(p):
                score[e] += vector[e]
