"""Figures 7.1 and 7.2 of Räisä (2021): clipping, and the budget, against maximum mean discrepancy.

    OMP_NUM_THREADS=1 python benchmarks/raisa_figures.py clipping --figure docs/images/raisa_7_1.png
    OMP_NUM_THREADS=1 python benchmarks/raisa_figures.py epsilon --figure docs/images/raisa_7_2.png
    OMP_NUM_THREADS=1 python benchmarks/raisa_figures.py epsilon --dimensions 2 --runs 1 --epsilon 4

The banana of the thesis in 2 and 10 dimensions, n = 100,000; in the second figure also tempered, T = 0.01. A
chain starts within one posterior standard deviation of the mean, and its second half is compared with exact
draws. Clip bounds and step sizes come from public knowledge alone: from data simulated at another parameter.
A bound is the 90% quantile of the records' log-likelihood ratios there, since the thesis finds that a tenth
may be clipped.
"""

import argparse
import logging
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

import pymc_dp as dp
from pymc_dp.proposals import FixedRadius, GaussianWalk, GuidedWalk, OneAtATime

N, DELTA = 100_000, 1e-6
CURVATURE, FIRST_VARIANCES = 20.0, (20.0, 2.5)
HALF = 1000  # iterations before, and after, the draws that count begin
QUIET = {"cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


def variances(d: int) -> np.ndarray:
    """Of the likelihood's columns; known to everybody."""
    return np.concatenate([FIRST_VARIANCES, np.ones(d - 2)])


def public_scale(d: int, tempering: float) -> np.ndarray:
    """Posterior standard deviations, from the variances, the curvature and n."""
    scale = np.sqrt(variances(d) / (N * tempering))
    scale[1] = np.sqrt(scale[1] ** 2 + 2 * (CURVATURE * scale[0] ** 2) ** 2)
    return scale


@cache
def public_clip(d: int, tempering: float, kind: str) -> float:
    """90% quantile of the records' log-likelihood ratios for moves of step size 1, on simulated data."""
    rng = np.random.default_rng(123)
    x, moves = np.sqrt(variances(d)) * rng.normal(size=(4000, d)), proposal(kind, d, tempering)
    posterior = dp.models.BananaPosterior(np.zeros(d), variances(d) / (N * tempering), CURVATURE, 0.0, 0.0)
    ratios = []
    for theta in posterior.draws(200, rng):
        new = theta + moves.move(rng, d)
        straight = [np.r_[t[0], t[1] + CURVATURE * t[0] ** 2, t[2:]] for t in (theta, new)]
        terms = [-0.5 * ((x - u) ** 2 / variances(d)).sum(axis=1) for u in straight]
        ratios.append(np.abs(terms[1] - terms[0]))
    return float(np.quantile(ratios, 0.9))


def proposal(kind: str, d: int, tempering: float) -> Any:
    """Moves in units of the public scale."""
    scale = public_scale(d, tempering)
    return {
        "all": lambda: FixedRadius(scale),
        "one": lambda: OneAtATime(scale),
        "guided": lambda: GuidedWalk(scale),
    }[kind]()


@cache
def public_step(kind: str, d: int, tempering: float, noise: float) -> float:
    """Step size of the longest expected jump, for a penalty test with noise `noise` times the step size.

    Found on the posterior as it would be at theta = 0: public, like `public_clip`.
    """
    rng = np.random.default_rng(125)
    posterior = dp.models.BananaPosterior(np.zeros(d), variances(d) / (N * tempering), CURVATURE, 0.0, 0.0)
    start = posterior.draws(2000, rng)
    moves = np.array([proposal(kind, d, tempering).move(rng, d) for _ in start])

    def jump(step: float) -> float:
        ratio = posterior.log_density(start + step * moves) - posterior.log_density(start)
        s = noise * step
        accepted = ndtr(ratio / s - s / 2) + np.exp(np.minimum(ratio, 50) + log_ndtr(-ratio / s - s / 2))
        return step**2 * float(np.mean(np.minimum(accepted, 1)))

    return float(max(np.geomspace(0.003, 3, 40), key=jump))


def penalty(kind: str, d: int, tempering: float, epsilon: float, **kwargs: Any) -> Any:
    """Constant clip, in proportion to the step."""
    clip = public_clip(d, tempering, kind)
    nm = dp.calibrate(epsilon, DELTA, draws=2 * HALF, tune=0, chains=1).noise_multiplier
    step = public_step(kind, d, tempering, 2 * nm * clip * tempering)
    return dp.DPPenaltyMH(
        epsilon=epsilon,
        delta=DELTA,
        clip_bound=clip * step,
        proposal=proposal(kind, d, tempering),
        step_size=step,
        adapt_step_size=False,
        tempering=tempering,
        chains=1,
        **kwargs,
    )


def barker(d: int, tempering: float, epsilon: float) -> Any:
    """All records, no noise: the budget is a bound on each ratio, and so a step."""
    given = {"epsilon": epsilon, "delta": DELTA, "tempering": tempering, "chains": 1}
    asked = dp.DPBarker(lipschitz=1.0, **given).cost(draws=2 * HALF, tune=0).parameters["clip_bound"]
    bound = 0.999 * asked
    return dp.DPBarker(
        clip_bound=bound,
        proposal=proposal("all", d, tempering),
        step_size=bound / public_clip(d, tempering, "all"),
        adapt_step_size=False,
        **given,
    )


def hmc(d: int, tempering: float, epsilon: float) -> Any:
    """Clips as for a walk: a gradient's norm is about a ratio over the length of the move."""
    scale = public_scale(d, tempering)
    length = np.sqrt(
        np.mean(
            [np.sum(proposal("all", d, tempering).move(np.random.default_rng(i), d) ** 2) for i in range(50)]
        )
    )
    clip = public_clip(d, tempering, "all") / length
    return dp.DPHMC(
        epsilon=epsilon,
        delta=DELTA,
        lipschitz=clip * np.sqrt(d),
        ratio_clip=clip,
        mass=1 / scale**2,
        n_leapfrog=5,
        adapt_mass=False,
        tempering=tempering,
        chains=1,
    )


def surrogate(d: int, tempering: float, epsilon: float) -> Any:
    """Nothing to set."""
    return dp.DPPenaltyMH(epsilon=epsilon, delta=DELTA, control_variates=True, tempering=tempering, chains=1)


SAMPLERS: dict[str, Callable[[int, float, float], Any]] = {
    "penalty": lambda d, t, e: penalty("all", d, t, e),
    "penalty, one component": lambda d, t, e: penalty("one", d, t, e),
    "penalty, guided": lambda d, t, e: penalty("guided", d, t, e),
    "penalty, batches of 1,000": lambda d, t, e: penalty("all", d, t, e, batch_size=1000),
    "Barker": barker,
    "HMC": hmc,
    "control variates": surrogate,
}


def discrepancy(
    reference: Any, make: Callable[[], Any], seed: int, draws: int, tune: int
) -> dict[str, float]:
    """One chain against 2,000 exact draws."""
    rng = np.random.default_rng(seed)
    exact = reference.posterior.draws(4000, rng)
    sd = exact.std(axis=0)
    with reference.model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step = make()
        idata = dp.sample(
            step,
            draws=draws,
            tune=tune,
            random_seed=seed,
            initvals={"theta": exact.mean(axis=0) + rng.uniform(-1, 1, size=sd.size) * sd},
            **QUIET,
        )
    kept = idata.posterior["theta"].values[0]
    return {
        "mmd": dp.metrics.mmd(kept, exact[:2000], rng=rng),
        "floor": dp.metrics.mmd(exact[2000 : 2000 + len(kept)], exact[:2000], rng=rng),
        "clipped": float(np.nanmax(idata.sample_stats["clip_fraction"].values, initial=0.0)),
        "accepted": float(idata.sample_stats["accepted"].mean()),
    }


def by_clip(dimensions: list[int], runs: int) -> list[dict[str, Any]]:
    """Figure 7.1: without privacy, so that noise plays no part."""
    rows = []
    for d in dimensions:
        for name in ("random walk", "HMC"):
            if name == "random walk" and d > 2:
                continue  # as in the thesis: does not converge in reasonable time
            for factor in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0):
                for seed in range(runs):
                    reference = dp.models.banana(d, N, a=CURVATURE, seed=seed)
                    scale, clip = public_scale(d, 1.0), factor * public_clip(d, 1.0, "all")

                    def walk(scale=scale, clip=clip):
                        moves = GaussianWalk(np.diag(scale**2))
                        given = {"clip_bound": 1.7 * clip, "step_size": 1.7, "adapt_step_size": False}
                        return dp.DPPenaltyMH(epsilon=np.inf, delta=DELTA, proposal=moves, chains=1, **given)

                    def leapfrog(scale=scale, clip=clip, d=d):
                        given = {"gradient_clip": 1e3, "ratio_clip": clip / np.sqrt(np.mean(scale**2))}
                        given |= {"mass": 1 / scale**2, "n_leapfrog": 8, "step_size": 0.25}
                        return dp.DPHMC(
                            epsilon=np.inf,
                            delta=DELTA,
                            chains=1,
                            adapt_step_size=False,
                            adapt_mass=False,
                            **given,
                        )

                    make, half = (walk, 1500) if name == "random walk" else (leapfrog, 250)
                    found = discrepancy(reference, make, seed, half, half)
                    rows.append({"d": d, "sampler": name, "clip": factor, **found})
                    print(
                        f"d {d:2d} {name:12} clip bound {factor:5.2f} x 90% quantile: MMD "
                        f"{found['mmd']:.3f} (floor {found['floor']:.3f}), clipped {found['clipped']:.4f}, "
                        f"accepted {found['accepted']:.2f}",
                        flush=True,
                    )
    return rows


