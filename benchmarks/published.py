"""Designs that others have published a table of: ours beside theirs.

    python -m benchmarks.published                          # prints the tables, from the stored results
    python -m benchmarks.published --run --datasets 200     # makes them anew: a quarter of an hour
    python -m benchmarks.published --run --only "linear"    # rows of designs that begin so; others are kept

Each data set is drawn with the seed of its number, which is that of the release's noise as well; an interval
is the middle 95% of the exact posterior, which is normal: priors are normal, and wide. Theirs are figures of
the articles, or of runs of their code by others, as the table says. (DP-Fast MH as it was published, which is
not private, is in `benchmarks.published_fast_mh`.)
"""

import subprocess
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
import statsmodels.api as sm

import pymc_dp as dp
from benchmarks import running
from benchmarks.results import store, stored
from pymc_dp.privacy.accounting import gaussian

NAME = "published"
# At which a design in mu is asked for: of all pairs with this mu the one whose delta is this.
DELTA = 1e-6
QUANTILE = 1.959964
COLUMNS = ["design", "n", "method", "coverage", "width", "median width", "estimate"]
PRIOR_SD = 5.0


class Theirs(NamedTuple):
    """What others found: of 95% intervals how many cover, their mean width, the mean estimate."""

    method: str
    n: int
    coverage: float = np.nan
    width: float = np.nan
    estimate: float = np.nan


class Design(NamedTuple):
    """A published design.

    Attributes
    ----------
    name : str
    rows : callable
        Covariates (n, p) and outcomes, from n and a generator.
    truth : tuple of float
        Of the coefficients.
    looked_at : list of int
        Coefficients of which the table speaks.
    linear : bool
        Normal outcomes, whose sd is unknown; else yes and no.
    sizes : list of int
    epsilon, mu : float, optional
        One of them: what the articles ask for.
    theirs : list of Theirs
    """

    name: str
    rows: Callable
    truth: tuple[float, ...]
    looked_at: list[int]
    linear: bool
    sizes: list[int]
    theirs: list[Theirs]
    epsilon: float = np.nan
    mu: float = np.nan

    def budget(self) -> dict[str, float]:
        """Arguments of a release: a mu is the pair (epsilon, delta) that it is equivalent to."""
        if np.isnan(self.mu):
            return {"epsilon": self.epsilon}  # delta is the largest power of ten below 1 / (10 n)
        return {"epsilon": float(gaussian.epsilon(self.mu, DELTA)), "delta": DELTA}


def arcsine(n, rng):
    x = np.column_stack([np.ones(n), 2 * rng.beta(0.5, 0.5, n) - 1])
    return x, rng.random(n) < 1 / (1 + np.exp(-x @ [0.5, 2.0]))


def normal_columns(n, rng):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
    return x, rng.random(n) < 1 / (1 + np.exp(-x @ [1.5, 1.0, -1.0, 0.5]))


def far_from_zero(n, rng):
    x = rng.uniform(0, 10, size=(n, 3))
    return x, x @ [1.5, -2.0, 0.5] + rng.normal(size=n)


DESIGNS = [
    Design(
        "logistic, x = 2 Beta(1/2, 1/2) - 1, slope 2",
        arcsine,
        (0.5, 2.0),
        [1],
        False,
        [500, 1000, 2000],
        [
            Theirs("repro samples (Awan and Wang)", 500, 0.99, 1.77),
            Theirs("repro samples (Awan and Wang)", 1000, 0.99, 0.97),
            Theirs("repro samples (Awan and Wang)", 2000, 0.99, 0.62),
            Theirs("DP-CI-ERM (Wang, Kifer and Lee)", 500, 0.81, 1.32),
            Theirs("DP-CI-ERM (Wang, Kifer and Lee)", 1000, 0.83, 0.77),
            Theirs("DP-CI-ERM (Wang, Kifer and Lee)", 2000, 0.86, 0.47),
        ],
        epsilon=1.0,
    ),
    Design(
        "logistic, x normal, coefficient .5",
        normal_columns,
        (1.5, 1.0, -1.0, 0.5),
        [3],
        False,
        [250, 500, 1000, 2000, 4000],
        [
            Theirs("clipped gradients (code of Avella-Medina et al.)", 4000, estimate=0.63),
            Theirs("Mallows weights (code of Avella-Medina et al.)", 4000, estimate=0.49),
        ],
        mu=0.5,
    ),
    Design(
        "linear, x uniform on (0, 10), three coefficients",
        far_from_zero,
        (1.5, -2.0, 0.5),
        [0, 1, 2],
        True,
        [2000],
        [Theirs("BinAgg (code of Lin et al.)", 2000, 0.93, 0.29)],
        mu=1.0,
    ),
]


