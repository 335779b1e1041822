"""Geweke's joint test of each sampler: chains of parameters *and* data against draws of both.

    OMP_NUM_THREADS=1 python -m benchmarks.joint_test

Marginal-conditional draws take coefficients from the prior and outcomes from the model. Chains that are
successive-conditional begin with such a draw, and alternate: ten iterations of the sampler given the
outcomes, then new outcomes given the coefficients. If the sampler leaves each posterior alone, every state of
these chains has the law of a marginal-conditional draw (Geweke 2004), so that means over them agree. A bias
of each posterior does not stay one: the next outcomes come from the wrong coefficients, and the errors of all
cycles add up.

Chains are independent and stationary from the start, so a mean over each is one of as many independent
numbers, and t tests need no estimate of autocorrelation. The table has

- p: of the means of each coefficient (0), of their squares (1) and of the log-likelihood (Welch's test
  against the marginal-conditional draws), Bonferroni over the five;
- square: mean of the squared coefficients, 1 for an exact sampler, and its standard error;
- log-lik.: mean difference of the log-likelihood from that of the marginal-conditional draws, and its
  standard error.

Logistic regression, n = 100, rows of norm 1, prior N(0, 1) for each of 2 coefficients; each cycle has a
budget of its own. "tight" is a control that has to fail.
"""

import logging
import time

import numpy as np
from scipy import stats

import pymc_dp as dp
from benchmarks import running
from benchmarks.simulation_based_calibration.simulation import FIXED, D, Setting, Simulation

ITERATIONS = 10
CLIPS = {"wide": 1.0, "tight": 0.3}


def settings() -> list[Setting]:
    """Each sampler, with the budget of a cycle."""
    walk = {"epsilon": 10, **FIXED}
    return [
        Setting("DPPenaltyMH", dp.DPPenaltyMH, ITERATIONS, walk),
        Setting("DPPenaltyMH, batch_size=50", dp.DPPenaltyMH, ITERATIONS, walk | {"batch_size": 50}),
        Setting(
            "DPPenaltyMH, batch_size=10", dp.DPPenaltyMH, ITERATIONS, walk | {"batch_size": 10, "epsilon": 40}
        ),
        Setting("DPPenaltyMH, guided", dp.DPPenaltyMH, ITERATIONS, walk | {"proposal": "guided"}),
        Setting("DPBarker", dp.DPBarker, ITERATIONS, walk),
        Setting("DPBarker, batch_size=50", dp.DPBarker, ITERATIONS, walk | {"batch_size": 50}),
        Setting("DPFastMH", dp.DPFastMH, ITERATIONS, walk),
        Setting("DPFastMH, batch_size=50", dp.DPFastMH, ITERATIONS, walk | {"batch_size": 50}),
        Setting("DPFastMH, penalty", dp.DPFastMH, ITERATIONS, walk | {"test": "penalty"}),
        Setting(
            "DPHMC", dp.DPHMC, ITERATIONS, {"epsilon": 30, "n_leapfrog": 3, "adapt_mass": False, **FIXED}
        ),
        Setting(
            "DPSGHMC",
            dp.DPSGHMC,
            ITERATIONS,
            {"epsilon": 30, "sampling_probability": 0.25, "n_steps": 5, "step_size": 0.05, "decay": 0.0},
        ),
    ]


def successive(simulation: Simulation, cycles: int, rng: np.random.Generator) -> np.ndarray:
    """Means of the test functions over one successive-conditional chain, shape (2 D + 1,)."""
    beta = rng.normal(size=D)
    found = []
    for _ in range(cycles):
        y = simulation.outcomes_of(beta, rng)
        simulation.begin(y, rng)
        beta = simulation.walk(beta, 1)[0]
        found.append(functions(simulation, beta, y))
    return np.mean(found, axis=0)


def functions(simulation: Simulation, beta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What is compared, of one state of parameters and data."""
    return np.r_[beta, beta**2, simulation.log_likelihood(beta, y)]


def joint(simulation: Simulation, chains: int, cycles: int, draws: int, seed: int) -> dict[str, float]:
    """A line of the table."""
    rng = np.random.default_rng(seed)
    means = np.array([successive(simulation, cycles, rng) for _ in range(chains)])
    independent = []
    for beta in rng.normal(size=(draws, D)):
        independent.append(simulation.log_likelihood(beta, simulation.outcomes_of(beta, rng)))
    p = [stats.ttest_1samp(means[:, j], expected).pvalue for j, expected in enumerate([0.0] * D + [1.0] * D)]
    p.append(stats.ttest_ind(means[:, -1], independent, equal_var=False).pvalue)
    square = means[:, D : 2 * D].mean(axis=1)
    error = np.hypot(stats.sem(means[:, -1]), stats.sem(independent))
    return {
        "p": min(1.0, len(p) * min(p)),
        "square": square.mean(),
        "square_error": stats.sem(square),
        "likelihood": means[:, -1].mean() - np.mean(independent),
        "likelihood_error": error,
    }


def main() -> None:
    """Print the table."""
    parser = running.parser(__doc__)
    parser.add_argument("--chains", type=int, default=100)
    parser.add_argument("--cycles", type=int, default=30)
    parser.add_argument("--draws", type=int, default=20_000, help="marginal-conditional draws")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, data and moves, not of noise")
    parser.add_argument("--only", nargs="+", help="samplers of these names")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    print(f"{'sampler':30}{'clip':>7}{'p':>10}{'square':>16}{'log-lik.':>18}{'s':>6}")
    for setting in settings():
        if args.only and setting.name not in args.only:
            continue
        for clip, constant in CLIPS.items():
            started = time.perf_counter()
            simulation = Simulation(setting, constant, n=100, kept=1)
            found = joint(simulation, args.chains, args.cycles, args.draws, args.seed)
            square = f"{found['square']:.2f} ± {found['square_error']:.2f}"
            likelihood = f"{found['likelihood']:.2f} ± {found['likelihood_error']:.2f}"
            seconds = time.perf_counter() - started
            print(
                f"{setting.name:30}{clip:>7}{found['p']:>10.2g}{square:>16}{likelihood:>18}{seconds:>6.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
