"""Pictures of the documentation from numbers that are there: bounds, stored results, tables, a notebook.

``python -m benchmarks.pictures`` writes them to docs/images.
"""

import base64
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
from scipy.stats import norm

from pymc_dp.privacy.accounting import gaussian

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
DELTA = 1e-6
STYLE = {
    "savefig.dpi": 110,
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
}
COLOURS = ("#1f5fa8", "#2f9e8f", "#e0a030", "#c4432b")


def epsilon() -> None:
    """What an attacker finds against what he falsely accuses: the trade-off curves of Gaussian mechanisms."""
    figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
    alarms = np.linspace(0, 1, 1001)
    for value, colour in zip((0.5, 1, 2, 4), COLOURS, strict=True):
        found = norm.cdf(norm.ppf(alarms) + gaussian.mu(value, DELTA))
        axes.plot(alarms, found, color=colour, lw=2, label=f"ε = {value:g}")
    axes.plot([0, 1], [0, 1], "--", color="grey", label="guessing")
    axes.set(
        xlabel="share of the healthy who are accused",
        ylabel="share of the ill who are found",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(IMAGES / "epsilon.png")


def budget() -> None:
    """What is left of a study's budget after calls that were fixed beforehand: squares of mu add up."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    calls = np.arange(1, 13)
    for value, colour in zip((0.5, 1, 2), COLOURS, strict=False):
        total = gaussian.epsilon(np.sqrt(calls) * gaussian.mu(value, DELTA), DELTA)
        axes.plot(calls, total, "o-", color=colour, label=f"each ε = {value:g}", ms=4)
        axes.plot(calls, calls * value, ":", color=colour)
    axes.plot([], [], ":", color="grey", label="if ε simply added up")
    axes.set(
        xlabel="calls on the same data", ylabel="ε of all together (δ = 10⁻⁶)", ylim=(0, 12), xlim=(0.7, 12.3)
    )
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "budget.png")


def accuracy() -> None:
    """Width against epsilon: the picture of the story that simulates it."""
    notebook = nbformat.read(ROOT / "notebooks" / "gallery" / "choosing_epsilon.ipynb", as_version=4)
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    picture = next(output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {}))
    (IMAGES / "accuracy.png").write_bytes(base64.b64decode(picture))


def clipping() -> None:
    """Bias against the clip bound of a walk, from the table of docs/clipping.md."""
    _, _, rest = (ROOT / "docs" / "clipping.md").read_text().partition("\n| L | share, d = 2 |")
    rows = [line.strip("|").split("|") for line in rest.splitlines()[2:8]]
    table = np.array([[float(cell) for cell in row] for row in rows])
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    for column, d, colour in ((2, 2, COLOURS[0]), (4, 5, COLOURS[1]), (6, 10, COLOURS[2])):
        axes.plot(table[:, 0], table[:, column], "o-", color=colour, label=f"{d} parameters")
    axes.set(
        xlabel="clip bound L (1 holds for every record)", ylabel="bias in standard deviations", ylim=(0, 5)
    )
    axes.legend(frameon=False)
    figure.savefig(IMAGES / "clipping.png")


if __name__ == "__main__":
    with plt.rc_context(STYLE):
        for picture in (epsilon, budget, accuracy, clipping):
            picture()
