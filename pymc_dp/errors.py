"""What can go wrong, by name. No message carries a value that was computed from private rows."""

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
        What was found, with the name of the variable.
    why : str
        Why it would leak or make the stated guarantee wrong.
    fix : str
        What to do about it.
    """

    def __init__(self, what: str, why: str, fix: str):
        super().__init__(f"{what}\n  Why this is refused: {why}\n  How to fix it: {fix}")
        self.what, self.why, self.fix = what, why, fix

    def __reduce__(self):
        return type(self), (self.what, self.why, self.fix)


class BudgetError(PrivacyError):
    """A chain, an iteration or a call would go beyond the (epsilon, delta) that was declared."""


class LedgerError(PrivacyError):
    """The ledger file is missing, damaged, foreign, newer, or for another budget: nothing may run."""


class PrivacyBudgetExceeded(BudgetError):  # noqa: N818 - the field's name for it
    """A request does not fit what is left of a ledger's budget; nothing was recorded and nothing may run.

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
        How to fit, in the caller's terms; may be empty.
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
        """The same error with advice in the caller's terms, as "At most draws=350 would fit."."""
        return type(self)(self.spent, self.requested, self.remaining, self.epsilon, self.delta, hint)


class TooFewRecordsError(PrivacyError):
    """The budget is too small for so few records; said from released quantities alone."""


def kind(error: BaseException) -> str:
    """Name of an error's class, for messages without values.

    Parameters
    ----------
    error : BaseException
        Raised while private rows were at hand, by code that is not ours.

    Returns
    -------
    str
        Of a built-in class. Others are not named: a class that was made while rows were read can carry a
        value in its name.
    """
    name = type(error).__name__
    return name if getattr(builtins, name, None) is type(error) else "an error of another class"


# Where the data holder wants to read why code failed on private rows; processes that are started have it too.
_FAILURES = "PYMC_DP_FAILURES"


def log_failures(path: str | os.PathLike[str] | None) -> None:
    """Write down, for the data holder alone, why a model fails on private rows: what was raised, and where.

    Errors of this package say that it failed, and of which kind the error was; a message may hold values.

    Parameters
    ----------
    path : str, Path or None
        File that is appended to, readable by its owner only. None: nothing is written, as at the start.

    Notes
    -----
    **Privacy.** The file holds values of records: it is private, like the table. Nothing of it is in a
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
    """Write an error to the data holder's file, if there is one; where to look, in words without values."""
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
    """Tell whoever called so many functions up that the result has no guarantee."""
    said = "This result is NOT PRIVATE: epsilon is inf, or a debug seed was used."
    warnings.warn(said, NotPrivateWarning, stacklevel=stacklevel + 1)


class WeakGuaranteeWarning(UserWarning):
    """The guarantee holds and says little: epsilon above 20, or delta of 1 / n and more."""


_SAMPLE_AGAIN = (
    "Sample it again, at no cost, with more tuning or another sampler: "
    "pm.sample(tune=5000, target_accept=0.999, model=error.likelihood.model())."
)


class NotSampledError(PrivacyError):
    """A released likelihood was not sampled: sample it again, at no cost.

    Parameters
    ----------
    why : str
        What happened: of released numbers alone.
    likelihood : Likelihood
        What was released and paid for.
    mend : str
        What to do with it.
    """

    def __init__(self, why: str, likelihood: Any, mend: str = _SAMPLE_AGAIN):
        self.likelihood = likelihood
        super().__init__(
            f"{why}\n"
            "  Nothing is lost: the likelihood was released, and this error has it as its attribute "
            f"`likelihood`. {mend}"
        )


class NoisySummaryWarning(UserWarning):
    """What `Prepare` released of a column is mostly noise; said from released quantities alone."""
