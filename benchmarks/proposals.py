"""Iterations from five standard deviations away to the bulk, and effective draws, by proposal.

    python -m benchmarks.proposals                     # the table of docs/penalty.md
    python -m benchmarks.proposals --d 10 --runs 10

n records with d entries in [-1, 1], a normal likelihood with known variance and unknown mean. All proposals
have the same budget, (2, 1e-6)-DP for one chain, and their own Lipschitz constants: by the norm of a record
where all components move, by the size of an entry where one does. The chain starts five posterior standard
deviations away in every coordinate, and is in the bulk when its squared distance is below the 95% quantile of
chi-square. Effective draws are those of the mean of the draws after tuning, from its variance over the runs.
"""

import logging

import numpy as np
import pymc as pm
from scipy import stats

import pymc_dp as dp
from benchmarks import running

SPREAD = 1 / np.sqrt(3)  # standard deviation of a uniform entry


def proposals(d: int) -> dict[str, tuple[object, object]]:
    """Name -> proposal and Lipschitz constants, for a mean near 0."""
    entry = 1 / SPREAD**2
    return {
        "all together, fixed radius": ("fixed_radius", entry * np.sqrt(d)),
        "one at a time": (dp.proposals.OneAtATime(), np.full(d, entry)),
        "one at a time, in turn": (dp.proposals.OneAtATime(scan="systematic"), np.full(d, entry)),
        "guided": (dp.proposals.GuidedWalk(), np.full(d, entry)),
        "guided, in turn": (dp.proposals.GuidedWalk(scan="systematic"), np.full(d, entry)),
    }


def run(
    n: int, d: int, proposal: object, lipschitz: object, seed: int, tune: int, draws: int
) -> tuple[float, np.ndarray]:
    """Iterations to the bulk (inf if it was not reached), and the standardized means of the draws."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(-1, 1, size=(n, d))
    mean, sd = y.mean(axis=0), SPREAD / np.sqrt(n)
    with pm.Model():
        pm.Normal("y", pm.Flat("mu", shape=d), SPREAD, observed=y)
        step = dp.DPPenaltyMH(
            epsilon=2.0,
            delta=1e-6,
            lipschitz=lipschitz,
            proposal=proposal,
            chains=1,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )
        trace = pm.sample(
            draws,
            tune=tune,
            chains=1,
            cores=1,
            step=step,
            initvals={"mu": mean + 5 * sd * rng.choice([-1, 1], d)},
            discard_tuned_samples=False,
            compute_convergence_checks=False,
            progressbar=False,
            random_seed=seed,
        )
    z = np.concatenate([trace["warmup_posterior"]["mu"].values[0], trace["posterior"]["mu"].values[0]])
    z = (z - mean) / sd
    there = np.flatnonzero(np.sum(z**2, axis=1) < stats.chi2(d).ppf(0.95))
    first = there[0] if there.size else np.inf
    return float(first), z[tune:].mean(axis=0)


def main() -> None:
    """Print a table."""
    parser = running.parser(__doc__)
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--d", type=int, nargs="+", default=[2, 5, 10])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--tune", type=int, default=500)
    parser.add_argument("--draws", type=int, default=1500)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    for d in args.d:
        for name, (proposal, lipschitz) in proposals(d).items():
            results = [
                run(args.n, d, proposal, lipschitz, seed, args.tune, args.draws) for seed in range(args.runs)
            ]
            first, means = np.array([r[0] for r in results]), np.array([r[1] for r in results])
            low, middle, high = np.quantile(first, [0.1, 0.5, 0.9], method="inverted_cdf")
            print(
                f"d {d:2d}  {name:28s} iterations to the bulk: median {middle:.0f} (10% {low:.0f}, 90% "
                f"{high:.0f}); effective draws {1 / np.mean(means**2):.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
