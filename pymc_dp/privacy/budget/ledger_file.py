"""The ledger: one privacy budget for one data set, on disk, across sessions, processes and libraries."""

import hashlib
import html
import json
import os
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pymc_dp.bounds import check_count
from pymc_dp.errors import BudgetError, LedgerError, PrivacyBudgetExceeded
from pymc_dp.printing import html_table, text_table
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.accounting.calibration import last_that_fits
from pymc_dp.privacy.accounting.composition import Guarantee, compose
from pymc_dp.privacy.accounting.event_sets import Events, EventSet
from pymc_dp.privacy.budget.filters import Cost, PrivacyFilter
from pymc_dp.privacy.budget.ledger_path import beside, place, refuse_second_name
from pymc_dp.rounding import round_down, round_up

# "dpLe" in ASCII: distinguishes a ledger from other SQLite files.
APPLICATION_ID = 0x64704C65
# Version of the file format.
FORMAT = 2
# Time to wait for a lock that another process holds.
_BUSY_SECONDS = 60.0
# PRAGMA settings. synchronous = EXTRA (3) also syncs the directory after the journal is removed; fullfsync is
# for macOS.
_SETTINGS = {"synchronous": 3, "fullfsync": 1, "trusted_schema": 0}
# Suffixes of the files of a write-ahead log.
_LOG = ("-wal", "-shm")
# The tables. Floats are stored as text from repr: exact, and the same in every SQLite build.
_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
CREATE TABLE budget (
    uid TEXT NOT NULL, created TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    neighboring_relation TEXT NOT NULL, accounting TEXT NOT NULL, renyi_order TEXT NOT NULL,
    privacy_unit TEXT NOT NULL, digest TEXT NOT NULL
);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT, created TEXT NOT NULL, label TEXT NOT NULL, key TEXT UNIQUE,
    events TEXT NOT NULL, digest TEXT NOT NULL, confirmed TEXT
);
CREATE TRIGGER budget_is_final BEFORE UPDATE ON budget
BEGIN SELECT RAISE(ABORT, 'a budget never changes'); END;
CREATE TRIGGER budget_stays BEFORE DELETE ON budget BEGIN SELECT RAISE(ABORT, 'a budget never changes'); END;
CREATE TRIGGER entry_stays BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT, 'nothing is ever given back'); END;
CREATE TRIGGER entry_is_final BEFORE UPDATE OF id, created, label, key, events, digest ON entry
BEGIN SELECT RAISE(ABORT, 'nothing is ever given back'); END;
"""


@dataclass(frozen=True)
class Entry:
    """One line of a ledger.

    Attributes
    ----------
    id : int
        Number of the entry, from 1.
    created : str
        UTC, ISO 8601.
    label : str
    key : str or None
    events : EventSet
    confirmed : str or None
        Time at which the work ended normally; None as long as it is only reserved. Both count the same, and
        entries that differ in nothing else are equal.
    """

    id: int
    created: str
    label: str
    key: str | None
    events: EventSet
    confirmed: str | None = field(compare=False)

    @property
    def status(self) -> str:
        """'reserved' or 'confirmed'."""
        return "reserved" if self.confirmed is None else "confirmed"


class Ledger:
    """Privacy budget of one data set, in a SQLite file.

    Parameters
    ----------
    path : str or Path
        Created if it does not exist (then `epsilon` and `delta` are needed), readable by its owner only. It
        must be on a local disk: network file systems do not lock reliably.
    epsilon, delta : float, optional
        Budget of everything that is ever done with these data. For an existing file, omit them, or give the
        values in the file.
    neighboring_relation : {"substitute", "add_remove"}, optional
        For an existing file as above; default for a new file "substitute".
    accounting : {"renyi", "gaussian"}, optional
        For an existing file as above; default for a new file "renyi". See
        `pymc_dp.privacy.budget.filters.PrivacyFilter`.
    privacy_unit : str, optional
        Whose data the budget protects; for an existing file as above. "row", the default for a new file; the
        name under which calls give ids, such as "patient" for ``privacy_unit={"patient": ids}``; or "id" for
        ids without a name.

    Attributes
    ----------
    path : Path
    epsilon, delta : float
    neighboring_relation, accounting, privacy_unit : str

    Raises
    ------
    LedgerError
        The file is missing (and no budget was given), damaged, not a ledger, from another version, or for
        another budget.
    ValueError
        An argument is out of range.

    Notes
    -----
    **Privacy.** All accepted requests together are (epsilon, delta)-DP, even if requests depend on earlier
    results (docs/ledger). A request is charged before its work begins, and is never refunded. The file
    contains events, labels and times; no data and no seed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        neighboring_relation: str | None = None,
        accounting: str | None = None,
        privacy_unit: str | None = None,
    ):
        self.path = place(path)
        if privacy_unit is not None:
            _check_text("privacy_unit", privacy_unit)
        if not self.path.exists():
            if epsilon is None or delta is None:
                raise LedgerError(
                    f"There is no ledger at {self.path}. To make one, give its epsilon and delta."
                )
            _create(
                self.path,
                PrivacyFilter(epsilon, delta, neighboring_relation or "substitute", accounting or "renyi"),
                privacy_unit or "row",
            )
        with _transaction(self.path, "DEFERRED") as (_, self._budget, entries):
            self._seen = entries
        for name, own, given in (
            ("epsilon", self.epsilon, epsilon),
            ("delta", self.delta, delta),
            ("neighboring_relation", self.neighboring_relation, neighboring_relation),
            ("accounting", self.accounting, accounting),
            ("privacy_unit", self.privacy_unit, privacy_unit),
        ):
            if given is not None and given != own:
                raise LedgerError(
                    f"The ledger at {self.path} has {name} = {own!r}, not {given!r}. A budget is fixed when "
                    "its ledger is made: leave the argument out, or give the same."
                )

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget."""
        return self._budget.rule.epsilon

    @property
    def delta(self) -> float:
        """Delta of the budget."""
        return self._budget.rule.delta

    @property
    def neighboring_relation(self) -> str:
        """Neighbouring relation of all events in the ledger."""
        return self._budget.rule.neighboring_relation

    @property
    def accounting(self) -> str:
        """Name of the rule by which requests are accepted."""
        return self._budget.rule.accounting

    @property
    def privacy_unit(self) -> str:
        """Whose data the budget protects: "row", or the name of the ids."""
        return self._budget.unit

    # reserving

    def reserve(self, events: Events, label: str = "", key: str | None = None) -> int:
        """Charge for work before it begins.

        Parameters
        ----------
        events : DpEvent, EventSet, list, tuple or mapping
            Everything that the work will release; as in `EventSet`.
        label : str
            Name of the entry, for people who read the ledger; at most 200 printable characters. Never put
            data in it.
        key : str, optional
            Name of the call. Requests with the same key and the same events are charged once, whichever
            process makes them.

        Returns
        -------
        int
            Number of the entry, for `confirm`.

        Raises
        ------
        PrivacyBudgetExceeded
            The events do not fit the remaining budget; nothing was recorded.
        BudgetError
            The key was used for other events.
        LedgerError
            The file cannot be used; treat this as a refusal.
        ValueError
            An event is unknown or invalid, the neighbouring relation differs, or the label or key is
            unsuitable.

        Notes
        -----
        **Privacy.** One exclusive transaction, which is on disk before this returns. The decision depends on
        events only, never on data.
        """
        _check_text("label", label)
        if key is not None:
            _check_text("key", key)
        requested = EventSet(events, self.neighboring_relation)
        self.fits(requested)  # fills the cache of costs, so that the lock below is held only briefly
        with self._transaction("EXCLUSIVE") as (db, entries):
            same = [entry for entry in entries if key is not None and entry.key == key]
            if same and same[0].events != requested:
                raise BudgetError(
                    f"The key {key!r} was used in this ledger for other events: a new call needs a new key."
                )
            if same:
                return same[0].id
            number = len(entries) + 1 if self._fits(entries, requested) else None
            if number is not None:
                made = self._insert(db, number, label, key, requested)
        if number is None:
            raise PrivacyBudgetExceeded(
                spent=self.spent().epsilon(self.delta),
                requested=compose(requested).epsilon(self.delta),
                remaining=self.remaining(),
                epsilon=self.epsilon,
                delta=self.delta,
            )
        self._seen = (*entries, made)
        return number

    def _insert(
        self, db: sqlite3.Connection, number: int, label: str, key: str | None, events: EventSet
    ) -> Entry:
        values = number, _now(), label, key, events.to_json()
        db.execute(
            "INSERT INTO entry (id, created, label, key, events, digest) VALUES (?, ?, ?, ?, ?, ?)",
            (*values, _digest(self._budget.uid, *values)),
        )
        return Entry(*values[:-1], events, None)

    def confirm(self, reservation: int) -> None:
        """Record that reserved work ended normally. The cost does not depend on it.

        Raises
        ------
        LedgerError
            There is no such entry, or the file cannot be used.
        """
        with self._transaction("EXCLUSIVE") as (db, entries):
            if reservation not in {entry.id for entry in entries}:
                raise LedgerError(f"The ledger has no entry {reservation!r}.")
            db.execute(
                "UPDATE entry SET confirmed = ? WHERE id = ? AND confirmed IS NULL", (_now(), reservation)
            )

    def record(self, events: Events, label: str = "", key: str | None = None) -> int:
        """Reserve and confirm, for work done elsewhere: call this before anybody sees the work's result.

        Returns
        -------
        int
            Number of the entry.

        Raises
        ------
        PrivacyBudgetExceeded
            The events do not fit the remaining budget; nothing was recorded, and the result must not be
            shown.
        BudgetError, LedgerError, ValueError
            As in `reserve`.
        """
        reservation = self.reserve(events, label, key)
        self.confirm(reservation)
        return reservation

    # reading

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first."""
        with self._transaction("DEFERRED") as (_, entries):
            return entries

    def spent(self) -> Guarantee:
        """Compose all entries, both reserved and confirmed ones.

        Returns
        -------
        Guarantee
            Cost of the list of entries. The guarantee that holds, and may be published, is the budget: see
            docs/ledger.
        """
        return self._composed(self.entries())

    def remaining(self) -> float:
        """Compute the largest epsilon of a run by itself, at the ledger's delta, that would be accepted now.

        Returns
        -------
        float
            Epsilon of Gaussian releases, rounded down; 0 when nothing fits.
        """
        entries = self.entries()
        if not entries:
            return self.epsilon
        mu = self._budget.rule.largest_mu(self._costs(entries))
        return max(float(gaussian.epsilon(mu, self.delta)) * (1 - 1e-9), 0.0)

    def fits(self, events: Events) -> bool:
        """Return whether `reserve` would accept events now. Nothing is reserved."""
        return self._fits(self.entries(), EventSet(events, self.neighboring_relation))

    def _fits(self, entries: Sequence[Entry], requested: EventSet) -> bool:
        rule = self._budget.rule
        if rule.accepts(self._costs(entries), rule.cost(requested)):
            return True
        return not entries and rule.accepts_alone(requested)

    def largest(self, make_events: Callable[[int], Events], upper: int) -> int:
        """Find the largest number for which events would be accepted now, such as the largest `draws`.

        Parameters
        ----------
        make_events : callable
            Events as a function of an integer. Their cost must not decrease with it.
        upper : int
            Largest number of interest, >= 0.

        Returns
        -------
        int
            Between 0 and `upper`; 0 if not even ``make_events(1)`` fits.
        """
        check_count("upper", upper, least=0)
        return last_that_fits(lambda number: self.fits(make_events(number)), 0, upper + 1)

    def _costs(self, entries: Sequence[Entry]) -> list[Cost]:
        return [self._budget.rule.cost(entry.events) for entry in entries]

    def _composed(self, entries: Sequence[Entry]) -> Guarantee:
        return compose(
            [entry.events for entry in entries], self.neighboring_relation, reference_delta=self.delta
        )

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[tuple[sqlite3.Connection, tuple[Entry, ...]]]:
        """Open a transaction, and refuse a file that was replaced by another one or by an older copy."""
        with _transaction(self.path, kind) as (db, budget, entries):
            if budget != self._budget:
                raise LedgerError(
                    f"The ledger at {self.path} was replaced by another one while it was in use."
                )
            if entries[: len(self._seen)] != self._seen:
                raise LedgerError(
                    f"The ledger at {self.path} was replaced by an older copy while it was in use: of "
                    f"{len(self._seen)} entries that were there some are gone. A restored backup forgets "
                    "what was released: put the newer file back."
                )
            self._seen = entries
            yield db, entries

    # showing

    _head = ("entry", "reserved at (UTC)", "status", "epsilon alone", "label")

    def _shown(self) -> tuple[list[str], list[tuple[str, ...]]]:
        """Return lines about all entries together, and a table row for each entry."""
        entries = self.entries()
        spent = round_up(self._composed(entries).epsilon(self.delta))
        count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
        summary = [
            f"Budget: epsilon = {round_up(self.epsilon)} at delta = {round_up(self.delta)} "
            f"({self.neighboring_relation}, privacy unit: {self.privacy_unit}) for everything together",
            f"Spent: epsilon = {spent} ({count}, composed)",
            f"Remaining: a run of at most epsilon = {round_down(self.remaining())} by itself",
        ]
        return summary, [
            (str(e.id), e.created, e.status, round_up(self._composed([e]).epsilon(self.delta)), e.label)
            for e in entries
        ]

    def __str__(self) -> str:
        summary, rows = self._shown()
        return "\n".join([f"Privacy ledger {self.path}", *summary, "", text_table([self._head, *rows])])

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, epsilon={self.epsilon!r}, delta={self.delta!r})"

    def _repr_html_(self) -> str:
        summary, rows = self._shown()
        said = "<br>".join(map(html.escape, summary))
        return f"<h4>Privacy ledger</h4><p>{said}</p>{html_table(self._head, rows)}"


