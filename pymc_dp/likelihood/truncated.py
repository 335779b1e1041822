"""Normal numbers that are truncated to an interval, made of uniform ones.

They are drawn one after the other, in compiled code, where SciPy's functions cannot be called.
"""

import math

import numba

# Half of log(2 pi).
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def between(low, high, uniform):
    """Return a standard normal number truncated to an interval, made of a uniform one.

    It is computed in the lower tail, where probabilities have their full precision: by Newton's method for
    the logarithm of the distribution function, which is concave, from the left.
    """
    flip = low + high > 0
    first, last = (-high, -low) if flip else (low, high)
    upper = _log_normal(last)
    level = upper + math.log(uniform + (1 - uniform) * math.exp(_log_normal(first) - upper))
    # A search starts where the square is at most this much larger than at the interval's end: uniform numbers
    # are at least 2**-53, of which the logarithm is -37.
    below = 80.0
    found = max(first, -math.sqrt(min(last, 0.0) ** 2 + below))
    # Relative precision at which Newton's steps end.
    precise = 1e-12
    # Largest number of Newton's steps.
    steps = 100
    for _ in range(steps):
        value = _log_normal(found)
        move = (level - value) * math.exp(value + 0.5 * found * found + _LOG_ROOT)
        found += move
        if not abs(move) > precise * max(abs(found), 1.0):
            break
    found = min(max(found, first), last)
    return -found if flip else found


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _log_normal(x):
    """Return the logarithm of the standard normal distribution function."""
    # Normal probabilities below this are computed by their asymptotic series, with a relative error of 1e-8.
    far_left = -36.0
    if x > far_left:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    square = 1 / (x * x)  # of its asymptotic series
    return -0.5 * x * x - math.log(-x) - _LOG_ROOT - square * (1 - 2.5 * square)
