"""Privacy units: which unit each row belongs to. No row of a person may count as another person's."""

import math
import uuid
from collections.abc import Hashable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.sums import guarded

# Types that are compared and hashed by value, and whose values all equal themselves.
_COMPARED_BY_VALUE = (bool, int, str, bytes, date, time, timedelta, uuid.UUID, pd.Timedelta, pd.Period)
# NumPy's scalar types, and the Python types that they are compared as.
_NUMPY = {np.bool_: bool, np.str_: str, np.bytes_: bytes, np.float64: float}
# Types of missing values.
_MISSING = (type(None), type(pd.NA), type(pd.NaT), type(np.ma.masked))
# NaN in an array of text or bytes.
_NANS = "nan", b"nan"
# From this number on a type of floats does not have all integers: two persons could have one id.
_ALL_INTEGERS_BELOW = {float: 2.0**53, np.float32: 2.0**24, np.float16: 2.0**11}
_ONE_KIND = (
    "give the ids of all rows one type, as text or whole numbers: 1, 1.0 and '1' may be one person's, and "
    "would be taken for several."
)


class Ids(NamedTuple):
    """Ids of rows, as they are compared.

    Attributes
    ----------
    kind : object
        Common type of all ids; only ids of one kind can be compared.
    keys : list of hashable
        One a row; equal for the rows of a unit.
    """

    kind: object
    keys: list[Hashable]


class _Unfit(NamedTuple):
    """Reason why ids are refused; it reveals nothing of their values."""

    reason: str


def unit_of(privacy_unit: object) -> tuple[str, object]:
    """Return the name of the privacy unit of a call, and its ids.

    Parameters
    ----------
    privacy_unit : array_like, callable, str, mapping or None
        Ids; or ``{name: ids}``, to distinguish patients from households; or the name of the model's data with
        the ids, which is then the unit's name as well.

    Returns
    -------
    name : str
        "row" without ids, "id" for ids without a name.
    ids : array_like, callable, str or None

    Raises
    ------
    ValueError
        A mapping does not have exactly one name (other than "row") with ids.
    """
    if privacy_unit is None:
        return "row", None
    if isinstance(privacy_unit, str):
        privacy_unit = {privacy_unit: privacy_unit}
    if not isinstance(privacy_unit, Mapping):
        return "id", privacy_unit
    pairs = list(privacy_unit.items())
    if len(pairs) != 1 or not isinstance(pairs[0][0], str) or pairs[0][0] == "row" or pairs[0][1] is None:
        raise ValueError("privacy_unit as a mapping has one name with its ids, as {'patient': ids}.")
    return pairs[0]


def ids_in(model: pm.Model, privacy_unit: object) -> tuple[str | None, object]:
    """Find ids that are a model's data.

    Parameters
    ----------
    model : pymc.Model
    privacy_unit : array_like, str, mapping or None

    Returns
    -------
    name : str or None
        Name of the `pymc.Data`, if the ids are given by name.
    ids : array_like or None

    Raises
    ------
    ValueError
        The model has no data of that name.
    """
    _, ids = unit_of(privacy_unit)
    if not isinstance(ids, str):
        return None, ids
    data = {one.name: one for one in model.data_vars}
    if ids not in data:
        raise ValueError(f"privacy_unit names {ids!r}; the model's pm.Data are {sorted(data)}.")
    return ids, data[ids].get_value(borrow=True)


def units(privacy_unit: object, n_rows: int) -> tuple[np.ndarray | None, int]:
    """Number the units.

    Parameters
    ----------
    privacy_unit : array_like, shape (n_rows,), mapping, or None
        See `ids_of` and `unit_of`. None: each row is a unit.
    n_rows : int

    Returns
    -------
    codes : ndarray of int64, shape (n_rows,), or None
        Number of the unit of each row; units are numbered in the order of their first rows.
    n : int
        Number of units.

    Raises
    ------
    ValueError
        As `ids_of`.
    ModelRefusedError
        All rows are of one unit.
    """
    _, given = unit_of(privacy_unit)
    if given is None:
        return None, n_rows
    ids = ids_of(given, n_rows)
    seen: dict[Hashable, int] = {}
    codes = np.fromiter((seen.setdefault(key, len(seen)) for key in ids.keys), np.int64, n_rows)
    if len(seen) < 2:
        raise ModelRefusedError(
            "privacy_unit puts all rows into one unit.",
            "nothing about a single unit can be released privately and be of use.",
            "privacy_unit is an id for each row, equal for the rows of one person.",
        )
    return codes, len(seen)


def ids_of(privacy_unit: object, n_rows: int) -> Ids:
    """Check ids, one a row.

    Parameters
    ----------
    privacy_unit : array_like, shape (n_rows,)
        A list, tuple or array of NumPy, pandas or Arrow, in the order of the rows (an index is not looked
        at): text, bytes, whole numbers, floats below 2**53, finite decimals, bools, dates, times, durations,
        UUIDs, or tuples of these; all of one type. Ids are equal as Python's values are: 0.0 and -0.0 are one
        person, "a" and "a " are two.
    n_rows : int

    Returns
    -------
    Ids

    Raises
    ------
    ValueError
        There is another number of ids than of rows, one is missing (None, NaN, NaT, masked), or they are of
        several types, or of one whose equality is not known. The message reveals nothing of their values.
    PrivacyError
        The ids could not be read.
    """
    found = guarded(_read, privacy_unit, n_rows, what="The ids in privacy_unit could not be read")
    if isinstance(found, _Unfit):
        raise ValueError(f"privacy_unit {found.reason}")
    return found


