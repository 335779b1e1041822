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
#: Nodes where a density has kinks, as Laplace's: a derivative jumps between two nodes.
NODES_OF_KINKED = {1: 41, 2: 9, 3: 5}
# Nodes of one effect are ``_NEAR sinh(t)``, evenly spaced in t: near the mode as close as a normal density
# needs.
_NEAR = 2.0
# They go so far, as the logarithm of a gamma variable needs, whose tail is exponential. Nodes of several
# effects are Gauss and Hermite's.
_FAR = 10.0
# Steps of the search for a mode, at most.
_STEPS = 20
# It ends when a step is shorter than this, in units of the posterior's standard deviation.
_ARRIVED = 0.02
# The first step is at most so long, in units of the prior's standard deviation; after one that led up, twice.
_FURTHEST = 3.0
# A step after one that led down is so much shorter.
_SHORTER = 0.25
# Passes in which a prior's unit is looked for: each makes it at most sqrt(20) times as long.
_PASSES = 60
# Passes in which the unit of a density with kinks is looked for: its logarithm is halved in each.
_PASSES_OF_KINKED = 6

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
    """Mode of a prior and its spread there, in whatever unit effects are; where it has none, zero and one."""
    unit = scale = Scale(np.zeros(size), np.eye(size))
    for _ in range(_PASSES):
        mode = _mode(joint, scale, 1)[0]
        seen, here = _in_units(joint, scale._replace(centre=mode[0])), np.zeros((1, size))
        root = _root(_over_units(seen, here, np.ones((1, size))))
        spread = scale.spread @ _inverse(root)[0].T
        if not (np.all(np.isfinite(mode)) and np.all(np.isfinite(spread))):
            return unit
        scale = Scale(mode[0], spread)
        if np.all(np.abs(root[0] - np.eye(size)) < 0.05):
            break
    return scale


def nodes_at(joint: Joint, scale: Scale, m: int, kinked: bool = False) -> Nodes:
    """Find m persons' modes, and nodes around them.

    Parameters
    ----------
    joint : callable
    scale : Scale
    m : int
    kinked : bool
        Whether derivatives of the densities jump: curvatures are then differences over a unit of the
        posterior, and there are more nodes.

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
    if kinked:
        root = _root_of_kinked(
            _in_units(joint, scale), _times(np.linalg.inv(scale.spread), mode - scale.centre)
        )
    points, weights = standard_nodes(size, (NODES_OF_KINKED if kinked else NODES)[size])
    # With H = L L', the columns of the inverse of L' are units of the posterior.
    units = np.swapaxes(_inverse(root), 1, 2)
    places = [mode + _times(scale.spread, _times(units, np.broadcast_to(one, (m, size)))) for one in points]
    return Nodes(np.array(places), np.broadcast_to(weights[:, None], (len(points), m)))


def _in_units(joint: Joint, scale: Scale) -> Joint:
    """The same densities of effects in units of a scale."""

    def seen(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = joint(scale.centre + _times(scale.spread, x))
        return value, _times(scale.spread.T, slope)

    return seen


def _mode(joint: Joint, scale: Scale, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Modes, shape (m, q), and roots of the curvature there, (m, q, q), in units of the scale."""
    size, seen = len(scale.centre), _in_units(joint, scale)
    x, best_root = np.zeros((m, size)), np.broadcast_to(np.eye(size), (m, size, size)).copy()
    value, slope = seen(x)
    part, reach, moving = np.ones(m), np.full(m, _FURTHEST), np.isfinite(value)
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
        step *= (part * np.minimum(1.0, reach / np.maximum(length, 1e-300)))[:, None]
        new_value, new_slope = seen(x + np.where(moving[:, None], step, 0.0))
        up = moving & (new_value >= value)
        x[up] += step[up]
        value, slope = np.where(up, new_value, value), np.where(up[:, None], new_slope, slope)
        part = np.where(up, np.minimum(1.0, part / _SHORTER), part * _SHORTER)
        reach = np.where(up, 2.0 * reach, reach)
    return scale.centre + _times(scale.spread, x), best_root


def _curvature(seen: Joint, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Minus the second derivatives, by differences of the first."""
    apart, found = 1e-4, np.empty((*x.shape, x.shape[1]))  # in units of the prior's standard deviation
    for k in range(x.shape[1]):
        moved = x.copy()
        moved[:, k] += apart
        found[:, :, k] = (slope - seen(moved)[1]) / apart
    return 0.5 * (found + np.swapaxes(found, 1, 2))


def _over_units(seen: Joint, x: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Minus the second derivatives, by differences of the first over units, (m, q), to both sides.

    Where a slope is no number units are too long: a curvature as of a tenth of them.
    """
    found = np.empty((*x.shape, x.shape[1]))
    for k in range(x.shape[1]):
        away = np.zeros_like(x)
        away[:, k] = units[:, k]
        found[:, :, k] = (seen(x - away)[1] - seen(x + away)[1]) / (2.0 * units[:, k, None])
    bad = ~np.isfinite(found).all(axis=(1, 2))
    found[bad] = (100.0 / units[bad] ** 2)[:, None, :] * np.eye(x.shape[1])
    return 0.5 * (found + np.swapaxes(found, 1, 2))


def _root_of_kinked(seen: Joint, x: np.ndarray) -> np.ndarray:
    """Roots of curvatures over a unit of the posterior, which is found from them."""
    units = np.ones_like(x)
    for _ in range(_PASSES_OF_KINKED):
        root = _root(_over_units(seen, x, units))
        units = 1.0 / np.diagonal(root, axis1=1, axis2=2)
    return root


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
