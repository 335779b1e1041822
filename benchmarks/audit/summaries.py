"""The case of `Prepare`: constants of a table in which one row is replaced.

It is no step and has no draws: samples of what `fit` releases go to the tester of the others.
"""

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np

import pymc_dp as dp
from benchmarks.audit.attack import DELTA
from benchmarks.audit.tester import TradeOffTester
from pymc_dp.prepare import fitting, releases
from pymc_dp.prepare.constants import LevelConstants
from pymc_dp.privacy.mechanisms.summaries import IntegerSums, ThresholdedCounts

RUNS = 4000
NUMBERS = {"x": dp.Numeric(bounds=(-1, 1))}
LEVELS = {"x": "category"}
# The worst that we know: from one end of the bounds to the other; a level that one record alone has.
ENDS = {"x": [0.0, 0.0, 1.0]}, {"x": [0.0, 0.0, -1.0]}
NAMES = {"x": ["a", "a", "b"]}, {"x": ["a", "a", "c"]}


def numbers(constants):
    """All that is released of a column, shape (k,)."""
    if isinstance(constants, LevelConstants):
        counts = dict(zip(constants.levels, constants.counts, strict=True))
        return [counts.get(name, -1.0) for name in ("a", "b", "c")]
    c = constants
    return [c.mean, c.std, c.mean * c.count, (c.std**2 + c.mean**2) * c.count, c.count, *c.cells.counts]


def _std(factor):
    """Noise of a release, so many times as large as it is priced for; OpenDP's price is not looked at."""
    scale = IntegerSums.std.fget
    return patch.object(IntegerSums, "std", property(lambda self: factor * scale(self)))


def _unclipped(values, lower, upper):
    known = values[~np.isnan(values)] * releases.GRID
    squares = np.sqrt(2) * known**2 / releases.GRID
    return np.array([releases.GRID * len(known), known.sum(), squares.sum()]).astype(np.int64)


_BLIND = patch("pymc_dp.privacy.mechanisms.summaries._agree")
FAULTS = {
    "as shipped": (NUMBERS, ENDS, ()),
    "noise halved": (NUMBERS, ENDS, (_BLIND, _std(0.5))),
    "not clipped": (
        NUMBERS,
        ({"x": [0.0, 0.0, 5.0]}, {"x": [0.0, 0.0, -5.0]}),
        (patch.object(fitting, "moments", _unclipped),),
    ),
    "levels, as shipped": (LEVELS, NAMES, ()),
    "levels without a threshold": (
        LEVELS,
        NAMES,
        (_BLIND, patch.object(ThresholdedCounts, "threshold", 1.0)),
    ),
}


def rows(words=()):
    """Name of the sampler, fault, claimed epsilon and what was found, for each fault."""
    for fault, (columns, tables, patches) in FAULTS.items():
        if words and not any(f"Prepare: {fault}".startswith(word) for word in words):
            continue
        with ExitStack() as stack:
            probe = dp.Prepare(columns, epsilon=6.0, delta=DELTA)
            for each in patches:
                stack.enter_context(each)
            stack.enter_context(patch.object(dp.Prepare, "_warn", lambda self: None))

            def sample(table, columns=columns):
                made = dp.Prepare(columns, epsilon=6.0, delta=DELTA).fit(table)
                return numbers(made.constants_["x"])

            samples = [np.array([sample(table) for _ in range(RUNS)]) for table in tables]
        claim = dp.privacy.compose(probe.events, reference_delta=DELTA)
        yield "Prepare", fault, claim.epsilon(DELTA), TradeOffTester(claim, DELTA).test(*samples)
