"""Reading of a table's cells as numbers, levels or truth values: functions of one cell that never raise.

**Privacy.** A cell is read by itself: neither the content of another row nor the storage type of the column
(which one odd cell can change) has an effect, as far as a number, text or a bool can be recognised.
"""

import datetime
import decimal
import fractions
import math
import numbers
import re
from collections.abc import Callable

import numpy as np

#: Longest text, in characters, that is read as a level.
LONGEST_LEVEL = 200
# Words for yes.
_TRUE = {"true", "yes", "t", "y", "1"}
# Words for no.
_FALSE = {"false", "no", "f", "n", "0"}
# Words that readers of tables turn into truth values.
_BOOL_WORDS = {"true": True, "false": False}
# Texts for missing numbers that pandas' readers know.
_NO_NUMBER = {"-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "-NaN", "-nan", "NaN", "nan"}
#: Texts that pandas' readers take for missing cells in a column of numbers. One odd cell leaves them as text.
MISSING = {"", "#N/A", "#N/A N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "None", "n/a", "null", *_NO_NUMBER}
# Types of real numbers.
_NUMBERS = (numbers.Real, decimal.Decimal, fractions.Fraction)
# A time zone, as ISO 8601 writes it.
_ZONE = r"Z|[+-]\d\d(?::?\d\d){0,2}"
# A time of the day, with or without minutes, seconds, fractions and zone, as ISO 8601 writes it.
_CLOCK = rf"([01]\d|2[0-3])(?::([0-5]\d)(?::([0-5]\d)(?:\.(\d+))?)?)?({_ZONE})?"
# A day, with or without a time, as ISO 8601 writes it.
_DATE_TIME = re.compile(rf"(\d{{4,}}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))(?:[T ]{_CLOCK})?", re.ASCII)
# A duration of days, with or without a time, as pandas writes it.
_DURATION = re.compile(r"(-?\d+) days?(?: \+?(\d\d:\d\d:\d\d)(?:\.(\d+))?)?", re.ASCII)
# The time of a day without one.
_MIDNIGHT = "00:00:00"
#: Exceptions that an odd cell may raise when it is read; the cell then counts as missing, since an error
#: would reveal that it is there. An interruption and the cancellation of a task are not caught: they come
#: from the program, and a class that raises them in its cells is code.
ODD = (Exception, SystemExit)


def _plain(cell: object) -> object:
    """Undo what the storage type of a column does to a cell: text to numbers, bytes to text, complex to real.

    Another cell may have changed that type.
    """
    if cell is np.ma.masked:
        return None
    if isinstance(cell, np.ndarray) and cell.ndim == 0:
        cell = cell.item()
    if isinstance(cell, bytes):
        cell = cell.decode("utf-8")
    if isinstance(cell, str):
        # Subclasses become plain text; NumPy drops zero bytes at the end.
        return _read(str.__str__(cell).rstrip("\0"))
    if isinstance(cell, complex | np.complexfloating):
        return float(cell.real) if cell.imag == 0 else None
    return cell


def _read(text: str) -> object:
    """Return the truth value or number that a text stands for, whatever white space is around; or the text.

    A text that stands for a missing cell is None.

    Readers of CSV files, and NumPy, return numbers if all cells of a column are numbers, and text if one is
    not. Python's `float` reads all that they read, except for what docs/proofs/prepare lists.
    """
    if text in MISSING:
        return None
    word = text.strip().lower()
    if word in _BOOL_WORDS:
        return _BOOL_WORDS[word]
    try:
        return float(text)
    except ValueError:
        return text


def number(cell: object) -> float:
    """Read a number, or text that stands for one; NaN for a missing cell, or one that is no finite number."""
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
    """Return the name of a level, or None for a missing cell: 3, 3.0, "3", "3.0" and "03" are one level.

    So are true and 1, a day and its midnight, and a moment in any time zone, as an object or as text; it is
    named like the same moment of UTC without a zone. One odd cell may turn a column of one form into another,
    change how all dates of a column are written, or take their time zone away.
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
    """Return the name of a number. It is a float, since integers become floats if a cell is missing."""
    # Significant digits of a number's name as a level: those on which readers of numbers agree.
    digits = 15
    return str(int(value)) if value == math.floor(value) else f"{value:.{digits}g}"


def _moment(text: str) -> str:
    """Return the name of the day, moment (in UTC if it has a zone) or duration in a text; else the text."""
    if took := _DURATION.fullmatch(text):
        days, clock, fraction = took.groups()
        clock, fraction = clock or _MIDNIGHT, (fraction or "").rstrip("0")
        rest = f"{clock}.{fraction}" if fraction else clock
        return f"{days} days" if rest == _MIDNIGHT else f"{days} days {rest}"
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        return text
    day, hour, minute, second, fraction, zone = found.groups()
    clock = f"{hour or '00'}:{minute or '00'}:{second or '00'}"
    if zone:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}{zone}").astimezone(datetime.UTC)
        day, clock = moment.date().isoformat(), moment.time().isoformat()
    if fraction := (fraction or "").rstrip("0"):
        clock += f".{fraction}"
    return day if clock == _MIDNIGHT else f"{day}T{clock}"


def truth(cell: object) -> float:
    """Read a truth value as 1 or 0; NaN for a cell that is missing or neither."""
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
    """Return `number` of each cell, shape (n,)."""
    if column.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            values = column.astype(float)
            return np.where(np.isfinite(values), values, np.nan)
    return _each(number, column)


def truths_of(column: np.ndarray) -> np.ndarray:
    """Return `truth` of each cell, shape (n,)."""
    if column.dtype.kind in "fiub":
        values = numbers_of(column)
        return np.where((values == 0) | (values == 1), values, np.nan)
    return _each(truth, column)


def levels_of(column: np.ndarray) -> list[str | None]:
    """Return `level_text` of each cell."""
    return [level_text(cell) for cell in column.tolist()]


def _each(read: Callable[[object], float], column: np.ndarray) -> np.ndarray:
    return np.fromiter((read(cell) for cell in column.tolist()), float, len(column))
