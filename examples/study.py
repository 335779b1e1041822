"""A study of a private table, from its file to a posterior that may be published, on one budget.

A made-up CSV of 20,000 patients (mixed columns, missing values, categories) stands in for a private one.
On one ledger of epsilon = 1: scales, levels and bounds of the columns are released with epsilon = 0.2 and
applied row by row; what epsilon buys is planned from simulated rows; a model is fitted with epsilon = 0.8,
and a page about it written, which may be published. In a clone of the repository::

    python3 -m venv .venv && .venv/bin/pip install -q -e '.[examples,prepare]'
    .venv/bin/python examples/study.py    # writes report.html
    python examples/study.py --plan       # and what other budgets would have bought

The file is made up so that the script may print the truth beside what it found. With a private file, leave
out `compare`.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import pymc as pm
from xarray import DataTree

import pymc_dp as dp

DELTA = 1e-6
TOTAL, FOR_COLUMNS, FOR_MODEL = 1.0, 0.2, 0.8
N = 20_000
REGIONS = {"north": 0.45, "south": 0.30, "east": 0.20, "islands": 0.05}
EFFECTS = ["intercept", "age", "income", "smoker", "south"]


def make_file(path: Path, seed: int = 1) -> None:
    """Write a CSV as hospitals have them: who was admitted again within a year."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "age": rng.integers(18, 96, N),
        "income": np.exp(rng.normal(10.6, 0.5, N)).round(2),
        "region": rng.choice(list(REGIONS), N, p=list(REGIONS.values())),
        "smoker": np.where(rng.random(N) < 0.2, "yes", "no"),
    })  # fmt: skip
    z = 0.5 * (table["age"] - 57) / 22.5 - 0.4 * (np.log(table["income"]) - 10.6) / 0.5
    z += 0.6 * (table["smoker"] == "yes") - 1.0 + 0.3 * (table["region"] == "south")
    table["again"] = (rng.random(N) < 1 / (1 + np.exp(-z))).astype(int)
    for column, share in (("income", 0.08), ("smoker", 0.05), ("region", 0.02)):
        table.loc[rng.random(N) < share, column] = None
    table.to_csv(path, index=False)


def declared() -> dict[str, object]:
    """What is known of the columns without the file: ages are below 110, the outcome is yes or no."""
    return {
        "age": dp.Numeric(bounds=(0, 110)),
        "income": "numeric",
        "region": dp.Category(at_least=2000),  # smaller ones together: at this budget they could not be told
        "smoker": "boolean",
    }


def build(rows: dict[str, np.ndarray], south: int) -> pm.Model:
    """Logistic regression on prepared columns, which are of order one: the prior needs no data.

    Parameters
    ----------
    rows : dict of str to ndarray, shape (n,)
    south : int
        Number of the level "south": is it different there? The question was asked before.
    """
    columns = [np.ones(len(rows["age"])), *(np.clip(rows[name], -2, 2) for name in EFFECTS[1:4])]
    x = np.column_stack([*columns, rows["region"] == south])
    with pm.Model(coords={"effect": EFFECTS}) as model:
        beta = pm.Normal("beta", 0, 1, dims="effect")
        pm.Bernoulli("again", logit_p=x @ beta, observed=rows["again"].astype(int))
    return model


def simulate(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows that look like prepared ones, made without the file."""
    rows = {name: rng.normal(size=n) for name in ("age", "income")}
    rows |= {"smoker": (rng.random(n) < 0.2).astype(float), "region": rng.integers(4, size=n)}
    rows["again"] = (rng.random(n) < 1 / (1 + np.exp(1 - 0.4 * rows["age"]))).astype(int)
    return rows


def plan() -> pd.DataFrame:
    """What budgets would buy, before anything private is read."""
    table = dp.expected_accuracy(
        lambda rows: build(rows, 3), simulate, n=N, epsilons=(0.5, 0.8, 2.0), delta=DELTA
    )
    return table.pivot_table(index="parameter", columns="epsilon", values=["wider", "moved"])


def private_posterior(prepared: pd.DataFrame, south: int, ledger: dp.Ledger, draws: int) -> DataTree:
    """Fit, paid from what is left of the ledger."""
    rows = {name: prepared[name].to_numpy() for name in prepared}
    with build(rows, south):
        return dp.sample(
            draws=draws,
            epsilon=FOR_MODEL,
            delta=DELTA,
            ledger=ledger,
            label="admitted again: logistic regression",
            progressbar=False,
            quiet=True,
        )


def compare(prepare: dp.Prepare, table: pd.DataFrame) -> pd.DataFrame:
    """Relative errors of what was released; only for a file that is made up."""
    rows = []
    for name in ("age", "income"):
        found, values = prepare.constants_[name], table[name].dropna()
        rows.append(
            (name, found.centre, values.mean(), found.scale, values.std(), found.scale / values.std() - 1)
        )
    columns = ["column", "centre", "mean in file", "scale", "sd in file", "relative error of scale"]
    return pd.DataFrame(rows, columns=columns)


def main() -> None:
    """Prepare, plan if asked, fit, report."""
    parser = argparse.ArgumentParser(description="A study of a private table on one budget.")
    parser.add_argument("--plan", action="store_true", help="simulate what other budgets would buy")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--report", type=Path, default=Path("report.html"), help="where the page is written")
    options = parser.parse_args()

    folder = Path(tempfile.mkdtemp())
    make_file(folder / "patients.csv")
    start = time.perf_counter()
    table = pd.read_csv(folder / "patients.csv")
    ledger = dp.Ledger(folder / "study.db", epsilon=TOTAL, delta=DELTA)

    prepare = dp.Prepare(declared(), epsilon=FOR_COLUMNS, ledger=ledger, label="scales and levels of columns")
    prepared = prepare.fit_transform(table)
    prepared["again"] = table["again"]  # 0 or 1 in every row: nothing to prepare
    (folder / "columns.json").write_text(prepare.to_json())
    print(prepare.summary().round(2).to_string(), "\n")
    print(compare(prepare, table).round(3).to_string(index=False), "\n")
    print(f"Prepared in {time.perf_counter() - start:.0f} s; levels {prepare.coords['region']}\n", flush=True)

    if options.plan:
        print(plan().round(2).to_string(), "\n", flush=True)

    idata = private_posterior(prepared, prepare.coords["region"].index("south"), ledger, options.draws)
    beta = idata["posterior"]["beta"]
    print(
        pd.DataFrame({"mean": beta.mean(("chain", "draw")), "sd": beta.std(("chain", "draw"))}, index=EFFECTS)
    )
    print(f"\n{time.perf_counter() - start:.0f} s from the file to the posterior\n")
    print(dp.privacy_report(idata))
    print(ledger)
    dp.report(dp.release(idata), options.report, title="Who is admitted again?", ledger=ledger)
    print(f"{time.perf_counter() - start:.0f} s from the file to {options.report}, which may be published")


if __name__ == "__main__":
    main()
