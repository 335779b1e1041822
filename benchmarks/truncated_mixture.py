"""Samplers at one budget on the two-mode mixture of Zhang & Zhang (2023), section 6.1 and appendix E.1.

    OMP_NUM_THREADS=1 python -m benchmarks.truncated_mixture                      # about six minutes
    OMP_NUM_THREADS=1 python -m benchmarks.truncated_mixture --epsilon .05 --runs 5 --print
    python -m benchmarks.truncated_mixture --draw           # the pictures, from the stored numbers

Figures 1, 2 and 4 of the article. 50,000 records in [-3, 3], temperature 500, 10,000 iterations of one chain
from (0, 0). The article gives every iteration (epsilon, 1e-5); here every private sampler has, for the whole
run, what 10,000 Gaussian mechanisms of that epsilon cost at delta = 1e-5, so that budgets are equal for each
iteration too. 2,000 iterations tune the step size from decisions; the rest counts. Two rows are not private:
Metropolis-Hastings, and the article's own algorithm at its epsilon of one iteration.

Printed: symmetric Kullback-Leibler divergence on a grid against the exact posterior, share of the draws in
the mode with theta_2 > 0 (exactly one half) and its standard error over the runs, acceptance rate, expected
number of records in an iteration, seconds.
"""

import itertools
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from dp_accounting.dp_event import SelfComposedDpEvent
from scipy.stats import poisson

import pymc_dp as dp
from benchmarks import metrics, models, results, running
from benchmarks.published_fast_mh import PublishedFastMH
from pymc_dp.privacy.accounting import gaussian

DELTA, TUNE, DRAWS, CELLS = 1e-5, 2000, 8000, 25
N, BATCH = 50_000, 5000
GRID = [np.linspace(-3, 3, CELLS + 1)] * 2
PUBLISHED, NOT_PRIVATE = "as published (not private)", "no privacy"


def budget(epsilon: float) -> float:
    """Whole-run epsilon of as many Gaussian mechanisms of (epsilon, 1e-5), by the article's noise scale."""
    noise_multiplier = math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon
    return float(gaussian.epsilon(math.sqrt(TUNE + DRAWS) / noise_multiplier, DELTA))


def largest_barker_batch(total: float, n: int, most: int) -> int:
    """The batch fixes the price: the largest one that fits, up to that of the others."""
    for size in np.geomspace(most, 50, 40).astype(int):
        event = SelfComposedDpEvent(dp.privacy.BarkerMinibatchDpEvent(int(size), n), TUNE + DRAWS)
        if dp.privacy.compose(event, "substitute").epsilon(DELTA) <= total:
            return int(size)
    raise dp.errors.BudgetError("no batch of 50 records or more fits")


def samplers(
    lipschitz: float, epsilon: float, n: int = N, batch: int = BATCH
) -> dict[str, tuple[Callable, float]]:
    """Step of each row, and the records that it reads in an iteration (nan: see `records_as_published`)."""
    total = {"epsilon": budget(epsilon), "delta": DELTA, "lipschitz": lipschitz}
    article = {"epsilon": epsilon, "delta": DELTA, "lipschitz": lipschitz}
    subset = largest_barker_batch(total["epsilon"], n, batch)
    # Its longest moves without noise; a little beyond, noise would reject nearly all.
    published = partial(PublishedFastMH, adapt_step_size=False)
    fast = partial(dp.DPFastMH, batch_size=batch)
    return {
        "penalty": (partial(dp.DPPenaltyMH, **total), n),
        "Barker, batches": (partial(dp.DPBarker, batch_size=subset, **total), subset),
        "DPFastMH, all records": (partial(dp.DPFastMH, batch_size=n, **total), n),
        "DPFastMH, batches": (partial(fast, **total), batch),
        "DPFastMH penalty, batches": (partial(fast, test="penalty", **total), batch),
        PUBLISHED: (partial(published, **article), math.nan),
        NOT_PRIVATE: (partial(dp.DPFastMH, batch_size=n, **{**total, "epsilon": math.inf}), n),
    }