def _create(path: Path, rule: PrivacyFilter, unit: str) -> None:
    """Write a complete new ledger under another name, then link it to `path`, unless a file exists there."""
    left = beside(path, ("-journal", *_LOG))
    if left and not path.exists():
        raise LedgerError(
            f"There is no ledger at {path}, but {left[0]} is there, which belongs to one that was moved or "
            "deleted. Put the ledger back; or, if it had nothing to do with these data, move that file away."
        )
    try:
        handle, name = tempfile.mkstemp(prefix=path.name, suffix=".new", dir=path.parent)  # mode 0600
        os.close(handle)
        try:
            with closing(_connect(Path(name))) as db:
                db.executescript(f"BEGIN EXCLUSIVE; {_SCHEMA}")
                numbers = repr(float(rule.epsilon)), repr(float(rule.delta))
                kind = rule.neighboring_relation, rule.accounting, repr(rule.order)
                values = uuid.uuid4().hex, _now(), *numbers, *kind, unit
                db.execute(
                    "INSERT INTO budget VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*values, _digest(*values))
                )
                db.execute("COMMIT")
            with suppress(FileExistsError):
                os.link(name, path)
        finally:
            os.unlink(name)
        if os.name == "posix":
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"No ledger can be made at {path} ({error}). Its folder must exist, be writable, and be on a "
            "local disk."
        ) from error


