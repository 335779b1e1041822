"""A model with its data and its posterior, and checks of what it is made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike


class Posterior(Protocol):
    """What a reference posterior can do; the parameters are one vector of length d."""

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean, shape (d,)."""

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariance, shape (d, d)."""

    def draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (size, d)."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Evaluate the normalized log density at points of shape (..., d)."""


@dataclass(frozen=True, eq=False)
class ReferenceModel:
    """A PyMC model, the data in it and its posterior.

    Attributes
    ----------
    model : pymc.Model
        Has one free variable, a vector of length d whose value space is its natural space (no transform), and
        one observed variable whose rows are the records. Tempering is not in it: that is the step's business.
    data : mapping of str to numpy.ndarray
        The arrays inside the model, records along the first axis.
    posterior : Posterior
        Posterior of the free variable for the likelihood to the power `tempering`.
    tempering : float
        Pass it to the step: ``DPPenaltyMH(tempering=reference.tempering, ...)``.
    theta : numpy.ndarray or None, shape (d,)
        Parameter that the data were simulated with; None for data supplied by the caller.
    exact : bool
        Whether `posterior` is the posterior up to rounding; if not, the function that made it says what it
        is.
    lipschitz : float or None
        Proven bound on the Euclidean norm of the gradient of every possible record's log-likelihood, or None
        where there is none.
    public : tuple of str
        Names of the constants in the model. Pass them to the step, which asks for those with more than 30
        entries: ``DPPenaltyMH(public=reference.public, ...)``.
    """

    model: pm.Model
    data: Mapping[str, np.ndarray]
    posterior: Posterior
    tempering: float
    theta: np.ndarray | None
    exact: bool = True
    lipschitz: float | None = None
    public: tuple[str, ...] = ()

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean, shape (d,)."""
        return self.posterior.mean

    @property
    def cov(self) -> np.ndarray:
        """Posterior covariance, shape (d, d)."""
        return self.posterior.cov

    @property
    def sd(self) -> np.ndarray:
        """Posterior standard deviations, shape (d,): the scale that proposals should have."""
        return np.sqrt(np.diag(self.cov))

    def posterior_draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws from the posterior.

        Parameters
        ----------
        size : int
            Number of draws.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        numpy.ndarray, shape (size, d)
            Values of the model's free variable.
        """
        return self.posterior.draws(size, rng)

    def log_density(self, theta: ArrayLike) -> np.ndarray:
        """Evaluate the normalized log density of the posterior at points of shape (..., d); shape (...)."""
        return self.posterior.log_density(np.asarray(theta, dtype=float))


def check_positive(name: str, value: ArrayLike, shape: tuple[int, ...] = ()) -> np.ndarray:
    """Raise ValueError unless an array is positive, finite and of this shape."""
    array = np.asarray(value, dtype=float)
    if array.shape != shape or not np.isfinite(array).all() or not (array > 0).all():
        raise ValueError(f"{name} must be positive and finite, of shape {shape}.")
    return array


def check_tempering(value: float) -> float:
    """Raise ValueError unless it lies in (0, 1]."""
    if not 0 < value <= 1:
        raise ValueError(f"tempering must be in (0, 1], got {value}.")
    return float(value)


def check_vector(name: str, value: ArrayLike, d: int) -> np.ndarray:
    """Raise ValueError unless an array is finite, of shape (d,)."""
    array = np.asarray(value, dtype=float)
    if array.shape != (d,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, of shape ({d},).")
    return array


def check_sizes(d: int, n: int, smallest_d: int) -> None:
    """Raise ValueError unless there are enough parameters and records."""
    if d < smallest_d or n < 1:
        raise ValueError(f"d must be at least {smallest_d} and n at least 1, got d = {d}, n = {n}.")


def check_rows(name: str, value: ArrayLike, d: int) -> np.ndarray:
    """Raise ValueError unless an array is finite, of shape (n, d)."""
    array = np.asarray(value, dtype=float)
    if array.ndim != 2 or array.shape[1] != d or len(array) == 0 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, of shape (n, {d}) with at least one row.")
    return array
