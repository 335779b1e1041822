"""What an iteration of DPPenaltyMH costs, in ratios measured in one run.

    OMP_NUM_THREADS=1 python benchmarks/iteration.py             # everything, about ten minutes
    OMP_NUM_THREADS=1 python benchmarks/iteration.py --only overhead

Times are medians of alternating calls, so that a machine that changes its speed changes both sides of a
ratio.
"""

import argparse
import logging
import subprocess
import sys
import time
import warnings
from functools import partial

import numba
import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep

import pymc_dp as dp
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID

DELTA = 1e-6


def medians(functions: list, seconds: float = 6.0) -> list[float]:
    """Median time of each function, in milliseconds, calls alternating."""
    for function in functions:
        function()
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 7:
        for function, out in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            out.append(time.perf_counter() - start)
    return [1e3 * float(np.median(t)) for t in times]


@numba.njit
def _clipped_step(new, old, scale):
    q = (new - old) * scale
    if q != q:
        return 0.0
    return np.rint(min(max(q, -1048576.0), 1048576.0))


# Hand-written fused loops: dot product, log-likelihood, clip, grid, sum, stored row; one pass, no
# temporaries.


@numba.njit
def logistic_loop(x, y, theta, old, scale, new):
    """Bernoulli with logits."""
    total = 0.0
    for i in range(x.shape[0]):
        z = 0.0
        for j in range(x.shape[1]):
            z += x[i, j] * theta[j]
        u = -z if y[i] else z
        new[i] = -(max(u, 0.0) + np.log1p(np.exp(-abs(u))))
        total += _clipped_step(new[i], old[i], scale)
    return total


@numba.njit
def poisson_loop(x, y, theta, old, scale, new, log_factorial):
    """Poisson with a log link; the factorials are tabulated beforehand."""
    total = 0.0
    for i in range(x.shape[0]):
        z = 0.0
        for j in range(x.shape[1]):
            z += x[i, j] * theta[j]
        new[i] = y[i] * z - np.exp(z) - log_factorial[i]
        total += _clipped_step(new[i], old[i], scale)
    return total


@numba.njit
def normal_loop(x, y, theta, old, scale, new):
    """Linear regression with unknown standard deviation (log scale)."""
    d = x.shape[1]
    constant = -0.5 * np.log(2 * np.pi) - theta[d]
    precision = np.exp(-theta[d])
    total = 0.0
    for i in range(x.shape[0]):
        z = 0.0
        for j in range(d):
            z += x[i, j] * theta[j]
        e = (y[i] - z) * precision
        new[i] = constant - 0.5 * e * e
        total += _clipped_step(new[i], old[i], scale)
    return total


