"""Released likelihoods of models with an effect for each person: whether the truth is where they say.

    python -m benchmarks.persons --datasets 40
    python -m benchmarks.persons --models intercept slopes --n 2000 --epsilon 1 --datasets 8
    python -m benchmarks.persons --nodes
    python -m benchmarks.persons --nuts --models intercept slopes counts --n 500 1000

Each data set: parameters from the prior, fresh persons of six rows, fresh noise. For each likelihood
coordinate z = (posterior mean - truth) / posterior sd, whether an interval of 90% covers the truth, and the
posterior sd over that without privacy (from the persons' own scores at the truth). "Off" is z without what
the data themselves are off by (the posterior's mode by the persons' own scores): few data sets tell it more
sharply than z. With --nodes instead: how far estimates move with twice as many nodes of the quadrature.
With --nuts: likelihoods without noise beside PyMC's NUTS on all effects, for one data set.
The table goes to benchmarks/results/persons.csv; --add replaces the cells that were measured again.
"""

import math
import time
import warnings
from operator import call

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import compile as compile_model
from pymc.pytensorf import find_rng_nodes, reseed_rngs

import pymc_dp as dp
from benchmarks import results, running
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel, name_numbers
from pymc_dp.likelihood.releases import Public, search_from
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.planning import moments
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records import quadrature
from pymc_dp.records.model import RecordModel

DELTA, ROWS, ITEMS, NINETY = 1e-6, 6, 20, 1.6449
CELL = ["model", "persons", "epsilon"]


def intercept(person, x, y, n):
    beta, tau = pm.Normal("beta", 0, 1, shape=3), pm.LogNormal("tau", -0.3, 0.4)
    ability = pm.Normal("ability", 0, tau, shape=n)
    pm.Bernoulli("y", logit_p=x @ beta + ability[person], observed=y)


def slopes(person, x, y, n):
    beta, sigma = pm.Normal("beta", 0, 1, shape=3), pm.LogNormal("sigma", 0, 0.3)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.LogNormal.dist(-0.3, 0.3, shape=2))
    own = pm.math.dot(pm.Normal("z", 0, 1, shape=(n, 2)), chol.T)
    pm.Normal("y", x @ beta + own[person, 0] + own[person, 1] * x[:, 1], sigma, observed=y)


def counts(person, x, y, n):
    beta, alpha = pm.Normal("beta", 0, 0.4, shape=3), pm.LogNormal("alpha", 0.7, 0.4)
    rate = pm.Gamma("rate", alpha=alpha, beta=alpha, shape=n)
    pm.Poisson("y", pm.math.exp(x @ beta) * rate[person], observed=y)


def survival(person, x, y, n):
    beta, k = pm.Normal("beta", 0, 0.4, shape=3), pm.LogNormal("k", 0.3, 0.2)
    alpha = pm.LogNormal("alpha", 1, 0.4)
    frailty = pm.Gamma("frailty", alpha=alpha, beta=alpha, shape=n)
    scale = pm.math.exp(x @ beta) * frailty[person] ** (-1 / k)
    pm.Weibull("y", alpha=k, beta=scale, observed=y)


def items(person, x, y, n):
    log_slope, level = pm.Normal("log_slope", 0, 0.3, shape=ITEMS), pm.Normal("level", 0, 1, shape=ITEMS)
    ability = pm.Normal("ability", 0, 1, shape=n)
    pm.Bernoulli("y", logit_p=pm.math.exp(log_slope) * ability[:, None] - level, observed=y)


MODELS = {f.__name__: f for f in (intercept, slopes, counts, survival, items)}


