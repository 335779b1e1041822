"""The tables of docs/evidence.md, and one of docs/index.md, from what benchmarks wrote: benchmarks/results.

``python docs/evidence.py`` writes them into the pages; a test recomputes them.
"""

import csv
import math
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median

DOCS = Path(__file__).parent
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
# Of each design and number of records what others found: coverage and width, or an estimate.
THEIRS = {
    ("logistic, x = 2 Beta(1/2, 1/2) - 1, slope 2", 500): "repro samples .99, 1.77; DP-CI-ERM .81, 1.32",
    ("logistic, x = 2 Beta(1/2, 1/2) - 1, slope 2", 1000): "repro samples .99, .97; DP-CI-ERM .83, .77",
    ("logistic, x = 2 Beta(1/2, 1/2) - 1, slope 2", 2000): "repro samples .99, .62; DP-CI-ERM .86, .47",
    ("logistic, x normal, coefficient .5", 4000): "estimates: clipped gradients .63, Mallows weights .49",
    ("linear, x uniform on (0, 10), three coefficients", 2000): "BinAgg .93, .29",
}
# The question of each data set, and the sign of its answer.
QUESTIONS = {
    "late flights": ("hour", 1),
    "wages": ("black", -1),
    "doctor visits": ("coinsurance", -1),
    "doctor visits of persons": ("out of work", 1),
    "light chains": ("log light chains", -1),
    "ratings of marriages": ("affair", -1),
    "callbacks": ("black name", -1),
    "visits of the elderly": ("private insurance", 1),
    "wells": ("log arsenic", 1),
    "mortgages": ("black", 1),
    "contraception": ("urban", 1),
    "weight after smoking": ("quit smoking", 1),
}
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def read(name: str) -> list[dict[str, str]]:
    """Rows of a result."""
    with (RESULTS / f"{name}.csv").open() as opened:
        return list(csv.DictReader(opened))


def beside_others() -> str:
    """The designs of which others have intervals: a line each."""
    lines = ["| design | n | theirs: coverage, width | ours | without privacy |", "|---|---|---|---|---|"]
    for row in read("published"):
        theirs = THEIRS.get((row["design"], int(row["n"])), "estimates")
        if not theirs.startswith("estimates"):
            ours = f"{float(row['coverage']):.2f}, {float(row['width']):.3g}"
            plain = float(row["width without privacy"])
            lines.append(f"| {row['design']} | {int(row['n']):,} | {theirs} | {ours} | {plain:.2g} |")
    return "\n".join(lines)


def published() -> str:
    """A line a design and number of records."""
    lines = [
        "| design | n | budget | theirs: coverage, width | ours: coverage | width | without privacy |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in read("published"):
        n, mu = int(row["n"]), float(row["mu"])
        budget = "ε = 1" if float(row["epsilon"]) == 1 else f"μ = {mu:.2g}"
        theirs = THEIRS.get((row["design"], n), "")
        ours = f"{float(row['coverage']):.2f} | {float(row['width']):.3g}"
        if float(row["width"]) > 1.5 * float(row["median width"]):
            ours += f" (median {float(row['median width']):.2g})"
        if "estimates" in theirs:
            theirs += f"; ours {float(row['estimate']):.2f}"
        plain = float(row["width without privacy"])
        lines.append(f"| {row['design']} | {n:,} | {budget} | {theirs} | {ours} | {plain:.2g} |")
    return "\n".join(lines)


def real_data() -> str:
    """A line a data set: median width over that without privacy, and in how many calls the sign is known."""
    found = defaultdict(list)
    for row in read("real_data"):
        found[row["data set"], float(row["epsilon"])].append(row)
    unknown = {name for name, _ in found} - QUESTIONS.keys()
    if unknown:
        raise ValueError(f"data sets without a question here: {sorted(unknown)}")
    heads = " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS)
    lines = [f"| data set | n | question | {heads} |", "|---|---|---|" + "---|" * len(EPSILONS)]
    for name, (effect, sign) in QUESTIONS.items():
        exact = {row["effect"]: row for row in found[name, math.inf]}
        if not exact:
            continue
        cells = []
        for epsilon in EPSILONS:
            rows = found[name, epsilon]
            if not rows:
                cells.append("")
                continue
            widths = [wide(row) / wide(exact[row["effect"]]) for row in rows]
            off = [
                abs(float(row["mean"]) - float(exact[row["effect"]]["mean"])) / float(row["sd"])
                for row in rows
            ]
            asked = [row for row in rows if row["effect"] == effect]
            known = sum(float(r["low"]) > 0 if sign > 0 else float(r["high"]) < 0 for r in asked)
            answer = "yes" if known == len(asked) else "no" if not known else f"{known} of {len(asked)}"
            cells.append(f"{median(widths):.2f}, {max(off):.1f}, {answer}")
        asked = f"{effect} {'> 0' if sign > 0 else '< 0'}"
        one = exact[effect]
        if not (float(one["low"]) > 0 if sign > 0 else float(one["high"]) < 0):
            asked += " (not seen without privacy either)"
        lines.append(f"| {name} | {int(one['n']):,} | {asked} | {' | '.join(cells)} |")
    return "\n".join(lines)


def wide(row: dict[str, str]) -> float:
    """Width of an interval."""
    return float(row["high"]) - float(row["low"])


def attack() -> str:
    """A line a pair and fault."""
    lines = [
        "| pair | fault | runs | μ stated | μ of the pair | μ at least: linear | Fisher | learnt | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in read("audit_whole"):
        names = ("mu stated", "mu of the pair", "mu, linear", "mu, Fisher", "mu, learnt")
        numbers = " | ".join(f"{float(row[name]):.2f}" for name in names)
        verdict = "**caught**" if row["caught"] == "True" else "not refuted"
        lines.append(f"| {row['pair']} | {row['fault']} | {int(row['runs']):,} | {numbers} | {verdict} |")
    return "\n".join(lines)


def mechanisms() -> str:
    """A line a mechanism, as shipped: the event that says most against its claim, from the audit."""
    best = {}
    for row in read("audit"):
        if row["fault"] not in ("as shipped", "levels, as shipped"):
            continue
        ends = [float(row[name]) for name in ("P at least", "P' at most", "claim allows")]
        if (
            row["sampler"] not in best
            or ends[0] / ends[2] > best[row["sampler"]][0] / best[row["sampler"]][2]
        ):
            best[row["sampler"]] = ends
    lines = ["| released by | P of the event at least | P′ at most | P that the claim allows |"]
    lines.append("|---|---|---|---|")
    lines += [f"| {name} | {p:.3g} | {other:.3g} | {most:.3g} |" for name, (p, other, most) in best.items()]
    return "\n".join(lines)


TABLES = {
    "evidence.md": {
        "published": published,
        "real data": real_data,
        "attack": attack,
        "mechanisms": mechanisms,
    },
    "index.md": {"beside others": beside_others},
}


def filled(page: str, tables: dict[str, Callable[[], str]]) -> str:
    """A page with its tables as they are now: what stands between a comment and the next."""
    for name, table in tables.items():
        place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
        text = table()
        page, found = place.subn(lambda _, text=text: f"{text}\n", page)
        if found != 1:
            raise ValueError(f"the page has {found} places for {name}.")
    return page


if __name__ == "__main__":
    for name, tables in TABLES.items():
        (DOCS / name).write_text(filled((DOCS / name).read_text(), tables))
