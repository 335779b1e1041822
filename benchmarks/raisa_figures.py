"""Figures 7.1 and 7.2 of Räisä (2021): clipping, and the budget, against maximum mean discrepancy.

    OMP_NUM_THREADS=1 python -m benchmarks.raisa_figures clipping      # six minutes
    OMP_NUM_THREADS=1 python -m benchmarks.raisa_figures epsilon       # twenty minutes
    OMP_NUM_THREADS=1 python -m benchmarks.raisa_figures epsilon --samplers "control variates" --keep
    python -m benchmarks.raisa_figures epsilon --draw                  # the picture, from the stored numbers

The banana of the thesis in 2 and 10 dimensions, n = 100,000; in the second figure also tempered, T = 0.01. A
chain starts within one posterior standard deviation of the mean, and its second half is compared with exact
draws. Clip bounds and step sizes come from public knowledge alone: from data simulated at another parameter.
A bound is the 90% quantile of the records' log-likelihood ratios there, since the thesis finds that a tenth
may be clipped; for moves of one component, which do not bear that, the 99% quantile. In the second figure
every sampler makes about 2,000 passes over the data: 2,000 iterations, or 400 of HMC with 5 gradients each;
control variates 1,000 iterations, and the rounds of their surrogate.
Numbers go to benchmarks/results, pictures to docs/images.
"""

import itertools
import logging
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, log_ndtr, ndtr

import pymc_dp as dp
from benchmarks import results, running
from pymc_dp.proposals import FixedRadius, GaussianWalk, GuidedWalk, OneAtATime
from pymc_dp.ratios import subsets as batch_ratio

N, DELTA = 100_000, 1e-6
CURVATURE, FIRST_VARIANCES = 20.0, (20.0, 2.5)
QUANTILES = {"all": 0.9, "one": 0.99, "guided": 0.99}
HALF, BATCH = 1000, 1000  # iterations before, and after, the draws that count begin; records of a batch
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
def public_clip(d: int, tempering: float, kind: str, quantile: float | None = None) -> float:
    """A quantile of the records' log-likelihood ratios for moves of step size 1, on simulated data."""
    rng = np.random.default_rng(123)
    x, moves = np.sqrt(variances(d)) * rng.normal(size=(4000, d)), proposal(kind, d, tempering)
    posterior = dp.models.BananaPosterior(np.zeros(d), variances(d) / (N * tempering), CURVATURE, 0.0, 0.0)
    ratios = []
    for theta in posterior.draws(200, rng):
        new = theta + moves.move(rng, d)
        straight = [np.r_[t[0], t[1] + CURVATURE * t[0] ** 2, t[2:]] for t in (theta, new)]
        terms = [-0.5 * ((x - u) ** 2 / variances(d)).sum(axis=1) for u in straight]
        ratios.append(np.abs(terms[1] - terms[0]))
    return float(np.quantile(ratios, quantile or QUANTILES[kind]))


def proposal(kind: str, d: int, tempering: float) -> Any:
    """Moves in units of the public scale."""
    scale = public_scale(d, tempering)
    return {
        "all": lambda: FixedRadius(scale),
        "one": lambda: OneAtATime(scale),
        "guided": lambda: GuidedWalk(scale),
    }[kind]()


