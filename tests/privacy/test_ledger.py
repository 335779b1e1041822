"""The ledger: never over budget, never less than what was released, never repaired."""

import math
import multiprocessing
import os
import pickle
import random
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pymc_dp.errors import BudgetError, LedgerError, PrivacyBudgetExceeded
from pymc_dp.ledger import main
from pymc_dp.privacy import EventSet, PenaltyDecisionDpEvent
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget import ledger_file as module
from pymc_dp.privacy.budget.call import CallBudget
from pymc_dp.privacy.budget.ledger_file import FORMAT, Ledger
from tests.privacy import ledger_crash, ledger_race

EPSILON, DELTA = 4.0, 1e-5
MU = float(gaussian.mu(EPSILON, DELTA))
FORK = multiprocessing.get_context("fork")


def share(of_the_budget):
    """A Gaussian release that takes this share of the exact Gaussian budget."""
    return GaussianDpEvent(1 / (MU * math.sqrt(of_the_budget)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.db"


@pytest.fixture
def ledger(path):
    return Ledger(path, epsilon=EPSILON, delta=DELTA)


def state(ledger):
    return [(entry.id, entry.label, entry.key, entry.events, entry.confirmed) for entry in ledger.entries()]


# reserving


def test_what_is_reserved_stays(ledger, path):
    number = ledger.reserve(share(0.3), label="first run")
    assert [entry.status for entry in ledger.entries()] == ["reserved"]
    spent = ledger.spent().epsilon(DELTA)
    ledger.confirm(number)
    again = Ledger(path)
    assert [(e.status, e.label) for e in again.entries()] == [("confirmed", "first run")]
    assert (
        again.spent().epsilon(DELTA) == spent == pytest.approx(gaussian.epsilon(MU * math.sqrt(0.3), DELTA))
    )
    assert (again.epsilon, again.delta, again.neighboring_relation) == (EPSILON, DELTA, "substitute")


def test_confirming_twice_or_nothing(ledger):
    number = ledger.reserve(share(0.1))
    ledger.confirm(number)
    when = ledger.entries()[0].confirmed
    ledger.confirm(number)
    assert ledger.entries()[0].confirmed == when and when.endswith("+00:00")
    with pytest.raises(LedgerError, match="no entry 7"):
        ledger.confirm(7)


def test_first_run_may_take_everything(ledger):
    """A run calibrated to the whole budget is accepted: by exact accounting, as nothing came before it."""
    assert not ledger.fits(share(1 + 1e-6))
    assert ledger.remaining() == EPSILON
    ledger.reserve(share(1 - 1e-9))
    assert ledger.remaining() == 0
    with pytest.raises(PrivacyBudgetExceeded, match="Nothing fits any more"):
        ledger.reserve(GaussianDpEvent(1e6))


def test_composition_and_not_a_sum(ledger):
    """Four runs of epsilon = 1.5 by themselves fit in epsilon = 4."""
    run = GaussianDpEvent(1 / float(gaussian.mu(1.5, DELTA)))
    for _ in range(4):
        ledger.record(run)
    assert 3 < ledger.spent().epsilon(DELTA) < EPSILON


def test_refusal(ledger):
    ledger.reserve(share(0.5))
    before = state(ledger)
    with pytest.raises(PrivacyBudgetExceeded) as caught:
        ledger.reserve(share(0.7))
    error = caught.value
    assert isinstance(error, BudgetError) and state(ledger) == before
    assert error.spent == pytest.approx(float(gaussian.epsilon(MU * math.sqrt(0.5), DELTA)), rel=1e-6)
    assert error.requested == pytest.approx(float(gaussian.epsilon(MU * math.sqrt(0.7), DELTA)), rel=1e-6)
    assert error.remaining == ledger.remaining() and (error.epsilon, error.delta) == (EPSILON, DELTA)
    ledger.reserve(GaussianDpEvent(1 / float(gaussian.mu(error.remaining, DELTA))))  # what remains does fit
    assert ledger.remaining() < 1e-3
    for part in (
        "budget of epsilon = 4 at delta = 1e-05",
        "spent",
        "requested",
        "remaining",
        "fewer iterations",
    ):
        assert part in str(error)
    hinted = pickle.loads(pickle.dumps(error.with_hint("At most draws=350 would fit.")))
    assert str(hinted) == str(error) + " At most draws=350 would fit."
    assert (hinted.spent, hinted.requested, hinted.remaining) == (
        error.spent,
        error.requested,
        error.remaining,
    )


@pytest.mark.parametrize("event", [NonPrivateDpEvent(), GaussianDpEvent(0.0)])
def test_nothing_without_privacy(ledger, event):
    for _ in range(2):
        with pytest.raises(PrivacyBudgetExceeded) as caught:
            ledger.reserve(event)
        assert caught.value.requested == math.inf
        if not ledger.entries():
            ledger.reserve(share(0.1))
    assert len(ledger.entries()) == 1


def test_largest(ledger):
    ledger.reserve(share(0.5))

    def run(draws):
        return SelfComposedDpEvent(PenaltyDecisionDpEvent(100), 4 * draws)

    most = ledger.largest(run, upper=10_000)
    assert 0 < most < 10_000 and ledger.fits(run(most)) and not ledger.fits(run(most + 1))
    assert ledger.largest(run, upper=most - 3) == most - 3
    ledger.reserve(run(most))
    assert ledger.largest(run, upper=100) == 0
    with pytest.raises(ValueError, match="upper"):
        ledger.largest(run, upper=-1)


def test_keys(ledger, path):
    """Chains of one call, in whatever process, are charged once."""
    first = ledger.reserve([share(0.1), share(0.2)], key="call 1")
    assert Ledger(path).reserve([share(0.2), share(0.1)], key="call 1") == first
    with pytest.raises(BudgetError, match="other events"):
        ledger.reserve(share(0.1), key="call 1")
    assert ledger.reserve([share(0.1), share(0.2)], key="call 2") == 2
    assert len(ledger.entries()) == 2
    full = ledger.reserve(share(0.2), key="call 3")
    assert not ledger.fits(share(0.2)) and ledger.reserve(share(0.2), key="call 3") == full


def test_other_libraries_and_relations(path):
    ledger = Ledger(path, EPSILON, DELTA, neighboring_relation="add_remove")
    sgd = SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(2.0)), 500)
    ledger.record(ComposedDpEvent([sgd, GaussianDpEvent(20.0)]), label="DP-SGD")
    ledger.record(sgd)
    assert 0 < ledger.spent().epsilon(DELTA) <= EPSILON
    with pytest.raises(ValueError, match="relation"):
        ledger.reserve(EventSet(share(0.1), "substitute"))


