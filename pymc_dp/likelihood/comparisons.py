"""Contributions of units to the sums of a round: scores, centred among those of twins, and their slope."""

import math
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.centre import (
    compiled,
    find_centre,
    find_factors,
    find_squares,
    hold_together,
    length_of,
    subtract,
    sum_products,
)
from pymc_dp.likelihood.unit_bounds import (
    add_to,
    along_sum,
    combine,
    find_left,
    find_root,
    find_stride,
    find_variances,
    fold,
    frobenius,
    inner_product,
    norm_of_outer,
    room_for,
    towards_zero,
)

# Numba's cache sees no change of what is compiled in: 421b5890e008e283 (centre.py, unit_bounds.py).
# Scores are added up as integers: this is the length of one whose length is the clipping bound.
SCORE_GRID = 2**20
# A slope is made of outer products of integer vectors: this is the length of one whose square is the bound.
ROOT_GRID = 2**12
#: The integer norm of a slope whose norm is its bound.
SLOPE_GRID = ROOT_GRID**2
#: Weight of the diagonal of the variance beside a slope: it adds little to the norm.
VARIANCE_WEIGHT = 0.5
#: Part of the slope's bound for all points but the farthest one, to which the rest is left.
TYPICAL = 0.8


class Bounds(NamedTuple):
    """Clipping bounds of one unit, in the metric of a round.

    Attributes
    ----------
    score : float
        C: bound of the Euclidean norm of what a unit adds to the score.
    slope : float
        B: bound of the Frobenius norm of what it adds to the slope, together with the diagonal of the
        variance.
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
    variances : ndarray, shape (p,)
        Diagonal of the variance, in units of ``B / SLOPE_GRID / VARIANCE_WEIGHT``.
    """

    def __init__(self, size: int):
        self.score, self.slope, self.variances = np.zeros(size), np.zeros((size, size)), np.zeros(size)

    def add(self, other: "Totals") -> None:
        """Add sums over other records."""
        self.score += other.score
        self.slope += other.slope
        self.variances += other.variances


def compare(
    own: np.ndarray,
    group: np.ndarray,
    weights: np.ndarray | None,
    rows: np.ndarray,
    bounds: Bounds,
    totals: Totals,
    first: np.ndarray | None = None,
    leaves: np.ndarray | None = None,
) -> None:
    """Add the contributions of m records.

    Parameters
    ----------
    own : ndarray, shape (m, k)
        Derivatives of each record's log-likelihood by its k predictors.
    group : ndarray, shape (G, m, k)
        The same derivatives for the points that a record is compared with: itself and its twins, or all
        possible outcomes. With G = 0 it is compared with nothing: the centre is 0.
    weights : ndarray, shape (G, m), or None
        Probabilities of these points; None for 1 / G.
    rows : ndarray, shape (k, m, p) or (k, 1, p)
        Derivatives of the predictors by the coordinates, in the metric.
    bounds : Bounds
    totals : Totals
        Changed in place.
    first : ndarray of int, shape (units,), or None
        Index of the first record of each unit. A unit's records follow each other in the order in which they
        came about. None: each record is a unit.
    leaves : ndarray of bool, shape (m,), or None
        Whether a record's weight is computed from the slope without the farthest point, as it is for records
        that are compared with twins. None: for all records if there are no weights and more than two points.

    Notes
    -----
    With ``u_j = sum_a group[j, a] rows[a]``, c is Huber's centre: ``sum_j w_j clip(u_j - c) = 0``, found by
    weighted means with Anderson's acceleration of depth one (Walker & Ni 2011, Anderson acceleration for
    fixed-point iterations, section 2), of which six passes come nearer than eight without it. A record
    adds ``w clip(u - c)`` to the score and ``w sum_j w_j kappa_j (u_j - c)(u_j - c)'`` to the slope. Here
    kappa are the factors by which the clip shortens the points, and w, at most 1, is the same for all points
    of the group. The weight w depends on both bounds, C and B: it keeps the slope of all points but the
    farthest within the part `TYPICAL` of B (docs/proofs/twins). A slope that is still beyond its bound is
    scaled down to it.

    The records of a unit are compared one after the other, each within what those before it have left of the
    bounds: an ellipsoid in which the sum of scores stays within C, and what can be added to the slope until
    its norm is B. Both are determined before the record's outcome is, so that each record adds zero on
    average given those before, even if its covariates are outcomes of these (docs/proofs/twins, section 2).

    **Privacy.** A unit adds integers: a vector of norm at most `SCORE_GRID`, and a positive semi-definite
    matrix that, with the variances, has a norm of at most `SLOPE_GRID`. Both norms are computed of the
    integers, and exact. A record of which any number is not finite, or a probability negative, adds zero.
    """
    m, empty = len(own), len(group) == 0
    own, points, rows = (
        np.ascontiguousarray(each, dtype=np.float64) for each in (own, own[None] if empty else group, rows)
    )
    given = np.full((1, 1), 1.0 / len(points)) if weights is None else np.ascontiguousarray(weights)
    starts = np.append(np.arange(m) if first is None else first, m)
    leaves = np.full(m, weights is None and len(points) > 2) if leaves is None else leaves
    # Passes of the search for the centre. The mean that is left after them is subtracted.
    passes = 0 if empty else 6
    how = first is not None, passes, leaves, bounds.score, bounds.slope
    vectors = np.zeros((m * len(rows), rows.shape[2]))
    _compare(own, points, given, rows, starts, how, totals.score, vectors, totals.variances)
    totals.slope += vectors.T @ vectors


