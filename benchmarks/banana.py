"""Maximum mean discrepancy of DPPenaltyMH on the banana posterior of Räisä (2021), section 7.4.

    python benchmarks/banana.py                      # epsilon = 2, 4, 8; five runs each
    python benchmarks/banana.py --epsilon 4 --runs 5

Settings of the thesis: a = 20, b = m = 0, variances 20 and 2.5, prior variance 1000, n = 100,000, no
tempering, one chain started within one posterior standard deviation of the mean, first half dropped.
"""

import argparse
import logging
import warnings

import numpy as np

import pymc_dp as dp

N, CURVATURE, VARIANCES = 100_000, 20.0, (20.0, 2.5)


def run(reference, epsilon: float, seed: int, iterations: int, clip: float, step: float) -> dict[str, float]:
    """One private chain against 1,000 exact draws."""
    rng = np.random.default_rng(seed)
    exact = reference.posterior.draws(2000, rng)
    sd = exact.std(axis=0)
    start = exact.mean(axis=0) + rng.uniform(-1, 1, size=sd.size) * sd
    # Public knowledge: the variances of the likelihood, the curvature and n give the scale of the posterior.
    first = np.sqrt(VARIANCES[0] / N)
    public_scale = np.array([first, np.sqrt(VARIANCES[1] / N + 2 * (CURVATURE * first**2) ** 2)])
    with reference.model:
        penalty = dp.DPPenaltyMH(
            epsilon=epsilon,
            delta=1e-6,
            clip_bound=clip * step,
            proposal=dp.proposals.FixedRadius(public_scale),
            step_size=step,
            adapt_step_size=False,
            chains=1,
        )
    half = iterations // 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = dp.sample(
            penalty,
            draws=iterations - half,
            tune=half,
            random_seed=seed,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            cores=1,
            initvals={"theta": start},
        )
    draws = idata.posterior["theta"].values[0]
    return {
        "mmd": dp.metrics.mmd(draws, exact[:1000], rng=rng),
        "floor": dp.metrics.mmd(exact[1000:], exact[:1000], rng=rng),
        "accepted": float(idata.sample_stats["accepted"].mean()),
        "noise_std": float(idata.sample_stats["noise_std"].mean()),
        "clipped": float(idata.sample_stats["clip_fraction"].values[0, -1]),
        "epsilon": float(idata.sample_stats["epsilon_spent"].values[0, -1]),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2, 4, 8])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--clip", type=float, default=0.008, help="clip bound per unit of step size, in nats")
    parser.add_argument("--step", type=float, default=None)
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    for epsilon in args.epsilon:
        results = []
        for seed in range(args.runs):
            reference = dp.models.banana(2, N, a=CURVATURE, seed=seed)
            nm = dp.calibrate(epsilon, 1e-6, draws=args.iterations, tune=0, chains=1).noise_multiplier
            step = args.step or min(1.7, 2.38 / (2 * nm * args.clip))  # at most the best noise
            results.append(run(reference, epsilon, seed, args.iterations, args.clip, step))
        mean = {key: np.mean([r[key] for r in results]) for key in results[0]}
        runs = ", ".join(f"{r['mmd']:.3f}" for r in results)
        print(
            f"epsilon {epsilon:g}: MMD {mean['mmd']:.3f} (runs {runs}); two exact samples "
            f"{mean['floor']:.3f}; accepted {mean['accepted']:.2f}, noise std {mean['noise_std']:.2f}, "
            f"clipped share {mean['clipped']:.3f}, "
            f"step {step:.2f}, epsilon spent {mean['epsilon']:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