def test_a_mapping_is_charged_for_its_counts(ledger):
    """A million Gaussians were once charged as one."""
    million = {GaussianDpEvent(100.0): 10**6}
    assert not ledger.fits(million) and ledger.largest(lambda k: {GaussianDpEvent(100.0): k}, 10**6) < 10_000
    for charge in (ledger.reserve, ledger.record):
        with pytest.raises(PrivacyBudgetExceeded):
            charge(million)
    ledger.record({GaussianDpEvent(100.0): 1000})
    assert ledger.entries()[0].events.counts == {GaussianDpEvent(100.0): 1000}


class UnknownDpEvent(DpEvent):
    pass


@pytest.mark.parametrize(
    "arguments",
    [
        {"events": UnknownDpEvent()},
        {"events": GaussianDpEvent(-1.0)},
        {"events": GaussianDpEvent(math.nan)},
        {"events": GaussianDpEvent(math.inf)},
        {"events": {GaussianDpEvent(1e3): -1}},
        {"events": {GaussianDpEvent(1e3): math.nan}},
        {"events": {GaussianDpEvent(1e3): True}},
        {"events": {GaussianDpEvent(1e3)}},
        {"events": iter([GaussianDpEvent(1e3)])},
        {"events": [(GaussianDpEvent(1e3), 0.5)]},
        {"label": "two\nlines"},
        {"label": "x" * 201},
        {"label": b"bytes"},
        {"key": ""},
        {"key": 3},
    ],
)
def test_bad_requests(ledger, arguments):
    with pytest.raises(ValueError):
        ledger.reserve(**{"events": share(0.1), **arguments})
    assert not ledger.entries()


