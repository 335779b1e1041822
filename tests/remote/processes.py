"""Processes that need not wait for imports: a server of `multiprocessing` forks them.

They share nothing else: what they are told is pickled, as for processes that are spawned. What they print
goes where the server's goes, so that tests of it spawn theirs.
"""

import multiprocessing
from types import SimpleNamespace

from pymc_dp.remote import homes

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["distributed", "tests.remote.parts"])


def for_owners(monkeypatch):
    """Let owners be in such processes."""
    monkeypatch.setattr(homes, "multiprocessing", SimpleNamespace(get_context=lambda method: CONTEXT))
