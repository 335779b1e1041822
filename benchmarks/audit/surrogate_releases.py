"""The releases of a surrogate, one at a time, each on the worst pair of data sets that we know.

One record is replaced; what it adds to a sum is as far as can be from what the other one adds (two bounds, or
sqrt(2) for outer products and histograms), and all others add 0. A release is made twice, the second time
where every record adds 0: it tells nothing, but if its noise is that of the first.
"""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks.audit.attack import DELTA, EPSILON
from benchmarks.audit.faults import Fault, HalfNoise, Patch
from pymc_dp.control_variates import record_sums
from pymc_dp.control_variates import releases as released
from pymc_dp.control_variates.record_sums import GRID, RecordSums
from pymc_dp.control_variates.releases import SCALES, Releases, surrogate_events
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import Gaussian, PrivacyRandom
from pymc_dp.records import curvature_kernels
from pymc_dp.records.model import RecordModel
from pymc_dp.tester import TradeOffTester

RUNS, OTHERS, SHARES = 2000, 3, (0.9, 0.1)
PHI, METRIC, NOWHERE, CENTRE = np.zeros(2), np.eye(2), 1e-30 * np.eye(2), np.zeros(2)
NO_LINE, LINE = [PHI, PHI], [np.array([1.0, 0.0]), np.array([0.9, 0.0])]


@dataclass
class Release:
    """One kind of release.

    `data` are ((x_1, x_2), y) of the record under both data sets, `arguments` those of the sum, and where
    nothing is added; `directions` are where what the two add differs.
    """

    kind: str
    data: tuple
    arguments: tuple
    nowhere: tuple
    directions: Callable
    faults: list = field(default_factory=list)


def records(one: tuple) -> RecordModel:
    """Cauchy regression, where gradients have any sign, and so have Hessians."""
    (x, y) = one
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        rows = np.vstack([x, np.zeros((OTHERS, 2))])
        pm.Cauchy("y", rows @ beta, 1.0, observed=np.r_[y, np.zeros(OTHERS)])
    return RecordModel(model, verify=False)


def along(*entries: tuple[int, float]) -> Callable:
    """Of a noisy sum, these entries with their weights."""
    return lambda values: sum(weight * values[place] for place, weight in entries)


def wide(times: float) -> Callable:
    """A kernel that clips, with a bound so many times too wide."""

    def wrap(kernel: Callable) -> Callable:
        def apply(rows: Any, *arguments: Any) -> Any:
            if len(arguments) == 2:  # to_grid
                return kernel(rows, arguments[0], times * arguments[1])
            return kernel(rows, *arguments[:2], times * arguments[2], arguments[3])

        return apply

    return wrap


def whole_vectors(self: Any, metric: Any, centre: Any, *arguments: Any) -> np.ndarray:
    """What directions and cuts are made of, neither of length 1 nor clipped."""
    return (arguments[-1].whitened(metric, centre) * GRID).astype(np.int64).sum(axis=0)


def unclipped_line(new: Any, base: Any, tempering: float, grid: float) -> int:
    """A line search whose ratios are not clipped."""
    return int(np.trunc(tempering * (new - base) * grid).sum())


def same_noise(release: Callable) -> Callable:
    """The second release has the noise of the first."""

    def apply(self: Any, total: Any, random: Any) -> Any:
        first = vars(random).setdefault("first", random.state)
        random.state = first
        return release(self, total, random)

    return apply


def halved(sensitivity: Callable) -> Callable:
    """A sensitivity of half the size."""
    return lambda *arguments: 0.5 * sensitivity(*arguments)


