"""Records on Dask workers and of owners: speed with two workers; what an iteration costs besides; errors.

    OMP_NUM_THREADS=1 python -m benchmarks.cluster [--n 10000000] [--iterations 20]
    OMP_NUM_THREADS=1 python -m benchmarks.cluster --likelihood [--n 10000000]
    OMP_NUM_THREADS=1 python -m benchmarks.cluster --accuracy

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
BUDGET = {"epsilon": 1.0, "delta": 1e-9}


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


def likelihoods(n):
    """Print the times of a released likelihood: in one piece, in parts, on one worker and two, of owners."""

    def seconds(model=None, **kwargs):
        start = time.perf_counter()
        released = dp.release_likelihood(build((0, 8)) if model is None else model, **kwargs)
        return time.perf_counter() - start, len(released.facts["rounds"])

    def on_workers(workers):
        options = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
        with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
            return seconds(data=dp.Shards(build, parts(n, 4), client=client), **BUDGET)

    rows = {
        "in this process, one piece": lambda: seconds(build((0, n)), **BUDGET),
        "in this process, 4 parts": lambda: seconds(data=dp.Shards(build, parts(n, 4)), **BUDGET),
        "Dask, 1 worker, 4 parts": lambda: on_workers(1),
        "Dask, 2 workers, 4 parts": lambda: on_workers(2),
        "2 owners, processes of their own": lambda: seconds(
            owners=[dp.Owner(str(part[0]), build, part, **BUDGET) for part in parts(n, 2)]
        ),
    }
    print(f"n = {n}, d = {D}: seconds of a released likelihood, model and start of processes included")
    for name, measure in rows.items():
        taken, rounds = measure()
        print(f"  {name:35s}{taken:8.1f}   {rounds} sums", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  {peak:.1f} GiB in this process at most")


def accuracy(n=20_000, d=6, sets=10):
    """Print the error of a released likelihood: of one owner of all records, and of two of half each."""
    spread = {}
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(n, d)) / np.sqrt(d)
        beta = rng.normal(size=d)
        y = (rng.random(n) < 1 / (1 + np.exp(-x @ beta))).astype(int)
        exact = np.zeros(d)
        for _ in range(20):
            p = 1 / (1 + np.exp(-x @ exact))
            precision = (x * (p * (1 - p))[:, None]).T @ x
            exact = exact + np.linalg.solve(precision, x.T @ (y - p))
        root = np.linalg.cholesky(precision)
        halves = [(x[k::2], y[k::2]) for k in (0, 1)]
        for epsilon in (1.0, 2.0, 4.0):
            for name, given in (("one", [(x, y)]), ("two", halves)):
                owners = [
                    dp.Owner(str(k), logistic, part, epsilon=epsilon, delta=1e-6)
                    for k, part in enumerate(given)
                ]
                found = dp.release_likelihood(logistic((x[:8], y[:8])), owners=owners)
                mode = found.point + np.linalg.solve(found.information, found.gradient)
                away = float(np.linalg.norm(root.T @ (mode - exact)) / np.sqrt(d))
                wider = np.sqrt(np.diag(np.linalg.inv(found.information) @ precision)).mean()
                spread.setdefault((name, epsilon), []).append((away, float(wider)))
    print(f"n = {n}, d = {d}: distance from the maximum of the likelihood, in its standard deviations; width")
    for (name, epsilon), values in spread.items():
        away, wider = np.median(values, axis=0)
        print(f"  {name} owner(s), epsilon = {epsilon:g}: {away:.2f}, {wider:.2f}", flush=True)


def logistic(part):
    """Model of given rows."""
    x, y = part
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=x @ pm.Normal("beta", 0, 1, shape=x.shape[1]), observed=y)
    return model


def main():
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000_000)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--likelihood", action="store_true")
    parser.add_argument("--accuracy", action="store_true")
    arguments = parser.parse_args()
    if arguments.likelihood or arguments.accuracy:
        (likelihoods(arguments.n) if arguments.likelihood else accuracy())
        return
    overhead(100_000, 10 * arguments.iterations)
    speedup(arguments.n, arguments.iterations)


if __name__ == "__main__":
    main()
