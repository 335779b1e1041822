"""Seconds of a whole call against the number of records and of parameters, beside PyMC's NUTS.

    OMP_NUM_THREADS=1 python -m benchmarks.scaling            # about nine minutes on an idle machine
    OMP_NUM_THREADS=1 python -m benchmarks.scaling --largest 7  # ten million records too: four minutes more
    python -m benchmarks.scaling --draw                       # the picture, from the stored numbers

Logistic regression on one thread, processor seconds from a declared model to 1,000 draws of one chain,
compilation included. Private calls have control variates, and no noise: what is computed is the same for
any budget, and every call has a result. Their set-up (compilation, and the surrogate) is measured whole;
draws for some seconds, and multiplied. NUTS has 1,000 draws after 1,000 of tuning for up to 10,000 records;
with more of them (hollow in the picture, "scaled" in the table) it is taken to make as many leapfrog steps as
with 10,000, each of the time that is measured in a few draws: a posterior keeps its shape.
"""

import time
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

import pymc_dp as dp
from benchmarks import results, running
from benchmarks.surrogate_speed import logistic

DRAWS, FEW, PATIENCE = 1000, 20, 6.0
# Records up to which NUTS is run as a whole; its leapfrog steps then, by the number of parameters.
WHOLE = 10_000
_steps: dict[int, int] = {}
# Of the other axis: parameters where records vary, and records where parameters do.
D, N = 6, 100_000
SIZES, DIMENSIONS = (3, 4, 5, 6), (2, 6, 20, 50, 200)
PRIVATE = {"DPPenaltyMH": dp.DPPenaltyMH, "DPFastMH": dp.DPFastMH}
NUTS = "NUTS, not private"


def declared(n: int, d: int) -> pm.Model:
    """Logistic regression of `benchmarks.surrogate_speed`."""
    with pm.Model() as model:
        logistic(n, d)
    return model


def private(name: str, n: int, d: int) -> tuple[float, float, float]:
    """Seconds of a call, of its set-up, and by how much draws were multiplied."""
    model = declared(n, d)
    began = time.process_time()
    # Rows have norm 1 at most.
    bounds: dict[str, Any] = {} if name == "DPPenaltyMH" else {"lipschitz": 1.0}
    step = PRIVATE[name](
        epsilon=np.inf, delta=1e-6, chains=1, control_variates=True, model=model, debug_seed=1, **bounds
    )
    step.setup_chain(np.random.default_rng(0), 0, DRAWS)
    step.tune = False
    point, _ = step.step(model.initial_point(0))
    set_up = time.process_time() - began
    done, began = 1, time.process_time()
    while done < DRAWS and (done <= FEW or time.process_time() - began < PATIENCE):
        point, _ = step.step(point)
        done += 1
    scale = (DRAWS - 1) / (done - 1)
    return set_up + scale * (time.process_time() - began), set_up, scale


def nuts(n: int, d: int) -> tuple[float, float, float]:
    """The same of PyMC's sampler."""
    model = declared(n, d)

    def run(draws: int) -> tuple[float, int]:
        """Seconds, and leapfrog steps."""
        began = time.process_time()
        settings = {"chains": 1, "random_seed": 1, "discard_tuned_samples": False, **running.QUIET}
        idata = pm.sample(draws=draws, tune=draws, step=pm.NUTS(model=model), model=model, **settings)
        groups = (idata.sample_stats, idata.warmup_sample_stats)
        return time.process_time() - began, int(sum(group["n_steps"].sum() for group in groups))

    run(1)  # what is compiled once a process is compiled
    set_up, _ = run(1)
    if n <= WHOLE:
        seconds, steps = run(DRAWS)
        _steps[d] = steps
        return seconds, set_up, 1.0
    if d not in _steps:
        nuts(WHOLE, d)
    seconds, steps = run(FEW)
    return set_up + (seconds - set_up) * _steps[d] / steps, set_up, _steps[d] / steps


def measured(largest: int) -> pd.DataFrame:
    """All rows of the table."""
    private("DPPenaltyMH", 1000, 2)  # what is compiled once a machine is compiled
    cells = [("n", 10**size, D) for size in [*SIZES, *range(SIZES[-1] + 1, largest + 1)]]
    cells += [("d", N, d) for d in DIMENSIONS]
    rows = []
    for axis, n, d in cells:
        for name in (*PRIVATE, NUTS):
            seconds, set_up, scale = nuts(n, d) if name == NUTS else private(name, n, d)
            row = {"axis": axis, "n": n, "d": d, "sampler": name, "seconds": seconds, "set_up": set_up}
            rows.append({**row, "scaled": scale})
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def figure(rows: pd.DataFrame) -> Any:
    """Both axes, side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    styles = {"DPPenaltyMH": ("C0", "-", "o"), "DPFastMH": ("C1", "--", "s"), NUTS: ("k", ":", "^")}
    others = {"n": f"d = {D}", "d": f"n = {N:,}"}
    names = {"n": "records n", "d": "parameters d"}
    for axis, by in zip(axes, names, strict=True):
        for name, (colour, line, marker) in styles.items():
            mine = rows[(rows["axis"] == by) & (rows["sampler"] == name)].sort_values(by)
            label = name if name == NUTS else f"{name}, control variates"
            axis.plot(mine[by], mine["seconds"], color=colour, ls=line, label=label)
            for hollow, some in mine.groupby((mine["scaled"] > 1) & (name == NUTS)):
                axis.plot(
                    some[by], some["seconds"], marker, color=colour, mfc="white" if hollow else colour, ms=6
                )
        axis.set(xscale="log", yscale="log", xlabel=names[by], title=others[by])
        axis.grid(alpha=0.3, which="both", lw=0.5)
    ticks = sorted(rows.loc[rows["axis"] == "d", "d"].unique())
    axes[1].set_xticks(ticks, [f"{d:g}" for d in ticks])
    axes[1].minorticks_off()
    axes[0].set_ylabel("processor seconds, 1,000 draws")
    axes[0].legend(frameon=False)
    return figure


def main() -> None:
    """Measure, keep and draw."""
    parser = running.parser(__doc__)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="power of ten of the most records")
    parser.add_argument("--draw", action="store_true", help="stored numbers, no runs")
    args = parser.parse_args()
    running.silence()
    rows = results.stored("scaling") if args.draw else measured(args.largest)
    if not args.draw:
        results.store("scaling", rows)
    results.picture("scaling", figure(rows))


if __name__ == "__main__":
    main()