class Family:
    """One model, compiled once, of many data sets."""

    def __init__(self, name, n):
        self.name, self.n, define = name, n, MODELS[name]
        self.ids = np.repeat(np.arange(n), ROWS)
        with pm.Model() as self.simulator:
            define(pm.Data("person", self.ids), pm.Data("x", self.covariates(0)), None, n)
        drawn = [self.simulator["y"], *self.simulator.free_RVs]
        self.generators, self.draw = find_rng_nodes(drawn), compile_model([], drawn)
        y, _ = self.simulated(0)
        with pm.Model() as self.model:
            define(pm.Data("person", self.ids), pm.Data("x", self.covariates(0)), pm.Data("data_y", y), n)
        unit = None if name == "items" else "person"
        self.records = RecordModel(self.model, privacy_unit=unit, integrate=True)
        self.twins, self.public = self.records.twins, PublicModel(self.records)
        self.names = name_numbers(self.public.parts)
        self.start = self.released_coordinates(self.records.ravel(self.records.reading.start))
        self.prior = approximate_prior(self.public, self.start)

    def covariates(self, seed):
        """A constant, a number of each row, and one of each person."""
        r = np.random.default_rng(seed)
        within, between = r.normal(size=(self.n * ROWS, 1)), r.normal(size=(self.n, 1))[self.ids]
        return np.hstack([np.ones_like(within), within, between])

    def simulated(self, seed):
        """Observed values, and the parameters they were made with, by the model's own prior."""
        with self.simulator:
            pm.set_data({"x": self.covariates(seed)})
        reseed_rngs(self.generators, seed)
        y, *values = self.draw()
        return y, dict(zip([rv.name for rv in self.simulator.free_RVs], values, strict=True))

    def data(self, seed):
        """Take a data set; its true coordinates, their estimates without privacy, and standard deviations."""
        y, values = self.simulated(seed)
        with self.model:
            pm.set_data({"x": self.covariates(seed), "data_y": y})
        truth = self.coordinates_of(values)
        own = self.scores(truth)
        sd = np.sqrt(np.diag(np.linalg.inv(own.T @ own + self.prior.precision)))
        return truth, self.mode(truth), sd

    def mode(self, phi, steps=4):
        """Go to the posterior's mode by persons' scores: no twins, bounds or draws."""
        for _ in range(steps):
            own = self.scores(phi)
            phi = phi + np.linalg.solve(own.T @ own + self.prior.precision, self.pull(phi))
        return phi

    def pull(self, phi):
        """Derivatives of the logarithm of the posterior's density, shape (p,)."""
        return self.scores(phi).sum(axis=0) + self.prior.precision @ (self.prior.mean - phi)

    def coordinates_of(self, values):
        """Likelihood coordinates of parameters."""
        theta = []
        for rv in self.records._model.free_RVs:
            transform = self.records._model.rvs_to_transforms[rv]
            v = np.asarray(values[rv.name], dtype=float)
            if transform is not None:
                v = transform.forward(pt.as_tensor(v), *rv.owner.inputs).eval()
            theta.append(np.ravel(v))
        return self.released_coordinates(np.concatenate(theta))

    def released_coordinates(self, theta):
        """What is released, of the vector that a sampler has."""
        return self.public.near_zero.psi(np.asarray(self.records.coordinates(theta)))

    def scores(self, psi):
        """The persons' scores by the released coordinates, shape (n, p)."""
        near_zero = self.public.near_zero
        phi = near_zero.phi(psi)
        chunks = map(call, self.twins(phi, 0, PrivacyRandom()))
        return np.concatenate([chunk.terms[0].own for chunk in chunks]) / near_zero.slopes(phi)

    def by_scores(self, phi, steps=8, apart=1e-3):
        """Mean and standard deviations of the posterior by persons' scores: no twins, bounds or draws.

        The mode, the information there, and what third derivatives move the mean by (Laplace).
        """
        phi, pull = self.mode(phi, steps), self.pull
        slopes = np.array([(pull(phi - e) - pull(phi + e)) / (2 * apart) for e in apart * np.eye(len(phi))])
        covariance = np.linalg.inv(0.5 * (slopes + slopes.T))
        bend = sum(pull(phi + e) + pull(phi - e) - 2 * pull(phi) for e in np.linalg.cholesky(covariance).T)
        return phi + 0.5 * covariance @ bend, np.sqrt(np.diag(covariance))

    def released(self, epsilon, seed):
        """Mean and standard deviations of a released likelihood times a normal one like the prior."""
        spending = Spending(epsilon, DELTA, [1.0], "substitute", debug_seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)
            spending.pay()
        measurements = Measurements(RecordsHere(self.twins, spending.random), spending)
        mu = float(gaussian.mu(epsilon, DELTA))
        near_zero, longest = self.public.near_zero, self.public.longest_step
        found, _ = search_from(measurements, self.n, mu, Public(self.prior, self.start, near_zero, longest))
        return moments(found, self.prior)