@compiled
def _compare(own, points, weights, rows, first, how, score, vectors, variances):
    several, passes, leaves, clip, most = how
    number, m, k = points.shape
    p = rows.shape[2]
    gram, slope, root, others = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
    left, spread = np.zeros((k, k)) if several else gram, np.zeros((k, k))
    centre, d, mean, mine, record = np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k), np.zeros(k)
    group, apart, moved = np.zeros((k, number)), np.zeros((k, number)), np.zeros((k, number))
    given, factors, squares, clipped = np.zeros(number), np.zeros(number), np.zeros(number), np.zeros(number)
    work = np.zeros(k), np.zeros(k), np.zeros(k), apart, squares, factors
    # Integers of the unit's records so far: sums of scores, slopes and variances (`extras`).
    before, matrix, vector = np.zeros(p), np.zeros((p, p)), np.zeros(p)
    variance, extra, extras = np.zeros(p), np.zeros(p), np.zeros(p)
    # Factor on weights, as a margin for rounding errors; the integers themselves are checked exactly.
    below_one = 1 - 2.0**-20
    for unit in range(len(first) - 1):
        before[:] = 0.0
        extras[:] = 0.0
        of_score, of_slope, of_extra = 0.0, 0.0, 0.0
        begin = folded = first[unit] * k
        for i in range(first[unit], first[unit + 1]):
            row = i if rows.shape[1] == m else 0
            finite = True
            for a in range(k):
                for b in range(a + 1):
                    gram[a, b] = gram[b, a] = inner_product(rows[a, row], rows[b, row])
                    finite &= math.isfinite(gram[a, b])
                record[a] = own[i, a]
                finite &= math.isfinite(record[a])
                for j in range(number):
                    group[a, j] = points[j, i, a]
                    finite &= math.isfinite(group[a, j])
            for j in range(number):
                given[j] = weights[0, 0] if weights.size == 1 else weights[j, i]
                finite &= math.isfinite(given[j]) and given[j] >= 0
            if not finite:
                continue
            if leaves[i] and k > 1:
                hold_together(group, given, record, gram, clip)
            if several:  # lengths are relative to what the records before have left of the bounds
                stride = find_stride(group, gram, given, clip, p, apart, squares, centre)
                reach = math.sqrt(of_score) / SCORE_GRID
                find_left(rows, row, before, of_score, reach, clip, stride, gram, left)
            held = (of_slope + of_extra) * (most / SLOPE_GRID) ** 2
            find_centre(group, left, given, clip, passes, work, centre)
            # The mean of the clipped differences would be zero at Huber's centre. It is subtracted.
            subtract(group, centre, apart)
            find_squares(apart, left, squares)
            find_factors(squares, clip, factors)
            farthest = np.argmax(squares)
            part = given[farthest] * factors[farthest]
            for a in range(k):
                mean[a] = 0.0 if passes == 0 else sum_products(given, factors, apart, a)
                for j in range(number):
                    clipped[j] = factors[j] * apart[a, j]
                    moved[a, j] = clipped[j] - mean[a]
                for b in range(a + 1):
                    slope[a, b] = slope[b, a] = sum_products(given, clipped, apart, b)
            find_squares(moved, left, squares)
            longest = math.sqrt(max(squares[np.argmax(squares)], 0.0))
            for a in range(k):
                for b in range(a + 1):
                    spread[a, b] = spread[b, a] = sum_products(given, moved[b], moved, a)
            of_variance = find_variances(spread, rows, row, VARIANCE_WEIGHT, variance)
            for a in range(k):
                d[a] = record[a] - centre[a]
            length = length_of(d, left)
            factor = 1.0 if length <= clip else clip / length
            for a in range(k):
                mine[a] = factor * d[a] - mean[a]
            longest = max(longest, length_of(mine, left))
            norm = math.hypot(frobenius(slope, gram), of_variance)
            find_root(slope, root)
            along = inner_product(extras, variance) * (most / SLOPE_GRID)
            for b in range(k if of_slope > 0 else 0):
                combine(root[:, b], rows, row, vector)
                along += along_sum(vectors, begin, folded, i * k, matrix, vector) * (most / SLOPE_GRID)
            # The weight leaves out the farthest point, which may be the record: records far from their twins
            # would otherwise have hardly any weight, and the search would seem to have arrived.
            typical, along_typical = norm, along
            if leaves[i]:
                for a in range(k):
                    for b in range(k):
                        others[a, b] = slope[a, b] - part * apart[a, farthest] * apart[b, farthest]
                typical = math.hypot(frobenius(others, gram), of_variance) / TYPICAL
                if of_slope > 0:
                    combine(apart[:, farthest], rows, row, vector)
                    far = along_sum(vectors, begin, folded, i * k, matrix, vector) * (most / SLOPE_GRID)
                    along_typical = max(along - part * far, 0.0) / TYPICAL
            weight = clip / longest if longest > clip else 1.0
            room = room_for(typical, along_typical, held, most)
            weight = min(weight, room) * below_one
            if not math.isfinite(weight * norm) or not math.isfinite(longest) or not math.isfinite(along):
                continue
            # What then exceeds the bound is taken from the slope alone, and not from the score.
            room = room_for(norm, along, held, most) * below_one
            cut = room / weight if weight > room else 1.0
            # The slope is the sum of the outer products of k vectors of integers.
            scale = math.sqrt(cut * weight / most) * ROOT_GRID
            towards_zero(variance, cut * weight * weight / most * SLOPE_GRID, extra)
            whole = 0.0
            fits, added = False, 0.0
            for _ in range(64):
                for b in range(k):
                    combine(root[:, b], rows, row, vector)
                    towards_zero(vector, scale, vectors[i * k + b])
                added = norm_of_outer(vectors, i * k, k)
                fits = added <= float(SLOPE_GRID) * float(SLOPE_GRID)
                for b in range(k if fits and of_slope > 0 else 0):
                    added += 2 * along_sum(vectors, begin, folded, i * k, matrix, vectors[i * k + b])
                whole = of_extra + 2 * inner_product(extras, extra) + inner_product(extra, extra)
                if fits and of_slope + added + whole <= float(SLOPE_GRID) * float(SLOPE_GRID):
                    break
                fits = False
                scale *= 0.98
                towards_zero(extra, 0.96, extra)
            if not fits:
                vectors[i * k : i * k + k] = 0.0
                continue
            of_slope += added
            of_extra = whole
            add_to(extras, extra)
            if i * k + k - folded > p and i + 1 < first[unit + 1]:
                fold(vectors, begin, folded, i * k + k, matrix)
                folded = i * k + k
            # The score, as integers.
            combine(mine, rows, row, vector)
            scale = weight / clip * SCORE_GRID
            for _ in range(64):
                towards_zero(vector, scale, extra)
                add_to(extra, before)
                squared = inner_product(extra, extra)
                if squared <= float(SCORE_GRID) * float(SCORE_GRID):
                    before[:] = extra
                    of_score = squared
                    break
                scale *= 0.98
        add_to(score, before)
        add_to(variances, extras)
