"""Control variates on many likelihoods: whether the truth is where the posterior says, for every parameter.

    python -m benchmarks.families --datasets 40
    python -m benchmarks.families --families linear student_t --epsilon 1 --datasets 10
    python -m benchmarks.families --surrogate --datasets 20      # prior times surrogate, no chain: faster
    python -m benchmarks.families --others --surrogate --datasets 8 --out others.csv

Each data set: parameters from the prior, fresh records, fresh noise. For each parameter, in unconstrained
space (log of what is positive): z = (posterior mean - truth) / posterior sd, whether the 90% interval covers
the truth, and the posterior sd over that of the non-private posterior (Laplace's approximation at its mode).
A call that is refused counts as refused and nothing else; one that warned is counted, and kept. The table
goes to benchmarks/results/families.csv.
"""

import csv
import time
import warnings
from pathlib import Path

import numpy as np

import pymc_dp as dp
from benchmarks import running
from benchmarks.families.family import Family
from benchmarks.families.models import FAMILIES
from benchmarks.families.others import OTHERS

RESULTS = Path(__file__).parents[1] / "results" / "families.csv"


def cell(family, epsilon, args):
    """z, coverage and ratio of every data set, and how many were refused or warned."""
    z, covered, ratios, refused, warned = [], [], [], 0, 0
    for seed in range(args.first, args.first + args.datasets):
        started, truth = time.perf_counter(), family.data(seed)
        _, sd = family.laplace(truth)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if args.surrogate:
                    mean, own, _, (low, high) = family.of_surrogate(epsilon, seed)
                else:
                    mean, own, _, (low, high) = family.of_chain(epsilon, seed, args.draws)
            except dp.PrivacyError as error:
                refused += 1
                print(f"  {seed} {type(error).__name__}: {str(error)[:150]}", flush=True)
                continue
        kinds = (dp.ClippedRecordsWarning, dp.SurrogateWarning)
        warned += any(issubclass(w.category, kinds) for w in caught)
        z.append((mean - truth) / own)
        covered.append((low < truth) & (truth < high))
        ratios.append(own / sd)
        worst = int(np.argmax(np.abs(z[-1])))
        print(
            f"  {seed} worst z {z[-1][worst]:+.1f} ({family.names[worst]}), ratios {ratios[-1].min():.2f}-"
            f"{ratios[-1].max():.2f}, {time.perf_counter() - started:.0f} s",
            flush=True,
        )
    return np.array(z), np.array(covered), np.array(ratios), refused, warned


def rows_of(family, epsilon, args):
    """A row of the table for each parameter."""
    z, covered, ratios, refused, warned = cell(family, epsilon, args)
    shared = [family.name, epsilon, family.n, len(z), refused, warned]
    for k, name in enumerate(family.names):
        numbers = ["", "", "", ""]
        if len(z):
            numbers = [
                f"{z[:, k].mean():.2f}",
                f"{np.sqrt(np.mean(z[:, k] ** 2)):.2f}",
                f"{covered[:, k].mean():.3f}",
                f"{np.median(ratios[:, k]):.3f}",
            ]
        yield [shared[0], name, *shared[1:], *numbers]
    if len(z):
        print(
            f"{family.name} epsilon = {epsilon:g}: {len(z)} data sets, {refused} refused, {warned} warned; "
            f"mean z {z.mean(axis=0).min():+.2f} to {z.mean(axis=0).max():+.2f}, coverage "
            f"{covered.mean():.2f} ({covered.mean(axis=0).min():.2f}-{covered.mean(axis=0).max():.2f}), "
            f"median sd ratios {np.median(ratios, axis=0).min():.2f}-{np.median(ratios, axis=0).max():.2f}",
            flush=True,
        )
    else:
        print(f"{family.name} epsilon = {epsilon:g}: all {refused} refused", flush=True)


def main():
    parser = running.parser(__doc__)
    parser.add_argument("--families", nargs="+", choices=[*FAMILIES, *OTHERS], default=list(FAMILIES))
    parser.add_argument("--others", action="store_true", help="families that no setting was chosen for")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--datasets", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first data set")
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--surrogate", action="store_true", help="prior times surrogate, without chains")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    head = ["family", "parameter", "epsilon", "n", "data sets", "refused", "warned"]
    head += ["mean z", "rms z", "coverage", "sd ratio"]
    table = [head]
    for name in OTHERS if args.others else args.families:
        family = Family(name, args.n)
        for epsilon in args.epsilon:
            table += rows_of(family, epsilon, args)
            with args.out.open("w", newline="") as file:
                csv.writer(file).writerows(table)


if __name__ == "__main__":
    main()