@contextmanager
def _transaction(path: Path, kind: str) -> Iterator[tuple[sqlite3.Connection, "_Budget", tuple[Entry, ...]]]:
    """Open a transaction; yield its connection, the budget and all entries. Rolled back on error."""
    if not path.is_file():
        what = "What is there is not a file" if path.exists() else "It is not there any more"
        raise LedgerError(f"The ledger at {path} cannot be used. {what}.")
    if log := beside(path, _LOG):
        raise LedgerError(_wal(path, f"{log[0]} is beside it"))
    refuse_second_name(path)
    try:
        with closing(_connect(path)) as db:
            db.execute(f"BEGIN {kind}")
            _check_file(db, path)
            budget = _read_budget(db)
            yield db, budget, _read_entries(db, path, budget)
            db.execute("COMMIT")  # closing without it rolls back
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise LedgerError(
            f"The ledger at {path} cannot be used ({error}). It is never repaired silently: find out what "
            "happened to the file. A new ledger for the same data would forget what was released."
        ) from error


def _wal(path: Path, found: str) -> str:
    return (
        f"The ledger at {path} was switched to a write-ahead log ({found}). Its newest entries are then in a "
        "second file, which gets lost when a ledger is copied: nothing is charged in this mode. If the file "
        "and its log were always together, open it with SQLite, run PRAGMA journal_mode = DELETE, and close "
        "it. If the log was lost, so were entries."
    )


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        for name, setting in _SETTINGS.items():
            db.execute(f"PRAGMA {name} = {setting}")
            if db.execute(f"PRAGMA {name}").fetchone() != (setting,):
                raise LedgerError(
                    f"SQLite does not take the setting {name} = {setting}: charges could be lost."
                )
    except BaseException:
        db.close()
        raise
    return db


