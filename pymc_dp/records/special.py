"""Derivatives of the log-gamma function in compiled code.

PyTensor's Numba backend calls SciPy from Python for `TriGamma` and `PolyGamma`, once a number. They are in
the gradients and Hessians of negative binomial, gamma, beta, Student t and Dirichlet likelihoods. Importing
this file tells that backend to use the functions below.
"""

import math

import numba
import numpy as np
from pytensor.scalar.math import PolyGamma, TriGamma

# The asymptotic series is used from here on: its first term that is left out is below 1e-16 of the sum.
_LARGE = 20.0
# Below this a recurrence would take too long (and SciPy as well); no likelihood evaluates them there.
_SMALLEST = -1000.0
# And from here on its first term is all of it.
_ONE_TERM = 1e50
# B_2j / (2j)! for j = 1, 2, ...: Euler and Maclaurin.
_TERMS = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)


@numba.njit(error_model="numpy")
def hurwitz(s, x):
    """``sum over k >= 0 of (x + k)^-s`` for an integer s >= 2."""
    if not x > _SMALLEST:
        return np.nan
    if x <= 0.0 and x == math.floor(x):
        return np.inf
    if x > _ONE_TERM:
        return (1.0 / x) ** (s - 1) / (s - 1.0)
    total = 0.0
    while x < _LARGE:
        total += (1.0 / x) ** s  # a negative power of what becomes 0 would raise
        x += 1.0
    power = (1.0 / x) ** s
    total += power * (x / (s - 1.0) + 0.5)
    factor, squared = power * s / x, 1.0 / (x * x)
    for j in range(len(_TERMS)):
        total += _TERMS[j] * factor
        factor *= (s + 2.0 * j + 1.0) * (s + 2.0 * j + 2.0) * squared
    return total


@numba.njit(error_model="numpy")
def digamma(x):
    """First derivative of log gamma."""
    if not x > _SMALLEST or (x <= 0.0 and x == math.floor(x)):
        return np.nan
    total = 0.0
    while x < _LARGE:
        total -= 1.0 / x
        x += 1.0
    squared = 1.0 / (x * x)
    # B_2j / (2j) for j = 1, 2, ...
    series = squared * (
        1 / 12 - squared * (1 / 120 - squared * (1 / 252 - squared * (1 / 240 - squared / 132)))
    )
    return total + math.log(x) - 0.5 / x - series


@numba.njit(error_model="numpy")
def trigamma(x):
    """Second derivative of log gamma."""
    return hurwitz(2, x)


@numba.njit(error_model="numpy")
def polygamma(n, x):
    """Derivative of order n + 1 of log gamma, n >= 0."""
    if n < 0:
        return np.nan
    if n == 0:
        return digamma(x)
    factorial = 1.0 if n % 2 else -1.0
    for k in range(2, n + 1):
        factorial *= k
    return factorial * hurwitz(n + 1, x)


def _register() -> None:
    """Tell PyTensor; versions without this door keep their own, which are right and slow."""
    try:
        from pytensor.link.numba.dispatch.scalar import register_scalar_funcify, scalar_op_cache_key
    except ImportError:
        return

    def of_trigamma(op, node, **kwargs):
        return trigamma, scalar_op_cache_key(op, pymc_dp=2)

    def of_polygamma(op, node, **kwargs):
        return polygamma, scalar_op_cache_key(op, pymc_dp=2)

    register_scalar_funcify(TriGamma)(of_trigamma)
    register_scalar_funcify(PolyGamma)(of_polygamma)


_register()
