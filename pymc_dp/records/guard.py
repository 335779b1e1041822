"""Nothing that happens while private rows are read may show: no warning, no message with values."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_dp.errors import PrivacyError, kind


def guarded(function: Callable[..., Any], *args: Any) -> Any:
    """Call a compiled function of private data.

    Floating-point warnings would say that some record is NaN or overflows; PyTensor's errors print inputs.

    Raises
    ------
    PrivacyError
        The function failed; the message has the kind of error only, and no cause attached.
    """
    with np.errstate(all="ignore"):
        try:
            return function(*args)
        except Exception as error:
            what = kind(error)
    raise PrivacyError(
        f"The log-likelihood could not be evaluated ({what}). Nothing more is said: its inputs are private."
    )