def _check_file(db: sqlite3.Connection, path: Path) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise LedgerError(f"{path} is not a privacy ledger.")
    if version != FORMAT:
        raise LedgerError(
            f"The ledger at {path} has format {version}, and this version of pymc_dp reads format {FORMAT}: "
            "use it with the version that wrote it."
        )
    if db.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        raise LedgerError(f"The ledger at {path} is damaged: SQLite's integrity check failed.")
    (mode,) = db.execute("PRAGMA journal_mode").fetchone()
    if mode == "wal":
        raise LedgerError(_wal(path, "its header says so"))
    if mode != "delete":
        raise LedgerError(
            f"SQLite's journal mode for {path} is {mode!r}, and must be 'delete': a crash could lose charges."
        )
    if _schema(db) != _expected_schema():
        raise LedgerError(f"The ledger at {path} is damaged: its tables were changed.")


def _schema(db: sqlite3.Connection) -> set[tuple[str, ...]]:
    return set(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))


def _expected_schema() -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_SCHEMA)
        return _schema(db)


class _Budget(NamedTuple):
    """Budget of a ledger file: its id, the rule, and the privacy unit."""

    uid: str
    rule: PrivacyFilter
    unit: str


def _read_budget(db: sqlite3.Connection) -> _Budget:
    rows = db.execute("SELECT * FROM budget").fetchall()
    if len(rows) != 1 or rows[0][-1] != _digest(*rows[0][:-1]):
        raise LedgerError("The ledger is damaged: its budget was changed.")
    uid, _, epsilon, delta, relation, accounting, order, unit, _ = rows[0]
    try:
        own_order = None if order == "None" else float(order)
        _check_text("privacy_unit", unit)
        return _Budget(
            uid, PrivacyFilter(float(epsilon), float(delta), relation, accounting, own_order), unit
        )
    except ValueError as error:
        raise LedgerError(f"The ledger's budget cannot be read: {error}") from error


