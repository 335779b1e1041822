"""Several data owners, and the coordinator's side of their questions and answers."""

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import pymc as pm

from pymc_dp.clipping import as_clip
from pymc_dp.errors import PrivacyError
from pymc_dp.privacy.budget.known import OwnersGuarantee
from pymc_dp.privacy.budget.plan import Call
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.reading import RecordSettings
from pymc_dp.records.units import unit_of
from pymc_dp.remote.answers import UnavailableError, finite, read_answers, refused
from pymc_dp.remote.homes import Home, LostError, OnWorker, OwnProcess
from pymc_dp.remote.measurements_of_owners import MeasurementsOfOwners
from pymc_dp.remote.owner import DataOwner, Terms
from pymc_dp.remote.shard import Recipe
from pymc_dp.remote.template import Template, Unit

if TYPE_CHECKING:
    from distributed import Client


@dataclass(frozen=True, eq=False)
class Owner:
    """One of several data owners, who adds noise to all sums that leave its process.

    Parameters
    ----------
    name : str
        For reports and errors; public.
    build : callable
        ``build(part)`` returns the `pymc.Model` of the owner's rows.
    part : object
        Argument of `build`, such as a path that exists where the owner's process runs.
    epsilon, delta : float
        Guarantee for the owner's records over one call, against everybody else.
    lipschitz, clip_bound : float, optional
        As in `DPPenaltyMH`, for the owner's records; all owners give the same one of the two. A released
        likelihood takes neither: its bounds follow from what was released before.
    privacy_unit : callable, str or mapping, optional
        ``privacy_unit(part)`` returns the id of the person each row belongs to, shape (n_rows,); by name, as
        ``{"patient": function}``, for a ledger of that unit. Or the name of the `pymc.Data` with the ids, as
        for `Shards`.
    ledger : str, optional
        Path, where the owner's process runs, of an existing ledger; the call is charged to it before anything
        is released.
    log : str, optional
        Path, where the owner's process runs, of a file for what `build` prints and for the reasons of errors.
        They may show private values, and do not leave the process otherwise.
    client : distributed.Client, optional
        Dask cluster on which the owner's process is a worker. Default: a new process of this machine.
    worker : str, optional
        Address of that worker; required with `client`.
    patience : float
        Seconds to wait for the worker.

    Raises
    ------
    ValueError
        An argument is out of range.

    Notes
    -----
    **Privacy.** See `DataOwner`. The rows are read, and the noise is drawn, in the owner's process; only
    texts with noisy sums leave it. A process is no protection against somebody who can run code in it, as a
    user of its machine or a client of its Dask cluster can: see docs/owners.
    """

    name: str
    build: Callable[[object], pm.Model]
    part: object
    epsilon: float
    delta: float
    lipschitz: float | None = None
    clip_bound: float | None = None
    privacy_unit: Unit = None
    ledger: str | None = None
    log: str | None = None
    client: "Client | None" = None
    worker: str | None = None
    patience: float = 300.0

    def __post_init__(self) -> None:
        Call(self.epsilon, self.delta, "substitute", chains=1, tune=0, draws=1)  # checks them
        if (self.lipschitz, self.clip_bound) != (None, None):
            as_clip(self.lipschitz, self.clip_bound)
        for name, path in (("ledger", self.ledger), ("log", self.log)):
            if path is not None and not isinstance(path, str | os.PathLike):
                raise ValueError(
                    f"{name}= of an owner is a path, where its process runs, got {type(path).__name__}. A "
                    "ledger is made there, with dp.Ledger(path, epsilon=..., delta=...)."
                )
        if (self.client is None) != (self.worker is None):
            raise ValueError("client= and worker= belong together: the cluster, and the worker in it.")

    def terms(self, neighboring_relation: str) -> Terms:
        """Return the terms under which the owner answers."""
        unit, _ = unit_of(self.privacy_unit)
        return Terms(self.epsilon, self.delta, self.lipschitz, self.clip_bound, neighboring_relation, unit)

    def home(self, recipe: Recipe, terms: Terms) -> Home[str, str]:
        """Start the owner's process, or its object on a worker."""
        ledger, log = (None if path is None else str(path) for path in (self.ledger, self.log))
        made = partial(DataOwner, recipe.pickled(), terms, ledger, log)
        if self.client is None:
            return OwnProcess(made)
        return OnWorker(self.client, DataOwner, *made.args, worker=self.worker, patience=self.patience)


