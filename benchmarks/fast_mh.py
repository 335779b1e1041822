"""What an iteration of DPFastMH costs, in ratios measured in one run.

    OMP_NUM_THREADS=1 python -m benchmarks.fast_mh                # about two minutes

Logistic regression with 10 parameters, batches of 1,000 expected draws. Times are medians of alternating
calls, so that a machine that changes its speed changes both sides of a ratio. The two sizes are compared
by themselves: a pass over a million records would empty the caches for both.
"""

import numpy as np

import pymc_dp as dp
from benchmarks import running
from benchmarks.iteration.chains import Chain
from benchmarks.iteration.regressions import regression
from benchmarks.running import medians

BATCH, D, SMALL, LARGE = 1000, 10, 10_000, 1_000_000
ARGS = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0, "chains": 1}


def paid(step, model) -> Chain:
    """A chain that has been paid for."""
    step.setup_chain(np.random.default_rng(0), 0, 1_000_000)
    return Chain(step, model.initial_point(0))


def main() -> None:
    """Print the medians and their ratios."""
    parser = running.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of measuring, for each test")
    parser.add_argument("--test", choices=["barker", "penalty"], default="barker")
    options = parser.parse_args()
    running.silence()
    models = [regression("logistic", n, D)[0] for n in (SMALL, LARGE)]
    chains = []
    for model in models:
        with model:
            step = dp.DPFastMH(batch_size=BATCH, test=options.test, **ARGS)
        chains.append(paid(step, model))
    small, large = medians(chains, options.seconds)
    print(
        f"DPFastMH, test={options.test}, batches of {BATCH}: n=1e4 {small:.3f} ms, n=1e6 {large:.3f} ms, "
        f"ratio {large / small:.2f}"
    )
    with models[1]:
        full = [dp.DPPenaltyMH(**ARGS), dp.DPFastMH(batch_size=LARGE, test=options.test, **ARGS)]
    large, penalty, fast = medians([chains[1], *(paid(s, models[1]) for s in full)], options.seconds)
    print(
        f"n=1e6: batch {large:.3f} ms; all records, DPPenaltyMH {penalty:.2f} ms ({penalty / large:.0f} "
        f"times), DPFastMH {fast:.2f} ms ({fast / large:.0f} times)"
    )


if __name__ == "__main__":
    main()
