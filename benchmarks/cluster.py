"""Records on Dask workers: speed with two workers, and what an iteration costs besides.

    OMP_NUM_THREADS=1 python -m benchmarks.cluster [--n 10000000] [--iterations 20] [--control-variates]

Logistic regression, 10 coefficients; each part is generated on its worker.
"""

import argparse
import resource
import time

import numpy as np
import pymc as pm
from distributed import Client, LocalCluster

import pymc_dp as dp

D = 10


def build(part):
    """Model of ``part = (seed, rows)``, generated here."""
    seed, rows = part
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(rows, D))
    x /= np.sqrt(D)
    y = (rng.random(rows) < 0.5).astype(np.int8)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=D)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


def seconds_per_iteration(iterations, model=None, **kwargs):
    """Median time of an iteration; the model's own rows without `data` or `owners`."""
    model = build((0, 8)) if model is None else model
    if "owners" not in kwargs:
        kwargs |= {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0}
    with model:
        step = dp.DPPenaltyMH(chains=1, **kwargs)
    step.setup_chain(np.random.default_rng(0), 0, iterations + 3)
    point, times = model.initial_point(0), []
    for _ in range(iterations + 3):
        start = time.perf_counter()
        point, _ = step.step(point)
        times.append(time.perf_counter() - start)
    return float(np.median(times[3:]))


def parts(n, k):
    """Parts of equal size."""
    return [(seed, n // k) for seed in range(k)]


def on_cluster(workers, n, k, iterations):
    """Seconds an iteration, `k` parts on so many workers."""
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        return seconds_per_iteration(iterations, data=dp.Shards(build, parts(n, k), client=client))


def overhead(n, iterations):
    """Print what an iteration costs besides the arithmetic."""
    rows = {
        "in this process, one piece": lambda: seconds_per_iteration(iterations, model=build((0, n))),
        "in this process, 2 parts": lambda: seconds_per_iteration(
            iterations, data=dp.Shards(build, parts(n, 2))
        ),
        "Dask, 1 worker, 1 part": lambda: on_cluster(1, n, 1, iterations),
        "Dask, 2 workers, 2 parts": lambda: on_cluster(2, n, 2, iterations),
        "2 owners, processes of their own": lambda: seconds_per_iteration(
            iterations,
            owners=[
                dp.Owner(str(part[0]), build, part, epsilon=2.0, delta=1e-6, lipschitz=1.0)
                for part in parts(n, 2)
            ],
        ),
    }
    print(f"n = {n}, d = {D}: milliseconds an iteration (median of {iterations})")
    for name, measure in rows.items():
        print(f"  {name:35s}{measure() * 1e3:8.2f}")


def speedup(n, iterations):
    """Print the time of one worker and of two."""
    one = on_cluster(1, n, 2, iterations)
    two = on_cluster(2, n, 2, iterations)
    print(f"n = {n}, d = {D}: one worker {one:.3f} s, two {two:.3f} s an iteration, {one / two:.2f} times")


def with_surrogate(data, iterations):
    """Seconds until there is a surrogate, and of an iteration after it."""
    model = build((0, 8))
    with model:
        step = dp.DPPenaltyMH(epsilon=2.0, delta=1e-6, chains=1, control_variates=True, data=data)
    step.setup_chain(np.random.default_rng(0), 0, iterations + 1)
    point, times = model.initial_point(0), []
    for _ in range(iterations + 1):
        start = time.perf_counter()
        point, _ = step.step(point)
        times.append(time.perf_counter() - start)
    return times[0], float(np.median(times[1:]))


def surrogates(n, iterations):
    """Print the times of control variates: in this process, and on one worker and two."""
    rows = {"in this process, 4 parts": with_surrogate(dp.Shards(build, parts(n, 4)), iterations)}
    for workers in (1, 2):
        options = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
        with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
            data = dp.Shards(build, parts(n, 4), client=client)
            rows[f"Dask, {workers} worker(s), 4 parts"] = with_surrogate(data, iterations)
    for name, (first, other) in rows.items():
        print(f"  {name:35s} surrogate {first:8.1f} s, then {other:8.3f} s an iteration")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"n = {n}, d = {D}; {peak:.1f} GiB in this process at most")


def main():
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--control-variates", action="store_true")
    arguments = parser.parse_args()
    if arguments.control_variates:
        surrogates(arguments.n, arguments.iterations)
        return
    overhead(100_000, 10 * arguments.iterations)
    speedup(arguments.n, arguments.iterations)


if __name__ == "__main__":
    main()
