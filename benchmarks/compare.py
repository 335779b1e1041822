"""How often `dp.compare` picks the right model, beside PSIS-LOO, on simulated pairs.

    OMP_NUM_THREADS=1 python -m benchmarks.compare            # the table of docs/comparing.md
    OMP_NUM_THREADS=1 python -m benchmarks.compare 20         # fewer pairs

Both get the same draws of the exact posterior (normal approximations, which at these n it is), so that what
differs is the score, the clip and the noise. For each pair of data sets, one where the larger model is right
and one where the smaller is: the area under the ROC curve of the difference of expected log densities, and
how often its sign is right in the first.
"""

import csv
import sys
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, logsumexp

from pymc_dp.errors import TooFewRecordsError
from pymc_dp.evaluation import differences
from pymc_dp.evaluation.compare import log_scores, shares
from pymc_dp.evaluation.differences import check_enough, total_of
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending

DELTA, DRAWS, PAIRS = 1e-6, 200, 20
# Pairs with PSIS weights, which take 1 ms a record, at the smaller size.
SMOOTHED = 3
SIZES, EPSILONS = (2_000, 20_000), (0.25, 1.0)
# Expected difference of log densities in favour of the larger model where it is right, in nats.
GAINS = (20.0, 100.0)
TABLE = Path(__file__).parent / "results" / "compare.csv"
NU = 5.0


class Model(NamedTuple):
    """Rows as a function of theta, and a start for its mode."""

    rows: object
    start: np.ndarray


def normal(x, y):
    """A linear regression with unknown standard deviation."""

    def rows(theta):
        return -0.5 * ((y - x @ theta[:-1]) * np.exp(-theta[-1])) ** 2 - theta[-1] - 0.5 * np.log(2 * np.pi)

    coefficients = np.linalg.lstsq(x, y, rcond=None)[0]
    return Model(rows, np.r_[coefficients, np.log(np.std(y - x @ coefficients))])


def student(x, y):
    """The same with five degrees of freedom."""
    constant = gammaln((NU + 1) / 2) - gammaln(NU / 2) - 0.5 * np.log(NU * np.pi)

    def rows(theta):
        z = (y - x @ theta[:-1]) * np.exp(-theta[-1])
        return constant - (NU + 1) / 2 * np.log1p(z**2 / NU) - theta[-1]

    return Model(rows, normal(x, y).start)


def draws_of(model, rng):
    """Draws of the normal approximation of a posterior with a flat prior."""

    def loss(theta):
        return -model.rows(theta).sum()

    mode = minimize(loss, model.start, method="BFGS", options={"gtol": 1e-3 * len(model.rows(model.start))}).x
    steps, d = np.eye(mode.size) * 1e-4, mode.size
    hessian = np.array(
        [
            [
                loss(mode + steps[i] + steps[j])
                - loss(mode + steps[i] - steps[j])
                - loss(mode - steps[i] + steps[j])
                + loss(mode - steps[i] - steps[j])
                for j in range(d)
            ]
            for i in range(d)
        ]
    ) / (4e-8)
    root = np.linalg.inv(np.linalg.cholesky(hessian)).T
    return mode + rng.normal(size=(DRAWS, d)) @ root.T


def covariate(n, gain, rng):
    """One covariate more: its effect is such that it gains so many nats; or none."""
    x = np.c_[np.ones(n), rng.normal(size=(n, 2))]
    effect = np.sqrt(np.expm1(2 * gain / n))
    y = x[:, :2] @ [0.5, 0.5] + effect * x[:, 2] + rng.normal(size=n)
    return normal(x, y), normal(x[:, :2], y)


# Nats that a record gains by a t distribution with five degrees of freedom where that is right, and how many
# records of 100 have a t distribution so that the gain is as wanted.
def tails(n, gain, rng):
    """Heavy tails: a share of the errors has a t distribution, or none."""
    x = np.c_[np.ones(n), rng.normal(size=n)]
    share = min(1.0, np.sqrt(gain / (0.026 * n)))
    errors = np.where(rng.random(n) < share, rng.standard_t(NU, size=n), rng.normal(size=n))
    y = x @ [0.5, 0.5] + errors
    return student(x, y), normal(x, y)


PAIRS_OF = {"one covariate": covariate, "heavy tails": tails}


def leave_one_out(model, points):
    """Expected log density of each record without itself, by importance sampling."""
    rows = np.array([model.rows(theta) for theta in points])
    return np.log(len(points)) - logsumexp(-rows, axis=0)


