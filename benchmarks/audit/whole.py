"""Whole releases of a likelihood: mu by attack, beside the mu that is stated.

A release is made once, with all its rounds. Then its questions are asked again of a data set that differs in
one record, as if the answers had been the same (as tests/likelihood/test_replay does): for these answers, and
these twins, what is released under either data set is its exact sums with noise. That noise is drawn ten
thousand times, through the door that a release uses, and an attacker who knows both sums tells the two apart:
by the best linear test, and by two that learn from half of the runs, Fisher's direction and boosted trees. On
the other half the probabilities of one event are bounded (Clopper and Pearson 1934), and with them mu, from
below. Pairs:

- outcome: a record that tells little of the slope, far above what its twins say or far below;
- row: a record that has much of one covariate, or of the other one, so that slopes differ;
- a record that is there or not beside one, two and three others, under add/remove. One of numbers that
  overflow stands for one that is not there: it adds nothing, and the others have the same twins.

What is stated is for all pairs; a pair that moves scores alone can show their part of the budget.
"""

import warnings
from contextlib import ExitStack
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from scipy.special import betaincinv, ndtri
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.audit.faults import Fault, HalfNoise, Patch
from benchmarks.audit.likelihood import NOT_BOUNDED, same_noise
from pymc_dp.likelihood import measurements
from pymc_dp.likelihood.comparisons import SCORE_GRID
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.likelihood.search import Search
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget import spending
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.several_tables import TablesTwins, read_records

MU, DELTA, FAR = 1.0, 1e-6, 1e9
EPSILON = float(gaussian.epsilon(MU, DELTA))
# Of each data set, as shipped and with a fault.
RUNS, OF_FAULTS = 10_000, 2000
# Error probability of a row, shared by two bounds of each of three tests.
ERROR = 1e-6 / 6


class Pair(NamedTuple):
    """Two data sets, rows of two covariates and an outcome, that differ in one record."""

    name: str
    relation: str
    first: np.ndarray
    second: np.ndarray


def others(n: int) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, 3))


def beside(n: int, *record: float) -> np.ndarray:
    """So many others, and one record."""
    return np.vstack([others(n), record])


PAIRS = [
    Pair("outcome", "substitute", beside(40, 0.01, 0.01, FAR), beside(40, 0.01, 0.01, -FAR)),
    Pair("row", "substitute", beside(40, 1e3, 0, 0), beside(40, 0, 1e3, 0)),
    *(
        Pair(f"one more than {n}", "add_remove", beside(n, 0.01, 0.01, FAR), beside(n, 1e300, 1e300, 0))
        for n in (1, 2, 3)
    ),
]
FAULTS = [
    Fault("noise halved", (Patch(spending, "PrivacyRandom", new=HalfNoise),)),
    Fault("same noise each time", (Patch(Measurements, "_release", same_noise),)),
    Fault("each share is the whole", (Patch(Spending, "portion", new=lambda self, share: self._left[0]),)),
    Fault("sensitivity C for 2C", (Patch(measurements, "SCORE_GRID", new=SCORE_GRID / 2),)),
    NOT_BOUNDED,
]


class Replayed(Measurements):
    """Keeps exact sums with their noise, and answers what was answered before."""

    def __init__(self, source: Any, paid: Spending, answers: list | None = None):
        super().__init__(source, paid)
        self.exact: list[np.ndarray] = []
        self.noise: list[float] = []
        self.said: list[np.ndarray] = []
        self.answers = answers

    def _release(self, total: np.ndarray, std: float) -> np.ndarray:
        self.exact.append(np.array(total, dtype=float))
        self.noise.append(std)
        noisy = super()._release(total, std)
        self.said.append(noisy if self.answers is None else self.answers[len(self.said)])
        return self.said[-1]


def paid(relation: str, seed: int) -> Spending:
    one = Spending(EPSILON, DELTA, [1.0], relation, debug_seed=seed)
    one.pay()
    return one


def transcript(data: np.ndarray, relation: str, answers: list | None = None) -> Replayed:
    """All questions of a release, asked of these records."""
    one, other, y = (column.copy() for column in data.T)  # a table of two rows and two columns is refused
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Normal("y", one * beta[0] + other * beta[1], 1.0, observed=y)
    records = read_records(model, neighboring_relation=relation)
    twins, budget = TablesTwins(records), paid(relation, 0)
    start = np.asarray(records.coordinates(records.ravel(records.reading.start)))
    measured = Replayed(RecordsHere(twins, budget.random), budget, answers)
    with np.errstate(all="ignore"):
        Search(measured, len(y), MU, approximate_prior(PublicModel(records), start))(start)
    return measured


