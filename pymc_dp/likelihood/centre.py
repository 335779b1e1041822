"""Huber's centre of the points that a record is compared with.

Points of a group stand beside each other, shape (k, number), so that several are worked on at once. How long
it takes does not depend on their values.
"""

import math

import numba

# Longest step of a pass, in units of the mean of the clipped differences over the mean of their factors.
_LONGEST = 3.0
# A division by zero is infinite or not a number: an error would be about some record.
_compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
# The same, where sums over points are in any order: the same one for all records.
_summed = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})


@_compiled
def _inner(d, e, gram):
    total = 0.0
    for a in range(len(d)):
        for b in range(len(d)):
            total += d[a] * gram[a, b] * e[b]
    return total


@_compiled
def length_of(d, gram):
    """Length of ``sum_a d[a] x_a`` of rows x with these inner products."""
    return math.sqrt(max(_inner(d, d, gram), 0.0))


@_compiled
def subtract(group, centre, out):
    """Differences of points (k, number) from a centre (k,)."""
    for a in range(len(group)):
        for j in range(group.shape[1]):
            out[a, j] = group[a, j] - centre[a]


@_compiled
def find_squares(points, gram, out):
    """Squared lengths of points (k, number)."""
    out[:] = 0.0
    for a in range(len(points)):
        for b in range(a + 1):
            product = gram[a, b] if a == b else 2 * gram[a, b]
            for j in range(len(out)):
                out[j] += product * points[a, j] * points[b, j]


@_compiled
def find_factors(squares, clip, out):
    """What points are multiplied with, so that they are no longer than the clip bound."""
    most = clip * clip
    for j in range(len(squares)):
        out[j] = clip / math.sqrt(squares[j]) if squares[j] > most else 1.0


@_summed
def sum_weighted(weights, factors):
    """Sum of products, shape (number,)."""
    total = 0.0
    for j in range(len(factors)):
        total += weights[j] * factors[j]
    return total


@_summed
def sum_products(weights, factors, values):
    """Sum of products of three, shape (number,)."""
    total = 0.0
    for j in range(len(values)):
        total += weights[j] * factors[j] * values[j]
    return total


@_compiled
def _accelerate(step, before, gone, gram):
    """Change a step of weighted means into that of Anderson's acceleration; `before` is the last one.

    Both are kept: `before` becomes this one, and `gone` the step that is taken.
    """
    for a in range(len(step)):
        before[a] = step[a] - before[a]
    change = _inner(before, before, gram)
    part = _inner(step, before, gram) / change if change > 0 else 0.0
    for a in range(len(step)):
        gone[a] = step[a] - part * (gone[a] + before[a])
        before[a] = step[a]
    most, length = _LONGEST * length_of(step, gram), length_of(gone, gram)
    if not length <= most:
        part = most / length
        for a in range(len(step)):
            gone[a] = part * gone[a] if length < math.inf else step[a]


@_compiled
def find_centre(group, gram, weights, clip, passes, work, centre):
    """Search for Huber's centre (k,) of points (k, number), in passes that begin at zero.

    `work` is what its arrays are kept in: (3, k), (k, number), (number,) and (number,).
    """
    steps, apart, squares, factors = work
    step, before, gone = steps[0], steps[1], steps[2]
    centre[:] = 0.0
    for t in range(passes):
        subtract(group, centre, apart)
        find_squares(apart, gram, squares)
        find_factors(squares, clip, factors)
        total = sum_weighted(weights, factors)
        if not total > 0:
            break
        for a in range(len(centre)):
            step[a] = sum_products(weights, factors, apart[a]) / total
        if t == 0:
            before[:], gone[:] = step, step
        else:
            _accelerate(step, before, gone, gram)
        for a in range(len(centre)):
            centre[a] += gone[a]
