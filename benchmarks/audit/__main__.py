"""Plant faults in every sampler, to see whether the audit finds them, and is silent without.

    OMP_NUM_THREADS=1 python -m benchmarks.audit          # the table of docs/audit.md
    OMP_NUM_THREADS=1 python -m benchmarks.audit DPHMC    # rows that begin so
    OMP_NUM_THREADS=1 python -m benchmarks.audit compare check   # what no chain makes
    OMP_NUM_THREADS=1 python -m benchmarks.audit "likelihood's"  # releases of a likelihood
    OMP_NUM_THREADS=1 python -m benchmarks.audit whole    # mu of whole releases of a likelihood, by attack
    OMP_NUM_THREADS=1 python -m benchmarks.audit limits   # what hides below the slack, without sampling

Two data sets of a few records differ in one, whose clipped log-likelihood ratio (or gradient) is +B under the
first and -B under the second for a move to the right; those of the others are about zero. Moves are fixed, so
that the attacker knows them. The first component of theta is what that record depends on; a prior slope along
the second one puts the log-ratio where a decision tells most.
"""

import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd

from benchmarks.audit import summaries, whole
from benchmarks.audit.attack import DELTA
from benchmarks.audit.barker import (
    barker_on_all,
    barker_on_batches,
    fast_barker,
    fast_penalty,
    fast_published,
)
from benchmarks.audit.evaluation import rows as of_evaluation
from benchmarks.audit.faults import Fault, KnownSeed, Patch
from benchmarks.audit.gradients import hamiltonian, stochastic_gradients
from benchmarks.audit.likelihood import rows as of_likelihood
from benchmarks.audit.limits import limits
from benchmarks.audit.penalty import penalty_on_all, penalty_on_batches
from benchmarks.audit.step import audit, released
from benchmarks.results import store
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.proposals.walk import RandomWalk

COMMIT = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
COLUMNS = [
    *("sampler", "fault", "draws", "claimed epsilon", "epsilon at least", "P at least", "P' at most"),
    *("claim allows", "outcome", "commit"),
]
CASES = [
    penalty_on_all,
    penalty_on_batches,
    barker_on_all,
    barker_on_batches,
    fast_barker,
    fast_published,
    fast_penalty,
    hamiltonian,
    stochastic_gradients,
]


def cells(case):
    yield Fault("as shipped")
    if case.chain != case.draws:
        yield Fault("as shipped", draws=case.chain)
    yield from case.faults


def check(case, fault):
    case = replace(case, **fault.case)
    draws = fault.draws or case.draws
    with ExitStack() as stack:
        stack.enter_context(Patch(RandomWalk, "unit_length", new=np.sqrt(2.0)))  # else measured at each start
        stack.enter_context(Patch(gaussian, "mu", lambda mu: cache(mu)))  # the same in each run
        for each in fault.patches:
            stack.enter_context(each)
        probe = case.make(case.data[0], 0.0, **fault.arguments)
        plan = probe.cost(draws, 0)
        tilt = case.base(probe, plan, fault.factor) / case.move(plan)
        steps = [case.make(values, tilt, **fault.arguments) for values in case.data]
        if fault.name == "noise from random_seed":
            # Not every seed lets a decision of a short run depend on the record.
            for KnownSeed.seed in range(100):
                a, b = (released(step, draws, runs=4)["point"] for step in steps)
                if not np.array_equal(a, b):
                    break
        result = audit(
            lambda step: step,
            steps,
            draws=draws,
            runs=fault.runs or case.runs,
            score=case.score,
            claim=case.claim,
        )
    claimed = plan.guarantee.epsilon(DELTA) if case.claim is None else case.claim.epsilon
    return draws, claimed, result


def row_of(name, fault, draws, claimed, found):
    """Print a row of the table, and give it with names of columns."""
    verdict = "caught" if found.violated else "not refuted"
    numbers = [found.epsilon_lower, found.probability, found.other_probability, found.allowed]
    values = " | ".join(f"{value:.3g}" for value in numbers)
    shown = "**caught**" if found.violated else verdict
    print(f"| {name} | {fault} | {draws} | {claimed:.3g} | {values} | {shown} |", flush=True)
    return dict(zip(COLUMNS, [name, fault, draws, claimed, *numbers, verdict, COMMIT], strict=True))


def rows(words):
    """All rows that begin so, in the order of the table; those of steps come with their time."""
    start = time.perf_counter()
    for name, fault, claimed, found in of_evaluation(words):
        yield row_of(name, fault, "", claimed, found)
    for name, fault, claimed, found in of_likelihood(words):
        yield row_of(name, fault, 3, claimed, found)
    if words and all(word.startswith(("compare", "check", "likelihood's")) for word in words):
        return
    for build in CASES:
        case = build()
        for fault in cells(case):
            if words and not any(f"{case.name}: {fault.name}".startswith(word) for word in words):
                continue
            draws, claimed, found = check(case, fault)
            print(f"{time.perf_counter() - start:.0f} s: {case.name}, {fault.name}", file=sys.stderr)
            yield row_of(case.name, fault.name, draws, claimed, found)
    for name, fault, claimed, found in summaries.rows(words):
        yield row_of(name, fault, "", claimed, found)
    print(f"{time.perf_counter() - start:.0f} s", file=sys.stderr)


def main(words):
    """Print the table; all of it is stored."""
    print("| sampler | fault | draws | claimed ε | ε at least | P at least | P′ at most | claim allows | |")
    print("|---|---|---|---|---|---|---|---|---|")
    found = list(rows(words))
    if not words:
        store("audit", pd.DataFrame(found))


def whole_releases():
    """Print each row, and store it as it comes."""
    found = []
    for row in whole.rows():
        print(row, flush=True)
        found.append({**row, "commit": COMMIT})
        store("audit_whole", pd.DataFrame(found))


if __name__ == "__main__":
    {"limits": limits, "whole": whole_releases}.get(" ".join(sys.argv[1:]), lambda: main(sys.argv[1:]))()
