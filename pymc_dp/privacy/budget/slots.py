"""Which chains of a call have started: counted across processes, so that none runs outside the budget."""

import hashlib
import os
import sqlite3
import tempfile
import uuid
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import numpy as np

from pymc_dp.errors import BudgetError


def _refuse(why: str) -> BudgetError:
    advice = "Make a new step for a new call: each call has its own (epsilon, delta), and they add up."
    return BudgetError(f"{why} {advice}")


class ChainSlots:
    """The chains that one call may run, as rows of a small SQLite file.

    Parameters
    ----------
    chains : int
        Number of chains the budget covers.

    Attributes
    ----------
    name : str
        Unlike that of any other call; the key of the call's entry in a ledger.

    Notes
    -----
    **Privacy.** A chain takes its slot in one exclusive transaction before it reads a row, and nothing gives
    a slot back: an interrupted chain has released something. Copies of this object, in this process or
    another, share the file. A missing or unreadable file refuses every chain.
    """

    def __init__(self, chains: int):
        self.chains = chains
        self.name = uuid.uuid4().hex
        handle, self.path = tempfile.mkstemp(prefix="pymc_dp_", suffix=".sqlite")
        os.close(handle)
        with closing(sqlite3.connect(self.path)) as db, db:
            db.execute(
                "CREATE TABLE slot (number INTEGER PRIMARY KEY, call TEXT, chain TEXT, tune INTEGER, draws "
                "INTEGER, finished INTEGER DEFAULT 0)"
            )
        self._finalizer = weakref.finalize(self, _remove, self.path, os.getpid())

    def __getstate__(self):
        return {"chains": self.chains, "name": self.name, "path": self.path}

    def claim(self, call: str, chain: str, tune: int, draws: int) -> int:
        """Take a slot for a chain.

        Parameters
        ----------
        call, chain : str
            What identifies the call of `pm.sample` and the chain in it.
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
            refusal = self._refusal(taken, call, chain, tune, draws)
            if refusal is not None:
                raise _refuse(refusal)
            db.execute(
                "INSERT INTO slot (number, call, chain, tune, draws) VALUES (?, ?, ?, ?, ?)",
                (len(taken), call, chain, tune, draws),
            )
        return len(taken)

    def finish(self, slot: int) -> bool:
        """Note that a chain made its last iteration.

        Returns
        -------
        bool
            Whether it was the last chain of the call.
        """
        with self._transaction() as db:
            db.execute("UPDATE slot SET finished = 1 WHERE number = ?", (slot,))
            (finished,) = db.execute("SELECT COUNT(*) FROM slot WHERE finished").fetchone()
        return finished == self.chains

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """One exclusive transaction; whatever goes wrong with the file refuses."""
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

    def _refusal(self, taken: list[tuple], call: str, chain: str, tune: int, draws: int) -> str | None:
        if any(row[0] != call for row in taken) or any(row[1] == chain for row in taken):
            return "This step was already used in a call of pm.sample, and its budget is for one call."
        if any(row[2:] != (tune, draws) for row in taken):
            return "The chains of one call must have the same numbers of tuning and sampling iterations."
        if len(taken) >= self.chains:
            return (
                f"The budget of this step covers {self.chains} chain(s), and one more was started: "
                f"pass the same chains= to the step and to pm.sample."
            )
        return None


def identity(rng: np.random.Generator) -> tuple[str, str]:
    """Identify the call and the chain that a generator of PyMC's belongs to, for `ChainSlots.claim`.

    The generators of one call's chains are spawned from one ancestor: same entropy, different spawn keys.

    Raises
    ------
    BudgetError
        The generator does not say where it comes from.
    """
    seed = getattr(rng.bit_generator, "seed_seq", None)
    if seed is None:
        raise BudgetError("The generator of this chain does not say which call it belongs to.")
    return hashlib.sha256(repr(seed.entropy).encode()).hexdigest(), repr(tuple(seed.spawn_key))


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        with suppress(OSError):
            os.unlink(path)
