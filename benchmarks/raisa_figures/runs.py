"""Chains against exact draws: the rows of the figures."""

import itertools
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import pymc_dp as dp
from benchmarks import metrics, models
from benchmarks.raisa_figures import problem
from benchmarks.raisa_figures.problem import CURVATURE, HALF
from benchmarks.raisa_figures.samplers import ITERATIONS, SAMPLERS, WITHOUT_NOISE
from benchmarks.running import QUIET


def discrepancy(
    reference: Any, make: Callable[[], Any], seed: int, draws: int, tune: int
) -> dict[str, float]:
    """One chain against 2,000 exact draws."""
    rng = np.random.default_rng(seed)
    exact = reference.posterior.draws(4000, rng)
    sd = exact.std(axis=0)
    with reference.model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = make()
        idata = dp.sample(
            step,
            draws=draws,
            tune=tune,
            random_seed=seed,
            initvals={"theta": exact.mean(axis=0) + rng.uniform(-1, 1, size=sd.size) * sd},
            **QUIET,
        )
    kept = idata.posterior["theta"].values[0]
    return {
        "mmd": metrics.mmd(kept, exact[:2000], rng=rng),
        "floor": metrics.mmd(exact[2000 : 2000 + len(kept)], exact[:2000], rng=rng),
        "clipped": float(idata.sample_stats["clip_fraction"].max()),
        "accepted": float(idata.sample_stats["accepted"].mean()),
    }


def by_clip(
    dimensions: Sequence[int] = (2, 10),
    runs: int = 1,
    factors: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0),
    samplers: Sequence[str] = ("random walk", "HMC", "one component"),
) -> pd.DataFrame:
    """Figure 7.1, without noise. Bounds are factors times the 90% quantile of the ratios."""
    rows = []
    for (d, name), (make, half) in WITHOUT_NOISE.items():
        if d not in dimensions or name not in samplers:
            continue
        for factor, seed in itertools.product(factors, range(runs)):
            reference = models.banana(d, problem.N, a=CURVATURE, seed=seed)
            found = discrepancy(reference, partial(make, d, factor), seed, half, half)
            rows.append({"d": d, "sampler": name, "clip": factor, "run": seed, **found})
            print(show(rows[-1]), flush=True)
    return pd.DataFrame(rows)


def by_epsilon(
    dimensions: Sequence[int] = (2, 10),
    epsilons: Sequence[float] = (1.0, 4.0, 12.0),
    runs: int = 2,
    samplers: Sequence[str] = tuple(SAMPLERS),
    temperings: Sequence[float] = (1.0, 0.01),
) -> pd.DataFrame:
    """Figure 7.2. A run that a sampler refuses, after its budget was spent, has no MMD."""
    rows = []
    for d, tempering, name, epsilon, seed in itertools.product(
        dimensions, temperings, samplers, epsilons, range(runs)
    ):
        reference = models.banana(d, problem.N, a=CURVATURE, tempering=tempering, seed=seed)
        tune, draws = ITERATIONS.get(name, (HALF, HALF))
        make = partial(SAMPLERS[name], d, tempering, epsilon)
        try:
            found = discrepancy(reference, make, seed, draws, tune)
        except (dp.errors.BudgetError, dp.errors.TooFewRecordsError) as error:
            print(type(error).__name__, error, flush=True)
            found = {"mmd": np.nan}
        given = {"d": d, "tempering": tempering, "sampler": name, "epsilon": epsilon, "run": seed}
        rows.append({**given, **found})
        print(show(rows[-1]), flush=True)
    return pd.DataFrame(rows)


def show(row: dict[str, Any]) -> str:
    """One run in a line."""
    values = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
    return ", ".join(f"{key} {value}" for key, value in zip(row, values, strict=True))
