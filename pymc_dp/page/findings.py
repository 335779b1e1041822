"""Sections of a page about results: the posterior, predictions, bias and noise, checks and comparisons."""

import math
import warnings
from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from xarray import DataTree

from pymc_dp.evaluation.check import Check
from pymc_dp.evaluation.compare import Comparison
from pymc_dp.page.parts import figure, paragraph, section, table
from pymc_dp.plots import plot_check
from pymc_dp.report import PrivacyReport


def _summary(idata: DataTree, group: str, var_names: Sequence[str] | None) -> pd.DataFrame:
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = "all" if group == "posterior" and idata[group].sizes["draw"] >= 4 else "stats"
        names = None if var_names is None else [v for v in var_names if v in idata[group].data_vars]
        return az.summary(idata, group=group, var_names=names, kind=kind, round_to="none")


def posterior(idata: DataTree, known: PrivacyReport, var_names: Sequence[str] | None) -> str:
    """Write the section with numbers and densities of the parameters."""
    import arviz as az

    numbers = _summary(idata, "posterior", var_names)
    names = list(idata["posterior"].data_vars) if var_names is None else list(var_names)
    sizes = [int(np.prod(idata["posterior"][name].shape[2:], dtype=int)) for name in names]
    drawn = [name for name, scalars in zip(names, np.cumsum(sizes), strict=True) if scalars <= 12]
    parts = [
        paragraph(
            "What the model says of its parameters, given the data and the noise. Each row is one number; "
            "the interval holds it with the probability in its name, if the model is right."
        ),
        table(numbers),
    ]
    if drawn:
        rows = math.ceil(sum(sizes[: len(drawn)]) / 4)
        picture = partial(az.plot_dist, idata, var_names=drawn, backend="matplotlib")
        parts.append(figure(picture, (9.0, 2.6 * rows)))
    has_rhat = "r_hat" in numbers and len(idata["posterior"]["chain"]) > 1
    if has_rhat and (rhat := float(np.nanmax(numbers["r_hat"]))) > 1.05:
        parts.append(
            paragraph(
                f"Caution: the chains differ (R-hat up to {rhat:.2f}). That concerns the numbers above, not "
                "privacy: the guarantee does not need chains that have converged."
            )
        )
    parts.append(
        paragraph(
            f"The numbers are those of: {known.facts['approximation'] or 'the exact posterior'}.", "small"
        )
    )
    return section("What was found", *parts)


def predictions(idata: DataTree, var_names: Sequence[str] | None) -> str:
    """Write the section with numbers of the predictions."""
    return section("Predictions", table(_summary(idata, "predictions", var_names)))


def bias(known: PrivacyReport) -> str:
    """Write the section about the effects of clipping and noise."""
    explained = (
        f"To bound what one {known.facts['unit']} can do, very unusual ones count less than they otherwise "
        "would (clipping), and noise is added. Both change the result; by how much, as far as it can be told:"
    )
    shares = ", ".join(f"{100 * x:.2g} %" for x in known.clip_fractions)
    told = (
        f"Share of comparisons that were clipped (noisy, one a chain): {shares}."
        if shares
        else "Nothing about clipping was released with this result."
    )
    return section("Bias and noise", paragraph(explained), paragraph(told))


def other_release(found: Check | Comparison) -> str:
    """Write the section about a check or a comparison, which is a release of its own."""
    cost = next(line for line in str(found).splitlines() if line.startswith("Guarantee: "))
    if isinstance(found, Check):
        verdict = (
            "They are spread as they should be, as far as the noise lets one see."
            if found.p_value > 0.01
            else "They are not spread as they should be: the model does not fit in this respect."
        )
        return section(
            f"Does the model fit? ({found.variable})",
            paragraph(
                f"Each {found.facts['unit']}'s value was placed in the distribution that the "
                "model predicts for it, and the places were counted, with noise. If the model is right all "
                f"counts are about {found.expected:.0f}. {verdict} (p = {found.p_value:.2g})"
            ),
            figure(lambda: plot_check(found, backend="matplotlib"), (7.0, 3.0)),
            paragraph(cost, "small"),
        )
    notes = "".join(paragraph(f"Note: {sentence}") for sentence in found.warnings)
    return section(
        "Which model predicts better?",
        paragraph(
            f"Expected log predictive density of new records, compared with {found.reference!r}; higher is "
            "better. dse: error over data sets; noise: of the release; cut: what clipping may have changed."
        ),
        table(_in_words(found.table)),
        notes,
        paragraph(cost, "small"),
    )


def _in_words(found: pd.DataFrame) -> pd.DataFrame:
    shown = found[["elpd_diff", "dse", "noise", "cut"]].copy()
    known = found["p_better"]
    shown["better, probably"] = [
        "" if np.isnan(p) else "> 99.9 %" if p > 0.999 else "< 0.1 %" if p < 0.001 else f"{100 * p:.1f} %"
        for p in known
    ]
    return shown.rename(columns={"elpd_diff": "difference"})
