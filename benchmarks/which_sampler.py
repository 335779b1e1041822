"""What each sampler makes of the same budget: the table and the picture of docs/which_sampler.md.

    OMP_NUM_THREADS=1 python -m benchmarks.which_sampler --figure docs/images/which_sampler.png

Logistic regression, n rows of norm 1 with entries of either sign, d coefficients.
(epsilon, 1e-6)-DP for one chain, whose tuning is paid for. Chains start at an exact draw of the posterior:
the way there comes on top.

- draws: 1 / mean squared error of the mean of a run's kept draws, in posterior variances, over runs and
  coefficients: the number of independent draws whose mean is as near. A chain that does not move has 1.
- bound: what the decisions of a reversible walk on all records can be worth at most, to first order, rho / (2
  d L^2 sigma^2), where rho = mu^2 / 2 is the budget, L = 1 the bound on a record's gradient and sigma^2 the
  posterior variance (docs/which_sampler). A walk that accepts a share a0 of moves between points of equal
  density gets the share 1 - a0 of it.
- sd: posterior standard deviation of the kept draws over the exact one, median.
- seconds: of processor, a run without compilation.
"""

import json
import time
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_dp as dp
from benchmarks import running
from benchmarks.simulation_based_calibration.simulation import PaidAgain
from pymc_dp.privacy.accounting import gaussian

DELTA = 1e-6
CELLS = [(n, d) for n in (10_000, 100_000) for d in (2, 10)]
EPSILONS = (1.0, 4.0)


class Problem:
    """A data set, its posterior (Laplace's approximation, exact enough for these n), and the model."""

    def __init__(self, n: int, d: int):
        rng = np.random.default_rng([n, d])
        x = rng.choice([-1.0, 1.0], size=(n, d)) / np.sqrt(d)
        beta = rng.normal(size=d) / np.sqrt(d)
        self.n, self.d = n, d
        y = (rng.random(n) < expit(x @ beta)).astype(int)
        self.mean = np.zeros(d)
        for _ in range(20):
            p = expit(x @ self.mean)
            covariance = np.linalg.inv((x.T * (p * (1 - p))) @ x + np.eye(d))
            self.mean = self.mean + covariance @ (x.T @ (y - p) - self.mean)
        self.sd, self.root = np.sqrt(np.diag(covariance)), np.linalg.cholesky(covariance)
        self.bound = 1 / (2 * d * np.mean(self.sd**2))
        with pm.Model() as self.model:
            pm.Bernoulli("y", logit_p=x @ pm.Normal("beta", 0, 1, shape=d), observed=y)


def samplers(problem: Problem) -> dict[str, tuple]:
    """Name -> step, its arguments, tuning and kept draws."""
    walk = {"lipschitz": 1.0}
    trajectory = walk | {"n_leapfrog": 3, "gradient_share": 0.7}
    step = {"step_size": 0.2 * float(np.mean(problem.sd)), "decay": 0.0}
    stochastic = walk | step | {"sampling_probability": 1000 / problem.n}
    kept = 2000 if problem.d == 2 else 700  # where few draws are to be had, more iterations buy nothing
    return {
        "DPPenaltyMH": (dp.DPPenaltyMH, walk, 300, kept),
        "DPBarker": (dp.DPBarker, walk, 300, kept),
        "DPFastMH": (dp.DPFastMH, walk, 300, kept),
        "DPHMC": (dp.DPHMC, trajectory, 50, 200),
        "DPSGHMC": (dp.DPSGHMC, stochastic, 0, 300),
    }


def run(step, problem, start, tune, draws, seed):
    """Kept draws, shape (draws, d), and processor seconds."""
    began = time.process_time()
    step._call = PaidAgain()
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    point, kept = {"beta": start}, []
    for i in range(tune + draws):
        step.tune = i < tune
        point, _ = step.step(point)
        kept.append(point["beta"])
    return np.array(kept[tune:]), time.process_time() - began


