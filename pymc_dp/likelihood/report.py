"""The report of a released likelihood: what is guaranteed, what was released, the verdict by parameter."""

import json
import math
from collections.abc import Mapping

from pymc_dp.likelihood.facts import LikelihoodFacts, OwnersGuarantee
from pymc_dp.privacy.accounting.composition import Guarantee, compose
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.values import weaknesses
from pymc_dp.privacy.budget.known import Fit
from pymc_dp.privacy.budget.words import (
    DELTAS,
    FLOATING_POINT,
    ONE_CALL,
    PUBLIC_ARRAYS,
    count_in_words,
    name_relation,
    wrap,
)
from pymc_dp.rounding import round_up

ASSUMPTIONS = (
    "The prior, the initial values and the choice of model were made without looking at these data, or with "
    f"what was released of them before. {ONE_CALL}",
    PUBLIC_ARRAYS,
    "Only this likelihood, and what is computed from it, is published; nobody sees the running time, memory "
    "or intermediate state of the call that made it.",
    FLOATING_POINT,
)


def read_guarantee(facts: LikelihoodFacts) -> Guarantee:
    """What the events of a release cost together.

    Raises
    ------
    ValueError
        They are no events.
    """
    events = EventSet.from_json(json.dumps(facts["events"]))
    return compose(events, reference_delta=facts["delta"])


def write_report(facts: LikelihoodFacts, released: str) -> str:
    """Text of the report.

    Parameters
    ----------
    facts : dict
    released : str
        What was released, in words.
    """
    unit = "row" if facts["unit"] == "row" else "person"
    whole = unit if unit == "row" else "person (all rows with one id)"
    known = count_in_words(facts["n"], facts.get("tables", ()))
    rows = [
        *_of_guarantee(facts),
        ("Protected unit", whole + known),
        ("Neighbouring data", name_relation(facts["neighboring_relation"], unit)),
        *((f"Owner {owner['name']}", _of_owner(owner)) for owner in facts.get("owners", ())),
        ("Released", released),
        *((name, _of_parameter(said)) for name, said in facts["verdict"].items()),
        *fit_in_words(facts.get("fit")),
        ("Assumed", " ".join(ASSUMPTIONS)),
        ("Versions", ", ".join(f"{name} {version}" for name, version in facts["versions"].items())),
    ]
    title = "Released likelihood"
    return "\n".join([title, "=" * len(title), *(line for row in rows for line in wrap(*row))])


def fit_in_words(fit: Fit | None) -> list[tuple[str, str]]:
    """What the test of the model's spread says, as a row of a report; none where there was none."""
    return [("Fit", fit["said"])] if fit else []


def _of_guarantee(facts: LikelihoodFacts) -> list[tuple[str, str]]:
    if not facts["is_private"]:
        why = (
            "a debug seed makes the noise reproducible"
            if facts["debug_seed_used"]
            else "epsilon = inf, no noise for privacy"
        )
        return [("Guarantee", f"NONE. THIS RELEASE IS NOT PRIVATE: {why}")]
    guarantee, delta, epsilon = read_guarantee(facts), facts["delta"], facts["epsilon"] or math.inf
    deltas = sorted({*DELTAS, delta}, reverse=True)
    curve = "; ".join(f"{round_up(guarantee.epsilon(one))} at {one:g}" for one in deltas)
    return [
        ("Guarantee", f"({round_up(guarantee.epsilon(delta))}, {round_up(delta)})-differential privacy"),
        ("Budget", f"epsilon = {round_up(epsilon)}, delta = {round_up(delta)}"),
        *(("Weak", said) for said in weaknesses(epsilon, delta, facts["n"])),
        ("epsilon at delta", curve),
        ("Accountant", guarantee.accountant),
    ]


def _of_owner(owner: OwnersGuarantee) -> str:
    held = "n withheld" if owner["n"] is None else f"n = {owner['n']} (public)"
    budget = "no guarantee: epsilon = inf"
    if owner["epsilon"] is not None:
        budget = f"({round_up(owner['epsilon'])}, {owner['delta']:g})-differential privacy"
    return (
        f"{budget} of its own {'rows' if owner['unit'] == 'row' else 'persons'}, {held}, against the "
        "coordinator, other owners and readers; "
        f"{'charged to' if owner['ledger'] else 'without'} a ledger of its own"
    )


def _of_parameter(said: Mapping[str, object]) -> str:
    return ", ".join(f"{what} {_number(value)}" for what, value in said.items())


def _number(value: object) -> str:
    if value is None:
        return "unknown"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
