"""The report of a released likelihood: its guarantee, what was released, and a verdict on each parameter."""

import json
import math
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.likelihood.points import UNBOUNDED
from pymc_dp.likelihood.rounds import Found
from pymc_dp.privacy.accounting.composition import Guarantee, compose
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget import words
from pymc_dp.privacy.budget.known import AccuracyFacts, LikelihoodFacts, OwnersGuarantee, SharedFacts, Verdict

ASSUMPTIONS = (
    "The prior, the initial values and the choice of model were made without looking at these data, or with "
    f"what was released of them before. {words.ONE_CALL}",
    words.PUBLIC_ARRAYS,
    "Only this likelihood, and what is computed from it, is published; nobody sees the running time, memory "
    "or intermediate state of the call that made it.",
    words.FLOATING_POINT,
)

# Conditions under which the result is accurate. The privacy guarantee does not depend on them.
_RIGHT_IF = (
    "Outcomes have the law that the model gives them, given a record's other columns. No column may be "
    "decided by the outcome of its own row, as the time until the event as an exposure is. By "
    "outcomes of the person's earlier rows it may, if rows stand in the order of time and persons have no "
    "effects of their own; and by outcomes of observed variables that are defined before its own "
    "(docs/accuracy, models that are wrong)."
)


def read_guarantee(facts: LikelihoodFacts) -> Guarantee:
    """Compute the joint privacy cost of the events of a release.

    Raises
    ------
    ValueError
        The facts hold no valid events.
    """
    events = EventSet.from_json(json.dumps(facts["events"]))
    return compose(events, reference_delta=facts["delta"])


def write_report(facts: LikelihoodFacts, released: str) -> str:
    """Return the text of the report.

    Parameters
    ----------
    facts : dict
        Facts of the release.
    released : str
        Description of what was released.
    """
    rows = [
        *_of_guarantee(facts),
        *words.of_unit(facts["unit"], facts["n"], facts.get("tables", ()), facts["neighboring_relation"]),
        *((f"Owner {owner['name']}", _of_owner(owner)) for owner in facts.get("owners", ())),
        ("Released", released),
        *((name, _of_parameter(said)) for name, said in facts["verdict"].items()),
        *_reasons(facts["verdict"]),
        *accuracy_rows(facts),
        *closing_rows(facts, [f"{name} (reads rows)" for name in facts.get("left_out", ())], ASSUMPTIONS),
    ]
    title = "Released likelihood"
    return "\n".join([title, "=" * len(title), *(line for row in rows for line in words.wrap(*row))])


def accuracy_rows(facts: AccuracyFacts) -> list[tuple[str, str]]:
    """Return rows of both reports on accuracy: its conditions, and what other releases show about them."""
    censoring = [("Censoring", facts["censoring"]["said"])] if "censoring" in facts else []
    fit = [("Fit", facts["fit"]["said"])] if "fit" in facts else []
    return [("Right if", _RIGHT_IF), *censoring, *fit]


def closing_rows(facts: SharedFacts, left_out: Collection[str], assumptions: Iterable[str]) -> words.Rows:
    """Yield the last rows of both reports: what was public, trusted, left out and assumed; versions."""
    kinds: dict[str, list[str]] = {}
    for label, shape, kind in facts.get("public_arrays", ()):
        kinds.setdefault(kind, []).append(f"{label} ({', '.join(map(str, shape))})")
    for kind, listed in kinds.items():
        yield kind.capitalize(), ", ".join(listed)
    if trusted := facts.get("trusted_ops"):
        yield "Trusted", f"Ops that the user vouched for: {', '.join(trusted)}"
    if left_out:
        yield "Left out", f"not released: {', '.join(left_out)}"
    yield "Assumed", " ".join(assumptions)
    yield "Versions", ", ".join(f"{name} {version}" for name, version in facts["versions"].items())


def _of_guarantee(facts: LikelihoodFacts) -> list[tuple[str, str]]:
    if not facts["is_private"]:
        return [("Guarantee", words.no_promise("RELEASE", facts["debug_seed_used"]))]
    guarantee, delta, epsilon = read_guarantee(facts), facts["delta"], facts["epsilon"] or math.inf
    return [
        ("Guarantee", words.promise(guarantee.epsilon(delta), delta)),
        *words.of_budget(epsilon, delta, facts["n"]),
        *words.of_curve(guarantee, delta),
    ]


def _of_owner(owner: OwnersGuarantee) -> str:
    promised = "no guarantee: epsilon = inf"
    if owner["epsilon"] is not None:
        promised = words.promise(owner["epsilon"], owner["delta"])
    return words.of_owner(promised, owner["unit"], owner["n"], "", owner["ledger"])


def _reasons(verdicts: Mapping[str, Verdict]) -> words.Rows:
    """Yield explanations: of verdicts, once for all parameters that have one; and if nothing is known."""
    if all(one.get("verdict") == _TELLS_LITTLE and one.get("of_prior") == 1.0 for one in verdicts.values()):
        yield "Why", _WHY_NOTHING
    for verdict, why in _WHY.items():
        if names := [name for name, one in verdicts.items() if one.get("verdict") == verdict]:
            yield "Why", why.format(", ".join(names))


