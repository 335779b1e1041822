"""The table of families, from what the benchmark wrote: benchmarks/results/families.csv."""

import csv
from collections import defaultdict
from pathlib import Path
from statistics import mean

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "families.csv"
NAMES = {
    "logistic": "logistic",
    "ordered": "ordered logistic",
    "poisson": "Poisson",
    "negative_binomial": "negative binomial, with α",
    "gamma": "gamma, with α",
    "beta": "beta, with κ",
    "weibull_censored": "Weibull, censored, with α",
    "linear": "linear, with σ",
    "student_t": "Student t, with σ and ν",
    "mixture": "normal mixture",
    "zero_inflated": "zero-inflated Poisson",
    "best": "BEST: two groups, t",
    "hierarchy": "hierarchy of 16 groups, 500 to 10,000",
    "softmax": "softmax, 3 classes",
}
EPSILONS = ("1.0", "4.0")


def table() -> str:
    """Markdown: a line a family, with what it does at each epsilon."""
    found = defaultdict(list)
    with RESULTS.open() as file:
        for row in csv.DictReader(file):
            found[row["family"], row["epsilon"]].append(row)
    unknown = {family for family, _ in found} ^ NAMES.keys()
    if unknown:
        raise ValueError(f"families without a name here, or without results: {sorted(unknown)}")
    lines = [
        "| family | " + " | ".join(f"ε = {e[0]}: returned | coverage | width" for e in EPSILONS) + " |",
        "|---|" + "---|" * 3 * len(EPSILONS),
    ]
    for family, name in NAMES.items():
        cells = [name]
        for epsilon in EPSILONS:
            rows = found[family, epsilon]
            returned, refused = int(rows[0]["data sets"]), int(rows[0]["refused"])
            widths = [float(row["sd ratio"]) for row in rows]
            cells += [
                f"{returned} of {returned + refused}",
                f"{mean(float(row['coverage']) for row in rows):.2f}",
                f"{min(widths):.2f}–{max(widths):.2f}",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def fill_in(app, docname: str, source: list[str]) -> None:
    if docname == "which_models":
        app.env.note_dependency(str(RESULTS))
        source[0] = source[0].replace("<!-- families -->", table())


def setup(app) -> dict:
    app.connect("source-read", fill_in)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
