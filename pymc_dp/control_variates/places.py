"""Points of a search: between parameters and likelihood coordinates, and steps from one to the next."""

from typing import Any

import numpy as np

from pymc_dp.control_variates.curvature import Prior, inverse_root, root_of_square, symmetric
from pymc_dp.control_variates.structure import Structure
from pymc_dp.control_variates.sums import Point, Sums


class Places:
    """Points, their metrics, and what the posterior looks like there; functions of what is released.

    Parameters
    ----------
    records : RecordModel
        Or its interface: `coordinates`, `log_prior_gradient`.
    start : ndarray, shape (d,)
    structure : Structure
    tempering : float
    """

    def __init__(self, records: Any, start: np.ndarray, structure: Structure, tempering: float):
        self._records, self._structure, self._tempering = records, structure, tempering
        self._prior = Prior(records, start)

    def first(self, theta: np.ndarray) -> Point:
        """In the metric of the prior's standard deviations of each coordinate."""
        scale = np.linalg.norm(self.jacobian(theta) * self._prior.scale, axis=1)
        phi = self._records.coordinates(theta)
        return Point(theta, phi, np.diag(np.where(scale > 0, scale, 1.0)), np.zeros(phi.size))

    def next(self, at: Point, theta: np.ndarray, curvature: np.ndarray) -> Point:
        """At `theta`, in the metric found at the last point: about posterior standard deviations."""
        metric = inverse_root(self.precision(curvature, at.theta))
        if not self._records.coordinates.identity or not self._structure.full:
            metric = root_of_square(self.jacobian(at.theta) @ metric, self._structure.blocks)
        return Point(theta, self._records.coordinates(theta), metric, at.centre)

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Of likelihood coordinates by parameters, shape (p, d); 0 where it is not finite."""
        return np.nan_to_num(self._records.coordinates.jacobian(theta), posinf=0.0, neginf=0.0)

    def precision(self, curvature: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Of the posterior of theta, for a likelihood of this curvature in phi; shape (d, d)."""
        jacobian = self.jacobian(theta)
        return symmetric(jacobian.T @ curvature @ jacobian + self._prior.precision(theta))

    def slope(self, sums: Sums) -> np.ndarray:
        """Of the log-posterior by theta."""
        of_likelihood = self.jacobian(sums.at.theta).T @ sums.gradient
        return self._tempering * of_likelihood + self._records.log_prior_gradient(sums.at.theta)

    def held(self, theta: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Parameters that only the prior sees move by a prior standard deviation at most.

        The density of a centred hierarchy is infinite where all groups are equal and their scale is 0: at the
        start they are equal, and a step without bound goes there.
        """
        unseen = ~np.any(self.jacobian(theta) != 0, axis=0)
        return np.where(unseen, np.clip(step, -self._prior.spread, self._prior.spread), step)