@cache
def public_step(
    kind: str, d: int, tempering: float, noise_multiplier: float, batch_size: int | None = None
) -> float:
    """Step size of the longest expected jump, for a penalty test with this noise; Barker's test without any.

    Found on the posterior as it would be at theta = 0: public, like `public_clip`.
    """
    rng = np.random.default_rng(125)
    posterior = dp.models.BananaPosterior(np.zeros(d), variances(d) / (N * tempering), CURVATURE, 0.0, 0.0)
    start = posterior.draws(2000, rng)
    moves = np.array([proposal(kind, d, tempering).move(rng, d) for _ in start])

    def noise(step: float) -> float:
        clip = step * public_clip(d, tempering, kind)
        if batch_size is None:
            return 2 * noise_multiplier * clip * tempering
        batch = N * tempering * clip / 1.645 / np.sqrt(batch_size)  # its own error, if ratios are normal
        added = noise_multiplier * clip * batch_ratio.sensitivity(clip, batch_size, N, tempering)
        return float(np.hypot(batch, added))

    def accepted(step: float) -> float:
        ratio = posterior.log_density(start + step * moves) - posterior.log_density(start)
        s = noise(step)
        if s == 0:
            return float(np.mean(expit(ratio)))
        terms = ndtr(ratio / s - s / 2) + np.exp(np.minimum(ratio, 50) + log_ndtr(-ratio / s - s / 2))
        return float(np.mean(np.minimum(terms, 1)))

    # Rare long jumps do not help a short chain.
    rates = {step: rate for step in np.geomspace(0.003, 3, 40) if (rate := accepted(step)) >= 0.15}
    return float(max(rates, key=lambda step: step**2 * rates[step]))


def penalty(kind: str, d: int, tempering: float, epsilon: float, batch_size: int | None = None) -> Any:
    """Constant clip, in proportion to the step."""
    clip = public_clip(d, tempering, kind)

    def with_step(step: float) -> Any:
        return dp.DPPenaltyMH(
            epsilon=epsilon,
            delta=DELTA,
            clip_bound=clip * step,
            proposal=proposal(kind, d, tempering),
            step_size=step,
            adapt_step_size=False,
            tempering=tempering,
            chains=1,
            batch_size=batch_size,
        )

    nm = dp.calibrate(epsilon, DELTA, draws=2 * HALF, tune=0, chains=1).noise_multiplier
    if batch_size is not None:
        nm = with_step(1.0).cost(draws=2 * HALF, tune=0).noise_multiplier
    return with_step(public_step(kind, d, tempering, nm, batch_size))


def barker(d: int, tempering: float, epsilon: float) -> Any:
    """All records, no noise: the budget is a bound on each ratio, and so on the step."""
    given = {"epsilon": epsilon, "delta": DELTA, "tempering": tempering, "chains": 1}
    asked = dp.DPBarker(lipschitz=1.0, **given).cost(draws=2 * HALF, tune=0).parameters["clip_bound"]
    clip = public_clip(d, tempering, "all")
    step = min(0.999 * asked / clip, public_step("all", d, tempering, 0.0))
    return dp.DPBarker(
        clip_bound=clip * step,
        proposal=proposal("all", d, tempering),
        step_size=step,
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
    "penalty, batches of 1,000": lambda d, t, e: penalty("all", d, t, e, BATCH),
    "Barker": barker,
    "HMC": hmc,
    "control variates": surrogate,
}


ITERATIONS = {"control variates": (0, HALF), "HMC": (200, 200)}  # tune, draws


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
        "clipped": float(idata.sample_stats["clip_fraction"].max()),
        "accepted": float(idata.sample_stats["accepted"].mean()),
    }


def clipped_walk(d: int, factor: float) -> Any:
    """Random walk without noise."""
    clip = 1.7 * factor * public_clip(d, 1.0, "all")
    moves = GaussianWalk(np.diag(public_scale(d, 1.0) ** 2))
    given = {"step_size": 1.7, "adapt_step_size": False, "proposal": moves, "chains": 1}
    return dp.DPPenaltyMH(epsilon=np.inf, delta=DELTA, clip_bound=clip, **given)


def clipped_component(d: int, factor: float) -> Any:
    """Moves of one component without noise: not in the thesis's figure."""
    clip = 1.5 * factor * public_clip(d, 1.0, "one", 0.9)
    given = {"step_size": 1.5, "adapt_step_size": False, "proposal": proposal("one", d, 1.0), "chains": 1}
    return dp.DPPenaltyMH(epsilon=np.inf, delta=DELTA, clip_bound=clip, **given)


