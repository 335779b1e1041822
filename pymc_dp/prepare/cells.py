"""What a cell of a table says, whatever is in it: functions of one cell, that raise nothing.

**Privacy.** A cell is read by itself: what another row holds changes nothing, and the storage type of its
column (which one odd cell can change) neither, as far as a number, text or a bool can be told.
"""

import datetime
import decimal
import fractions
import math
import numbers
import re
from collections.abc import Callable

import numpy as np

#: Longer texts are no levels.
LONGEST_LEVEL = 200
_TRUE, _FALSE = {"true", "yes", "t", "y", "1"}, {"false", "no", "f", "n", "0"}
# Of whole numbers, and of floats: large and small ones have an exponent, some are not finite.
_PRINTED = re.compile(
    r"-?(0|[1-9][0-9]*)(\.(0|[0-9]*[1-9]))?|-?[1-9](\.[0-9]*[1-9])?e[+-][0-9]{2,3}|nan|-?inf"
).fullmatch
_NUMBERS = (numbers.Real, decimal.Decimal, fractions.Fraction)


def _plain(cell: object) -> object:
    """A cell as it was before another one made its column wider: text of bytes, reals of complex numbers."""
    if isinstance(cell, str):
        return str.__str__(cell)  # of a subclass, a plain one
    if isinstance(cell, bytes):
        return cell.decode("utf-8")
    if isinstance(cell, complex | np.complexfloating):
        return float(cell.real) if cell.imag == 0 else None
    return cell


def number(cell: object) -> float:
    """A finite number, or NaN for what is missing or is none: numbers, and text that reads as one."""
    try:
        cell = _plain(cell)
        if isinstance(cell, bool | np.bool_):
            return float(cell)
        if not isinstance(cell, (*_NUMBERS, str)):
            return math.nan
        value = float({"True": 1.0, "False": 0.0}.get(cell, cell) if isinstance(cell, str) else cell)
    except Exception:  # an odd cell is a missing one: an error would say that it is there
        return math.nan
    return value if math.isfinite(value) else math.nan


def level_text(cell: object) -> str | None:
    """Name of a level, or None for what is missing: 3, 3.0, "3" and "3.0" are one level."""
    try:
        cell = _plain(cell)
        # What Python writes for a number is that number: so NumPy stores it beside a text.
        if isinstance(cell, str) and not _PRINTED(cell):
            text = cell
        elif isinstance(cell, bool | np.bool_):
            text = str(bool(cell))
        elif isinstance(cell, (*_NUMBERS, str)):
            value = float(cell)
            if not math.isfinite(value):
                return None
            text = _name(value)
        elif isinstance(cell, datetime.date | datetime.time):
            text = cell.isoformat()
        else:
            return None
    except Exception:
        return None
    return text if 0 < len(text) <= LONGEST_LEVEL and text != "NaT" else None


def _name(value: float) -> str:
    """Of a number; by way of a float: whole numbers become floats in a column where one is missing."""
    return str(int(value)) if value == math.floor(value) else repr(value)


def truth(cell: object) -> float:
    """1 or 0, or NaN for what is missing or is neither."""
    try:
        cell = _plain(cell)
        word = cell.strip().lower() if isinstance(cell, str) and len(cell) <= LONGEST_LEVEL else ""
    except Exception:
        return math.nan
    if word in _TRUE or word in _FALSE:
        return float(word in _TRUE)
    value = number(cell)
    return value if value in (0.0, 1.0) else math.nan


def numbers_of(column: np.ndarray) -> np.ndarray:
    """`number` of each cell, shape (n,)."""
    if column.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            values = column.astype(float)
            return np.where(np.isfinite(values), values, np.nan)
    return _each(number, column)


def truths_of(column: np.ndarray) -> np.ndarray:
    """`truth` of each cell, shape (n,)."""
    if column.dtype.kind in "fiub":
        values = numbers_of(column)
        return np.where((values == 0) | (values == 1), values, np.nan)
    return _each(truth, column)


def levels_of(column: np.ndarray) -> list[str | None]:
    """`level_text` of each cell."""
    return [level_text(cell) for cell in column.tolist()]


def _each(read: Callable[[object], float], column: np.ndarray) -> np.ndarray:
    return np.fromiter((read(cell) for cell in column.tolist()), float, len(column))
