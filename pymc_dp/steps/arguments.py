"""Checks of the arguments that all private steps share, before anything is built."""

import difflib
import inspect
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from pymc_dp.errors import WeakGuaranteeWarning
from pymc_dp.privacy.accounting.values import is_number, weaknesses

# A warning shows the line of the user that made the step.
_PACKAGE = str(Path(__file__).parents[1])


def check_names(cls: type, given: Iterable[str]) -> None:
    """Refuse arguments that a step does not have, with the one that was meant.

    Parameters
    ----------
    cls : type
        The step.
    given : iterable of str
        Names of its keyword arguments.

    Raises
    ------
    TypeError
    """
    known: set[str] = set()
    for base in cls.__mro__:
        if "__init__" in vars(base) and base is not object:
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            known |= {p.name for p in parameters if p.kind is not p.VAR_KEYWORD and p.name != "self"}
    for argument in given:
        if argument in known:
            continue
        begin = sorted(k for k in known if k.startswith(argument))
        close = begin or difflib.get_close_matches(argument, sorted(known), n=1)
        advice = f"did you mean {close[0]}=?" if close else "its docstring lists those it has."
        raise TypeError(f"{cls.__name__} has no argument {argument}=: {advice}")


def check_shared(exclude_deterministics: Any, debug_seed: Any, tempering: Any) -> None:
    """Check arguments that are not part of the price.

    Raises
    ------
    TypeError
        A text in the place of a list of texts.
    ValueError
        A number is out of range.
    """
    if isinstance(exclude_deterministics, str):
        raise TypeError(
            f"exclude_deterministics must be a list of names: write [{exclude_deterministics!r}] instead of "
            f"{exclude_deterministics!r}."
        )
    integer = isinstance(debug_seed, int | np.integer) and not isinstance(debug_seed, bool)
    if debug_seed is not None and not (integer and debug_seed >= 0):
        raise ValueError(f"debug_seed must be None or an integer of at least 0, got {debug_seed!r}.")
    if not (is_number(tempering) and 0 < tempering <= 1):
        raise ValueError(f"tempering must lie in (0, 1], got {tempering!r}.")


def warn_if_weak(step: Any) -> None:
    """Warn of a guarantee that is true and says little; see `weaknesses`."""
    public_n = step.records.n if step.neighboring_relation == "substitute" else None
    for said in weaknesses(step.epsilon, step.delta, public_n):
        warnings.warn(said, WeakGuaranteeWarning, skip_file_prefixes=(_PACKAGE,))