def drawn(made: Replayed, relation: str, runs: int, seed: int) -> np.ndarray:
    """What is released in each run, over its noise: shape (runs, numbers)."""
    found = []
    for run in range(runs):
        budget = paid(relation, seed + run)
        fresh = Measurements(made.source, budget)
        both = zip(made.exact, made.noise, strict=True)
        found.append(np.concatenate([np.ravel(fresh._release(e, std)) / std for e, std in both]))
    return np.array(found)


def least_mu(first: np.ndarray, second: np.ndarray) -> float:
    """Lower bound of mu from scores, larger under the first data set: half chooses, the other half bounds."""
    half = len(first) // 2
    places = np.quantile(np.r_[first[:half], second[:half]], np.linspace(0.02, 0.98, 49))

    def bounded(a: np.ndarray, b: np.ndarray, threshold: float, error: float) -> float:
        m, hits, false = len(a), int((a > threshold).sum()), int((b > threshold).sum())
        low = betaincinv(hits, m - hits + 1, error) if hits else 0.0
        high = betaincinv(false + 1, m - false, 1 - error) if false < m else 1.0
        return float(ndtri(low) - ndtri(high))

    best = max(places, key=lambda place: bounded(first[:half], second[:half], place, 1e-3))
    return bounded(first[half:], second[half:], float(best), ERROR)


def over_noise(made: Replayed) -> np.ndarray:
    """All exact sums over their noise, shape (numbers,)."""
    return np.concatenate([np.ravel(e) / s for e, s in zip(made.exact, made.noise, strict=True)])


def moved_by(one: Replayed, other: Replayed) -> np.ndarray:
    """What the record that differs moves all sums by, over their noise; its length is mu of the pair."""
    if one.noise != other.noise:
        raise RuntimeError("other questions were asked")
    return over_noise(one) - over_noise(other)


def attack(pair: Pair, fault: Fault | None, runs: int) -> dict[str, float]:
    """The distance of the pair, and what each test shows."""
    with ExitStack() as stack:
        stack.enter_context(Patch(gaussian, "mu", lambda mu: cache(mu)))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for each in fault.patches if fault else ():
            stack.enter_context(each)
        one = transcript(pair.first, pair.relation)
        other = transcript(pair.second, pair.relation, one.said)
        apart = moved_by(one, other)
        a, b = (drawn(made, pair.relation, runs, at) for made, at in ((one, 10**6), (other, 2 * 10**6)))
    middle = (over_noise(one) + over_noise(other)) / 2
    # Noise that is the same in several releases shows in their differences: Fisher's direction finds it.
    differs = np.abs(apart) > 1e-3
    seen = [(samples - middle)[:, differs] for samples in (a, b)]
    half = runs // 2
    spread = sum(np.cov(samples[:half].T).reshape(differs.sum(), -1) for samples in seen) / 2
    fisher = np.linalg.solve(spread + 1e-6 * np.eye(len(spread)), apart[differs])
    trees = HistGradientBoostingClassifier(max_iter=60, random_state=0)
    trees.fit(np.r_[seen[0][:half], seen[1][:half]], np.r_[np.ones(half), np.zeros(half)])
    learnt = [np.r_[trees.decision_function(s[:half]), trees.decision_function(s[half:])] for s in seen]
    return {
        "mu stated": MU,
        "mu of the pair": float(np.linalg.norm(apart)),
        "mu, linear": max(least_mu(*(s @ apart for s in ((a - middle), (b - middle)))), 0.0),
        "mu, Fisher": max(least_mu(*(s @ fisher for s in seen)), 0.0),
        "mu, learnt": max(least_mu(*learnt), 0.0),
    }


def rows(runs: int = RUNS) -> Any:
    """Pair, fault, runs and what was found."""
    for pair in PAIRS:
        faults = FAULTS if pair.name == "outcome" else [FAULTS[0]]
        for fault in [None, *faults]:
            number = OF_FAULTS if fault else runs
            found = attack(pair, fault, number)
            caught = max(found[name] for name in ("mu, linear", "mu, Fisher", "mu, learnt")) > MU
            name = fault.name if fault else "as shipped"
            yield {"pair": pair.name, "fault": name, "runs": number, **found, "caught": caught}
