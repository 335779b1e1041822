"""One model, compiled once, of many data sets."""

from unittest import mock

import numpy as np
import pymc as pm
from pymc.pytensorf import compile as compile_model
from pymc.pytensorf import find_rng_nodes, reseed_rngs

import pymc_dp as dp
from benchmarks import surrogates
from benchmarks.families.models import FAMILIES
from benchmarks.families.others import OTHERS
from benchmarks.running import QUIET
from pymc_dp.control_variates import ControlVariates
from pymc_dp.control_variates.verdict import judge, what_was_cut
from pymc_dp.records.model import RecordModel

DELTA = 1e-6


class Family:
    """One model, compiled once, of many data sets."""

    def __init__(self, name, n):
        self.name, self.n = name, n
        self.define, self.covariates = {**FAMILIES, **OTHERS}[name]
        x = self.covariates(np.random.default_rng(0), n)
        with pm.Model() as self.simulator:
            self.define(pm.Data("data_x", x), None)
        drawn = [self.simulator["y"], *self.simulator.free_RVs]
        self.generators, self.draw = find_rng_nodes(drawn), compile_model([], drawn)
        y, _ = self.simulated(0)
        with pm.Model() as self.model:
            self.define(pm.Data("data_x", x), pm.Data("data_y", y))
        self.records = RecordModel(self.model)
        # A step refuses data that were changed; here they are, on purpose, and functions read them anew.
        self.records.check_data = lambda: None
        self.slope = self.model.compile_dlogp()
        self.names = [
            f"{rv.name}[{k}]" if np.size(self.start[v.name]) > 1 else rv.name
            for rv, v in zip(self.model.free_RVs, self.model.value_vars, strict=True)
            for k in range(np.size(self.start[v.name]))
        ]

    @property
    def start(self):
        """Initial point of the model."""
        return self.model.initial_point(0)

    def simulated(self, seed):
        """Observed values, and the parameters they were made with, by the model's own prior."""
        with self.simulator:
            pm.set_data({"data_x": self.covariates(np.random.default_rng(seed), self.n)})
        reseed_rngs(self.generators, seed)
        y, *values = self.draw()
        return y, dict(zip([rv.name for rv in self.simulator.free_RVs], values, strict=True))

    def data(self, seed):
        """Take a data set; its true parameters in unconstrained space."""
        y, values = self.simulated(seed)
        with self.model:
            x = self.covariates(np.random.default_rng(seed), self.n)
            pm.set_data({"data_x": x, "data_y": y})
        return self.unconstrained(values)

    def unconstrained(self, values):
        """Shape (d,), or (draws, d) of arrays of draws."""
        parts = []
        for rv, value in zip(self.model.free_RVs, self.model.value_vars, strict=True):
            v, size = np.asarray(values[rv.name], dtype=float), np.size(self.start[value.name])
            if value.name.endswith("_log__"):
                v = np.log(v)
            elif value.name.endswith("_logodds__"):
                v = np.log(v) - np.log1p(-v)
            parts.append(v.reshape(*v.shape[: v.ndim - rv.ndim], size))
        return np.concatenate(parts, axis=-1)

    def laplace(self, theta):
        """Mode and standard deviations of the exact posterior, from a point near it."""

        def gradient(t):
            return self.slope(self.records.unravel(t))

        precision = None
        for _ in range(50):
            h = 1e-4
            precision = -np.array([
                (gradient(theta + h * e) - gradient(theta - h * e)) / (2 * h) for e in np.eye(theta.size)
            ])  # fmt: skip
            values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
            step = (vectors / np.maximum(np.abs(values), 1e-3)) @ vectors.T @ gradient(theta)
            step *= min(1.0, 1.0 / np.abs(step).max())
            theta = theta + step
            if np.abs(step * np.sqrt(np.diag(precision).clip(1e-9))).max() < 1e-3:
                break
        return theta, np.sqrt(np.diag(np.linalg.inv(precision)))

    def of_surrogate(self, epsilon, seed):
        """Mean and standard deviations of prior times surrogate, by Laplace; no chain."""
        records = self.records
        surrogate = surrogates.released(records, epsilon, DELTA, seed)
        cut = what_was_cut(surrogate, records, self.names)
        judge(surrogate, records, cut, ControlVariates())
        theta, sd = surrogates.moments(records, surrogate)
        return theta, sd, np.abs(theta), (theta - 1.6449 * sd, theta + 1.6449 * sd)

    def of_chain(self, epsilon, seed, draws):
        """Of a chain with default settings, on records whose functions are compiled already."""
        with mock.patch("pymc_dp.steps.base.RecordModel", lambda *_, **__: self.records):
            step = dp.DPPenaltyMH(
                epsilon=epsilon, delta=DELTA, chains=1, control_variates=True, model=self.model
            )
        idata = dp.sample(step, draws=draws, tune=0, random_seed=seed, model=self.model, **QUIET)
        kept = self.unconstrained({v: idata.posterior[v].to_numpy()[0] for v in idata.posterior})
        low, high = np.quantile(kept, [0.05, 0.95], axis=0)
        return kept.mean(axis=0), kept.std(axis=0), None, (low, high)
