"""Draws of the posterior of a released likelihood, with the facts that a report needs."""

import json
import math
import uuid
from collections.abc import Sequence
from typing import Any, cast

import arviz as az
import numpy as np
import pymc as pm
from xarray import Dataset, DataTree

from pymc_dp.errors import NotSampledError
from pymc_dp.likelihood.likelihood import Likelihood
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.budget.known import (
    Facts,
    LikelihoodFacts,
    OwnerFacts,
    OwnersGuarantee,
    ReleasedFacts,
    SharedFacts,
    Variable,
)
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.mechanisms.iterations import NoDecision
from pymc_dp.records.harmless import IMPROPER
from pymc_dp.results import GROUPS, plain

#: Name of this kind of run in facts and reports.
LIKELIHOOD = "Likelihood"
# Beginnings of the names of sampler stats that are times.
CLOCKS = ("perf_counter", "process_time")


def draw(likelihood: Likelihood, draws: int, tune: int | None, kwargs: dict[str, Any]) -> DataTree:
    """Sample the public model, and keep what a release consists of: draws and sampler stats.

    Parameters
    ----------
    likelihood : Likelihood
    draws : int
    tune : int, optional
    kwargs : dict
        Arguments of `pymc.sample`: any of them, since nothing that it reads is private.

    Returns
    -------
    DataTree
        Its only attribute is the facts of the run.

    Raises
    ------
    NotSampledError
        The posterior is improper, the sampler failed, chains do not agree, or there are too few effective
        draws. The last two are errors only after a second try, with `target_accept` 0.99 and five draws for
        each that is kept, unless `kwargs` choose `target_accept` or a sampler. The error carries the
        likelihood, which is paid for.

    Notes
    -----
    **Privacy.** A function of the released likelihood.
    """
    model = likelihood.model()
    _check_proper(likelihood, model)
    several = 4  # chains have no privacy cost
    chains = kwargs.pop("chains", None) or several
    tuned = {} if tune is None else {"tune": tune}
    settings = {"compute_convergence_checks": False, "return_inferencedata": True} | kwargs
    if "var_names" in kwargs:  # what reads rows is not in the public model; the report names it
        asked = cast(Sequence[str] | None, kwargs["var_names"])
        settings["var_names"] = [name for name in asked or () if name in model.named_vars] or None
    chosen = {"target_accept", "nuts", "nuts_sampler", "nuts_sampler_kwargs", "step"} & kwargs.keys()
    # If the draws fail the checks, sample once more, with steps that are short enough for scales near zero,
    # and this many draws for each that is kept.
    careful, each = {"target_accept": 0.99}, 5
    for choice, thin in [(settings, 1)] if chosen else [(settings, 1), (settings | careful, each)]:
        number = {"draws": thin * draws, "chains": chains}
        idata = _sampled(likelihood, model, number | tuned | choice)
        idata = idata.isel(draw=slice(None, None, thin), missing_dims="ignore")
        with np.errstate(all="ignore"):  # a constant variable has no R-hat
            found = _wrong(idata)
        if found is None:
            break
    if found is not None:
        raise NotSampledError(found, likelihood)
    kept = {name: keep for pair in GROUPS.items() for name, keep in zip(pair, (plain, _numbers), strict=True)}
    groups = {name: keep(idata[name].to_dataset()) for name, keep in kept.items() if name in idata.children}
    plan = plan_of(likelihood.facts, chains, 0, groups["posterior"].sizes["draw"])
    for stats in {"sample_stats", *groups} & set(GROUPS.values()):
        spent = plan.epsilon_at(plan.delta) if plan.is_private else math.inf  # before the first draw
        own = groups.get(stats, groups["posterior"][[]])
        sizes = own.sizes["chain"], own.sizes["draw"]
        groups[stats] = own.assign(epsilon_spent=(["chain", "draw"], np.full(sizes, spent)))
    made = DataTree.from_dict(groups)
    variables = _variables(groups["posterior"], model)
    released = ReleasedFacts(variables=variables, coords={}, left_out_deterministics=[])
    types = dict.fromkeys(map(str, groups["sample_stats"].data_vars), "<f8")
    known = facts_of_draws(likelihood, plan, uuid.uuid4().hex, released, types)
    made.attrs[facts.STAT] = json.dumps({"format": facts.FORMAT, **known})
    return made


def _check_proper(likelihood: Likelihood, model: pm.Model) -> None:
    """Refuse to sample an improper posterior, before chains spend minutes on it."""
    flat = [rv.name for rv in model.free_RVs if isinstance(rv.owner.op, IMPROPER)]
    if flat and not np.any(likelihood.information):
        raise NotSampledError(
            "Nothing was found of any parameter (the report says why), and the prior of "
            f"{', '.join(flat)} is flat: there is no posterior.",
            likelihood,
            "Under proper priors it can be sampled, and says nothing: `error.likelihood.potential(...)` puts "
            "it into a model of yours.",
        )


