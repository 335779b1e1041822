"""Checks of arguments: which numbers are valid. Public bounds must be numbers to divide by and to square."""

import math
from collections.abc import Sequence
from typing import TypeGuard

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike

# Smallest public bound. Squares and quotients of numbers in the range neither overflow nor underflow.
SMALLEST_BOUND = 1e-100
# Largest public bound.
LARGEST_BOUND = 1e100


def is_number(value: object) -> TypeGuard[int | float | np.integer]:
    """Return whether `value` is a real number in double precision, or an integer, and not a bool.

    In half precision ``300**2`` is infinite, and a noise multiplier of 300 would cost nothing.
    """
    return isinstance(value, int | float | np.integer) and not isinstance(value, bool)


def model_of(given: object) -> pm.Model:
    """Return the given model, or that of the context if it is None.

    Raises
    ------
    TypeError
        It is not a model, or there is none.
    """
    model = pm.modelcontext(given)
    if not isinstance(model, pm.Model):
        raise TypeError(f"model must be a pymc.Model, got {type(model).__name__}.")
    return model


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise ValueError unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}.")


def check_positive(name: str, value: object) -> None:
    """Raise ValueError unless `value` is a positive, finite number."""
    if not (is_number(value) and 0 < value < math.inf):
        raise ValueError(f"{name} must be positive and finite, got {value!r}.")


def check_share(name: str, value: object, *, whole: bool = False) -> None:
    """Raise ValueError unless `value` is a number above 0 and below 1; or 1, if `whole`."""
    if not (is_number(value) and 0 < value <= 1 and (whole or value < 1)):
        raise ValueError(f"{name} must lie in (0, 1{']' if whole else ')'}, got {value!r}.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def check_bound(name: str, value: ArrayLike, *, several: bool = False) -> None:
    """Raise ValueError unless `value` is a public bound.

    Parameters
    ----------
    name : str
        Name of the argument.
    value : float or array_like
        A number from 1e-100 to 1e100, an integer or in double precision.
    several : bool
        Whether it may be an array of such numbers, with at least one.

    Notes
    -----
    **Privacy.** A record's contribution is divided by the bound before it is clipped. With a bound below
    about 1e-200 the quotient overflowed, and infinity times 0 moved a sum by 1e11 times the stated
    sensitivity.
    """
    if isinstance(value, float) and SMALLEST_BOUND <= value <= LARGEST_BOUND:
        return  # a fast path, for calls at every gradient
    numbers = np.asarray(value)
    if numbers.ndim and not several:
        raise ValueError(f"{name} must be positive and finite: a single number here, not one for each part.")
    # In half precision, products with the bound would be rounded by a thousandth.
    real = (numbers.dtype.kind in "iu" or numbers.dtype == np.float64) and numbers.size
    with np.errstate(all="ignore"):
        wide = numbers.astype(float) if real else numbers
    if not (real and np.all(wide >= SMALLEST_BOUND) and np.all(wide <= LARGEST_BOUND)):
        shown = numbers.tolist() if numbers.size <= 10 else "an array"
        raise ValueError(
            f"{name} must be positive and finite, between 1e-100 and 1e100, got {shown!r}, in double "
            "precision. Beyond that, sums overflow. Give a bound in nats (and in units of the parameters) "
            "that your records could reach."
        )


NEIGHBORING_RELATIONS = ("substitute", "add_remove")


def check_delta(delta: float) -> None:
    """Raise ValueError unless 0 < delta < 1, and delta is at least 1e-300, as the accountants need."""
    if not (is_number(delta) and 1e-300 <= delta < 1):  # parts of a smaller delta would underflow
        raise ValueError(
            "delta must lie strictly between 0 and 1 (from 1e-300 on), well below 1 / (number of records), "
            f"got {delta!r}."
        )


def check_target(epsilon: float, delta: float) -> None:
    """Raise ValueError unless epsilon is at least 1e-100 (inf allowed), and `check_delta` accepts delta."""
    if not (is_number(epsilon) and epsilon >= SMALLEST_BOUND):
        raise ValueError(
            "epsilon must be a positive number, from 1e-100 on (or inf, for no privacy), in double "
            f"precision, got {epsilon!r}."
        )
    check_delta(delta)


def check_counts(draws: object, tune: object, chains: object) -> None:
    """Raise ValueError unless these are numbers of draws (>= 1), tuning draws (>= 0) and chains (>= 1)."""
    for name, value, least in (("draws", draws, 1), ("tune", tune, 0), ("chains", chains, 1)):
        check_count(name, value, least)


def check_relation(neighboring_relation: str) -> None:
    """Raise ValueError for an unknown neighbouring relation."""
    check_choice("neighboring_relation", neighboring_relation, NEIGHBORING_RELATIONS)