REQUESTS = st.lists(
    st.one_of(
        st.floats(0.01, 1.2).map(share),
        st.integers(1, 2000).map(lambda k: SelfComposedDpEvent(PenaltyDecisionDpEvent(60), k)),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(requests=REQUESTS, accounting=st.sampled_from(["renyi", "gaussian"]))
@pytest.mark.slow
def test_any_accepted_sequence_is_within_the_budget(tmp_path, requests, accounting):
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
    ledger = Ledger(path, EPSILON, DELTA, accounting=accounting)
    accepted = []
    for event in requests:
        fits = ledger.fits(event)
        try:
            ledger.reserve(event)
            accepted.append(EventSet(event, "substitute"))
        except PrivacyBudgetExceeded:
            assert not fits
        assert [entry.events for entry in ledger.entries()] == accepted
    assert ledger.spent().epsilon(DELTA) <= EPSILON
    assert 0 <= ledger.remaining() <= EPSILON


def test_hundreds_of_entries(ledger):
    """Each different: a decision of a ledger of 300 entries takes well under a second."""
    with ledger._transaction("EXCLUSIVE") as (db, _):
        for i in range(300):
            events = EventSet(GaussianDpEvent(100.0 + i), "substitute")
            ledger._insert(db, i + 1, "", None, events)
    seconds = -os.times().elapsed
    ledger.reserve(share(0.1))
    assert ledger.spent().epsilon(DELTA) < EPSILON
    seconds += os.times().elapsed
    assert len(ledger.entries()) == 301 and seconds < 1


# the file


def test_file_is_private_and_holds_no_more_than_it_says(path):
    before = os.umask(0)
    try:
        Ledger(path, EPSILON, DELTA).reserve(share(0.1), label="a label", key="a key")
    finally:
        os.umask(before)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["study.db"]
    with closing(sqlite3.connect(path)) as db:
        columns = [row[1] for row in db.execute("PRAGMA table_info(entry)")]
    assert columns == ["id", "created", "label", "key", "events", "digest", "confirmed"]


def test_durability_settings(path, ledger):
    with closing(module._connect(path)) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_opening(path, tmp_path):
    with pytest.raises(LedgerError, match="There is no ledger"):
        Ledger(path)
    with pytest.raises(LedgerError, match="There is no ledger"):
        Ledger(path, epsilon=1.0)
    for bad in (
        {"epsilon": math.inf},
        {"delta": 0},
        {"neighboring_relation": "both"},
        {"accounting": "sum"},
        {"privacy_unit": ""},
    ):
        with pytest.raises(ValueError):
            Ledger(path, **{"epsilon": 1.0, "delta": 1e-5, **bad})
    assert not path.exists()
    Ledger(path, 4, 1e-5, "add_remove", "gaussian")
    again = Ledger(path, epsilon=4.0, neighboring_relation="add_remove")
    assert (again.epsilon, again.accounting) == (4.0, "gaussian")
    for other in (
        {"epsilon": 5},
        {"delta": 1e-6},
        {"neighboring_relation": "substitute"},
        {"accounting": "renyi"},
        {"privacy_unit": "patient"},
    ):
        with pytest.raises(LedgerError, match=next(iter(other))):
            Ledger(path, **other)
    link = tmp_path / "link.db"
    link.symlink_to(path)
    assert Ledger(link).path == path.resolve()


@pytest.mark.parametrize("accounting", ["renyi", "gaussian"])
@pytest.mark.parametrize("budget", [(5e-324, 1e-6), (1e-101, 1e-6), (1.0, 5e-324), (1.0, 1e-301)])
def test_a_budget_that_cannot_be_reckoned_with_is_refused(path, budget, accounting):
    """Numbers whose squares or parts leave floating point: refused by name when the ledger is made."""
    with pytest.raises(ValueError, match=r"epsilon must be .* from 1e-100|delta must lie .*from 1e-300"):
        Ledger(path, *budget, accounting=accounting)
    assert not path.exists()


@pytest.mark.parametrize("accounting", ["renyi", "gaussian"])
def test_the_smallest_budget_refuses_as_any_other(path, accounting):
    ledger = Ledger(path, 1e-100, 1e-300, accounting=accounting)
    for event in (GaussianDpEvent(1.0), PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))):
        with pytest.raises((PrivacyBudgetExceeded, ValueError), match=r"does not fit|defined for"):
            ledger.reserve(event)
    assert not ledger.entries()


