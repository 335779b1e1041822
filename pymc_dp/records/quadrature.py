"""Integrals over the effects of persons: adaptive quadrature around each person's own mode.

Many persons are worked on at once, but each with that person's numbers alone: how many steps the search for a
mode takes, where nodes are, and their weights do not depend on other persons.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from pymc_dp.records.vector_math import add_in_order

#: Nodes per dimension, by the number of a person's effects (dimensions of the integral): one, two or three.
NODES = {1: 15, 2: 5, 3: 5}
#: The same for a density with kinks, such as Laplace's, whose derivative jumps between two nodes.
NODES_OF_KINKED = {1: 41, 2: 9, 3: 5}
# Most steps of the search for a mode.
_STEPS = 20
# Most passes of the search for a prior's unit: each makes it at most sqrt(20) times as long.
_PASSES = 60

# Function of the effects of m persons, shape (m, q): the logarithm of each person's density, shape (m,), and
# its derivatives, shape (m, q).
Joint = Callable[[np.ndarray], Sequence[np.ndarray]]


class Scale(NamedTuple):
    """Location and scale of the effects' prior: public.

    Attributes
    ----------
    centre : ndarray, shape (q,)
    spread : ndarray, shape (q, q)
        A root of the inverse curvature at `centre`: its columns are units.
    """

    centre: np.ndarray
    spread: np.ndarray


@lru_cache
def standard_nodes(size: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes in units of a posterior, shape (k, q), and logarithms of their weights."""
    # Nodes of one effect are ``node_scale sinh(t)``, evenly spaced in t, in units of the posterior's
    # standard deviation: near the mode they are as close together as a normal density needs.
    node_scale = 2.0
    # Distance of the outermost nodes of one effect from the mode, in the same unit: the exponential tail of
    # the logarithm of a gamma variable needs as much. For several effects, nodes are those of Gauss-Hermite.
    last_node = 10.0
    if size == 1:
        t = np.linspace(-np.arcsinh(last_node / node_scale), np.arcsinh(last_node / node_scale), number)
        return node_scale * np.sinh(t)[:, None], np.log(np.cosh(t))
    places, weights = np.polynomial.hermite_e.hermegauss(number)
    points = np.array(list(product(places, repeat=size)))
    logs = np.array([sum(one) for one in product(np.log(weights), repeat=size)])
    return points, logs + 0.5 * np.sum(points**2, axis=1)


def prior_scale(joint: Joint, size: int) -> Scale:
    """Find the mode and scale of a prior, in whatever unit effects are; zero and one where it has none."""
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


def nodes_at(joint: Joint, scale: Scale, m: int, kinked: bool = False) -> tuple[np.ndarray, np.ndarray]:
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
    places : ndarray, shape (k, m, q)
    weights : ndarray, shape (k, m)
        Logarithms of weights: up to a factor, the integral is the weighted sum of the integrand at the nodes.

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
    return np.array(places), np.broadcast_to(weights[:, None], (len(points), m))