def _read(given: object, n_rows: int) -> Ids | _Unfit:
    listed = _listed(given)
    if isinstance(listed, _Unfit):
        return listed
    if len(listed.keys) != n_rows:
        return _Unfit("must have one id for each row, shape (n_rows,): it has another length.")
    if listed.kind is not None:
        return listed
    kinds = {_kind(key) for key in listed.keys}
    unfit = [kind for kind in kinds if isinstance(kind, _Unfit)]
    if unfit:
        return min(unfit)
    if len(kinds) > 1:
        return _Unfit(f"has ids of several types. How to fix it: {_ONE_KIND}")
    return Ids(kinds.pop(), listed.keys)


def _listed(given: object) -> Ids | _Unfit:
    """Convert ids to a list; `kind` is None where it has to be determined for each id."""
    if isinstance(given, np.ma.MaskedArray):
        if np.any(np.ma.getmaskarray(given).reshape(-1).view(bool)):
            return _MISSING_ID
        given = np.ma.getdata(given)
    if isinstance(given, list | tuple | range):
        return Ids(None, list(given))
    if isinstance(given, np.ndarray) or not (hasattr(given, "to_list") or hasattr(given, "to_pylist")):
        if not hasattr(given, "__array__"):
            return _Unfit(
                f"must be a list or array with one id for each row, not {type(given).__name__}. (An iterator "
                "is used up when it is read, a set or mapping has no order of rows.)"
            )
        given = np.asarray(given)
    if getattr(given, "ndim", 1) != 1:
        return _Unfit("must have one id for each row, shape (n_rows,): it has another number of dimensions.")
    if isinstance(given, np.ndarray) and given.dtype.kind in "mM":
        missing = bool(np.any(np.isnat(given)))
        return _MISSING_ID if missing else Ids(given.dtype.str, given.view(np.int64).tolist())
    if isinstance(given, np.ndarray):
        keys = list(given) if given.dtype.kind == "f" else given.tolist()
        # NumPy writes NaN as text where one of the ids is text.
        return _MISSING_ID if given.dtype.kind in "US" and {*_NANS}.intersection(keys) else Ids(None, keys)
    return Ids(None, given.to_pylist() if hasattr(given, "to_pylist") else given.to_list())


_MISSING_ID = _Unfit(
    "has a row without an id (None, NaN, NaT, masked, or an infinite number): each row must belong to one "
    "unit. How to fix it: drop such rows, or give each an id, by a rule that looks at that row alone."
)

_ROUNDED = _Unfit(
    "has ids that are floats of 2**53 and more (of single precision, 2**24): persons whose numbers were near "
    "each other have one id. How to fix it: read the ids as whole numbers or text, never as floats."
)


def _kind(key: Any) -> object:
    """Return the kind of a key, see `Ids`; `_Unfit` if it cannot be an id."""
    kind = _NUMPY.get(type(key), type(key))
    if issubclass(kind, np.integer):
        return int
    if kind is tuple:
        parts = tuple(_kind(part) for part in key)
        return next((part for part in parts if isinstance(part, _Unfit)), parts)
    if kind in _MISSING:
        return _MISSING_ID
    if kind in (datetime, pd.Timestamp):
        return kind, key.tzinfo is None
    if kind in (np.datetime64, np.timedelta64):
        return _MISSING_ID if np.isnat(key) else (kind, key.dtype.str)
    if kind in _ALL_INTEGERS_BELOW:
        if not math.isfinite(key):
            return _MISSING_ID
        return kind if abs(key) < _ALL_INTEGERS_BELOW[kind] else _ROUNDED
    if kind is Decimal:
        return kind if key.is_finite() else _MISSING_ID
    if kind in _COMPARED_BY_VALUE:
        return kind
    return _Unfit("has ids of a type whose equality is not known. How to fix it: " + _ONE_KIND)


def chunks_of(
    number: int, most: int, rows: np.ndarray | None, starts: np.ndarray | None
) -> Iterator[tuple[slice, slice | np.ndarray, np.ndarray | None]]:
    """Split units into chunks: yield the units, their rows, and the position of each unit's first row.

    Parameters
    ----------
    number : int
        Number of rows.
    most : int
        Most rows of a chunk (at least 64), unless a single unit has more.
    rows : ndarray of int, or None
        Rows sorted by unit; None for all rows, in their order.
    starts : ndarray of int, or None
        Positions in `rows` where each unit's rows begin, and where the last end; None: each row is a unit.
    """
    most = max(most // 4 * 4, 64)
    if rows is None or starts is None:
        for start in range(0, number, most):
            units = slice(start, min(start + most, number))
            yield units, units if rows is None else rows[units], None
        return
    unit = 0
    while unit < starts.size - 1:
        last = max(int(np.searchsorted(starts, starts[unit] + most, side="right")) - 1, unit + 1)
        yield slice(unit, last), rows[starts[unit] : starts[last]], starts[unit:last] - starts[unit]
        unit = last
