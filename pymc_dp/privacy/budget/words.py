"""Descriptions of a guarantee in words, for all reports."""

import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from pymc_dp.errors import WeakGuaranteeWarning
from pymc_dp.privacy.accounting.composition import Guarantee
from pymc_dp.rounding import round_up

#: Values of delta at which epsilon is reported, in addition to that of the budget.
DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
#: Rows of a report: terms and their descriptions.
type Rows = Iterator[tuple[str, str]]
# Sentence of every report, after one on earlier releases of the same data.
ONE_CALL = (
    "Then the guarantee is of this call alone, and what is claimed of all together is their joint cost: the "
    "ledger's."
)
PUBLIC_ARRAYS = "Arrays that do not have one entry a record (group-level covariates, constants) are public."
FLOATING_POINT = (
    "Real-valued Gaussian noise is approximated by 64-bit floating-point draws of a ChaCha20 stream."
)


def wrap(key: str, value: str) -> list[str]:
    """Break one entry of a report into lines."""
    return textwrap.wrap(f"{key + ': ':<20}{value}", width=110, subsequent_indent=" " * 20)


def weaknesses(epsilon: float, delta: float, n: int | None) -> list[str]:
    """Return sentences on why a guarantee is weak; none if it is not weak, or if there is no guarantee.

    Parameters
    ----------
    epsilon, delta : float
    n : int or None
        Number of records; None where it is private.
    """
    if not math.isfinite(epsilon):
        return []
    said = []
    # Above it exp(epsilon), the factor by which odds about a record may change, is more than 4e8: whoever has
    # a doubt about a record can lose it.
    usual = 20.0
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
    """Warn about a weak guarantee (see `weaknesses`), at the line of the user's code that asked for it."""
    package = str(Path(__file__).parents[2])
    for said in weaknesses(epsilon, delta, n):
        warnings.warn(said, WeakGuaranteeWarning, skip_file_prefixes=(package,))


def promise(epsilon: float, delta: float) -> str:
    """Write a guarantee as (epsilon, delta)-differential privacy, with its numbers rounded up."""
    return f"({round_up(epsilon)}, {round_up(delta)})-differential privacy"


def no_promise(what: str, debug_seed: bool) -> str:
    """Write why a result has no guarantee."""
    why = "a debug seed makes the noise reproducible" if debug_seed else "epsilon = inf, no noise for privacy"
    return f"NONE. THIS {what} IS NOT PRIVATE: {why}"


def of_budget(epsilon: float, delta: float, n: int | None) -> Rows:
    """Yield the rows on the budget, and on why it is weak if it is."""
    yield "Budget", f"epsilon = {round_up(epsilon)}, delta = {round_up(delta)}"
    for said in weaknesses(epsilon, delta, n):
        yield "Weak", said


def of_curve(guarantee: Guarantee, delta: float) -> Rows:
    """Yield the rows on epsilon at several deltas, and on the accountant that proves it."""
    deltas = sorted({*DELTAS, delta}, reverse=True)
    yield "epsilon at delta", "; ".join(f"{round_up(guarantee.epsilon(one))} at {one:g}" for one in deltas)
    yield "Accountant", guarantee.accountant


def of_owner(promised: str, unit: str, n: int | None, settings: str, ledger: bool) -> str:
    """Write the guarantee of one of several data owners."""
    held = f"n = {n} (public)" if n else "n withheld"
    charged = "charged to" if ledger else "without"
    return (
        f"{promised} of its own {unit}s, {held}, against the coordinator, other owners and readers; "
        f"{settings}{charged} a ledger of its own"
    )


def whole(unit: str) -> str:
    """Write whom a guarantee protects: a row, or a person, who may have several rows."""
    return "person (all rows with one id)" if unit == "person" else unit


def name_relation(relation: str, unit: str) -> str:
    """Write which data sets are neighbours."""
    if relation == "substitute":
        return f"substitute: data sets that differ in the values of one {unit}; their number n is public"
    return f"add/remove: data sets of which one has one {unit} more"


def of_unit(unit: str, n: int | None, tables: Sequence[int], relation: str) -> Rows:
    """Yield the rows on whom a guarantee protects; the number of units is left out where it is private."""
    listed = ", ".join(map(str, tables))
    apart = f", in {len(tables)} tables of {listed}: each length is taken as public" if tables else ""
    yield "Protected unit", whole(unit) + (f"; n = {n} (public){apart}" if n else "")
    yield "Neighbouring data", name_relation(relation, unit)
