"""report(): one page about a result, for readers who were not there and know no statistics.

ArviZ and Matplotlib are imported when a page is made.
"""

import html
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from xarray import DataTree

from pymc_dp.evaluation.check import Check
from pymc_dp.evaluation.compare import Comparison
from pymc_dp.page_parts import STYLE, figure, paragraph, plain_table, section, table
from pymc_dp.plots import plot_check, plot_privacy_profile, plot_privacy_spend
from pymc_dp.privacy.accounting.values import round_up
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.report import ASSUMPTIONS, PrivacyReport, privacy_report

# Scalars whose densities are drawn.
_DRAWN = 12
# False alarms that an attacker accepts, in the example.
_ALARMS = 0.05


def report(
    idata: DataTree,
    path: str | Path | None = None,
    *,
    title: str = "Result of a private analysis",
    ledger: Ledger | None = None,
    also: Sequence[Check | Comparison] = (),
    var_names: Sequence[str] | None = None,
) -> str:
    """Write one page about a result: what was promised, spent, found, assumed.

    Parameters
    ----------
    idata : DataTree
        Result of a private step, released or not: the page says first whether it may be published.
    path : str or Path, optional
        Where to write it; a file that is there is replaced.
    title : str
    ledger : Ledger, optional
        What else was done with these data.
    also : sequence of Check or Comparison
        Other releases to be shown.
    var_names : sequence of str, optional
        Of the posterior, default all.

    Returns
    -------
    str
        The page, HTML. It needs no other file and no network.

    Raises
    ------
    PrivacyError
        The result has no record of its privacy.

    Notes
    -----
    **Privacy.** Made from released draws and public facts alone: it may be published if the result may. Of an
    object that must not be, it shows no draw.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> with pm.Model():
    ...     _ = pm.Normal("y", pm.Normal("mean", 0, 2), 1, observed=np.zeros(20_000))
    ...     idata = dp.sample(draws=100, epsilon=1, delta=1e-6, chains=1, quiet=True)
    >>> "differential privacy" in dp.report(idata)
    True
    """
    known = privacy_report(idata)
    whole = not known.not_released and not known.changed and known.facts["is_private"]
    sections = [_head(title, idata, known), _verdict(known)]
    if known.facts["is_private"]:
        sections += [_promise(known), _budget(idata, known, ledger)]
    if whole and "posterior" in idata.children:
        sections += [_posterior(idata, known, var_names)]
    if whole and "predictions" in idata.children:
        sections += [section("Predictions", table(_summary(idata, "predictions", var_names)))]
    sections += [_bias(known), *map(_other, also), _assumed(known), _details(known, ledger)]
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style>"
        f"</head><body><main>{''.join(sections)}</main></body></html>\n"
    )
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page


def _unit(known: PrivacyReport) -> str:
    return "row" if known.facts["unit"] == "row" else "person"


def _head(title: str, idata: DataTree, known: PrivacyReport) -> str:
    made = next((str(node.attrs["created_at"]) for node in idata.subtree if "created_at" in node.attrs), "")
    versions = known.facts["versions"]
    library = ", ".join(f"{name} {versions[name]}" for name in ("pymc-dp", "pymc") if name in versions)
    n = known.facts["n"]
    data = f"{n:,} {_unit(known)}s" if n else f"a number of {_unit(known)}s that is not published"
    when = f"Computed {made[:10]}" if made else "Computed"
    line = paragraph(f"{when} from {data}, with {library}.", "small")
    return f"<h1>{html.escape(title)}</h1>{line}"


def _verdict(known: PrivacyReport) -> str:
    if not known.facts["is_private"]:
        kind, what = "bad", "Do not publish: this run has no guarantee"
        why = "It was made without noise, or with noise that can be recomputed. It is for trying things out."
    elif known.not_released:
        kind, what = "bad", "Do not publish this object"
        why = (
            f"Besides the private result it holds {', '.join(known.not_released)}, which no guarantee "
            f"covers. Publish "
            "dp.release(idata) instead. Nothing of it is shown here."
        )
    elif known.changed:
        kind, what = "bad", "Do not publish this object as it stands"
        why = "It was changed after its release. What follows is about the release it came from."
    else:
        kind, what = "good", "May be published"
        why = (
            "Everything in this result, and all that is computed from it, has the guarantee below. It "
            f"protects each single {_unit(known)} of the data. What was released of the same data before, "
            "such as scales by which columns were divided, has a cost of its own: the ledger has both."
        )
    return f'<div class="verdict {kind}"><strong>{html.escape(what)}</strong>{html.escape(why)}</div>'


def _detection(known: PrivacyReport) -> float:
    """Most that a test with 5 % false alarms detects, by what is guaranteed."""
    plan = known.plan
    by_curve = min(math.exp(e) * _ALARMS + plan.guarantee.delta(e) for e in np.linspace(0, plan.epsilon, 9))
    by_mu = float(ndtr(ndtri(_ALARMS) + plan.mu)) if not math.isnan(plan.mu) else 1.0
    return min(1.0, by_curve, by_mu)


