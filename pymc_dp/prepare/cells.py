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
_BOOL = {"true": True, "false": False}
# Digits by which readers of numbers agree.
_DIGITS = 15
_NUMBERS = (numbers.Real, decimal.Decimal, fractions.Fraction)
_ZONE = r"Z|[+-]\d\d(?::?\d\d){0,2}"
_CLOCK = rf"([01]\d|2[0-3])(?::([0-5]\d)(?::([0-5]\d)(?:\.(\d+))?)?)?({_ZONE})?"
# A day, and perhaps a time of it, as ISO 8601 writes them.
_MOMENT = re.compile(rf"(\d{{4,}}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))(?:[T ]{_CLOCK})?", re.ASCII)
# Days and perhaps a time beside them, as pandas writes how long something took.
_DURATION = re.compile(r"(-?\d+) days?(?: \+?(\d\d:\d\d:\d\d)(?:\.(\d+))?)?", re.ASCII)
_MIDNIGHT = "00:00:00"
#: What an odd cell may raise. It counts as missing: an error would say that it is there. An interruption and
#: the end of a task go through: they are the program's, and a class that raises them in its cells is code.
ODD = (Exception, SystemExit)


def _plain(cell: object) -> object:
    """A cell as it was before another one made its column wider: numbers of text, text of bytes, reals."""
    if cell is np.ma.masked:
        return None
    if isinstance(cell, np.ndarray) and cell.ndim == 0:
        cell = cell.item()
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8")
    if isinstance(cell, str):
        # Of a subclass, a plain one; NumPy leaves zeros at the end out.
        return _read(str.__str__(cell).rstrip("\0"))
    if isinstance(cell, complex | np.complexfloating):
        return float(cell.real) if cell.imag == 0 else None
    return cell


def _read(text: str) -> object:
    """The truth value or number that a text stands for, whatever white space is around it; else the text.

    Readers of CSV files, and NumPy, return numbers where all cells of a column are numbers, and text where
    one is not. Python's `float` reads all that they read, but for what docs/proofs/prepare lists.
    """
    word = text.strip().lower()
    if word in _BOOL:
        return _BOOL[word]
    try:
        return float(text)
    except ValueError:
        return text


def number(cell: object) -> float:
    """A finite number, or NaN for what is missing or is none: numbers, and text that reads as one."""
    try:
        cell = _plain(cell)
        if isinstance(cell, bool | np.bool_):
            return float(cell)
        if not isinstance(cell, _NUMBERS):
            return math.nan
        value = float(cell)
    except ODD:
        return math.nan
    return value if math.isfinite(value) else math.nan


def level_text(cell: object) -> str | None:
    """Name of a level, or None for what is missing: 3, 3.0, "3", "3.0" and "03" are one level.

    So are true and 1, a day and its midnight, and a moment in any time zone, as an object or as text: one odd
    cell makes a column of the one of the other, or changes how all of a column's dates are written.
    """
    try:
        cell = _plain(cell)
        if isinstance(cell, str):
            text = _moment(cell)
        elif isinstance(cell, (*_NUMBERS, np.bool_)):
            value = float(cell)
            if not math.isfinite(value):
                return None
            text = _name(value)
        elif isinstance(cell, datetime.date | datetime.time):
            text = _moment(cell.isoformat())
        else:
            return None
        return text if type(text) is str and 0 < len(text) <= LONGEST_LEVEL and text != "NaT" else None
    except ODD:
        return None


def _name(value: float) -> str:
    """Of a number; by way of a float: whole numbers become floats in a column where one is missing."""
    return str(int(value)) if value == math.floor(value) else f"{value:.{_DIGITS}g}"


def _moment(text: str) -> str:
    """Name of the day, moment (in UTC if it has a zone) or duration that a text stands for; else the text."""
    if took := _DURATION.fullmatch(text):
        days, clock, fraction = took.groups()
        clock, fraction = clock or _MIDNIGHT, (fraction or "").rstrip("0")
        rest = f"{clock}.{fraction}" if fraction else clock
        return f"{days} days" if rest == _MIDNIGHT else f"{days} days {rest}"
    found = _MOMENT.fullmatch(text)
    if found is None:
        return text
    day, hour, minute, second, fraction, zone = found.groups()
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}"
    if zone:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(datetime.UTC)
        day, clock = moment.date().isoformat(), moment.time().isoformat()
    if fraction := (fraction or "").rstrip("0"):
        clock += f".{fraction}"
    if zone:
        return f"{day}T{clock}+00:00"
    return day if clock == _MIDNIGHT else f"{day}T{clock}"


def truth(cell: object) -> float:
    """1 or 0, or NaN for what is missing or is neither."""
    try:
        cell = _plain(cell)
        word = cell.strip().lower() if isinstance(cell, str) and len(cell) <= LONGEST_LEVEL else ""
    except ODD:
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
