"""The releases of a column, with sensitivity and price: a schedule that is fixed before a cell is read.

**Privacy.** Neighbouring tables: one row (or one person's row) is replaced, or added or removed.
docs/proofs/prepare derives every sensitivity here; `tests/prepare/test_sensitivity.py` tries to exceed them.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pymc_dp.bounds import check_relation, check_target
from pymc_dp.prepare.kinds import Category, Kind, Numeric
from pymc_dp.privacy.accounting.calibration import calibrate
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.call import check_ledger
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.mechanisms.randomness import histogram_sensitivity
from pymc_dp.privacy.mechanisms.summaries import IntegerSums, ThresholdedCounts
from pymc_dp.rounding import round_up

#: Number of grid steps in a clip bound: numbers are rounded to these, so that sums are exact.
GRID = 2**20
#: Sensitivity of `moments`, in grid steps, under both relations: section 2 of the proof.
MOMENTS_SENSITIVITY = 2.0 * GRID + 2.0
#: Name of missing cells among levels: the empty text is no level.
MISSING = ""


def schedule(kind: Kind) -> tuple[str, ...]:
    """Return the releases of a column, in their order; each has the same share of the budget."""
    if isinstance(kind, Numeric):
        return ("octaves", "cells", "moments") if kind.bounds is None else ("cells", "moments")
    if isinstance(kind, Category) and kind.levels is None:
        return ("levels",)
    return ("counts",)


def measurement(release: str, rho: float, delta: float, relation: str) -> IntegerSums | ThresholdedCounts:
    """Make the mechanism of a release, which adds the noise and states the price."""
    if release == "levels":
        return ThresholdedCounts(rho, delta, relation)
    if release == "moments":
        return IntegerSums(rho, MOMENTS_SENSITIVITY)
    return IntegerSums(rho, histogram_sensitivity(relation))


# Exact sums; private. Each cell of a table contributes to them independently of other cells.


def histogram(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Count the numbers in each cell; the last count is of missing ones."""
    known = values[~np.isnan(values)]
    cells = np.searchsorted(edges, known, side="right")
    counts = np.bincount(cells, minlength=len(edges) + 1)
    return np.r_[counts, len(values) - len(known)].astype(np.int64)


def moments(values: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Compute count, sum and sqrt(2) times sum of squares of numbers scaled and clipped to [-1, 1].

    They are integers in units of 1 / `GRID`.
    """
    known = values[~np.isnan(values)]
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    with np.errstate(all="ignore"):
        z = (known - middle) / half
    # NaN, if bounds are too close for floating point, would become a huge integer.
    z = np.rint(np.clip(np.where(np.isnan(z), 0.0, z), -1, 1) * GRID)
    squares = np.rint(math.sqrt(2.0) * z**2 / GRID)
    return np.array([GRID * len(z), z.astype(np.int64).sum(), squares.astype(np.int64).sum()], dtype=np.int64)


def level_counts(levels: list[str | None]) -> dict[str, int]:
    """Count each level; missing cells are counted as `MISSING`."""
    return Counter(MISSING if level is None else level for level in levels)


def named_counts(levels: list[str | None], names: tuple[str, ...]) -> np.ndarray:
    """Count each of the named levels, then others, then missing cells."""
    number: Mapping[str | None, int] = {name: k for k, name in enumerate(names)} | {None: len(names) + 1}
    numbers = [number.get(level, len(names)) for level in levels]
    return np.bincount(numbers, minlength=len(names) + 2).astype(np.int64)


@dataclass(frozen=True)
class Target:
    """Price of `fit`.

    Attributes
    ----------
    epsilon, delta : float
    relation : str
    level_delta : float
        Part of delta for each column whose levels are not given.
    """

    epsilon: float
    delta: float
    relation: str
    level_delta: float

    @classmethod
    def of(
        cls, epsilon: float | None, delta: float | None, ledger: Ledger | None, relation: str | None
    ) -> "Target":
        """Check the arguments.

        Raises
        ------
        TypeError
            An argument is missing, or the ledger is none.
        ValueError
            An argument is out of range, or contradicts the ledger.
        """
        check_ledger(ledger, relation)
        if delta is None and ledger is not None:
            delta = ledger.delta
        if epsilon is None or delta is None:
            raise TypeError("Prepare needs epsilon= and delta=, the price of fit.")
        check_target(epsilon, delta)
        if math.isinf(epsilon):
            raise ValueError("epsilon must be finite: to see exact numbers of public rows, compute them.")
        relation = relation or ("substitute" if ledger is None else ledger.neighboring_relation)
        check_relation(relation)
        worst_epsilon, worst_delta = epsilon, delta
        if ledger is not None:
            if ledger.accounting != "renyi":
                raise ValueError(
                    "The ledger's accounting is 'gaussian', which has no price for OpenDP's discrete noise: "
                    "use one with accounting='renyi', the default."
                )
            worst_epsilon, worst_delta = max(epsilon, ledger.epsilon), min(delta, ledger.delta)
        # For each column whose levels are found, the share of delta exp(-epsilon) that it may use.
        # Accountants count it (1 + exp(epsilon)) times, and a ledger reserves a thousandth of delta for all
        # such columns (`privacy.budget.filters`): enough for 250.
        level_share = 2e-6
        # Least delta of such a column: OpenDP computes down to 2e-16.
        least_level_delta = 1e-15
        level_delta = max(level_share * worst_delta * math.exp(-worst_epsilon), least_level_delta)
        return cls(float(epsilon), float(delta), relation, level_delta)

    def __str__(self) -> str:
        return f"epsilon = {round_up(self.epsilon)}, delta = {round_up(self.delta)}, {self.relation}"


@lru_cache
def rho_of(releases: tuple[str, ...], target: Target) -> float:
    """Compute the price of each release, in zCDP, such that all together cost epsilon at delta, not more."""

    def events(rho: float) -> EventSet:
        made = [measurement(one, rho, target.level_delta, target.relation).event for one in releases]
        return EventSet(made, target.relation)

    return calibrate(events, target.epsilon, target.delta, low=1e-14, high=1e3)
