"""What may come back from where private rows are: an answer, or a failure that shows no values.

From a part of one data set (`Shard`), an error of this package may come back with its text: who asks is
trusted with the data. From a data owner a code may come back, of `REFUSALS`, and nothing else.
"""

import math
from collections.abc import Callable, Iterable

from pymc_dp.errors import BudgetError, ModelRefusedError, PrivacyError, kind


class UnavailableError(PrivacyError):
    """Records that were there cannot be had any more; the run stops, and what it reserved stays spent."""


def answer[T](function: Callable[..., T], *args: object) -> T | PrivacyError:
    """Call a function of private rows; return its value or a `PrivacyError`, and raise nothing.

    An exception would be sent and logged by whatever carries the answer, with its message. Errors of this
    package carry no values; of any other only the kind is told.
    """
    try:
        return function(*args)
    except KeyboardInterrupt:  # the user's, where the rows are in this process
        raise
    except PrivacyError as error:
        error.__cause__ = error.__context__ = None
        return error.with_traceback(None)
    except BaseException as error:
        what = kind(error)
    return PrivacyError(
        f"The records could not be read or their model not built ({what}). Nothing more is said: the "
        "message may hold private values. Call the function that builds the model on that part, where "
        "the part is, to see it."
    )


def call_for_user[T](function: Callable[..., T], *args: object) -> T:
    """Call a user's function of a part, whose errors are never taken for errors of this package.

    Raises
    ------
    RuntimeError
        It raised a `PrivacyError`: of its text, nothing is known.
    """
    try:
        return function(*args)
    except PrivacyError as error:
        raise RuntimeError("an error of the package, raised by a user's function") from error


def value[T](answered: T | PrivacyError) -> T:
    """Give an answer's value, or raise it, where it is a failure.

    Raises
    ------
    PrivacyError
        The failure, without a cause.
    """
    if isinstance(answered, PrivacyError):
        raise answered from None
    return answered


def read_answers[A, T](read: Callable[[A], T], answers: Iterable[A]) -> list[T]:
    """Read what owners said, which may be anything.

    Raises
    ------
    PrivacyError
        One is not what was asked for.
    """
    try:
        return [read(one) for one in answers]
    except (TypeError, ValueError, KeyError, OverflowError):
        pass
    raise PrivacyError("An owner gave an answer that is none: is its version another?")


def finite(said: object) -> float:
    """A finite number.

    Raises
    ------
    TypeError, ValueError
        It is none.
    """
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise TypeError("no number")
    if not math.isfinite(said):
        raise ValueError("not finite")
    return float(said)


#: All that a data owner says instead of an answer: its code, and what the code means to who asked.
REFUSALS: dict[str, tuple[type[PrivacyError], tuple[str, ...]]] = {
    "records": (
        ModelRefusedError,
        (
            "Its records could not be read, or their model was refused.",
            "the reason may be about single records, and stays where they are.",
            "have the owner call build(part) and make a step of its model, where the part is. With "
            "dp.Owner(log=path) the reason is written to a file there.",
        ),
    ),
    "agreement": (
        ModelRefusedError,
        (
            "Its model has other free variables, Deterministics or another prior than the step's model.",
            "the parts are one data set only if they share all parameters, and a prior that differs from "
            "owner to owner was computed from rows, which would leak.",
            "make both by the same function, with constants and shapes chosen without the data.",
        ),
    ),
    "ledger": (PrivacyError, ("Its ledger is missing or cannot be used.",)),
    "relation": (BudgetError, ("Its ledger is for another neighbouring relation.",)),
    "unit": (BudgetError, ("Its ledger is for another privacy unit.",)),
    "budget": (BudgetError, ("This call does not fit what its ledger has left.",)),
    "call": (BudgetError, ("Its budget is for one call, and another one was asked for.",)),
    "iteration": (BudgetError, ("Its budget does not cover another iteration.",)),
    "question": (PrivacyError, ("It was asked a question that data owners do not answer.",)),
    "log": (PrivacyError, ("Its log (dp.Owner(log=...)) cannot be written.",)),
    "failed": (PrivacyError, ("It could not answer. Nothing more is said.",)),
}


class Refusal(Exception):  # noqa: N818 - what it is, not what went wrong
    """A data owner does not answer.

    Attributes
    ----------
    code : str
        In `REFUSALS`.
    """

    def __init__(self, code: str):
        super().__init__(code)
        self.code = code


def refused(name: str, code: object) -> PrivacyError:
    """Error to raise for an owner's code; a code that is not in the list is not shown."""
    error, texts = REFUSALS[code if isinstance(code, str) and code in REFUSALS else "failed"]
    what, *rest = texts
    return error(f"Owner {name!r}: {what}", *rest)