def regression(family: str, n: int, d: int):
    """Model, data and hand-written loop of one regression."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, d)) / np.sqrt(d)
    eta = x @ rng.normal(size=d)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=d)
        if family == "logistic":
            y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
            pm.Bernoulli("y", logit_p=x @ beta, observed=y)
        elif family == "poisson":
            y = rng.poisson(np.exp(eta))
            pm.Poisson("y", pm.math.exp(x @ beta), observed=y)
        else:
            y = eta + rng.normal(size=n)
            pm.Normal("y", x @ beta, pm.HalfNormal("sigma"), observed=y)
    if family == "poisson":
        from scipy.special import gammaln

        table = gammaln(y + 1.0)
        return model, lambda t, old, s, new: poisson_loop(x, y, t, old, s, new, table)
    loop = logistic_loop if family == "logistic" else normal_loop
    return model, lambda t, old, s, new: loop(x, y, t, old, s, new)


def started(model, **kwargs):
    """A running chain of DPPenaltyMH and its current point."""
    with model:
        step = dp.DPPenaltyMH(epsilon=2, delta=DELTA, lipschitz=1.0, chains=1, **kwargs)
    step.setup_chain(np.random.default_rng(0), 0, 2_000_000)
    return step


class Chain:
    """Calls a step on its own result."""

    def __init__(self, step, point):
        self.step, self.point = step, point

    def __call__(self):
        """One iteration."""
        self.point, _ = self.step.step(self.point)


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


class MinimalStep(BlockedStep):
    """The least a Metropolis step can do: propose, evaluate the log-posterior, decide."""

    name = "minimal"
    stats_dtypes_shapes = {"accepted": (bool, [])}  # noqa: RUF012

    def __init__(self, vars=None, *, model=None, rng=None, blocked=True):
        model = pm.modelcontext(model)
        self.vars, self.rng = model.value_vars, np.random.default_rng(0)
        self.logp = model.compile_fn(model.logp(), inputs=model.value_vars, point_fn=False)
        self.logp.trust_input = True
        self.current = None

    def step(self, point):
        """One iteration."""
        values = [point[v.name] for v in self.vars]
        if self.current is None:
            self.current = self.logp(*values)
        proposal = [v + 0.01 * self.rng.standard_normal(v.shape) for v in values]
        new = self.logp(*proposal)
        accepted = -self.rng.standard_exponential() < new - self.current
        if accepted:
            self.current = new
            point = {v.name: p for v, p in zip(self.vars, proposal, strict=True)}
        return point, [{"accepted": accepted}]


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
    """Log-likelihoods of 1,000 random rows, at two sizes of the data."""
    calls = []
    for n in (10_000, 1_000_000):
        model, _ = regression("logistic", n, 10)
        records = RecordModel(model)
        batches = np.random.default_rng(0).integers(0, n, size=(500, 1000))
        theta = np.zeros(10)
        state = [0]

        def call(records=records, batches=batches, theta=theta, state=state):
            state[0] = (state[0] + 1) % len(batches)
            records.minibatch(theta, batches[state[0]])

        calls.append(call)
    small, large = medians(calls)
    print(f"minibatch of 1,000: n=1e4 {small:.4f} ms, n=1e6 {large:.4f} ms, ratio {large / small:.2f}")


_FIRST_DRAW = """
import sys, time
sys.path.insert(0, {folder!r})
import numpy as np, pymc as pm, pymc_dp as dp
from benchmarks.iteration import regression
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
    folder = __file__.rsplit("/", 1)[0]
    times: dict[bool, list[float]] = {True: [], False: []}
    for i in range(runs + 1):
        for ours in (True, False):
            code = _FIRST_DRAW.format(folder=folder, n=n, ours=ours)
            out = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code], capture_output=True, check=True
            )
            if i:  # the first warms the compilation cache for both
                times[ours].append(float(out.stdout.split()[-1]))
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


def _status(name: str) -> int:
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(name))


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def peaks(n: int) -> None:
    """Print resident memory with the model made, and the peaks of construction and of sampling, in bytes."""
    model, _ = regression("logistic", n, 10)
    made = _status("VmRSS:")
    _reset_peak()
    chain = Chain(started(model), model.initial_point(0))
    construction_peak = _status("VmHWM:")
    _reset_peak()
    for _ in range(20):
        chain()
    print(made, construction_peak, _status("VmHWM:"))


def memory() -> None:
    """Peak memory in n-vectors of float64 beyond the model and its data (Linux only).

    From the growth between two sizes, so that the interpreter and the compiler do not count.
    """
    folder = __file__.rsplit("/", 1)[0]
    small, large = 1_000_000, 4_000_000
    sizes = []
    for n in (small, large):
        code = _PEAK.format(folder=folder, n=n)
        out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, check=True)
        sizes.append(np.array(out.stdout.split()[-3:], dtype=float))
    made, construction_peak, sampling_peak = (sizes[1] - sizes[0]) / (large - small) / 8
    print(
        f"memory in n-vectors, n={small:.0e} to {large:.0e} d=10: model {made:.1f}; beyond it, peak of "
        f"sampling {sampling_peak - made:.1f}, of construction {construction_peak - made:.1f}"
    )


PARTS = {
    "full_batch": full_batch,
    "overhead": overhead,
    "minibatch": minibatch,
    "construction": construction,
    "memory": memory,
}


def main() -> None:
    """Run the parts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    for name in parser.parse_args().only:
        PARTS[name]()


if __name__ == "__main__":
    main()
