"""What a clipped sum of per-record gradients costs, in ratios measured in one run.

    OMP_NUM_THREADS=1 python -m benchmarks.gradients             # everything, about fifteen minutes
    OMP_NUM_THREADS=1 python -m benchmarks.gradients --only cost --families logistic linear

"plain" is PyTensor's gradient of PyMC's summed log-likelihood of the same model, compiled in the same mode:
no clipping, no record by itself. Times are medians over alternating calls, of the process's own time (one
thread), so that what else the machine does matters less.
"""

import time
from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks import running
from pymc_dp.records.model import RecordModel

GROUPS = 20
BOUND = 1.0


def declare(family: str, n: int, d: int) -> pm.Model:
    """Model of a family with n records; d covariates where it has any."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, d)) / np.sqrt(d)
    eta = x @ rng.normal(size=d)
    y = eta + rng.normal(size=n)
    group = rng.integers(0, GROUPS, n)
    with pm.Model() as model:
        if family in ("logistic", "linear", "poisson", "zero-inflated"):
            linear = x @ pm.Normal("b", 0, 2, shape=d)
        if family == "logistic":
            pm.Bernoulli("y", logit_p=linear, observed=(y > 0).astype(int))
        elif family == "linear":
            pm.Normal("y", linear, pm.HalfNormal("s"), observed=y)
        elif family == "poisson":
            pm.Poisson("y", pm.math.exp(linear), observed=rng.poisson(np.exp(eta)))
        elif family == "zero-inflated":
            counts = rng.poisson(np.exp(eta)) * (rng.random(n) < 0.7)
            pm.ZeroInflatedPoisson("y", psi=pm.Beta("p", 1, 1), mu=pm.math.exp(linear), observed=counts)
        elif family.startswith("hierarchical"):
            effects = pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=GROUPS)
            linear = effects[group] + x @ pm.Normal("b", 0, 2, shape=d)
            if family == "hierarchical":
                pm.Bernoulli("y", logit_p=linear, observed=(y > 0).astype(int))
            else:
                pm.Normal("y", linear, pm.HalfNormal("s"), observed=y)
        elif family == "softmax":
            probabilities = pm.math.softmax(x @ pm.Normal("w", shape=(d, 3)), axis=-1)
            pm.Categorical("y", p=probabilities, observed=rng.integers(0, 3, n))
        elif family == "mixture":
            weights = pm.Dirichlet("w", np.ones(3))
            pm.NormalMixture("y", weights, pm.Normal("m", shape=3), pm.HalfNormal("s", shape=3), observed=y)
        elif family == "MvNormal":
            chol, _, _ = pm.LKJCholeskyCov("c", n=3, eta=2, sd_dist=pm.HalfNormal.dist(shape=3))
            pm.MvNormal("y", pm.Normal("m", shape=3), chol=chol, observed=rng.normal(size=(n, 3)))
    return model


# Family, n, d, and how much slower than the plain gradient it may be.
CASES = [
    ("logistic", 1_000_000, 10, 1.5),
    ("logistic", 100_000, 50, 1.5),
    ("linear", 1_000_000, 10, 1.5),
    ("linear", 100_000, 50, 1.5),
    ("poisson", 1_000_000, 10, 1.5),
    ("poisson", 100_000, 50, 1.5),
    ("hierarchical", 100_000, 2, 4.0),
    ("hierarchical normal", 100_000, 2, 4.0),
    ("softmax", 100_000, 10, 4.0),
    ("mixture", 100_000, 1, 4.0),
    ("zero-inflated", 100_000, 10, 4.0),
    ("MvNormal", 100_000, 3, 10.0),
]


def cost(families: list[str]) -> None:
    """All records, against the plain gradient; and what compiling took."""
    print(f"{'':34}{'ours':>9}{'plain':>9}{'ratio':>8}{'limit':>7}   (ms){'first call ours, plain (s)':>30}")
    for family, n, d, limit in CASES:
        if families and family not in families:
            continue
        model = declare(family, n, d)
        records = RecordModel(model)
        point = model.initial_point(0)
        rng = np.random.default_rng(0)
        theta = records.ravel(point) + 0.1 * rng.normal(size=records.d)
        values = [records.unravel(theta)[v.name] for v in model.value_vars]
        start = time.perf_counter()
        gradient = pt.concatenate([pt.grad(model.datalogp, v).ravel() for v in model.value_vars])
        plain = model.compile_fn(gradient, inputs=model.value_vars, point_fn=False, on_unused_input="ignore")
        plain.trust_input = True
        expected = plain(*values)
        plain_seconds = time.perf_counter() - start
        start = time.perf_counter()
        got = records.gradients(theta, 1e3)
        seconds = time.perf_counter() - start
        if got.clipped or not np.allclose(got.total, expected, rtol=1e-6, atol=4e-5 * n):
            raise RuntimeError("the clipped sum without clipping is something else")
        ours, theirs = running.medians(
            [partial(records.gradients, theta, BOUND), partial(plain, *values)], clock=time.process_time
        )
        name = f"{family} n={n:.0e} d={d}"
        print(
            f"{name:34}{ours:9.2f}{theirs:9.2f}{ours / theirs:8.2f}{limit:7.1f}"
            f"{seconds:21.1f}{plain_seconds:8.1f}",
            flush=True,
        )


def minibatch(families: list[str]) -> None:
    """Batches of 1,000 random records, at two sizes of the data."""
    for family in families or ["logistic", "linear", "hierarchical"]:
        calls = []
        for n in (10_000, 1_000_000):
            records = RecordModel(declare(family, n, 10))
            batches = iter(np.random.default_rng(0).integers(0, n, size=(100_000, 1000)))
            theta = np.full(records.d, 0.1)
            calls.append(lambda r=records, t=theta, b=batches: r.gradients.batch(t, next(b), BOUND))
        small, large = running.medians(calls, clock=time.process_time)
        print(
            f"{family}, batch of 1,000: n=1e4 {small:.4f} ms, n=1e6 {large:.4f} ms, ratio {large / small:.2f}"
        )


_PEAK = """
from benchmarks.gradients import peak
peak({family!r})
"""


def peak(family: str) -> None:
    """Print by how much memory peaks while gradients are summed, compilation before, in bytes."""
    records = RecordModel(declare(family, 1_000_000, 10))
    theta = np.full(records.d, 0.1)
    records.gradients.batch(theta, np.arange(10_000), BOUND)
    before = running.memory()
    running.reset_peak()
    for _ in range(5):
        records.gradients(theta, BOUND)
    print(running.memory("VmHWM:") - before)


def memory(families: list[str]) -> None:
    """Peak memory beyond what is there before the first sum over all records, n = 1e6, d = 10 (Linux)."""
    for family in families or ["logistic", "linear", "hierarchical"]:
        (bytes_more,) = running.printed_by(_PEAK.format(family=family))
        print(f"{family}, n=1e6 d=10: peak {bytes_more / 2**20:.1f} MiB more", flush=True)


PARTS = {"cost": cost, "minibatch": minibatch, "memory": memory}


def main() -> None:
    """Run the parts that were asked for."""
    parser = running.parser(__doc__)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--families", nargs="+", default=[])
    arguments = parser.parse_args()
    running.silence()
    for name in arguments.only:
        PARTS[name](arguments.families)


if __name__ == "__main__":
    main()
