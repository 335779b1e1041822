"""What is expected of a released likelihood, and what then happens: other data sets of the same model.

    OMP_NUM_THREADS=1 python -m benchmarks.planning           # the tables of docs/planning.md
    OMP_NUM_THREADS=1 python -m benchmarks.planning poisson   # these families

Simulated: `expected_accuracy`'s way, `REPEATS` data sets from the prior, each beside a release without noise.
Formula: `expected_width`, from public numbers. Found: `OUTCOMES` other data sets, beside the posterior
without privacy by Laplace's approximation; medians over them and means over parameters. Said: the verdict's
`wider` of the same releases. delta = 1e-6.
"""

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks import running
from benchmarks.families.family import DELTA, Family
from pymc_dp.likelihood.report import judge
from pymc_dp.planning import Releases, moments

REPEATS, OUTCOMES = 3, 8
DEFAULT = ("logistic", "poisson", "linear", "gamma", "student_t")
SETTINGS = {
    "exclude_deterministics": (),
    "public": (),
    "trusted_ops": (),
    "neighboring_relation": "substitute",
}


def simulated(family, epsilon):
    """Mean width, as `expected_accuracy` finds it."""
    widths = []
    for seed in range(1000, 1000 + REPEATS):
        y, _ = family.simulated(seed)
        x = family.covariates(np.random.default_rng(seed), family.n)
        with pm.Model() as model:
            family.define(pm.Data("data_x", x), pm.Data("data_y", y))
        (result,) = Releases(model, family.n, DELTA, SETTINGS).compare([epsilon], [seed, seed])
        widths.append(result.wider)
    return np.median(widths, axis=0).mean()


def found(family, epsilon):
    """Mean width beside the posterior without privacy, and what verdicts say."""
    prior, widths, said = family.public[2], [], []
    for seed in range(OUTCOMES):
        sd = family.laplace(family.data(seed))
        result, _ = family.released(epsilon, seed, fit_test=True)
        widths.append(moments(result, prior)[1] / sd)
        said.append([one["wider"] for one in judge(result, prior, family.names).values()])
    return np.median(widths, axis=0).mean(), np.median(said, axis=0).mean()


def main():
    parser = running.parser(__doc__)
    parser.add_argument("families", nargs="*", default=list(DEFAULT))
    parser.add_argument("--n", type=int, nargs="+", default=[1_000, 5_000, 50_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    args = parser.parse_args()
    running.silence()
    print("| model | n | ε | formula | simulated | found | verdict |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in args.families:
        for n in args.n:
            family = Family(name, n)
            twins = family.public[0]
            for epsilon in args.epsilon:
                formula = dp.expected_width(n, twins.touched, epsilon, DELTA, predictors=twins.rank)
                width, said = found(family, epsilon)
                print(
                    f"| {name} | {n:,} | {epsilon:g} | {formula:.2f} | {simulated(family, epsilon):.2f} | "
                    f"{width:.2f} | {said:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
