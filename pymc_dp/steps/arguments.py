"""Checks of the arguments that all private steps share, before anything is built."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pymc_dp.errors import WeakGuaranteeWarning
from pymc_dp.privacy.accounting.values import is_number, weaknesses

# A warning shows the line of the user that made the step.
_PACKAGE = str(Path(__file__).parents[1])


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