def model(x: np.ndarray, y: np.ndarray, linear: bool) -> pm.Model:
    """Priors are normal in the coordinates of the likelihood, so that the posterior is normal."""
    with pm.Model() as made:
        beta = pm.Normal("beta", 0, PRIOR_SD, shape=x.shape[1])
        if linear:
            pm.Normal("y", x @ beta, pm.LogNormal("sigma", 0, 1), observed=y)
        else:
            pm.Bernoulli("y", logit_p=x @ beta, observed=y.astype(int))
    return made


def posterior(likelihood: dp.Likelihood) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the coordinates."""
    precision = np.array([1 / PRIOR_SD**2 if name.startswith("beta") else 1.0 for name in likelihood.labels])
    covariance = np.linalg.inv(likelihood.information + np.diag(precision))
    mean = covariance @ (likelihood.gradient + likelihood.information @ likelihood.point)
    return mean, np.sqrt(np.diag(covariance))


def one(design: Design, n: int, seed: int) -> dict[str, Any]:
    """One data set: intervals with privacy, and without."""
    x, y = design.rows(n, np.random.default_rng([seed, n]))
    released = dp.release_likelihood(model(x, y, design.linear), debug_seed=seed, **design.budget())
    mean, sd = (values[design.looked_at] for values in posterior(released))
    truth = np.array(design.truth)[design.looked_at]
    plain = (sm.OLS(y, x) if design.linear else sm.Logit(y, x)).fit(disp=0)
    facts = released.facts
    return {
        "epsilon": facts["epsilon"],
        "delta": facts["delta"],
        "mu": float(gaussian.mu(facts["epsilon"], facts["delta"])),
        "coverage": np.mean(np.abs(mean - truth) < QUANTILE * sd),
        "width": np.mean(2 * QUANTILE * sd),
        "estimate": mean[-1],
        "width without privacy": np.mean(2 * QUANTILE * plain.bse[design.looked_at]),
    }


def rows_of(design: Design, datasets: int, commit: str) -> list[dict[str, Any]]:
    """A row for each number of records."""
    found = []
    for n in design.sizes:
        each = pd.DataFrame([one(design, n, seed) for seed in range(datasets)])
        means = each.mean()
        error = 2 * each["estimate"].std() / np.sqrt(datasets)
        means["median width"] = each["width"].median()
        row = {"design": design.name, "n": n, "data sets": datasets, **means, "2 se of estimate": error}
        found.append({**row, "commit": commit})
        print(
            f"{design.name}, n = {n}: coverage {means['coverage']:.3f}, width {means['width']:.3g}",
            flush=True,
        )
    return found


def rows() -> pd.DataFrame:
    """The table that is shown: a line a method, theirs and ours, from the stored results."""
    ours = stored(NAME)
    lines = []
    for design in DESIGNS:
        for row in ours[ours["design"] == design.name].to_dict("records"):
            n = row["n"]
            here = {"design": design.name, "n": n}
            lines += [{**here, "method": one.method, **one._asdict()} for one in design.theirs if one.n == n]
            asked = "ε = 1" if np.isnan(design.mu) else f"μ = {design.mu:g}"
            lines.append({
                **here,
                "method": f"pymc_dp, {asked} (μ = {row['mu']:.2g}), {row['data sets']} data sets",
                **{name: row[name] for name in ("coverage", "width", "median width", "estimate")},
            })  # fmt: skip
            lines.append({**here, "method": "without privacy", "width": row["width without privacy"]})
    return pd.DataFrame(lines)[COLUMNS]


def main() -> None:
    parser = running.parser(__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--datasets", type=int, default=200)
    parser.add_argument("--only", default="", help="designs that begin so")
    args = parser.parse_args()
    if args.run:
        warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)
        commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
        for design in DESIGNS:
            if design.name.startswith(args.only):
                found = pd.DataFrame(rows_of(design, args.datasets, commit))
                try:
                    before = stored(NAME)
                    found = pd.concat([before[before["design"] != design.name], found])
                except FileNotFoundError:
                    pass
                store(NAME, found)
    with pd.option_context(
        "display.width", 200, "display.max_colwidth", 80, "display.float_format", "{:.3g}".format
    ):
        print(rows().to_string(index=False, na_rep=""))


if __name__ == "__main__":
    main()
