"""release_likelihood(): pay, read the data, and release a likelihood of the parameters."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pymc as pm

from pymc_dp.bounds import check_count, is_number, model_of
from pymc_dp.likelihood.likelihood import Likelihood
from pymc_dp.likelihood.measurements import AllSums, Measurements
from pymc_dp.likelihood.priors import approximate_prior
from pymc_dp.likelihood.public_model import PublicModel, name_numbers, read_public
from pymc_dp.likelihood.releases import Public, kept_shares, search_from
from pymc_dp.likelihood.report import judge
from pymc_dp.likelihood.rounds import Found
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.call import check_ledger
from pymc_dp.privacy.budget.known import AccuracyFacts, LikelihoodFacts
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.budget.words import warn_weak
from pymc_dp.records.checks import check_start
from pymc_dp.records.lengths import refuse_more_than_exact
from pymc_dp.records.reading import RecordSettings
from pymc_dp.records.several_tables import Records, TablesTwins, read_records
from pymc_dp.records.twins import Twins
from pymc_dp.records.units import unit_of
from pymc_dp.remote.owners import Owner, Owners, RecordsOfOwners, refuse_as_data, refuse_beside_owners
from pymc_dp.remote.template import Elsewhere, Template
from pymc_dp.versions import versions


def release_likelihood(
    model: pm.Model | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    data: Elsewhere | None = None,
    owners: Sequence[Owner] | None = None,
    privacy_unit: object = None,
    exclude_deterministics: Collection[str] = (),
    public: Collection[object] = (),
    trusted_ops: Collection[object] = (),
    neighboring_relation: str = "substitute",
    public_n: float | None = None,
    fit_test: bool = True,
    ledger: Ledger | None = None,
    label: str = "release_likelihood",
    cores: int = 1,
    compile_kwargs: Mapping[str, object] | None = None,
    debug_seed: int | None = None,
) -> Likelihood:
    """Release what data show about the parameters: a normal likelihood, for any prior and any sampler.

    Each record is compared with outcomes that the model itself draws for it (its twins), at public
    parameters. At the true parameters a record and its twins are exchangeable, so that the comparison has
    mean zero, however much is clipped. The sum of these comparisons, and its slope, are released with noise,
    at a few points one after the other (docs/likelihood, docs/proofs/twins).

    Parameters
    ----------
    model : pymc.Model, optional
        Default: the one of the context. With `data` or `owners` a model of a few rows: see `Shards`.
    epsilon : float
        > 0; inf for no noise. To be left out with `owners`.
    delta : float, optional
        Default: the ledger's; else the largest power of ten below ``1 / (10 n)``. To be given where n is
        private and there is no ledger.
    data : Shards, optional
        Records that are elsewhere, in parts.
    owners : sequence of Owner, optional
        Data owners, each with its own (epsilon, delta), noise and ledger.
    privacy_unit, exclude_deterministics, public, trusted_ops, neighboring_relation
        As for a step.
    public_n : float, optional
        Approximate number of records, from public knowledge. Required with
        ``neighboring_relation="add_remove"``.
    fit_test : bool
        Spend up to 2.5% of the budget on a test of the fit, whether outcomes are spread as the model says:
        `facts["fit"]`. Nothing is spent where such a test could show nothing, nor with `owners`, who release
        no counts.
    ledger : Ledger, optional
    label : str
        Description of this call, for the ledger's reader.
    cores : int
        Number of threads in which twins of records of this process are drawn and compared; it does not change
        the sums. With `data`, the workers of its client work in parallel instead.
    compile_kwargs : mapping, optional
        ``{"mode": ...}``: how PyTensor compiles; a plain mode, with the linker ``"numba"`` (the default),
        ``"cvm"``, ``"vm"`` or ``"py"``. Others, such as `NanGuardMode`, stop at a record or show it.
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
    **Privacy.** Everything that can be refused is refused before anything is paid, and payment comes before
    any row is used. Events: Gaussian releases that are chosen one after the other, and that together are at
    most one Gaussian release of ``mu``, which is charged. Neighbouring data have one record (privacy unit)
    replaced, or added or removed. With observed variables of different lengths, a record is in one of
    several tables, whose lengths are taken as public. With data in parts, exact sums come to this process,
    where noise is added once. With owners, each adds its own noise, and only noisy sums leave it
    (docs/proofs/twins, section 1).
    """
    model = model_of(model)
    check_count("cores", cores)
    joint = None
    refuse_as_data(data, privacy_unit)
    if owners is not None:
        own = {"epsilon": epsilon, "delta": delta, "ledger": ledger, "debug_seed": debug_seed}
        refuse_beside_owners({**own, "data": data, "privacy_unit": privacy_unit})
        joint = Owners(owners, neighboring_relation, likelihood=True)
    elif epsilon is None:
        raise TypeError("epsilon= is missing: the guarantee of the whole call.")
    settings: RecordSettings = {
        "exclude_deterministics": exclude_deterministics,
        "public": public,
        "trusted_ops": trusted_ops,
        "neighboring_relation": neighboring_relation,
        "compile_kwargs": compile_kwargs,
    }
    elsewhere = data if joint is None else joint
    opened = open_records(model, elsewhere, settings, unit_of(privacy_unit)[1])
    records = opened.records
    check_ledger(ledger, unit=unit_of(privacy_unit if elsewhere is None else elsewhere.privacy_unit)[0])
    n = _number(records, public_n)
    if joint is None:
        delta = choose_delta(delta, records, ledger)
        spending = Spending(epsilon or 0.0, delta, [1.0], neighboring_relation, ledger, label, debug_seed)
        mu = float(gaussian.mu(spending.epsilon, spending.delta))
    else:
        spending, mu = joint.spending, joint.mu
    warn_weak(spending.epsilon, spending.delta, records.n if neighboring_relation == "substitute" else None)
    kept = kept_shares(n, mu, neighboring_relation) if fit_test and joint is None else {}
    entry = spending.pay()
    found, last = opened.search(n, mu, spending, kept, debug_seed, cores)
    spending.confirm(entry)
    if isinstance(records, Template):
        records.end()
    return _likelihood(found, last, opened, spending, debug_seed)


class Opened(NamedTuple):
    """A model as a release reads it. Before `search`, nothing is paid, and no row is used."""

    records: Records
    twins: Twins | TablesTwins
    part: PublicModel
    public: Public

    def search(
        self, n: float, mu: float, spending: Spending, kept: Mapping[str, float], seed: int | None, cores: int
    ) -> tuple[Found, AccuracyFacts]:
        """Ask for noisy sums until the parameters are found. Only this reads rows; it must be paid before."""
        measurements: AllSums
        if isinstance(self.records, Template):  # here, data owners charge the call to their ledgers
            measurements = self.records.measurements(spending, seed, kept)
        else:
            measurements = Measurements(RecordsHere(self.twins, spending.random, cores), spending, kept)
        return search_from(measurements, n, mu, self.public)


def open_records(
    model: pm.Model, elsewhere: Elsewhere | None, settings: RecordSettings, privacy_unit: object = None
) -> Opened:
    """Read a model, here or where its records are, and the public facts about its scores.

    Raises
    ------
    ModelRefusedError, ValueError
    """
    records: Records
    twins: Twins | TablesTwins
    if elsewhere is None:
        records = here = read_records(model, integrate=True, privacy_unit=privacy_unit, **settings)
        check_start(here.reading.start)
        twins = TablesTwins(here)
    else:
        records = there = elsewhere.records(model, likelihood=True, **settings)
        if not isinstance(there, Template):  # otherwise the few rows of the model itself would be used
            raise TypeError(f"data= takes dp.Shards, got {type(elsewhere).__name__}.")
        twins = there.twins
    refuse_more_than_exact(records.lengths, len(model.observed_RVs))
    part = read_public(records, twins)
    start = np.asarray(records.coordinates(records.ravel(records.reading.start)), dtype=float)
    start = part.near_zero.psi(start)
    named = enumerate(records.coordinates.names)
    check_start({name or f"expression {k}": start[where] for k, (name, where) in named})
    twins.refuse_without_scores()
    prior = approximate_prior(part, start)
    public = Public(prior, start, part.near_zero, part.longest_step, part.bounds)
    return Opened(records, twins, part, public)


def _number(records: Records, public_n: float | None) -> float:
    if records.neighboring_relation == "substitute":
        return float(records.n)
    if public_n is None:
        raise TypeError(
            'With neighboring_relation="add_remove" the number of records is private: give about how many '
            "there are, from public knowledge, as public_n=."
        )
    if not (is_number(public_n) and 1 <= public_n < math.inf):
        raise ValueError(f"public_n must be a finite number of records, of at least 1, got {public_n!r}.")
    return float(public_n)


def choose_delta(delta: float | None, records: Records, ledger: Ledger | None = None) -> float | None:
    """Return the largest power of ten below 1 / (10 n), unless delta or a ledger is given."""
    if delta is not None or ledger is not None:
        return delta
    if records.neighboring_relation != "substitute":
        raise TypeError("delta is missing: it is not derived from a number of records that is private.")
    return 10.0 ** -(math.floor(math.log10(10 * records.n)) + 1)


def _likelihood(
    found: Found, beside: AccuracyFacts, opened: Opened, spending: Spending, debug_seed: int | None
) -> Likelihood:
    records, part = opened.records, opened.part
    point, information = found.point, found.message.information
    information = 0.5 * (information + information.T)
    budget = records.owners if isinstance(records, RecordsOfOwners) else spending
    arrays = {
        array.label: (array.label, list(array.shape), array.kind)
        for table in records.tables
        for array in table.reading.public_arrays
    }
    facts: LikelihoodFacts = {
        **beside,
        "neighboring_relation": spending.neighboring_relation,
        "is_private": spending.is_private,
        "delta": budget.delta,
        "epsilon": budget.epsilon if math.isfinite(budget.epsilon) else None,
        "events": json.loads(spending.events.to_json()),
        "debug_seed_used": debug_seed is not None,
        "unit": "row" if records.unit_of_row is None else "person",
        "n": records.n if records.neighboring_relation == "substitute" else None,
        "tables": [table.n for table in records.tables] if len(records.tables) > 1 else [],
        "rounds": found.shares,
        "integrated": sorted({name for table in records.tables for name in table.effects}),
        "left_out": sorted({name for table in records.tables for name in table.reading.left_out}),
        "public_arrays": list(arrays.values()),
        "trusted_ops": sorted({name for table in records.tables for name in table.reading.trusted}),
        "verdict": judge(found, opened.public.prior, name_numbers(part.parts), beside, part.support),
        "versions": versions(),
    }
    if isinstance(records, RecordsOfOwners):
        facts["owners"] = records.guarantees()
    gradient = found.message.vector - information @ point
    return Likelihood(part.parts, point, gradient, information, facts, part)