def _promise(known: PrivacyReport) -> str:
    plan, unit = known.plan, _unit(known)
    epsilon = plan.epsilon_at(plan.delta)
    if plan.neighboring_relation == "substitute":
        change = f"replacing one {unit} of the data by any other"
    else:
        change = f"adding one {unit} to the data, or taking one away"
    factor = math.exp(epsilon)
    rows = "" if unit == "row" else " A person is all rows that carry one id."
    numbers = (
        f"<ul class=numbers><li><b>ε = {round_up(epsilon)}</b>of at most {round_up(plan.epsilon)}</li>"
        f"<li><b>δ = {plan.delta:g}</b>1 in {1 / plan.delta:,.0f}: a probability that is left out</li>"
        f"<li><b>{100 * _detection(known):.1f} %</b>of cases an attacker detects at most, where guessing "
        f"detects "
        f"{100 * _ALARMS:.0f} %</li></ul>"
    )
    return section(
        "What is promised",
        paragraph(
            f"The result was made with noise, so that it says about the same whoever is in the data: "
            f"{change} changes "
            f"the probability of any result by a factor of at most {round_up(factor, 3)} (e to the power "
            f"ε), up to a "
            f"probability of {plan.delta:g} (δ).{rows}"
        ),
        numbers,
        paragraph(
            f"Put otherwise: someone who knows everything about the data but one {unit}'s values, has two "
            f"candidates for "
            f"them, and accepts a false alarm in {100 * _ALARMS:.0f} of 100 cases, finds the right one in "
            f"at most "
            f"{100 * _detection(known):.1f} of 100. This holds whatever else is known, now or later, and "
            f"whatever "
            "is computed from the result. It does not promise that nothing is learnt about a group: that "
            "is what the "
            "analysis is for."
        ),
        *(
            f'<div class="verdict bad">{html.escape(said)}</div>'
            for key, said in known._rows()
            if key == "Weak"
        ),
    )


def _budget(idata: DataTree, known: PrivacyReport, ledger: Ledger | None) -> str:
    plan, parts = known.plan, []
    parts.append(
        paragraph(
            f"Privacy is a budget. This result was allowed ε = {round_up(plan.epsilon)} and used "
            f"{round_up(plan.epsilon_at(plan.delta))} at δ = {plan.delta:g}, over {plan.chains} chain(s) of "
            f"{plan.tune} tuning and {plan.draws} kept steps, discarded ones included."
        )
    )
    if "sample_stats" in idata.children and not known.changed:
        drawn = figure(lambda: plot_privacy_spend(idata, backend="matplotlib"), (7.0, 2.8), from_zero=True)
        parts += [
            drawn,
            paragraph(
                "The budget as it is spent, step by step; the dashed line is what was allowed.", "small"
            ),
        ]
    parts += [
        figure(lambda: plot_privacy_profile(plan, backend="matplotlib"), (7.0, 2.8)),
        paragraph(
            "The same guarantee at other values of δ: a smaller probability that is left out, a larger ε.",
            "small",
        ),
    ]
    if ledger is not None:
        spent = ledger.spent().epsilon(ledger.delta)
        rows = [[str(e.id), e.created[:16].replace("T", " "), e.status, e.label] for e in ledger.entries()]
        parts += [
            paragraph(
                "All work on these data, with this result: the ledger allows "
                f"ε = {round_up(ledger.epsilon)} at δ = {ledger.delta:g} for everything together. "
                f"{len(rows)} entries used {round_up(spent)}."
            ),
            plain_table(["entry", "when (UTC)", "status", "what"], rows),
        ]
    else:
        parts.append(
            paragraph(
                "No ledger was given for this page. If other results were computed from the same data, "
                "their costs add "
                "up with this one's.",
                "small",
            )
        )
    return section("What was spent", *parts)


def _summary(idata: DataTree, group: str, var_names: Sequence[str] | None) -> Any:
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = "all" if group == "posterior" and idata[group].sizes["draw"] >= 4 else "stats"
        names = None if var_names is None else [v for v in var_names if v in idata[group].data_vars]
        return az.summary(idata, group=group, var_names=names, kind=kind, round_to="none")


def _posterior(idata: DataTree, known: PrivacyReport, var_names: Sequence[str] | None) -> str:
    numbers = _summary(idata, "posterior", var_names)
    names = list(idata["posterior"].data_vars) if var_names is None else list(var_names)
    drawn, scalars = [], 0
    for name in names:
        scalars += int(np.prod(idata["posterior"][name].shape[2:], dtype=int))
        if scalars <= _DRAWN:
            drawn.append(name)
    parts = [
        paragraph(
            "What the model says of its parameters, given the data and the noise. Each row is one number; "
            "the interval "
            "holds it with the probability in its name, if the model is right."
        ),
        table(numbers),
    ]
    if drawn:

        def draw() -> Any:
            import arviz as az

            return az.plot_dist(idata, var_names=drawn, backend="matplotlib")

        count = sum(int(np.prod(idata["posterior"][name].shape[2:], dtype=int)) for name in drawn)
        parts.append(figure(draw, (9.0, 2.6 * math.ceil(count / 4))))
    rhat = (
        float(np.nanmax(numbers["r_hat"]))
        if "r_hat" in numbers and len(idata["posterior"]["chain"]) > 1
        else math.nan
    )
    if rhat > 1.05:
        parts.append(
            paragraph(
                f"Caution: the chains differ (R-hat up to {rhat:.2f}). That concerns the numbers above, "
                f"not privacy: "
                "the guarantee does not need chains that have converged."
            )
        )
    parts.append(
        paragraph(
            f"The numbers are those of: {known.facts['approximation'] or 'the exact posterior'}.", "small"
        )
    )
    return section("What was found", *parts)


