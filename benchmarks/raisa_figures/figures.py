"""The pictures."""

import itertools
from typing import Any

import pandas as pd

from benchmarks.raisa_figures.samplers import SAMPLERS


def figure_7_1(rows: pd.DataFrame) -> Any:
    """Two rows: against the clip bound, and against the share that is clipped."""
    import matplotlib.pyplot as plt

    dimensions = sorted(rows["d"].unique())
    figure, axes = plt.subplots(
        2,
        len(dimensions),
        figsize=(4.2 * len(dimensions), 6),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    labels = {"clip": "clip bound / 90% quantile of the ratios", "clipped": "largest share clipped"}
    for (i, x), (j, d) in itertools.product(enumerate(labels), enumerate(dimensions)):
        here, axis = rows[rows["d"] == d], axes[i, j]
        for colour, name in enumerate(("random walk", "HMC", "one component")):
            mine = here[here["sampler"] == name]
            if len(mine):
                axis.plot(mine[x].clip(lower=1e-5), mine["mmd"], "o", color=f"C{colour}", label=name)
                axis.axhline(mine["floor"].mean(), color=f"C{colour}", lw=0.8, ls="--")
        axis.set(xscale="log", yscale="log", xlabel=labels[x], title=f"d = {d}" if i == 0 else "")
        axis.set_ylabel("MMD" if j == 0 else "")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def figure_7_2(rows: pd.DataFrame) -> Any:
    """A panel for each dimension and tempering: runs, and lines through their means."""
    import matplotlib.pyplot as plt

    panels = sorted(set(zip(rows["d"], rows["tempering"], strict=True)), key=lambda p: (p[0], -p[1]))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.4 * len(panels), 4.2), squeeze=False, sharey=True, layout="constrained"
    )
    for axis, (d, tempering) in zip(axes[0], panels, strict=True):
        here = rows[(rows["d"] == d) & (rows["tempering"] == tempering)]
        for index, name in enumerate(SAMPLERS):
            mine = here[here["sampler"] == name]
            shifted = mine["epsilon"] * 1.03 ** (index - len(SAMPLERS) / 2)  # so that points do not overlap
            axis.plot(shifted, mine["mmd"], "o", color=f"C{index}", ms=3, alpha=0.6)
            mean = mine.assign(x=shifted).groupby("epsilon")[["x", "mmd"]].mean()
            axis.plot(mean["x"], mean["mmd"], color=f"C{index}", lw=1.5, label=name)
        floor = here.loc[here["sampler"] != "HMC", "floor"].mean()
        axis.axhline(floor, color="k", lw=0.8, ls="--", label="1,000 exact draws")
        axis.set(xscale="log", yscale="log", xlabel="ε", title=f"d = {d}, T = {tempering:g}")
        ticks = sorted(here["epsilon"].unique())
        axis.set_xticks(ticks, [f"{e:g}" for e in ticks])
        axis.minorticks_off()
    axes[0, 0].set_ylabel("MMD")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)
    return figure
