"""Samplers at one budget on the two-mode mixture of Zhang & Zhang (2023), section 6.1 and appendix E.1.

    OMP_NUM_THREADS=1 python benchmarks/truncated_mixture.py                      # about ten minutes
    OMP_NUM_THREADS=1 python benchmarks/truncated_mixture.py --epsilon .05 --runs 5

50,000 records in [-3, 3], temperature 500, 10,000 iterations of one chain from (0, 0). The article gives
every iteration (epsilon, 1e-5); here every private sampler has, for the whole run, what 10,000 Gaussian
mechanisms of that epsilon cost at delta = 1e-5, so that budgets are equal for each iteration too. 2,000
iterations tune the step size from decisions; the rest counts. Two rows are not private: Metropolis-Hastings,
and the article's own algorithm at its epsilon of one iteration.

Printed: symmetric Kullback-Leibler divergence on a grid against the exact posterior, share of the draws in
the mode with theta_2 > 0 (exactly one half) and its standard error over the runs, acceptance rate, expected
number of records in an iteration (the article's own varies), seconds.
"""

import argparse
import logging
import math
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from dp_accounting.dp_event import SelfComposedDpEvent

import pymc_dp as dp
from pymc_dp.privacy import gaussian

DELTA, TUNE, DRAWS, CELLS = 1e-5, 2000, 8000, 25
N, BATCH = 50_000, 5000


def budget(epsilon: float) -> float:
    """Whole-run epsilon of as many Gaussian mechanisms of (epsilon, 1e-5), by the article's noise scale."""
    noise_multiplier = math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon
    return float(gaussian.epsilon(math.sqrt(TUNE + DRAWS) / noise_multiplier, DELTA))


def largest_barker_batch(total: float) -> int:
    """The batch fixes the price: the largest one that fits, up to that of the others."""
    for size in np.geomspace(BATCH, 50, 40).astype(int):
        event = SelfComposedDpEvent(dp.privacy.BarkerMinibatchDpEvent(int(size), N), TUNE + DRAWS)
        if dp.privacy.compose(event, "substitute").epsilon(DELTA) <= total:
            return int(size)
    raise dp.BudgetError("no batch of 50 records or more fits")


def samplers(lipschitz: float, epsilon: float) -> dict[str, tuple[Callable, float]]:
    """Step of each row, and the records that it reads in an iteration."""
    total = {"epsilon": budget(epsilon), "delta": DELTA, "lipschitz": lipschitz}
    article = {"epsilon": epsilon, "delta": DELTA, "lipschitz": lipschitz, "allow_not_private": True}
    batch = largest_barker_batch(total["epsilon"])
    # Its longest moves without noise; a little beyond, noise would reject nearly all.
    published = partial(dp.DPFastMH, test="published", adapt_step_size=False)
    fast = partial(dp.DPFastMH, batch_size=BATCH)
    return {
        "penalty": (partial(dp.DPPenaltyMH, **total), N),
        "Barker, batches": (partial(dp.DPBarker, batch_size=batch, **total), batch),
        "DPFastMH, all records": (partial(dp.DPFastMH, batch_size=N, **total), N),
        "DPFastMH, batches": (partial(fast, **total), BATCH),
        "DPFastMH penalty, batches": (partial(fast, test="penalty", **total), BATCH),
        "as published (not private)": (partial(published, **article), math.nan),
        "no privacy": (partial(dp.DPFastMH, batch_size=N, **{**total, "epsilon": math.inf}), N),
    }


def run(make: Callable, reference, exact: np.ndarray, grid: list[np.ndarray], seed: int) -> list[float]:
    """One chain: divergence, share of a mode, acceptance, seconds."""
    with reference.model:
        step = make(tempering=reference.tempering, chains=1, compile_kwargs={"mode": "NUMBA"})
    start = time.perf_counter()
    result = dp.sample(
        step,
        DRAWS,
        tune=TUNE,
        random_seed=seed,
        cores=1,
        progressbar=False,
        quiet=True,
        compute_convergence_checks=False,
        initvals={"theta": np.zeros(2)},
    )
    seconds = time.perf_counter() - start
    draws = result.posterior["theta"].values[0]
    divergence = dp.metrics.symmetric_kl(draws, exact, grid)
    return [divergence, np.mean(draws[:, 1] > 0), float(result.sample_stats["accepted"].mean()), seconds]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.05, 0.01], help="of one iteration")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="rows")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    reference = dp.models.truncated_mixture()
    rng = np.random.default_rng(0)
    exact = reference.posterior_draws(200_000, rng)
    grid = [np.linspace(-3, 3, CELLS + 1)] * 2
    floor = dp.metrics.symmetric_kl(reference.posterior_draws(DRAWS, rng), exact, grid)
    print(f"exact draws, {DRAWS} of them: divergence {floor:.4f}, share {np.mean(exact[:, 1] > 0):.3f}")
    for epsilon in options.epsilon:
        print(f"\nepsilon = {epsilon:g} an iteration; the run: ({budget(epsilon):.3g}, {DELTA:g})")
        print(f"{'':28}{'sym. KL':>9}{'share':>8}{'error':>7}{'accepted':>10}{'records':>9}{'seconds':>9}")
        for name, (make, records) in samplers(reference.lipschitz, epsilon).items():
            if options.only and name not in options.only:
                continue
            rows = [run(make, reference, exact, grid, seed) for seed in range(options.runs)]
            kl, share, accepted, seconds = np.mean(rows, axis=0)
            error = np.std(rows, axis=0, ddof=1)[1] / math.sqrt(len(rows)) if len(rows) > 1 else math.nan
            print(
                f"{name:28}{kl:9.4f}{share:8.3f}{error:7.3f}{accepted:10.3f}{records:9.0f}{seconds:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