_CUT_WORDS = {
    "put_back": "put back",
    "left": "may be missing",
    "shown": "information seen",
    "towards_prior": "moved to the prior",
    "wider": "wider by",
    "told": "told by the data",
}


def _bias(known: PrivacyReport) -> str:
    parts = [
        paragraph(
            f"To bound what one {_unit(known)} can do, very unusual ones count less than they otherwise "
            f"would "
            "(clipping), and noise is added. Both change the result; by how much, as far as it can be told:"
        )
    ]
    cut = known.cut.to_dataframe()
    if len(cut):
        numbers = cut.rename(columns=_CUT_WORDS)
        for share in ("information seen", "wider by", "told by the data"):
            numbers[share] = [
                f"{100 * value:.0f} %" if np.isfinite(value) else "not known" for value in numbers[share]
            ]
        parts += [
            table(numbers),
            paragraph(
                "In units of each parameter's standard deviation. Put back: how far it was moved back for "
                "what clipping "
                "took. May be missing: what may still be, and was added to the interval. Information "
                "seen: the share "
                "that clipping left. Moved to the prior: by that widening. Wider by: how much too wide "
                "the interval may "
                "be. Told by the data: how much less is left of the prior's variance. A few records, each "
                "far beyond "
                "all others, cannot be seen by any of these.",
                "small",
            ),
        ]
    if known.clip_fractions:
        shares = ", ".join(f"{100 * x:.2g} %" for x in known.clip_fractions)
        parts.append(paragraph(f"Share of comparisons that were clipped (noisy, one a chain): {shares}."))
    if len(parts) == 1:
        parts.append(paragraph("Nothing about clipping was released with this result."))
    return section("Bias and noise", *parts)


def _other(found: Check | Comparison) -> str:
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
                f"Each {found.facts['unit'].split(' (')[0]}'s value was placed in the distribution that "
                f"the model predicts "
                f"for it, and the places were counted, with noise. If the model is right all counts are "
                f"about "
                f"{found.expected:.0f}. {verdict} (p = {found.p_value:.2g})"
            ),
            figure(lambda: plot_check(found, backend="matplotlib"), (7.0, 3.0)),
            paragraph(cost, "small"),
        )
    notes = "".join(paragraph(f"Note: {sentence}") for sentence in found.warnings)
    return section(
        "Which model predicts better?",
        paragraph(
            f"Expected log predictive density of new records, compared with {found.reference!r}; higher "
            f"is better. dse: "
            "error over data sets; noise: of the release; cut: what clipping may have changed."
        ),
        table(_in_words(found.table)),
        notes,
        paragraph(cost, "small"),
    )


def _in_words(found: Any) -> Any:
    shown = found[["elpd_diff", "dse", "noise", "cut"]].copy()
    known = found["p_better"]
    shown["better, probably"] = [
        "" if np.isnan(p) else "> 99.9 %" if p > 0.999 else "< 0.1 %" if p < 0.001 else f"{100 * p:.1f} %"
        for p in known
    ]
    return shown.rename(columns={"elpd_diff": "difference"})


def _assumed(known: PrivacyReport) -> str:
    items = "".join(f"<li>{html.escape(text)}</li>" for text in ASSUMPTIONS)
    public = known.facts.get("public_arrays", ())
    listed = "".join(
        f"<li>{html.escape(label)} ({html.escape(', '.join(map(str, shape)))}): {html.escape(kind)}</li>"
        for label, shape, kind in public
    )
    trusted = known.facts.get("trusted_ops")
    return section(
        "What was assumed and taken as public",
        paragraph("The guarantee rests on these; they are the data holder's to see to:"),
        f"<ul>{items}</ul>",
        paragraph("Inputs of the model that were read as public, without protection:" if public else
           "No input of the model was read as public."),
        f"<ul>{listed}</ul>" if public else "",
        paragraph(f"Operations that the analyst vouched for: {', '.join(trusted)}.") if trusted else "",
        paragraph(
            "The model itself, its priors and its code are public, and so are the names of variables. "
            + (
                "The number of records is public."
                if known.plan.neighboring_relation == "substitute"
                else "The number of records is not."
            )
        ),
    )  # fmt: skip


def _details(known: PrivacyReport, ledger: Ledger | None) -> str:
    rows = "".join(
        f"<tr><th>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>" for key, value in known._rows()
    )
    return (
        f"<section><h2>For specialists</h2><details><summary>All terms of the guarantee</summary><table "
        f"class=facts>"
        f"{rows}</table></details></section>"
    )
