"""Logistic regressions by weighted scores: errors, widths, coverage, seconds; and in designs that are hard.

    python -m benchmarks.few_records --n 1000 --d 6 --epsilon 1 2 4 --data 40
    python -m benchmarks.few_records --n 1000 --epsilon 1 --data 40 --designs all

Of each data set: the root mean square over parameters of the mean's distance from the exact posterior's, in
exact standard deviations (median over data sets); the standard deviation over the exact one (median); the
share of true parameters in intervals of 50, 80, 90 and 95%, of 90% for the worst parameter, and of the exact
posterior. The budget's δ is 1e-6; noise has fixed keys. Posteriors are normal here (the mode of the exact one
by Newton's method).
"""

import argparse
import time

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import expit

from pymc_dp.control_variates.few import FewFinder
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel

DELTA, LEVELS = 1e-6, (0.5, 0.8, 0.9, 0.95)


def plain(random, n, d):
    """Rows of norm 1, moderate effects: the design of the other tables."""
    z = random.normal(size=(n, d - 1)) / np.sqrt(d - 1)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.full(n, 0.7), 0.714 * z])
    return x, np.zeros(d), np.full(d, 2.0), np.r_[-1, 1.5 * random.normal(size=d - 1)]


def _with(columns, scale=1.0, mean=0.0, truth=None):
    """A column of ones, and others; parameters from the prior unless `truth` says which."""

    def design(random, n, d):
        x = np.column_stack([np.ones(n), columns(random, n, d)])
        scales, means = np.ones(d) * scale, np.zeros(d) + mean
        drawn = means + scales * random.normal(size=d)
        return x, means, scales, drawn if truth is None else truth(random, drawn)

    return design


def _normal(random, n, d):
    return random.normal(size=(n, d - 1))


def _first(value, d=6):
    return np.r_[value, np.zeros(d - 1)]


DESIGNS = {
    "plain": plain,
    "large effects": _with(_normal),
    "t(3)": _with(lambda r, n, d: r.standard_t(3, size=(n, d - 1))),
    "log-normal": _with(lambda r, n, d: np.exp(_normal(r, n, d))),
    "correlated .95": _with(lambda r, n, d: np.sqrt(0.95) * r.normal(size=(n, 1)) + 0.22 * _normal(r, n, d)),
    "binary 5%": _with(lambda r, n, d: (r.random((n, d - 1)) < 0.05).astype(float)),
    "common scale": _with(lambda r, n, d: np.exp(r.normal(size=(n, 1))) * _normal(r, n, d)),
    "known intercept": _with(_normal, scale=np.r_[0.4, np.ones(5)], mean=_first(-4.2)),
    "rare outcomes": _with(
        _normal, scale=np.r_[5.0, np.ones(5)], truth=lambda r, drawn: np.r_[-r.uniform(4, 5.5), drawn[1:]]
    ),
    "wide prior": _with(_normal, scale=10.0, truth=lambda r, drawn: 0.1 * drawn),
    "huge effects": _with(_normal, scale=10.0),
}


def exact(x, y, means, scales):
    """Mode and standard deviations."""
    theta = means.copy()
    for _ in range(100):
        q = expit(x @ theta)
        precision = (x * (q * (1 - q))[:, None]).T @ x + np.diag(1 / scales**2)
        step = np.linalg.solve(precision, x.T @ (y - q) - (theta - means) / scales**2)
        theta = theta + step * min(1.0, 5.0 / max(float(np.abs(x @ step).max()), 1e-300))
    return theta, np.sqrt(np.diag(np.linalg.inv(precision)))


def run(name, n, d, epsilons, data):
    """A line for each epsilon."""
    design = DESIGNS[name]
    x, means, scales, truth = design(np.random.default_rng(0), n, d)
    with pm.Model() as model:
        rows, outcomes = pm.Data("x", x), pm.Data("outcomes", np.arange(n) % 2)
        beta = pm.Normal("beta", means, scales, shape=d)
        pm.Bernoulli("y", logit_p=rows @ beta, observed=outcomes)
    records = RecordModel(model)
    found = {epsilon: [] for epsilon in epsilons}
    for seed in range(data):
        random = np.random.default_rng([seed, n, d])
        x, means, scales, truth = design(random, n, d)
        y = (random.random(n) < expit(x @ truth)).astype(int)
        with model:
            pm.set_data({"x": x, "outcomes": y})
        mode, deviations = exact(x, y, means, scales)
        for epsilon in epsilons:
            squared = float(gaussian.mu(epsilon, DELTA)) ** 2
            settings = ControlVariates(few=True).suited(n, squared, d)
            finder = FewFinder(records, settings, squared, PrivacyRandom(1000 * seed + int(10 * epsilon)), n)
            start = time.perf_counter()
            try:
                surrogate = finder(means.copy())
            except PrivacyError:
                found[epsilon].append(None)
                continue
            seconds = time.perf_counter() - start
            precision = np.diag(1 / scales**2) - surrogate.hessian
            slope = surrogate.gradient - surrogate.hessian @ surrogate.phi + means / scales**2
            wide = np.sqrt(np.diag(np.linalg.inv(precision)))
            mean = np.linalg.solve(precision, slope)
            found[epsilon].append((mean, wide, mode, deviations, truth, seconds))
    for epsilon, results in found.items():
        known = [result for result in results if result is not None]
        refused = f"refused {len(results) - len(known)}"
        if not known:
            print(f"{name:16s} n={n} d={d} eps={epsilon:g}: {refused}", flush=True)
            continue
        mean, wide, mode, deviations, truth, seconds = (np.array(part) for part in zip(*known, strict=True))
        z, error = (truth - mean) / wide, np.sqrt((((mean - mode) / deviations) ** 2).mean(axis=1))
        inside = {level: np.abs(z) < stats.norm.ppf(0.5 + level / 2) for level in LEVELS}
        of_exact = (np.abs(truth - mode) < 1.645 * deviations).mean()
        worst, rms = inside[0.9].mean(axis=0).min(), np.sqrt((z**2).mean())
        coverage = " ".join(f"{inside[level].mean():.3f}" for level in LEVELS)
        print(
            f"{name:16s} n={n} d={d} eps={epsilon:g}: error {np.median(error):.3f}, width "
            f"{np.median(wide / deviations):.2f}, coverage {coverage} (90%: worst "
            f"{worst:.2f}, exact {of_exact:.2f}), rms z {rms:.2f}, "
            f"{refused}, {np.median(seconds):.1f} s",
            flush=True,
        )


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, nargs="+", default=[1000])
    parser.add_argument("--d", type=int, default=6)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0])
    parser.add_argument("--data", type=int, default=40, help="data sets of each cell")
    parser.add_argument("--designs", nargs="+", default=["plain"], choices=[*DESIGNS, "all"])
    args = parser.parse_args()
    for name in DESIGNS if "all" in args.designs else args.designs:
        for n in args.n:
            run(name, n, args.d, args.epsilon, args.data)


if __name__ == "__main__":
    main()
