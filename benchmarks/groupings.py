"""Models with groups, and designs that are as people first write them: where the released likelihood is.

    python -m benchmarks.groupings                         # 2,000 records, epsilon = 1, six data sets
    python -m benchmarks.groupings --only nested "raw age" --datasets 20
    python -m benchmarks.groupings --designs --n 1000      # 25 other models, of `benchmarks.designs`
    python -m benchmarks.groupings --intervals             # and how often the posterior's intervals cover

Truths are drawn from the prior (strong signals: as said below). For each model D / p: twice what the released
log-likelihood is at its largest above what it is at the truth, over the number of its coordinates. D is
chi-squared where the release is right, so that D / p is 1 on average, and less where it is too wide. And the
median of the posterior's standard deviations over those without privacy, with normal priors like the model's.

D / p is a mean over all directions: one in which too much is said hides behind those in which little is. So
intervals are of the model's own posterior, by NUTS on what is released, of all parameters together.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

import pymc_dp as dp
from benchmarks import running
from benchmarks.designs import DESIGNS
from benchmarks.families.family import DELTA, Family
from pymc_dp.planning import moments
from pymc_dp.records.model import RecordModel

RESULTS = Path(__file__).parent / "results"
COLUMNS = ["model", "n", "epsilon", "data sets", "coordinates", "D / p", "largest", "width"]
INTERVALS = np.array([0.5, 0.8, 0.9, 0.95])


def codes(rng, number, n):
    """Of groups whose sizes differ."""
    return rng.choice(number, size=n, p=rng.dirichlet(np.full(number, 5.0)))


def levels(name, number, spread=1.0, mean=0.0):
    return pm.Normal(name, mean, pm.HalfNormal(f"{name}_spread", spread), shape=number)


def raw(rng, n):
    """Age in years and a body mass index, as they are."""
    return np.c_[rng.uniform(20, 75, n), rng.normal(27, 4, n)]


def dummies(rng, n, *sizes):
    """All but the first class of each."""
    return np.column_stack([rng.integers(0, k, n) == j for k in sizes for j in range(1, k)]).astype(float)


# Each: a function of a generator and the number of records, which draws covariates and returns one that
# defines the model given observed values, or none.


def one_grouping(rng, n):
    g, x = codes(rng, 12, n), rng.normal(size=n)

    def define(y):
        level, slope = levels("level", 12, mean=pm.Normal("mean", 0, 1)), pm.Normal("slope", 0, 1)
        pm.Normal("y", level[g] + slope * x, pm.HalfNormal("sigma", 2), observed=y)

    return define


def raw_age(rng, n):
    g, x = codes(rng, 12, n), raw(rng, n)

    def define(y):
        level, slope = levels("level", 12, 10, pm.Normal("mean", 100, 30)), pm.Normal("slope", 0, 1, shape=2)
        pm.Normal("y", level[g] + x @ slope, pm.HalfNormal("sigma", 20), observed=y)

    return define


def raw_age_logistic(rng, n):
    g, x = codes(rng, 12, n), raw(rng, n)

    def define(y):
        level, slope = levels("level", 12, 1, pm.Normal("mean", 0, 3)), pm.Normal("slope", 0, 0.05, shape=2)
        pm.Bernoulli("y", logit_p=level[g] + x @ slope, observed=y)

    return define


def districts(rng, n):
    g, x = codes(rng, 15, n), dummies(rng, n, 2, 4)

    def define(y):
        level, slope = levels("level", 15, 1, pm.Normal("mean", 0, 1)), pm.Normal("slope", 0, 1, shape=4)
        pm.Bernoulli("y", logit_p=level[g] + x @ slope, observed=y)

    return define


def slopes_by_group(rng, n):
    g, x = codes(rng, 10, n), rng.normal(size=n)

    def define(y):
        level = levels("level", 10, mean=pm.Normal("mean", 0, 1))
        slope = levels("slope", 10, mean=pm.Normal("mean_slope", 0, 1))
        pm.Normal("y", level[g] + slope[g] * x, pm.HalfNormal("sigma", 2), observed=y)

    return define


def radon(rng, n):
    g, x, u = codes(rng, 25, n), rng.random(n) < 0.2, rng.normal(size=25)

    def define(y):
        mean = pm.Normal("mean", 0, 2) + pm.Normal("of_soil", 0, 1) * u
        level, slope = levels("level", 25, mean=mean), pm.Normal("slope", 0, 1)
        pm.Normal("y", level[g] + slope * x, pm.HalfNormal("sigma", 2), observed=y)

    return define


def crossed(rng, n):
    g, h = codes(rng, 10, n), codes(rng, 6, n)

    def define(y):
        level = pm.Normal("mean", 0, 1) + levels("a", 10, 0.5)[g] + levels("b", 6, 0.5)[h]
        pm.Poisson("y", pm.math.exp(level), observed=y)

    return define


def nested(rng, n):
    g, of_group = codes(rng, 24, n), np.arange(24) // 4

    def define(y):
        level = pm.Normal("mean", 0, 1) + levels("a", 6)[of_group[g]] + levels("b", 24)[g]
        pm.Normal("y", level, pm.HalfNormal("sigma", 2), observed=y)

    return define


def panel(rng, n):
    g, h, x = codes(rng, 15, n), codes(rng, 6, n), rng.normal(size=n)

    def define(y):
        level = (
            pm.Normal("mean", 0, 1) + levels("a", 15)[g] + levels("b", 6)[h] + pm.Normal("slope", 0, 1) * x
        )
        pm.Normal("y", level, pm.HalfNormal("sigma", 2), observed=y)

    return define


def players(rng, n):
    i = codes(rng, 14, n)
    j = (i + rng.integers(1, 14, n)) % 14

    def define(y):
        skill = levels("skill", 14)
        pm.Bernoulli("y", logit_p=skill[i] - skill[j], observed=y)

    return define


def fifty_groups(rng, n):
    g, x = codes(rng, 50, n), rng.normal(size=n)

    def define(y):
        level, slope = levels("level", 50, mean=pm.Normal("mean", 0, 1)), pm.Normal("slope", 0, 1)
        pm.Normal("y", level[g] + slope * x, pm.HalfNormal("sigma", 2), observed=y)

    return define


def unequal_groups(rng, n):
    """Eighteen groups that noise hides, of .45 to 3.4% of the records, beside six with 11% each."""
    sizes = np.repeat([1, 3, 7.5, 25], 6)
    g, x = rng.choice(24, size=n, p=sizes / sizes.sum()), rng.normal(size=n)

    def define(y):
        level, slope = levels("level", 24, mean=pm.Normal("mean", 0, 1)), pm.Normal("slope", 0, 1)
        pm.Normal("y", level[g] + slope * x, pm.HalfNormal("sigma", 2), observed=y)

    return define


def many_dummies(rng, n):
    x = np.c_[np.ones(n), dummies(rng, n, 4, 5, 6)]

    def define(y):
        pm.Bernoulli("y", logit_p=x @ pm.Normal("slope", 0, 1, shape=13), observed=y)

    return define


def interactions(rng, n):
    a, b, (c, d) = rng.uniform(0, 10, n), rng.normal(5, 2, n), rng.integers(0, 2, (2, n))
    x = np.column_stack([np.ones(n), a, b, c, d, a * b, a * c, b * d])

    def define(y):
        pm.Normal("y", x @ pm.Normal("slope", 0, 1, shape=8), pm.HalfNormal("sigma", 2), observed=y)

    return define


def strong(rng, n):
    """Of most records the outcome is nearly sure."""
    x = np.c_[np.ones(n), rng.normal(size=(n, 3))]

    def define(y):
        pm.Bernoulli("y", logit_p=x @ pm.Normal("slope", 0, 5, shape=4), observed=y)

    return define


MODELS = {
    "one grouping": one_grouping,
    "raw age": raw_age,
    "raw age, logistic": raw_age_logistic,
    "districts": districts,
    "slopes by group": slopes_by_group,
    "radon": radon,
    "crossed": crossed,
    "nested": nested,
    "panel": panel,
    "players": players,
    "fifty groups": fifty_groups,
    "unequal groups": unequal_groups,
    "13 dummies": many_dummies,
    "interactions": interactions,
    "strong signals": strong,
}
#: Truths that are not drawn from the prior.
TRUTHS = {"strong signals": {"slope": np.array([-3.0, 8.0, -6.0, 4.0])}}


class Case(Family):
    """One data set of one model."""

    def __init__(self, name, n, seed):
        self.name, self.n = name, n
        define = {**MODELS, **DESIGNS}[name](np.random.default_rng([seed, n]), n)
        with pm.Model() as simulator:
            define(None)
        if name in TRUTHS:
            simulator = pm.do(simulator, TRUTHS[name])
        free = [rv for rv in simulator.free_RVs if rv.name != "y"]
        y, *values = pm.draw([simulator["y"], *free], random_seed=seed)
        self.drawn = TRUTHS.get(name, {}) | dict(zip([rv.name for rv in free], values, strict=True))
        with pm.Model() as self.model:
            define(y)
        self.records = RecordModel(self.model)
        theta = self.unconstrained(self.drawn)
        self.truth, self.without = self.coordinates(theta), self.by_scores(theta)

    def unconstrained(self, values):
        """Shape (d,), by whatever transforms PyMC has."""
        parts = []
        for rv in self.model.free_RVs:
            value, transform = np.asarray(values[rv.name], dtype=float), self.model.rvs_to_transforms[rv]
            if transform is not None:
                value = transform.forward(pt.as_tensor(value), *rv.owner.inputs).eval()
            parts.append(np.ravel(value))
        return np.concatenate(parts)

    def found(self, epsilon, seed):
        """D / p, and the median width over that without privacy."""
        found = self.released(epsilon, seed)[0]
        message, sd = found.message, moments(found, self.public[2])[1]
        apart = self.truth - np.linalg.pinv(message.information, hermitian=True) @ message.vector
        return apart @ message.information @ apart / apart.size, float(np.median(sd / self.without))

    def covered(self, epsilon, seed):
        """How many of the true parameters are within each of `INTERVALS`, shape (4,), and of how many."""
        with self.model, warnings.catch_warnings():
            warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)
            likelihood = dp.release_likelihood(epsilon=epsilon, delta=DELTA, debug_seed=seed)
        with likelihood.model():
            trace = pm.sample(500, tune=700, target_accept=0.9, chains=2, random_seed=seed, **running.QUIET)
        ranks = [np.ravel((trace.posterior[k] < v).mean(("chain", "draw"))) for k, v in self.drawn.items()]
        ranks = np.concatenate(ranks)
        return (np.abs(ranks - 0.5) < INTERVALS[:, None] / 2).sum(1), ranks.size


def main():
    parser = running.parser(__doc__)
    parser.add_argument("--designs", action="store_true")
    parser.add_argument("--intervals", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[*MODELS, *DESIGNS])
    parser.add_argument("--n", type=int, nargs="+", default=[2_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--datasets", type=int, default=6)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    running.silence()
    rows = []
    for name in args.only or (DESIGNS if args.designs else MODELS):
        for n, epsilon in ((n, epsilon) for n in args.n for epsilon in args.epsilon):
            cases = [Case(name, n, seed) for seed in range(args.datasets)]
            found = np.array([case.found(epsilon, seed) for seed, case in enumerate(cases)])
            numbers = [found[:, 0].mean(), found[:, 0].max(), np.median(found[:, 1])]
            if args.intervals:
                within, of = zip(
                    *(case.covered(epsilon, seed) for seed, case in enumerate(cases)), strict=True
                )
                numbers += list(np.sum(within, axis=0) / np.sum(of))
            rows.append([name, n, epsilon, len(cases), cases[0].truth.size, *np.round(numbers, 2)])
            print(*rows[-1], flush=True)
    out = args.out or RESULTS / ("designs.csv" if args.designs else "groupings.csv")
    intervals = [f"{interval:.0%}" for interval in INTERVALS] if args.intervals else []
    pd.DataFrame(rows, columns=[*COLUMNS, *intervals]).to_csv(out, index=False)


if __name__ == "__main__":
    main()
