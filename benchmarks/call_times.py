"""Seconds of a whole call of `dp.sample`, from the model to its draws, each in a process of its own.

    OMP_NUM_THREADS=1 python -m benchmarks.call_times                     # about nine minutes, idle
    OMP_NUM_THREADS=1 python -m benchmarks.call_times --only groups --repeats 3

The release alone, and the call (with the 1,000 draws of each of four chains by `pm.sample`): medians, and the
longest call. Compilation is included, but for what is cached on disk: a first call of each case, untimed,
fills the caches. Cases are timed in turn. epsilon = 1, delta = 1e-6.
"""

import json
import subprocess
import sys
import time

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks import running
from pymc_dp import sampling


def logistic(r, n, d):
    """Logistic regression."""
    x = r.normal(size=(n, d))
    y = r.random(n) < 1 / (1 + np.exp(-x @ r.normal(0, 1 / np.sqrt(d), size=d)))
    pm.Bernoulli("y", logit_p=x @ pm.Normal("beta", 0, 2, shape=d), observed=y)


def linear(r, n, d):
    """Linear regression with an unknown scale."""
    x = r.normal(size=(n, d))
    y = x @ r.normal(0, 1 / np.sqrt(d), size=d) + r.normal(size=n)
    pm.Normal("y", x @ pm.Normal("beta", 0, 2, shape=d), pm.HalfNormal("sigma", 2), observed=y)


def groups(r, n, number):
    """Levels of groups around a mean, as deviations."""
    group, level = r.integers(number, size=n), r.normal(0.3, 0.5, size=number)
    y = r.random(n) < 1 / (1 + np.exp(-level[group]))
    mean, tau = pm.Normal("mean", 0, 1.5), pm.HalfNormal("tau", 1)
    raw = pm.Normal("raw", 0, 1, shape=number)
    pm.Bernoulli("y", logit_p=mean + tau * raw[group], observed=y)


CASES = {
    "d = 6": (logistic, 100_000, 6, 1),
    "d = 20": (logistic, 100_000, 20, 1),
    "d = 50": (logistic, 100_000, 50, 1),
    "groups": (groups, 100_000, 200, 1),
    "a million": (logistic, 1_000_000, 6, 1),
    "a million, cores=2": (logistic, 1_000_000, 6, 2),
    "a million, linear": (linear, 1_000_000, 6, 1),
    "a million, linear, cores=2": (linear, 1_000_000, 6, 2),
}


def timed(case):
    """Seconds of the release within a call of `dp.sample`, and of the call."""
    define, n, size, cores = CASES[case]
    seconds = []
    release = sampling.release_likelihood

    def timed_release(*args, **kwargs):
        start = time.perf_counter()
        released = release(*args, **kwargs)
        seconds.append(time.perf_counter() - start)
        return released

    sampling.release_likelihood = timed_release
    with pm.Model():
        define(np.random.default_rng(1), n, size)
        start = time.perf_counter()
        dp.sample(1000, epsilon=1, delta=1e-6, cores=cores, progressbar=False, random_seed=1)
        return *seconds, time.perf_counter() - start


def main():
    """Print a line a case; a case alone is what a process of its own measures."""
    parser = running.parser(__doc__)
    parser.add_argument("--only", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", choices=CASES, help="measure in this process, and print JSON")
    arguments = parser.parse_args()
    running.silence()
    if arguments.one:
        print(json.dumps(timed(arguments.one)))
        return
    times = {case: [] for case in arguments.only}
    for repeat in range(arguments.repeats + 1):
        for case in arguments.only:
            command = [sys.executable, "-m", "benchmarks.call_times", "--one", case]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            times[case] += [json.loads(found.splitlines()[-1])] if repeat else []
    print(f"{'':28}{'release':>9}{'call':>9}{'largest':>9}")
    for case, pairs in times.items():
        (release, whole), (_, largest) = np.median(pairs, axis=0), np.max(pairs, axis=0)
        print(f"{case:28}{release:9.1f}{whole:9.1f}{largest:9.1f}", flush=True)


if __name__ == "__main__":
    main()
