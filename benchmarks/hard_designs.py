"""Designs that are hard for a noisy search, and models that are wrong: where the released likelihood is.

    python -m benchmarks.hard_designs                               # epsilon = 1, all sizes
    python -m benchmarks.hard_designs --only "rare dummy" --n 5000 --datasets 20
    python -m benchmarks.hard_designs --wrong                       # three wrong models

A row a design and size: of all coefficients of all data sets, how many 90% intervals cover what they should
(the coefficients that the data were made with; where outcomes are separated or all equal, the mean of the
posterior without privacy), the largest |z|, the median posterior sd over that without privacy and over the
prior's, and of how many data sets the verdict is that some parameter says little. Posteriors are normal:
that of the likelihood with the normal priors of the coefficients; without privacy, Laplace's.

Of wrong models: maximum likelihood, what a release without noise finds (where records and twins balance, a
robust estimate) and releases with noise, in the same units; z is of noisy releases around the robust one.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
from scipy.optimize import minimize

import pymc_dp as dp
from benchmarks import running

RESULTS = Path(__file__).parent / "results"
LEVEL = 1.6449
COLUMNS = ["design", "n", "data sets", "coverage 90", "largest z", "sd ratio", "of prior", "says little"]
#: Of a release that is as good as without noise.
NO_NOISE = 1e4


class Records(NamedTuple):
    """Rows (n, p), outcomes (n,), and the coefficients (p,) that these were made with, or None."""

    rows: np.ndarray
    y: np.ndarray
    truth: np.ndarray | None


class Design(NamedTuple):
    """How records are made, of which family the model is, and the priors' standard deviation."""

    make: Callable[[np.random.Generator, int], Records]
    family: str = "logistic"
    prior: float = 2.5


def _outcomes(rng, rows, truth):
    return (rng.random(len(rows)) < 1 / (1 + np.exp(-rows @ truth))).astype(int)


def _logistic(covariates, truth=(0.3, 0.8, -0.5, 0.4, 0.0)):
    def make(rng, n):
        rows = np.c_[np.ones(n), covariates(rng, n)]
        used = np.array(truth[: rows.shape[1]])
        return Records(rows, _outcomes(rng, rows, used), used)

    return make


def _separated(rng, n):
    rows = np.c_[np.ones(n), rng.normal(size=(n, 2))]
    return Records(rows, (rows[:, 1] + 0.5 * rows[:, 2] > 0).astype(int), None)


def _all_equal(rng, n):
    return Records(np.c_[np.ones(n), rng.normal(size=(n, 2))], np.ones(n, dtype=int), None)


def _money(rng, n):
    rows = np.c_[np.ones(n), np.exp(rng.normal(10.7, 0.6, n)), rng.beta(2, 5, n)]
    truth = np.array([2.0, 2e-5, 1.5])
    return Records(rows, rng.normal(rows @ truth, 1.0), truth)


def _year(rng, n):
    """A calendar year that is not centred: intercept and slope are nearly one number."""
    rows = np.c_[np.ones(n), rng.integers(1990, 2021, n)]
    truth = np.array([-2005 * 0.06 + 0.3, 0.06])
    return Records(rows, _outcomes(rng, rows, truth), truth)


def _seldom(rng, n):
    """Counts of .05 on average."""
    rows, truth = np.c_[np.ones(n), rng.normal(size=(n, 3))], np.array([-3.2, 0.5, -0.4, 0.0])
    return Records(rows, rng.poisson(np.exp(rows @ truth)), truth)


def _many(rng, n):
    """Twenty coefficients."""
    rows, truth = np.c_[np.ones(n), rng.normal(size=(n, 19))], np.tile([0.5, -0.5, 0.2, 0.0], 5)
    return Records(rows, rng.normal(rows @ truth, 1.0), truth)


def _correlated(rng, n):
    return rng.normal(size=(n, 3)) @ np.linalg.cholesky(0.05 * np.eye(3) + 0.95).T