def test_a_lost_or_replaced_file_is_noticed(ledger, path, tmp_path):
    copy = pickle.loads(pickle.dumps(ledger))
    copy.reserve(share(0.1))
    assert len(ledger.entries()) == 1
    path.unlink()
    with pytest.raises(LedgerError):
        ledger.reserve(share(0.1))
    assert not path.exists(), "a lost ledger is not made again"
    Ledger(path, EPSILON, DELTA)
    with pytest.raises(LedgerError, match="replaced"):
        ledger.reserve(share(0.1))


def doctored(*statements, relax=True):
    """Edit a ledger as somebody with SQLite at hand would."""

    def edit(path):
        with closing(sqlite3.connect(path)) as db:
            triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
            for name, _ in triggers if relax else ():
                db.execute(f"DROP TRIGGER {name}")
            for statement in statements:
                db.execute(statement)
            for _, sql in triggers if relax else ():
                db.execute(sql)
            db.commit()

    return edit


def resigned(text):
    """Replace the second entry's events, with a digest that fits."""

    def edit(path):
        ledger = Ledger(path)
        second = ledger.entries()[1]
        digest = module._digest(ledger._budget.uid, 2, second.created, second.label, second.key, text)
        doctored(f"UPDATE entry SET events = '{text}', digest = '{digest}' WHERE id = 2")(path)

    return edit


