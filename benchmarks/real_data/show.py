"""The table and the picture of what was stored."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from benchmarks.real_data.cases import CASES
from benchmarks.results import picture

COLOURS = {0.5: "#c6dbef", 1.0: "#6baed6", 2.0: "#2171b5", 4.0: "#08306b"}


def table(found: pd.DataFrame) -> pd.DataFrame:
    """A line a data set and epsilon: widths, differences, whether the first effect's sign is known."""
    lines = []
    for case in CASES:
        of_case = found[found["data set"] == case.name]
        exact = of_case[np.isinf(of_case["epsilon"])].set_index("effect")
        for epsilon in sorted(of_case["epsilon"].unique()):
            if math.isinf(epsilon) or exact.empty:
                continue
            private = of_case[of_case["epsilon"] == epsilon].set_index("effect")
            beside = exact.loc[private.index]
            width = (private["high"] - private["low"]) / (beside["high"] - beside["low"])
            off = (private["mean"] - beside["mean"]).abs() / private["sd"]
            first = private.loc[[case.effects[0]]]
            known = np.where(case.sign > 0, first["low"] > 0, first["high"] < 0)
            lines.append({
                "data set": case.name,
                "n": int(private["n"].iloc[0]),
                "epsilon": epsilon,
                "calls": len(first),
                "width": width.median(),
                "widest": width.max(),
                "off": math.sqrt((off**2).mean()),
                "furthest": off.max(),
                "effect": case.effects[0],
                "sign known": known.mean(),
                "fit": private["fit"].iloc[0],
            })  # fmt: skip
    return pd.DataFrame(lines)


def draw(found: pd.DataFrame) -> None:
    """All intervals of the calls with seed 0, and those without privacy."""
    figure, axes = plt.subplots(4, 3, figsize=(11, 13), layout="constrained")
    for case, axis in zip(CASES, axes.flat, strict=True):
        of_case = found[(found["data set"] == case.name) & (found["seed"] == 0)]
        if of_case.empty:
            continue
        for epsilon, shift in zip([math.inf, 4.0, 2.0, 1.0, 0.5], np.linspace(-0.32, 0.32, 5), strict=True):
            rows = of_case[of_case["epsilon"] == epsilon].set_index("effect").reindex(case.effects)
            colour = COLOURS.get(epsilon, "black")
            name = "not private" if math.isinf(epsilon) else f"ε = {epsilon:g}"
            at = np.arange(len(rows)) + shift
            axis.hlines(at, rows["low"], rows["high"], color=colour, lw=2.2, label=name)
            axis.plot(rows["mean"], at, "|", color=colour, ms=4)
        axis.set_yticks(range(len(case.effects)), case.effects, fontsize=8)
        axis.invert_yaxis()
        axis.axvline(0, color="grey", lw=0.6)
        exact = of_case[np.isinf(of_case["epsilon"])]
        if not exact.empty:  # a wide interval may leave the picture
            reach = 1.6 * max(0.3, exact["low"].abs().max(), exact["high"].abs().max())
            axis.set_xlim(-reach, reach)
        axis.set_title(f"{case.name}, n = {int(of_case['n'].iloc[0]):,}", fontsize=9)
        axis.tick_params(axis="x", labelsize=7)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False)
    picture("real_data", figure)
    plt.close(figure)
