"""report(): one page about a result, for readers who were not there and know no statistics.

ArviZ and Matplotlib are imported when a page is made.
"""

import base64
import html
import io
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
from pymc_dp.plots import plot_check, plot_privacy_profile, plot_privacy_spend
from pymc_dp.privacy.accounting.values import round_up
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.report import ASSUMPTIONS, PrivacyReport, privacy_report

# Scalars whose densities are drawn; tables have as many rows as there are, up to the second number.
_DRAWN, _LISTED = 12, 200
# False alarms that an attacker accepts, in the example.
_ALARMS = 0.05

_STYLE = """
:root { color-scheme: light }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; color: #1d2530;
  background: #f3f5f7; margin: 0 }
main { max-width: 54rem; margin: 0 auto; padding: 2.5rem 2.5rem 4rem; background: #fff }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .3rem }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-top: 1.2rem; border-top: 1px solid #dfe4ea }
p, ul { margin: .5rem 0 } li { margin: .25rem 0 } .small { color: #566171; font-size: .875rem }
.verdict { padding: 1rem 1.25rem; border-radius: 6px; border-left: 6px solid; margin: 1.4rem 0 }
.good { background: #eaf6ee; border-color: #2b8a4b } .bad { background: #fdecea; border-color: #c0392b }
.verdict strong { display: block; font-size: 1.1rem }
.numbers { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1.2rem 0; padding: 0; list-style: none }
.numbers li { flex: 1 1 9rem; background: #f3f5f7; border-radius: 6px; padding: .7rem .9rem; margin: 0 }
.numbers b { display: block; font-size: 1.35rem; line-height: 1.3 }
table { border-collapse: collapse; width: 100%; font-size: .875rem; margin: .8rem 0 }
th, td { text-align: right; padding: .3rem .55rem; border-bottom: 1px solid #e5e9ee; vertical-align: top }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere }
thead th { color: #566171; font-weight: 600 } .facts td, .facts th { text-align: left }
.facts td { overflow-wrap: anywhere }
img { max-width: 100%; height: auto; display: block; margin: 1rem auto } summary { cursor: pointer; font-weight: 600 }
.wide { overflow-x: auto } pre { white-space: pre-wrap; font-size: .8rem }
@media print { body { background: #fff } main { max-width: none; padding: 0 } h2 { break-after: avoid }
  table, img { break-inside: avoid } }
"""


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
        sections += [_section("Predictions", _table(_summary(idata, "predictions", var_names)))]
    sections += [_bias(known), *map(_other, also), _assumed(known), _details(known, ledger)]
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title><style>{_STYLE}</style>'
        f"</head><body><main>{''.join(sections)}</main></body></html>\n"
    )
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{''.join(parts)}</section>"


def _p(text: str, kind: str = "") -> str:
    return f"<p{f' class={kind!r}' if kind else ''}>{html.escape(text)}</p>"


def _unit(known: PrivacyReport) -> str:
    return "row" if known.facts["unit"] == "row" else "person"


def _head(title: str, idata: DataTree, known: PrivacyReport) -> str:
    made = next((str(node.attrs["created_at"]) for node in idata.subtree if "created_at" in node.attrs), "")
    versions = known.facts["versions"]
    library = ", ".join(f"{name} {versions[name]}" for name in ("pymc-dp", "pymc") if name in versions)
    n = known.facts["n"]
    data = f"{n:,} {_unit(known)}s" if n else f"a number of {_unit(known)}s that is not published"
    when = f"Computed {made[:10]}" if made else "Computed"
    return f"<h1>{html.escape(title)}</h1>{_p(f'{when} from {data}, with {library}.', 'small')}"


