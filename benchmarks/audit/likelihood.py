"""The releases of a likelihood, each on the worst pair of data sets that we know.

What one record adds is as far as can be from what the other one adds: two bounds for scores, sqrt(2) for
slopes, two cells in each of two rows for scales, two cells for a spread. All others add 0, but where twins
matter. Three releases are made, of shares of one budget: two at the point, the last where every record adds
0. The attacker has the sum of the first two, and the first without the noise of the last.
"""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.audit.attack import DELTA, EPSILON
from benchmarks.audit.faults import Fault, HalfNoise, Patch
from benchmarks.audit.tester import TradeOffTester
from pymc_dp.likelihood import measurements, sources
from pymc_dp.likelihood.comparisons import SCORE_GRID, SLOPE_GRID, Bounds
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget import spending
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom

RUNS, OTHERS, TINY = 4000, 300, 1e-4
HERE, NOWHERE, METRIC = np.zeros(2), np.ones(2), np.eye(2)
SHARES = (0.45, 0.45, 0.1 - 4 * TINY)


@dataclass
class Release:
    """One kind of release: of a record under both data sets its outcome and its row; and the bounds."""

    kind: str
    outcomes: tuple[float, float]
    rows: tuple[tuple, tuple]
    bounds: Bounds
    seen: Callable
    faults: list
    apart: float


class Source:
    """One record, compared with itself and with its opposite."""

    size, touched, rank, lookups, sums, doubtful = 2, 2, 1, (), (), MappingProxyType({})

    def __init__(self, outcome: float, row: tuple):
        self.outcome, self.row = outcome, np.array(row)

    def __call__(self, phi: np.ndarray, twins: int, random: Any, each: Any) -> Any:
        """The record, at a point; nothing at another one."""
        own = np.array([[self.outcome]])
        yield lambda: chunk(own, np.stack([own, -own]), (phi[0] == 0) * self.row[None, None])


class Shifting(Source):
    """With others, which add what their twins say; the record's outcome shifts the stream of these."""

    def __call__(self, phi: np.ndarray, twins: int, random: Any, each: Any) -> Any:
        """The record, and then the others."""
        yield from super().__call__(phi, twins, random, each)
        random.uniform(1 if self.outcome > 0 else 2)  # as sampling by rejection does
        own = np.ones((OTHERS, 1))
        drawn = np.where(random.uniform(OTHERS) < 0.5, 1.0, -1.0)[:, None]
        yield lambda: chunk(own, np.stack([own, drawn]), (phi[0] == 0) * np.eye(2)[None, :1])


class Varied(Source):
    """Compared with its opposite and itself as twins, whose standard deviation is the outcome's size."""

    def __call__(self, phi: np.ndarray, twins: int, random: Any, each: Any) -> Any:
        """The record."""
        own = np.array([[self.outcome]])
        yield lambda: chunk(own, np.stack([own, own, -own]), (phi[0] == 0) * self.row[None, None])


class Ranked(Source):
    """Compared with nineteen points of length one: nearest or farthest; in no cell at another point."""

    def __call__(self, phi: np.ndarray, twins: int, random: Any, each: Any) -> Any:
        """The record."""
        own = np.array([[self.outcome]])
        row = self.row[None, None] if phi[0] == 0 else np.full((1, 1, 2), np.nan)
        yield lambda: chunk(own, np.concatenate([own[None], np.ones((19, 1, 1))]), row)


def chunk(own: np.ndarray, group: np.ndarray, rows: np.ndarray) -> Any:
    """Of one term."""
    term = SimpleNamespace(
        own=own, group=group, weights=None, at_risk=False, rows=lambda metric: rows @ metric
    )
    return SimpleNamespace(terms=[term], first=None)


def unbounded(compare: Callable) -> Callable:
    """Records with bounds that are a hundred times too wide."""

    def apply(
        own: Any, group: Any, weights: Any, rows: Any, bounds: Bounds, totals: Any, *units: Any
    ) -> None:
        found = measurements.Totals(rows.shape[2])
        wide = Bounds(100 * bounds.score, 100 * bounds.slope)
        compare(own, group, weights, rows, wide, found, *units)
        for name in ("score", "slope", "trace"):
            setattr(totals, name, getattr(totals, name) + 100 * getattr(found, name))

    return apply


def same_noise(release: Callable) -> Callable:
    """All releases have the noise of the first."""

    def apply(self: Any, total: np.ndarray, std: float) -> Any:
        random = self._spending.random
        firsts = vars(random).setdefault("firsts", {})
        stream = random.generator.bit_generator
        stream.state = firsts.setdefault(total.shape, stream.state)
        return release(self, total, std)

    return apply


def public_stream(call: Callable) -> Callable:
    """Twins are drawn from a stream that the attacker knows."""
    return lambda self, phi, twins, random: call(self, phi, twins, PrivacyRandom(0))


def of_scales(found: Any) -> np.ndarray:
    return found.counts[:, 44] - found.counts[:, 40]


