"""The front door: run a private step, and keep what may be published."""

import json
import warnings
from typing import Any

import numpy as np
import pymc as pm
from xarray import Dataset, DataTree

from pymc_dp.errors import PrivacyError
from pymc_dp.privacy import facts
from pymc_dp.steps.base import NOISY_RATIO, DPStep
from pymc_dp.steps.surrogate import CUT

# What may leave: everything else that PyMC stores (observed_data, constant_data, log_likelihood, ...) is
# dropped.
RELEASED_GROUPS = {
    "posterior": "sample_stats",
    "warmup_posterior": "warmup_sample_stats",
}
RELEASED_STATS = frozenset(DPStep.stats_dtypes_shapes) - {facts.STAT}
RELEASED_ATTRS = ("created_at", "inference_library", "inference_library_version", "tuning_steps")


class NotPrivateWarning(UserWarning):
    """The result has no privacy guarantee (epsilon = inf, or a debug seed)."""


def sample(step: DPStep, draws: int = 1000, *, tune: int | None = None, **kwargs: Any) -> DataTree:
    """Sample with a private step, and return what may be published.

    Checks what a step alone cannot see, calls `pymc.sample`, and passes the result through `release`.

    Parameters
    ----------
    step : DPStep
        Made in the model's context, not used before.
    draws : int
        Draws of each chain.
    tune : int, optional
        Tuning iterations of each chain; they are paid for. Default: the step's `default_tune_steps`.
    **kwargs
        Passed to `pymc.sample`: cores, random_seed, progressbar, initvals, ...

    Returns
    -------
    xarray.DataTree
        See `release`.

    Raises
    ------
    TypeError, ValueError
        Arguments that would leak or that the step decides.
    PrivacyError
        The step refuses.

    Notes
    -----
    **Privacy.** The returned object is the output of the mechanism described by ``privacy_report``.
    """
    if not isinstance(step, DPStep):
        raise TypeError(f"dp.sample needs one private step (DPPenaltyMH, ...), got {type(step).__name__}.")
    if kwargs.pop("chains", step.chains) != step.chains:
        raise ValueError(f"The budget of this step is for chains={step.chains}: give the number to the step.")
    for name in ("step", "trace", "nuts_sampler", "return_inferencedata", "idata_kwargs"):
        if name in kwargs:
            raise TypeError(
                f"dp.sample does not take {name}=: it could store exact values; use pm.sample(step=step, "
                "...)."
            )
    kwargs.setdefault("var_names", step.records.released_variables)
    kwargs.setdefault("model", step.model)
    if getattr(step.records, "one_process", False):  # what runs in parallel is where the records are
        kwargs.setdefault("cores", 1)
    return release(pm.sample(draws, tune=tune, chains=step.chains, step=step, **kwargs))


def release(idata: DataTree) -> DataTree:
    """Copy of a result that holds only what may be published.

    Parameters
    ----------
    idata : xarray.DataTree
        From `pymc.sample` with a private step.

    Returns
    -------
    xarray.DataTree
        Groups `posterior` and `sample_stats` (and their warm-up), with the variables that read no private
        row, the declared sampler stats, and the coordinates of these variables; the facts of the run in its
        attributes.

    Raises
    ------
    PrivacyError
        The result does not come from a private step.

    Warns
    -----
    NotPrivateWarning
        The run had epsilon = inf or a debug seed.

    Notes
    -----
    **Privacy.** An allow-list: post-processing of the released draws and stats.
    """
    known = facts_of(idata)
    if not known["is_private"]:
        warnings.warn(
            "This result is NOT PRIVATE: epsilon is inf, or a debug seed was used.",
            NotPrivateWarning,
            stacklevel=2,
        )
    groups: dict[str, Dataset] = {}
    for draws, stats in RELEASED_GROUPS.items():
        if draws in idata.children:
            groups[draws] = _allowed(idata[draws].to_dataset(), known["released_variables"], known)
        if stats in idata.children:
            groups[stats] = _allowed(idata[stats].to_dataset(), released_stats(known), known)
    out = DataTree.from_dict(groups)
    out.attrs[facts.STAT] = json.dumps(known)
    return out


def released_stats(known: dict[str, Any]) -> frozenset[str]:
    """Names of the sampler stats that a run paid for."""
    paid = {NOISY_RATIO} if known["plan"]["release"] == "noisy_ratio" else set()
    return RELEASED_STATS | paid | ({CUT} if known.get("cut") else set())


def facts_of(idata: DataTree) -> dict[str, Any]:
    """Facts of the run, from a result of `pymc.sample`, `sample` or `release`, or from a saved file.

    Raises
    ------
    PrivacyError
        There are none.
    """
    if facts.STAT in idata.attrs:
        return json.loads(idata.attrs[facts.STAT])
    for group in RELEASED_GROUPS.values():
        if group in idata.children and facts.STAT in idata[group].data_vars:
            stored = idata[group][facts.STAT]
            return facts.decode(np.asarray(stored.isel(chain=0, draw=0)))
    raise PrivacyError(
        "This result does not come from a private step of pymc_dp: it has no record of its privacy."
    )


def _allowed(dataset: Dataset, names: Any, known: dict[str, Any]) -> Dataset:
    kept = dataset[[name for name in dataset.data_vars if name in names]]
    kept = kept.drop_vars(
        [name for name in kept.coords if name not in kept.dims or name in known["withheld_dims"]]
    )
    kept.attrs = {name: dataset.attrs[name] for name in RELEASED_ATTRS if name in dataset.attrs}
    for variable in kept.variables.values():
        variable.attrs = {}
    return kept
