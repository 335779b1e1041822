"""Exponentials and logarithms without branches, so that a compiler can vectorise loops over records.

PyTensor's Numba backend calls the C library for each number, which is most of the cost of a pass over the
data. The functions below are polynomials; errors are below 2 units in the last place (`tests/records`).
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

# Options of compilation. Without fast mathematics nothing is reordered, which would undo corrections of
# rounding errors; nor are products fused with sums, which would round differently at the end of a loop than
# within it. Functions are inlined, since the loop around them would otherwise not be vectorised.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": False, "forceinline": True}
# 1.5 * 2**52: added to a number below 2**51, it leaves the nearest integer in the last bits.
_ROUND = 6755399441055744.0
# log2(e).
_LOG2_E = 1.4426950408889634
# Leading bits of ln(2): its product with an exponent is exact.
_LN2_HIGH = 6.93147180369123816490e-01
# ln(2) - _LN2_HIGH.
_LN2_LOW = 1.90821492927058770002e-10
# The exponential of a smaller number is returned as 0.
_EXP_ZERO_BELOW = -708.0
# The exponential of a larger number is returned as infinity.
_EXP_INFINITE_ABOVE = 709.0
# Bits of sqrt(1/2).
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
# Smallest normal number.
_SMALLEST_NORMAL = 2.2250738585072014e-308


def _bits_of(context, x):
    return types.int64(types.float64), lambda context, b, sig, args: b.bitcast(args[0], ir.IntType(64))


def _number_of(context, bits):
    return types.float64(types.int64), lambda context, b, sig, args: b.bitcast(args[0], ir.DoubleType())


# The 64 bits of a number as an integer, and the number with given bits.
_bits = cast(Callable[[float], int], intrinsic(_bits_of))
_number: Any = intrinsic(_number_of)


@numba.njit(**_OPTIONS)
def exp(x):
    """Compute the exponential; 0 below -708, infinite above 709."""
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    # Chebyshev approximation of (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, to 1e-16.
    p = 2.5100385495510319078e-8
    p = p * r + 2.7620088445409748161e-7
    p = p * r + 2.7557268459997064772e-6
    p = p * r + 2.4801521295954375131e-5
    p = p * r + 1.9841269863053616878e-4
    p = p * r + 1.3888888917213716901e-3
    p = p * r + 8.3333333333300618325e-3
    p = p * r + 4.1666666666624127873e-2
    p = p * r + 0.16666666666666667453
    p = p * r + 0.5
    p = (p * r) * r + r + 1.0
    found = p * _number((_bits(shifted) + 1023) << 52)
    found = found if x >= _EXP_ZERO_BELOW else 0.0
    found = found if x <= _EXP_INFINITE_ABOVE else np.inf
    return found if x == x else x


@numba.njit(**_OPTIONS)
def log_one_plus(x):
    """Compute the logarithm of 1 + x for x in [0, 1]."""
    s = x / (2.0 + x)
    q = s * s
    # Chebyshev approximation of (2 artanh(s) / s - 2) / q for s in [0, 1/3], to 1e-16.
    p = 0.16164045611943532221
    p = p * q + 0.088007384861446738822
    p = p * q + 0.12001072809590712535
    p = p * q + 0.1331414420965493615
    p = p * q + 0.15385570064958623103
    p = p * q + 0.18181789436132858169
    p = p * q + 0.22222222717427862989
    p = p * q + 0.28571428567108757162
    p = p * q + 0.40000000000014582673
    p = p * q + 0.66666666666666658561
    return (s * q) * p + 2.0 * s


@numba.njit(**_OPTIONS)
def log(x):
    """Compute the natural logarithm."""
    small = x < _SMALLEST_NORMAL
    bits = _bits(x * 18014398509481984.0 if small else x)
    k = (bits - _SQRT_HALF_BITS) >> 52
    f = _number(bits - (k << 52)) - 1.0
    e = np.float64(k - 54 if small else k)
    s = f / (2.0 + f)
    q = s * s
    p = 0.14617037548791650146
    p = p * q + 0.15331674030167861852
    p = p * q + 0.18182890556695603528
    p = p * q + 0.22222211115144161503
    p = p * q + 0.28571428626095891537
    p = p * q + 0.39999999999899238978
    p = p * q + 0.66666666666666696955
    half = 0.5 * f * f
    found = e * _LN2_HIGH - ((half - (s * (half + q * p) + e * _LN2_LOW)) - f)
    found = found if x > 0.0 else (-np.inf if x == 0.0 else np.nan)
    return found if x < np.inf else x


@numba.njit(**_OPTIONS)
def log_of_sum(x):
    """Compute the logarithm of ``1 + x`` as rounded to double precision."""
    return log(1.0 + x)


@numba.njit(**_OPTIONS)
def rest_of_sum(x):
    """Compute the correction of that logarithm for the rounding of ``1 + x``."""
    u = 1.0 + x
    left = ((1.0 - (u - x)) if x > 1.0 else (x - (u - 1.0))) / u
    return left if u > 0.0 and u < np.inf else 0.0


# The log-gamma function: by Stirling's series from 8 on; between 1/2 and 8 after eight steps of the
# recurrence; below 1/2 by the reflection formula. It is split into parts, see `fast_forms`.


@numba.njit(**_OPTIONS)
def gamma_place(x):
    """Return the argument z >= 8 at which Stirling's series is evaluated for x."""
    y = x if x >= 0.5 else 1.0 - x
    return y if y >= 8.0 else y + 8.0