def by_epsilon(
    dimensions: list[int], epsilons: list[float], runs: int, samplers: list[str]
) -> list[dict[str, Any]]:
    """Figure 7.2."""
    rows = []
    for d in dimensions:
        for tempering in (1.0, 0.01):
            for name in samplers:
                for epsilon in epsilons:
                    found = []
                    for seed in range(runs):
                        reference = dp.models.banana(d, N, a=CURVATURE, tempering=tempering, seed=seed)
                        try:
                            make = lambda n=name, t=tempering, e=epsilon, d=d: SAMPLERS[n](d, t, e)  # noqa: E731
                            tune = 0 if name == "control variates" else HALF
                            found.append(discrepancy(reference, make, seed, HALF, tune))
                        except (dp.BudgetError, dp.TooFewRecordsError) as error:
                            print(
                                f"d {d} T {tempering:g} {name}, epsilon {epsilon:g}: {error}"[:200],
                                flush=True,
                            )
                    if not found:
                        continue
                    mean = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
                    rows.append({"d": d, "tempering": tempering, "sampler": name, "epsilon": epsilon, **mean})
                    print(
                        f"d {d:2d} T {tempering:4g} {name:26} epsilon {epsilon:4g}: MMD {mean['mmd']:.3f} "
                        f"(floor {mean['floor']:.3f}), accepted {mean['accepted']:.2f}, clipped "
                        f"{mean['clipped']:.3f}",
                        flush=True,
                    )
    return rows


