"""A released posterior with its model: the records, and draws as points at which to evaluate them."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pymc as pm
from xarray import Dataset, DataTree

from pymc_dp.bounds import check_count
from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.privacy.budget.known import Facts
from pymc_dp.privacy.budget.spending import Spending, SpendingFacts
from pymc_dp.records import gate
from pymc_dp.records.arrays import DECLARED
from pymc_dp.records.model import RecordModel
from pymc_dp.records.reading import ReadingSettings
from pymc_dp.results import facts_of
from pymc_dp.sampling import release


class Fitted(NamedTuple):
    """The records of a model, and released draws of it, for a comparison or a check.

    Attributes
    ----------
    records : RecordModel
        Private.
    points : ndarray, shape (S, d)
        Released draws as flat unconstrained vectors.
    """

    records: RecordModel
    points: np.ndarray


def fitted(
    idata: DataTree,
    model: pm.Model,
    draws: int,
    *,
    privacy_unit: object = None,
    may_be_public: bool = False,
    observed: Collection[str] | None = None,
) -> Fitted:
    """Read a result and its model, with the settings with which the model was read for the result.

    Parameters
    ----------
    idata : DataTree
        From `dp.sample`, or `pm.sample` with a private step.
    model : pymc.Model
    draws : int
        Largest number of draws that are used, evenly spaced.
    privacy_unit : array_like, optional
        As it was given for the result.
    may_be_public : bool
        Whether a result that is not private is accepted.
    observed : collection of str, optional
        Observed variables of one table, whose rows are the records. Default: all.

    Raises
    ------
    PrivacyError
        The result is not private, not complete, or of another model.
    ModelRefusedError
        The model cannot be read as records, or effects of persons were integrated out and have no draws.

    Notes
    -----
    **Privacy.** Draws are taken from the output of `release` on the result: they are public.
    """
    check_count("draws", draws, 2)
    known = facts_of(idata)
    if not known["is_private"] and not may_be_public:
        raise PrivacyError(
            "The draws of this result are not private (epsilon = inf, or a debug seed).\n"
            "  Why this is refused: they depend on all records without noise, so that one record would move "
            "the scores of all others.\n"
            "  How to fix it: fit with a private step and no debug seed. To try it out on simulated data, "
            "give epsilon=inf here as well."
        )
    if (known["unit"] == "row") != (privacy_unit is None):
        raise PrivacyError(
            "The result is for persons: give the ids of the rows, privacy_unit=."
            if privacy_unit is None
            else "The result is for rows, and privacy_unit= is given: their guarantees cannot be added up."
        )
    for name in known.get("integrated", []):
        raise ModelRefusedError(
            f"In the model of this result {name!r} was integrated, an effect with an entry for each person.",
            "what a record says is computed at released draws, and there are none of effects.",
            "draw new persons at public inputs with dp.predict; the report of the result tells of the fit.",
        )
    posterior = release(idata)["posterior"].to_dataset()
    check_same(known, posterior, model)
    settings = settings_of(known, model)
    records = RecordModel(model, privacy_unit=privacy_unit, observed=observed, **settings)
    return Fitted(records, _points(records, posterior, model, draws))


class EvaluationFacts(SpendingFacts):
    """Cost of an evaluation, its privacy unit (row or person), and numbers of draws used (of each model)."""

    unit: str
    draws: int | dict[str, int]


def evaluation_facts(
    spending: Spending, privacy_unit: object, draws: int | dict[str, int]
) -> EvaluationFacts:
    """Return the facts of an evaluation of rows, or of persons."""
    unit = "row" if privacy_unit is None else "person"
    return {**spending.facts(), "unit": unit, "draws": draws}


def declared_in(known: Facts) -> list[str]:
    """Return the labels of the arrays that the user declared public when the result was made."""
    return [label for label, _, kind in known["public_arrays"] if kind == DECLARED]


def settings_of(known: Facts, model: pm.Model) -> ReadingSettings:
    """Return the settings with which a result's model was read; its free variables have public draws."""
    excluded = known["excluded_deterministics"]
    return {
        "exclude_deterministics": [d.name for d in model.deterministics if d.name in excluded],
        "public": [*declared_in(known), *(rv.name for rv in model.free_RVs)],
        "trusted_ops": known["trusted_ops"],
        "neighboring_relation": known["plan"]["neighboring_relation"],
    }


def check_same(known: Facts, posterior: Dataset, model: pm.Model) -> None:
    """Refuse a model whose free variables differ from those of the result and those that were integrated out.

    Raises
    ------
    PrivacyError
    """
    sampled = [rv for rv in model.free_RVs if rv.name not in known.get("integrated", [])]
    names = {rv.name for rv in sampled}
    free = {one["name"] for one in known["variables"] if one["free"]}
    if missing := sorted(names & free - set(posterior.data_vars)):
        raise PrivacyError(f"The result has no draws of {', '.join(missing)}: they were left out.")
    shapes = {rv.name: tuple(gate.evaluate(rv.shape)) for rv in sampled}
    if names != free or any(posterior[name].shape[2:] != shapes[name] for name in names):
        raise PrivacyError("The result is of another model: their free variables differ.")


def _points(records: RecordModel, posterior: Dataset, model: pm.Model, draws: int) -> np.ndarray:
    """Return draws as flat unconstrained vectors, shape (S, d)."""
    free, values = list(model.free_RVs), []
    for rv in free:
        transform = model.rvs_to_transforms[rv]
        values.append(rv if transform is None else transform.forward(rv, *rv.owner.inputs))
    to_values = gate.compile_graph(free, values, private=(), as_pymc=True)
    arrays = [posterior[rv.name].transpose("chain", "draw", ...).values for rv in free]
    arrays = [a.reshape(-1, *a.shape[2:]) for a in arrays]
    size = len(arrays[0])
    chosen = np.unique(np.linspace(0, size - 1, min(draws, size)).round().astype(int))
    names = [model.rvs_to_values[rv].name for rv in free]
    with np.errstate(all="ignore"):
        found = [
            to_values(*(a[s].astype(rv.dtype) for a, rv in zip(arrays, free, strict=True))) for s in chosen
        ]
    return np.array([records.ravel(dict(zip(names, one, strict=True))) for one in found])
