"""The tables of docs/which_models.md, from what the benchmark wrote: benchmarks/results.

``python docs/families.py`` writes them into the page; a test recomputes them.
"""

import csv
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean

PAGE = Path(__file__).parent / "which_models.md"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
FAMILIES = {
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
OTHERS = {
    "lognormal": "log-normal, with σ",
    "exponential": "exponential",
    "unequal_noise": "normal, log σ linear in x",
    "skew_normal": "skew normal, with σ and α",
    "gumbel": "Gumbel, with scale",
    "logistic_noise": "logistic noise, with scale",
    "beta_binomial": "beta-binomial, with κ",
    "binomial": "binomial",
    "probit": "probit",
    "cloglog": "complementary log-log",
    "inverse_gaussian": "inverse Gaussian, with λ",
    "zero_inflated_nb": "zero-inflated negative binomial",
    "logit_heavy_x": "logistic, covariates t₄ and log-normal",
    "rare_outcome": "logistic, 2% positive",
    "linear_skewed_x": "linear, a mark that 2% have",
    "poisson_skewed_x": "Poisson, the same covariates",
    "polynomial": "cubic polynomial and sine, with σ",
    "saturation": "saturation curve, with σ",
    "truncated_normal": "truncated normal, with σ",
    "normal_wide_prior": "mean and σ, priors 100 times too wide",
    "exgaussian": "exponentially modified normal",
    "laplace": "Laplace, with scale",
    "quantile": "quantile regression, .9",
    "direction": "von Mises, with κ",
    "half_normal": "half-normal",
    "geometric": "geometric",
    "hurdle_nb": "hurdle negative binomial, two regressions",
    "zero_inflated_binomial": "zero-inflated binomial",
    "three_parts": "mixture of three normals",
    "rice": "Rice, with ν",
    "censored_lognormal": "log-normal, censored",
    "unequal_t": "Student t, log σ linear in x",
    "moyal": "Moyal, with scale",
}
DESIGNS = {
    "design": "design",
    "n": "n",
    "coverage 90": "90% intervals that cover",
    "largest z": "largest z",
    "sd ratio": "width / non-private",
    "says little": "data sets of 10 of which little is said",
}
WRONG = {
    "model": "model",
    "parameter": "parameter",
    "made with": "made with",
    "maximum likelihood": "maximum likelihood",
    "without noise": "released without noise",
    "with noise": "with noise, ε = 1",
    "its sd ": "its sd",
    "rms z": "rms z around that without noise",
}
SIZES, EPSILONS = ("1000", "5000", "50000"), ("1.0", "4.0")


def table(file: Path, names: dict[str, str]) -> str:
    """Markdown: a line a family, with what it does at each number of records and epsilon that were run."""
    found = defaultdict(list)
    with file.open() as opened:
        for row in csv.DictReader(opened):
            found[row["n"], row["epsilon"], row["family"]].append(row)
    told = {family for _, _, family in found}
    unknown = told - names.keys()
    if unknown:
        raise ValueError(f"families without a name here: {sorted(unknown)}")
    cells = [(n, e) for n in SIZES for e in EPSILONS if any((n, e, family) in found for family in names)]
    heads = [f"n = {int(n):,}, ε = {e[0]}: coverage | width" for n, e in cells]
    lines = ["| family | " + " | ".join(heads) + " |", "|---|" + "---|" * 2 * len(cells)]
    for family, name in names.items():
        if family not in told:
            continue
        line = [name]
        for n, epsilon in cells:
            rows = found.get((n, epsilon, family), [])
            if any(int(row["refused"]) for row in rows):
                raise ValueError(f"{family} was refused.")
            line += [
                f"{mean(float(row['coverage 90']) for row in rows):.2f}" if rows else "",
                " to ".join(f"{end(float(row['sd ratio']) for row in rows):.2f}" for end in (min, max))
                if rows
                else "",
            ]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def plain_table(file: Path, heads: dict[str, str]) -> str:
    """Markdown: columns of a file, under other heads."""
    with file.open() as opened:
        rows = list(csv.DictReader(opened))
    lines = ["| " + " | ".join(heads.values()) + " |", "|---" * len(heads) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row[name] for name in heads) + " |" for row in rows])


def filled(page: str) -> str:
    """The page with its tables as they are now: what stands between a comment and the next."""
    tables = {
        "families": table(RESULTS / "families.csv", FAMILIES),
        "other_families": table(RESULTS / "other_families.csv", OTHERS),
        "hard_designs": plain_table(RESULTS / "hard_designs.csv", DESIGNS),
        "wrong_models": plain_table(RESULTS / "wrong_models.csv", WRONG),
    }
    for name, rows in tables.items():
        place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
        page, found = place.subn(lambda _, text=rows: f"{text}\n", page)
        if found != 1:
            raise ValueError(f"the page has {found} places for {name}.")
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
