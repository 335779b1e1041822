"""Norms of what the records of a unit add, and the part of the unit's bounds that is left to the next record.

Records of a unit are compared one after the other (`comparisons`). `gram` has the inner products of a
record's k rows, and `vectors` has integer vectors whose outer products add up to slopes.
"""

import math

import numpy as np

from pymc_dp.likelihood.centre import compiled, find_squares, product_of, subtract

# Numba's cache sees no change of what is compiled in: 07c8eda0f1dc04db (centre.py).


@compiled
def frobenius(matrix, gram):
    """Return the norm of ``sum_ab matrix[a, b] r_a r_b'``, for rows r whose inner products are `gram`."""
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
def find_root(matrix, root):
    """Write the lower triangular root of a semi-definite matrix; columns without positive pivots are zero."""
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
def norm_of_outer(vectors, first, k):
    """Return the squared Frobenius norm of ``sum_b v_b v_b'``, for k integer vectors v from `first` on."""
    total = 0.0
    for a in range(first, first + k):
        for b in range(first, a + 1):
            product = inner_product(vectors[a], vectors[b])
            total += product * product * (1.0 if a == b else 2.0)
    return total


@compiled
def along_sum(vectors, begin, folded, end, matrix, x):
    """Return the inner product of x x' with the sum of outer products of the vectors from `begin` to `end`.

    The sum of those before `folded` is in `matrix`.
    """
    total = product_of(x, x, matrix) if folded > begin else 0.0
    for v in range(folded, end):
        product = inner_product(vectors[v], x)
        total += product * product
    return total


@compiled
def fold(vectors, begin, folded, end, matrix):
    """Add to `matrix` the outer products of the vectors that are not in it yet."""
    if folded == begin:
        matrix[:] = 0.0
    for v in range(folded, end):
        for a in range(len(matrix)):
            for b in range(len(matrix)):
                matrix[a, b] += vectors[v, a] * vectors[v, b]


@compiled
def room_for(norm, along, held, most):
    """Return the largest w for which the norm of T + w M is at most `most`.

    Given are ``norm = |M|``, ``along = <T, M> >= 0`` and ``held = |T|**2``.
    """
    left = most * most - held
    divisor = along + math.sqrt(along * along + norm * norm * max(left, 0.0))
    if left > 0:
        return left / divisor if divisor > 0 else math.inf
    return 0.0


@compiled
def find_left(rows, row, before, of_score, reach, clip, stride, gram, left):
    """Write into `left` inner products of rows in which a vector of length C may be added to the sum S.

    Vectors of this length are an ellipsoid around zero, within the ball of radius C around -S. Its semi-axis
    along S is C - |S|, and the others are sqrt(C (C - |S|)); none is longer than `stride`. `before` is S in
    any unit, `of_score` its squared length in that unit, and `reach` is |S| / C.
    """
    ahead = clip * (1 - reach)
    aside = clip / min(math.sqrt(clip * ahead), stride)
    ahead = clip / min(ahead, stride)
    for a in range(len(gram)):
        one = inner_product(rows[a, row], before)
        for b in range(a + 1):
            other = inner_product(rows[b, row], before)
            more = (ahead * ahead - aside * aside) * one * other / of_score if of_score > 0 else 0.0
            left[a, b] = left[b, a] = aside * aside * gram[a, b] + more


@compiled
def combine(factors, rows, row, out):
    """Write ``sum_a factors[a] r_a`` into (p,), for a record's rows r."""
    for e in range(len(out)):
        out[e] = 0.0
        for a in range(len(factors)):
            out[e] += factors[a] * rows[a, row, e]


@compiled
def find_variances(spread, rows, row, factor, out):
    """Write the variances of all coordinates, times a factor, into (p,), and return the norm of these.

    The variance of a record's score is ``sum_ab spread[a, b] r_a r_b'``, for its rows r.
    """
    squared = 0.0
    for e in range(len(out)):
        value = 0.0
        for a in range(len(spread)):
            for b in range(len(spread)):
                value += spread[a, b] * rows[a, row, e] * rows[b, row, e]
        out[e] = factor * value if value > 0 else 0.0 * value  # by rounding the sum may be negative
        squared += out[e] * out[e]
    return math.sqrt(squared)


@compiled
def inner_product(one, other):
    """Return the inner product of two vectors."""
    total = 0.0
    for e in range(len(one)):
        total += one[e] * other[e]
    return total


@compiled
def towards_zero(vector, factor, out):
    """Write a vector times a factor, as whole numbers that are no farther from zero, into another."""
    for e in range(len(vector)):
        out[e] = np.trunc(vector[e] * factor)


@compiled
def add_to(total, vector):
    """Add a vector to another one."""
    for e in range(len(total)):
        total[e] += vector[e]


@compiled
def find_stride(group, gram, given, clip, p, apart, squares, centre):
    """Return the largest length of a record's score, given the spread of the points it is compared with.

    The mean squared length of these points is the record's information; all records of its unit together have
    p, the number of coordinates. If a few points are far from the others, as for rare events, then few of a
    unit's records have long scores, and the limit is higher: the mean fourth power of the lengths, over three
    times the square of the mean squared length, measures that.
    """
    for a in range(len(centre)):
        centre[a] = inner_product(given, group[a])
    subtract(group, centre, apart)
    find_squares(apart, gram, squares)
    second, fourth = inner_product(given, squares), 0.0
    for j in range(len(given)):
        fourth += given[j] * squares[j] * squares[j]
    if not second > 0:
        return clip
    # Mean fourth power of a standard normal variable.
    of_normal = 3.0
    farther = max(1.0, math.sqrt(fourth / of_normal) / second)
    # Largest part of its unit's information that a record is taken to have: it may then use nearly all of the
    # bound.
    whole = 0.999
    part = min(second / p, whole)
    # The solution s of s**2 / (1 - s) = part / (1 - part). The rest of the information, if it is orthogonal
    # to this record's, then is left its own part of the bound.
    even = (math.sqrt(part * (4 - 3 * part)) - part) / (2 * (1 - part))
    # A record may use up
    # to this many times the part of the unit's bound that it would have if all of the unit's records had as
    # much information as it does, and if their sums grew as those of independent records do. Without a limit,
    # the first records would leave little of the bound to the others.
    stride = 1.6
    return clip * min(1.0, (1 + (stride - 1) * (1 - part) ** 2) * even * farther)
