"""Reference models whose posterior is known, for tests and benchmarks.

Each function simulates data (or takes yours), writes the PyMC model as anyone would, and returns it with its
posterior. The posteriors are computed from the data without any noise: **nothing in this module is private**.
Use it with simulated data, to see what a private sampler costs.
"""

from benchmarks.models.banana import BananaPosterior, banana
from benchmarks.models.gaussian_mean import GaussianPosterior, gaussian_mean
from benchmarks.models.grid import GridPosterior
from benchmarks.models.logistic import logistic
from benchmarks.models.reference import Posterior, ReferenceModel
from benchmarks.models.truncated_mixture import truncated_mixture

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
