"""The cases of comparisons and checks: noisy sums that no chain makes.

Two data sets differ in one record, whose difference of scores is as large as can be in favour of one model
or of the
other (comparison), or which lies at one end of its predictive distribution or at the other (check). The
attacker knows all other records, and computes the likelihood ratio of what was released.
"""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from unittest.mock import patch

import numpy as np

from benchmarks.audit.faults import Fault, HalfNoise, Patch
from benchmarks.audit.tester import TradeOffTester
from pymc_dp.evaluation import check as checking
from pymc_dp.evaluation import differences
from pymc_dp.evaluation.check import Pit, released_counts
from pymc_dp.evaluation.compare import shares
from pymc_dp.evaluation.differences import total_of
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget import spending
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum

EPSILON, DELTA, CONFIDENCE = 4.0, 1e-5, 1 - 1e-6
OTHERS = np.full(400, 0.3)
PLACES = (np.arange(400) + 0.5) / 400
CELLS = 10


@dataclass
class Release:
    """What is audited: `run` makes one release of a record, and `score` says what it tells.

    `run(sign, spending)` gives numbers; the likelihood ratio is a sum of them.
    """

    name: str
    shares: list
    run: Callable
    faults: list


def comparison(sign, paid):
    """Evidence of the histogram, the sum and the squares."""
    values = np.r_[sign * 1e9, OTHERS]
    found = total_of(values, np.zeros(values.size, dtype=bool), paid, values.size)
    counts = (found.counts[-2] - found.counts[0]) / found.counts_noise**2
    known = OTHERS.clip(-found.bound, found.bound).sum()
    return [counts + (found.sum - known) * 2 * found.bound / found.noise**2, found.sum, counts]


def check(sign, paid):
    """Evidence of the counts."""
    places = np.r_[0.5 + 0.49 * sign, PLACES][:, None]
    counts, noise = released_counts(Pit(places, places), CELLS, None, places.size, paid)
    return [(counts[-1] - counts[0]) / noise**2, *counts]


def unclipped(values, void, bound):
    """A sum of what records have, up to 100 bounds."""
    inside = np.clip(values / bound, -100.0, 100.0)
    return int((inside * differences.GRID).sum()), int((inside**2 * differences.GRID).sum())


HALF = Fault("noise halved", (Patch(spending, "PrivacyRandom", new=HalfNoise),))
RELEASES = [
    Release(
        "compare",
        shares(1),
        comparison,
        [
            HALF,
            Fault("sensitivity C for 2C", (Patch(ExactSum, "sensitivity", new=staticmethod(lambda _: 1.0)),)),
            Fault("differences not clipped", (Patch(differences, "clipped_sums", new=unclipped),)),
            Fault(
                "a seventh of the histogram's noise",
                (Patch(differences, "histogram_sensitivity", new=lambda _: 0.2),),
            ),
        ],
    ),
    Release(
        "check",
        [1.0],
        check,
        [
            HALF,
            Fault(
                "rows of two entries added up",
                (Patch(checking, "masses", lambda masses: lambda *args: 2 * masses(*args)),),
            ),
        ],
    ),
]


def samples(release, sign, runs, seed):
    """What an attacker computes in each run."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for run in range(runs):
            paid = Spending(EPSILON, DELTA, release.shares, "substitute", debug_seed=seed + run)
            paid.pay()
            found.append(release.run(sign, paid))
    return np.array(found)


def audit_release(release, fault, runs=4000):
    """Claimed epsilon, and what the tester finds."""
    claim = Spending(EPSILON, DELTA, release.shares, "substitute").guarantee
    with ExitStack() as stack:
        stack.enter_context(patch.object(gaussian, "mu", cache(gaussian.mu)))
        for each in fault.patches:
            stack.enter_context(each)
        a, b = (samples(release, sign, runs, seed) for sign, seed in ((1.0, 0), (-1.0, 10**6)))
    return claim.epsilon(DELTA), TradeOffTester(claim, DELTA, CONFIDENCE).test(a, b)


def rows(words):
    """Name, fault, claimed epsilon, result."""
    for release in RELEASES:
        for fault in [Fault("as shipped"), *release.faults]:
            if not words or any(f"{release.name}: {fault.name}".startswith(word) for word in words):
                yield release.name, fault.name, *audit_release(release, fault)
