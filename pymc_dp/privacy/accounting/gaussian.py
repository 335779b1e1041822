"""Exact (epsilon, delta) of Gaussian releases (Gaussian differential privacy).

A release with noise multiplier ``nm`` is 1/nm-GDP; releases compose exactly: ``mu**2`` is the sum of ``1 /
nm**2``. The trade-off is ``delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) * Phi(-mu/2 - epsilon/mu)``
(Räisä 2021, Theorems 4.3 and 7, with mu**2 / 2 for their mu; Dong, Roth & Su 2022, Corollary 2.13). Results
of all functions are rounded to the safe side.
"""

import math
from collections.abc import Callable
from sys import float_info

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr

# Density and tails of the standard normal distribution, as ratios and logarithms that stay accurate.


def log_density(x: np.ndarray) -> np.ndarray:
    """Return the logarithm of the density."""
    return -0.5 * x * x - 0.5 * math.log(2 * math.pi)


def mills(x: np.ndarray) -> np.ndarray:
    """Return the probability above x divided by the density at x. It overflows far below 0."""
    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))


def log_mills(x: np.ndarray) -> np.ndarray:
    """Return the logarithm of `mills`, which is finite for all x."""
    with np.errstate(all="ignore"):
        return np.where(x > 0, np.log(mills(x)), log_ndtr(-x) - log_density(x))


# Curves.


def _checked(value: ArrayLike, what: str, is_right: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if not np.all(is_right(array)):
        raise ValueError(f"{what}.")
    return array


def _log_of_delta(value: ArrayLike) -> np.ndarray:
    return np.log(_checked(value, "delta must be in (0, 1)", lambda x: (x > 0) & (x < 1)))


def _log_delta(mu: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
    """Return log delta for mu > 0 and finite epsilon >= 0, increased by more than its rounding error."""
    x = epsilon / mu - 0.5 * mu
    with np.errstate(all="ignore"):
        # phi(x) = exp(epsilon) phi(x + mu), so delta = phi(x) * (M(x) - M(x + mu)) with the Mills ratio M,
        # which avoids tiny factors. For x < 0 the terms are of order one, and the definition itself is well
        # conditioned.
        high = np.maximum(x, 0)
        tail = np.log(mills(high) - mills(high + mu)) + log_density(x)
        log_a, log_b = log_ndtr(-x), epsilon + log_ndtr(-x - mu)
        body = log_a + np.log(-np.expm1(np.minimum(log_b - log_a, 0.0)))
    # Relative error of the differences: a few ulp of the larger term over the difference. The error of x * x
    # is included.
    slack = 16 * float_info.epsilon * (1 + (1 + np.abs(x)) / mu + x * x + epsilon)
    return np.where(x >= 0, tail, body) + slack


def log_delta(mu: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """Return the logarithm of the smallest delta at `epsilon`, rounded up.

    Parameters
    ----------
    mu : array_like
        GDP parameter, >= 0 (inf allowed).
    epsilon : array_like
        >= 0 (inf allowed).

    Returns
    -------
    ndarray
        At most 0; accurate to about 1e-9 relative in delta, down to delta = 1e-300 and far below.

    Raises
    ------
    ValueError
        A value is negative or NaN.
    """
    m = _checked(mu, "mu must be at least 0", lambda x: x >= 0)
    e = _checked(epsilon, "epsilon must be at least 0", lambda x: x >= 0)
    m, e = np.broadcast_arrays(m, e)
    ordinary = (m > 0) & np.isfinite(m) & np.isfinite(e)
    value = _log_delta(np.where(ordinary, m, 1.0), np.where(ordinary, e, 1.0))
    value = np.where(ordinary, value, np.where((m == 0) | np.isinf(e), -np.inf, 0.0))
    return np.minimum(value, 0.0)


def delta(mu: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """Return the smallest delta at `epsilon`, rounded up; see `log_delta`."""
    return np.exp(log_delta(mu, epsilon))


def epsilon(mu: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Return the smallest epsilon at `delta`, rounded up.

    Parameters
    ----------
    mu : array_like
        GDP parameter, >= 0 (inf allowed).
    delta : array_like
        In (0, 1).

    Returns
    -------
    ndarray
        Upper bound, within 1e-9 relative of the exact value.

    Raises
    ------
    ValueError
        `mu` is negative or NaN, or `delta` outside (0, 1).
    """
    m = _checked(mu, "mu must be at least 0", lambda x: x >= 0)
    m, target = np.broadcast_arrays(m, _log_of_delta(delta))
    finite = np.where(np.isfinite(m), m, 1.0)
    low = np.zeros(m.shape)
    high = 0.5 * finite**2 + finite * np.sqrt(-2 * target)  # an upper bound, by zCDP
    high = np.where(log_delta(finite, 0.0) <= target, 0.0, high * (1 + 1e-9))
    _, high = _halved(low, high, lambda middle: ~(log_delta(finite, middle) <= target))
    return np.where(np.isinf(m), np.inf, high)


def mu(epsilon: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Return the largest mu that is (epsilon, delta)-DP, rounded down.

    Parameters
    ----------
    epsilon : array_like
        > 0; inf gives inf.
    delta : array_like
        In (0, 1).

    Returns
    -------
    ndarray
        Lower bound: ``epsilon(mu(e, d), d) <= e`` always, within 1e-9 relative.

    Raises
    ------
    ValueError
        `epsilon` is not positive, or `delta` outside (0, 1).
    """
    e = _checked(epsilon, "epsilon must be positive", lambda x: x > 0)
    e, target = np.broadcast_arrays(e, _log_of_delta(delta))
    finite = np.where(np.isfinite(e), e, 1.0)
    # delta(0) = 2 Phi(mu/2) - 1, and delta increases with mu: doubling from the mu that zCDP allows brackets
    # the root.
    low = np.zeros(e.shape)
    high = np.sqrt(2.0) * (np.sqrt(finite - target) - np.sqrt(-target)) + 1e-12
    while np.any(short := log_delta(high, finite) <= target):
        low, high = np.where(short, high, low), np.where(short, 2 * high, high)
    low, _ = _halved(low, high, lambda middle: log_delta(middle, finite) <= target)
    return np.where(np.isinf(e), np.inf, low * (1 - 1e-12))


def _halved(
    low: np.ndarray, high: np.ndarray, is_low: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Halve brackets until they are as narrow as rounding allows."""
    for _ in range(200):
        open_ = high - low > 1e-14 * high  # an entry's result does not depend on the others
        if not np.any(open_):
            break
        middle = 0.5 * (low + high)
        below = is_low(middle)
        low, high = np.where(open_ & below, middle, low), np.where(open_ & ~below, middle, high)
    return low, high
