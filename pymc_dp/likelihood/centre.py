"""Huber's centre of the points that a record is compared with.

The points of a group are the columns of an array of shape (k, number), so that several are worked on at once.
The number of passes does not depend on their values.
"""

import math

import numba
import numpy as np

#: Compiler of functions in which a division by zero gives infinity or NaN, and no error: an error would
#: reveal something about a record.
compiled = numba.njit(cache=True, nogil=True, error_model="numpy")
# The same compiler, free to reorder sums over points: the order is the same for all records.
_summed = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})


# These are loops, although NumPy has functions for them: Numba would take seconds to compile NumPy's checks
# of shapes.
@compiled
def product_of(one, other, gram):
    """Return the inner product of ``sum_a one[a] x_a`` and ``sum_b other[b] x_b``: see `length_of`."""
    total = 0.0
    for a in range(len(gram)):
        for b in range(len(gram)):
            total += one[a] * gram[a, b] * other[b]
    return total


@compiled
def length_of(d, gram):
    """Return the length of ``sum_a d[a] x_a``, for rows x whose inner products are `gram`."""
    total = product_of(d, d, gram)
    return 0.0 if total < 0 else math.sqrt(total)


@compiled
def subtract(group, centre, out):
    """Write into `out` the differences of points (k, number) from a centre (k,)."""
    for a in range(len(group)):
        for j in range(group.shape[1]):
            out[a, j] = group[a, j] - centre[a]


@compiled
def find_squares(points, gram, out):
    """Write into `out` the squared lengths of points (k, number)."""
    out[:] = 0.0
    for a in range(len(points)):
        for b in range(a + 1):
            product = gram[a, b] if a == b else 2 * gram[a, b]
            for j in range(len(out)):
                out[j] += product * points[a, j] * points[b, j]


@compiled
def find_factors(squares, clip, out):
    """Write into `out` the factors by which the clip multiplies points of these squared lengths."""
    most = clip * clip
    for j in range(len(squares)):
        out[j] = clip / math.sqrt(squares[j]) if squares[j] > most else 1.0


@_summed
def sum_weighted(weights, factors):
    """Return the sum of ``weights * factors``, each of shape (number,)."""
    total = 0.0
    for j in range(len(factors)):
        total += weights[j] * factors[j]
    return total


@_summed
def sum_products(weights, factors, points, a):
    """Return the sum of ``weights * factors * points[a]``, for points (k, number)."""
    total = 0.0
    for j in range(len(factors)):
        total += weights[j] * factors[j] * points[a, j]
    return total


@compiled
def _accelerate(step, before, taken, gram):
    """Replace the step that was taken with that of Anderson's acceleration, of limited length.

    `step` is that of this pass by weighted means; and `before` that of the pass before, which the change
    between the two replaces.
    """
    for a in range(len(gram)):
        before[a] = step[a] - before[a]
    change = product_of(before, before, gram)
    part = product_of(step, before, gram) / change if change > 0 else 0.0
    for a in range(len(gram)):
        taken[a] = step[a] - part * (taken[a] + before[a])
    # Longest step of a pass, over the length of the step that weighted means alone would take.
    longest = 3.0
    most, length = longest * length_of(step, gram), length_of(taken, gram)
    if not length <= most:
        part = most / length
        for a in range(len(gram)):
            taken[a] = part * taken[a] if length < math.inf else step[a]


@compiled
def find_centre(group, gram, weights, clip, passes, work, centre):
    """Search for Huber's centre (k,) of points (k, number), in passes that begin at zero.

    `work` holds temporary arrays: three of shape (k,), one of (k, number) and two of (number,).
    """
    step, before, taken, apart, squares, factors = work
    centre[:] = 0.0
    for t in range(passes):
        subtract(group, centre, apart)
        find_squares(apart, gram, squares)
        find_factors(squares, clip, factors)
        total = sum_weighted(weights, factors)
        if not total > 0:
            break
        for a in range(len(centre)):
            step[a] = sum_products(weights, factors, apart, a) / total
            taken[a] = step[a] if t == 0 else taken[a]
        if t > 0:
            _accelerate(step, before, taken, gram)
        for a in range(len(centre)):
            centre[a] += taken[a]
            before[a] = step[a]


@_summed
def _mean_of_others(sizes, weights):
    """Return the weighted mean of sizes (number,) without the largest one."""
    total, whole, largest, its = 0.0, 0.0, 0.0, 0.0
    for j in range(len(sizes)):
        whole += weights[j]
        total += weights[j] * sizes[j]
        if weights[j] > 0 and sizes[j] > largest:
            largest, its = sizes[j], weights[j]
    return (total - its * largest) / (whole - its) if whole > its else 0.0


@_summed
def hold_together(points, weights, own, gram, clip):
    """Shorten derivatives of points (k, number) and of a record (k,) that are large for one predictor alone.

    Far from the parameters, the derivative by a scale grows with the square of the distance, and the
    derivative by a level with the distance. A bound of the whole score would then leave nothing of the
    level. The size of a derivative is relative to its mean absolute value over the points without the
    largest one; this mean is the same whichever point is the record's. With a bound that is no less than the
    usual length of a score only records are shortened that are beyond the bound, and far from their twins by
    two predictors: the bound leaves something of the level of others, and large derivatives by one predictor
    are most of what is known of the degrees of freedom of a t distribution.
    """
    k, number = points.shape
    alone = False  # whether a derivative may be that large; if not, the slow part below is left out
    # A derivative by one predictor, relative to its mean size among the twins, is shortened to this ratio, or
    # to the largest such ratio of the other predictors if that is larger.
    most_alone = 10.0
    for a in range(k):
        total, largest, heaviest = 0.0, abs(own[a]), 0.0
        for j in range(number):
            total += weights[j] * abs(points[a, j])
            largest, heaviest = max(largest, abs(points[a, j])), max(heaviest, weights[j])
        alone |= largest * (1 / most_alone + heaviest) > total
    if not alone:
        return
    sizes, times, each = np.zeros(k), np.zeros(k), np.zeros(number)
    for a in range(k):
        for j in range(number):
            each[j] = abs(points[a, j])
        sizes[a] = _mean_of_others(each, weights)
    for j in range(number):
        each[j] = length_of(points[:, j], gram) ** 2
    tight = clip * clip < _mean_of_others(each, weights)
    # Where the bound leaves usual scores as they are, that is done for records that are beyond the bound, and
    # have a ratio beyond this by a second predictor too: the model itself draws hardly any.
    far_from_all = 7.0
    for j in range(number + 1):
        first, second = 0, -1
        for a in range(k):
            value = own[a] if j == number else points[a, j]
            times[a] = abs(value) / sizes[a] if sizes[a] > 0 else 0.0
            if a > 0 and times[a] > times[first]:
                first, second = a, first
            elif a > 0 and (second < 0 or times[a] > times[second]):
                second = a
        most = max(most_alone, times[second])
        far = times[second] > far_from_all and length_of(own if j == number else points[:, j], gram) > clip
        if times[first] > most and (tight or far):
            if j == number:
                own[first] *= most / times[first]
            else:
                points[first, j] *= most / times[first]
