"""Prior times surrogate, without a chain."""

import numpy as np

from pymc_dp.control_variates import ControlVariates
from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.privacy.accounting.gaussian import mu
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel


def released(records: RecordModel, epsilon: float, delta: float, seed: int) -> Surrogate:
    """A surrogate for the whole budget."""
    squared = float(mu(epsilon, delta)) ** 2
    return Finder(records, ControlVariates(), squared, PrivacyRandom(seed), 1.0, epsilon)(records._start)


def moments(records: RecordModel, surrogate: Surrogate) -> tuple[np.ndarray, np.ndarray]:
    """Mode and standard deviations of prior times surrogate, by Newton's method and Laplace."""
    slope, curvature = surrogate.public()
    theta = surrogate.point.copy()
    for _ in range(50):
        jacobian, delta = records.coordinates.jacobian(theta), records.coordinates(theta) - surrogate.phi
        precision = prior_curvature(records, theta) - jacobian.T @ curvature @ jacobian
        gradient = records.log_prior_gradient(theta) + jacobian.T @ (slope + curvature @ delta)
        theta = theta + np.linalg.solve(precision, gradient)
    return theta, np.sqrt(np.diag(np.linalg.inv(precision)))
