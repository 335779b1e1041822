"""Checks and printing of the numbers that every part of the accounting takes."""

import math
from typing import Any

import numpy as np

NEIGHBORING_RELATIONS = ("substitute", "add_remove")


def check_target(epsilon: float, delta: float) -> None:
    """Raise ValueError unless epsilon > 0 (inf allowed) and 0 < delta < 1."""
    if not (is_number(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be a positive number (or inf, for no privacy), got {epsilon!r}.")
    if not (is_number(delta) and 0 < delta < 1):
        raise ValueError(
            f"delta must lie strictly between 0 and 1, well below 1 / (number of records), got {delta!r}."
        )


def check_relation(neighboring_relation: str) -> None:
    """Raise ValueError for an unknown neighbouring relation."""
    if neighboring_relation not in NEIGHBORING_RELATIONS:
        raise ValueError(
            f"neighboring_relation must be one of {', '.join(NEIGHBORING_RELATIONS)}, got "
            f"{neighboring_relation!r}."
        )


def is_number(value: Any) -> bool:
    """Whether `value` is a real number and not a bool."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def round_up(value: float, digits: int = 4) -> str:
    """Decimal string of at least `value`: a printed epsilon is never below the computed one."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    steps = math.ceil(value / unit)
    while float(f"{steps * unit:.{digits}g}") < value:
        steps += 1
    return f"{steps * unit:.{digits}g}"


def round_down(value: float, digits: int = 3) -> str:
    """Decimal string of at most a positive `value`: a bound that is advised fits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    steps = math.floor(value / unit)
    while float(f"{steps * unit:.{digits}g}") > value:
        steps -= 1
    return f"{steps * unit:.{digits}g}"
