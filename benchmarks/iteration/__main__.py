"""What an iteration of DPPenaltyMH costs, in ratios measured in one run.

    OMP_NUM_THREADS=1 python -m benchmarks.iteration             # everything, about ten minutes
    OMP_NUM_THREADS=1 python -m benchmarks.iteration --only overhead

Times are medians of alternating calls, so that a machine that changes its speed changes both sides of a
ratio.
"""

from functools import partial

import numpy as np
import pymc as pm

from benchmarks import running
from benchmarks.iteration.chains import Chain, MinimalStep, started
from benchmarks.iteration.processes import construction, memory
from benchmarks.iteration.regressions import regression
from benchmarks.running import medians
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID


def full_batch() -> None:
    """Iteration against a fused loop and against PyMC's own summed log-likelihood."""
    print(f"{'':28}{'ours':>9}{'loop':>9}{'PyMC':>9}{'ours/loop':>11}{'ours/PyMC':>11}   (ms)")
    cases = [
        ("logistic", 100_000, 10),
        ("logistic", 1_000_000, 10),
        ("logistic", 100_000, 50),
        ("poisson", 100_000, 10),
        ("normal", 100_000, 10),
    ]
    for family, n, d in cases:
        model, loop = regression(family, n, d)
        own = model.compile_fn(model.datalogp, inputs=model.value_vars, point_fn=False)
        own.trust_input = True
        step = started(model)
        point = model.initial_point(0)
        theta = step.records.ravel(point)
        values = [point[v.name] for v in model.value_vars]
        old, new = step.records.full_batch.rows(theta), np.empty(n)
        total = loop(theta + 0.01, old, GRID / 0.01, new)
        if abs(total - step.records.full_batch(theta + 0.01, old, 0.01).total) > 1e-5 * GRID:
            raise RuntimeError("the hand-written loop computes something else")
        by_hand = partial(loop, theta + 0.01, old, GRID / 0.01, new)
        ours, hand, pymc = medians([Chain(step, point), by_hand, partial(own, *values)])
        name = f"{family} n={n:.0e} d={d}"
        print(f"{name:28}{ours:9.3f}{hand:9.3f}{pymc:9.3f}{ours / hand:11.2f}{ours / pymc:11.2f}", flush=True)


def overhead() -> None:
    """Small data: what the machinery costs."""
    model, _ = regression("logistic", 100, 3)
    with model:
        steps = [started(model), MinimalStep(), pm.Metropolis()]
    ours, minimal, metropolis = medians([Chain(s, model.initial_point(0)) for s in steps])
    print(
        f"n=100 d=3: ours {1e3 * ours:.1f} us, minimal BlockedStep {1e3 * minimal:.1f} us, pm.Metropolis "
        f"{1e3 * metropolis:.1f} us; ours/minimal {ours / minimal:.2f}, ours/Metropolis "
        f"{ours / metropolis:.2f}"
    )


def minibatch() -> None:
    """Log-likelihood ratios of 1,000 random rows, at two sizes of the data."""
    calls = []
    for n in (10_000, 1_000_000):
        model, _ = regression("logistic", n, 10)
        records = RecordModel(model)
        batches = np.random.default_rng(0).integers(0, n, size=(500, 1000))
        theta = np.zeros(10)
        state = [0]

        def call(records=records, batches=batches, theta=theta, state=state):
            state[0] = (state[0] + 1) % len(batches)
            records.ratios(theta, theta, batches[state[0]])

        calls.append(call)
    small, large = medians(calls)
    print(f"minibatch of 1,000: n=1e4 {small:.4f} ms, n=1e6 {large:.4f} ms, ratio {large / small:.2f}")


PARTS = {
    "full_batch": full_batch,
    "overhead": overhead,
    "minibatch": minibatch,
    "construction": construction,
    "memory": memory,
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = running.parser(__doc__)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    running.silence()
    for name in parser.parse_args().only:
        PARTS[name]()


if __name__ == "__main__":
    main()