def _sampled(likelihood: Likelihood, model: pm.Model, settings: dict[str, object]) -> DataTree:
    try:
        with np.errstate(all="ignore"):  # first steps may be far out
            return pm.sample(model=model, **settings)
    except Exception as error:
        raise NotSampledError(f"pymc.sample failed ({type(error).__name__}: {error}).", likelihood) from error


def _wrong(idata: DataTree) -> str | None:
    """Return why draws do not represent the posterior; None if the checks pass."""
    posterior = idata["posterior"]
    # R-hat and effective numbers are looked at if there are at least two chains, and at least this many draws
    # of all chains together.
    fewest_draws = 400
    if posterior.sizes["chain"] < 2 or posterior.sizes["chain"] * posterior.sizes["draw"] < fewest_draws:
        return None
    r_hat = max(
        float(np.nanmax(v.values, initial=1.0)) for v in az.rhat(posterior.dataset).data_vars.values()
    )
    found = az.ess(posterior.dataset).data_vars.values()
    effective = min(float(np.nanmin(v.values, initial=math.inf)) for v in found)
    # Draws are not returned if the R-hat of some variable is above this.
    largest_r_hat = 1.05
    # Draws are not returned if the effective number of draws of some variable is below this.
    fewest_effective = 100
    if r_hat <= largest_r_hat and effective >= fewest_effective:
        return None
    return (
        f"The draws are not a posterior: the largest R-hat is {r_hat:.3g}, and the least effective "
        f"number of draws {effective:.0f}."
    )


def _numbers(dataset: Dataset) -> Dataset:
    """Keep the stats that are one number for each draw, without times."""
    kept = [
        name
        for name, v in dataset.data_vars.items()
        if v.ndim == 2 and v.dtype.kind in "biuf" and not str(name).startswith(CLOCKS)
    ]
    return plain(dataset[kept])


def plan_of(known: LikelihoodFacts | OwnersGuarantee, chains: int, tune: int, draws: int) -> PrivacyPlan:
    """Make a plan of one release and free draws, for the whole likelihood or for one owner."""
    events = EventSet.from_json(json.dumps(known["events"]))
    relation, epsilon = events.neighboring_relation, known["epsilon"]
    return PrivacyPlan(
        epsilon=math.inf if epsilon is None else epsilon,
        delta=known["delta"],
        neighboring_relation=relation,
        chains=chains,
        tune=tune,
        draws=draws,
        mechanism=NoDecision(),
        clip_fraction=None,
        once=EventSet.unlimited(relation) if epsilon is None else events,
    )


def _of_owner(known: OwnersGuarantee, plan: PrivacyPlan) -> OwnerFacts:
    """Return the facts of one of several data owners, as a report reads them."""
    return {
        "name": known["name"],
        "plan": plan_of(known, plan.chains, plan.tune, plan.draws).to_dict(),
        "n": known["n"],
        "unit": known["unit"],
        "clip": "a bound of each round",
        "ledger": known["ledger"],
    }


def facts_of_draws(
    likelihood: Likelihood, plan: PrivacyPlan, call: str, released: ReleasedFacts, stats: dict[str, str]
) -> Facts:
    """Return the facts of a run, as a report reads them."""
    known = likelihood.facts
    shared = {name: known[name] for name in SharedFacts.__annotations__ if name in known}  # type: ignore[literal-required]
    return {
        **cast(SharedFacts, shared),
        **released,
        "plan": plan.to_dict(),
        "step": LIKELIHOOD,
        "mechanism": "one released likelihood, sampled with its prior at no cost",
        "approximation": "prior times a normal likelihood that noise widened (dp.release_likelihood)",
        "clip": "a bound of each round, from what was released before",
        "clipped": "score, compared with those of its twins",
        "tempering": 1.0,
        "proposal": "any sampler: no record is read",
        "withheld_dims": [],
        "excluded_deterministics": [],
        "released_variables": sorted(one["name"] for one in released["variables"]),
        "stats": stats,
        "left_out_deterministics": known.get("left_out", []),
        "call": call,
        "owners": [_of_owner(one, plan) for one in known.get("owners", ())],
        "verdict": known["verdict"],
    }


def _variables(posterior: Dataset, model: pm.Model) -> list[Variable]:
    """Return names, types, shapes and dimensions of the variables that were drawn."""
    dims, free = model.named_vars_to_dims, {rv.name for rv in model.free_RVs}
    return [
        {
            "name": str(name),
            "free": str(name) in free,
            "dtype": variable.dtype.str,
            "shape": list(variable.shape[2:]),
            "dims": list(dims.get(str(name), ())) or [None] * (variable.ndim - 2),
        }
        for name, variable in posterior.data_vars.items()
    ]
