"""Integrals over the effects of persons: adaptive quadrature around each person's own mode.

All of it works on many persons at once and, for each of them, on that person's numbers alone: how many steps
a search takes, where nodes are, and what they weigh does not depend on others.
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

#: Nodes for each number of a person's effects: of one, of two, of three.
NODES = {1: 15, 2: 5, 3: 5}
# Nodes of one effect are ``_NEAR sinh(t)``, evenly spaced in t: near the mode as close as a normal density
# needs.
_NEAR = 2.0
# They go so far, as the logarithm of a gamma variable needs, whose tail is exponential. Nodes of several
# effects are Gauss and Hermite's.
_FAR = 10.0
# Steps of the search for a mode, at most.
_STEPS = 12
# It ends when a step is shorter than this, in units of the posterior's standard deviation.
_ARRIVED = 0.02
# A step is at most so long, in units of the prior's standard deviation.
_FURTHEST = 3.0
# A step after one that led down is so much shorter.
_SHORTER = 0.25

# Of the effects of m persons, shape (m, q): the logarithm of each person's density, shape (m,), and its
# derivatives, shape (m, q).
Joint = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Scale(NamedTuple):
    """Where effects are before a row was seen: public.

    Attributes
    ----------
    centre : ndarray, shape (q,)
    spread : ndarray, shape (q, q)
        A unit in each direction, in its columns.
    """

    centre: np.ndarray
    spread: np.ndarray


class Nodes(NamedTuple):
    """Where an integrand is computed.

    Attributes
    ----------
    places : ndarray, shape (k, m, q)
    weights : ndarray, shape (k, m)
        Logarithms: the integral is the sum of the integrand times these, up to a factor.
    """

    places: np.ndarray
    weights: np.ndarray


@lru_cache
def standard_nodes(size: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in units of a posterior, shape (k, q), and logarithms of the weights of an integrand there."""
    if size == 1:
        t = np.linspace(-np.arcsinh(_FAR / _NEAR), np.arcsinh(_FAR / _NEAR), number)
        return _NEAR * np.sinh(t)[:, None], np.log(np.cosh(t))
    places, weights = np.polynomial.hermite_e.hermegauss(number)
    points = np.array(list(product(places, repeat=size)))
    logs = np.array([sum(one) for one in product(np.log(weights), repeat=size)])
    return points, logs + 0.5 * np.sum(points**2, axis=1)


def prior_scale(joint: Joint, size: int) -> Scale:
    """Mode of a prior and its spread there; where it has none, zero and one."""
    unit = Scale(np.zeros(size), np.eye(size))
    mode, root = _mode(joint, unit, 1)
    spread = _inverse(root)[0].T
    if not (np.all(np.isfinite(mode)) and np.all(np.isfinite(spread))):
        return unit
    return Scale(mode[0], spread)


def nodes_at(joint: Joint, scale: Scale, m: int) -> Nodes:
    """Find m persons' modes, and nodes around them.

    Parameters
    ----------
    joint : callable
    scale : Scale
    m : int

    Returns
    -------
    Nodes

    Notes
    -----
    **Privacy.** A person's nodes are a function of that person's densities and of public numbers, and NaN
    where these are not finite. Nothing raises.
    """
    size = len(scale.centre)
    mode, root = _mode(joint, scale, m)
    points, weights = standard_nodes(size, NODES[size])
    # With H = L L', the columns of the inverse of L' are units of the posterior.
    units = np.swapaxes(_inverse(root), 1, 2)
    places = [mode + _times(scale.spread, _times(units, np.broadcast_to(one, (m, size)))) for one in points]
    return Nodes(np.array(places), np.broadcast_to(weights[:, None], (len(points), m)))


def _mode(joint: Joint, scale: Scale, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Modes, shape (m, q), and roots of the curvature there, (m, q, q), in units of the scale."""
    size = len(scale.centre)

    def seen(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = joint(scale.centre + _times(scale.spread, x))
        return value, _times(scale.spread.T, slope)

    x, best_root = np.zeros((m, size)), np.broadcast_to(np.eye(size), (m, size, size)).copy()
    value, slope = seen(x)
    part, moving = np.ones(m), np.isfinite(value)
    for _ in range(_STEPS):
        root = _root(_curvature(seen, x, slope))
        best_root[moving] = root[moving]
        inverse = _inverse(root)
        along = _times(inverse, slope)
        moving = moving & (np.sqrt(np.sum(along**2, axis=1)) > _ARRIVED)
        if not np.any(moving):
            break
        step = _times(np.swapaxes(inverse, 1, 2), along)
        length = np.sqrt(np.sum(step**2, axis=1))
        step *= (part * np.minimum(1.0, _FURTHEST / np.maximum(length, 1e-300)))[:, None]
        new_value, new_slope = seen(x + np.where(moving[:, None], step, 0.0))
        up = moving & (new_value >= value)
        x[up] += step[up]
        value, slope = np.where(up, new_value, value), np.where(up[:, None], new_slope, slope)
        part = np.where(up, np.minimum(1.0, part / _SHORTER), part * _SHORTER)
    return scale.centre + _times(scale.spread, x), best_root


def _curvature(seen: Joint, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Minus the second derivatives, by differences of the first."""
    apart, found = 1e-4, np.empty((*x.shape, x.shape[1]))  # in units of the prior's standard deviation
    for k in range(x.shape[1]):
        moved = x.copy()
        moved[:, k] += apart
        found[:, :, k] = (slope - seen(moved)[1]) / apart
    return 0.5 * (found + np.swapaxes(found, 1, 2))


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Products of matrices, shape (m, q, q) or (q, q), with vectors, (m, q): for each the same operations.

    A product of BLAS may differ in its last bits with the number of vectors, which are other persons'.
    """
    size = vectors.shape[1]
    return sum(
        (matrices[..., k] * vectors[:, k, None] for k in range(1, size)), matrices[..., 0] * vectors[:, :1]
    )


def _root(matrices: np.ndarray) -> np.ndarray:
    """Lower triangular roots of matrices, with pivots of at least a twentieth of the prior's curvature."""
    size, root = matrices.shape[1], np.zeros_like(matrices)
    for j in range(size):
        pivot = matrices[:, j, j] - np.sum(root[:, j, :j] ** 2, axis=1)
        root[:, j, j] = np.sqrt(np.where(pivot > 0.05, pivot, 0.05))
        for i in range(j + 1, size):
            product_ = np.sum(root[:, i, :j] * root[:, j, :j], axis=1)
            root[:, i, j] = (matrices[:, i, j] - product_) / root[:, j, j]
    return root


def _inverse(root: np.ndarray) -> np.ndarray:
    """Inverses of lower triangular matrices."""
    size, found = root.shape[1], np.zeros_like(root)
    for j in range(size):
        found[:, j, j] = 1.0 / root[:, j, j]
        for i in range(j + 1, size):
            found[:, i, j] = -np.sum(root[:, i, j:i] * found[:, j:i, j], axis=1) / root[:, i, i]
    return found


def average(densities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Average values with weights of which the logarithms are given.

    Parameters
    ----------
    densities : ndarray, shape (k, m)
    values : ndarray, shape (k, m, p)

    Returns
    -------
    ndarray, shape (m, p)
        NaN for a person of whom a density is NaN or none is finite. A node without weight counts for nothing.
    """
    weights = np.exp(densities - np.max(densities, axis=0))
    found = np.zeros(values.shape[1:])
    for share, value in zip((weights / np.sum(weights, axis=0))[:, :, None], values, strict=True):
        found += np.where(share == 0.0, 0.0, share * value)
    return found
