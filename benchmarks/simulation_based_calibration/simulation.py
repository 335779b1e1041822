"""One step, used on many data sets that are drawn from prior and model."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_dp as dp
from pymc_dp.privacy.budget.call import CallBudget, ChainBudget

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
        self.ledger, self.name = None, "simulation"

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
            np.allclose(records.ratios(beta, -beta, some), ((1 - 2 * y) * eta)[some]),
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
        chain.state = step._arrive(chain, start)
        if gradient is not None:  # both directions leave from one state
            chain.memory = gradient
        for _ in range(kept):
            for _ in range(self.setting.thin):
                accepted, _ = step._iterate(chain)
                step.moves.decided(accepted)
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
        step._chain.iteration = 0
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
