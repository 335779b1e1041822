"""Derivatives released at a point, and two gradients as one: functions of what is released."""

from dataclasses import dataclass, replace

import numpy as np

from pymc_dp.control_variates.curvature import symmetric


@dataclass(frozen=True)
class Point:
    """Where the next sums are released: a point, its metric A, and the centre m of the gradients' clip.

    `theta` has shape (d,), its likelihood coordinates `phi` (p,), A (p, p), m (p,).
    """

    theta: np.ndarray
    phi: np.ndarray
    metric: np.ndarray
    centre: np.ndarray


@dataclass(frozen=True)
class Sums:
    """Released derivatives at a point, in likelihood coordinates.

    `gradient_noise` is the covariance of the gradient's noise, `left` that of what clips may have cut from it
    besides, both (p, p). `put_back` is a part of `gradient`. `hessian_noise` is the standard deviation of a
    diagonal entry of ``A H A'``.
    """

    at: Point
    gradient: np.ndarray
    gradient_noise: np.ndarray
    left: np.ndarray
    put_back: np.ndarray
    hessian: np.ndarray
    hessian_noise: float
    gradient_bound: float
    hessian_bound: float


def combined(rounds: list[Sums], mask: np.ndarray) -> tuple[Sums, float]:
    """The last sums, with a gradient from both, by generalised least squares.

    Parameters
    ----------
    rounds : list of Sums
        One or two.
    mask : ndarray of bool, shape (p, p)
        Entries of the Hessians that were released.

    Returns
    -------
    sums : Sums
        What clips may have cut of the two is taken to be the same thing: it does not average out.
    disagreement : float
        Squared distance of the two gradients in units of its covariance: chi squared with p degrees of
        freedom, if noise is all that parts them.
    """
    first, last = rounds[0], rounds[-1]
    noise = last.gradient_noise + last.left
    if first is last or not np.any(noise):
        return last, 0.0
    delta = last.at.phi - first.at.phi
    moved = first.gradient + 0.5 * (first.hessian + last.hessian) @ delta
    other = first.gradient_noise
    for found in (first, last):
        # Noise of half the Hessian times delta, of symmetric noise isotropic in the metric.
        root = np.linalg.inv(found.at.metric)
        z = root.T @ delta
        scatter = np.diag(mask @ (z * z)) + mask * np.outer(z, z)
        other = other + root @ (0.125 * found.hessian_noise**2 * scatter) @ root.T
    # What was cut of one is like what was cut of the other: their covariance is that of two equal things.
    roots = half(first.left), half(last.left)
    across = roots[0] @ roots[1]
    apart = moved - last.gradient
    total = np.linalg.inv(other + first.left + noise - across - across.T)
    disagreement = float(apart @ total @ apart)
    share = (noise - across.T) @ total
    rest = np.eye(len(mask)) - share
    gradient_noise = share @ other @ share.T + rest @ last.gradient_noise @ rest.T
    root = share @ roots[0] + rest @ roots[1]
    return replace(
        last,
        gradient=last.gradient + share @ apart,
        gradient_noise=symmetric(gradient_noise),
        left=root @ root.T,
        put_back=rest @ last.put_back + share @ first.put_back,
    ), disagreement


def half(matrix: np.ndarray) -> np.ndarray:
    """Symmetric root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(symmetric(matrix))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
