"""How far the quickstart's private posterior is from the exact one, over repeated runs.

    OMP_NUM_THREADS=1 python -m benchmarks.quickstart_errors --runs 10

Errors of posterior means in non-private posterior standard deviations, over runs and coefficients. The data
are public: with private ones each of these runs would be a release of its own.
"""

import contextlib
import io
import sys
from pathlib import Path

import numpy as np

from benchmarks import running

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import quickstart


def main() -> None:
    """Print a line for each epsilon."""
    parser = running.parser(__doc__)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    parser.add_argument("--runs", type=int, default=10)
    args = parser.parse_args()
    running.silence()
    X, late = quickstart.as_records(quickstart.load_flights())
    exact = quickstart.exact_posterior(X, late)
    for epsilon in args.epsilon:
        tables = []
        for _ in range(args.runs):
            with contextlib.redirect_stdout(io.StringIO()):
                private = quickstart.private_posterior(X, late, epsilon=epsilon)
            tables.append(quickstart.compare(private, exact))
        error = np.array([t["difference / sd"] for t in tables])
        ratio = np.array([t["sd ratio"] for t in tables])
        print(
            f"epsilon {epsilon:g}: {args.runs} runs; error root mean square "
            f"{np.sqrt(np.mean(error**2)):.3f}, largest {np.abs(error).max():.2f}; sd ratio "
            f"{ratio.min():.2f} to {ratio.max():.2f}; R-hat at most "
            f"{max(t['R-hat'].max() for t in tables):.2f}; effective draws of the worst coefficient, median "
            f"{np.median([t['ESS'].min() for t in tables]):.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
