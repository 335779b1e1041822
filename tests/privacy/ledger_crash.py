"""Workers that are killed at random moments, and what the ledger knows afterwards.

Run by test_ledger.py, in a fork of its own.
"""

import os
import random
import signal
import time
from pathlib import Path

from dp_accounting import GaussianDpEvent

from pymc_dp.privacy.budget.ledger_file import Ledger

KILLS_PER_LEDGER = 10
FIRST_NOISE = 1000.0


def noise(number):
    """A noise multiplier that tells releases apart."""
    return FIRST_NOISE + number


def work(ledger, released, reserve_first):
    """Reserve, then release the next number, in a loop, until killed."""
    ledger = Ledger(ledger)
    with open(released, "a") as file:
        number = len(released.read_text().split())
        while True:
            if reserve_first:
                ledger.reserve(GaussianDpEvent(noise(number)))
            file.write(f"{number}\n")
            file.flush()
            os.fsync(file.fileno())
            if not reserve_first:
                ledger.reserve(GaussianDpEvent(noise(number)))
            number += 1


def unpaid(ledger, released):
    """Released numbers that the ledger does not know."""
    paid = {event.noise_multiplier for entry in Ledger(ledger).entries() for event in entry.events.counts}
    return [number for number in released.read_text().split() if noise(int(number)) not in paid]


def main(directory, kills, reserve_first):
    """Kill, and count."""
    rng = random.Random(0)
    found = {"kills": 0, "releases": 0, "unpaid": 0, "interrupted": 0}
    for run in range(kills):
        ledger = directory / f"{run // KILLS_PER_LEDGER}.db"
        released = directory / f"{run // KILLS_PER_LEDGER}.txt"
        if not ledger.exists():
            Ledger(ledger, epsilon=4, delta=1e-5)
            released.touch()
        child = os.fork()
        if child == 0:
            work(ledger, released, reserve_first)
        # Not by the clock alone: on a busy machine a worker would often be killed before it began.
        enough = len(released.read_text().split()) + rng.randrange(4)
        while len(released.read_text().split()) < enough:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.02))
        journal, until = Path(f"{ledger}-journal"), time.monotonic() + 5 * (run % 2)
        while time.monotonic() < until and not journal.exists():
            pass  # every second worker is killed in a transaction, if that can be
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        found["kills"] += os.WIFSIGNALED(status)
        found["interrupted"] += journal.exists()
        found["unpaid"] += bool(unpaid(ledger, released))
    found["releases"] = sum(len(file.read_text().split()) for file in directory.glob("*.txt"))
    return found
