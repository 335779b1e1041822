"""dp.sample and dp.release: sample privately, and keep only what may be published."""

import json
import warnings
from collections.abc import Sequence
from datetime import datetime
from inspect import signature
from typing import Any

import numpy as np
import pymc as pm
from xarray import Dataset, DataTree

from pymc_dp import results
from pymc_dp.bounds import check_choice, check_count, check_counts, model_of
from pymc_dp.errors import NotPrivateWarning, NotSampledError, warn_not_private
from pymc_dp.likelihood.draws import draw
from pymc_dp.likelihood.likelihood import Likelihood
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.budget.known import Facts
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.releasing import release_likelihood
from pymc_dp.steps.base import DPStep
from pymc_dp.steps.nuts import DPNUTS, OF_NUTS, OF_RELEASE

#: What `pymc.sample` calls the samplers that it passes a model to.
NUTS_SAMPLERS = ("pymc", "nutpie", "numpyro", "blackjax")


def sample(
    *args: object,
    draws: int = 1000,
    step: DPStep | DPNUTS | None = None,
    tune: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    **kwargs: Any,
) -> DataTree:
    """Sample privately, and return what may be published.

    With `epsilon`, the likelihood is released once (`release_likelihood`), and `pymc.sample` then samples the
    posterior: with any sampler, any number of chains, at no further privacy cost. With a step, `pymc.sample`
    runs that step.

    Parameters
    ----------
    *args : int, DPStep, DPNUTS
        `draws` first, as in `pymc.sample`; or `step`, and then `draws`.
    draws : int
        Number of draws of each chain.
    step : DPStep or DPNUTS, optional
        A step that was made in the model's context and has not been used before.
    tune : int, optional
        Number of tuning iterations of each chain. With a step they are paid for. Default: the step's
        `default_tune_steps`; without a step the default of `pymc.sample`.
    epsilon : float, optional
        Without a step: the guarantee of the whole call.
    delta : float, optional
        Default: see `release_likelihood`.
    **kwargs
        Passed to `pymc.sample`: cores, random_seed, progressbar, ... Without a step, also `nuts_sampler`,
        `target_accept` and all its other arguments, and the arguments of `release_likelihood`: data, owners,
        ledger, label, privacy_unit, public, ... Variables in `var_names` that read rows are left out; if all
        do, everything that is public is kept.

    Returns
    -------
    xarray.DataTree
        See `release`.

    Raises
    ------
    TypeError, ValueError
        An argument is missing or wrong, would leak, or is determined by the step.
    PrivacyError
        The step refuses.
    NotSampledError
        Without a step: the sampler failed, or chains do not agree. In the second case it is raised only after
        a second try with ``target_accept=0.99``, unless `kwargs` choose that or a sampler. The error carries
        the likelihood, which was paid for.

    Notes
    -----
    **Privacy.** The returned object is the output of the mechanism that ``privacy_report`` describes.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_dp as dp
    >>> y = np.random.default_rng(1).normal(size=20_000)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 2)
    ...     _ = pm.Normal("y", mean, 1, observed=y)
    ...     idata = dp.sample(100, epsilon=1, chains=1, quiet=True)
    >>> idata.posterior["mean"].shape
    (1, 100)
    """
    for value in args:
        if isinstance(value, DPStep | DPNUTS):
            step = value
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            draws = int(value)
        else:
            raise TypeError(
                "dp.sample takes a number of draws and a private step (DPPenaltyMH, ...), got "
                f"{type(value).__name__}."
            )
    if step is None:
        if epsilon is None and kwargs.get("owners") is None:
            raise TypeError("dp.sample needs epsilon=, or a step; or owners=, each with its own epsilon.")
        return _sample_likelihood(draws, tune, epsilon, delta, kwargs)
    if not isinstance(step, DPStep | DPNUTS):
        raise TypeError(f"dp.sample needs a private step (DPPenaltyMH, ...), got {type(step).__name__}.")
    elif epsilon is not None or delta is not None:
        raise TypeError("dp.sample takes a step, or epsilon=: a step has its own.")
    model = kwargs.pop("model", None)
    if model is not None and set(model.value_vars) != set(step.vars):
        raise ValueError("The step was made for another model than model=: leave model= out.")
    if isinstance(step, DPNUTS):  # its likelihood was released before; it has settings for NUTS
        return _drawn(step.likelihood, draws, tune, {"nuts_sampler": "pymc", **step.settings, **kwargs})
    return _sample_step(step, draws, tune, kwargs)


