"""Time of an iteration on sufficient statistics, by the number of records.

    python -m benchmarks.sufficient_statistics                    # n = 1e3, 1e5, 1e7
    python -m benchmarks.sufficient_statistics --n 1000 1000000

A normal model with unknown mean and variance. Processor times of `step.step`, after the pass over the data
that a chain makes at its first iteration, which is timed by itself; the numbers of records take turns, and
the medians of many short runs are compared.
"""

import time

import numpy as np
import pymc as pm

import pymc_dp as dp
from benchmarks import running


class Chain:
    """A chain that is timed a few iterations at a time."""

    def __init__(self, n: int, iterations: int):
        y = np.clip(np.random.default_rng(0).normal(0.5, 1.0, size=n), -4, 4)
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("m"), pm.HalfNormal("s"), observed=y)
            start = time.process_time()
            self.step = dp.DPPenaltyMH(
                epsilon=2.0,
                delta=1e-6,
                sufficient_statistics="auto",
                clip_bound=[4.0, 16.0],
                clip_fraction=False,
                chains=1,
            )
            self.construction = time.process_time() - start
        self.step.setup_chain(np.random.default_rng(1), 0, iterations)
        self.point = model.initial_point(0)
        self.first = self.time(1)

    def time(self, iterations: int) -> float:
        """Seconds an iteration."""
        start = time.process_time()
        for _ in range(iterations):
            self.point, _ = self.step.step(self.point)
        return (time.process_time() - start) / iterations


def main() -> None:
    """Print a table."""
    parser = running.parser(__doc__)
    parser.add_argument("--n", type=int, nargs="+", default=[1_000, 100_000, 10_000_000])
    parser.add_argument("--runs", type=int, default=101)
    parser.add_argument("--iterations", type=int, default=200, help="of a run")
    args = parser.parse_args()
    chains = [Chain(n, 1 + args.runs * args.iterations) for n in args.n]
    times = np.array([[chain.time(args.iterations) for chain in chains] for _ in range(args.runs)])
    for n, chain, each in zip(args.n, chains, times.T, strict=True):
        ratio = np.median(each / times[:, 0])
        print(
            f"n = {n:>10,}: {1e6 * np.median(each):6.1f} microseconds an iteration, {ratio:.3f} of the first "
            f"line's; construction {chain.construction:.1f} s, first iteration {chain.first:.2f} s"
        )


if __name__ == "__main__":
    main()