def _verdict(known: PrivacyReport) -> str:
    if not known.facts["is_private"]:
        kind, what = "bad", "Do not publish: this run has no guarantee"
        why = "It was made without noise, or with noise that can be recomputed. It is for trying things out."
    elif known.not_released:
        kind, what = "bad", "Do not publish this object"
        why = (
            f"Besides the private result it holds {', '.join(known.not_released)}, which no guarantee covers. Publish "
            "dp.release(idata) instead. Nothing of it is shown here."
        )
    elif known.changed:
        kind, what = "bad", "Do not publish this object as it stands"
        why = "It was changed after its release. What follows is about the release it came from."
    else:
        kind, what = "good", "May be published"
        why = (
            f"Everything in this result, and all that is computed from it, has the guarantee below. It protects each "
            f"single {_unit(known)} of the data."
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
        f"<ul class=numbers><li><b>ε = {round_up(epsilon)}</b>of at most {plan.epsilon:g}</li>"
        f"<li><b>δ = {plan.delta:g}</b>1 in {1 / plan.delta:,.0f}: a probability that is left out</li>"
        f"<li><b>{100 * _detection(known):.1f} %</b>of cases an attacker detects at most, where guessing detects "
        f"{100 * _ALARMS:.0f} %</li></ul>"
    )
    return _section(
        "What is promised",
        _p(
            f"The result was made with noise, so that it says about the same whoever is in the data: {change} changes "
            f"the probability of any result by a factor of at most {round_up(factor, 3)} (e to the power ε), up to a "
            f"probability of {plan.delta:g} (δ).{rows}"
        ),
        numbers,
        _p(
            f"Put otherwise: someone who knows everything about the data but one {unit}'s values, has two candidates for "
            f"them, and accepts a false alarm in {100 * _ALARMS:.0f} of 100 cases, finds the right one in at most "
            f"{100 * _detection(known):.1f} of 100. This holds whatever else is known, now or later, and whatever "
            "is computed from the result. It does not promise that nothing is learnt about a group: that is what the "
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
        _p(
            f"Privacy is a budget. This result was allowed ε = {plan.epsilon:g} and used "
            f"{round_up(plan.epsilon_at(plan.delta))} at δ = {plan.delta:g}, over {plan.chains} chain(s) of "
            f"{plan.tune} tuning and {plan.draws} kept steps, discarded ones included."
        )
    )
    if "sample_stats" in idata.children and not known.changed:
        drawn = _figure(lambda: plot_privacy_spend(idata, backend="matplotlib"), (7.0, 2.8), from_zero=True)
        parts += [
            drawn,
            _p("The budget as it is spent, step by step; the dashed line is what was allowed.", "small"),
        ]
    parts += [
        _figure(lambda: plot_privacy_profile(plan, backend="matplotlib"), (7.0, 2.8)),
        _p(
            "The same guarantee at other values of δ: a smaller probability that is left out, a larger ε.",
            "small",
        ),
    ]
    if ledger is not None:
        spent = ledger.spent().epsilon(ledger.delta)
        rows = [[str(e.id), e.created[:16].replace("T", " "), e.status, e.label] for e in ledger.entries()]
        parts += [
            _p(
                f"All work on these data, with this result: the ledger allows ε = {ledger.epsilon:g} at δ = {ledger.delta:g} for "
                f"everything together. {len(rows)} entries used {round_up(spent)}."
            ),
            _rows_of(["entry", "when (UTC)", "status", "what"], rows),
        ]
    else:
        parts.append(
            _p(
                "No ledger was given for this page. If other results were computed from the same data, their costs add "
                "up with this one's.",
                "small",
            )
        )
    return _section("What was spent", *parts)


def _summary(idata: DataTree, group: str, var_names: Sequence[str] | None) -> Any:
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = "all" if group == "posterior" and idata[group].sizes["draw"] >= 4 else "stats"
        names = None if var_names is None else [v for v in var_names if v in idata[group].data_vars]
        return az.summary(idata, group=group, var_names=names, kind=kind, round_to="none")


def _posterior(idata: DataTree, known: PrivacyReport, var_names: Sequence[str] | None) -> str:
    table = _summary(idata, "posterior", var_names)
    names = list(idata["posterior"].data_vars) if var_names is None else list(var_names)
    drawn, scalars = [], 0
    for name in names:
        scalars += int(np.prod(idata["posterior"][name].shape[2:], dtype=int))
        if scalars <= _DRAWN:
            drawn.append(name)
    parts = [
        _p(
            "What the model says of its parameters, given the data and the noise. Each row is one number; the interval "
            "holds it with the probability in its name, if the model is right."
        ),
        _table(table),
    ]
    if drawn:

        def draw() -> Any:
            import arviz as az

            return az.plot_dist(idata, var_names=drawn, backend="matplotlib")

        count = sum(int(np.prod(idata["posterior"][name].shape[2:], dtype=int)) for name in drawn)
        parts.append(_figure(draw, (9.0, 2.6 * math.ceil(count / 4))))
    rhat = (
        float(np.nanmax(table["r_hat"]))
        if "r_hat" in table and len(idata["posterior"]["chain"]) > 1
        else math.nan
    )
    if rhat > 1.05:
        parts.append(
            _p(
                f"Caution: the chains differ (R-hat up to {rhat:.2f}). That concerns the numbers above, not privacy: "
                "the guarantee does not need chains that have converged."
            )
        )
    parts.append(
        _p(f"The numbers are those of: {known.facts['approximation'] or 'the exact posterior'}.", "small")
    )
    return _section("What was found", *parts)


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
        _p(
            f"To bound what one {_unit(known)} can do, very unusual ones count less than they otherwise would "
            "(clipping), and noise is added. Both change the result; by how much, as far as it can be told:"
        )
    ]
    cut = known.cut.to_dataframe()
    if len(cut):
        table = cut.rename(columns=_CUT_WORDS)
        for share in ("information seen", "wider by", "told by the data"):
            table[share] = [
                f"{100 * value:.0f} %" if np.isfinite(value) else "not known" for value in table[share]
            ]
        parts += [
            _table(table),
            _p(
                "In units of each parameter's standard deviation. Put back: how far it was moved back for what clipping "
                "took. May be missing: what may still be, and was added to the interval. Information seen: the share "
                "that clipping left. Moved to the prior: by that widening. Wider by: how much too wide the interval may "
                "be. Told by the data: how much less is left of the prior's variance. A few records, each far beyond "
                "all others, cannot be seen by any of these.",
                "small",
            ),
        ]
    if known.clip_fractions:
        shares = ", ".join(f"{100 * x:.2g} %" for x in known.clip_fractions)
        parts.append(_p(f"Share of comparisons that were clipped (noisy, one a chain): {shares}."))
    if len(parts) == 1:
        parts.append(_p("Nothing about clipping was released with this result."))
    return _section("Bias and noise", *parts)