def _sample_likelihood(
    draws: int, tune: int | None, epsilon: float | None, delta: float | None, kwargs: dict[str, Any]
) -> DataTree:
    """Release a likelihood, and sample the posterior that it has with the prior."""
    check_counts(draws, tune or 0, kwargs.get("chains") or 1)
    model = model_of(kwargs.pop("model", None))
    of_release = OF_RELEASE - {"model", "epsilon", "delta", "cores"}
    given = {name: kwargs.pop(name) for name in sorted(of_release & kwargs.keys())}
    # Arguments that neither `pymc.sample` nor its NUTS takes are refused before anything is paid.
    if unknown := set(kwargs) - {*signature(pm.sample).parameters, *OF_NUTS, "nuts"}:
        raise TypeError(f"dp.sample got {sorted(unknown)}, which neither it nor pymc.sample has.")
    if not kwargs.get("return_inferencedata", True):
        raise TypeError("dp.sample does not take return_inferencedata=: it returns a DataTree.")
    names = kwargs.get("var_names")
    if not_there := sorted(set(names or ()) - {v.name for v in model.unobserved_RVs}):
        raise ValueError(
            f"var_names has {not_there}, which the model does not have, or {names!r} is no list."
        )
    if kwargs.get("nuts_sampler") is not None:
        check_choice("nuts_sampler", kwargs["nuts_sampler"], NUTS_SAMPLERS)
    if kwargs.get("cores") is not None:
        check_count("cores", kwargs["cores"])
    cores = kwargs.get("cores") or 1  # for the threads of the release and, afterwards, for the chains
    likelihood = release_likelihood(model, epsilon=epsilon, delta=delta, cores=cores, **given)
    return _drawn(likelihood, draws, tune, kwargs)


def _drawn(likelihood: Likelihood, draws: int, tune: int | None, kwargs: dict[str, object]) -> DataTree:
    """Sample a likelihood that was paid for; whatever fails, the error carries it."""
    try:
        made = draw(likelihood, draws, tune, kwargs)
        return _finished(made, json.loads(made.attrs[facts.STAT]), made)
    except NotSampledError:
        raise
    except Exception as error:
        said = f"The draws could not be looked at ({type(error).__name__}: {error})."
        raise NotSampledError(said, likelihood) from error


def _sample_step(step: DPStep, draws: int, tune: int | None, kwargs: dict[str, object]) -> DataTree:
    """Run a step, and release what it recorded."""
    chains = kwargs.pop("chains", step.chains)
    check_counts(draws, step.default_tune_steps if tune is None else tune, chains)
    if chains != step.chains:
        raise ValueError(f"The budget of this step is for chains={step.chains}: give the number to the step.")
    for name in ("step", "trace", "nuts_sampler", "return_inferencedata", "idata_kwargs"):
        if name in kwargs:
            raise TypeError(
                f"dp.sample does not take {name}=: it could store exact values; use pm.sample(step=step, "
                "...)."
            )
    kwargs.setdefault("var_names", step.records.released_variables)
    if step.records.one_process:  # work is done in parallel where the records are, and not by chains
        kwargs.setdefault("cores", 1)
    return release(pm.sample(draws, tune=tune, chains=step.chains, step=step, model=step.model, **kwargs))


