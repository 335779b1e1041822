"""The budget of one call: which chains may run, for how many iterations, and what the ledger is charged."""

import hashlib
import os
import sqlite3
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import numpy as np

from pymc_dp.errors import BudgetError, PrivacyBudgetExceeded
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.budget.ledger_file import Ledger
from pymc_dp.privacy.budget.plan import PrivacyPlan


def _refuse(why: str) -> BudgetError:
    advice = "Make a new step for a new call: each call has its own (epsilon, delta), and they add up."
    return BudgetError(f"{why} {advice}")


def identity(rng: np.random.Generator) -> tuple[str, str]:
    """Identify the call and the chain to which one of PyMC's generators belongs, for `CallBudget.claim`.

    The generators of one call's chains are spawned from one ancestor: they have the same entropy, and
    different spawn keys.

    Raises
    ------
    BudgetError
        The generator has no seed sequence.
    """
    seed = getattr(rng.bit_generator, "seed_seq", None)
    if seed is None:
        raise BudgetError("The generator of this chain does not say which call it belongs to.")
    return hashlib.sha256(repr(seed.entropy).encode()).hexdigest(), repr(tuple(seed.spawn_key))


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(path)


class ChainBudget:
    """The iterations of one chain that its call pays for.

    Attributes
    ----------
    plan : PrivacyPlan
    call : str
        Name of the call.
    slot : int
        Number of the chain in its call, from 0.
    iterations : int
        Tuning and sampling iterations that are paid for.
    used : int
        Iterations that have been paid for by `pay` so far.

    Notes
    -----
    **Privacy.** Cannot be copied or stored, and `used` never decreases: resuming a chain elsewhere, or
    restoring an earlier state of it, gives no additional iterations.
    """

    def __init__(self, call: "CallBudget", plan: PrivacyPlan, slot: int, charge: Callable[[], int | None]):
        self.plan, self.slot, self.iterations, self.used = plan, slot, plan.tune + plan.draws, 0
        self._call, self._charge = call, charge
        self.call = call.name
        self._reservation: int | None = None
        self._running_epsilon = plan.running_epsilon()

    def pay(self) -> float:
        """Pay for the next iteration, before it reads a row; the first one charges the ledger for the call.

        Returns
        -------
        float
            Epsilon spent if every chain of the call has made as many iterations.

        Raises
        ------
        BudgetError
            All iterations were used, or the call does not fit the ledger's remaining budget.
        """
        if self.used >= self.iterations:
            raise BudgetError(
                f"This chain has run the {self.iterations} iterations its budget covers. Make a new step "
                "for more."
            )
        if not self.used:
            self._reservation = self._charge()
        self.used += 1
        return self._running_epsilon[self.used - 1]

    @property
    def at_end(self) -> bool:
        """Whether the chain's last iteration has been paid for."""
        return self.used == self.iterations

    def finish(self) -> None:
        """Record that the chain made its last iteration; the last chain confirms the ledger's entry."""
        last_chain = self._call.finish(self.slot)
        if last_chain and self._call.ledger is not None and self._reservation is not None:
            self._call.ledger.confirm(self._reservation)

    def __reduce__(self):
        raise TypeError("the budget of a chain is never copied or stored")


def check_ledger(ledger: object, neighboring_relation: str | None = None, unit: str | None = None) -> None:
    """Refuse an object that is no ledger, or a ledger with another neighbouring relation or privacy unit.

    Raises
    ------
    TypeError
        `ledger` is something else, such as the path of a ledger.
    ValueError
        The ledger is for another neighbouring relation or privacy unit.
    """
    if ledger is None:
        return
    if not isinstance(ledger, Ledger):
        path = repr(str(ledger)) if isinstance(ledger, str | os.PathLike) else "'study.db'"
        raise TypeError(
            f"ledger= takes a dp.Ledger, got {type(ledger).__name__}. Open it first: "
            f"ledger=dp.Ledger({path}); the first time with its budget, as dp.Ledger({path}, "
            "epsilon=4, delta=1e-6)."
        )
    if neighboring_relation not in (None, ledger.neighboring_relation):
        raise ValueError(
            f"The ledger is for neighboring_relation={ledger.neighboring_relation!r}, and this call for "
            f"{neighboring_relation!r}: costs under different relations cannot be composed."
        )
    if unit not in (None, ledger.privacy_unit):
        raise ValueError(
            f"The ledger is for the privacy unit {ledger.privacy_unit!r}, and this call for {unit!r}: what "
            "protects rows and what protects persons add up to a statement about neither.\n"
            "  How to fix it: give the ids of the ledger's unit, by its name, as "
            "privacy_unit={'patient': ids}; ids without a name are the unit 'id', no ids the unit 'row'. For "
            "another unit make another ledger, as dp.Ledger(path, epsilon=..., delta=..., "
            f"privacy_unit={unit!r}): what both release together has to be counted by hand."
        )