def clipped_hmc(d: int, factor: float) -> Any:
    """Trajectories of two posterior standard deviations without noise; gradients are not clipped."""
    scale = public_scale(d, 1.0)
    clip = factor * public_clip(d, 1.0, "all") / np.sqrt(np.mean(scale**2))
    given = {"mass": 1 / scale**2, "n_leapfrog": 4, "step_size": 0.45, "chains": 1}
    given |= {"adapt_step_size": False, "adapt_mass": False}
    return dp.DPHMC(epsilon=np.inf, delta=DELTA, gradient_clip=1e3, ratio_clip=clip, **given)


# As in the thesis: no walk in 10 dimensions, 3,000 iterations of a walk and 500 of HMC, half of them dropped.
WITHOUT_NOISE = {(2, "random walk"): (clipped_walk, 1500), (2, "HMC"): (clipped_hmc, 250)}
WITHOUT_NOISE |= {(2, "one component"): (clipped_component, 1500), (10, "HMC"): (clipped_hmc, 250)}


def by_clip(
    dimensions: Sequence[int] = (2, 10),
    runs: int = 1,
    factors: Sequence[float] = (0.03, 0.1, 0.3, 1.0, 3.0),
    samplers: Sequence[str] = ("random walk", "HMC", "one component"),
) -> pd.DataFrame:
    """Figure 7.1, without noise. Bounds are factors times the 90% quantile of the ratios."""
    rows = []
    for (d, name), (make, half) in WITHOUT_NOISE.items():
        if d not in dimensions or name not in samplers:
            continue
        for factor, seed in itertools.product(factors, range(runs)):
            reference = dp.models.banana(d, N, a=CURVATURE, seed=seed)
            found = discrepancy(reference, partial(make, d, factor), seed, half, half)
            rows.append({"d": d, "sampler": name, "clip": factor, "run": seed, **found})
            print(show(rows[-1]), flush=True)
    return pd.DataFrame(rows)


def by_epsilon(
    dimensions: Sequence[int] = (2, 10),
    epsilons: Sequence[float] = (1.0, 4.0, 12.0),
    runs: int = 2,
    samplers: Sequence[str] = tuple(SAMPLERS),
    temperings: Sequence[float] = (1.0, 0.01),
) -> pd.DataFrame:
    """Figure 7.2. A run that a sampler refuses, after its budget was spent, has no MMD."""
    rows = []
    for d, tempering, name, epsilon, seed in itertools.product(
        dimensions, temperings, samplers, epsilons, range(runs)
    ):
        reference = dp.models.banana(d, N, a=CURVATURE, tempering=tempering, seed=seed)
        tune, draws = ITERATIONS.get(name, (HALF, HALF))
        make = partial(SAMPLERS[name], d, tempering, epsilon)
        try:
            found = discrepancy(reference, make, seed, draws, tune)
        except (dp.BudgetError, dp.TooFewRecordsError) as error:
            print(type(error).__name__, error, flush=True)
            found = {"mmd": np.nan}
        given = {"d": d, "tempering": tempering, "sampler": name, "epsilon": epsilon, "run": seed}
        rows.append({**given, **found})
        print(show(rows[-1]), flush=True)
    return pd.DataFrame(rows)


