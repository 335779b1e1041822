"""Two ways to a private posterior: a chain on the residuals of a surrogate, and a released likelihood.

    python -m benchmarks.residual_chain --cells student mixture --data 5

The chain is DPPenaltyMH(control_variates=True), two chains of 500 draws; the likelihood dp.sample(epsilon=),
with its default of four chains. The script runs at the commit that added it: the chain is gone since. Both
are compared with PyMC's NUTS without privacy (for the banana with exact draws). "error" is the root mean
square over parameters of the difference of posterior means in non-private standard deviations (scales and
degrees of freedom by their logarithms), median over data sets; "width" the geometric mean of the ratios of
standard deviations; "off" the root mean square of the same differences in the private posterior's own
standard deviations, which noise alone makes one or less; "covers" the share of 90% intervals with the true
value in them; "refused" after payment.
"""

import time

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks import running
from benchmarks.control_variates import models
from benchmarks.running import QUIET

DELTA = 1e-6
POSITIVE = {"sigma", "tau", "nu", "gap", "rate"}


def logistic(seed, n):
    truth = models.logistic(seed, n)
    return {"beta": truth}


def poisson(seed, n):
    return {"beta": models.poisson(seed, n)}


def student(seed, n):
    truth = {"mean": 1.0, "sigma": 2.0, "nu": 4.0}
    y = truth["mean"] + truth["sigma"] * np.random.default_rng(seed).standard_t(truth["nu"], size=n)
    mean, sigma = pm.Normal("mean", 0, 10), pm.HalfNormal("sigma", 5)
    pm.StudentT("y", nu=pm.Gamma("nu", 2, 0.1), mu=mean, sigma=sigma, observed=y)
    return truth


def hierarchy(seed, n):
    """Ten groups of some hundred records each."""
    r = np.random.default_rng(seed)
    group, x, z = r.integers(10, size=n), r.normal(size=n), r.normal(size=10)
    truth = {"mean": 0.5, "tau": 0.8, "slope": 1.0, "level": 0.5 + 0.8 * z}
    y = truth["level"][group] + truth["slope"] * x + r.normal(size=n)
    mean, tau = pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1)
    level = pm.Normal("level", mean, tau, shape=10)
    pm.Normal("y", level[group] + pm.Normal("slope", 0, 2) * x, 1.0, observed=y)
    return truth


def mixture(seed, n, counted=False):
    """Two normals one and a half standard deviations apart."""
    r = np.random.default_rng(seed)
    truth = {"mean": 0.0, "gap": 1.5, "weight": 0.3}
    y = np.round(r.normal(size=n) + truth["gap"] * (r.random(n) < truth["weight"]), 2)
    mean, gap, weight = pm.Normal("mean", 0, 2), pm.HalfNormal("gap", 2), pm.Beta("weight", 2, 2)
    parts = [pm.Normal.dist(mean, 1.0), pm.Normal.dist(mean + gap, 1.0)]
    weights = pm.math.stack([1 - weight, weight])
    if counted:  # the same likelihood, in a fiftieth of the time
        values, counts = np.unique(y, return_counts=True)
        pm.Potential("y", (counts * pm.logp(pm.Mixture.dist(w=weights, comp_dists=parts), values)).sum())
    else:
        pm.Mixture("y", w=weights, comp_dists=parts, observed=y)
    return truth


def decay(seed, n):
    """A curve that is not linear in its parameters, and hardly known: curved in likelihood coordinates."""
    r = np.random.default_rng(seed)
    x, truth = r.uniform(0, 2, size=n), {"level": 1.0, "rate": 1.0}
    y = truth["level"] * np.exp(-truth["rate"] * x) + r.normal(size=n)
    level, rate = pm.Normal("level", 0, 2), pm.LogNormal("rate", 0, 1)
    pm.Normal("y", level * pm.math.exp(-rate * x), 1.0, observed=y)
    return truth


