"""What the holder of private rows may send back: an answer, or a failure that reveals no values.

A part of one data set (`Shard`) may send back an error of this package with its text, since the caller is
trusted with the data. A data owner may send back a code of `REFUSALS`, and nothing else.
"""

import math
from collections.abc import Callable, Iterable

from pymc_dp.errors import BudgetError, ModelRefusedError, PrivacyError, kind


class UnavailableError(PrivacyError):
    """Records cannot be reached any more; the run stops, and the budget that it reserved stays spent."""


def answer[T](function: Callable[..., T], *args: object) -> T | PrivacyError:
    """Call a function of private rows; return its value or a `PrivacyError`, and raise nothing.

    An exception would be sent and logged, with its message, by whatever transports the answer. Errors of this
    package have no private values in their text; of other errors only the kind is returned.
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
    """Call a user's function of a part, and make sure that its errors do not count as errors of this package.

    Raises
    ------
    RuntimeError
        The function raised a `PrivacyError`, whose text may hold anything.
    """
    try:
        return function(*args)
    except PrivacyError as error:
        raise RuntimeError("an error of the package, raised by a user's function") from error


def value[T](answered: T | PrivacyError) -> T:
    """Return an answer's value, or raise the answer if it is a failure.

    Raises
    ------
    PrivacyError
        The failure, without a cause.
    """
    if isinstance(answered, PrivacyError):
        raise answered from None
    return answered


def read_answers[A, T](read: Callable[[A], T], answers: Iterable[A]) -> list[T]:
    """Read the answers of owners, which may be anything.

    Raises
    ------
    PrivacyError
        An answer does not have the expected form.
    """
    try:
        return [read(one) for one in answers]
    except (TypeError, ValueError, KeyError, OverflowError):
        pass
    raise PrivacyError("An owner gave an answer that is none: is its version another?")


def finite(said: object) -> float:
    """Return a finite number of an answer as a float.

    Raises
    ------
    TypeError, ValueError
        It is no finite number.
    """
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise TypeError("no number")
    if not math.isfinite(said):
        raise ValueError("not finite")
    return float(said)


#: All that a data owner may send instead of an answer: the code, and the error that the caller raises for it.
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
    "terms": (PrivacyError, ("Its records were read for another relation or unit than its terms.",)),
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
    """A data owner refuses to answer.

    Attributes
    ----------
    code : str
        A key of `REFUSALS`.
    """

    def __init__(self, code: str):
        super().__init__(code)
        self.code = code


def refused(name: str, code: object) -> PrivacyError:
    """Build the error for an owner's code; a code that is not in the list is not shown."""
    error, texts = REFUSALS[code if isinstance(code, str) and code in REFUSALS else "failed"]
    what, *rest = texts
    return error(f"Owner {name!r}: {what}", *rest)