def release(idata: DataTree) -> DataTree:
    """Return the part of a result that may be published.

    Parameters
    ----------
    idata : xarray.DataTree
        From `pymc.sample` with a private step; or a release, unchanged.

    Returns
    -------
    xarray.DataTree
        Groups `posterior` and `sample_stats` (and their warm-up): variables that read no private row and
        sampler stats, both as the private step recorded them at each draw; dimensions and coordinates as
        the model declares them; and the facts of the run, in the attributes. Chains and draws are numbered
        anew.

    Raises
    ------
    TypeError
        `idata` is no `DataTree`.
    PrivacyError
        The result does not come, as a whole, from one call of a private step: another step moved the
        parameters, results were joined, or what the step recorded at a draw was lost.

    Warns
    -----
    NotPrivateWarning
        The run had epsilon = inf or a debug seed. Or the object also holds predictions, log-likelihoods or
        other groups that were added later; these are left out.

    Notes
    -----
    **Privacy.** The returned object is built from what the private step recorded at each draw, not from what
    `idata` holds: its values, sampler stats, names, coordinates and attributes are post-processing of the
    step's releases.
    """
    known = results.facts_of(idata)
    released = results.is_release(idata)
    if added := results.added_groups(idata, released):
        warnings.warn(
            f"This object also holds {', '.join(added)}, which no private step made: what PyMC predicts or "
            "evaluates at the rows of the model shows them. It is left out of the release; do not publish "
            f"the object it came in. {results.AT_PUBLIC_INPUTS}",
            NotPrivateWarning,
            stacklevel=2,
        )
    draws = {} if released else results.draws_of(idata, known)
    if not known["is_private"]:
        warn_not_private(stacklevel=2)
    groups: dict[str, Dataset] = {}
    for group, left in draws.items():
        if group in idata.children:
            groups[group] = results.named(left.values, known)
        # Only the sampler stats that the step recorded at each draw: the run paid for those.
        stats = {name: (["chain", "draw"], values) for name, values in sorted(left.stats.items())}
        sizes = zip(("chain", "draw"), left.header.shape, strict=True)
        groups[results.GROUPS[group]] = Dataset(stats, {dim: np.arange(size) for dim, size in sizes})
    if released:
        groups = {group: results.plain(idata[group].to_dataset()) for group in results.covered(idata)}
    return _finished(DataTree.from_dict(groups), known, idata)


def _finished(out: DataTree, known: Facts, source: DataTree) -> DataTree:
    """Add attributes, the facts, a digest of all, and a notice that is seen when the object is printed."""
    groups = list(map(str, out.children))
    for group in groups:
        out[group].attrs = _attrs(known, source[group].attrs.get("created_at"))
    return results.stamp(out, known, notice(known, groups))


def notice(known: Facts, groups: Sequence[str]) -> str:
    """State which groups of an object the guarantee covers, for those who print it."""
    if not known["is_private"]:
        return "NOT PRIVATE: epsilon is inf, or a debug seed was used. Do not publish."
    plan = PrivacyPlan.from_dict(known["plan"])
    return (
        f"{plan.promise} for the groups {', '.join(groups)} as dp.release made "
        "them. Any other group is NOT covered: do not publish it. Nor what "
        "pm.sample_posterior_predictive or pm.compute_log_likelihood make of this result: they predict at, "
        f"or evaluate, the private rows of the model. {results.AT_PUBLIC_INPUTS}"
    )


def _attrs(known: Facts, created_at: object) -> dict[str, object]:
    """Return attributes that ArviZ expects, from the facts; only a date comes from the object itself."""
    attrs = {
        "inference_library": "pymc",
        "inference_library_version": known["versions"]["pymc"],
        "tuning_steps": known["plan"]["tune"],
    }
    try:
        return {"created_at": datetime.fromisoformat(str(created_at)).isoformat()} | attrs
    except (TypeError, ValueError):
        return attrs
