"""Stochastic gradient Hamiltonian dynamics with friction (Chen, Fox & Guestrin 2014)."""

from collections.abc import Callable

import numpy as np


def sghmc(
    theta: np.ndarray,
    momentum: np.ndarray,
    gradient_at: Callable[[np.ndarray], np.ndarray],
    *,
    steps: int,
    step_size: float,
    friction: float,
) -> np.ndarray:
    """Follow noisy gradients, with the friction that balances their noise.

    Parameters
    ----------
    theta, momentum : ndarray, shape (d,)
    gradient_at : callable
        Noisy gradient of the log-density; called `steps` times.
    steps : int
        Number of steps.
    step_size : float
        eta.
    friction : float
        C: balances gradient noise of variance ``2 C / eta``.

    Returns
    -------
    ndarray, shape (d,)
        The last point.

    Notes
    -----
    Friction acts on the mean of the momentum before and after a step. N(0, I) is then invariant for the
    momentum at every friction and step size.
    """
    damping = 1 + 0.5 * friction * step_size
    kept, kick = (1 - 0.5 * friction * step_size) / damping, step_size / damping
    for _ in range(steps):
        theta = theta + 0.5 * step_size * momentum
        momentum = kept * momentum + kick * gradient_at(theta)
        theta = theta + 0.5 * step_size * momentum
    return theta