class Owners:
    """All data owners of a run.

    Parameters
    ----------
    owners : sequence of Owner
    neighboring_relation : {"substitute", "add_remove"}
    likelihood : bool
        Whether a likelihood is released, and no step is run.

    Attributes
    ----------
    epsilon, delta : float
        The largest of the owners' budgets: the guarantee that holds for every record.
    lipschitz, clip_bound : float or None
        The largest of the owners'.

    Raises
    ------
    ValueError
        There are no owners, two have the same name, or their clip bounds are of two kinds, or missing.
    """

    privacy_unit = None  # each owner has its own, and its own ledger

    def __init__(self, owners: Sequence[Owner], neighboring_relation: str, likelihood: bool = False):
        self.owners = tuple(owners)
        names = [owner.name for owner in self.owners]
        if not names or len(set(names)) < len(names):
            raise ValueError("owners= is a list of dp.Owner with different names.")
        if len({owner.lipschitz is None for owner in self.owners}) > 1:
            raise ValueError("All owners give lipschitz=, or all give clip_bound=.")
        for owner in self.owners:
            if not likelihood:
                as_clip(owner.lipschitz, owner.clip_bound)
            elif (owner.lipschitz, owner.clip_bound) != (None, None):
                raise ValueError(
                    "A released likelihood takes no lipschitz= or clip_bound= of an owner: its bounds follow "
                    "from what was released before."
                )
        units = [unit_of(owner.privacy_unit)[1] for owner in self.owners]
        if likelihood and len({one if isinstance(one, str) else one is None for one in units}) > 1:
            raise ValueError(
                "For a likelihood all owners give privacy_unit=, or none, and all the same where it is the "
                "name of a model's data: where rows are persons, give a function that returns their numbers."
            )
        self.terms = [owner.terms(neighboring_relation) for owner in self.owners]
        self.epsilon = max(owner.epsilon for owner in self.owners)
        self.delta = max(owner.delta for owner in self.owners)
        self.lipschitz = max((t.lipschitz for t in self.terms if t.lipschitz is not None), default=None)
        self.clip_bound = max((t.clip_bound for t in self.terms if t.clip_bound is not None), default=None)

    @property
    def spending(self) -> Spending:
        """Spending of the owner with the least noise, which bounds every record's loss; shares are common."""
        return min((terms.spending() for terms in self.terms), key=lambda one: one.multipliers[0])

    @property
    def mu(self) -> float:
        """Budget at which one data set has as much noise as all owners together: 1/mu^2 = sum 1/mu_j^2."""
        noise = math.hypot(*(terms.spending().multipliers[0] for terms in self.terms))
        return 1 / noise if noise > 0 else math.inf

    def records(
        self, model: pm.Model, *, likelihood: bool = False, **settings: Unpack[RecordSettings]
    ) -> "RecordsOfOwners":
        """Start the owners' processes, where their models are built and checked."""
        return RecordsOfOwners(model, self, likelihood, **settings)


def refuse_beside_owners(given: Mapping[str, object]) -> None:
    """Refuse arguments of a call, by name, that each of its owners has for itself."""
    if refused := [name for name, argument in given.items() if argument is not None]:
        raise ValueError(f"With owners=, leave out {', '.join(refused)}: each owner has its own.")


def refuse_as_data(data: object, privacy_unit: object, owners: Owners | None = None) -> None:
    """Refuse what cannot be `data=`: owners that are not the call's, other objects, and ids beside it."""
    if isinstance(data, Owners) and data is not owners:
        raise TypeError(
            "data= takes dp.Shards. Several data owners, each with its own budget, are given as owners=, to "
            "dp.DPPenaltyMH and to dp.release_likelihood."
        )
    if not (data is None or hasattr(data, "records")):
        raise TypeError(f"data= takes dp.Shards, got {type(data).__name__}.")
    if data is not None and privacy_unit is not None:
        raise ValueError("privacy_unit= belongs where the rows are: a function of a part, given with it.")


