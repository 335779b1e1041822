"""The exact posterior, and prior times surrogate."""

import numpy as np
import pymc as pm

from benchmarks import surrogates
from benchmarks.control_variates.models import MODELS
from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.records.model import RecordModel

DELTA = 1e-6

POSITIVE = ("sigma", "tau")


def draws_of(idata):
    """Draws in unconstrained space, shape (draws, d)."""
    names = [v for v in ("beta", "sigma", "mean", "tau", "level") if v in idata.posterior]
    stacked = {v: idata.posterior[v].to_numpy() for v in names}
    return np.column_stack([
        (np.log(x) if v in POSITIVE else x).reshape(x.shape[0] * x.shape[1], -1) for v, x in stacked.items()
    ])  # fmt: skip


def laplace(records):
    """Mean and standard deviations by Newton's method on the exact log-posterior."""
    if not records.coordinates.identity:
        raise ValueError("derivatives are not by the parameters")
    theta = records._start.copy()

    def value(t):
        return records.full_batch.rows(t).sum() + records.log_prior(t)

    for _ in range(100):
        gradient, precision = records.log_prior_gradient(theta), prior_curvature(records, theta)
        for part in records.derivatives(theta, hessians=True):
            gradient = gradient + part.gradient.sum(axis=0)
            precision = precision - part.hessian.sum(axis=0)
        values, vectors = np.linalg.eigh(precision)
        step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-3))
        halvings = 0
        while not value(theta + step) >= value(theta) - 1e-6:
            step, halvings = step / 2, halvings + 1
            if halvings > 60:
                raise RuntimeError("Newton's method found no better point")
        theta = theta + step
        if abs(step @ precision @ step) < 1e-8:
            return theta, np.sqrt(np.diag(np.linalg.inv(precision)))
    raise RuntimeError("Newton's method did not converge")


class Released:
    """Prior times surrogate of many data sets, by one compiled model; and the exact posterior."""

    def __init__(self, name, n):
        self.name, self.n = name, n
        with pm.Model() as self.model:
            MODELS[name](0, n)
        self.records = RecordModel(self.model)

    def data(self, seed):
        """Take another data set; its true parameters."""
        with self.model:
            return MODELS[self.name](seed, self.n)

    def __call__(self, epsilon, seed):
        """Mean and standard deviations."""
        surrogate = surrogates.released(self.records, epsilon, DELTA, seed)
        return surrogates.moments(self.records, surrogate)