def _of_parameter(said: Mapping[str, object]) -> str:
    return ", ".join(f"{what} {_number(value)}" for what, value in said.items())


def _number(value: object) -> str:
    if value is None:
        return "unknown"
    # Larger factors are reported as "more than" this.
    most_said = 100
    if isinstance(value, float) and value > most_said:
        return f"more than {most_said}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


# Verdict on a parameter that has wide intervals because of noise or clipping.
_TELLS_LITTLE = "says little"
# Verdict on a parameter that records bound on one side only.
_ONE_SIDED = "says little: bounded on one side alone"
# Verdict on a parameter whose estimate is far beyond a bound of its prior.
_BEYOND = "in doubt: beyond its bound"
# Explanations of verdicts.
_WHY = {
    _ONE_SIDED: "Records say that {} is at least so far from its initial value, and not how much farther: as "
    "where all outcomes are alike, a plane separates them, or noise hides the few that would tell. Beyond, "
    "the prior decides; one that rules out what cannot be is the mend, or more records, or a larger epsilon.",
    _BEYOND: "Records are likeliest where {} is beyond a bound of its prior, by more than four standard "
    "errors. Either the prior rules out what they say; or the parameter is periodic, as a phase is, and its "
    "other end is meant: then write it by a sine and a cosine.",
}
# Explanation where nothing was found about any parameter.
_WHY_NOTHING = (
    "Nothing was found of any parameter: the search did not arrive where the parameters are, noise hides "
    "them, or outcomes are all alike or separated by a covariate. If covariates are far from zero, or "
    "initial values far off, centre them by a public number and give a nearer prior or initial values; "
    "else it takes more records or a larger epsilon."
)
# Verdict on all parameters, if bounds of censoring may be unknown and outcomes cannot be compared in
# intervals.
_IN_DOUBT = "in doubt: see Censoring"


def judge(
    found: Found,
    prior: Normal,
    labels: list[str],
    beside: AccuracyFacts | None = None,
    bounds: np.ndarray = UNBOUNDED,
) -> dict[str, Verdict]:
    """Judge how well each coordinate is known.

    Parameters
    ----------
    found : Found
    prior : Normal
        Approximation of the prior of the coordinates.
    labels : list of str
        Names of the coordinates.
    beside : AccuracyFacts, optional
        Facts from other releases.
    bounds : ndarray, shape (2, p)
        Bounds of the prior.

    Returns
    -------
    dict
        By label: `verdict` in words; `wider`, the standard deviation over that without privacy, as estimated
        from released numbers; `of_prior`, the standard deviation over the prior's.

    Notes
    -----
    **Privacy.** Post-processing.
    """
    censoring = (beside or {}).get("censoring")
    private = _deviations(found.message.information + prior.precision)
    # The larger information is used: a slope of records that are clipped more than normal ones seems too
    # small.
    without = np.minimum(*(_deviations(one + prior.precision) for one in (found.information, found.least)))
    before = _deviations(prior.precision)
    mean = found.message.moments(prior)[0]
    # An estimate is reported as beyond a bound if it is more than this many standard errors beyond.
    far_beyond = 4.0
    beyond = np.maximum(bounds[0] - mean, mean - bounds[1]) > far_beyond * private
    along = np.abs(found.one_sided) / before
    # A one-sided direction concerns the coordinates that change along it by more than this fraction of the
    # largest change, in prior standard deviations.
    part_along = 0.3
    open_ = along > part_along * max(along.max(), math.ulp(0.0))
    verdicts: dict[str, Verdict] = {}
    each = zip(labels, private, without, before, open_, beyond, strict=True)
    # A parameter is usable without reservation if its standard deviation is at most this many times the one
    # without privacy.
    as_good = 1.25
    # A parameter is hardly known if its standard deviation is more than this fraction of the prior's.
    little = 0.7
    # Records have next to no information about a parameter if its standard deviation is more than this
    # fraction of the prior's.
    nothing = 0.95
    for label, one, other, first, unbounded, outside in each:
        wider, of_prior = max(float(one / other), 1.0), min(float(one / first), 1.0)
        if censoring is not None and censoring["in_doubt"]:
            said = _IN_DOUBT
        elif of_prior > little and (wider > as_good or not np.any(found.message.information)):
            said = _TELLS_LITTLE
        elif unbounded:
            said = _ONE_SIDED
        elif outside:
            said = _BEYOND
        elif of_prior > nothing:
            said = "says little, with or without privacy"
        elif wider <= as_good:
            said = "usable"
        else:
            said = "usable, wider than without privacy"
        verdicts[label] = {"verdict": said, "wider": wider, "of_prior": of_prior}
    return verdicts


def _deviations(precision: np.ndarray) -> np.ndarray:
    # Computed in units in which all diagonal entries are 1: parameters may have any scale.
    unit = 1 / np.sqrt(np.maximum(np.diag(precision), math.ulp(0.0)))
    variances = np.diag(np.linalg.pinv(precision * np.outer(unit, unit), hermitian=True))
    return unit * np.sqrt(np.maximum(variances, math.ulp(0.0)))
