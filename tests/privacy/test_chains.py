"""What a call releases once is released once, whatever its chains do."""

import multiprocessing
import time

import pytest

from pymc_dp.errors import BudgetError
from pymc_dp.privacy.budget.slots import ChainSlots


def chain(slots, results, log):
    def compute():
        log.put("computed")
        time.sleep(0.3)
        return "the release"

    results.put(slots.once(compute))


def test_once_for_all_processes():
    slots = ChainSlots(4)
    context = multiprocessing.get_context("fork")
    results, log = context.Queue(), context.Queue()
    processes = [context.Process(target=chain, args=(slots, results, log)) for _ in range(4)]
    for process in processes:
        process.start()
    assert {results.get(timeout=30) for _ in processes} == {"the release"}
    for process in processes:
        process.join(30)
    assert log.get(timeout=5) == "computed" and log.empty()
    assert slots.once(lambda: pytest.fail("computed again")) == "the release"


def test_an_interrupted_release_is_not_repeated():
    slots = ChainSlots(2)

    def crash():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        slots.once(crash)
    with pytest.raises(BudgetError, match="begun and not finished"):
        slots.once(lambda: "again")


def test_chains_may_start_while_one_computes():
    slots = ChainSlots(2)
    assert slots.once(lambda: str(slots.claim("call", "chain", 1, 2))) == "0"