def _read_entries(db: sqlite3.Connection, path: Path, budget: _Budget) -> tuple[Entry, ...]:
    rows = db.execute(
        "SELECT id, created, label, key, events, digest, confirmed FROM entry ORDER BY id"
    ).fetchall()
    last = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)) or (last[0] if last else 0) != len(rows):
        raise LedgerError(f"The ledger at {path} is damaged: entries are missing.")
    entries = []
    for number, created, label, key, text, digest, confirmed in rows:
        if digest != _digest(budget.uid, number, created, label, key, text):
            raise LedgerError(f"The ledger at {path} is damaged: entry {number} was changed.")
        try:
            events = EventSet.from_json(text)
            if events.neighboring_relation != budget.rule.neighboring_relation:
                raise ValueError("it has another neighbouring relation.")
        except ValueError as error:
            raise LedgerError(f"Entry {number} of the ledger at {path} cannot be read: {error}") from error
        entries.append(Entry(number, created, label, key, events, confirmed))
    return tuple(entries)


def _digest(*values: object) -> str:
    """Return a checksum, which detects accidental damage; whoever can write the file can also forge it."""
    return hashlib.sha256(json.dumps(values, default=repr).encode()).hexdigest()


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
        raise ValueError(f"{name} must be text of at most 200 printable characters.")
    if name != "label" and not value:
        raise ValueError(f"{name} must not be empty.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
