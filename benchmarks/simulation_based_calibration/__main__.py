"""Simulation-based calibration of each sampler, with a clip bound that holds and with one that does not.

    OMP_NUM_THREADS=1 python -m benchmarks.simulation_based_calibration --figure docs/images/calibration.png

With `--only DPPenaltyMH --clips .9 .8 .7 .6 .5 .4`: bias against clip bound.

A data set is drawn from the prior and the model, so that the coefficients it was made of are one exact draw
of its posterior. The chain starts *there*: 20 more draws are made around it, a random number of them before
it and the rest after it. A reversible chain that leaves the posterior alone gives the first draw a uniform
rank among the 21 (Besag and Clifford 1989; Talts et al. 2018), however slowly it mixes. The table has

- p: chi-square test that the ranks of each coefficient and of the log-likelihood are uniform, Bonferroni;
- last: that the last draw is distributed as the prior, and that its log-likelihood exceeds the first draw's
  half of the time, Bonferroni: one cycle of Geweke's joint test (`benchmarks.joint_test` has many), and
  the only test here of the samplers that are not reversible;
- higher: how often the last draw's log-likelihood is the larger one, .5 for an exact chain;
- outward: how far the last draw lies further from 0 than the first, mean in posterior standard deviations;
- moved: root mean squared distance of the last draw from the first, same unit; 1.41 for independent draws;
- s: seconds.

Logistic regression, n = 1,000, rows of norm 1, prior N(0, 1) for each of 2 coefficients. Budgets are real,
but large, so that chains of this length move.

"tight" is a control that has to fail. So is "DPPenaltyMH, batch_size=25": its correction takes the error of a
batch for normal, and 25 records with a large budget, so with long moves, are too few for that.
"""

import logging
import time
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

from benchmarks import running
from benchmarks.simulation_based_calibration.simulation import CLIPS, KEPT, SETTINGS, D, N, Simulation


def summary(found: list[dict[str, Any]], reversible: bool) -> dict[str, Any]:
    """What the table has."""
    ranks = np.array([f["rank"] for f in found])
    last = np.array([f["last"] for f in found])
    higher = np.array([f["higher"] for f in found])
    tests = [stats.kstest(last[:, j], "norm").pvalue for j in range(D)]
    tests.append(stats.binomtest(int((higher > 0).sum()), int((higher != 0).sum())).pvalue)
    out = {
        "last": min(1.0, len(tests) * min(tests)),
        "moved": np.sqrt(np.mean([f["moved"] ** 2 for f in found])),
    }
    out["outward"] = np.mean([f["outward"] for f in found])
    out["higher"] = (higher > 0).sum() / (higher != 0).sum()
    if reversible:
        counts = [np.bincount(column, minlength=KEPT + 1) for column in ranks.T]
        out["p"] = min(1.0, len(counts) * min(stats.chisquare(c).pvalue for c in counts))
        out["counts"] = np.sum(counts[:D], axis=0), counts[D]
    return out


def clipped(lipschitz: float, datasets: int = 300) -> tuple[float, float]:
    """Shares of the records' ratios, in short moves of random direction, and gradients that are clipped."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(datasets, N, D))
    x /= np.linalg.norm(x, axis=2)[:, :, None]
    truth, along = rng.normal(size=(2, datasets, D, 1))
    p = expit((x @ truth)[:, :, 0])
    residual = np.abs((rng.random(p.shape) < p) - p)
    cosine = (x @ (along / np.linalg.norm(along, axis=1)[:, None]))[:, :, 0]
    return float(np.mean(residual * np.abs(cosine) > lipschitz)), float(np.mean(residual > lipschitz))


def figure(rows: list[tuple[str, str, dict[str, Any]]], path: str) -> None:
    """Histograms of the ranks."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [r for r in rows if "counts" in r[2]]
    names = list(dict.fromkeys(r[0] for r in rows))
    clips = list(dict.fromkeys(r[1] for r in rows))
    lines = [(clip, what) for clip in clips for what in (0, 1)]
    fig, axes = plt.subplots(
        len(lines), len(names), figsize=(1.7 * len(names), 7), sharex=True, sharey="row", squeeze=False
    )
    for name, clip, found in rows:
        for what in (0, 1):
            ax, counts = axes[lines.index((clip, what)), names.index(name)], found["counts"][what]
            low, high = stats.binom(counts.sum(), 1 / len(counts)).ppf([0.005, 0.995])
            ax.axhspan(low, high, color="0.85", lw=0)
            ax.bar(np.arange(len(counts)), counts, width=1, color=f"C{clips.index(clip)}")
    for column, name in enumerate(names):
        axes[0, column].set_title(name.replace(", ", "\n").replace("batch_size=", "batches of "), fontsize=8)
    for row, (clip, what) in enumerate(lines):
        axes[row, 0].set_ylabel(f"{clip} clip:\n{'log-likelihood' if what else 'coefficients'}", fontsize=8)
    fig.supxlabel("rank of the exact draw (band: 99% of each bar, if exact)", fontsize=9)
    fig.tight_layout()
    fig.savefig(path, dpi=120)


def main() -> None:
    """Print the table, draw the histograms."""
    parser = running.parser(__doc__)
    parser.add_argument("--data", type=int, default=600, help="data sets for each line")
    parser.add_argument("--only", nargs="+", help="samplers of these names")
    parser.add_argument("--clips", type=float, nargs="+", help="Lipschitz constants instead of 1 and .6")
    parser.add_argument("--seed", type=int, default=1, help="of parameters, data and moves, not of noise")
    parser.add_argument("--figure")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    clips = {f"{c:g}": c for c in args.clips} if args.clips else CLIPS
    for clip, constant in clips.items():
        ratios, gradients = clipped(constant)
        print(
            f"clip {clip}: L = {constant:g}, {ratios:.2%} of ratios and {gradients:.2%} of gradients clipped"
        )
    print(f"{'sampler':30}{'clip':>7}{'p':>10}{'last':>10}{'higher':>8}{'outward':>9}{'moved':>7}{'s':>6}")
    rows = []
    for setting in SETTINGS:
        if args.only and setting.name not in args.only:
            continue
        for clip, constant in clips.items():
            started = time.perf_counter()
            simulation = Simulation(setting, constant)
            rng = np.random.default_rng(args.seed)
            found = summary([simulation.one(rng) for _ in range(args.data)], setting.reversible)
            rows.append((setting.name, clip, found))
            p = f"{found['p']:.2g}" if "p" in found else "-"
            print(
                f"{setting.name:30}{clip:>7}{p:>10}{found['last']:>10.2g}{found['higher']:>8.2f}"
                f"{found['outward']:>9.2f}{found['moved']:>7.2f}{time.perf_counter() - started:>6.0f}",
                flush=True,
            )
    if args.figure:
        figure(rows, args.figure)


if __name__ == "__main__":
    main()
