"""What every report says of a guarantee, in words."""

import textwrap
from collections.abc import Sequence

# At which epsilon is reported, besides that of the budget.
DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
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