def _other(found: Check | Comparison) -> str:
    cost = next(line for line in str(found).splitlines() if line.startswith("Guarantee: "))
    if isinstance(found, Check):
        verdict = (
            "They are spread as they should be, as far as the noise lets one see."
            if found.p_value > 0.01
            else "They are not spread as they should be: the model does not fit in this respect."
        )
        return _section(
            f"Does the model fit? ({found.variable})",
            _p(
                f"Each {found.facts['unit'].split(' (')[0]}'s value was placed in the distribution that the model predicts "
                f"for it, and the places were counted, with noise. If the model is right all counts are about "
                f"{found.expected:.0f}. {verdict} (p = {found.p_value:.2g})"
            ),
            _figure(lambda: plot_check(found, backend="matplotlib"), (7.0, 3.0)),
            _p(cost, "small"),
        )
    notes = "".join(_p(f"Note: {sentence}") for sentence in found.warnings)
    return _section(
        "Which model predicts better?",
        _p(
            f"Expected log predictive density of new records, compared with {found.reference!r}; higher is better. dse: "
            "error over data sets; noise: of the release; cut: what clipping may have changed."
        ),
        _table(_in_words(found.table)),
        notes,
        _p(cost, "small"),
    )


def _in_words(table: Any) -> Any:
    shown = table[["elpd_diff", "dse", "noise", "cut"]].copy()
    known = table["p_better"]
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
    return _section(
        "What was assumed and taken as public",
        _p("The guarantee rests on these; they are the data holder's to see to:"),
        f"<ul>{items}</ul>",
        _p("Inputs of the model that were read as public, without protection:" if public else
           "No input of the model was read as public."),
        f"<ul>{listed}</ul>" if public else "",
        _p(f"Operations that the analyst vouched for: {', '.join(trusted)}.") if trusted else "",
        _p(
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
        f"<section><h2>For specialists</h2><details><summary>All terms of the guarantee</summary><table class=facts>"
        f"{rows}</table></details></section>"
    )


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return ""
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return html.escape(str(value))


def _table(frame: Any) -> str:
    shown = frame.iloc[:_LISTED]
    head = "".join(f"<th>{html.escape(str(column))}</th>" for column in shown.columns)
    body = "".join(
        f"<tr><td>{html.escape(str(name))}</td>{''.join(f'<td>{_cell(v)}</td>' for v in row)}</tr>"
        for name, row in zip(shown.index, shown.to_numpy(dtype=object), strict=True)
    )
    more = _p(f"{len(frame) - _LISTED} more rows are not shown.", "small") if len(frame) > _LISTED else ""
    return f"<div class=wide><table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"


def _rows_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f"<table class=facts><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _figure(draw: Any, size: tuple[float, float], from_zero: bool = False, alt: str = "figure") -> str:
    """A picture in the page itself; without a display, and leaving no figure open."""
    import matplotlib.pyplot as plt

    with warnings.catch_warnings(), plt.rc_context({"svg.fonttype": "path", "font.size": 9}):
        warnings.simplefilter("ignore")
        backend = plt.get_backend()
        plt.switch_backend("agg")
        try:
            collection = draw()
            figure = collection.viz["figure"].item()
            figure.set_size_inches(*size)
            figure.set_layout_engine("constrained")
            if from_zero:
                figure.axes[0].set_ylim(bottom=0)
            out = io.BytesIO()
            figure.savefig(out, format="svg", metadata={"Date": None})
            plt.close(figure)
        finally:
            plt.switch_backend(backend)
    text = base64.b64encode(out.getvalue()).decode()
    return f'<img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{text}">'
