"""Checks and printing of the numbers that every part of the accounting takes."""

import math

import numpy as np

from pymc_dp.bounds import SMALLEST_BOUND, check_choice, check_count, is_number

NEIGHBORING_RELATIONS = ("substitute", "add_remove")


def check_delta(delta: float) -> None:
    """Raise ValueError unless 0 < delta < 1, and delta is no less than the accountants can tell from 0."""
    if not (is_number(delta) and 1e-300 <= delta < 1):  # parts of a smaller one leave floating point's range
        raise ValueError(
            "delta must lie strictly between 0 and 1 (from 1e-300 on), well below 1 / (number of records), "
            f"got {delta!r}."
        )


def check_target(epsilon: float, delta: float) -> None:
    """Raise ValueError unless epsilon is from 1e-100 on (inf allowed), and `check_delta` takes delta."""
    if not (is_number(epsilon) and epsilon >= SMALLEST_BOUND):
        raise ValueError(
            "epsilon must be a positive number, from 1e-100 on (or inf, for no privacy), in double "
            f"precision, got {epsilon!r}."
        )
    check_delta(delta)


def weaknesses(epsilon: float, delta: float, n: int | None) -> list[str]:
    """Why a guarantee says little, in sentences; none if it does not, or if there is none.

    Parameters
    ----------
    epsilon, delta : float
    n : int or None
        Number of records; None where it is private.
    """
    if not math.isfinite(epsilon):
        return []
    said = []
    usual = 20.0  # above it, exp(epsilon) is more than 4e8: who has a doubt about a record can lose it
    if epsilon > usual:
        said.append(
            f"epsilon = {epsilon:g} is above {usual:g}: odds about one record may change "
            f"by a factor of exp({epsilon:g}), which is no protection in practice."
        )
    if n is not None and delta >= 1 / n:
        said.append(
            f"delta = {delta:g} is not below 1 / n = {1 / n:.3g}: a mechanism with this delta may publish a "
            f"whole record, chosen at random. Take delta well below it, as {0.01 / n:.1g}."
        )
    return said


def check_counts(draws: object, tune: object, chains: object) -> None:
    """Raise ValueError unless these are numbers of draws (>= 1), tuning draws (>= 0) and chains (>= 1)."""
    for name, value, least in (("draws", draws, 1), ("tune", tune, 0), ("chains", chains, 1)):
        check_count(name, value, least)


def check_relation(neighboring_relation: str) -> None:
    """Raise ValueError for an unknown neighbouring relation."""
    check_choice("neighboring_relation", neighboring_relation, NEIGHBORING_RELATIONS)


def plain(value: object) -> object:
    """Python's own number for one of NumPy's, whose products may overflow; anything else as it is."""
    return value.item() if isinstance(value, np.integer | np.float64) else value
