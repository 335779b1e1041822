"""Nothing that happens while private rows are read may show: no warning, no message with values."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_dp.errors import PrivacyError, kind


def guarded(
    function: Callable[..., Any], *args: Any, what: str = "The log-likelihood could not be evaluated"
) -> Any:
    """Call a function of private data.

    Warnings would say that some record is NaN, overflows or is missing; PyTensor's errors print inputs.

    Parameters
    ----------
    function : callable
    *args : object
    what : str
        Begin of the message, should it fail.

    Raises
    ------
    PrivacyError
        The function failed; the message has the kind of error only, and no cause attached.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args)
        except Exception as error:
            name = kind(error)
    raise PrivacyError(f"{what} ({name}). Nothing more is said: its inputs are private.")
