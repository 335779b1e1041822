"""release_likelihood(): pay, read the data, release what they say of the parameters."""

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pymc as pm

from pymc_dp.errors import ModelRefusedError
from pymc_dp.likelihood.beliefs import Message, Normal
from pymc_dp.likelihood.fit import judge_fit, share_of_fit, where_to_look
from pymc_dp.likelihood.likelihood import Likelihood
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel, name_numbers
from pymc_dp.likelihood.search import Found, Search
from pymc_dp.likelihood.verdict import judge
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.call import check_unit
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.several_tables import Records, TablesTwins, read_records
from pymc_dp.records.units import unit_of
from pymc_dp.versions import versions


def release_likelihood(
    model: pm.Model | None = None,
    *,
    epsilon: float,
    delta: float | None = None,
    privacy_unit: Any = None,
    exclude_deterministics: Collection[str] = (),
    public: Collection[Any] = (),
    trusted_ops: Collection[Any] = (),
    neighboring_relation: str = "substitute",
    public_n: float | None = None,
    fit_test: bool = True,
    ledger: Ledger | None = None,
    label: str = "release_likelihood",
    compile_kwargs: Mapping[str, Any] | None = None,
    debug_seed: int | None = None,
) -> Likelihood:
    """Release what the data say of the parameters: a normal likelihood, for any prior and any sampler.

    Each record is compared with outcomes that the model itself draws for it (its twins), at public
    parameters. At the true parameters a record and its twins are exchangeable, so that the comparison has
    mean zero however hard it is clipped; how far it is from zero, and the slope of that, are released with
    noise, at a few points one after the other (docs/likelihood, docs/proofs/twins).

    Parameters
    ----------
    model : pymc.Model, optional
        Default: the one of the context.
    epsilon : float
        > 0; inf for no noise.
    delta : float, optional
        Default: the ledger's; else the largest power of ten below ``1 / (10 n)`` (to be given where n is
        private).
    privacy_unit, exclude_deterministics, public, trusted_ops, neighboring_relation
        As for a step.
    public_n : float, optional
        About the number of records, from public knowledge: with ``neighboring_relation="add_remove"``, where
        it is needed.
    fit_test : bool
        Spend up to 2.5% of the budget on whether outcomes are spread as the model says: `facts["fit"]`.
        Nothing is spent where that could not be seen.
    ledger : Ledger, optional
    label : str
        For the ledger's reader.
    compile_kwargs : mapping, optional
        Passed to `pytensor.function`.
    debug_seed : int, optional
        Makes noise and twins reproducible, for tests; the release is then not private.

    Returns
    -------
    Likelihood

    Raises
    ------
    ModelRefusedError
        The model couples records, or would leak.
    PrivacyBudgetExceeded
        The ledger has no room.
    TypeError, ValueError
        An argument is missing or out of range.

    Notes
    -----
    **Privacy.** Everything that can be refused is refused before anything is paid, and that before a row is
    used. Events: Gaussian releases that are chosen one after the other, at most one of ``mu`` together, which
    is what is charged. One record (privacy unit) is replaced, or added or removed. With observed variables of
    different lengths a record is in one of several tables, of which each length is taken as public.
    """
    model = pm.modelcontext(model)
    unit, ids = unit_of(privacy_unit)
    records = read_records(
        model,
        privacy_unit=ids,
        exclude_deterministics=exclude_deterministics,
        public=public,
        trusted_ops=trusted_ops,
        neighboring_relation=neighboring_relation,
        compile_kwargs=compile_kwargs,
    )
    check_unit(ledger, unit)
    n = _number(records, public_n)
    delta = choose_delta(delta, records, ledger)
    spending = Spending(epsilon, delta, [1.0], neighboring_relation, ledger, label, debug_seed)
    twins, part = TablesTwins(records), PublicModel(records)
    check_generative(twins)
    start = np.asarray(records.coordinates(records.ravel(records.reading.start)), dtype=float)
    prior = approximate_prior(part, start)
    entry = spending.pay()
    found, fit = release_from(twins, spending, n, prior, start, fit_test)
    spending.confirm(entry)
    return _likelihood(found, fit, part, records, twins, spending, prior, debug_seed)


