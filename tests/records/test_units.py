"""Ids of persons: no row of one person may count as another's, and nothing tells what the ids are."""

import pickle
import uuid
import warnings
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from pymc_dp.clipping import shares
from pymc_dp.errors import ModelRefusedError, PrivacyError
from pymc_dp.ratios import barker_correction, subsets
from pymc_dp.records.sums import Points, guarded, sums
from pymc_dp.records.units import ids_of, units

SECRET = 31415926
WANTED = [0, 1, 0, 2, 1]
A, B, C = SECRET, SECRET + 1, SECRET + 2
WHO = [A, B, A, C, B]
DAY = datetime(2020, 1, 1)
pa = pytest.importorskip("pyarrow")


def of(make):
    """Ids of five rows of three persons."""
    a, b, c = make(A), make(B), make(C)
    return [a, b, a, c, b]


def as_objects(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
GOOD = {
    **{name: np.array([1, 2, 1, 3, 2], dtype=name) for name in INTEGERS},
    "float16": np.array([1, 2, 1, 3, 2], dtype=np.float16),
    "float32": np.array([0.1, 2, 0.1, 3, 2], dtype=np.float32),
    "float64": np.array([0.1, 2, 0.1, 3, 2]),
    "signed zeros": np.array([0.0, 1.0, -0.0, 2.0, 1.0]),
    "big-endian": np.array(WHO, dtype=">i8"),
    "text": np.array(of(str)),
    "bytes": np.array(of(lambda k: str(k).encode())),
    "object text": as_objects(of(str)),
    "object numbers": as_objects([np.int8(1), 2, np.uint64(1), np.int64(3), np.int32(2)]),
    "object floats": as_objects([0.5, np.float64(2), np.float64(0.5), 3.0, 2.0]),
    "list": WHO,
    "list of text": of(str),
    "list of NumPy text": [np.str_("a"), "b", "a", np.str_("c"), np.str_("b")],
    "tuple": tuple(WHO),
    "range-like": np.asarray([*range(2), 0, 2, 1]),
    "big integers": of(lambda k: 2**70 + k),
    "beyond int64": np.array([2**63, 2**63 + 1, 2**63, 2**64 - 1, 2**63 + 1], dtype=np.uint64),
    "datetime64": np.array(of(lambda k: np.datetime64(k, "s"))),
    "datetime64[ns]": np.array(of(lambda k: np.datetime64(k, "ns"))),
    "timedelta64": np.array(of(lambda k: np.timedelta64(k, "ms"))),
    "datetimes": of(lambda k: DAY + timedelta(seconds=k)),
    "dates": of(lambda k: date(2000, 1, 1) + timedelta(days=k % 1000)),
    "datetimes in two zones": [
        datetime(2020, 1, 1, 12, tzinfo=UTC),
        datetime(2020, 1, 1, 13, tzinfo=UTC),
        datetime(2020, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        datetime(2020, 1, 1, 16, tzinfo=UTC),
        datetime(2020, 1, 1, 13, tzinfo=UTC),
    ],
    "object datetime64": as_objects(of(lambda k: np.datetime64(k, "s"))),
    "durations": of(lambda k: timedelta(seconds=k)),
    "categories": pd.Categorical(of(str)),
    "series of categories": pd.Series(of(str), dtype="category"),
    "series with an odd index": pd.Series(WHO, index=[3, 3, 0, 1, 2]),
    "series of times": pd.Series(pd.to_datetime(of(lambda k: k), unit="s", utc=True)),
    "nullable integers": pd.Series(WHO, dtype="Int64"),
    "nullable array": pd.array(WHO, dtype="Int64"),
    "Arrow text": pd.Series(of(str), dtype="string[pyarrow]"),
    "Arrow array": pa.array(of(str)),
    "Arrow chunks": pa.chunked_array([WHO[:2], WHO[2:]]),
    "index": pd.Index(of(str)),
    "two levels": pd.MultiIndex.from_arrays([[0, 0, 0, 1, 0], of(str)]),
    "tuples": of(lambda k: ("ward", k)),
    "structured": np.array([(0, k) for k in WHO], dtype=[("ward", "i4"), ("bed", "i8")]),
    "unmasked": np.ma.array(WHO, mask=[0] * 5),
    "decimals": [Decimal("1.0"), Decimal("2"), Decimal("1"), Decimal("3"), Decimal("2.00")],
    "UUIDs": of(lambda k: uuid.UUID(int=k)),
    "trailing NULs": np.array(["a", "b", "a\0", "c", "b"]),
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD)
def test_rows_of_a_person_have_one_code(given):
    codes, n = units(given, 5)
    assert codes.tolist() == WANTED and n == 3 and codes.dtype == np.int64
    pickle.dumps(ids_of(given, 5))


def test_two_persons():
    """Text is compared as it is; bools, and whatever has two values, are two units."""
    assert units([True, False, True], 3)[1] == units(np.array([True, False, True]), 3)[1] == 2
    assert units(["a", "a ", "A"], 3)[1] == 3
    assert units([b"a", b"a\0", b"b"], 3)[1] == 3
    assert units([2**53, 2**53 + 1, 2**53], 3)[0].tolist() == [0, 1, 0]
    assert units(None, 7) == (None, 7)


class Equal:
    """Somebody's own: equality by identity."""


class Whole(int):
    def __eq__(self, other):
        return False

    __hash__ = int.__hash__


def generated():
    yield from WHO


BAD = {
    "None": [A, None, A, C, B],
    "object NaN": as_objects([A, np.nan, A, C, np.nan]),
    "object None": as_objects([str(A), None, str(A), None, "b"]),
    "all NaN": as_objects([float("nan") for _ in WHO]),
    "float NaN": np.array([A, np.nan, A, C, B]),
    "inf": np.array([A, np.inf, A, C, B]),
    "float that rounds": np.array([2**53, 2**53 + 1, 1.0, 2.0, 3.0]),
    "float32 that rounds": np.array([-(2**24), 2**24 + 1, 1, 2, 3], dtype=np.float32),
    "NaN beside text": np.array([1.0, np.nan, np.nan, "x", "y"]),
    "nullable NA": pd.Series([A, None, A, C, B], dtype="Int64"),
    "pd.NA": [A, pd.NA, A, C, B],
    "NaT": np.array(["2020", "NaT", "2020", "2021", "2022"], dtype="datetime64[s]"),
    "duration NaT": np.array([1, -(2**63), 1, 2, 3]).view("timedelta64[s]"),
    "pandas NaT": pd.Series(pd.to_datetime(["2020-01-01", None, "2020-01-01", "2020-01-02", None])),
    "object NaT": as_objects([np.datetime64("NaT", "s"), *of(lambda k: np.datetime64(k, "s"))[1:]]),
    "missing category": pd.Categorical(["a", None, "a", "b", "c"]),
    "Arrow null": pa.array(["a", None, "a", "b", "c"]),
    "Arrow text null": pd.Series(["a", None, "a", "b", "c"], dtype="string[pyarrow]"),
    "masked": np.ma.array(WHO, mask=[0, 1, 0, 0, 0]),
    "masked structure": np.ma.array(GOOD["structured"], mask=[(0, 1)] + [(0, 0)] * 4),
    "masked constant": [A, np.ma.masked, A, C, B],
    "Decimal NaN": [Decimal(1), Decimal("NaN"), Decimal(1), Decimal(2), Decimal(3)],
    "Decimal sNaN": [Decimal(1), Decimal("sNaN"), Decimal(1), Decimal(2), Decimal(3)],
    "NaN in a tuple": [(1, float("nan")), *[(1, 2.0)] * 4],
    "None in a tuple": [("ward", None), *[("ward", "a")] * 4],
    "NaN in a structure": np.array([(1, np.nan)] * 5, dtype=[("a", "i4"), ("b", "f8")]),
    "number and text": [1, "1", 1, 2, 3],
    "integer and float": as_objects([2**53 + 1, float(2**53 + 1), 1, 2, 3]),
    "bool and integer": as_objects([True, 1, 2, 3, 4]),
    "float32 and float64": as_objects([np.float32(0.1), 0.1, 1.0, 2.0, 3.0]),
    "text and bytes": as_objects(["a", b"a", "b", "c", "d"]),
    "date and datetime": [DAY, DAY.date(), DAY, DAY, DAY],
    "naive and aware": [DAY, DAY.replace(tzinfo=UTC), DAY, DAY, DAY],
    "datetime64 of two units": as_objects(
        [np.datetime64("2020-01-01"), *[np.datetime64("2020-01-01T00")] * 4]
    ),
    "tuples of two kinds": [(1, "a"), ("1", "a"), *[(1, "b")] * 3],
    "tuples of two lengths": [(1, "a"), (1,), *[(1, "b")] * 3],
    "equality by identity": [Equal() for _ in WHO],
    "never equal": [Whole(k) for k in WHO],
    "lists": [[1], [2], [1], [3], [2]],
    "arrays": as_objects([np.array(k) for k in WHO]),
    "complex": np.array(WHO, dtype=complex),
    "fractions": of(lambda k: Fraction(k, 7)),
    "long doubles": np.array(WHO, dtype=np.longdouble),
    "2-d": np.array(WHO)[:, None],
    "data frame": pd.DataFrame({"id": WHO}),
    "0-d": np.array(A),
    "number": A,
    "text": "abcde",
    "set": {*range(5)},
    "mapping": dict(enumerate(WHO)),
    "generator": generated(),
    "iterator": iter(WHO),
    "too short": WHO[:4],
    "too long": [*WHO, A],
    "empty": [],
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_what_might_split_a_person_is_refused(given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((ValueError, PrivacyError), match="privacy_unit") as caught:
            units(given, 5)
    assert str(SECRET) not in repr(caught.value) and "3141592" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_an_object_that_cannot_be_compared_shows_nothing():
    class Strange:
        def __array__(self, *args, **kwargs):
            warnings.warn(f"{SECRET}", stacklevel=1)
            raise KeyError(SECRET)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            PrivacyError, match=r"ids in privacy_unit could not be read \(KeyError\)"
        ) as caught:
            units(Strange(), 5)
    assert str(SECRET) not in str(caught.value) and caught.value.__context__ is None


def test_one_unit_is_refused():
    with pytest.raises(ModelRefusedError, match="into one unit") as caught:
        units([A] * 5, 5)
    assert str(SECRET) not in str(caught.value)


def test_the_case_of_the_leak():
    """50 persons with a missing id each became 217."""
    ids = np.repeat(np.arange(50), 10).astype(object)
    assert units(ids, 500)[1] == 50
    ids[::3] = np.nan
    with pytest.raises(ValueError, match="without an id"):
        units(ids, 500)


def test_no_warning_tells_of_a_row():
    """Sums over a person's rows, and whatever else is evaluated on rows."""
    rows = np.array([np.inf, -np.inf, 1e308, 1e308, np.nan, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):  # control
            np.add.reduceat(rows, [0, 2, 4])
        np.testing.assert_array_equal(sums(rows, np.array([0, 2, 4])), [np.nan, np.inf, np.nan])
        guarded(lambda: warnings.warn("a record is missing", stacklevel=1))
        assert guarded(lambda: np.nanmean(rows[4:5])) is not None  # warns by itself, whatever errstate says
        far = np.array([-1e308, -np.inf]), np.array([1e308, -np.inf])
        points = object.__new__(Points)
        points.n, points.unit_of_row, points._tables, points._some_rows = 2, None, [], lambda theta: theta
        np.testing.assert_array_equal(points.ratios(*far, np.arange(2)), [np.inf, np.nan])
        np.testing.assert_array_equal(shares(rows, 1e-100), [1, -1, 1, 1, 0, 1])
        subsets.corrected_ratio(rows, 1e-100, 9, 1.0)
        barker_correction.batch_ratio(rows, 10**6, 1e-3)
    np.testing.assert_array_equal(sums(rows[2:], None), rows[2:])
    assert sums(rows[:0], np.array([], dtype=int)).size == 0