def rows_of(family, epsilon, seeds):
    """A row of the table for each coordinate."""
    z, off, ratios, seconds = [], [], [], []
    for seed in seeds:
        truth, alone, sd = family.data(seed)
        started = time.perf_counter()
        mean, own = family.released(epsilon, seed)
        seconds.append(time.perf_counter() - started)
        z.append((mean - truth) / own)
        off.append((mean - alone) / own)
        ratios.append(own / sd)
    z, off, ratios = np.array(z), np.array(off), np.array(ratios)
    widths = np.median(ratios, axis=0)
    # What a release is off by beside the data has the variance that it is wider by.
    error = np.sqrt(np.mean(np.maximum(1 - widths**-2, 0)) / len(z))
    print(
        f"{family.name} n = {family.n} epsilon = {epsilon:g}: mean z {z.mean(axis=0).min():+.2f} to "
        f"{z.mean(axis=0).max():+.2f}, off {off.mean(axis=0).min():+.2f} to {off.mean(axis=0).max():+.2f} "
        f"(error {error:.2f}), "
        f"coverage of 90% {np.mean(np.abs(z) < NINETY):.3f}, widths "
        f"{widths.min():.2f} to {widths.max():.2f}, {np.median(seconds):.0f} s",
        flush=True,
    )
    for k, name in enumerate(family.names):
        yield {
            "model": family.name,
            "persons": family.n,
            "epsilon": epsilon,
            "datasets": len(z),
            "parameter": name,
            "mean_z": z[:, k].mean(),
            "sd_z": z[:, k].std(),
            "mean_off": off[:, k].mean(),
            "sd_off": off[:, k].std(),
            "coverage_90": np.mean(np.abs(z[:, k]) < NINETY),
            "width": widths[k],
        }


def nodes_of(family, seed=0):
    """How far estimates move with twice as many nodes, in standard deviations; and the information."""
    truth, *_ = family.data(seed)
    few = family.scores(truth)
    usual = dict(quadrature.NODES)
    quadrature.NODES.update({size: 2 * number for size, number in usual.items()})
    many = family.scores(truth)
    quadrature.NODES.update(usual)
    sd = np.sqrt(np.diag(np.linalg.inv(many.T @ many)))
    moved = np.abs(np.linalg.solve(many.T @ many, (many - few).sum(axis=0))) / sd
    other = np.abs(np.diag(few.T @ few) / np.diag(many.T @ many) - 1)
    print(f"{family.name}: {moved.max():.1e} standard deviations, information {other.max():.1e}", flush=True)


def beside_nuts(family, seed=1, releases=8, draws=1500):
    """NUTS on all effects; integrals alone; and likelihoods without noise, which differ in their twins."""
    truth, *_ = family.data(seed)
    found = [family.released(math.inf, k) for k in range(1, releases + 1)]
    mean, sd = np.mean([one for one, _ in found], axis=0), np.mean([own for _, own in found], axis=0)
    settings = {**running.QUIET, "idata_kwargs": {"include_transformed": True}}
    raw = pm.sample(draws, tune=1000, chains=2, model=family.model, random_seed=seed, **settings)
    kept = raw["posterior"].dataset.stack(each=("chain", "draw")).isel(each=slice(None, None, 2))
    names = [v.name for v in family.records.value_vars]
    points = [{name: kept[name].isel(each=k).values for name in names} for k in range(kept.sizes["each"])]
    phi = np.array([family.released_coordinates(family.records.ravel(point)) for point in points])
    nuts, unit = phi.mean(axis=0), phi.std(axis=0)
    scores, own = family.by_scores(truth)
    each = np.std([one for one, _ in found], axis=0) / unit
    print(f"{family.name} n = {family.n}: twins move a release by {each.min():.2f} to {each.max():.2f}")
    of_all = zip(
        family.names, (scores - nuts) / unit, own / unit, (mean - nuts) / unit, sd / unit, strict=True
    )
    for name, *numbers in of_all:
        said = "by scores: mean {:+.2f} sd, sd {:.3f}; released: mean {:+.2f} sd, sd {:.3f}".format(*numbers)
        print(f"  {name}: {said}", flush=True)


def main():
    parser = running.parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--n", type=int, nargs="+", default=[500, 2_000, 10_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--datasets", type=int, default=40)
    parser.add_argument("--nodes", action="store_true", help="the quadrature's error instead")
    parser.add_argument("--nuts", action="store_true", help="without noise, beside NUTS, instead")
    parser.add_argument("--add", action="store_true", help="to the stored table")
    args = parser.parse_args()
    running.silence()
    table = []
    for name in args.models:
        for n in args.n:
            family = Family(name, n)
            if args.nodes or args.nuts:
                (nodes_of if args.nodes else beside_nuts)(family)
                continue
            for epsilon in args.epsilon:
                table.extend(rows_of(family, epsilon, range(1, args.datasets + 1)))
                if args.add:
                    before = results.stored("persons").set_index(CELL)
                    fresh = pd.DataFrame(table)
                    kept = before.drop(index=fresh.set_index(CELL).index, errors="ignore").reset_index()
                    results.store("persons", pd.concat([kept, fresh]))
    if table and not args.add:
        results.store("persons", pd.DataFrame(table))


if __name__ == "__main__":
    main()