DESIGNS = {
    "t3 covariates": Design(_logistic(lambda rng, n: rng.standard_t(3, size=(n, 4)))),
    "log-normal covariates": Design(_logistic(lambda rng, n: rng.lognormal(size=(n, 4)))),
    "separated outcomes": Design(_separated),
    "40 ones in 20,000": Design(_logistic(lambda rng, n: rng.normal(size=(n, 2)), (-6.6, 0.8, -0.5))),
    "priors N(0, 100²)": Design(_logistic(lambda rng, n: rng.normal(size=(n, 4))), prior=100.0),
    "dollars beside ratios": Design(_money, "linear", 10.0),
    "correlation .95": Design(_logistic(_correlated)),
    "rare dummy": Design(_logistic(lambda rng, n: np.c_[rng.random(n) < 0.01, rng.normal(size=(n, 3))])),
    "all outcomes equal": Design(_all_equal),
    "calendar year, not centred": Design(_year, prior=50.0),
    "counts of .05": Design(_seldom, "poisson"),
    "20 coefficients": Design(_many, "linear"),
}


def model_of(design: Design, records: Records) -> pm.Model:
    with pm.Model() as model:
        b = pm.Normal("b", 0, design.prior, shape=records.rows.shape[1])
        eta = records.rows @ b
        if design.family == "logistic":
            pm.Bernoulli("y", logit_p=eta, observed=records.y)
        elif design.family == "poisson":
            pm.Poisson("y", mu=pm.math.exp(eta), observed=records.y)
        else:
            pm.Normal("y", eta, pm.HalfNormal("sigma", 5), observed=records.y)
    return model


def without_privacy(design: Design, records: Records) -> tuple[np.ndarray, np.ndarray]:
    """Mode and standard deviations of the coefficients, by Newton's method."""
    rows, y = records.rows, records.y
    unit = 1 / np.sqrt(np.mean(rows**2, axis=0))
    scaled, prior = rows * unit, np.diag(unit**2) / design.prior**2
    if design.family == "linear":
        least = np.linalg.lstsq(rows, y, rcond=None)[0]
        info = scaled.T @ scaled / np.var(y - rows @ least) + prior
        return least, unit * np.sqrt(np.diag(np.linalg.inv(info)))

    def lost(beta):
        eta = np.clip(scaled @ beta, -40, 40)
        if design.family == "logistic":
            mean, whole = 1 / (1 + np.exp(-eta)), np.logaddexp(0, eta).sum()
        else:
            mean = np.exp(eta)
            whole = mean.sum()
        return whole - y @ eta + beta @ prior @ beta / 2, scaled.T @ (mean - y) + prior @ beta

    found = minimize(lost, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 5000}).x
    mean = 1 / (1 + np.exp(-scaled @ found)) if design.family == "logistic" else np.exp(scaled @ found)
    weight = mean * (1 - mean) if design.family == "logistic" else mean
    info = scaled.T @ (scaled * weight[:, None]) + prior
    return unit * found, unit * np.sqrt(np.diag(np.linalg.inv(info)))