@numba.njit(**_OPTIONS)
def gamma_factor(x):
    """Compute the factor by which the gamma function at z is divided: from the recurrence.

    Below 1/2 it is divided by the sine of the reflection formula.
    """
    y = x if x >= 0.5 else 1.0 - x
    t = y * (y + 7.0)
    product = (t * (t + 6.0)) * ((t + 10.0) * (t + 12.0))
    product = product if y < 8.0 else 1.0
    r = x - np.rint(x)
    q = r * r
    # Chebyshev approximation of sin(pi r) / r for |r| <= 1/2, to 1e-16.
    p = 7.6978267682241906454e-7
    p = p * q - 0.000021903497074626017191
    p = p * q + 0.00046629981618983938014
    p = p * q - 0.0073704305059169434047
    p = p * q + 0.08214588657310289502
    p = p * q - 0.59926452931894468132
    p = p * q + 2.5501640398773004745
    p = p * q - 5.1677127800499696077
    p = p * q + 3.1415926535897932378
    return product if x >= 0.5 else product / abs(r * p)


@numba.njit(**_OPTIONS)
def gamma_series(z, log_z):
    """Compute Stirling's series of log gamma for z >= 8."""
    inverse = 1.0 / z
    q = inverse * inverse
    p = -0.029550653594771243
    p = p * q + 0.0064102564102564100
    p = p * q - 0.0019175269175269176
    p = p * q + 8.4175084175084175e-4
    p = p * q - 5.9523809523809524e-4
    p = p * q + 7.9365079365079365e-4
    p = p * q - 2.7777777777777778e-3
    p = p * q + 0.083333333333333333
    return (z - 0.5) * log_z - z + 0.91893853320467274 + inverse * p


@numba.njit(**_OPTIONS)
def gamma_whole(x, series, log_factor):
    """Combine the parts to the log gamma function of x."""
    found = series - log_factor
    found = found if x >= 0.5 else 1.1447298858494002 - found
    return found if abs(x) < np.inf or x != x else np.inf


def add_in_order(values: np.ndarray) -> np.ndarray:
    """Return the sum over the first axis, added one after the other.

    `np.sum` adds eight numbers and more in another order if the other axes have length 1: a record's sum
    would depend, in its last bit, on whether other records stand beside it.
    """
    return reduce(np.add, values)
