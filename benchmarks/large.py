"""A likelihood of records that do not fit in memory: in parts on disk, mapped, on Dask workers.

    OMP_NUM_THREADS=1 python -m benchmarks.large --n 100000000 --parts 20 --directory /tmp/records

Logistic regression with 3 coefficients. Each part is generated on its worker, a piece at a time, written
as two ``.npy`` files (25 bytes a record) and mapped from there. Printed for each number of workers: seconds
of the release, and the memory of all processes that is in no mapped file, at most.
"""

import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from distributed import Client, LocalCluster

import pymc_dp as dp
from benchmarks.running import parser, silence

D, BETA = 3, np.array([0.5, -1.0, 0.75])
PIECE = 500_000


def generate(part):
    """Write the records of ``part = (directory, seed, rows)``, once."""
    directory, seed, rows = part
    names = [Path(directory) / f"{name}{seed}.npy" for name in "xy"]
    if names[1].exists():
        return
    rng = np.random.default_rng(seed)
    x = np.lib.format.open_memmap(names[0], mode="w+", dtype=np.float64, shape=(rows, D))
    y = np.empty(rows, dtype=np.int8)
    for start in range(0, rows, PIECE):
        some = rng.uniform(-1, 1, size=(min(PIECE, rows - start), D))
        x[start : start + PIECE] = some
        y[start : start + PIECE] = rng.random(len(some)) < 1 / (1 + np.exp(-some @ BETA))
    x.flush()
    np.save(names[1], y)


def logistic(x, y):
    """The model, of any records."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=D)
        # A tensor of PyTensor's: of an array PyMC makes a copy, with 8 bytes a number.
        pm.Bernoulli("y", logit_p=pm.math.dot(x, beta), observed=pt.as_tensor(y))
    return model


def build(part):
    """Model of a part, whose records stay on disk."""
    directory, seed, _ = part
    x, y = (np.load(Path(directory) / f"{name}{seed}.npy", mmap_mode="r") for name in "xy")
    return logistic(x, y)


class Memory:
    """The most that processes had together, in GiB, of what is in no mapped file."""

    def __init__(self, pids):
        self.pids, self.most, self._stop = list(pids), 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _look(self):
        while not self._stop.wait(0.2):
            self.most = max(self.most, sum(map(anonymous, self.pids)))


def anonymous(pid):
    """GiB of a process that is in no mapped file."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 2**20
    return 0.0


def measure(workers, parts):
    """Print one run."""
    made_up = np.random.default_rng(0)
    template = logistic(made_up.normal(size=(8, D)), made_up.integers(2, size=8))
    options = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
    with LocalCluster(n_workers=workers, **options) as cluster, Client(cluster) as client:
        client.gather(client.map(generate, parts))
        processes = [*client.run(os.getpid).values(), os.getpid()]
        with Memory(processes) as memory:
            start = time.perf_counter()
            data = dp.Shards(build, parts, client=client)
            released = dp.release_likelihood(template, epsilon=1, delta=1e-9, data=data)
            taken = time.perf_counter() - start
    n, covariance = sum(rows for *_, rows in parts), np.linalg.inv(released.information)
    mean, spread = released.point + covariance @ released.gradient, np.sqrt(np.diag(covariance))
    sums = len(released.facts["rounds"])
    print(
        f"n = {n:,}, {workers} worker(s), {len(parts)} parts: {taken:.1f} s for {sums} "
        f"sums, {memory.most:.2f} GiB; mean {mean.round(5)}, sd {spread.round(5)}, truth {BETA}",
        flush=True,
    )


def main():
    """Run all."""
    own = parser(__doc__)
    own.add_argument("--n", type=int, default=100_000_000)
    own.add_argument("--parts", type=int, default=20)
    own.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    own.add_argument("--directory", type=Path, default=None)
    options = own.parse_args()
    silence()
    if options.directory is not None:
        options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        parts = [(directory, seed, options.n // options.parts) for seed in range(options.parts)]
        for workers in options.workers:
            measure(workers, parts)


if __name__ == "__main__":
    main()