def psis(model, points):
    """The same with Pareto-smoothed weights: ``arviz.loo``."""
    from arviz_stats.base import array_stats

    rows = np.array([model.rows(theta) for theta in points]).T
    weights, _ = array_stats.psislw(rows, axis=-1)  # negates them
    return logsumexp(weights + rows, axis=1)


def scores(model, points):
    rows = SimpleNamespace(n=len(model.rows(points[0])), full_batch=SimpleNamespace(rows=model.rows))
    return log_scores(rows, points)


def private(difference, epsilon, seed):
    """What `compare` would release of a difference of two models."""
    spending = Spending(epsilon, DELTA, shares(2), "substitute", debug_seed=seed)
    n = difference.size
    check_enough(spending, n, len(differences.SHARES))
    spending._paid = True
    for _ in differences.SHARES:  # of the reference's own density
        spending._left.pop(0)
    return total_of(difference, np.zeros(n, dtype=bool), spending, n)


def area(right, wrong):
    """Under the ROC curve."""
    a, b = np.asarray(right)[:, None], np.asarray(wrong)[None]
    return float(np.mean((a > b) + 0.5 * (a == b)))


def run(pairs):
    rows, start = [], time.perf_counter()
    for name, make in PAIRS_OF.items():
        for n in SIZES:
            for gain in GAINS:
                found: dict[str, list] = {}
                for pair in range(pairs if n == SIZES[0] else (pairs + 1) // 2):
                    for label, wanted in (("right", gain), ("wrong", 0.0)):
                        rng = np.random.default_rng([pair, n, int(wanted)])
                        larger, smaller = make(n, wanted, rng)
                        points = [draws_of(m, rng) for m in (larger, smaller)]
                        waic = scores(larger, points[0]) - scores(smaller, points[1])
                        found.setdefault(f"waic {label}", []).append(waic.sum())
                        loo = leave_one_out(larger, points[0]) - leave_one_out(smaller, points[1])
                        found.setdefault(f"loo {label}", []).append(loo.sum())
                        if pair < SMOOTHED * SIZES[0] // n and label == "right":
                            smoothed = psis(larger, points[0]) - psis(smaller, points[1])
                            found.setdefault("waic_psis", []).append(waic.sum() - smoothed.sum())
                        for epsilon in EPSILONS:
                            try:
                                total = private(waic, epsilon, int(rng.integers(2**31)))
                            except TooFewRecordsError:
                                found.setdefault(f"{epsilon} refused", []).append(1)
                                continue
                            found.setdefault(f"{epsilon} {label}", []).append(total.sum)
                            found.setdefault(f"{epsilon} noise", []).append(total.noise)
                            found.setdefault(f"{epsilon} cut", []).append(total.cut)
                            if label == "right":
                                error = total.sum - waic.sum()
                                found.setdefault(f"{epsilon} error", []).append(error)
                                spread = np.hypot(total.noise, total.cut)
                                found.setdefault(f"{epsilon} covered", []).append(abs(error) < 2 * spread)
                for method in ("loo", "waic", *map(str, EPSILONS)):
                    right, wrong = found.get(f"{method} right", []), found.get(f"{method} wrong", [])
                    row = {
                        "pair": name,
                        "n": n,
                        "gain": gain,
                        "pairs": len(found["waic right"]),
                        "method": method if method in ("loo", "waic") else f"epsilon={method}",
                        "area": round(area(right, wrong), 3) if right and wrong else "",
                        "right": round(float(np.mean(np.array(right) > 0)), 3) if right else "",
                        "mean_gain": round(float(np.mean(right)), 1) if right else "",
                        "noise": round(float(np.mean(found.get(f"{method} noise", [0.0]))), 1),
                        "cut": round(float(np.mean(found.get(f"{method} cut", [0.0]))), 1),
                        "within_two": round(float(np.mean(found.get(f"{method} covered", [1.0]))), 3),
                        "bias": round(float(np.mean(found.get(f"{method} error", [0.0]))), 1),
                        "refused": len(found.get(f"{method} refused", [])),
                        "waic_minus_loo": round(
                            float(np.mean(np.subtract(found["waic right"], found["loo right"]))), 3
                        ),
                        "waic_minus_psis": round(float(np.mean(found.get("waic_psis", [np.nan]))), 3),
                    }
                    rows.append(row)
                    print(row, f"{time.perf_counter() - start:.0f} s", flush=True)
    return rows


def main(words):
    gaussian.mu = cache(gaussian.mu)  # the same in each run
    rows = run(int(words[0]) if words else PAIRS)
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
