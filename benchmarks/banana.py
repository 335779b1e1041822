"""DPPenaltyMH and DPHMC on the banana posterior of Räisä (2021), section 7: errors at one budget.

    python -m benchmarks.banana           # DPPenaltyMH, d = 2, epsilon = 2, 4, 8; five runs each
    python -m benchmarks.banana --dimensions 10 --epsilon 12 --runs 3 --steps DPPenaltyMH DPHMC

Settings of the thesis: a = 20, b = m = 0, variances 20, 2.5, 1, ..., n = 100,000, no tempering, one chain
started within one posterior standard deviation of the mean, first half dropped. The model is written in units
of the likelihood's standard deviations, which are public (a gradient's norm depends on units). All settings
come from the variances, the curvature, n and the budget. "MMD" is the thesis's measure (section 7.1), in its
units; "mean error" the root mean square over parameters of the error of the posterior mean, in posterior
standard deviations.
"""

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import pymc_dp as dp
from benchmarks import metrics, models, running

N, CURVATURE, DELTA = 100_000, 20.0, 1e-6
# A ratio of log-likelihoods, per unit of distance in these units, is within this for nine records of ten.
RATIO = 1.65


def units(d: int) -> np.ndarray:
    """Standard deviations of the likelihood, shape (d,)."""
    return np.sqrt(np.concatenate([[20.0, 2.5], np.ones(d - 2)]))


def curvature(d: int) -> float:
    """That of the banana in these units."""
    return CURVATURE * units(d)[0] ** 2 / units(d)[1]


def public_scale(d: int) -> np.ndarray:
    """Posterior standard deviations."""
    scale = np.full(d, np.sqrt(1 / N))
    scale[1] = np.sqrt(1 / N + 2 * (curvature(d) / N) ** 2)
    return scale


def penalty(args: argparse.Namespace, epsilon: float, iterations: int) -> Any:
    """Walk on spheres; at most the step that is best without noise, and the noise of `--noise`."""
    clip = args.clip or 1.1 * RATIO * np.sqrt(args.dimensions / N)
    nm = dp.calibrate(epsilon, DELTA, draws=iterations, tune=0, chains=1).noise_multiplier
    step = args.step or min(2.4 / np.sqrt(args.dimensions), args.noise / (2 * nm * clip))
    return dp.DPPenaltyMH(
        epsilon=epsilon,
        delta=DELTA,
        clip_bound=clip * step,
        proposal=dp.proposals.FixedRadius(public_scale(args.dimensions)),
        step_size=step,
        adapt_step_size=False,
        chains=1,
    )


def hmc(args: argparse.Namespace, epsilon: float, iterations: int) -> Any:
    """Trajectories whose length is `--length` posterior standard deviations, mass from the public scale."""
    return dp.DPHMC(
        epsilon=epsilon,
        delta=DELTA,
        lipschitz=RATIO,
        gradient_clip_bound=args.gradient_clip * np.sqrt(args.dimensions),
        mass=1 / public_scale(args.dimensions) ** 2,
        n_leapfrog=args.leapfrog,
        step_size=args.length / args.leapfrog,
        gradient_share=args.share,
        adapt_step_size=False,
        adapt_mass=False,
        chains=1,
    )


# What makes a step, and its iterations in 2 and in more dimensions: more of them have more noise each.
STEPS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "DPPenaltyMH": (penalty, 2000, 20_000),
    "DPHMC": (hmc, 1000, 800),
}


def run(
    reference: Any, make: Callable[[], Any], seed: int, iterations: int, dropped: int
) -> dict[str, float]:
    """One private chain against 1,000 exact draws."""
    rng = np.random.default_rng(seed)
    exact = reference.posterior.draws(2000, rng)
    sd = exact.std(axis=0)
    start = exact.mean(axis=0) + rng.uniform(-1, 1, size=sd.size) * sd
    began = time.process_time()
    with reference.model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = dp.sample(
            make(),
            draws=iterations - dropped,
            tune=dropped,
            random_seed=seed,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            cores=1,
            initvals={"theta": start},
        )
    seconds = time.process_time() - began
    draws = idata.posterior["theta"].values[0]
    error = metrics.mean_sd_error(draws, reference.mean, reference.sd)
    thesis = units(draws.shape[1])
    return {
        "mmd": metrics.mmd(draws * thesis, exact[:1000] * thesis, rng=rng),
        "floor": metrics.mmd(exact[1000:] * thesis, exact[:1000] * thesis, rng=rng),
        "error": error.rms,
        "sd ratio": float(np.exp(np.mean(np.log(error.sd_ratio)))) if np.all(error.sd_ratio > 0) else 0.0,
        "accepted": float(idata.sample_stats["accepted"].mean()),
        "noise_std": float(idata.sample_stats["noise_std"].mean()),
        "clipped": float(idata.sample_stats["clip_fraction"].values[0, -1]),  # NaN where it is not released
        "epsilon": float(idata.sample_stats["epsilon_spent"].values[0, -1]),
        "seconds": seconds,
    }


def main() -> None:
    """Print a line for each step and budget."""
    parser = running.parser(__doc__)
    parser.add_argument("--steps", choices=STEPS, nargs="+", default=["DPPenaltyMH"])
    parser.add_argument("--dimensions", type=int, default=2)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2, 4, 8])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--iterations", type=int, nargs="+", help="one number for each of --steps")
    walk = parser.add_argument_group("DPPenaltyMH")
    walk.add_argument("--clip", type=float, help="clip bound per unit of step size, in nats")
    walk.add_argument("--step", type=float)
    walk.add_argument("--noise", type=float, default=2.38, help="largest noise std of a ratio, in nats")
    trajectory = parser.add_argument_group("DPHMC")
    trajectory.add_argument("--leapfrog", type=int, default=3)
    trajectory.add_argument("--length", type=float, default=1.5, help="in posterior standard deviations")
    trajectory.add_argument("--share", type=float, default=0.7)
    trajectory.add_argument("--gradient-clip", type=float, default=1.2, help="times the root of d")
    args = parser.parse_args()
    if args.iterations and len(args.iterations) != len(args.steps):
        parser.error("--iterations needs one number for each of --steps")
    logging.disable(logging.WARNING)
    print(f"d = {args.dimensions}, n = {N}, delta = {DELTA:g}, {args.runs} runs; means (and runs)")
    for epsilon in args.epsilon:
        for k, name in enumerate(args.steps):
            make, small, large = STEPS[name]
            iterations = args.iterations[k] if args.iterations else small if args.dimensions == 2 else large
            dropped = iterations // 2
            results = []
            for seed in range(args.runs):
                d = args.dimensions
                reference = models.banana(d, N, a=curvature(d), variances=np.ones(d), seed=seed)
                results.append(
                    run(reference, partial(make, args, epsilon, iterations), seed, iterations, dropped)
                )
            mean = {key: float(np.mean([r[key] for r in results])) for key in results[0]}
            mmds, errors = (", ".join(f"{r[key]:.3f}" for r in results) for key in ("mmd", "error"))
            print(
                f"epsilon {epsilon:g}, {name}, {iterations} iterations: MMD {mean['mmd']:.3f} ({mmds}); "
                f"two exact samples {mean['floor']:.3f}; mean error {mean['error']:.3f} ({errors}); "
                f"sd ratio {mean['sd ratio']:.2f}, accepted {mean['accepted']:.2f}, noise std "
                f"{mean['noise_std']:.2f}, clipped share {mean['clipped']:.3f}, epsilon spent "
                f"{mean['epsilon']:.4f}, {mean['seconds']:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
