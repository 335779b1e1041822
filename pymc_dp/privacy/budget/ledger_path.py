"""Where a ledger's file is: its one name, and what SQLite may have left beside it."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from pymc_dp.errors import LedgerError


def place(path: object) -> Path:
    """Return the path with links resolved, since SQLite's journal is in the directory of the file itself."""
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise TypeError(f"path must be text or a pathlib.Path, got {type(path).__name__}.")
    text = str(path)
    if not text or text == ":memory:" or text.startswith("file:"):
        raise ValueError(
            f"path must be the path of a file, as 'study.db', not {text!r}: a ledger outlives a session."
        )
    return Path(os.path.realpath(text))


def beside(path: Path, suffixes: Sequence[str]) -> list[str]:
    """Return names of existing files beside the ledger that SQLite would read as parts of it."""
    return [f"{path.name}{suffix}" for suffix in suffixes if os.path.lexists(f"{path}{suffix}")]


def refuse_second_name(path: Path) -> None:
    """Refuse a file with a hard link: SQLite finds its journal, and what a crash left to undo, by name."""
    # Seconds for which a ledger that is just being made may have the name under which it was written as well.
    end = time.monotonic() + 1.0
    while path.stat().st_nlink > 1:
        if time.monotonic() > end:
            raise LedgerError(
                f"The ledger at {path} has another name, a hard link. After a crash, entries that were made "
                "under one name could be undone under the other. Find that name (find -samefile) and delete "
                "it; one that ends in .new is left of a crash while the ledger was made."
            )
        time.sleep(0.01)