def lines(problem, runs, only=None):
    """Rows of the table for one data set."""
    for name, (make, arguments, tune, draws) in samplers(problem).items():
        if only and name not in only:
            continue
        settings = {"delta": DELTA, "chains": 1, "model": problem.model, "compile_kwargs": {"mode": "NUMBA"}}
        step = make(epsilon=EPSILONS[0], **settings, **arguments)
        price = step.cost
        for step.epsilon in EPSILONS:
            found = {"n": problem.n, "d": problem.d, "epsilon": step.epsilon, "sampler": name}
            rho = gaussian.mu(step.epsilon, DELTA) ** 2 / 2
            found |= {"rho": rho, "bound": problem.bound * rho}
            errors, ratios, seconds = [], [], []
            try:
                plan = price(draws, tune)
                step.cost = lambda *_, plan=plan: plan
                for seed in range(runs):
                    rng = np.random.default_rng([seed, 7])
                    start = problem.mean + problem.root @ rng.standard_normal(problem.d)
                    kept, spent = run(step, problem, start, tune, draws, seed)
                    errors.append((kept.mean(axis=0) - problem.mean) / problem.sd)
                    ratios.append(kept.std(axis=0) / problem.sd)
                    seconds.append(spent)
            except dp.errors.BudgetError as error:
                yield found | {"refused": str(error)}
                continue
            yield found | {
                "draws": 1 / float(np.mean(np.square(errors))),
                "sd": float(np.median(ratios)),
                "seconds": float(np.median(seconds)),
                "values": int(np.size(errors)),
            }


def show(row):
    """One line of the table, in Markdown."""
    cells = [f"{row['n']:,}", row["d"], f"{row['epsilon']:g}", row["sampler"]]
    if "refused" in row:
        cells += ["refused", f"{row['bound']:.2g}", "", ""]
    else:
        cells += [f"{row['draws']:.2g}" if row["draws"] < 100 else f"{row['draws']:.0f}"]
        cells += [f"{row['bound']:.2g}" if row["bound"] < 100 else f"{row['bound']:.0f}"]
        cells += [f"{row['sd']:.2f}", f"{row['seconds']:.1f}"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def figure(rows, path):
    """Equivalent draws of each sampler, and the bound of walks, for each n, d and epsilon."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["sampler"] for row in rows))
    fig, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharey=True)
    for ax, d in zip(axes, (2, 10), strict=True):
        groups = list(dict.fromkeys((row["n"], row["epsilon"]) for row in rows if row["d"] == d))
        for row in (r for r in rows if r["d"] == d):
            x, which = groups.index((row["n"], row["epsilon"])), names.index(row["sampler"])
            ax.hlines(row["bound"], x - 0.42, x + 0.42, color="0.2", lw=1, ls="--", zorder=1)
            if "refused" not in row:
                at = x + 0.1 * (which - (len(names) - 1) / 2)
                ax.plot(at, row["draws"], "os^Dv*PX"[which], color=f"C{which}", ms=7, zorder=2)
        ax.set_yscale("log")
        ax.set_title(f"d = {d}")
        ax.set_xticks(range(len(groups)), [f"n = {n:,}\nε = {e:g}" for n, e in groups])
        ax.set_xlim(-0.5, len(groups) - 0.5)
        ax.grid(axis="y", color="0.9", lw=0.6, zorder=0)
    axes[0].set_ylabel("independent draws with the same error")
    handles = [
        plt.Line2D([], [], color=f"C{i}", marker="os^Dv*PX"[i], ls="", label=name)
        for i, name in enumerate(names)
    ]
    handles.append(plt.Line2D([], [], color="0.2", lw=1, ls="--", label="bound of walks on all records"))
    fig.legend(handles=handles, loc="lower center", ncol=3, fontsize=8, frameon=False)
    fig.tight_layout(rect=(0, 0.14, 1, 1))
    fig.savefig(path, dpi=130)


def main():
    """Print the table; draw the picture."""
    parser = running.parser(__doc__)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--n", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--d", type=int, nargs="+", default=[2, 10])
    parser.add_argument("--only", nargs="+", help="samplers of these names")
    parser.add_argument("--figure")
    parser.add_argument("--results", help="JSON file: read if it exists, otherwise written")
    args = parser.parse_args()
    running.silence()
    print("| n | d | ε | sampler | draws | bound | sd | seconds |\n|---|---|---|---|---|---|---|---|")
    saved = Path(args.results) if args.results else None
    if saved and saved.exists():
        rows = json.loads(saved.read_text())
        for row in rows:
            show(row)
    else:
        rows = []
        for n, d in CELLS:
            if n not in args.n or d not in args.d:
                continue
            for row in lines(Problem(n, d), args.runs, args.only):
                rows.append(row)
                show(row)
                if saved:
                    saved.write_text(json.dumps(rows))
    if args.figure:
        figure(rows, args.figure)


if __name__ == "__main__":
    main()
