"""Kinds of columns, as the user declares them: public, before anything is read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pymc_dp.bounds import is_number
from pymc_dp.prepare.cells import level_text


@dataclass(frozen=True)
class Numeric:
    """A column of numbers, to be clipped, centred and scaled.

    Parameters
    ----------
    bounds : (float, float), optional
        Bounds that are known without the data: values outside are clipped to them. Default: they are found,
        at a third of the column's budget.
    indicator : bool
        Whether to add a column ``<name>_missing`` of 0 and 1.

    Raises
    ------
    ValueError
        Bounds are not two ordinary numbers in increasing order.
    """

    bounds: tuple[float, float] | None = None
    indicator: bool = False

    def __post_init__(self) -> None:
        if self.bounds is None:
            return
        given = self.bounds
        two = isinstance(given, list | tuple) and len(given) == 2 and all(map(is_number, given))
        if not (two and -1e100 <= given[0] < given[1] <= 1e100):
            raise ValueError(f"bounds must be two numbers, the smaller first, got {self.bounds!r}.")
        lower, upper = map(float, given)
        if not upper - lower > max(1e-9 * max(abs(lower), abs(upper)), 1e-100):
            raise ValueError("bounds are too close together for the numbers between them to be told apart.")
        object.__setattr__(self, "bounds", (lower, upper))


@dataclass(frozen=True)
class Category:
    """A column of levels, to be numbered.

    Parameters
    ----------
    levels : sequence, optional
        Levels that are known without the data. Default: those with enough records are found.
    at_least : float
        Least noisy count of a level of its own; if levels are not given, a threshold that follows from the
        budget applies as well.

    Raises
    ------
    ValueError
        `levels` are not all different as text, or there are none.
    """

    levels: tuple[str, ...] | None = None
    at_least: float = 0.0

    def __post_init__(self) -> None:
        if not (is_number(self.at_least) and 0 <= self.at_least < math.inf):
            raise ValueError(f"at_least must be a number of at least 0, got {self.at_least!r}.")
        if self.levels is None:
            return
        if isinstance(self.levels, str | bytes):
            raise ValueError("levels is a list of levels, not a text.")
        texts = [level_text(level) for level in self.levels]
        if not texts or None in texts or len(set(texts)) < len(texts):
            raise ValueError(
                "levels must be different from each other as text, at least one, none missing (as 'NA' and "
                "'None' are, which readers of tables take for missing cells)."
            )
        object.__setattr__(self, "levels", tuple(texts))


@dataclass(frozen=True)
class Boolean:
    """A column of yes and no: bools, 1 and 0, or the words true, false, yes, no, t, f, y, n."""


Kind = Numeric | Category | Boolean
#: Names that stand for the classes.
NAMES: dict[str, type] = {"numeric": Numeric, "category": Category, "boolean": Boolean}


def kinds_of(columns: Mapping[str, "str | Kind"]) -> dict[str, Kind]:
    """Read all declarations, in their order.

    Raises
    ------
    TypeError
        They are no mapping of names, or a kind is neither one of the three classes nor the name of one.
    """
    if not isinstance(columns, Mapping) or not columns:
        raise TypeError("columns= takes a mapping of column names to kinds, as {'age': 'numeric'}.")
    kinds: dict[str, Kind] = {}
    for name, declared in columns.items():
        if not isinstance(name, str):
            raise TypeError(f"Column names are text, got {name!r}.")
        kind = NAMES[declared]() if isinstance(declared, str) and declared in NAMES else declared
        if not isinstance(kind, Kind):
            raise TypeError(
                f"Column {name!r} is declared as {declared!r}: give 'numeric', 'category' or 'boolean', or "
                "dp.Numeric(...), dp.Category(...), dp.Boolean()."
            )
        kinds[name] = kind
    return kinds