def figure_7_1(rows: list[dict[str, Any]], path: str) -> None:
    """Two rows: against the clip bound, and against the share that is clipped."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    dimensions = sorted({r["d"] for r in rows})
    fig, axes = plt.subplots(
        2, len(dimensions), figsize=(4.2 * len(dimensions), 6), squeeze=False, sharey="col"
    )
    for column, d in enumerate(dimensions):
        for colour, name in enumerate(("random walk", "HMC")):
            mine = [r for r in rows if r["d"] == d and r["sampler"] == name]
            for row, x in enumerate(("clip", "clipped")):
                axes[row, column].plot(
                    [max(r[x], 1e-5) for r in mine],
                    [r["mmd"] for r in mine],
                    "o",
                    color=f"C{colour}",
                    ms=4,
                    label=name,
                )
        for row, label in enumerate(("clip bound / 90% quantile of the ratios", "share clipped")):
            ax = axes[row, column]
            ax.axhline(np.mean([r["floor"] for r in rows if r["d"] == d]), color="k", lw=0.8)
            ax.set(xscale="log", yscale="log", xlabel=label, ylabel="MMD" if column == 0 else "")
        axes[0, column].set_title(f"d = {d}")
    axes[0, 0].legend(frameon=False)
    fig.tight_layout()
    fig.savefig(path, dpi=120)


def figure_7_2(rows: list[dict[str, Any]], path: str) -> None:
    """A panel for each dimension and tempering."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = sorted({(r["d"], r["tempering"]) for r in rows}, key=lambda p: (p[0], -p[1]))
    fig, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 4), squeeze=False, sharey=True)
    for ax, (d, tempering) in zip(axes[0], panels, strict=True):
        here = [r for r in rows if (r["d"], r["tempering"]) == (d, tempering)]
        for colour, name in enumerate(SAMPLERS):
            mine = [r for r in here if r["sampler"] == name]
            ax.plot(
                [r["epsilon"] for r in mine],
                [r["mmd"] for r in mine],
                "o-",
                color=f"C{colour}",
                ms=4,
                label=name,
            )
        ax.axhline(np.mean([r["floor"] for r in here]), color="k", lw=0.8)
        ax.set(xscale="log", yscale="log", xlabel="ε", title=f"d = {d}, T = {tempering:g}")
    axes[0, 0].set_ylabel("MMD")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    fig.subplots_adjust(bottom=0.3, left=0.07, right=0.98)
    fig.savefig(path, dpi=120)


def main() -> None:
    """Print the numbers of a figure, and draw it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["clipping", "epsilon"])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 10])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--samplers", nargs="+", default=list(SAMPLERS))
    parser.add_argument("--figure")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    if args.what == "clipping":
        rows = by_clip(args.dimensions, args.runs)
    else:
        rows = by_epsilon(args.dimensions, args.epsilon, args.runs, args.samplers)
    if args.figure:
        (figure_7_1 if args.what == "clipping" else figure_7_2)(rows, args.figure)


if __name__ == "__main__":
    main()
