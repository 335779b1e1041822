"""How often the test of the model's spread says that a model is wrong: right ones, and wrong ones.

    python -m benchmarks.fit_test                    # the table of docs/likelihood.md
    python -m benchmarks.fit_test --datasets 20 --n 5000

Each data set: parameters from the prior of the model that makes it, fresh records, fresh noise, epsilon = 1,
delta = 1e-6. Right models are the families of docs/which_models; wrong ones are fitted to outcomes that
another model made.
"""

import numpy as np
import pymc as pm

from benchmarks import running
from benchmarks.families.family import Family
from benchmarks.families.models import FAMILIES
from benchmarks.families.others import OTHERS

RIGHT = ("logistic", "poisson", "negative_binomial", "gamma", "linear", "student_t", "ordered", "hierarchy")


def overdispersed(alpha):
    """Outcomes of a Poisson regression that are negative binomial."""

    def outcome(random, x, n):
        mean = np.exp(0.5 + x[:, 1:] @ np.array([0.3, -0.3, 0.2, 0.0]))
        return random.poisson(mean * random.gamma(alpha, 1 / alpha, n))

    return outcome


def heavy(nu):
    """Residuals of a linear regression that are Student's."""
    return lambda random, x, n: x @ np.array([1.0, 0.5, -0.5, 0.0, 0.2]) + random.standard_t(nu, n)


def outlying(random, x, n):
    """One record in fifty is eight standard deviations out."""
    far = 8 * random.choice([-1, 1], n) * (random.random(n) < 0.02)
    return x @ np.array([1.0, 0.5, -0.5, 0.0, 0.2]) + random.normal(size=n) + far


def uneven(random, x, n):
    """The standard deviation grows with a covariate."""
    return x @ np.array([1.0, 0.5, -0.5, 0.0, 0.2]) + random.normal(size=n) * np.exp(0.5 * x[:, 1])


WRONG = {
    "Poisson on negative binomial, alpha = 2": ("poisson", overdispersed(2)),
    "Poisson on negative binomial, alpha = 3": ("poisson", overdispersed(3)),
    "Poisson on negative binomial, alpha = 10": ("poisson", overdispersed(10)),
    "Normal on Student t, nu = 3": ("linear", heavy(3)),
    "Normal on Student t, nu = 5": ("linear", heavy(5)),
    "Normal with 2% outliers of 8 sd": ("linear", outlying),
    "Normal, sd exp(x / 2)": ("linear", uneven),
}


def tests_of(family, outcome, args, epsilon):
    """p-values, tails and shares of the budget of all data sets."""
    for seed in range(args.first, args.first + args.datasets):
        family.data(seed)
        if outcome is not None:
            random = np.random.default_rng(seed)
            x = family.covariates(random, family.n)
            with family.model:
                pm.set_data({"data_x": x, "data_y": outcome(random, x, family.n)})
        _, fit = family.released(epsilon, seed, fit_test=True)
        if fit["p_value"] is not None:
            yield fit["p_value"], fit["tail"], fit["error"]


def show(name, family, outcome, args):
    """A row of the table."""
    for epsilon in args.epsilon:
        found = np.array(list(tests_of(family, outcome, args, epsilon)))
        if not len(found):
            print(f"| {name} | {family.n:,} | {epsilon:g} | not tested | | |", flush=True)
            continue
        p_values, tails, errors = found.T
        print(
            f"| {name} | {family.n:,} | {epsilon:g} | {(p_values < 0.01).sum()} of {len(found)} | "
            f"{tails.mean():.2f} ± {tails.std():.2f} | {errors.mean():.2f} |",
            flush=True,
        )


def main():
    parser = running.parser(__doc__)
    parser.add_argument("--datasets", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first data set")
    parser.add_argument("--n", type=int, nargs="+", default=[1_000, 5_000, 50_000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--right", nargs="*", choices=[*FAMILIES, *OTHERS], default=list(RIGHT))
    parser.add_argument("--wrong", nargs="*", choices=list(WRONG), default=list(WRONG))
    args = parser.parse_args()
    print("| model | n | ε | said to be wrong | times as many in the tails | error stated |")
    print("|---|---|---|---|---|---|")
    for n in args.n:
        families = {name: Family(name, n) for name in {*args.right, *(WRONG[k][0] for k in args.wrong)}}
        for name in args.right:
            show(f"right: {name}", families[name], None, args)
        for name in args.wrong:
            show(name, families[WRONG[name][0]], WRONG[name][1], args)


if __name__ == "__main__":
    main()