COMMON = [
    Fault("noise halved", (Patch(spending, "PrivacyRandom", new=HalfNoise),)),
    Fault("same noise each time", (Patch(Measurements, "_release", same_noise),)),
    Fault("each share is the whole", (Patch(Spending, "portion", new=lambda self, share: self._left[0]),)),
]
NOT_BOUNDED = Fault("not bounded", (Patch(sources, "compare", unbounded),))
RELEASES = [
    Release(
        "score",
        (1e3, -1e3),
        ((1.0, 0.0), (1.0, 0.0)),
        Bounds(1.0, 1e9),
        lambda found: found.score[0] / found.score_noise,
        [
            Fault("sensitivity C for 2C", (Patch(measurements, "SCORE_GRID", new=SCORE_GRID / 2),)),
            NOT_BOUNDED,
        ],
        2.0,
    ),
    Release(
        "slope",
        (1e9, 1e9),
        ((1.0, 0.0), (0.0, 1.0)),
        Bounds(1.0, 1.0),
        lambda found: (found.slope[0, 0] - found.slope[1, 1]) / found.slope_noise / np.sqrt(2),
        [
            Fault("half the sensitivity", (Patch(measurements, "SLOPE_GRID", new=SLOPE_GRID / 2),)),
            NOT_BOUNDED,
        ],
        np.sqrt(2),
    ),
    Release(
        "scales",
        (16.0, 1.0),
        ((1.0, 1.0), (1.0, 1.0)),
        Bounds(1.0, 1.0),
        lambda found: of_scales(found).sum() / found.noise / 2,
        [
            Fault(
                "counted three times",
                (Patch(sources, "count_octaves", lambda of: lambda *a: 3 * of(*a)),),
            )
        ],
        2.0,
    ),
    Release(
        "spread",
        (16.0, 0.1),
        ((1.0, 0.0), (1.0, 0.0)),
        Bounds(1.0, 1.0),
        lambda found: (found.counts[-1] - found.counts[0]) / found.noise / np.sqrt(2),
        [
            Fault(
                "counted three times",
                (Patch(sources, "count_places", lambda of: lambda *a: 3 * of(*a)),),
            )
        ],
        np.sqrt(2),
    ),
]
TWINS = Release(
    "score, with twins",
    (1e3, -1e3),
    ((1.0, 0.0), (1.0, 0.0)),
    Bounds(1.0, 1e9),
    RELEASES[0].seen,
    [Fault("twins from a public stream", (Patch(Shifting, "__call__", public_stream),))],
    2.0,
)


def measured(release: Release, made: Measurements, phi: np.ndarray, share: float) -> Any:
    """One release; a slope comes with a score, and a score with a slope, of which next to nothing is paid."""
    if release.kind == "scales":
        return made.scales(phi, 1, share)
    if release.kind == "spread":
        made.kept["spread"] = share
        return made.spread(phi, METRIC)
    shares = (TINY, share) if release.kind == "slope" else (share, TINY)
    return made.compare(phi, METRIC, release.bounds, 1, shares)


def source_of(release: Release, which: int) -> Source:
    kind = Shifting if release is TWINS else {"scales": Varied, "spread": Ranked}.get(release.kind, Source)
    return kind(release.outcomes[which], release.rows[which])


def apart(release: Release) -> float:
    """How far apart the two data sets' sums are, in units of the bound, as shipped."""
    found = []
    for which in (0, 1):
        paid = Spending(np.inf, DELTA, [1.0], "substitute")
        paid.pay()
        one = measured(
            release, Measurements(RecordsHere(source_of(release, which), paid.random), paid), HERE, 0.5
        )
        found.append(getattr(one, {"scales": "counts", "spread": "counts"}.get(release.kind, release.kind)))
    return float(np.linalg.norm(found[0] - found[1]))


def samples(release: Release, which: int, seed: int) -> np.ndarray:
    """What an attacker computes in each run."""
    found = []
    for run in range(RUNS):
        paid = Spending(EPSILON, DELTA, [1.0], "substitute", debug_seed=seed + run)
        paid.pay()
        made = Measurements(RecordsHere(source_of(release, which), paid.random), paid)
        first, second, last = (
            release.seen(measured(release, made, phi, share))
            for phi, share in zip((HERE, HERE, NOWHERE), SHARES, strict=True)
        )
        both = first + second
        found.append([both, -both, first - last, last - first])
    return np.array(found)


def audit_release(release: Release, fault: Fault) -> tuple[float, Any]:
    """Claimed epsilon, and what the tester finds."""
    claim = Spending(EPSILON, DELTA, [1.0], "substitute").guarantee
    with ExitStack() as stack:
        stack.enter_context(Patch(gaussian, "mu", lambda mu: cache(mu)))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if release is not TWINS and not 0.99 * release.apart <= apart(release) <= release.apart:
            raise RuntimeError(f"{release.kind}: not the worst pair of data sets")
        for each in fault.patches:
            stack.enter_context(each)
        found = [samples(release, which, seed) for which, seed in ((0, 0), (1, 10**6))]
    return claim.epsilon(DELTA), TradeOffTester(claim, DELTA).test(*found)


def rows(words: list[str]) -> Any:
    """Name, fault, claimed epsilon, result."""
    for release in [*RELEASES, TWINS]:
        name = f"likelihood's {release.kind}"
        common = COMMON if release is not TWINS else []
        for fault in [Fault("as shipped"), *common, *release.faults]:
            if not words or any(f"{name}: {fault.name}".startswith(word) for word in words):
                yield name, fault.name, *audit_release(release, fault)
