"""Empirical lower bounds on the privacy loss of a step: what an attacker sees who knows all records but one.

Two data sets that differ in one record are run many times, and what is released under each is compared with
what the step claims. A violation refutes the claim; no result, however low, proves it.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.audit.tester import AuditResult, Claim, TradeOffTester
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.budget.call import CallBudget, ChainBudget
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.records.gate import initial_point
from pymc_dp.steps.base import DPStep

#: What is released in many runs: "point", shape (runs, iterations, d), and each stat, (runs, iterations).
Released = Mapping[str, np.ndarray]


def audit(
    make_step: Callable[[Any], DPStep],
    neighbors: Sequence[Any],
    *,
    draws: int = 1,
    tune: int = 0,
    runs: int = 2000,
    start: Mapping[str, np.ndarray] | None = None,
    score: Callable[[Released], np.ndarray] | None = None,
    claim: Claim | None = None,
    confidence: float = 1 - 1e-6,
    seed: int = 0,
) -> AuditResult:
    """Look for a violation of a step's guarantee on two neighbouring data sets.

    Parameters
    ----------
    make_step : callable
        From a data set to a step, with ``chains=1`` and without a ledger. With `debug_seed` the audit is
        reproducible: each run has noise of its own all the same.
    neighbors : sequence of two data sets
        That differ in one record; anything `make_step` takes. Under "substitute" of one size.
    draws, tune : int
        Iterations of a run; the attacker sees all of them.
    runs : int
        Of each data set. Half of them choose the event, half test it.
    start : dict of str to ndarray, optional
        Start of each run, in PyMC's value space. Default: the model's initial point.
    score : callable, optional
        From what is released to one number a run, shape (runs,): what the attacker computes, for example the
        likelihood ratio of the two data sets. Tried beside each released number and the linear discriminant
        of them all.
    claim : Claim, optional
        Default: what the step says that it costs, ``cost(draws, tune).guarantee``.
    confidence : float
        1 minus the probability that a guarantee that holds is said to be violated.
    seed : int
        Of the proposals, the same for each run: the attacker knows them, as PyMC's `random_seed` is public.

    Returns
    -------
    AuditResult
        `epsilon_lower` is at the step's delta.

    Raises
    ------
    ValueError
        An argument is out of range, or the data sets give different numbers of released values.

    Notes
    -----
    **Privacy.** For simulated data only: what it returns has no guarantee. The attacker knows both data sets,
    the start and the proposals, and sees the parameters and every stat of each iteration.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> def make_step(data):
    ...     with pm.Model():
    ...         theta = pm.Normal("theta")
    ...         _ = pm.Normal("y", theta, 1, observed=data)
    ...         return dp.DPPenaltyMH(epsilon=4.0, delta=1e-5, clip_bound=1.0, chains=1, debug_seed=0)
    >>> result = audit(make_step, [np.array([0, 0, 9.0]), np.array([0, 0, -9.0])], runs=500)
    >>> result.violated
    False
    """
    if len(neighbors) != 2:
        raise ValueError(f"neighbors are two data sets, got {len(neighbors)}.")
    first = make_step(neighbors[0])
    plan = first.cost(draws, tune)
    tester = TradeOffTester(plan.guarantee if claim is None else claim, plan.delta, confidence)

    def sample(step: DPStep) -> np.ndarray:
        return _features(released(step, draws, tune=tune, runs=runs, start=start, seed=seed), score)

    return tester.test(sample(first), sample(make_step(neighbors[1])))


def released(
    step: DPStep,
    draws: int,
    *,
    tune: int = 0,
    runs: int = 2000,
    start: Mapping[str, np.ndarray] | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Run a step's chain many times, and collect what it releases.

    Parameters
    ----------
    step, draws, tune, runs, start, seed
        As in `audit`. Each run is a call of its own: the result costs as much as all of them.

    Returns
    -------
    dict of str to ndarray
        "point", shape (runs, tune + draws, d), and each stat, shape (runs, tune + draws): a number, or a
        checksum of what is not one.

    Raises
    ------
    ValueError
        `runs` is below 4, or the step is for several chains or has a ledger.
    """
    if runs < 4:
        raise ValueError(f"runs must be at least 4, got {runs!r}.")
    if step.chains != 1 or step._call.ledger is not None:
        raise ValueError("an audit runs one chain at a time, without a ledger: make the step with chains=1.")
    point = initial_point(step.model) if start is None else start
    plan, call, rng, tuning = step.cost(draws, tune), step._call, step.rng, step.tune
    found: dict[str, list] = {}
    try:
        for run in range(runs):
            step._call = _Repeated(plan, run)
            step.rng = np.random.default_rng(seed)
            step.cost = lambda *_: plan  # type: ignore[method-assign]  # computed once
            step.setup_chain(step.rng, tune, draws)
            current = dict(point)
            for _ in range(tune + draws):
                step.tune = step._chain.iteration < tune
                current, (stats,) = step.step(current)
                found.setdefault("point", []).append(step.records.ravel(current))
                stats.pop(facts.DRAW)  # the point, with the number of the run
                for name, value in stats.items():
                    found.setdefault(name, []).append(_number(value))
    finally:
        step.__dict__.pop("cost", None)
        step._call, step.rng, step.tune = call, rng, tuning
        step._chain = None
    return {name: np.reshape(v, (runs, -1, *np.shape(v[0]))) for name, v in found.items()}


class _Repeated(CallBudget):
    """The budget of one run: a call of one chain."""

    name = "audit"

    def __init__(self, plan: PrivacyPlan, run: int):
        self.ledger, self._plan, self._run = None, plan, run

    def open_chain(self, *_: Any, **__: Any) -> ChainBudget:
        """The number of the run is that of its noise stream."""
        return ChainBudget(self, self._plan, self._run, lambda: None)

    def finish(self, slot: int) -> bool:
        """Every chain is its call's last."""
        return True


def _number(value: Any) -> float:
    array = np.asarray(value)
    if array.ndim == 0 and array.dtype.kind in "biuf":
        return float(array)
    return float(zlib.crc32(array.tobytes() if array.dtype.kind in "biuf" else repr(value).encode()))


def _features(found: Released, score: Callable[[Released], np.ndarray] | None) -> np.ndarray:
    """Everything released, in columns; the attacker's score is one more."""
    runs = len(found["point"])
    columns = [np.reshape(values, (runs, -1)) for values in found.values()]
    if score is not None:
        columns.append(np.reshape(score(found), (runs, 1)))
    return np.hstack(columns)
