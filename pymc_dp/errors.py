"""What can go wrong, by name. No message carries a value that was computed from private rows."""

import builtins


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


class NotPrivateWarning(UserWarning):
    """The result has no privacy guarantee (epsilon = inf, or a debug seed)."""


class WeakGuaranteeWarning(UserWarning):
    """The guarantee holds and says little: epsilon above 20, or delta of 1 / n and more."""


class ClippedRecordsError(PrivacyError):
    """Too little is known of what clips cut for a result to be of use; said from released quantities."""


class ContradictionError(PrivacyError):
    """Released numbers contradict each other: the result would not be the posterior."""


class ClippedRecordsWarning(UserWarning):
    """A good deal of what clips cut is unknown; said from released quantities alone."""


class SurrogateWarning(UserWarning):
    """The surrogate may not be what the posterior needs; said from released quantities alone."""


class NoisySummaryWarning(UserWarning):
    """What `Prepare` released of a column is mostly noise; said from released quantities alone."""
