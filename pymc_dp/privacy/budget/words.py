"""What every report says of a guarantee, in words."""

import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from pymc_dp.errors import WeakGuaranteeWarning
from pymc_dp.privacy.accounting.composition import Guarantee
from pymc_dp.rounding import round_up

#: Deltas at which epsilon is reported, besides that of the budget.
DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
#: Terms of a report, each with what it is.
type Rows = Iterator[tuple[str, str]]
# Sentences that all reports have.
ONE_CALL = (
    "Then the guarantee is of this call alone, and what is claimed of all together is their joint cost: the "
    "ledger's."
)
PUBLIC_ARRAYS = "Arrays that do not have one entry a record (group-level covariates, constants) are public."
FLOATING_POINT = (
    "Real-valued Gaussian noise is approximated by 64-bit floating-point draws of a ChaCha20 stream."
)


def wrap(key: str, value: str) -> list[str]:
    """Lines of one entry of a report."""
    return textwrap.wrap(f"{key + ': ':<20}{value}", width=110, subsequent_indent=" " * 20)


def weaknesses(epsilon: float, delta: float, n: int | None) -> list[str]:
    """Why a guarantee says little, in sentences; none if it does not, or if there is none.

    Parameters
    ----------
    epsilon, delta : float
    n : int or None
        Number of records; None where it is private.
    """
    if not math.isfinite(epsilon):
        return []
    said = []
    usual = 20.0  # above it, exp(epsilon) is more than 4e8: who has a doubt about a record can lose it
    if epsilon > usual:
        said.append(
            f"epsilon = {epsilon:g} is above {usual:g}: odds about one record may change "
            f"by a factor of exp({epsilon:g}), which is no protection in practice."
        )
    if n is not None and delta >= 1 / n:
        said.append(
            f"delta = {delta:g} is not below 1 / n = {1 / n:.3g}: a mechanism with this delta may publish a "
            f"whole record, chosen at random. Take delta well below it, as {0.01 / n:.1g}."
        )
    return said


def warn_weak(epsilon: float, delta: float, n: int | None) -> None:
    """Say why a guarantee says little, at the line of the user's that asked for it: see `weaknesses`."""
    package = str(Path(__file__).parents[2])
    for said in weaknesses(epsilon, delta, n):
        warnings.warn(said, WeakGuaranteeWarning, skip_file_prefixes=(package,))


def promise(epsilon: float, delta: float) -> str:
    """A guarantee by its name, with its numbers rounded up."""
    return f"({round_up(epsilon)}, {round_up(delta)})-differential privacy"


def no_promise(what: str, debug_seed: bool) -> str:
    """Why a result has no guarantee."""
    why = "a debug seed makes the noise reproducible" if debug_seed else "epsilon = inf, no noise for privacy"
    return f"NONE. THIS {what} IS NOT PRIVATE: {why}"


def of_budget(epsilon: float, delta: float, n: int | None) -> Rows:
    """The budget, and why it says little if it does."""
    yield "Budget", f"epsilon = {round_up(epsilon)}, delta = {round_up(delta)}"
    for said in weaknesses(epsilon, delta, n):
        yield "Weak", said


def of_curve(guarantee: Guarantee, delta: float) -> Rows:
    """Epsilon at several deltas, and who proves it."""
    deltas = sorted({*DELTAS, delta}, reverse=True)
    yield "epsilon at delta", "; ".join(f"{round_up(guarantee.epsilon(one))} at {one:g}" for one in deltas)
    yield "Accountant", guarantee.accountant


def of_owner(promised: str, unit: str, n: int | None, settings: str, ledger: bool) -> str:
    """What one of several data owners is guaranteed."""
    held = f"n = {n} (public)" if n else "n withheld"
    charged = "charged to" if ledger else "without"
    return (
        f"{promised} of its own {unit}s, {held}, against the coordinator, other owners and readers; "
        f"{settings}{charged} a ledger of its own"
    )


def whole(unit: str) -> str:
    """Whom a guarantee protects: a row, or a person, who may have several."""
    return "person (all rows with one id)" if unit == "person" else unit


def count_in_words(n: int | None, tables: Sequence[int]) -> str:
    """How many units there are, to be put behind what they are; nothing where that is private."""
    if not n:
        return ""
    listed = ", ".join(map(str, tables))
    apart = f", in {len(tables)} tables of {listed}: each length is taken as public" if tables else ""
    return f"; n = {n} (public){apart}"


def name_relation(relation: str, unit: str) -> str:
    """Which data sets are neighbours, in words."""
    if relation == "substitute":
        return f"substitute: data sets that differ in the values of one {unit}; their number n is public"
    return f"add/remove: data sets of which one has one {unit} more"
