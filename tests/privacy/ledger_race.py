"""Processes that ask for the same thing at the same moment. Run by test_ledger.py, in a fork of its own."""

import math
import os

from dp_accounting import GaussianDpEvent

from pymc_dp.errors import PrivacyBudgetExceeded
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.ledger_file import Ledger

PROCESSES = 8
EPSILON, DELTA = 4.0, 1e-5
# Four fit (80% of the Gaussian budget), and a fifth does not.
SHARE = math.sqrt(5.5) / float(gaussian.mu(EPSILON, DELTA))


def compete(path, key):
    """Numbers of the entries, or 0 for a refusal, of eight processes that start together."""
    results, gates = [], []
    for _ in range(PROCESSES):
        answer, gate = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(gate[1])
            os.read(gate[0], 1)  # returns when the parent closes the gate
            try:
                number = Ledger(path, EPSILON, DELTA).reserve(GaussianDpEvent(SHARE), key=key)
            except PrivacyBudgetExceeded:
                number = 0
            os.write(answer[1], b"%d" % number)
            os._exit(0)
        os.close(answer[1])
        os.close(gate[0])
        gates.append(gate[1])
        results.append(answer[0])
    for gate in gates:
        os.write(gate, b"x")
    numbers = [int(os.read(result, 10)) for result in results]
    for descriptor in results + gates:
        os.close(descriptor)
    for _ in range(PROCESSES):
        os.wait()
    return numbers


def main(directory, rounds):
    """What each of eight processes got, in each round.

    A ledger a round: made in the race, four shares; then one key; in a second ledger, the last share.
    """
    found = []
    for number in range(rounds):
        fresh, last = directory / f"fresh{number}.db", directory / f"last{number}.db"
        for _ in range(3):
            Ledger(last, EPSILON, DELTA).reserve(GaussianDpEvent(SHARE))
        keyed = directory / f"keyed{number}.db"
        found.append(
            {"fresh": compete(fresh, None), "last": compete(last, None), "keyed": compete(keyed, "call")}
        )
    return found
