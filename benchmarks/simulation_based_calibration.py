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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import expit

import pymc_dp as dp
from benchmarks import running
from pymc_dp.privacy.call import CallBudget, ChainBudget

N, D, KEPT = 1000, 2, 20
BUDGET = {"delta": 1e-6, "chains": 1}


@dataclass
class Setting:
    """A sampler, how many iterations lie between two kept draws, and whether its ranks can be used."""

    name: str
    make: Callable[..., Any]
    thin: int = 10
    arguments: dict[str, Any] = field(default_factory=dict)
    reversible: bool = True


FIXED = {"adapt_step_size": False}
SETTINGS = [
    Setting("DPPenaltyMH", dp.DPPenaltyMH, 10, {"epsilon": 20, **FIXED}),
    Setting("DPPenaltyMH, batch_size=250", dp.DPPenaltyMH, 10, {"epsilon": 20, "batch_size": 250, **FIXED}),
    Setting("DPPenaltyMH, batch_size=25", dp.DPPenaltyMH, 20, {"epsilon": 80, "batch_size": 25, **FIXED}),
    Setting("DPPenaltyMH, guided", dp.DPPenaltyMH, 10, {"epsilon": 20, "proposal": "guided", **FIXED}, False),
    Setting("DPBarker", dp.DPBarker, 10, {"epsilon": 20, **FIXED}),
    Setting("DPBarker, batch_size=250", dp.DPBarker, 10, {"epsilon": 20, "batch_size": 250, **FIXED}),
    Setting("DPFastMH", dp.DPFastMH, 10, {"epsilon": 20, **FIXED}),
    Setting("DPFastMH, penalty", dp.DPFastMH, 10, {"epsilon": 20, "test": "penalty", **FIXED}),
    Setting("DPHMC", dp.DPHMC, 10, {"epsilon": 60, "n_leapfrog": 3, "adapt_mass": False, **FIXED}),
    Setting(
        "DPSGHMC",
        dp.DPSGHMC,
        5,
        {"epsilon": 60, "sampling_probability": 0.25, "n_steps": 5, "step_size": 0.03, "decay": 0.0},
        False,
    ),
]
CLIPS = {"wide": 1.0, "tight": 0.6}


class PaidAgain(CallBudget):
    """Every data set of a simulation is a call of its own."""

    def __init__(self) -> None:
        self.ledger, self.slots = None, self  # type: ignore[assignment]

    def open_chain(self, rng: Any, plan: Any, **_: Any) -> ChainBudget:
        """The next chain, with its whole budget."""
        return ChainBudget(self, plan, 0, None)

    def finish(self, slot: int) -> bool:
        """Nothing to confirm."""
        return False