def other_database(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE entry (id INTEGER)")


EVENT = '{"count": 1, "event": {"class": "%s", "noise_multiplier": 3.0}}'
SET = '{"format": %d, "neighboring_relation": "%s", "events": [%s]}'
DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("epsilon: 4\n" * 1000),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "last page lost": lambda path: path.write_bytes(path.read_bytes()[:-4096]),
    "zeros": lambda path: path.write_bytes(path.read_bytes()[:-4096] + bytes(4096)),
    "other database": other_database,
    "newer": doctored(f"PRAGMA user_version = {FORMAT + 1}"),
    "other application": doctored("PRAGMA application_id = 1"),
    "first entry lost": doctored("DELETE FROM entry WHERE id = 1"),
    "last entry lost": doctored("DELETE FROM entry WHERE id = 2"),
    "all entries lost": doctored("DELETE FROM entry"),
    "noise edited": doctored(
        "UPDATE entry SET events = replace(events, '0.1', '0.9')", "UPDATE entry SET label = 'x'"
    ),
    "label edited": doctored("UPDATE entry SET label = 'other' WHERE id = 1"),
    "budget edited": doctored("UPDATE budget SET epsilon = '40.0'"),
    "budget lost": doctored("DELETE FROM budget"),
    "two budgets": doctored("INSERT INTO budget SELECT * FROM budget"),
    "no triggers": doctored("DROP TRIGGER entry_stays", relax=False),
    "extra table": doctored("CREATE TABLE other (x)"),
    "extra trigger": doctored("CREATE TRIGGER eats AFTER INSERT ON entry BEGIN SELECT 1; END"),
    "extra index": doctored("CREATE INDEX more ON entry (label)"),
    "extra column": doctored("ALTER TABLE entry ADD COLUMN more TEXT"),
    "statistics": doctored("ANALYZE"),
    "a view for a table": doctored(
        "ALTER TABLE entry RENAME TO hidden", "CREATE VIEW entry AS SELECT * FROM hidden", relax=False
    ),
    "a view under the text of a table": doctored(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET type = 'view', rootpage = 0 WHERE name = 'entry'",
        relax=False,
    ),
    "another name for a trigger": doctored(
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET name = 'entry_went' WHERE name = 'entry_stays'",
        relax=False,
    ),
    "write-ahead log": doctored("PRAGMA journal_mode = WAL", relax=False),
    "unknown class": resigned(SET % (1, "substitute", EVENT % "os.system")),
    "unknown format": resigned(SET % (2, "substitute", EVENT % "GaussianDpEvent")),
    "other relation": resigned(SET % (1, "add_remove", EVENT % "GaussianDpEvent")),
    "not JSON": resigned("GaussianDpEvent(3.0)"),
    "not text": doctored("UPDATE entry SET events = x'00ff' WHERE id = 2"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_ledger_is_refused(path, damage):
    ledger = Ledger(path, EPSILON, DELTA)
    ledger.record(share(0.1), label="one")
    ledger.reserve(share(0.1), label="two")
    damage(path)
    content = path.read_bytes()
    for use in (
        lambda: Ledger(path),
        lambda: Ledger(path, EPSILON, DELTA),
        lambda: ledger.reserve(share(0.01)),
        lambda: ledger.confirm(1),
        ledger.spent,
        ledger.remaining,
    ):
        with pytest.raises(LedgerError):
            use()
    assert path.read_bytes() == content, "never repaired"


def test_write_ahead_log(path, ledger, tmp_path):
    """A ledger in that mode keeps its newest entries in a second file, which a copy lacks."""
    ledger.reserve(share(0.1))
    other = sqlite3.connect(path)
    with closing(other):
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("SELECT * FROM entry").fetchone()  # holds the log open
        for use in (lambda: ledger.reserve(share(0.1)), ledger.entries, lambda: Ledger(path)):
            with pytest.raises(LedgerError, match="write-ahead"):
                use()
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
        with pytest.raises(LedgerError, match="write-ahead"):
            Ledger(copy)
    with closing(sqlite3.connect(path)) as other:  # what the message says
        assert other.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    assert len(ledger.entries()) == 1 and ledger.reserve(share(0.1)) == 2


@pytest.mark.parametrize("mode", ["OFF", "MEMORY", "TRUNCATE", "PERSIST", "WAL"])
def test_another_journal_mode_of_our_own_connection_is_refused(path, ledger, monkeypatch, mode):
    """As a build of SQLite with another default would have."""
    connect = module._connect

    def other(path):
        db = connect(path)
        db.execute(f"PRAGMA journal_mode = {mode}")
        return db

    monkeypatch.setattr(module, "_connect", other)
    with pytest.raises(LedgerError, match="journal"):
        ledger.reserve(share(0.1))
    assert len(path.read_bytes()) > 0


def test_a_setting_that_was_not_taken_is_refused(path, ledger, monkeypatch):
    monkeypatch.setattr(module, "_SETTINGS", {**module._SETTINGS, "synchronous": 1})
    connect = module._connect
    monkeypatch.setattr(module, "_connect", lambda path: connect(path))
    ledger.entries()  # control: the other value is set, and taken
    monkeypatch.setattr(module, "_SETTINGS", {**module._SETTINGS, "synchronous": 7})
    with pytest.raises(LedgerError, match="synchronous"):
        ledger.entries()


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
@pytest.mark.parametrize("content", [b"", bytes(4096)])
def test_a_log_beside_the_file_is_refused(path, ledger, suffix, content):
    """SQLite would read its pages into the ledger."""
    ledger.reserve(share(0.1))
    beside = path.with_name(path.name + suffix)
    beside.write_bytes(content)
    for use in (lambda: ledger.reserve(share(0.1)), lambda: Ledger(path)):
        with pytest.raises(LedgerError, match=beside.name):
            use()
    assert beside.read_bytes() == content
    beside.unlink()
    assert ledger.reserve(share(0.1)) == 2


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_no_new_ledger_beside_what_another_left(path, suffix):
    """The journal of a ledger that was deleted would be rolled back into the new one."""
    beside = path.with_name(path.name + suffix)
    beside.write_bytes(b"x")
    with pytest.raises(LedgerError, match=beside.name):
        Ledger(path, EPSILON, DELTA)
    assert not path.exists() and beside.exists()


def test_an_older_copy_is_noticed_while_in_use(path, ledger, tmp_path):
    ledger.reserve(share(0.1))
    shutil.copy(path, tmp_path / "backup.db")
    ledger.reserve(share(0.1))
    shutil.copy(tmp_path / "backup.db", path)
    for use in (lambda: ledger.reserve(share(0.1)), ledger.remaining):
        with pytest.raises(LedgerError, match="older copy"):
            use()


def test_an_older_copy_with_other_entries_is_noticed_while_in_use(path, ledger, tmp_path):
    """Only their number was looked at."""
    shutil.copy(path, tmp_path / "backup.db")
    ledger.reserve(share(0.1), label="lost")
    shutil.copy(tmp_path / "backup.db", path)
    Ledger(path).reserve(share(0.1), label="another")
    for use in (lambda: ledger.reserve(share(0.1)), ledger.remaining):
        with pytest.raises(LedgerError, match="older copy"):
            use()


def test_a_ledger_with_two_names_is_refused(path, ledger, monkeypatch):
    """SQLite finds by name what a crash left to undo, and would undo what the other name had since then."""
    other = path.with_name("other.db")
    os.link(path, other)
    for use in (lambda: Ledger(other), lambda: ledger.reserve(share(0.1)), ledger.remaining):
        with pytest.raises(LedgerError, match="another name, a hard link"):
            use()
    other.unlink()
    assert ledger.reserve(share(0.1)) == 1  # control


@pytest.mark.parametrize("name", ["", ":memory:", "file:study.db", "file:study.db?mode=memory"])
def test_what_is_not_a_path_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="path"):
        Ledger(name, EPSILON, DELTA)
    for other in (None, 3, name.encode(), ["study.db"]):
        with pytest.raises((TypeError, ValueError), match="path"):
            Ledger(other, EPSILON, DELTA)
    assert not list(tmp_path.iterdir())


def test_odd_names_are_files(tmp_path):
    for name in ("a?mode=memory", "a%20b#c.db", "études.db", "-journal"):
        Ledger(tmp_path / name, EPSILON, DELTA).reserve(share(0.1))
        assert len(Ledger(tmp_path / name).entries()) == 1 and (tmp_path / name).stat().st_size > 0


def test_places_without_a_file(tmp_path, path, ledger):
    with pytest.raises(LedgerError, match="folder"):
        Ledger(tmp_path / "missing" / "study.db", EPSILON, DELTA)
    assert not (tmp_path / "missing").exists()
    with pytest.raises(LedgerError, match="folder"):
        Ledger(path / "study.db", EPSILON, DELTA)  # below a file
    with pytest.raises(LedgerError, match="not a file"):
        Ledger(tmp_path, EPSILON, DELTA)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="not a file"):
        Ledger(tmp_path / "pipe")