def _in_units(joint: Joint, scale: Scale) -> Joint:
    """Return the same densities as functions of effects in units of a scale."""

    def seen(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = joint(scale.centre + _times(scale.spread, x))
        return value, _times(scale.spread.T, slope)

    return seen


def _mode(joint: Joint, scale: Scale, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Find modes, shape (m, q), and roots of the curvature there, (m, q, q), in units of the scale."""
    size, seen = len(scale.centre), _in_units(joint, scale)
    x, best_root = np.zeros((m, size)), np.broadcast_to(np.eye(size), (m, size, size)).copy()
    value, slope = seen(x)
    # Trust region of the first step, in prior standard deviations; doubled after each step uphill.
    first_step = 3.0
    part, reach, moving = np.ones(m), np.full(m, first_step), np.isfinite(value)
    # The search ends when a step is shorter than this, in units of the posterior's standard deviation.
    arrived = 0.02
    # Factor by which the step length is reduced after a step that would lead downhill.
    step_reduction = 0.25
    for _ in range(_STEPS):
        root = _root(_curvature(seen, x, slope))
        best_root[moving] = root[moving]
        inverse = _inverse(root)
        along = _times(inverse, slope)
        moving = moving & (np.sqrt(np.sum(along**2, axis=1)) > arrived)
        if not np.any(moving):
            break
        step = _times(np.swapaxes(inverse, 1, 2), along)
        length = np.sqrt(np.sum(step**2, axis=1))
        step *= (part * np.minimum(1.0, reach / np.maximum(length, 1e-300)))[:, None]
        new_value, new_slope = seen(x + np.where(moving[:, None], step, 0.0))
        up = moving & (new_value >= value)
        x[up] += step[up]
        value, slope = np.where(up, new_value, value), np.where(up[:, None], new_slope, slope)
        part = np.where(up, np.minimum(1.0, part / step_reduction), part * step_reduction)
        reach = np.where(up, 2.0 * reach, reach)
    return scale.centre + _times(scale.spread, x), best_root


def _curvature(seen: Joint, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Compute minus the second derivatives, by differences of the first."""
    apart, found = 1e-4, np.empty((*x.shape, x.shape[1]))  # in units of the prior's standard deviation
    for k in range(x.shape[1]):
        moved = x.copy()
        moved[:, k] += apart
        found[:, :, k] = (slope - seen(moved)[1]) / apart
    return 0.5 * (found + np.swapaxes(found, 1, 2))


def _over_units(seen: Joint, x: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Compute minus the second derivatives, by central differences of the first over `units`, shape (m, q).

    Where a derivative is not finite, the units are too long: the curvature is set to that of a normal density
    whose standard deviation is a tenth of them.
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
    """Compute roots of curvatures over one unit of the posterior, a unit that is iterated with them."""
    units = np.ones_like(x)
    # Passes of the search for the posterior's unit of a density with kinks: each halves the error of its
    # logarithm.
    passes_of_kinked = 6
    for _ in range(passes_of_kinked):
        root = _root(_over_units(seen, x, units))
        units = 1.0 / np.diagonal(root, axis1=1, axis2=2)
    return root


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Multiply matrices, shape (m, q, q) or (q, q), by vectors, (m, q), with the same operations for each.

    The last bits of a BLAS product may depend on the number of vectors, which are other persons'.
    """
    products = (matrices[..., k] * vectors[:, k, None] for k in range(vectors.shape[1]))
    return reduce(np.add, products)


def _root(matrices: np.ndarray) -> np.ndarray:
    """Compute Cholesky factors, with pivots of at least a twentieth of the prior's curvature."""
    size, root = matrices.shape[1], np.zeros_like(matrices)
    for j in range(size):
        pivot = matrices[:, j, j] - np.sum(root[:, j, :j] ** 2, axis=1)
        root[:, j, j] = np.sqrt(np.where(pivot > 0.05, pivot, 0.05))
        for i in range(j + 1, size):
            product_ = np.sum(root[:, i, :j] * root[:, j, :j], axis=1)
            root[:, i, j] = (matrices[:, i, j] - product_) / root[:, j, j]
    return root


def _inverse(root: np.ndarray) -> np.ndarray:
    """Invert lower triangular matrices."""
    size, found = root.shape[1], np.zeros_like(root)
    for j in range(size):
        found[:, j, j] = 1.0 / root[:, j, j]
        for i in range(j + 1, size):
            found[:, i, j] = -np.sum(root[:, i, j:i] * found[:, j:i, j], axis=1) / root[:, i, i]
    return found


def average(densities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Average values with weights that are proportional to exponentials of `densities`.

    Parameters
    ----------
    densities : ndarray, shape (k, m)
        Logarithms.
    values : ndarray, shape (k, m, p)

    Returns
    -------
    ndarray, shape (m, p)
        NaN for a person with a density that is NaN, or with none that is finite. A node with weight zero is
        left out, whatever its value.
    """
    weights = np.exp(densities - np.max(densities, axis=0))
    found = np.zeros(values.shape[1:])
    for share, value in zip((weights / add_in_order(weights))[:, :, None], values, strict=True):
        found += np.where(share == 0.0, 0.0, share * value)
    return found
