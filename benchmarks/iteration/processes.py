"""What takes a fresh process: construction to the first draw, and memory."""

import numpy as np

from benchmarks import running
from benchmarks.iteration.chains import Chain, started
from benchmarks.iteration.regressions import regression

_FIRST_DRAW = """
import time
import numpy as np, pymc as pm, pymc_dp as dp
from benchmarks.iteration.regressions import regression
model, _ = regression("logistic", {n}, 10)
start = time.perf_counter()
with model:
    if {ours}:
        step = dp.DPPenaltyMH(epsilon=2, delta=1e-6, lipschitz=1.0, chains=1)
        step.setup_chain(np.random.default_rng(0), 500, 1000)
    else:
        step = pm.Metropolis()
        step.setup_chain(np.random.default_rng(0), 500, 1000)
    step.step(model.initial_point(0))
print(time.perf_counter() - start)
"""


def construction(n: int = 100_000, runs: int = 5) -> None:
    """From nothing to the first draw, in fresh processes."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for i in range(runs + 1):
        for ours in (True, False):
            code = _FIRST_DRAW.format(n=n, ours=ours)
            (seconds,) = running.printed_by(code)
            if i:  # the first warms the compilation cache for both
                times[ours].append(seconds)
    ours, metropolis = (float(np.median(times[k])) for k in (True, False))
    print(
        f"construction to first draw, n={n:.0e} d=10: ours {ours:.2f} s, pm.Metropolis {metropolis:.2f} s, "
        f"ratio {ours / metropolis:.2f}"
    )


_PEAK = """
import sys
sys.path.insert(0, {folder!r})
from benchmarks.iteration import peaks
peaks({n})
"""


def peaks(n: int) -> None:
    """Print resident memory with the model made, and the peaks of construction and of sampling, in bytes."""
    model, _ = regression("logistic", n, 10)
    made = running.memory()
    running.reset_peak()
    chain = Chain(started(model), model.initial_point(0))
    construction_peak = running.memory("VmHWM:")
    running.reset_peak()
    for _ in range(20):
        chain()
    print(made, construction_peak, running.memory("VmHWM:"))


def memory() -> None:
    """Peak memory in n-vectors of float64 beyond the model and its data (Linux only).

    From the growth between two sizes, so that the interpreter and the compiler do not count.
    """
    small, large = 1_000_000, 4_000_000
    sizes = []
    for n in (small, large):
        sizes.append(np.array(running.printed_by(_PEAK.format(n=n))))
    made, construction_peak, sampling_peak = (sizes[1] - sizes[0]) / (large - small) / 8
    print(
        f"memory in n-vectors, n={small:.0e} to {large:.0e} d=10: model {made:.1f}; beyond it, peak of "
        f"sampling {sampling_peak - made:.1f}, of construction {construction_peak - made:.1f}"
    )
