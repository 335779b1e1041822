"""Errors and warnings of the package. No message contains a value that was computed from private rows."""

import builtins
import os
import traceback
import warnings
from pathlib import Path
from typing import Any

from pymc_dp.rounding import round_down, round_up

__all__ = [
    "BudgetError",
    "LedgerError",
    "ModelRefusedError",
    "NoisySummaryWarning",
    "NotPrivateWarning",
    "NotSampledError",
    "PrivacyBudgetExceeded",
    "PrivacyError",
    "TooFewRecordsError",
    "WeakGuaranteeWarning",
    "log_failures",
]


class PrivacyError(Exception):
    """Base class: a call was refused, or stopped, because its privacy guarantee would not hold."""


class ModelRefusedError(PrivacyError):
    """The model cannot be sampled privately; raised before any draw is made.

    Parameters
    ----------
    what : str
        The problem, with the name of the variable.
    why : str
        Why the model would leak, or make the stated guarantee wrong.
    fix : str
        How to change the model or the call.
    """

    def __init__(self, what: str, why: str, fix: str):
        super().__init__(f"{what}\n  Why this is refused: {why}\n  How to fix it: {fix}")
        self.what, self.why, self.fix = what, why, fix

    def __reduce__(self):
        return type(self), (self.what, self.why, self.fix)


class BudgetError(PrivacyError):
    """A chain, an iteration or a call would exceed the declared (epsilon, delta)."""


class LedgerError(PrivacyError):
    """The ledger file is missing, damaged, no ledger, of another format or budget: nothing may run."""


class PrivacyBudgetExceeded(BudgetError):  # noqa: N818 - the field's name for it
    """A request does not fit a ledger's remaining budget; nothing was recorded and nothing may run.

    Attributes
    ----------
    spent : float
        Epsilon, at the ledger's delta, of everything recorded.
    requested : float
        Epsilon of the request by itself.
    remaining : float
        Largest epsilon of a run by itself (Gaussian accounting) that would still be accepted.
    epsilon, delta : float
        The ledger's budget.
    hint : str
        Advice on a call that would fit, in terms of the caller's arguments; may be empty.
    """

    def __init__(
        self, spent: float, requested: float, remaining: float, epsilon: float, delta: float, hint: str = ""
    ):
        self.spent, self.requested, self.remaining = spent, requested, remaining
        self.epsilon, self.delta, self.hint = epsilon, delta, hint
        fit = (
            f"What still fits: a run of at most epsilon = {round_down(remaining)} by itself. "
            "Take fewer iterations, more noise, or a smaller epsilon for this run."
            if remaining > 0
            else "Nothing fits any more."
        )
        super().__init__(
            f"This request does not fit the ledger's budget of epsilon = {epsilon:g} at delta = {delta:g}: "
            f"spent {round_up(spent)}, requested {round_up(requested)}, remaining {round_down(remaining)} "
            f"(each by itself; costs are composed, not added). {fit}{' ' if hint else ''}{hint}"
        )

    def __reduce__(self):
        return type(self), (self.spent, self.requested, self.remaining, self.epsilon, self.delta, self.hint)

    def with_hint(self, hint: str) -> "PrivacyBudgetExceeded":
        """Return the same error with advice on the caller's arguments: "At most draws=350 would fit."."""
        return type(self)(self.spent, self.requested, self.remaining, self.epsilon, self.delta, hint)


class TooFewRecordsError(PrivacyError):
    """The budget is too small for so few records; decided from released quantities alone."""


def kind(error: BaseException) -> str:
    """Return the name of an error's class, for messages without values.

    Parameters
    ----------
    error : BaseException
        Raised while private rows were read, by code that is not part of this package.

    Returns
    -------
    str
        The name of a built-in class. Other classes are not named: one that was made while rows were read can
        have a value in its name.
    """
    name = type(error).__name__
    return name if getattr(builtins, name, None) is type(error) else "an error of another class"


# Environment variable with the path of the data holder's file of failures; child processes inherit it.
_FAILURES = "PYMC_DP_FAILURES"


def log_failures(path: str | os.PathLike[str] | None) -> None:
    """Log errors on private rows, with messages and tracebacks, to a file for the data holder alone.

    The errors that this package raises state only that the model failed, and the class of the original error,
    because its message may contain values of records.

    Parameters
    ----------
    path : str, Path or None
        File to which errors are appended, readable by its owner only. None, the default at the start: nothing
        is written.

    Notes
    -----
    **Privacy.** The file contains values of records: it is private, like the table. Nothing of it is in a
    result, a report or an error. That something failed is not hidden: it ends the call.
    """
    if path is None:
        os.environ.pop(_FAILURES, None)
        return
    target = Path(path).absolute()
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    target.chmod(0o600)
    os.environ[_FAILURES] = str(target)


def kept(error: BaseException) -> str:
    """Write an error to the data holder's file, if there is one; return a sentence on where to look."""
    path = os.environ.get(_FAILURES)
    if path is None:
        return "To see details, the data holder calls dp.log_failures(path). Keep that file private."
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(handle, "a", errors="replace") as file:
            file.write("".join(traceback.format_exception(error)) + "\n")
    except OSError:
        return f"The data holder's file {path!r} could not be written."
    return f"Details are in {path!r}. Keep that file private."


class NotPrivateWarning(UserWarning):
    """The result has no privacy guarantee (epsilon = inf, or a debug seed)."""


def warn_not_private(stacklevel: int) -> None:
    """Warn that the result has no guarantee; `stacklevel` as in `warnings.warn`, from the caller."""
    said = "This result is NOT PRIVATE: epsilon is inf, or a debug seed was used."
    warnings.warn(said, NotPrivateWarning, stacklevel=stacklevel + 1)


class WeakGuaranteeWarning(UserWarning):
    """The guarantee holds, but is weak: epsilon is above 20, or delta is 1 / n or more."""


_SAMPLE_AGAIN = (
    "Sample it again, at no cost, with more tuning or another sampler: "
    "pm.sample(tune=5000, target_accept=0.999, model=error.likelihood.model())."
)


class NotSampledError(PrivacyError):
    """Sampling of a released likelihood failed: sample it again, at no cost.

    Parameters
    ----------
    why : str
        What happened, from released numbers alone.
    likelihood : Likelihood
        The likelihood that was released and paid for.
    mend : str
        How to sample it again.
    """

    def __init__(self, why: str, likelihood: Any, mend: str = _SAMPLE_AGAIN):
        self.likelihood = likelihood
        super().__init__(
            f"{why}\n"
            "  Nothing is lost: the likelihood was released, and this error has it as its attribute "
            f"`likelihood`. {mend}"
        )


class NoisySummaryWarning(UserWarning):
    """What `Prepare` released of a column is mostly noise; decided from released quantities alone."""
