"""Reference models whose posterior is known, for tests, notebooks and users' own comparisons.

Each function simulates data (or takes yours), writes the PyMC model as anyone would, and returns it with its
posterior. The posteriors are computed from the data without any noise: **nothing in this module is private**.
Use it with simulated data, to see what a private sampler costs.
"""

from pymc_dp.models.banana import BananaPosterior, banana
from pymc_dp.models.gaussian_mean import GaussianPosterior, gaussian_mean
from pymc_dp.models.grid import GridPosterior
from pymc_dp.models.logistic import logistic
from pymc_dp.models.reference import Posterior, ReferenceModel
from pymc_dp.models.truncated_mixture import truncated_mixture

__all__ = [
    "BananaPosterior",
    "GaussianPosterior",
    "GridPosterior",
    "Posterior",
    "ReferenceModel",
    "banana",
    "gaussian_mean",
    "logistic",
    "truncated_mixture",
]
