"""Checks and printing of the numbers that every part of the accounting takes."""

import math
from typing import TypeGuard

import numpy as np

NEIGHBORING_RELATIONS = ("substitute", "add_remove")

# Above it, exp(epsilon) is more than 4e8: who has a doubt about a record can lose it.
LARGEST_USUAL_EPSILON = 20.0


def is_number(value: object) -> TypeGuard[int | float | np.integer]:
    """Whether `value` is a real number in double precision, or an integer, and not a bool.

    In half precision ``300**2`` is infinite, and a noise multiplier of 300 would cost nothing.
    """
    return isinstance(value, int | float | np.integer) and not isinstance(value, bool)


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise ValueError unless it is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


def check_target(epsilon: float, delta: float) -> None:
    """Raise ValueError unless epsilon > 0 (inf allowed) and 0 < delta < 1."""
    if not (is_number(epsilon) and epsilon > 0):
        raise ValueError(
            "epsilon must be a positive number (or inf, for no privacy) in double precision, got "
            f"{epsilon!r}."
        )
    if not (is_number(delta) and 0 < delta < 1):
        raise ValueError(
            f"delta must lie strictly between 0 and 1, well below 1 / (number of records), got {delta!r}."
        )


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
    if epsilon > LARGEST_USUAL_EPSILON:
        said.append(
            f"epsilon = {epsilon:g} is above {LARGEST_USUAL_EPSILON:g}: odds about one record may change "
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
    if neighboring_relation not in NEIGHBORING_RELATIONS:
        raise ValueError(
            f"neighboring_relation must be one of {', '.join(NEIGHBORING_RELATIONS)}, got "
            f"{neighboring_relation!r}."
        )


def plain(value: object) -> object:
    """Python's own number for one of NumPy's, whose products may overflow; anything else as it is."""
    return value.item() if isinstance(value, np.integer | np.float64) else value