class CallBudget:
    """Budget of one call of `pymc.sample`: the chains that it may run, as rows of a small SQLite file.

    Parameters
    ----------
    chains : int
        Number of chains that the budget covers.
    neighboring_relation : {"substitute", "add_remove"}
    ledger : Ledger, optional
    unit : str
        Privacy unit of the call.

    Attributes
    ----------
    name : str
        Unique name of the call; the key of its entry in a ledger.

    Raises
    ------
    TypeError
        `ledger` is something else, such as the path of a ledger.
    ValueError
        The ledger is for another neighbouring relation or privacy unit.

    Notes
    -----
    **Privacy.** A chain takes its slot in one exclusive transaction before it reads a row. A slot is never
    returned, as an interrupted chain has released something. Copies of this object, in this process or
    another, share the file. If the file is missing or cannot be read, every chain is refused.
    """

    def __init__(
        self, chains: int, neighboring_relation: str, ledger: Ledger | None = None, unit: str = "row"
    ):
        check_ledger(ledger, neighboring_relation, unit)
        self.chains, self.ledger, self.name = chains, ledger, uuid.uuid4().hex
        handle, self.path = tempfile.mkstemp(prefix="pymc_dp_", suffix=".sqlite")
        os.close(handle)
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(
                "CREATE TABLE slot (number INTEGER PRIMARY KEY, call TEXT, chain TEXT, tune INTEGER, draws "
                "INTEGER, finished INTEGER DEFAULT 0)"
            )
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_finalizer"}

    def claim(self, call: str, chain: str, tune: int, draws: int) -> int:
        """Take a slot for a chain.

        Parameters
        ----------
        call, chain : str
            Identifiers of the call of `pm.sample` and of the chain in it.
        tune, draws : int
            Iterations of this chain; the same for all chains of a call.

        Returns
        -------
        int
            Number of the slot, from 0.

        Raises
        ------
        BudgetError
            All slots are taken, the chain belongs to another call, or the file is gone.
        """
        with self._transaction() as db:
            taken = db.execute("SELECT call, chain, tune, draws FROM slot").fetchall()
            if any(row[0] != call for row in taken) or any(row[1] == chain for row in taken):
                raise _refuse("This step was already used in a call of pm.sample: a budget is for one call.")
            if any(row[2:] != (tune, draws) for row in taken):
                raise _refuse("Chains of one call need the same numbers of tuning and sampling iterations.")
            if len(taken) >= self.chains:
                raise _refuse(
                    f"The budget of this step covers {self.chains} chain(s), and one more was started: pass "
                    "the same chains= to the step and to pm.sample."
                )
            db.execute(
                "INSERT INTO slot (number, call, chain, tune, draws) VALUES (?, ?, ?, ?, ?)",
                (len(taken), call, chain, tune, draws),
            )
        return len(taken)

    def finish(self, slot: int) -> bool:
        """Record that a chain made its last iteration.

        Returns
        -------
        bool
            Whether all chains of the call have now finished.
        """
        with self._transaction() as db:
            db.execute("UPDATE slot SET finished = 1 WHERE number = ?", (slot,))
            (finished,) = db.execute("SELECT COUNT(*) FROM slot WHERE finished").fetchone()
        return finished == self.chains

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open an exclusive transaction; any error with the file becomes a refusal."""
        name = f"file:{self.path}?mode=rw"
        try:
            with closing(sqlite3.connect(name, uri=True, timeout=60, isolation_level=None)) as db:
                db.execute("BEGIN EXCLUSIVE")
                yield db
                db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _refuse(
                "The file that counts this step's chains cannot be opened and used: the step was stored, or "
                "its original is gone."
            ) from error

    def open_chain(
        self, rng: np.random.Generator, plan: PrivacyPlan, *, is_private: bool, label: str
    ) -> ChainBudget:
        """Take a slot for a chain. The ledger is charged once, for the whole call, at the first iteration.

        Parameters
        ----------
        rng : numpy.random.Generator
            PyMC's generator of the chain, which identifies the chain and the call.
        plan : PrivacyPlan
        is_private : bool
            Whether the draws will be private; if not, every ledger refuses them.
        label : str
            Name of the ledger's entry.

        Raises
        ------
        BudgetError
            The budget does not cover the chain. No row may be read.
        """
        slot = self.claim(*identity(rng), plan.tune, plan.draws)
        return ChainBudget(self, plan, slot, lambda: self._reserve(plan, is_private, label))

    def _reserve(self, plan: PrivacyPlan, is_private: bool, label: str) -> int | None:
        if self.ledger is None:
            return None
        events = plan.events if is_private else EventSet.unlimited(plan.neighboring_relation)
        try:
            return self.ledger.reserve(events, label=label, key=self.name)
        except PrivacyBudgetExceeded as error:
            if not is_private:
                raise
            fits = self.ledger.largest(lambda draws: replace(plan, draws=draws).events, upper=plan.draws - 1)
            advice = f"at most draws={fits} would fit." if fits else "no draw would fit."
            raise error.with_hint(f"At this noise {advice}") from None