CELLS = {
    "logistic, n = 1,000, eps 8": (logistic, 1_000, 8.0),
    "logistic, n = 20,000, eps 1": (logistic, 20_000, 1.0),
    "logistic, n = 20,000, eps 4": (logistic, 20_000, 4.0),
    "poisson, n = 5,000, eps 4": (poisson, 5_000, 4.0),
    "student t, n = 20,000, eps 4": (student, 20_000, 4.0),
    "hierarchy, n = 1,000, eps 8": (hierarchy, 1_000, 8.0),
    "mixture, n = 20,000, eps 4": (mixture, 20_000, 4.0),
    "decay, n = 1,000, eps 8": (decay, 1_000, 8.0),
    "banana, n = 100,000, eps 4": ("banana", 100_000, 4.0),
    "banana, n = 1,000, eps 8": ("banana", 1_000, 8.0),
}


def columns(posterior, names):
    """Draws of all parameters, shape (draws, d), positive ones by their logarithms."""
    out = []
    for name in names:
        x = posterior[name].to_numpy()
        x = x.reshape(x.shape[0] * x.shape[1], -1)
        out.append(np.log(x) if name in POSITIVE else x)
    return np.column_stack(out)


def problem(cell, seed):
    """Model, public constants, true values, non-private draws."""
    make, n, _ = CELLS[cell]
    if make == "banana":
        reference = dp.models.banana(2, n, a=20.0, seed=seed)
        exact = reference.posterior_draws(4000, np.random.default_rng(seed))
        return reference.model, reference.public, {"theta": np.zeros(2)}, exact
    with pm.Model() as model:
        truth = make(seed, n)
    with pm.Model() as fast:
        make(seed, n, **({"counted": True} if make is mixture else {}))
    exact = pm.sample(500, tune=500, chains=2, random_seed=seed, model=fast, cores=1, progressbar=False,
                      compute_convergence_checks=False)  # fmt: skip
    return model, (), truth, columns(exact.posterior, truth)


def chain(model, public, epsilon, seed):
    step = dp.DPPenaltyMH(epsilon=epsilon, delta=DELTA, chains=2, control_variates=True, model=model,
                          public=public, debug_seed=seed)  # fmt: skip
    return dp.sample(step, draws=500, tune=0, random_seed=seed, model=model, **QUIET)


def likelihood(model, public, epsilon, seed):
    return dp.sample(1000, model=model, epsilon=epsilon, delta=DELTA, public=public, random_seed=seed,
                     debug_seed=seed, **QUIET)  # fmt: skip


def main():
    parser = running.parser(__doc__)
    parser.add_argument("--cells", nargs="*", default=[""], help="the beginnings of their names")
    parser.add_argument("--data", type=int, default=5)
    args = parser.parse_args()
    running.silence()
    for cell in CELLS:
        if not any(cell.startswith(start) for start in args.cells):
            continue
        found = {chain: [], likelihood: []}
        seconds, refused = {chain: [], likelihood: []}, dict.fromkeys(found, 0)
        for seed in range(args.data):
            model, public, truth, exact = problem(cell, seed)
            true = np.concatenate(
                [np.atleast_1d(np.log(v) if k in POSITIVE else v) for k, v in truth.items()]
            )
            for way in found:
                started = time.perf_counter()
                try:
                    idata = way(model, public, CELLS[cell][2], seed)
                except (dp.PrivacyError, RuntimeError) as error:
                    refused[way] += 1
                    print("   ", cell, seed, way.__name__, type(error).__name__, str(error)[:90], flush=True)
                    continue
                finally:
                    seconds[way].append(time.perf_counter() - started)
                x = columns(idata.posterior, truth)
                difference, sd = x.mean(axis=0) - exact.mean(axis=0), exact.std(axis=0)
                low, high = np.quantile(x, [0.05, 0.95], axis=0)
                found[way].append((
                    np.sqrt(np.mean((difference / sd) ** 2)),
                    np.exp(np.mean(np.log(x.std(axis=0) / sd))),
                    np.sqrt(np.mean((difference / x.std(axis=0)) ** 2)),
                    np.mean((low < true) & (true < high)),
                ))  # fmt: skip
        for way, kept in found.items():
            line = f"| {cell} | {way.__name__} |"
            if kept:
                error, width, off, covers = np.array(kept).T
                line += f" {np.median(error):.2f} | {np.median(width):.2f} | {np.sqrt(np.mean(off**2)):.2f} |"
                line += f" {np.mean(covers):.2f} |"
            else:
                line += " | | | |"
            print(line + f" {refused[way]} of {args.data} | {np.median(seconds[way]):.0f} |", flush=True)


if __name__ == "__main__":
    main()
