"""How far groups are spread, from a released likelihood of their levels.

    python -m benchmarks.group_spreads --datasets 20

Levels ``l ~ N(mu, tau^2)`` of G groups, two covariates, n records with a binary outcome or with normal
noise of sd 1: the posterior of tau, with the priors of the model, from its marginal density under the
released normal likelihood. For each cell the coverage of 90% intervals of tau; its mean z (the normal
quantile of the posterior mass below the truth, with the opposite sign: below zero where tau is found too
small); the median of its posterior mean and standard deviation; and how far levels are off by in their
differences, D / (G - 1), which is 1 on average where the likelihood is right.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
from scipy.linalg import helmert
from scipy.special import ndtri

import pymc_dp as dp
from benchmarks import running

RESULTS = Path(__file__).parent / "results" / "group_spreads.csv"
COLUMNS = [
    "outcome",
    "n",
    "groups",
    "tau",
    "epsilon",
    "data sets",
    "coverage",
    "z",
    "mean",
    "sd",
    "D / (G - 1)",
]
# n, G, tau.
CELLS = [
    (2_000, 20, 1.0),
    (2_000, 20, 0.3),
    (5_000, 50, 0.5),
    (5_000, 100, 1.0),
    (5_000, 100, 0.5),
    (20_000, 100, 0.5),
]
GRID = np.exp(np.linspace(np.log(0.01), np.log(6.0), 200))


def released(outcome, n, number, tau, epsilon, seed):
    """A likelihood, and the levels that are true."""
    rng = np.random.default_rng(seed)
    x, group, slopes = rng.normal(size=(n, 2)), rng.integers(0, number, n), np.array([0.5, -0.3])
    levels = rng.normal(0, tau, number)
    eta = x @ slopes + levels[group]
    drawn = rng.random(n) < 1 / (1 + np.exp(-eta)) if outcome == "binary" else rng.normal(eta, 1.0)
    with pm.Model() as model:
        level = pm.Normal("level", pm.Normal("mu", 0, 1), pm.HalfNormal("tau", 1), shape=number)
        mean = x @ pm.Normal("slope", 0, 1, shape=2) + level[group]
        if outcome == "binary":
            pm.Bernoulli("y", logit_p=mean, observed=drawn.astype(int))
        else:
            pm.Normal("y", mean, pm.HalfNormal("sigma", 1), observed=drawn)
    return dp.release_likelihood(model, epsilon=epsilon, delta=1e-6, debug_seed=seed), levels


def judged(likelihood, levels, tau):
    """Mass below the truth, mean and sd of tau's posterior, and D / (G - 1)."""
    own = np.array([label.startswith("level[") for label in likelihood.labels])
    total, vector = likelihood.information, likelihood.gradient + likelihood.information @ likelihood.point
    rest = total[np.ix_(~own, ~own)] + np.eye(int((~own).sum()))  # slopes and log sigma: N(0, 1)
    beside = np.linalg.solve(rest, total[np.ix_(~own, own)])
    information = total[np.ix_(own, own)] - total[np.ix_(own, ~own)] @ beside + 1e-9 * np.eye(len(levels))
    vector = vector[own] - beside.T @ vector[~own]
    logs = []
    for spread in GRID:
        prior = spread**2 * np.eye(len(levels)) + 1.0  # mu is N(0, 1)
        inside = np.eye(len(levels)) + information @ prior
        logs.append(
            0.5 * vector @ prior @ np.linalg.solve(inside, vector) - 0.5 * np.linalg.slogdet(inside)[1]
        )
    mass = np.exp(np.array(logs) - max(logs) - GRID**2 / 2) * GRID
    mass /= mass.sum()
    mean = mass @ GRID
    apart = helmert(len(levels))
    off = apart @ (np.linalg.solve(information, vector) - levels)
    square = off @ np.linalg.solve(apart @ np.linalg.inv(information) @ apart.T, off) / len(off)
    return mass[GRID < tau].sum(), mean, np.sqrt(mass @ GRID**2 - mean**2), square


def main():
    parser = running.parser(__doc__)
    parser.add_argument("--outcomes", nargs="+", default=["binary", "normal"])
    parser.add_argument("--cells", type=int, nargs="+", default=range(len(CELLS)))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--datasets", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    running.silence()
    rows = []
    for outcome, cell, epsilon in (
        (o, CELLS[c], e) for o in args.outcomes for c in args.cells for e in args.epsilon
    ):
        n, number, tau = cell
        found = []
        for seed in range(args.datasets):
            likelihood, levels = released(outcome, n, number, tau, epsilon, seed)
            found.append(judged(likelihood, levels, tau))
        below, mean, sd, square = np.array(found).T
        z = -ndtri(np.clip(below, 1e-6, 1 - 1e-6))
        numbers = [np.mean(np.abs(z) < 1.645), z.mean(), np.median(mean), np.median(sd), square.mean()]
        rows.append([outcome, n, number, tau, epsilon, len(found), *np.round(numbers, 2)])
        print(*rows[-1], flush=True)
    pd.DataFrame(rows, columns=COLUMNS).to_csv(args.out, index=False)


if __name__ == "__main__":
    main()