def show(row: dict[str, Any]) -> str:
    """One run in a line."""
    values = (f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
    return ", ".join(f"{key} {value}" for key, value in zip(row, values, strict=True))


def figure_7_1(rows: pd.DataFrame) -> Any:
    """Two rows: against the clip bound, and against the share that is clipped."""
    import matplotlib.pyplot as plt

    dimensions = sorted(rows["d"].unique())
    figure, axes = plt.subplots(
        2,
        len(dimensions),
        figsize=(4.2 * len(dimensions), 6),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    labels = {"clip": "clip bound / 90% quantile of the ratios", "clipped": "largest share clipped"}
    for (i, x), (j, d) in itertools.product(enumerate(labels), enumerate(dimensions)):
        here, axis = rows[rows["d"] == d], axes[i, j]
        for colour, name in enumerate(("random walk", "HMC", "one component")):
            mine = here[here["sampler"] == name]
            if len(mine):
                axis.plot(mine[x].clip(lower=1e-5), mine["mmd"], "o", color=f"C{colour}", label=name)
                axis.axhline(mine["floor"].mean(), color=f"C{colour}", lw=0.8, ls="--")
        axis.set(xscale="log", yscale="log", xlabel=labels[x], title=f"d = {d}" if i == 0 else "")
        axis.set_ylabel("MMD" if j == 0 else "")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def figure_7_2(rows: pd.DataFrame) -> Any:
    """A panel for each dimension and tempering: runs, and lines through their means."""
    import matplotlib.pyplot as plt

    panels = sorted(set(zip(rows["d"], rows["tempering"], strict=True)), key=lambda p: (p[0], -p[1]))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.4 * len(panels), 4.2), squeeze=False, sharey=True, layout="constrained"
    )
    for axis, (d, tempering) in zip(axes[0], panels, strict=True):
        here = rows[(rows["d"] == d) & (rows["tempering"] == tempering)]
        for index, name in enumerate(SAMPLERS):
            mine = here[here["sampler"] == name]
            shifted = mine["epsilon"] * 1.03 ** (index - len(SAMPLERS) / 2)  # so that points do not overlap
            axis.plot(shifted, mine["mmd"], "o", color=f"C{index}", ms=3, alpha=0.6)
            mean = mine.assign(x=shifted).groupby("epsilon")[["x", "mmd"]].mean()
            axis.plot(mean["x"], mean["mmd"], color=f"C{index}", lw=1.5, label=name)
        floor = here.loc[here["sampler"] != "HMC", "floor"].mean()
        axis.axhline(floor, color="k", lw=0.8, ls="--", label="1,000 exact draws")
        axis.set(xscale="log", yscale="log", xlabel="ε", title=f"d = {d}, T = {tempering:g}")
        ticks = sorted(here["epsilon"].unique())
        axis.set_xticks(ticks, [f"{e:g}" for e in ticks])
        axis.minorticks_off()
    axes[0, 0].set_ylabel("MMD")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def main() -> None:
    """Measure a figure's numbers, and draw it."""
    parser = running.parser(__doc__)
    parser.add_argument("what", choices=["clipping", "epsilon"])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 10])
    parser.add_argument("--runs", type=int)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 4.0, 12.0])
    parser.add_argument("--tempering", type=float, nargs="+", default=[1.0, 0.01])
    parser.add_argument("--samplers", nargs="+", help="those of the figure")
    parser.add_argument("--keep", action="store_true", help="stored numbers of all other runs")
    parser.add_argument("--draw", action="store_true", help="stored numbers, no runs")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    few = {key: value for key, value in (("runs", args.runs), ("samplers", args.samplers)) if value}
    name, measure, draw = {
        "clipping": ("raisa_7_1", partial(by_clip, args.dimensions), figure_7_1),
        "epsilon": (
            "raisa_7_2",
            partial(by_epsilon, args.dimensions, args.epsilon, temperings=args.tempering),
            figure_7_2,
        ),
    }[args.what]
    rows = results.stored(name) if args.draw else measure(**few)
    if args.keep:
        rows = pd.concat([results.stored(name), rows])
        keys = [key for key in ("d", "tempering", "sampler", "clip", "epsilon", "run") if key in rows]
        rows = rows.drop_duplicates(keys, keep="last").sort_values(["d", *keys[1:]], kind="stable")
    if not args.draw:
        results.store(name, rows)
    results.picture(name, draw(rows))


if __name__ == "__main__":
    main()
