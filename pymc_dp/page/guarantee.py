"""Sections of a page about the guarantee: whether to publish, what is promised, spent and assumed."""

import html
import math

import numpy as np
from scipy.special import ndtr, ndtri
from xarray import DataTree

from pymc_dp.page.parts import figure, paragraph, section
from pymc_dp.plots import plot_privacy_profile, plot_privacy_spend
from pymc_dp.printing import html_terms
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.mechanisms.iterations import NoDecision
from pymc_dp.report import ASSUMPTIONS, PrivacyReport
from pymc_dp.rounding import round_up

# Rate of false alarms of the attacker in the page's example.
_ALARMS = 0.05


def verdict(known: PrivacyReport) -> str:
    """Write whether the result may be published, and why."""
    if not known.facts["is_private"]:
        kind, what = "bad", "Do not publish: this run has no guarantee"
        why = "It was made without noise, or with noise that can be recomputed. It is for trying things out."
    elif known.not_released:
        kind, what = "bad", "Do not publish this object"
        why = (
            f"Besides the private result it holds {', '.join(known.not_released)}, which no guarantee "
            "covers. Publish dp.release(idata) instead. Nothing of it is shown here."
        )
    elif known.changed:
        kind, what = "bad", "Do not publish this object as it stands"
        why = "It was changed after its release. What follows is about the release it came from."
    else:
        kind, what = "good", "May be published"
        why = (
            "Everything in this result, and all that is computed from it, has the guarantee below. It "
            f"protects each single {known.facts['unit']} of the data. What was released of the same data "
            "before, as scales by which columns were divided, has a cost of its own: the ledger has both."
        )
    return f'<div class="verdict {kind}"><strong>{html.escape(what)}</strong>{html.escape(why)}</div>'


def _detection(known: PrivacyReport) -> float:
    """Return the largest detection rate, under the guarantee, of a test with 5 % false alarms."""
    plan = known.plan
    by_curve = min(math.exp(e) * _ALARMS + plan.guarantee.delta(e) for e in np.linspace(0, plan.epsilon, 9))
    by_mu = float(ndtr(ndtri(_ALARMS) + plan.mu)) if not math.isnan(plan.mu) else 1.0
    return min(1.0, by_curve, by_mu)


def promise(known: PrivacyReport) -> str:
    """Write what is promised, for readers without mathematics."""
    plan, unit = known.plan, known.facts["unit"]
    epsilon = plan.epsilon_at(plan.delta)
    if plan.neighboring_relation == "substitute":
        change = f"replacing one {unit} of the data by any other"
    else:
        change = f"adding one {unit} to the data, or taking one away"
    factor, detected = math.exp(epsilon), round_up(100 * _detection(known), 3)
    rows = "" if unit == "row" else " A person is all rows that carry one id."
    numbers = (
        f"<ul class=numbers><li><b>ε = {round_up(epsilon)}</b>of at most "
        f"{round_up(plan.epsilon)}</li><li><b>δ = {round_up(plan.delta)}</b>1 in "
        f"{math.floor(1 / plan.delta + 1e-6):,}: a probability that is left out</li><li>"
        f"<b>{detected} %</b>of cases an attacker detects at most, where guessing detects "
        f"{100 * _ALARMS:.0f} %</li></ul>"
    )
    return section(
        "What is promised",
        paragraph(
            "The result was made with noise, so that it says about the same whoever is in the data: "
            f"{change} changes the probability of any result by a factor of at most {round_up(factor, 3)} (e "
            f"to the power ε), up to a probability of {round_up(plan.delta)} (δ).{rows}"
        ),
        numbers,
        paragraph(
            f"Put otherwise: someone who knows everything about the data but one {unit}'s values, has two "
            f"candidates for them, and accepts a false alarm in {100 * _ALARMS:.0f} of 100 cases, finds the "
            f"right one in at most {detected} of 100. This holds whatever else is known, "
            "now or later, and whatever is computed from the result. It does not promise that nothing is "
            "learnt about a group: that is what the analysis is for."
        ),
        *(
            f'<div class="verdict bad">{html.escape(said)}</div>'
            for key, said in known.rows()
            if key == "Weak"
        ),
    )


def spending(idata: DataTree, known: PrivacyReport, ledger: Ledger | None) -> str:
    """Write the budget and what was spent of it; with a ledger, by other results too."""
    plan = known.plan
    steps = f"{plan.tune} tuning and {plan.draws} kept steps"
    bought = f"over {plan.chains} chain(s) of {steps}, discarded ones included"
    if isinstance(plan.mechanism, NoDecision):
        bought = "for one released likelihood: draws of it cost nothing"
    parts = [
        paragraph(
            f"Privacy is a budget. This result was allowed ε = {round_up(plan.epsilon)} and used "
            f"{round_up(plan.epsilon_at(plan.delta))} at δ = {round_up(plan.delta)}, {bought}."
        ),
        figure(lambda: plot_privacy_spend(idata, backend="matplotlib"), (7.0, 2.8), from_zero=True),
        paragraph("The budget as it is spent, step by step; the dashed line is what was allowed.", "small"),
        figure(lambda: plot_privacy_profile(plan, backend="matplotlib"), (7.0, 2.8)),
        paragraph(
            "The same guarantee at other values of δ: a smaller probability that is left out, a larger ε.",
            "small",
        ),
    ]
    if ledger is not None:
        parts += [paragraph("All work on these data, with this result:"), ledger._repr_html_()]
    else:
        parts.append(
            paragraph(
                "No ledger was given for this page. If other results were computed from the same data, their "
                "costs add up with this one's.",
                "small",
            )
        )
    return section("What was spent", *parts)


def assumptions(known: PrivacyReport) -> str:
    """Write the assumptions of the guarantee, and which inputs were taken as public."""
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


def details(known: PrivacyReport) -> str:
    """Write all terms of the guarantee."""
    terms = f"<details><summary>All terms of the guarantee</summary>{html_terms(known.rows())}</details>"
    return f"<section><h2>For specialists</h2>{terms}</section>"