def released(
    design: Design, records: Records, epsilon: float, seed: int
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Mean and standard deviations of the coefficients, and whether some parameter is said to say little."""
    model = model_of(design, records)
    likelihood = dp.release_likelihood(model, epsilon=epsilon, delta=1e-6, debug_seed=seed)
    size = records.rows.shape[1]
    precision = np.full(len(likelihood.point), 1 / design.prior**2)
    precision[size:] = 1.0  # of log sigma
    unit = 1 / np.sqrt(precision + np.diag(likelihood.information))
    total = (likelihood.information + np.diag(precision)) * np.outer(unit, unit)
    covariance = np.linalg.inv(total) * np.outer(unit, unit)
    mean = covariance @ (likelihood.information @ likelihood.point + likelihood.gradient)
    little = any(one["verdict"].startswith("says little") for one in likelihood.facts["verdict"].values())
    return mean[:size], np.sqrt(np.diag(covariance))[:size], little


def row_of(name: str, n: int, epsilon: float, datasets: int) -> list:
    design, z, ratios, of_prior, little = DESIGNS[name], [], [], [], 0
    for seed in range(datasets):
        records = design.make(np.random.default_rng([seed, n]), n)
        mode, own = without_privacy(design, records)
        mean, sd, says_little = released(design, records, epsilon, seed)
        z.append((mean - (mode if records.truth is None else records.truth)) / sd)
        ratios.append(sd / own)
        of_prior.append(sd / design.prior)
        little += says_little
    covered, largest = np.mean(np.abs(z) < LEVEL), np.max(np.abs(z))
    shown = [f"{covered:.2f}", f"{largest:.1f}", f"{np.median(ratios):.2f}", f"{np.median(of_prior):.2g}"]
    return [name, n, datasets, *shown, little]


def _outliers(rng, n):
    """2% of outcomes, 50 standard deviations off."""
    rows = np.c_[np.ones(n), rng.normal(size=(n, 2))]
    truth = np.array([0.5, 1.0, -0.5])
    y = rng.normal(rows @ truth, 1.0) + 50 * (rng.random(n) < 0.02)
    return Records(rows, y, truth)


def _overdispersed(rng, n):
    rows = np.c_[np.ones(n), 0.7 * rng.normal(size=(n, 2))]
    truth = np.array([0.5, 0.6, -0.4])
    y = rng.poisson(np.exp(rows @ truth) * rng.gamma(1.0, 1.0, n))
    return Records(rows, y, truth)


def _interaction(rng, n):
    rows = np.c_[np.ones(n), rng.normal(size=(n, 2))]
    truth = np.array([0.5, 1.0, -0.5])
    return Records(rows, rng.normal(rows @ truth + 0.7 * rows[:, 1] * rows[:, 2], 1.0), truth)


WRONG = {
    "outliers (2%, 50 sd)": Design(_outliers, "linear"),
    "overdispersed counts": Design(_overdispersed, "poisson"),
    "a missing interaction": Design(_interaction, "linear"),
}


def wrong(n: int, epsilon: float, datasets: int) -> pd.DataFrame:
    """What is estimated where the model is wrong."""
    lines = []
    for name, design in WRONG.items():
        records = design.make(np.random.default_rng(n), n)
        robust, _, _ = released(design, records, NO_NOISE, 0)
        noisy = [released(design, records, epsilon, seed)[:2] for seed in range(datasets)]
        mode, own = without_privacy(design, records)
        for k in range(len(mode)):
            mean, sd = np.mean([one[0][k] for one in noisy]), np.median([one[1][k] for one in noisy])
            z = np.array([(one[0][k] - robust[k]) / one[1][k] for one in noisy])
            numbers = [records.truth[k], mode[k], own[k], robust[k], mean, sd, np.sqrt(np.mean(z**2))]
            lines.append([name, n, f"b[{k}]", *[float(f"{number:.3g}") for number in numbers]])
    columns = ["made with", "maximum likelihood", "its sd", "without noise", "with noise", "its sd ", "rms z"]
    return pd.DataFrame(lines, columns=["model", "n", "parameter", *columns])


def main():
    parser = running.parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=list(DESIGNS), default=list(DESIGNS))
    parser.add_argument("--n", type=int, nargs="+", default=[1_000, 5_000, 50_000])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--datasets", type=int, default=10)
    parser.add_argument("--wrong", action="store_true")
    args = parser.parse_args()
    running.silence()
    if args.wrong:
        table = wrong(20_000, args.epsilon, args.datasets)
        table.to_csv(RESULTS / "wrong_models.csv", index=False)
        print(table.to_string(index=False))
        return
    lines = []
    for name in args.only:
        for n in [20_000] if name.startswith("40 ones") else args.n:
            lines.append(row_of(name, n, args.epsilon, args.datasets))
            print(*lines[-1], sep="\t", flush=True)
            pd.DataFrame(lines, columns=COLUMNS).to_csv(RESULTS / "hard_designs.csv", index=False)


if __name__ == "__main__":
    main()
