"""What a surrogate and an iteration on its residuals cost, against PyMC's log-density, in one run.

    OMP_NUM_THREADS=1 python benchmarks/surrogate_speed.py logistic 100000 20
    OMP_NUM_THREADS=1 python benchmarks/surrogate_speed.py negative_binomial 20000 6 --whole

Seconds are of processor time. `--whole` makes the surrogate from whole derivatives as well, as for records
without linear predictors. Without noise, so that every call has a result.
"""

import argparse
import time
import warnings

import numpy as np
import pymc as pm

from pymc_dp.control_variates import ControlVariates
from pymc_dp.control_variates.finder import Finder
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from pymc_dp.records.residuals import Residuals


def covariates(n, d):
    r = np.random.default_rng(0)
    x = r.normal(size=(n, d - 1)) / np.sqrt(d - 1)
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    return r, np.column_stack([np.full(n, 0.7), 0.714 * x]), np.r_[-1, 1.5 * r.normal(size=d - 1)]


def logistic(n, d):
    r, x, truth = covariates(n, d)
    y = (r.random(n) < 1 / (1 + np.exp(-x @ truth))).astype(int)
    beta = pm.Normal("beta", 0, 2, shape=d)
    pm.Bernoulli("y", logit_p=pm.Data("x", x) @ beta, observed=pm.Data("observed", y))


def linear(n, d):
    r, x, truth = covariates(n, d)
    beta, sigma = pm.Normal("beta", 0, 2, shape=d), pm.HalfNormal("sigma", 5, initval=1.0)
    pm.Normal("y", x @ beta, sigma, observed=x @ truth + r.normal(size=n))


def negative_binomial(n, d):
    r, x, truth = covariates(n, d)
    mean = np.exp(x @ truth)
    beta, alpha = pm.Normal("beta", 0, 2, shape=d), pm.HalfNormal("alpha", 5, initval=2.0)
    y = r.negative_binomial(3.0, 3.0 / (3.0 + mean))
    pm.NegativeBinomial("y", mu=pm.math.exp(x @ beta), alpha=alpha, observed=y)


def beta_regression(n, d):
    r, x, truth = covariates(n, d)
    mean = 1 / (1 + np.exp(-x @ truth))
    beta, nu = pm.Normal("beta", 0, 2, shape=d), pm.HalfNormal("nu", 10, initval=3.0)
    y = np.clip(r.beta(5 * mean, 5 * (1 - mean)), 1e-4, 1 - 1e-4)
    pm.Beta("y", mu=pm.math.invlogit(x @ beta), nu=nu, observed=y)


def groups(n, d):
    """A hierarchy of d groups, and three covariates."""
    r = np.random.default_rng(0)
    group, x, z = r.integers(d, size=n), 0.6 * r.normal(size=(n, 3)), r.normal(size=d)
    y = (r.random(n) < 1 / (1 + np.exp(0.5 - 0.8 * z[group] - x @ r.normal(size=3)))).astype(int)
    mean, tau = pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1)
    level, beta = pm.Normal("level", mean, tau, shape=d), pm.Normal("beta", 0, 2, shape=3)
    pm.Bernoulli("y", logit_p=level[group] + x @ beta, observed=y)


MODELS = {f.__name__: f for f in (logistic, linear, negative_binomial, beta_regression, groups)}


def surrogate(records):
    """Make one, and say how long it took; compiled code is compiled already the second time."""
    start = time.process_time()
    finder = Finder(records, ControlVariates(), np.inf, PrivacyRandom(1), 1.0, np.inf)
    made = finder(records._start)
    return made, time.process_time() - start


def least(*functions, times=100):
    """Least processor time of many calls, in turn, in milliseconds."""
    found = [[] for _ in functions]
    for _ in range(times):
        for function, each in zip(functions, found, strict=True):
            start = time.process_time()
            function()
            each.append(time.process_time() - start)
    return [1e3 * min(each) for each in found]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("n", type=int)
    parser.add_argument("d", type=int)
    parser.add_argument("--whole", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with pm.Model() as model:
        MODELS[args.model](args.n, args.d)
    records = RecordModel(model)
    print(f"{args.model}, n = {args.n:,}, d = {args.d}: {records.form}")
    _, first = surrogate(records)
    made, again = surrogate(records)
    print(f"surrogate: {first:.1f} s with compilation, {again:.1f} s without")
    residuals = Residuals(records)
    residuals.expand(made.expansion(records))
    logp, start = model.compile_logp(), model.initial_point()
    logp.f.trust_input = True
    point = 1.001 * made.point
    old, _ = residuals.full_batch.at(point)
    ours, theirs = least(lambda: residuals.full_batch(point, old, 0.01), lambda: logp(start))
    print(f"iteration on residuals: {ours:.2f} ms; PyMC's logp: {theirs:.2f} ms; ratio {ours / theirs:.2f}")
    units = np.random.default_rng(0).integers(0, args.n, 100)
    (batch,) = least(lambda: residuals.ratios(point, made.point, units), times=1000)
    print(f"100 records: {1e3 * batch:.0f} us")
    if args.whole:
        records.__dict__["curvature"] = None
        surrogate(records)
        print(f"surrogate from whole derivatives: {surrogate(records)[1]:.1f} s")


if __name__ == "__main__":
    main()