def test_a_ledger_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    def fails(*args):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", fails)
    with pytest.raises(LedgerError, match="Operation not permitted"):
        Ledger(tmp_path / "study.db", EPSILON, DELTA)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["study.db", Path("study.db"), 3, {"path": "study.db"}])
def test_a_step_says_how_to_open_a_ledger(given):
    with pytest.raises(TypeError, match=r"dp.Ledger\('study.db'\)"):
        CallBudget(2, "substitute", given)


def test_control_an_edit_that_changes_nothing_is_accepted(path, ledger):
    ledger.reserve(share(0.1))
    doctored("UPDATE entry SET label = label")(path)
    Ledger(path).reserve(share(0.1))


def test_flipped_bytes(path):
    """Any byte may rot: either nothing that counts has changed, or the ledger is refused."""
    ledger = Ledger(path, EPSILON, DELTA)
    for i in range(3):
        ledger.reserve(share(0.1), label=f"run {i}", key=f"call {i}")
    good, before = path.read_bytes(), [entry[:4] for entry in state(ledger)]
    rng, refused = random.Random(0), 0
    used = [i for i, byte in enumerate(good) if byte]
    for position in rng.sample(used, 300):
        path.write_bytes(
            good[:position] + bytes([good[position] ^ rng.randrange(1, 256)]) + good[position + 1 :]
        )
        try:
            assert [entry[:4] for entry in state(Ledger(path))] == before
        except LedgerError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entry",
        "DELETE FROM budget",
        "UPDATE entry SET events = ''",
        "UPDATE entry SET id = id + 1",
        "UPDATE budget SET epsilon = '9'",
    ],
)
def test_nothing_is_given_back(ledger, path, statement):
    ledger.reserve(share(0.5))
    with closing(sqlite3.connect(path)) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute(statement)
    assert not [
        name for name in dir(Ledger) if any(w in name for w in ("delete", "remove", "release", "cancel"))
    ]