class RecordsOfOwners(Template):
    """Parameters and prior here; records with their owners.

    Parameters
    ----------
    model : pymc.Model
        See `Template`.
    owners : Owners
    likelihood : bool
        Whether a likelihood is released.
    **settings
        Arguments of `RecordModel`.

    Attributes
    ----------
    owners : Owners
    sizes : list of int or None
        Numbers of records of each owner (public under substitute).
    n : int or None
        Sum of these.

    Raises
    ------
    PrivacyError
        An owner refuses, with a code: see `pymc_dp.remote.answers.REFUSALS`.
    """

    def __init__(self, model: pm.Model, owners: Owners, likelihood: bool, **settings: Unpack[RecordSettings]):
        units = [owner.privacy_unit for owner in owners.owners if owner.privacy_unit is not None]
        self.owners = owners
        self._homes = [
            owner.home(Recipe(owner.build, owner.part, owner.privacy_unit, settings, likelihood), terms)
            for owner, terms in zip(owners.owners, owners.terms, strict=True)
        ]
        super().__init__(model, likelihood=likelihood, unit=units[0] if units else None, **settings)
        self.sizes = read_answers(_size, self.ask("open", agreement=self.agreement()))
        self.n = None if None in self.sizes else sum(self.sizes)
        self.unit_of_row = "known to the owners" if units else None
        self._set_lengths([n for n in (*self.sizes, self.n) if n is not None])

    def measurements(
        self, spending: Spending, seed: int | None = None, kept: Mapping[str, float] | None = None
    ) -> MeasurementsOfOwners:
        """Open the noisy sums for a released likelihood; every owner charges its budget now.

        Parameters
        ----------
        spending : Spending
            `Owners.spending`, which has been paid.
        seed, kept : None, empty
            Arguments for records in parts, which owners do not support.

        Raises
        ------
        PrivacyError
            An owner refuses, or adds other noise than its terms require.
        """
        self.charge("begin_likelihood", [terms.spending().multipliers[0] for terms in self.owners.terms])
        return MeasurementsOfOwners(self.twins, self.ask, spending)

    def charge(self, question: str, multipliers: list[float], **call: int) -> None:
        """Have every owner pay for a call, before it releases anything.

        Raises
        ------
        BudgetError
            An owner's ledger has no room.
        PrivacyError
            An owner adds other noise than these multiples of its sensitivity.
        """
        said = read_answers(lambda one: finite(one["noise_multiplier"]), self.ask(question, **call))
        if said != multipliers:
            raise PrivacyError("An owner adds other noise than its terms say: is its version another?")

    def end(self) -> None:
        """Let owners confirm their charges; one whose process ended has answered all questions before."""
        with suppress(PrivacyError):
            self.ask("end")

    def guarantees(self) -> list[OwnersGuarantee]:
        """Return the guarantee of each owner for a released likelihood."""
        return [
            {
                "name": owner.name,
                "epsilon": owner.epsilon if math.isfinite(owner.epsilon) else None,
                "delta": owner.delta,
                "events": json.loads(terms.spending().events.to_json()),
                "n": n,
                "unit": "row" if owner.privacy_unit is None else "person",
                "ledger": owner.ledger is not None,
            }
            for owner, terms, n in zip(self.owners.owners, self.owners.terms, self.sizes, strict=True)
        ]

    def ask(self, question: str, **arguments: object) -> list[Any]:
        """Ask all owners at the same time; return their answers in order.

        Raises
        ------
        PrivacyError
            An owner refuses, or its process ended. No question is repeated: an answer that was lost has
            still been released, and is spent.
        """
        request = json.dumps([question, arguments])
        waiting = [home.ask(request) for home in self._homes]
        return [self._answer(owner, wait) for owner, wait in zip(self.owners.owners, waiting, strict=True)]

    def _answer(self, owner: Owner, wait: Callable[[], str]) -> Any:
        try:
            said = json.loads(wait())
        except LostError:
            raise UnavailableError(
                f"Owner {owner.name!r}: the process ended, and with it what its budget was left. What was "
                "reserved stays spent."
            ) from None
        except ValueError:
            said = None
        if isinstance(said, dict) and "answer" in said:
            return said["answer"]
        raise refused(owner.name, said.get("refused") if isinstance(said, dict) else None)


def _size(said: Any) -> int | None:
    """Return the number of an owner's records, where it is public."""
    n = said["n"]
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise ValueError("no number of records")
    return n
