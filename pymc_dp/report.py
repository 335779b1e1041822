"""The privacy report: what was guaranteed, released and assumed, for a reader who did not see the run."""

import json
from dataclasses import dataclass

import numpy as np
from xarray import DataTree

from pymc_dp.likelihood.draws import LIKELIHOOD
from pymc_dp.likelihood.report import accuracy_rows, closing_rows
from pymc_dp.printing import html_terms
from pymc_dp.privacy.budget import words
from pymc_dp.privacy.budget.facts import DRAW, STAT
from pymc_dp.privacy.budget.known import Facts, OwnerFacts
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.budget.words import Rows
from pymc_dp.results import added_groups, facts_of, is_release, stats_of
from pymc_dp.rounding import round_up

ASSUMPTIONS = (
    "The prior, the clip bound, the proposal, the initial values and the choice of model were made without "
    "looking at these data, or with what was released of them before: scales of Prepare, an earlier result. "
    f"{words.ONE_CALL}",
    words.PUBLIC_ARRAYS,
    "Only what dp.release returns is published; nobody sees the running time, memory or intermediate state.",
    words.FLOATING_POINT,
)


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """Report of one run; print it, show it in a notebook, or convert it with `to_dict`.

    Attributes
    ----------
    facts : dict
        Facts of the run, as the step recorded them.
    plan : PrivacyPlan
        The privacy budget and its accounting.
    clip_fractions : list of float
        Released noisy fractions of clipped ratios, one for each chain; empty if none was released.
    not_released : list of str
        Groups and variables of this object that must not be published.
    changed : bool
        Whether the object was a release and has been changed since: by a selection, or by replaced content.
    """

    facts: Facts
    plan: PrivacyPlan
    clip_fractions: list[float]
    not_released: list[str]
    changed: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain numbers and strings, which JSON can hold."""
        plan = self.plan
        deltas = sorted({*words.DELTAS, plan.delta}, reverse=True)
        return {
            **{key: value for key, value in self.facts.items() if key != "plan"},
            **plan.to_dict(),
            "iterations": plan.iterations,
            "mu": plan.mu,
            "epsilon_at_delta": plan.epsilon_at(plan.delta),
            "epsilon_of_delta": {f"{delta:g}": plan.epsilon_at(delta) for delta in deltas},
            "accountant": plan.guarantee.accountant if plan.is_private else "none",
            "accountants": plan.guarantee.by_accountant(),
            "clip_fractions": self.clip_fractions,
            "not_released": self.not_released,
            "changed": self.changed,
            "assumptions": list(ASSUMPTIONS),
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict())

    def rows(self) -> Rows:
        """Yield the rows of the report: terms of the guarantee, each with its description."""
        facts, plan = self.facts, self.plan
        unit = facts["unit"]
        guarantee = words.no_promise("RUN", facts["debug_seed_used"])
        if facts["is_private"]:
            guarantee = words.promise(plan.epsilon_at(plan.delta), plan.delta)
        yield "Guarantee", guarantee
        if held := ", ".join(self.not_released):
            yield "DO NOT PUBLISH", f"this object also holds {held}; publish dp.release(idata) instead"
        if self.changed:
            yield "Changed", "this object is not what was released; what follows is about the release"
        yield from words.of_budget(plan.epsilon, plan.delta, facts["n"])
        for owner in facts.get("owners", ()):
            yield f"Owner {owner['name']}", _of_owner(owner)
        yield from words.of_unit(unit, facts["n"], facts.get("tables", ()), plan.neighboring_relation)
        yield "Mechanism", f"{facts['step']}: {facts['mechanism']}"
        yield "Target", facts["approximation"] or "exact, where nothing is clipped"
        yield from _iterations(facts, plan)
        clipped = f"each {unit}'s {facts.get('clipped') or 'log-likelihood ratio'}"
        yield "Clipping", f"{clipped} at {facts['clip']}; tempering {facts['tempering']:g}"
        yield "Proposal", facts["proposal"]
        yield from _verdict(facts)
        if facts["step"] == LIKELIHOOD:
            yield from accuracy_rows(facts)
        if shares := ", ".join(f"{x:.3g}" for x in self.clip_fractions):
            yield "Clipped share", f"{shares} (noisy, one a chain)"
        if facts["is_private"]:
            yield from self._prices()
        let_out = {
            "decisions": "decisions",
            "noisy_ratio": "decisions and noisy log-ratios",
            "gradients": "what follows from noisy gradients",
        }
        what = "the likelihood" if facts["step"] == LIKELIHOOD else let_out[plan.release]
        drawn = ", ".join(facts["released_variables"])
        yield "Released", f"draws of {drawn}; {what}; data-free sampler stats"
        yield from _predictions(facts)
        left_out = [f"{name} (reads rows)" for name in facts.get("left_out_deterministics", ())]
        left_out += [f"{name} (excluded)" for name in facts.get("excluded_deterministics", ())]
        yield from closing_rows(facts, left_out, ASSUMPTIONS)

    def _prices(self) -> Rows:
        plan = self.plan
        noisy = plan.release == "decisions" and plan.noise_multiplier > 0
        behind = ", decisions counted as the noisy ratios behind them" if noisy else ""
        if not np.isnan(plan.mu):
            yield "mu (Gaussian DP)", f"{plan.mu:.5g}{behind}"
        yield from words.of_curve(plan.guarantee, plan.delta)
        found = plan.guarantee.by_accountant(plan.delta).items()
        compared = "; ".join(f"{name} {round_up(epsilon)}" for name, epsilon in found)
        yield "All accountants", f"epsilon at {plan.delta:g}: {compared}"

    def __str__(self) -> str:
        lines = (line for key, value in self.rows() for line in words.wrap(key, value))
        return "\n".join(["Privacy report", "==============", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<h4>Privacy report</h4>{html_terms(self.rows())}"


def _of_owner(owner: OwnerFacts) -> str:
    plan = PrivacyPlan.from_dict(owner["plan"])
    promise = words.promise(plan.epsilon_at(plan.delta), plan.delta)
    settings = f"{plan.settings()}; " if plan.settings() else ""
    how = f"{settings}clipping at {owner['clip']}; "
    return words.of_owner(promise, owner["unit"], owner["n"], how, owner["ledger"])


def _iterations(facts: Facts, plan: PrivacyPlan) -> Rows:
    """Yield rows on iterations and settings of the run."""
    if facts["step"] == LIKELIHOOD:
        yield "Draws", f"{plan.draws} of each chain, at no cost: they read no record"
        return
    said = f"{plan.chains} chain(s) x ({plan.tune} tuning + {plan.draws} sampling) = {plan.iterations}"
    yield "Iterations", f"{said}, all paid for"
    yield "Settings", plan.settings()


def _verdict(facts: Facts) -> Rows:
    """Yield the verdicts of a released likelihood, with widths over those without privacy."""
    verdicts: dict[str, list[str]] = {}
    for label, known in facts.get("verdict", {}).items():
        wider = f" ({known['wider']:.2g} times as wide)" if known["wider"] >= 1.05 else ""
        verdicts.setdefault(known["verdict"], []).append(label + wider)
    if verdicts:
        yield "Verdict", "; ".join(f"{said}: {', '.join(of)}" for said, of in verdicts.items())


def _predictions(facts: Facts) -> Rows:
    """Yield what was predicted, if the object holds predictions."""
    made = facts.get("predictions")
    if made:
        at = ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in made["inputs"].items())
        of = f"of {', '.join(made['variables'])} at inputs that are public by the user's word"
        yield "Predictions", f"{of}: {at or 'none are needed'}; computed from the release alone, at no cost"


def privacy_report(idata: DataTree) -> PrivacyReport:
    """Describe the guarantee that a result carries.

    Parameters
    ----------
    idata : xarray.DataTree
        From `pymc.sample` with a private step, from `dp.sample` or `dp.release`, or read from a file of one
        of them.

    Returns
    -------
    PrivacyReport

    Raises
    ------
    PrivacyError
        The result has no record of its privacy.

    Notes
    -----
    **Privacy.** Reads released values and the run's public facts only.
    """
    known = facts_of(idata)
    extra = added_groups(idata, released=True)
    changed = STAT in idata.attrs and not is_release(idata)
    if "posterior" in idata.children:
        variables = idata["posterior"].data_vars
        extra += [str(name) for name in variables if name not in known["released_variables"]]
    if "sample_stats" in idata.children:
        unknown = set(idata["sample_stats"].data_vars) - {*known["stats"], STAT, DRAW}
        extra += sorted(str(name) for name in unknown)
    last = stats_of(idata, known).get("clip_fraction", np.full((1, 1), np.nan))[:, -1]
    shares = last[np.isfinite(last)].tolist()
    return PrivacyReport(known, PrivacyPlan.from_dict(known["plan"]), shares, extra, changed)