def records_as_published(bounds: np.ndarray, epsilon: float, n: int, factor: float = 1.0) -> float:
    """Expected records of an iteration of Algorithm 2, all c_i equal: K = factor epsilon n, lambda = K / 2.

    `bounds` are those of one record, in nats (c_i times the article's M). From K draws on, all are used.
    """
    mean, most = factor * epsilon * n / 2 + n * bounds, math.ceil(factor * epsilon * n) - 1
    batch = mean * poisson.cdf(most - 1, mean)  # E[draws; draws <= most]
    return float(np.mean(batch + n * poisson.sf(most, mean)))


def chain(
    make: Callable, model: Any, start: np.ndarray, seed: int, tempering: float = 1.0
) -> tuple[Any, float]:
    """One run of `TUNE` and `DRAWS` iterations, and its seconds of processor time."""
    with model:
        step = make(tempering=tempering, chains=1, compile_kwargs={"mode": "NUMBA"})
    begin = time.process_time()
    result = dp.sample(
        step,
        DRAWS,
        tune=TUNE,
        random_seed=seed,
        cores=1,
        progressbar=False,
        quiet=True,
        compute_convergence_checks=False,
        initvals={model.free_RVs[0].name: start},
    )
    return result, time.process_time() - begin


def divergences(draws: np.ndarray, exact: np.ndarray) -> dict[int, float]:
    """Symmetric divergence after more and more iterations."""
    ends = np.unique(np.geomspace(min(200, DRAWS), DRAWS, 8).astype(int))
    return {TUNE + int(k): metrics.symmetric_kl(draws[:k], exact, GRID) for k in ends}


