"""What may come back from where private rows are: an answer, or a failure that shows no values."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pymc_dp.errors import PrivacyError


class UnavailableError(PrivacyError):
    """Records that were there cannot be had any more; the run stops, and what it reserved stays spent."""


class Failure(NamedTuple):
    """Stands for an answer that could not be given.

    Attributes
    ----------
    error : PrivacyError
        Raised by whoever asked.
    """

    error: PrivacyError


def answer(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of private rows; return its value or a `Failure`, and raise nothing.

    An exception would be sent and logged by whatever carries the answer, with its message. Errors of this
    package carry no values; of any other only the kind is told.
    """
    try:
        return function(*args)
    except PrivacyError as error:
        return Failure(error.with_traceback(None))
    except Exception as error:
        kind = type(error).__name__
    return Failure(
        PrivacyError(
            f"The records could not be read or their model not built ({kind}). Nothing more is said: the "
            "message may hold private values. Call the function that builds the model on that part, where "
            "the part is, to see it."
        )
    )


def value(answered: Any) -> Any:
    """Give an answer's value, or raise its failure.

    Raises
    ------
    PrivacyError
        The failure, without a cause.
    """
    if isinstance(answered, Failure):
        raise answered.error from None
    return answered
