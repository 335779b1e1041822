"""Control variates on many likelihoods: whether the truth is where the posterior says, for every parameter.

    python benchmarks/families.py --datasets 40
    python benchmarks/families.py --families linear student_t --epsilon 1 --datasets 10
    python benchmarks/families.py --surrogate --datasets 20      # prior times surrogate, no chain: faster

Each data set: parameters from the prior, fresh records, fresh noise. For each parameter, in unconstrained
space (log of what is positive): z = (posterior mean - truth) / posterior sd, whether the 90% interval covers
the truth, and the posterior sd over that of the non-private posterior (Laplace's approximation at its mode).
A call that is refused counts as refused and nothing else; one that warned is counted, and kept. The table
goes to benchmarks/results/families.csv.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_dp as dp
from pymc_dp.control_variates import ControlVariates
from pymc_dp.control_variates.curvature import prior_curvature
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.verdict import judge_cut, what_was_cut
from pymc_dp.privacy.accounting.gaussian import mu
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel

DELTA = 1e-6
QUIET = {"cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}
RESULTS = Path(__file__).parent / "results" / "families.csv"


def covariates(r, n, d, scale=1.0):
    return np.column_stack([np.ones(n), scale * r.normal(size=(n, d - 1))])


def bounded(r, n):
    """Rows of norm at most 1."""
    z = r.normal(size=(n, 5)) / np.sqrt(5)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    return np.column_stack([np.full(n, 0.7), z * 0.714])


# Each: covariates of n records, and the model given nodes of them and of the observed values.


def logistic(x, y):
    beta = pm.Normal("beta", 0, 1.5, shape=6)
    pm.Bernoulli("y", logit_p=x @ beta, observed=y)


def ordered(x, y):
    beta = pm.Normal("beta", 0, 1, shape=3)
    first, gap = pm.Normal("first", -1, 0.5), pm.LogNormal("gap", 0, 0.3)
    pm.OrderedLogistic(
        "y", eta=x[:, 1:] @ beta, cutpoints=pm.math.stack([first, first + gap]), observed=y, compute_p=False
    )


def poisson(x, y):
    beta = pm.Normal("beta", 0, 0.4, shape=5)
    pm.Poisson("y", pm.math.exp(x @ beta), observed=y)


def negative_binomial(x, y):
    beta, alpha = pm.Normal("beta", 0, 0.4, shape=4), pm.Gamma("alpha", 8, 4)
    pm.NegativeBinomial("y", mu=pm.math.exp(x @ beta), alpha=alpha, observed=y)


def gamma(x, y):
    beta, alpha = pm.Normal("beta", 0, 0.4, shape=4), pm.Gamma("alpha", 8, 4)
    pm.Gamma("y", alpha=alpha, beta=alpha * pm.math.exp(-(x @ beta)), observed=y)


def beta(x, y):
    beta, kappa = pm.Normal("beta", 0, 0.3, shape=4), pm.Gamma("kappa", 16, 0.8)
    share = pm.math.sigmoid(x @ beta)
    pm.Beta("y", alpha=share * kappa, beta=(1 - share) * kappa, observed=y)


def weibull_censored(x, y):
    beta, alpha = pm.Normal("beta", 0, 0.3, shape=4), pm.Gamma("alpha", 16, 10)
    lifetime = pm.Weibull.dist(alpha=alpha, beta=pm.math.exp(x @ beta))
    pm.Censored("y", lifetime, lower=None, upper=2.0, observed=y)


def linear(x, y):
    beta, sigma = pm.Normal("beta", 0, 2, shape=5), pm.Gamma("sigma", 4, 2)
    pm.Normal("y", x @ beta, sigma, observed=y)


def student_t(x, y):
    beta, sigma, nu = pm.Normal("beta", 0, 2, shape=5), pm.Gamma("sigma", 4, 2), pm.Gamma("nu", 8, 1.6)
    pm.StudentT("y", nu=nu, mu=x @ beta, sigma=sigma, observed=y)


def mixture(x, y):
    share = pm.Beta("share", 8, 8)
    low, high = pm.Normal("low", -1.5, 0.2), pm.Normal("high", 1.5, 0.2)
    sigma = pm.LogNormal("sigma", -0.2, 0.2, shape=2)
    pm.NormalMixture(
        "y",
        w=pm.math.stack([share, 1 - share]),
        mu=pm.math.stack([low, high]) + x[:, None],  # x is 0
        sigma=sigma,
        observed=y,
    )


def zero_inflated(x, y):
    beta, psi = pm.Normal("beta", 0, 0.4, shape=4), pm.Beta("psi", 8, 4)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(0.7 + x @ beta), observed=y)


def best(x, y):
    mean, sigma = pm.Normal("mean", 0, 2, shape=2), pm.Gamma("sigma", 4, 2, shape=2)
    nu = pm.Gamma("nu", 8, 1.6)
    pm.StudentT("y", nu=nu, mu=mean[x], sigma=sigma[x], observed=y)


def hierarchy(x, y):
    mean, tau = pm.Normal("mean", 0, 1), pm.LogNormal("tau", -0.3, 0.3)
    level = pm.Normal("level", mean, tau, shape=16)
    pm.Bernoulli("y", logit_p=level[x], observed=y)


def softmax(x, y):
    weights = pm.Normal("weights", 0, 1, shape=(3, 2))
    scores = pm.math.concatenate([pm.math.zeros_like(x[:, :1]), x @ weights], axis=1)
    pm.Categorical("y", logit_p=scores, observed=y)


def two_groups(r, n):
    return (r.random(n) < 0.5).astype(int)


def sixteen_groups(r, n):
    sizes = np.geomspace(500, 10_000, 16)
    return r.choice(16, size=n, p=sizes / sizes.sum())


FAMILIES = {
    "logistic": (logistic, bounded),
    "ordered": (ordered, lambda r, n: covariates(r, n, 4)),
    "poisson": (poisson, lambda r, n: covariates(r, n, 5, 0.5)),
    "negative_binomial": (negative_binomial, lambda r, n: covariates(r, n, 4)),
    "gamma": (gamma, lambda r, n: covariates(r, n, 4)),
    "beta": (beta, lambda r, n: covariates(r, n, 4)),
    "weibull_censored": (weibull_censored, lambda r, n: covariates(r, n, 4)),
    "linear": (linear, lambda r, n: covariates(r, n, 5)),
    "student_t": (student_t, lambda r, n: covariates(r, n, 5)),
    "mixture": (mixture, lambda r, n: np.zeros(n)),
    "zero_inflated": (zero_inflated, lambda r, n: covariates(r, n, 4, 0.7)),
    "best": (best, two_groups),
    "hierarchy": (hierarchy, sixteen_groups),
    "softmax": (softmax, lambda r, n: covariates(r, n, 3)),
}


class Family:
    """One model, compiled once, of many data sets."""

    def __init__(self, name, n):
        self.name, self.n = name, n
        self.define, self.covariates = FAMILIES[name]
        x, (y, _) = self.covariates(np.random.default_rng(0), n), self.simulated(0)
        with pm.Model() as self.model:
            self.define(pm.Data("data_x", x), pm.Data("data_y", y))
        self.records = RecordModel(self.model)
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
        with pm.Model() as model:
            self.define(pm.math.constant(self.covariates(np.random.default_rng(seed), self.n)), None)
        y, *values = pm.draw([model["y"], *model.free_RVs], random_seed=seed)
        return y, dict(zip([rv.name for rv in model.free_RVs], values, strict=True))

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
        squared = float(mu(epsilon, DELTA)) ** 2
        finder = Finder(records, ControlVariates(), squared, PrivacyRandom(seed), 1.0, epsilon)
        surrogate = finder(records._start)
        judge_cut(what_was_cut(surrogate, records, self.names))
        slope, curvature = surrogate.public()
        theta = surrogate.point.copy()
        for _ in range(50):
            jacobian, delta = records.coordinates.jacobian(theta), records.coordinates(theta) - surrogate.phi
            precision = prior_curvature(records, theta) - jacobian.T @ curvature @ jacobian
            gradient = records.log_prior_gradient(theta) + jacobian.T @ (slope + curvature @ delta)
            theta = theta + np.linalg.solve(precision, gradient)
        sd = np.sqrt(np.diag(np.linalg.inv(precision)))
        return theta, sd, np.abs(theta), (theta - 1.6449 * sd, theta + 1.6449 * sd)

    def of_chain(self, epsilon, seed, draws):
        """Of a chain with default settings."""
        step = dp.DPPenaltyMH(epsilon=epsilon, delta=DELTA, chains=1, control_variates=True, model=self.model)
        idata = dp.sample(step, draws=draws, tune=0, random_seed=seed, model=self.model, **QUIET)
        kept = self.unconstrained({v: idata.posterior[v].to_numpy()[0] for v in idata.posterior})
        low, high = np.quantile(kept, [0.05, 0.95], axis=0)
        return kept.mean(axis=0), kept.std(axis=0), None, (low, high)


def cell(family, epsilon, args):
    """z, coverage and ratio of every data set, and how many were refused or warned."""
    z, covered, ratios, refused, warned = [], [], [], 0, 0
    for seed in range(args.first, args.first + args.datasets):
        started, truth = time.perf_counter(), family.data(seed)
        _, sd = family.laplace(truth)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if args.surrogate:
                    mean, own, _, (low, high) = family.of_surrogate(epsilon, seed)
                else:
                    mean, own, _, (low, high) = family.of_chain(epsilon, seed, args.draws)
            except dp.PrivacyError as error:
                refused += 1
                print(f"  {seed} {type(error).__name__}: {str(error)[:150]}", flush=True)
                continue
        warned += any(issubclass(w.category, dp.ClippedRecordsWarning) for w in caught)
        z.append((mean - truth) / own)
        covered.append((low < truth) & (truth < high))
        ratios.append(own / sd)
        worst = int(np.argmax(np.abs(z[-1])))
        print(
            f"  {seed} worst z {z[-1][worst]:+.1f} ({family.names[worst]}), ratios {ratios[-1].min():.2f}-"
            f"{ratios[-1].max():.2f}, {time.perf_counter() - started:.0f} s",
            flush=True,
        )
    return np.array(z), np.array(covered), np.array(ratios), refused, warned


def rows_of(family, epsilon, args):
    """A row of the table for each parameter."""
    z, covered, ratios, refused, warned = cell(family, epsilon, args)
    shared = [family.name, epsilon, family.n, len(z), refused, warned]
    for k, name in enumerate(family.names):
        numbers = ["", "", "", ""]
        if len(z):
            numbers = [
                f"{z[:, k].mean():.2f}",
                f"{np.sqrt(np.mean(z[:, k] ** 2)):.2f}",
                f"{covered[:, k].mean():.3f}",
                f"{np.median(ratios[:, k]):.3f}",
            ]
        yield [shared[0], name, *shared[1:], *numbers]
    if len(z):
        print(
            f"{family.name} epsilon = {epsilon:g}: {len(z)} data sets, {refused} refused, {warned} warned; "
            f"mean z {z.mean(axis=0).min():+.2f} to {z.mean(axis=0).max():+.2f}, coverage "
            f"{covered.mean():.2f} ({covered.mean(axis=0).min():.2f}-{covered.mean(axis=0).max():.2f}), "
            f"median sd ratios {np.median(ratios, axis=0).min():.2f}-{np.median(ratios, axis=0).max():.2f}",
            flush=True,
        )
    else:
        print(f"{family.name} epsilon = {epsilon:g}: all {refused} refused", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--datasets", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first data set")
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--surrogate", action="store_true", help="prior times surrogate, without chains")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    head = ["family", "parameter", "epsilon", "n", "data sets", "refused", "warned"]
    head += ["mean z", "rms z", "coverage", "sd ratio"]
    table = [head]
    for name in args.families:
        family = Family(name, args.n)
        for epsilon in args.epsilon:
            table += rows_of(family, epsilon, args)
            with args.out.open("w", newline="") as file:
                csv.writer(file).writerows(table)


if __name__ == "__main__":
    main()