def compare(
    epsilons: Sequence[float] = (0.01, 0.05, 0.2), runs: int = 1, only: Sequence[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of figures 1 and 4, one for each sampler and number of iterations; counts of figure 2's cells."""
    reference = models.truncated_mixture(N)
    rng = np.random.default_rng(0)
    exact = reference.posterior_draws(200_000, rng)
    cells = {"exact": np.histogramdd(exact[:DRAWS], GRID)[0].ravel()}
    floor = metrics.symmetric_kl(reference.posterior_draws(DRAWS, rng), exact, GRID)
    rows = [{"epsilon": math.nan, "sampler": "exact", "run": 0, "iterations": DRAWS, "kl": floor}]
    for epsilon, seed in itertools.product(epsilons, range(runs)):
        for name, (make, records) in samplers(reference.lipschitz, epsilon, N, BATCH).items():
            again = name == NOT_PRIVATE and epsilon != epsilons[0]
            if again or (only and name not in only):
                continue
            result, seconds = chain(make, reference.model, np.zeros(2), seed, reference.tempering)
            draws, stats = result.posterior["theta"].values[0], result.sample_stats
            if name == PUBLISHED:
                bounds = reference.tempering * reference.lipschitz * stats["clip_bound"].values
                records = records_as_published(bounds, epsilon, N)
            row = {
                "epsilon": math.nan if name == NOT_PRIVATE else epsilon,
                "sampler": name,
                "run": seed,
                "share": np.mean(draws[:, 1] > 0),
                "accepted": float(stats["accepted"].mean()),
                "records": records,
                "seconds": seconds,
            }
            rows += [row | {"iterations": k, "kl": kl} for k, kl in divergences(draws, exact).items()]
            cells[f"{name}, {epsilon:g}"] = np.histogramdd(draws, GRID)[0].ravel()
            print(show(rows[-1]), flush=True)
    return pd.DataFrame(rows), pd.DataFrame(cells).astype(int)


def show(row: dict[str, Any]) -> str:
    """One run in a line."""
    return (
        f"{row['epsilon']:6g} {row['sampler']:28} sym. KL {row['kl']:.4f}, share {row['share']:.3f}, "
        f"accepted {row['accepted']:.3f}, records {row['records']:.0f}, {row['seconds']:.1f} s"
    )


def figure_1(rows: pd.DataFrame, epsilon: float = 0.05) -> Any:
    """Divergence and records against epsilon; divergence against iterations and records used."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(14, 4.2), layout="constrained")
    rows = rows.assign(used=rows["iterations"] * rows["records"])
    last = rows[rows["iterations"] == rows["iterations"].max()]
    one = rows[(rows["epsilon"] == epsilon) | (rows["sampler"] == NOT_PRIVATE)]
    columns = [
        (last, "epsilon", "kl"),
        (last, "epsilon", "records"),
        (one, "iterations", "kl"),
        (one, "used", "kl"),
    ]
    labels = ["ε of one iteration", "ε of one iteration", "iterations", "records used"]
    names = [name for name in rows["sampler"].unique() if name != "exact"]
    for axis, (table, x, y), label in zip(axes, columns, labels, strict=True):
        for index, name in enumerate(names):
            mine = table[table["sampler"] == name].groupby(x, dropna=False)[y].mean()
            style = {"color": f"C{index}", "label": name}
            if mine.index.isna().all():
                axis.axhline(mine.iloc[0], ls=":", **style)
            else:
                axis.plot(mine.index, mine, "o-", ms=4, **style)
        axis.set(xscale="linear" if x == "iterations" else "log", yscale="log", xlabel=label)
        axis.set_ylabel("symmetric KL" if y == "kl" else "records of an iteration")
        if y == "kl":
            axis.axhline(rows.loc[rows["sampler"] == "exact", "kl"].iloc[0], color="k", ls="--", lw=0.8)
    for axis in axes[2:]:
        axis.set_title(f"ε = {epsilon:g}", fontsize=10)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def figure_2(cells: pd.DataFrame, epsilon: float = 0.05) -> Any:
    """Densities after all iterations."""
    import matplotlib.pyplot as plt

    shown = [name for name in cells if name == "exact" or name.endswith(f", {epsilon:g}")]
    shown += [name for name in cells if name.startswith(NOT_PRIVATE) and name not in shown]
    figure, axes = plt.subplots(2, 4, figsize=(12, 6.4), layout="constrained", sharex=True, sharey=True)
    for axis, name in zip(axes.flat, shown, strict=False):
        density = cells[name].to_numpy().reshape(CELLS, CELLS).T
        axis.imshow(density, origin="lower", extent=(-3, 3, -3, 3), cmap="viridis")
        axis.set_title(name.rpartition(", ")[0] or name, fontsize=10)
    for axis in list(axes.flat)[len(shown) :]:
        axis.set_axis_off()
    figure.supxlabel("θ₁")
    figure.supylabel("θ₂")
    return figure


def main() -> None:
    """Measure, print, keep and draw."""
    parser = running.parser(__doc__)
    parser.add_argument(
        "--epsilon", type=float, nargs="+", default=[0.01, 0.05, 0.2], help="of one iteration"
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], help="rows")
    parser.add_argument("--print", action="store_true", help="print means, keep and draw nothing")
    parser.add_argument("--draw", action="store_true", help="stored numbers, no runs")
    args = parser.parse_args()
    running.silence()
    if args.draw:
        rows, cells = results.stored("zhang_1"), results.stored("zhang_2")
    else:
        rows, cells = compare(args.epsilon, args.runs, args.only)
    if args.print:
        last = rows[rows["iterations"] == TUNE + DRAWS].groupby(
            ["epsilon", "sampler"], sort=False, dropna=False
        )
        table = last[["kl", "share", "accepted", "records", "seconds"]].mean()
        table["error"] = last["share"].std() / math.sqrt(args.runs)
        print(table.to_string(float_format="{:.4g}".format))
        return
    if not args.draw:
        results.store("zhang_1", rows)
        results.store("zhang_2", cells)
    results.picture("zhang_1", figure_1(rows))
    results.picture("zhang_2", figure_2(cells))


if __name__ == "__main__":
    main()
