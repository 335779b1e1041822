"""Released likelihoods of designs for which chains on residuals, that were here before, had a table.

    OMP_NUM_THREADS=1 python -m benchmarks.against_chains --datasets 10
    OMP_NUM_THREADS=1 python -m benchmarks.against_chains --only "logistic, n = 20,000"

Error: root mean square over coordinates of the difference of posterior means with and without privacy, in
standard deviations of the latter; median and largest over data sets. Width: standard deviations over those
without privacy, the medians of coordinates over data sets, from the smallest to the largest. Both with a
prior of variance 4 for each coordinate; without privacy is a release with `epsilon=inf`. THEN has what chains
had (commit e9b0eab's parent, docs/control_variates), with ten data sets or three; None where they had none.
delta = 1e-6.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

import pymc_dp as dp
from benchmarks import running
from benchmarks.results import store

NAME = "against_chains"
COLUMNS = "design", "data sets", "error", "largest", "widths", "error then", "largest then", "widths then"


def of_norm_one(r, n, d):
    """Logistic regression with d coefficients, rows of norm at most 1."""
    z = r.normal(size=(n, d - 1)) / np.sqrt(d - 1)
    z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.full(n, 0.7), z * 0.714])
    y = r.random(n) < 1 / (1 + np.exp(-x @ np.r_[-1, 1.5 * r.normal(size=d - 1)]))
    pm.Bernoulli("y", logit_p=x @ pm.Normal("beta", 0, 2, shape=d), observed=y)


def logistic(r, n):
    """Six coefficients."""
    of_norm_one(r, n, 6)


def fifty(r, n):
    """Logistic regression with fifty coefficients."""
    of_norm_one(r, n, 50)


def two_hundred(r, n):
    """Logistic regression with two hundred coefficients."""
    of_norm_one(r, n, 200)


def poisson(r, n):
    """Five coefficients."""
    x = np.column_stack([np.ones(n), r.normal(size=(n, 4)) * 0.5])
    y = r.poisson(np.exp(x @ np.r_[1.0, 0.6 * r.normal(size=4)]))
    pm.Poisson("y", pm.math.exp(x @ pm.Normal("beta", 0, 2, shape=5)), observed=y)


def linear(r, n):
    """Five coefficients and a standard deviation of 1.5."""
    x = np.column_stack([np.ones(n), r.normal(size=(n, 4))])
    y = x @ np.r_[2.0, r.normal(size=4)] + 1.5 * r.normal(size=n)
    mean, sigma = x @ pm.Normal("beta", 0, 5, shape=5), pm.HalfNormal("sigma", 5, initval=1.0)
    pm.Normal("y", mean, sigma, observed=y)


def groups(r, n):
    """Logistic regression with twenty levels."""
    group, x, z = r.integers(20, size=n), r.normal(size=(n, 3)) * 0.6, r.normal(size=20)
    y = r.random(n) < 1 / (1 + np.exp(0.5 - 0.8 * z[group] - x @ r.normal(size=3)))
    level = pm.Normal("level", pm.Normal("mean", 0, 2), pm.HalfNormal("tau", 1), shape=20)
    pm.Bernoulli("y", logit_p=level[group] + x @ pm.Normal("beta", 0, 2, shape=3), observed=y)


class Cell(NamedTuple):
    """A row of the table: the design, and what chains had (median error, largest, widths)."""

    define: Callable[[np.random.Generator, int], None]
    n: int
    epsilon: float
    then: tuple[float | None, float | None, str]

    @property
    def name(self) -> str:
        """For a reader."""
        return f"{self.define.__name__}, n = {self.n:,}, epsilon = {self.epsilon:g}"


THEN = [
    Cell(logistic, 100_000, 1.0, (0.178, 0.236, "1.010-1.028")),
    Cell(logistic, 100_000, 2.0, (0.098, 0.138, "0.988-1.008")),
    Cell(logistic, 100_000, 4.0, (0.057, 0.090, "1.005-1.022")),
    Cell(logistic, 20_000, 1.0, (0.440, 0.820, "1.080-1.153")),
    Cell(logistic, 20_000, 2.0, (0.169, 0.259, "0.981-1.061")),
    Cell(logistic, 20_000, 4.0, (0.125, 0.189, "0.999-1.016")),
    Cell(poisson, 100_000, 2.0, (0.322, 0.575, "1.058-1.106")),
    Cell(linear, 100_000, 2.0, (0.203, 0.265, "0.972-1.028")),
    Cell(groups, 100_000, 2.0, (0.260, 0.313, "0.93-1.22")),
    Cell(fifty, 100_000, 2.0, (0.402, None, "0.71-1.57")),
    Cell(fifty, 100_000, 4.0, (0.166, None, "0.84-1.24")),
    Cell(two_hundred, 100_000, 4.0, (None, None, "")),
]


def moments(model: pm.Model, epsilon: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviations, with a prior of variance 4."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = dp.release_likelihood(model, epsilon=epsilon, delta=1e-6, debug_seed=seed)
    covariance = np.linalg.inv(made.information + np.eye(len(made.point)) / 4)
    return covariance @ (made.gradient + made.information @ made.point), np.sqrt(np.diag(covariance))


def row(cell: Cell, datasets: int) -> dict[str, object]:
    """Of the table."""
    errors, widths = [], []
    for seed in range(datasets):
        with pm.Model() as model:
            cell.define(np.random.default_rng(seed), cell.n)
        (exact, sd), (mean, own) = (moments(model, epsilon, seed) for epsilon in (np.inf, cell.epsilon))
        errors.append(np.sqrt(np.mean(((mean - exact) / sd) ** 2)))
        widths.append(own / sd)
    each = np.median(widths, axis=0)
    found = f"{np.median(errors):.3f}", f"{max(errors):.3f}", f"{each.min():.3f}-{each.max():.3f}"
    return dict(zip(COLUMNS, (cell.name, datasets, *found, *cell.then), strict=True))


def main() -> None:
    """Print the table, and store it if it is whole."""
    parser = running.parser(__doc__)
    parser.add_argument("--datasets", type=int, default=10)
    parser.add_argument("--only", default="", help="rows that begin so")
    args = parser.parse_args()
    running.silence()
    rows = []
    for cell in THEN:
        if cell.name.startswith(args.only):
            rows.append(row(cell, args.datasets))
            print(*rows[-1].values(), sep=" | ", flush=True)
    if not args.only:
        store(NAME, pd.DataFrame(rows))


if __name__ == "__main__":
    main()
