"""What the records of a unit leave of its bounds to the one that is next, and the norms of what is added."""

import math

from pymc_dp.likelihood.centre import compiled, find_squares, set_all, subtract

# Numba's cache sees no change of what is compiled in: d21881c53190d6d4 (centre.py).
# A record of a unit goes no further than this many times the bound that it has if all of the unit's records
# tell as much as it does, and bounds add up as those of independent records do: the first of them would else
# leave little to the others.
_STRIDE = 1.6
# A record that tells as much as this of its unit has all of the bound.
_WHOLE = 0.999
# Mean fourth power of a standard normal number.
_OF_NORMAL = 3.0


@compiled
def frobenius(matrix, gram):
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
def find_root(matrix, root):
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
def norm_of_outer(vectors, first, k):
    """Frobenius norm of ``sum_b v_b v_b'`` of integer vectors; squared."""
    p = vectors.shape[1]
    total = 0.0
    for a in range(k):
        for b in range(a + 1):
            product = 0.0
            for d in range(p):
                product += vectors[first + a, d] * vectors[first + b, d]
            total += product * product * (1.0 if a == b else 2.0)
    return total


@compiled
def along_sum(vectors, begin, folded, end, matrix, x):
    """Inner product of x x' and a sum of outer products: of these vectors, the folded ones in a matrix."""
    total = 0.0
    if folded > begin:
        for a in range(len(x)):
            for b in range(len(x)):
                total += x[a] * matrix[a, b] * x[b]
    for v in range(folded, end):
        product = 0.0
        for a in range(len(x)):
            product += vectors[v, a] * x[a]
        total += product * product
    return total


@compiled
def fold(vectors, begin, folded, end, matrix):
    """Add the vectors that are not in the matrix yet."""
    if folded == begin:
        for a in range(len(matrix)):
            set_all(matrix[a], 0.0)
    for v in range(folded, end):
        for a in range(len(matrix)):
            for b in range(len(matrix)):
                matrix[a, b] += vectors[v, a] * vectors[v, b]


@compiled
def room_for(norm, along, held, most):
    """Largest w for which T + w M is no longer than `most`: |M|, <T, M> >= 0 and |T|**2 are given."""
    left = most * most - held
    divisor = along + math.sqrt(along * along + norm * norm * max(left, 0.0))
    if left > 0:
        return left / divisor if divisor > 0 else math.inf
    return 0.0


@compiled
def find_left(rows, row, before, of_score, reach, clip, stride, gram, left):
    """Inner products of rows in units of what is left to them: what has length C may be added to the sum.

    An ellipsoid around zero within the ball of radius C around minus the sum S: its axis along S is C - |S|,
    the others are sqrt(C (C - |S|)); none is longer than `stride`. `before` is S in some unit, `of_score` its
    squared length, and `reach` is |S| / C.
    """
    k, p = len(gram), len(before)
    ahead = clip * (1 - reach)
    aside = clip / min(math.sqrt(clip * ahead), stride)
    ahead = clip / min(ahead, stride)
    for a in range(k):
        for b in range(k):
            left[a, b] = aside * aside * gram[a, b]
    for a in range(k if of_score > 0 else 0):
        one = 0.0
        for e in range(p):
            one += rows[a, row, e] * before[e]
        for b in range(a + 1):
            other = 0.0
            for e in range(p):
                other += rows[b, row, e] * before[e]
            more = (ahead * ahead - aside * aside) * one * other / of_score
            left[a, b] += more
            if a != b:
                left[b, a] += more


@compiled
def find_stride(group, gram, given, clip, p, apart, squares, centre):
    """How far a record may go that tells as much as these points say; all records of its unit tell p.

    Where few points are far from the others, as rare events are, few of a unit's records go far: the mean of
    fourth powers, in which that of normal points is three, says how few.
    """
    for a in range(len(centre)):
        centre[a] = 0.0
        for j in range(len(given)):
            centre[a] += given[j] * group[a, j]
    subtract(group, centre, apart)
    find_squares(apart, gram, squares)
    second, fourth = 0.0, 0.0
    for j in range(len(given)):
        second += given[j] * squares[j]
        fourth += given[j] * squares[j] * squares[j]
    if not second > 0:
        return clip
    farther = max(1.0, math.sqrt(fourth / _OF_NORMAL) / second)
    part = min(second / p, _WHOLE)
    # The solution of s**2 / (1 - s) = part / (1 - part): others at right angles to it that tell the rest then
    # go as far as their part of it.
    even = (math.sqrt(part * (4 - 3 * part)) - part) / (2 * (1 - part))
    return clip * min(1.0, (1 + (_STRIDE - 1) * (1 - part) ** 2) * even * farther)