# faults, races, kills


class FaultError(Exception):
    pass


@pytest.mark.parametrize("error", [FaultError, KeyboardInterrupt, sqlite3.OperationalError])
def test_fault_in_the_middle_of_a_transaction(ledger, path, monkeypatch, error):
    ledger.reserve(share(0.1))
    insert = Ledger._insert

    def fails(self, db, *args):
        insert(self, db, *args)
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (2,)
        raise error("in the middle")

    monkeypatch.setattr(Ledger, "_insert", fails)
    with pytest.raises(LedgerError if error is sqlite3.OperationalError else error):
        ledger.reserve(share(0.1))
    monkeypatch.undo()
    assert len(Ledger(path).entries()) == 1
    assert ledger.reserve(share(0.1)) == 2


def test_fault_after_the_commit(ledger, path, monkeypatch):
    """What was committed counts even if the caller never hears of it."""

    def fails(self, reservation):
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "confirm", fails)
    with pytest.raises(KeyboardInterrupt):
        ledger.record(share(0.1))
    assert [entry.status for entry in Ledger(path).entries()] == ["reserved"]


def test_a_busy_ledger_refuses(ledger, path, monkeypatch):
    monkeypatch.setattr(module, "_BUSY_SECONDS", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="locked"):
            ledger.reserve(share(0.1))
        db.execute("ROLLBACK")
    assert ledger.reserve(share(0.1)) == 1


def in_a_fork(function, *arguments):
    """What a function returns in a process of its own, where it may fork, wait for children and kill them."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=lambda: sender.send(function(*arguments)))
    process.start()
    sender.close()
    try:
        assert receiver.poll(240)
        return receiver.recv()
    finally:
        process.kill()
        process.join()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_races(tmp_path):
    for round_ in in_a_fork(ledger_race.main, tmp_path, 5):
        assert sorted(round_["fresh"]) == [0, 0, 0, 0, 1, 2, 3, 4]
        assert sorted(round_["last"]) == [0] * 7 + [4], "exactly one wins the last share"
        assert round_["keyed"] == [1] * 8
    for path in tmp_path.glob("*.db"):
        assert Ledger(path).spent().epsilon(DELTA) <= EPSILON


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_kills(tmp_path):
    """100 SIGKILLs at random moments, many inside a transaction: everything released is in the ledger."""
    found = in_a_fork(ledger_crash.main, tmp_path, 100, True)
    assert found["kills"] == 100 and found["unpaid"] == 0
    assert found["releases"] >= 100 and found["interrupted"] >= 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_control_releasing_first_is_caught(tmp_path):
    assert in_a_fork(ledger_crash.main, tmp_path, 10, False)["unpaid"] > 0


# showing


def test_text_and_html(ledger, path):
    assert "0 entries" in str(ledger) and "epsilon = 4" in str(ledger)
    ledger.record(share(0.3), label="<first> & only")
    text, page = str(ledger), ledger._repr_html_()
    for part in ("confirmed", "<first> & only", "epsilon = 4 at delta = 1e-05", "1 entry", "substitute"):
        assert part in text
    assert "&lt;first&gt; &amp; only" in page and "<first>" not in page
    spent = ledger.spent().epsilon(DELTA)
    printed = float(text.split("Spent: epsilon = ")[1].split(" ")[0])
    left = float(text.split("at most epsilon = ")[1].split(" ")[0])
    assert spent <= printed <= spent * 1.001 and ledger.remaining() * 0.999 <= left <= ledger.remaining()
    assert str(path) in repr(ledger)


def test_command_line(ledger, path, capsys):
    ledger.reserve(share(0.3), label="first run")
    assert main(["show", str(path)]) == 0
    assert capsys.readouterr().out == str(ledger) + "\n"
    path.write_bytes(b"")
    assert main(["show", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "not a privacy ledger" in captured.err
    with pytest.raises(SystemExit):
        main(["erase", str(path)])
