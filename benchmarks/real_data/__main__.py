"""Twelve real data sets, each with the model of its field: private at four epsilons, beside NUTS.

    python -m benchmarks.real_data                          # the table, and the picture, from stored results
    python -m benchmarks.real_data --run --seeds 0          # makes them anew: an hour
    python -m benchmarks.real_data --run --only wells --seeds 1 2   # more calls of one; others are kept

All constants of columns and the model are on the budget that is named. Coefficients of numbers are per
standard deviation of their column. A release's noise follows from its seed, that of `Prepare` does not.
"""

import math
import subprocess
import traceback

import pandas as pd

from benchmarks import running
from benchmarks.real_data.cases import CASES
from benchmarks.real_data.fits import with_privacy, without_privacy
from benchmarks.real_data.show import draw, table
from benchmarks.results import store, stored

NAME = "real_data"
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def kept(name: str, found: list[dict], seed: int, epsilon: float) -> None:
    """Store rows in place of those of the same call."""
    new = pd.DataFrame(found)
    new.insert(0, "data set", name)
    new.insert(2, "seed", seed)
    try:
        old = stored(NAME)
        same = (old["data set"] == name) & (old["seed"] == seed) & (old["epsilon"] == epsilon)
        new = pd.concat([old[~same], new])
    except FileNotFoundError:
        pass
    store(NAME, new)


def run(only: list[str], epsilons: list[float], seeds: list[int]) -> None:
    """Make calls, and store each as it comes."""
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    for seed in seeds:
        for case in CASES:
            if not any(case.name.startswith(word) for word in only):
                continue
            for epsilon in epsilons:
                if math.isinf(epsilon) and seed > 0:
                    continue
                try:
                    if math.isinf(epsilon):
                        found = without_privacy(case, seed)
                    else:
                        found = with_privacy(case, epsilon, seed)
                except Exception:
                    print(
                        f"{case.name}, epsilon = {epsilon}, seed {seed}:\n{traceback.format_exc()}",
                        flush=True,
                    )
                    continue
                kept(case.name, [{**row, "commit": commit} for row in found], seed, epsilon)
                one = found[0]
                print(
                    f"{case.name}, epsilon = {epsilon}, seed {seed}: {one['effect']} {one['mean']:.3f} "
                    f"({one['low']:.3f}, {one['high']:.3f}), {one['seconds']:.0f} s",
                    flush=True,
                )


def main() -> None:
    parser = running.parser(__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""], help="data sets that begin so")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[math.inf, *EPSILONS])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    args = parser.parse_args()
    if args.run:
        running.silence()
        run(args.only, args.epsilon, args.seeds)
    print(table(stored(NAME)).to_string(index=False))
    draw(stored(NAME))


if __name__ == "__main__":
    main()