def release_from(
    twins: TablesTwins, spending: Spending, n: float, prior: Normal, start: np.ndarray, fit_test: bool
) -> tuple[Found, dict[str, Any]]:
    """What was found, and what the test of the fit says: all releases, which are paid for."""
    mu = float(gaussian.mu(spending.epsilon, spending.delta)) if math.isfinite(spending.epsilon) else math.inf
    kept = share_of_fit(n, mu, spending.neighboring_relation) if fit_test else 0.0
    measurements = Measurements(twins, spending, kept)
    search = Search(measurements, n, mu, prior, twins.rank)
    with np.errstate(all="ignore"):
        try:
            found = search(start)
        except np.linalg.LinAlgError:  # of released numbers: no matrix is behind them, and nothing is known
            nothing = Message.nothing(twins.size)
            found = Found(start, nothing, search.rounds, search.shares, nothing.information)
    return found, look_at_fit(measurements, found, prior) if kept else judge_fit(None)


def look_at_fit(measurements: Measurements, found: Found, prior: Normal) -> dict[str, Any]:
    """Release how records are spread at what was found, with the share that was kept: see `judge_fit`."""
    if not np.any(found.message.information):
        return judge_fit(None)
    try:
        phi, metric, wider = where_to_look(found.message, found.information, prior)
    except np.linalg.LinAlgError:  # of released numbers; what was paid is not lost
        return judge_fit(None)
    return judge_fit(measurements.spread(phi, metric), wider)


def check_generative(twins: TablesTwins) -> None:
    """Refuse observed variables that the model cannot draw: without twins a clip biases their scores."""
    for name, why in sorted(twins.unlike.items()):
        raise ModelRefusedError(
            f"No outcomes can be drawn for observed variable {name!r}: {why}.",
            "its records are compared with outcomes that the model itself draws; without these, clipping "
            "would bias the result by more than it says.",
            "give the distribution as pm.CustomDist(..., dist=function), made of PyMC's distributions; a "
            'function random= is taken with trusted_ops=["CustomDist_NAME"], if it draws each record by '
            "itself. Or run a step, as dp.sample(step=dp.DPPenaltyMH(...)).",
        )


def _number(records: Records, public_n: float | None) -> float:
    if records.neighboring_relation == "substitute":
        return float(records.n)
    if public_n is None:
        raise TypeError(
            'With neighboring_relation="add_remove" the number of records is private: give about how many '
            "there are, from public knowledge, as public_n=."
        )
    return float(public_n)


def choose_delta(delta: float | None, records: Records, ledger: Ledger | None = None) -> float | None:
    """The largest power of ten below 1 / (10 n), where none is given."""
    if delta is not None or ledger is not None:
        return delta
    if records.neighboring_relation != "substitute":
        raise TypeError("delta is missing: it is not derived from a number of records that is private.")
    return 10.0 ** -(math.floor(math.log10(10 * records.n)) + 1)


def _likelihood(
    found: Found,
    fit: dict[str, Any],
    part: PublicModel,
    records: Records,
    twins: TablesTwins,
    spending: Spending,
    prior: Any,
    debug_seed: int | None,
) -> Likelihood:
    point, information = found.point, found.message.information
    information = 0.5 * (information + information.T)
    known = spending.facts()
    arrays = {
        array.label: [array.label, list(array.shape), array.kind]
        for table in records.tables
        for array in table.reading.public_arrays
    }
    facts = {
        **{key: known[key] for key in ("delta", "neighboring_relation", "is_private")},
        "epsilon": spending.epsilon if math.isfinite(spending.epsilon) else None,
        "events": json.loads(spending.events.to_json()),
        "debug_seed_used": debug_seed is not None,
        "unit": "row" if records.unit_of_row is None else "person",
        "n": records.n if records.neighboring_relation == "substitute" else None,
        "tables": [table.n for table in records.tables] if len(records.tables) > 1 else [],
        "rounds": found.shares,
        "left_out": sorted({name for table in records.tables for name in table.reading.left_out}),
        "public_arrays": list(arrays.values()),
        "trusted_ops": sorted({name for table in records.tables for name in table.reading.trusted}),
        "verdict": judge(found, prior, name_numbers(part.parts)),
        "fit": fit,
        "versions": versions(),
    }
    gradient = found.message.vector - information @ point
    return Likelihood(part.parts, point, gradient, information, facts, part)
