"""Leapfrog trajectories with a diagonal mass."""

from collections.abc import Callable

import numpy as np


def leapfrog(
    theta: np.ndarray,
    gradient: np.ndarray,
    momentum: np.ndarray,
    gradient_at: Callable[[np.ndarray], np.ndarray],
    *,
    steps: int,
    step_size: float,
    mass: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integrate from a point whose gradient is known.

    Parameters
    ----------
    theta, gradient, momentum : ndarray, shape (d,)
    gradient_at : callable
        Called `steps` times.
    steps : int
    step_size : float
    mass : ndarray, shape (d,)
        Diagonal of the mass matrix.

    Returns
    -------
    theta, gradient, momentum : ndarray, shape (d,)
        At the end; the gradient is the one the last half step used.
    """
    for _ in range(steps):
        momentum = momentum + 0.5 * step_size * gradient
        theta = theta + step_size * momentum / mass
        gradient = gradient_at(theta)
        momentum = momentum + 0.5 * step_size * gradient
    return theta, gradient, momentum


def kinetic_energy(momentum: np.ndarray, mass: np.ndarray) -> float:
    """``p' M^-1 p / 2``; infinite where a trajectory ran away."""
    return 0.5 * float(np.sum(momentum**2 / mass))
