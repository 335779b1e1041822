"""One model, compiled once, of many data sets."""

import warnings
from functools import cached_property
from operator import call

import numpy as np
import pymc as pm
from pymc.pytensorf import compile as compile_model
from pymc.pytensorf import find_rng_nodes, reseed_rngs

import pymc_dp as dp
from benchmarks.families.models import FAMILIES
from benchmarks.families.others import KINKED, OTHERS
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.likelihood.releases import Public, kept_shares, search_from
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.planning import moments
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.twins import Twins

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
        parts = PublicModel(self.records).parts
        self.names = [
            f"{part.name}[{k}]" if part.shape else part.name
            for part in parts
            for k in range(int(np.prod(part.shape)))
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
        """Take a data set; its true parameters in unconstrained space, where the mode is looked for."""
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
        """Standard deviations of the coordinates in the exact posterior, from a point near its mode."""

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
        slopes = self.near_zero.slopes(self.records.coordinates(theta))
        jacobian = slopes[:, None] * self.records.coordinates.jacobian(theta)
        return np.sqrt(np.diag(jacobian @ np.linalg.inv(precision) @ jacobian.T))

    def deviations(self, theta):
        """Of the exact posterior: Laplace's, or by records' scores where the density has a kink."""
        return self.by_scores(theta) if self.name in KINKED else self.laplace(theta)

    def by_scores(self, theta):
        """Standard deviations of the coordinates, from squares of the records' scores at a point."""
        twins, _, prior = self.public
        information = prior.precision.copy()
        phi = self.records.coordinates(theta)
        for chunk in map(call, twins(phi, 0, PrivacyRandom())):
            for term in chunk.terms:
                rows = np.broadcast_to(term.rows(np.eye(twins.size)), (*term.own.T.shape, twins.size))
                scores = np.einsum("ma,amp->mp", term.own, rows) / self.near_zero.slopes(phi)
                information += scores.T @ scores
        return np.sqrt(np.diag(np.linalg.inv(information)))

    @cached_property
    def public(self):
        """Twins, and what the prior of the coordinates is like: compiled and drawn once."""
        start = self.coordinates(self.records.ravel(self.start))
        twins = Twins(self.records)
        if twins.unlike:
            raise ValueError(f"no twins: {twins.unlike}")
        return twins, start, approximate_prior(self.part, start)

    @cached_property
    def part(self):
        """The public part of the model."""
        return PublicModel(self.records)

    @property
    def near_zero(self):
        """What is released, of what records see."""
        return self.part.near_zero

    def coordinates(self, theta):
        """What is released, of parameters in unconstrained space."""
        return self.near_zero.psi(self.records.coordinates(theta))

    def of_likelihood(self, epsilon, seed):
        """Mean and standard deviations of a released likelihood times a normal one like the prior."""
        return moments(self.released(epsilon, seed)[0], self.public[2])

    def released(self, epsilon, seed, fit_test=False):
        """What is found, and what the test of the fit says."""
        twins, start, prior = self.public
        spending = Spending(epsilon, DELTA, [1.0], "substitute", debug_seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)
            spending.pay()
        mu = float(gaussian.mu(epsilon, DELTA))
        kept = kept_shares(self.n, mu, "substitute") if fit_test else {}
        measurements = Measurements(RecordsHere(twins, spending.random), spending, kept)
        part = self.part
        public = Public(prior, start, part.near_zero, part.longest_step, part.bounds)
        found, last = search_from(measurements, self.n, mu, public)
        return found, last["fit"]
