"""`expected_accuracy` against what then happens: other data sets of the same model, other noise.

    OMP_NUM_THREADS=1 python -m benchmarks.planning           # the table of docs/planning.md
    OMP_NUM_THREADS=1 python -m benchmarks.planning poisson   # these models

Expected: `REPEATS` simulated data sets. Outcome: mode and standard deviations of prior times released
surrogate (Newton and Laplace) beside the exact posterior's, over `OUTCOMES` other data sets; root of the mean
square over parameters and data sets for means, mean for widths.
"""

import sys
import time
import warnings

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks import surrogates
from benchmarks.control_variates.models import MODELS as WITH_DATA
from benchmarks.control_variates.models import shared
from pymc_dp.planning import of_records

DELTA, N, REPEATS, OUTCOMES = 1e-6, 20_000, 3, 12


def negative_binomial(seed, n):
    r = np.random.default_rng(seed)
    x, truth = np.column_stack([np.ones(n), r.normal(size=(n, 2)) * 0.5]), np.array([1.0, 0.5, -0.5])
    mean = np.exp(x @ truth)
    y = r.poisson(mean * r.gamma(2.0, 0.5, n))
    if data := shared(data_x=x, data_y=y):
        beta, alpha = pm.Normal("beta", 0, 1, shape=3), pm.Exponential("alpha", 0.5, initval=1.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(data[0] @ beta), alpha=alpha, observed=data[1])


def student(seed, n):
    r = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), r.normal(size=(n, 2))])
    if data := shared(data_x=x, data_y=x @ np.array([1.0, -1.0, 0.5]) + r.standard_t(4, n)):
        beta, sigma = pm.Normal("beta", 0, 2, shape=3), pm.HalfNormal("sigma", 2, initval=1.0)
        pm.StudentT("y", nu=4, mu=data[0] @ beta, sigma=sigma, observed=data[1])


def proportion(seed, n):
    r = np.random.default_rng(seed)
    if data := shared(data_y=(r.random(n) < 0.1).astype(int)):
        p = pm.Beta("p", 1, 1)
        pm.Bernoulli("y", p, observed=data[0])


def weibull(seed, n):
    r = np.random.default_rng(seed)
    x = r.normal(size=n) * 0.5
    if data := shared(data_x=x, data_y=np.exp(0.5 + 0.5 * x) * r.weibull(1.5, n)):
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
        alpha = pm.HalfNormal("alpha", 2, initval=1.0)
        pm.Weibull("y", alpha=alpha, beta=pm.math.exp(a + b * data[0]), observed=data[1])


def poisson_groups(seed, n):
    r = np.random.default_rng(seed)
    group, level = r.integers(8, size=n), 0.5 * r.normal(size=8) + 0.5
    if data := shared(data_group=group, data_y=r.poisson(np.exp(level[group]))):
        level = pm.Normal("level", 0, 1, shape=8)
        pm.Poisson("y", pm.math.exp(level[data[0]]), observed=data[1])


MODELS = {name: WITH_DATA[name] for name in ("logistic", "poisson", "linear", "linear_small", "groups")}
MODELS |= {f.__name__: f for f in (negative_binomial, student, proportion, weibull, poisson_groups)}


class Exact:
    """Mode and standard deviations of the exact posterior, by PyMC's own derivatives."""

    def __init__(self, model, records):
        self.records = records
        mode = {"mode": "FAST_COMPILE"}
        variables = list(model.free_RVs)
        self.names = [model.rvs_to_values[rv].name for rv in variables]
        theta = model.initial_point()
        self.gradient = model.compile_dlogp(variables, **mode)
        self.hessian = model.compile_d2logp(variables, negate_output=False, **mode)
        self.value = model.compile_logp(**mode)
        self.shapes = {name: np.shape(theta[name]) for name in self.names}

    def __call__(self, theta):
        """By Newton's method from a point."""

        def point(t):
            values, k = {}, 0
            for name, shape in self.shapes.items():
                size = int(np.prod(shape, dtype=int))
                values[name], k = t[k : k + size].reshape(shape), k + size
            return values

        for _ in range(60):
            at = point(theta)
            gradient, precision = self.gradient(at), -self.hessian(at)
            values, vectors = np.linalg.eigh(precision)
            step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-3))
            while not self.value(point(theta + step)) >= self.value(at) - 1e-6:
                step = step / 2
            theta = theta + step
            if abs(step @ precision @ step) < 1e-8:
                break
        return theta, np.sqrt(np.diag(np.linalg.inv(precision)))


def compare(name, epsilons):
    """Expected and found, for each epsilon: width and move; and how many were refused."""
    with pm.Model() as model:
        MODELS[name](0, N)
        steps = {e: dp.DPPenaltyMH(epsilon=e, delta=DELTA, control_variates=True, chains=1) for e in epsilons}
    one = next(iter(steps.values()))
    exact = Exact(model, one.records)
    if [v.name for v in one.records.value_vars] != exact.names:
        raise RuntimeError("parameters are in another order")
    expected = {e: [] for e in epsilons}
    found = {e: [] for e in epsilons}
    for seed in range(REPEATS + OUTCOMES):
        with model:
            MODELS[name](1000 + seed, N)
        if seed >= REPEATS:
            mode, sd = exact(one.records.ravel(one.records.reading.start))
        for e in epsilons:
            try:
                wider, moved, surrogate = of_records(one, e, DELTA, seed)
            except dp.PrivacyError:
                (expected if seed < REPEATS else found)[e].append(None)
                continue
            if seed < REPEATS:
                expected[e].append((wider, moved))
            else:
                mine, mine_sd = surrogates.moments(one.records, surrogate)
                found[e].append((mine_sd / sd, (mine - mode) / sd))
    out = []
    for e in epsilons:
        row = [len(exact.gradient(model.initial_point())), e]
        for several in (expected[e], found[e]):
            good = [x for x in several if x is not None]
            wide = np.mean([x[0] for x in good]) if good else np.nan
            move = np.sqrt(np.mean([np.square(x[1]) for x in good])) if good else np.nan
            row += [wide, move, len(several) - len(good)]
        out.append(row)
    return out


def main(words):
    print("| model | d | ε | wider: expected | found | ratio | moved: expected | found | ratio | refused |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    start = time.perf_counter()
    for name in words or MODELS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for d, e, wide, move, _, wide2, move2, no in compare(name, (1.0, 4.0)):
                print(
                    f"| {name} | {d} | {e:g} | {wide:.2f} | {wide2:.2f} | {wide2 / wide:.2f} | {move:.2f} | "
                    f"{move2:.2f} | {move2 / move:.2f} | {no} of {OUTCOMES} |",
                    flush=True,
                )
        print(f"{time.perf_counter() - start:.0f} s: {name}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