class Simulation:
    """One step, used on many data sets.

    Parameters
    ----------
    setting : Setting
    lipschitz : float
        Clip bound; no record's gradient is longer than 1.
    n, kept : int
        Records, and draws for which a call pays.
    """

    def __init__(self, setting: Setting, lipschitz: float, n: int = N, kept: int = KEPT):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(n, D))
        self.x = x / np.linalg.norm(x, axis=1)[:, None]
        self.setting, self.n, self.iterations = setting, n, kept * setting.thin
        with pm.Model() as self.model:
            beta = pm.Normal("beta", 0, 1, shape=D)
            self.observed = pm.Data("outcomes", rng.integers(0, 2, n))
            pm.Bernoulli("y", logit_p=self.x @ beta, observed=self.observed)
            self.step = setting.make(
                lipschitz=lipschitz,
                compile_kwargs={"mode": "NUMBA"},
                **BUDGET,
                **setting.arguments,
            )
        plan = self.step.cost(self.iterations, tune=0)
        self.step.cost = lambda *_: plan
        if hasattr(self.step.moves, "_trial_moves"):  # public, and the same for each data set
            trial, found = self.step.moves._trial_moves, {}

            def remembered(measure):
                if measure.__name__ not in found:
                    found[measure.__name__] = trial(measure)
                return found[measure.__name__]

            self.step.moves._trial_moves = remembered

    def log_likelihood(self, beta: np.ndarray, y: np.ndarray) -> float:
        """Of the model, computed by hand."""
        eta = self.x @ beta
        return float(y @ eta - np.logaddexp(0, eta).sum())

    def begin(self, y: np.ndarray, rng: np.random.Generator) -> None:
        """Give the step other data, as nobody could who uses it: `check_data` refuses this."""
        step = self.step
        self.observed.set_value(y.astype(self.observed.type.dtype))
        step.records._snapshot = []
        step._call = PaidAgain()
        step.setup_chain(np.random.default_rng(rng.integers(2**63)), 0, self.iterations)

    def check(self, beta: np.ndarray, y: np.ndarray) -> None:
        """Whether everything that the step has compiled sees the new data."""
        records, some = self.step.records, np.arange(0, self.n, 7)
        eta = self.x @ beta
        rows = y * eta - np.logaddexp(0, eta)
        seen = [
            np.allclose(records.full_batch.at(beta)[0], rows),
            np.allclose(records.minibatch(beta, some), rows[some]),
        ]
        if "gradients" in vars(records):
            gradient = (y - expit(eta))[:, None] * self.x
            seen.append(np.allclose(records.gradients(beta, 10.0).total, gradient.sum(axis=0), atol=1e-2))
            seen.append(
                np.allclose(
                    records.gradients.batch(beta, some, 10.0).total, gradient[some].sum(axis=0), atol=1e-2
                )
            )
        if not all(seen):
            raise RuntimeError("the step does not see the new data")

    def walk(self, start: np.ndarray, kept: int, gradient: Any = None) -> np.ndarray:
        """Kept draws after `start`, shape (kept, d), nearest first."""
        step, draws = self.step, []
        chain = step._chain
        if gradient is not None:  # both directions leave from one state
            chain.memory = gradient
        chain.state = step._arrive(chain, start)
        for _ in range(kept):
            for _ in range(self.setting.thin):
                accepted, _ = step._iterate(chain)
                step.moves.decided(accepted, False)
                chain.iteration += 1
            draws.append(chain.state.theta)
        return np.array(draws).reshape(kept, D)

    def outcomes_of(self, beta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A data set from the model."""
        return (rng.random(self.n) < expit(self.x @ beta)).astype(int)

    def one(self, rng: np.random.Generator) -> dict[str, Any]:
        """Ranks, and the other columns' quantities, of one data set."""
        truth = rng.normal(size=D)
        y = self.outcomes_of(truth, rng)
        self.begin(y, rng)
        step = self.step
        self.check(truth, y)
        gradient = None
        before = int(rng.integers(KEPT + 1)) if self.setting.reversible else 0
        if isinstance(step, dp.DPHMC):
            step._arrive(step._chain, truth)
            gradient = step._chain.memory
        past = self.walk(truth, before, gradient)
        step.iteration = 0
        future = self.walk(truth, KEPT - before, gradient)
        others = np.concatenate([past, future])
        last = others[-1]
        p = expit(self.x @ truth)
        sd = np.sqrt(np.diag(np.linalg.inv((self.x.T * (p * (1 - p))) @ self.x + np.eye(D))))
        # What is ranked: each coefficient, away from 0 being up, and the log-likelihood (Modrak et al. 2023).
        away = np.sign((y - 0.5) @ self.x)
        value = np.r_[away * truth, self.log_likelihood(truth, y)]
        values = np.array([np.r_[away * b, self.log_likelihood(b, y)] for b in others])
        ties = (values == value).sum(axis=0)
        return {
            "rank": (values < value).sum(axis=0) + [rng.integers(1 + t) for t in ties],
            "last": last,
            "moved": np.sqrt(np.mean(((last - truth) / sd) ** 2)),
            "outward": np.mean(away * (last - truth) / sd),
            "higher": np.sign(values[-1, -1] - value[-1]),
        }


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
