"""Released likelihoods of many families: whether the truth is where the posterior says, for every parameter.

    python -m benchmarks.families --datasets 40
    python -m benchmarks.families --families linear student_t --n 5000 --epsilon 1 --datasets 10
    python -m benchmarks.families --others --n 5000 50000 --epsilon 1 --datasets 20 --out others.csv

Each data set: parameters from the prior, fresh records, fresh noise. For each likelihood coordinate (log of
what is positive; levels of groups): z = (posterior mean - truth) / posterior sd, how often intervals cover
the truth, and the posterior sd over that of the non-private posterior (Laplace's approximation).
The table goes to benchmarks/results/families.csv.
"""

import csv
import time
from pathlib import Path

import numpy as np

import pymc_dp as dp
from benchmarks import running
from benchmarks.families.family import Family
from benchmarks.families.models import FAMILIES
from benchmarks.families.others import OTHERS

# Of intervals, in percent, and the standard normal quantiles that bound them.
LEVELS, BOUNDS = (50, 80, 90, 95), (0.6745, 1.2816, 1.6449, 1.96)
RESULTS = Path(__file__).parents[1] / "results" / "families.csv"


def cell(family, epsilon, args):
    """Scores z and ratios of every data set, and how many were refused after they were paid."""
    z, ratios, seconds, refused = [], [], [], 0
    for seed in range(args.first, args.first + args.datasets):
        theta = family.data(seed)
        truth, sd = family.coordinates(theta), family.deviations(theta)
        started = time.perf_counter()
        try:
            mean, own = family.of_likelihood(epsilon, seed)
        except (dp.errors.PrivacyError, np.linalg.LinAlgError) as error:
            refused += 1
            print(f"  {seed} {type(error).__name__}: {str(error)[:150]}", flush=True)
            continue
        seconds.append(time.perf_counter() - started)
        z.append((mean - truth) / own)
        ratios.append(own / sd)
    return np.array(z), np.array(ratios), np.array(seconds), refused


def rows_of(family, epsilon, args):
    """A row of the table for each parameter."""
    z, ratios, seconds, refused = cell(family, epsilon, args)
    if not len(z):
        print(f"{family.name} n = {family.n} epsilon = {epsilon:g}: all {refused} refused", flush=True)
        return
    shared = [epsilon, family.n, len(z), refused]
    for k, name in enumerate(family.names):
        covered = [f"{np.mean(np.abs(z[:, k]) < bound):.3f}" for bound in BOUNDS]
        numbers = [f"{z[:, k].mean():.2f}", f"{z[:, k].std():.2f}", *covered]
        yield [family.name, name, *shared, *numbers, f"{np.median(ratios[:, k]):.3f}"]
    together = " ".join(f"{np.mean(np.abs(z) < bound):.2f}" for bound in BOUNDS)
    widths = np.median(ratios, axis=0)
    print(
        f"{family.name} n = {family.n} epsilon = {epsilon:g}: {len(z)} data sets, {refused} refused; "
        f"mean z {z.mean(axis=0).min():+.2f} to {z.mean(axis=0).max():+.2f}; coverage of 50, 80, 90, 95%: "
        f"{together}; widths {widths.min():.2f} to {widths.max():.2f}; {np.median(seconds):.1f} s",
        flush=True,
    )


def main():
    parser = running.parser(__doc__)
    parser.add_argument("--families", nargs="+", choices=[*FAMILIES, *OTHERS], default=list(FAMILIES))
    parser.add_argument("--others", action="store_true", help="families that no setting was chosen for")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--datasets", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first data set")
    parser.add_argument("--n", type=int, nargs="+", default=[1_000, 5_000, 50_000])
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    table = [
        ["family", "parameter", "epsilon", "n", "data sets", "refused", "mean z", "sd z"]
        + [f"coverage {level}" for level in LEVELS]
        + ["sd ratio"]
    ]
    for name in OTHERS if args.others else args.families:
        for n in args.n:
            family = Family(name, n)
            for epsilon in args.epsilon:
                table += rows_of(family, epsilon, args)
                with args.out.open("w", newline="") as file:
                    csv.writer(file).writerows(table)


if __name__ == "__main__":
    main()