GRADIENT = ((100.0, 0.0), 1.0), ((100.0, 0.0), -1.0)
TOO_WIDE = Fault("not clipped", (Patch(curvature_kernels, "to_grid", wide(1e3)),))
RELEASES = [
    Release("gradient", GRADIENT, (METRIC, CENTRE, 1.0), (NOWHERE, CENTRE, 1.0), along((0, 1.0)), [TOO_WIDE]),
    Release(
        "hessian",
        (((10.0, 0.0), 3**0.5), ((10.0, 0.0), 0.0)),
        (METRIC, 1.0),
        (NOWHERE, 1.0),
        along((0, 1.0)),
        [Fault("not clipped", (Patch(curvature_kernels, "add_rank_one", wide(1e3)),))],
    ),
    Release(
        "fisher",
        (((100.0, 0.0), 1.0), ((0.0, 100.0), 1.0)),
        (METRIC, 1.0),
        (NOWHERE, 1.0),
        along((0, 1.0), (2, -1.0)),
        [TOO_WIDE],
    ),
    Release(
        "histogram",
        (((100.0, 0.0), 1.0), ((1.0, 0.0), 1.0)),
        (METRIC, CENTRE, (1,)),
        (NOWHERE, CENTRE, (1,)),
        along((46, 1.0), (40, -1.0)),
        [Fault("counted three times", (Patch(record_sums, "counts_of", lambda of: lambda *a: 3 * of(*a)),))],
    ),
    Release(
        "direction",
        GRADIENT,
        (METRIC, CENTRE, 10.0),
        (NOWHERE, CENTRE, 10.0),
        along((0, 1.0)),
        [Fault("not of length 1", (Patch(RecordSums, "_direction_of", new=whole_vectors),))],
    ),
    Release(
        "cut",
        GRADIENT,
        (METRIC, CENTRE, 1.0, 1.0),
        (NOWHERE, CENTRE, 1.0, 1.0),
        along((0, 1.0)),
        [Fault("not clipped", (Patch(RecordSums, "_cut_of", new=whole_vectors),))],
    ),
    Release(
        "line",
        (((1e6, 0.0), 1e6), ((1e6, 0.0), -1e6)),
        (LINE, 1.0),
        (NO_LINE, 1.0),
        along((0, 1.0), (1, 1.0)),
        [Fault("not clipped", (Patch(curvature_kernels, "sum_of_ratios", new=unclipped_line),))],
    ),
]
COMMON = [
    Fault("noise halved"),
    Fault("sensitivity B for 2B", (Patch(released, "sensitivity", halved),)),
    Fault("same noise twice", (Patch(Gaussian, "release", same_noise),)),
]


def settings_of(release: Release) -> Any:
    """A schedule of two releases of one kind."""
    shipped = dp.ControlVariates()
    return SimpleNamespace(
        schedule=lambda: [(release.kind, share) for share in SHARES],
        structure=shipped.structure,
        recentre=False,
        line_steps=(1.0,),
    )


def apart(release: Release, models: list[RecordModel]) -> float:
    """How far apart what the two records add is, in units of the bound, as shipped; of the second: 0."""
    found = []
    for arguments in (release.arguments, release.nowhere):
        sums = [
            RecordSums(one, released.structure_of(settings_of(release).structure, one.coordinates))
            for one in models
        ]
        a, b = (one(release.kind, PHI, *arguments) / SCALES[release.kind] for one in sums)
        found.append(float(np.linalg.norm(a - b)))
    if found[1] != 0:
        raise RuntimeError("the second release is not the same of both data sets")
    return found[0]


def samples(release: Release, one: RecordModel, noise: type, seed: int) -> np.ndarray:
    """What an attacker computes in each run."""
    settings, squared = settings_of(release), float(gaussian.mu(EPSILON, DELTA)) ** 2
    found = []
    for run in range(RUNS):
        made = Releases(one, settings, squared, noise(seed + run, 0))
        first, (std, *_) = made.release(release.kind, PHI, *release.arguments)
        second, (other, *_) = made.release(release.kind, PHI, *release.nowhere)
        seen = release.directions(first)
        found.append([seen, seen - release.directions(second) * std / other])
    return np.array(found)


def audit_release(release: Release, fault: Fault) -> tuple[float, Any]:
    """Claimed epsilon, and what the tester finds."""
    events = surrogate_events(settings_of(release), EPSILON, DELTA)
    claim = dp.privacy.compose(events, "substitute", reference_delta=DELTA)
    models = [records(one) for one in release.data]
    worst = released.sensitivity(release.kind, "substitute", 2 if release.kind == "line" else 1)
    if not 0.99 * worst <= apart(release, models) <= worst:
        raise RuntimeError(f"{release.kind}: not the worst pair of data sets")
    with ExitStack() as stack:
        stack.enter_context(Patch(gaussian, "mu", lambda mu: cache(mu)))
        for each in fault.patches:
            stack.enter_context(each)
        warnings.simplefilter("ignore")
        noise = HalfNoise if fault.name == "noise halved" else PrivacyRandom
        found = [samples(release, one, noise, seed) for one, seed in zip(models, (0, 10**6), strict=True)]
    return claim.epsilon(DELTA), TradeOffTester(claim, DELTA).test(*found)


def rows(words: list[str]) -> Any:
    """Name, fault, claimed epsilon, result."""
    for release in RELEASES:
        name = f"surrogate's {release.kind}"
        for fault in [Fault("as shipped"), *COMMON, *release.faults]:
            if not words or any(f"{name}: {fault.name}".startswith(word) for word in words):
                yield name, fault.name, *audit_release(release, fault)
