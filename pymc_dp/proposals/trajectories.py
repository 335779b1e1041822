"""Leapfrog trajectories on noisy gradients, and their tuning from released decisions and draws."""

from collections.abc import Callable

import numpy as np

from pymc_dp.bounds import check_count
from pymc_dp.proposals.walk import Moves, adapted, check_walk


class Trajectories(Moves):
    """Leapfrog integration with a diagonal mass.

    Parameters
    ----------
    d : int
        Number of parameters.
    n_leapfrog : int
        Leapfrog steps of a trajectory, >= 1.
    step_size : float, optional
        Initial step size; None for the default of the step method.
    mass : float or array_like of shape (d,), optional
        Diagonal of the mass matrix (public): about 1 / variance of each parameter, up to a factor.
    target_accept : float
        Acceptance rate that tuning aims at.
    adapt_step_size, adapt_mass : bool
        Whether tuning adapts the step size, and the mass.

    Raises
    ------
    ValueError
        An argument is out of range.

    Notes
    -----
    **Privacy.** Adapts to decisions and draws, both of which are released.
    """

    name = "leapfrog trajectory"

    def __init__(
        self,
        d: int,
        n_leapfrog: int,
        *,
        step_size: float | None,
        mass: float | np.ndarray | None,
        target_accept: float,
        adapt_step_size: bool,
        adapt_mass: bool,
    ):
        check_count("n_leapfrog", n_leapfrog)
        check_walk(None, step_size, target_accept)
        given = np.ones(d) if mass is None else np.broadcast_to(np.asarray(mass, dtype=float), (d,))
        if not (np.all(np.isfinite(given)) and np.all(given > 0)):
            raise ValueError("mass must be positive and finite: a number, or one for each parameter.")
        self.d, self.n_leapfrog, self.initial = d, int(n_leapfrog), step_size
        self.target_accept, self.adapt_step_size, self.adapt_mass = target_accept, adapt_step_size, adapt_mass
        self._given_mass = given.copy()
        self.start(np.nan, 0)

    def start(self, step_size: float, tune: int) -> None:
        """Begin a chain that tunes for `tune` iterations."""
        self.step_size, self.mass = step_size, self._given_mass.copy()
        # Iterations after which the mass is set, from the draws since the last time it was set.
        self._updates = {int(part * tune) for part in (0.3, 0.5, 0.75)} if self.adapt_mass else set()
        self._draws: list[np.ndarray] = []

    def momentum(self, rng: np.random.Generator) -> np.ndarray:
        """Draw from N(0, M), shape (d,)."""
        return np.sqrt(self.mass) * rng.standard_normal(self.d)

    def kinetic_energy(self, momentum: np.ndarray) -> float:
        """Return ``p' M^-1 p / 2``; infinite where a trajectory diverged."""
        return 0.5 * float(np.sum(momentum**2 / self.mass))

    def run(
        self,
        theta: np.ndarray,
        gradient: np.ndarray,
        momentum: np.ndarray,
        gradient_at: Callable[[np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Integrate from a point whose gradient is known.

        Parameters
        ----------
        theta, gradient, momentum : ndarray, shape (d,)
        gradient_at : callable
            Called `n_leapfrog` times.

        Returns
        -------
        theta, gradient, momentum : ndarray, shape (d,)
            Values at the end. The gradient is the one that the last half step used.
        """
        for _ in range(self.n_leapfrog):
            momentum = momentum + 0.5 * self.step_size * gradient
            theta = theta + self.step_size * momentum / self.mass
            gradient = gradient_at(theta)
            momentum = momentum + 0.5 * self.step_size * gradient
        return theta, gradient, momentum

    def learn(self, accepted: bool, iteration: int) -> None:
        """Adapt the step size to a decision; `iteration` counts from 1."""
        if self.adapt_step_size:
            self.step_size = adapted(self.step_size, accepted, self.target_accept, iteration)

    def learn_mass(self, draw: np.ndarray, iteration: int) -> None:
        """Store a tuning draw; at some iterations, set the mass to 1 / variance of the stored draws.

        The variances are shrunk towards their geometric mean. The geometric mean of the masses is not
        changed, so that the step size stays comparable.
        """
        if not self._updates:
            return
        self._draws.append(draw)
        fewest = 20
        if iteration in self._updates and len(self._draws) >= fewest:
            variances = np.var(self._draws, axis=0)
            if np.all(variances > 0):
                centred = np.log(variances) - np.mean(np.log(variances))
                weight = len(self._draws) / (len(self._draws) + 5.0 * fewest)
                level = np.mean(np.log(self.mass))
                self.mass = np.exp(level - weight * centred)
            self._draws = []
