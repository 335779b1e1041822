"""What one row can do to each exact sum, whatever stands in it."""

import contextlib
import datetime
import io
import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from pandas._libs.parsers import STR_NA_VALUES

import pymc_dp as dp
from pymc_dp.prepare import cells
from pymc_dp.prepare.grid import OCTAVE_EDGES
from pymc_dp.prepare.kinds import Numeric
from pymc_dp.prepare.releases import (
    GRID,
    MOMENTS_SENSITIVITY,
    histogram,
    level_counts,
    moments,
    named_counts,
)
from pymc_dp.prepare.tables import columns_of
from pymc_dp.privacy.mechanisms.randomness import histogram_sensitivity

pa = pytest.importorskip("pyarrow")

ANYTHING = [
    *(0, 1, -1, 0.5, -0.0, True, 3.7, 1e-320, 2**63, 10**400, -(10**400), 1e308, -1e308),
    *(math.nan, math.inf, -math.inf, np.float32(2.5), np.int8(-7), np.datetime64("2020-01-01"), np.ma.masked),
    *("", "a", "b", "3.7", "nan", "inf", "x" * 100_000, "\0", "\ud800", b"bytes"),
    *(None, [1, 2], {"a": 1}, object(), 1j, Exception("secret")),
]


def column(*cells_):
    out = np.empty(len(cells_), dtype=object)
    for k, cell in enumerate(cells_):
        out[k] = cell
    return out


SUMS = {
    "octaves": lambda c: histogram(cells.numbers_of(c), OCTAVE_EDGES),
    "cells": lambda c: histogram(cells.numbers_of(c), np.array([-3.0, 0.0, 0.5, 4.0])),
    "bool": lambda c: histogram(cells.truths_of(c), np.array([-0.5, 0.5, 1.5])),
    "named": lambda c: named_counts(cells.levels_of(c), ("a", "3.7")),
    "moments": lambda c: moments(cells.numbers_of(c), -1.0, 4.0),
}
OTHERS = (0.3, "a", 2.0, None, "b")


def bound(name, relation):
    return MOMENTS_SENSITIVITY if name == "moments" else histogram_sensitivity(relation)


@pytest.mark.parametrize("name", SUMS)
def test_one_row_moves_a_sum_by_no_more_than_is_stated(name):
    summed = SUMS[name]
    alone = [summed(column(*OTHERS, cell)).astype(float) for cell in ANYTHING]
    without = summed(column(*OTHERS)).astype(float)
    replaced = max(np.linalg.norm(a - b) for a, b in itertools.combinations(alone, 2))
    added = max(np.linalg.norm(a - without) for a in alone)
    assert replaced <= bound(name, "substitute") and added <= bound(name, "add_remove")
    assert added >= 0.99 * bound(name, "add_remove")  # and the bound is not idle


def test_moments_of_any_two_numbers():
    """The bound is met by the ends of the interval, by a number and a missing one, and by no other pair."""
    z = np.linspace(-1, 1, 201)
    rows = np.array([moments(np.array([x]), -1, 1) for x in [*z, math.nan, 9.0, -9.0]], dtype=float)
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert 1.9999 * GRID < distances.max() <= MOMENTS_SENSITIVITY
    assert distances[0, 201] > 1.9999 * GRID  # -1 against missing
    assert distances[100, 101:].max() < 1.75 * GRID  # from the middle


def test_an_unclipped_moment_would_be_noticed():
    """Control: without the clip the same pair is further apart than is stated."""
    far = np.array([GRID, 9.0 * GRID, math.sqrt(2) * 81 * GRID])
    assert np.linalg.norm(far - moments(np.array([0.0]), -1, 1)) > MOMENTS_SENSITIVITY


def test_levels_of_a_row_are_one_cell():
    for cell, other in itertools.product(ANYTHING, repeat=2):
        one, two = (level_counts(cells.levels_of(column(*OTHERS, c))) for c in (cell, other))
        moved = {k: one.get(k, 0) - two.get(k, 0) for k in one | two}
        assert sum(abs(d) for d in moved.values()) in (0, 2) and max(map(abs, moved.values())) <= 1


def test_a_cell_is_read_by_itself():
    """Neither its neighbours nor the storage type that they lead to change what a cell says."""
    for read in (cells.numbers_of, cells.truths_of, cells.levels_of):
        whole = read(column(*ANYTHING))
        single = [read(column(cell))[0] for cell in ANYTHING]
        np.testing.assert_equal(list(whole), single)
    assert cells.levels_of(column("x" * 201, "", "NaT", math.nan, "x" * 200)) == [None] * 4 + ["x" * 200]
    plain = np.array([1, 0, 3, 2**60 + 1])
    for typed in (plain, plain.astype(float), plain.astype(object), plain.astype(str).astype(object)):
        np.testing.assert_equal(cells.numbers_of(typed), plain.astype(float))
        np.testing.assert_equal(cells.truths_of(typed), [1, 0, np.nan, np.nan])
    for typed in (plain, plain.astype(float), plain.astype(object)):
        assert cells.levels_of(typed) == ["1", "0", "3", str(2**60)]


class Hostile(str):
    """Text that does anything but be text."""

    def fails(self, *args):
        raise RuntimeError("secret")

    strip = __eq__ = __hash__ = fails

    def __str__(self):
        return self


class Faceless:
    @property
    def __class__(self):
        raise RuntimeError("secret")


def test_no_object_makes_a_reader_fail():
    for cell in (Hostile("yes"), Faceless()):
        assert math.isnan(cells.number(cell))
        named_counts([cells.level_text(cell)], ("a",)), level_counts([cells.level_text(cell)])
    assert cells.truth(Hostile("yes")) == 1.0 and math.isnan(cells.truth(Faceless()))


@pytest.mark.parametrize("odd", ["x", b"x", 1j, None, 0.5, np.datetime64("2020-01-01")])
@pytest.mark.parametrize(
    "plain", [[3.0, 1.0, 0.0, 2.5, 1e-7, 1e22, -1.5e300], [3, 1, 0, 2**60 + 1], [True, False]]
)
def test_one_odd_cell_does_not_change_what_others_say(plain, odd):
    """NumPy and pandas store all cells of a column as one type: text, bytes, complex numbers, objects."""
    if isinstance(odd, float | complex) and isinstance(plain[0], bool):
        pytest.skip("NumPy makes numbers of them, and nothing is left to tell")
    if isinstance(odd, bytes) and isinstance(plain[0], float):
        plain = plain[:4]  # NumPy writes bytes of others with fewer digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = [pd.Series([*plain, odd]).to_numpy()]
        with contextlib.suppress(TypeError, ValueError):
            stored.append(np.array([*plain, odd]))
    for read in (cells.numbers_of, cells.truths_of, cells.levels_of):
        alone = list(read(np.array(plain)))
        for column_ in stored:
            np.testing.assert_equal(list(read(column_))[: len(plain)], alone)


def test_texts_that_no_reader_takes_for_numbers_stay_levels():
    for text in ("0x10", "1,5", "--3", "3 4", "a1", "infinite", "e5", "truth", " a"):
        assert cells.level_text(text) == text


def test_texts_that_some_reader_takes_for_numbers_are_these():
    """`pandas.read_json` reads all of them."""
    for text, level in (
        ("1_000", "1000"),
        ("٣", "3"),
        ("\u00a07\u00a0", "7"),
        ("tRUE ", "1"),
        ("\v1.50", "1.5"),
    ):
        assert cells.level_text(text) == level


def test_truth_values_and_midnights_are_what_one_odd_cell_makes_of_them():
    """`pandas.read_json` makes numbers of truth values where one is null; a category has its first equal
    one's type; NumPy writes times for all days where one cell is None."""
    assert cells.level_text(True) == cells.level_text(np.True_) == cells.level_text(1.0) == "1"
    assert cells.level_text("false") == cells.level_text(0) == "0"
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")
    for column in (days, np.append(days, None), pd.Series(days), [datetime.date(2020, 1, 1)]):
        read = columns_of({"a": column}, ["a"])[0]["a"]
        assert cells.levels_of(read)[0] == "2020-01-01"
    assert cells.level_text(pd.Timestamp("2020-01-01", tz="UTC")) == "2020-01-01"
    assert cells.level_text(datetime.datetime(2020, 1, 1, 6)) == "2020-01-01T06:00:00"
    masked = list(np.ma.masked_array([1.0, 2.0], [False, True]))
    assert cells.number(masked[0]) == 1.0 and math.isnan(cells.number(masked[1]))


def test_a_duration_is_one_level_however_it_is_written():
    """pandas writes times beside all days where one cell has one: it renamed the levels of all others."""
    whole = pd.Series(pd.to_timedelta(["1D", "2D", "2D"]))
    for odd in (pd.Timedelta("1D 3h"), pd.Timedelta("0.5s"), pd.Timedelta("-3h")):
        column = pd.concat([whole, pd.Series([odd])], ignore_index=True).astype(str)
        assert [cells.level_text(cell) for cell in column[:3]] == ["1 days", "2 days", "2 days"]
        assert cells.level_text(column[3]) not in ("1 days", "2 days")
    assert cells.level_text("1 days 03:00:00.500") == cells.level_text("1 days 03:00:00.5")
    assert cells.level_text("10000-01-01 00:00:00") == cells.level_text("10000-01-01")


MOMENTS = ["2020-01-01", "2020-01-01", "2020-01-03", "9999-12-31", "0001-01-01"]


@pytest.mark.parametrize("odd", ["2020-01-02", "2020-01-02 00:00:01", "2020-01-02 12:00:00.5", None, "none"])
@pytest.mark.parametrize("unit", ["s", "us"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
def test_one_time_of_day_does_not_rename_the_days_of_others(odd, unit, zone):
    """pandas and NumPy write times for all of a column where one has a time, with as many digits for all."""
    moments = MOMENTS[: 3 if zone else None]
    alone = pd.Series(np.array(moments, dtype=f"M8[{unit}]")).dt.tz_localize(zone)
    if odd == "none":
        beside = alone.astype(object)
        beside.loc[len(alone)] = odd
    else:
        beside = pd.Series(np.array([*moments, odd], dtype=f"M8[{'ns' if zone else 'us'}]")).dt.tz_localize(
            zone
        )
    there = cells.levels_of(columns_of({"c": alone}, ["c"])[0]["c"])
    assert len(set(there)) == len(set(moments))
    for column_ in (alone, beside):
        files = io.StringIO(column_.to_frame("c").to_csv(index=False))
        written = [column_.astype(str), column_.astype(object), pd.read_csv(files, dtype=str)["c"]]
        if zone is None and odd != "none":
            written.append(column_.to_numpy().astype(str))
            written.append(column_.map(lambda one: one.isoformat(), na_action="ignore"))
        for stored in (column_, *written):
            (read_in,) = columns_of({"c": stored}, ["c"])[0].values()
            assert cells.levels_of(read_in)[: len(moments)] == there


def test_an_equal_moment_of_another_zone_does_not_rename_a_level():
    """A category keeps the first of equal cells for all."""
    utc = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    zones = [datetime.timezone(datetime.timedelta(hours=k)) for k in (0, 1, -5)]
    for first in map(utc.astimezone, zones):
        column_ = pd.Series([first, utc, utc], dtype=object).astype("category")
        (read_in,) = columns_of({"c": column_}, ["c"])[0].values()
        assert cells.levels_of(read_in) == ["2020-01-01"] * 3
    early = pd.Timestamp("1880-01-01", tz="Europe/Berlin")  # of which the offset has seconds
    assert {cells.level_text(one) for one in (early, str(early), early.tz_convert("UTC"))} == {
        "1879-12-31T23:06:32"
    }


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "2020-01-01",
            ["2020-01-01 00:00:00", "2020-01-01T00:00", "2020-01-01T00", "2020-01-01 00:00:00.000"],
        ),
        ("2020-01-01T05:00:00", ["2020-01-01 05:00:00", "2020-01-01T05", "2020-01-01 05:00:00.000000000"]),
        ("2020-01-01T05:00:00.5", ["2020-01-01 05:00:00.500000", "2020-01-01T05:00:00.500"]),
        ("2020-01-01", ["2020-01-01T01:00+01:00", "2019-12-31 19:00:00-0500", "2020-01-01T00:00Z"]),
        (
            "1879-12-31T23:06:32.5",
            ["1880-01-01 00:00:00.5+00:53:28", "1880-01-01T00:00:00.500000+005328"],
        ),
        (None, ["9999-12-31T23:00:00-05:00", "0001-01-01 00:00:00+01:00", "2020-02-30T00:00:00Z"]),
    ],
)
def test_texts_of_one_moment_are_one_level(name, texts):
    assert {cells.level_text(text) for text in texts} == {name}
    if name is not None:
        assert cells.level_text(name) == name
        assert cells.level_text(datetime.datetime.fromisoformat(name)) == name
        assert dp.Category(levels=[texts[0]]).levels == (name,)


def test_texts_that_are_no_moments_stay_levels():
    for text in (
        *("2020-1-1", "01/02/2020", "20200101T000000", "2020-13-01", "2020-01-01 24:00:00", "2020-01-01 "),
        *(
            "2020-01-01x",
            "2020-01-01 5:00",
            "2020-01-01  05:00",
            "00:00:00",
            "2020-W01-1",
            "2020-01-01+01:00",
        ),
    ):
        assert cells.level_text(text) == text


@pytest.mark.parametrize("kind", ["numeric", "category"])
@pytest.mark.parametrize(
    ("zone", "odd"),
    [
        ("Europe/Berlin", "9999-12-31T23:59:59"),
        ("America/New_York", "0001-01-01T00:00:00"),
        ("America/New_York", "20000-01-01"),
    ],
)
def test_dates_that_are_none_in_their_time_zone_say_nothing_before_anything_is_paid(
    tmp_path, kind, zone, odd
):
    """One such date ended in an error of pandas', with what is in the cell, and nothing was charged."""
    days = np.full(300, "2020-01-01", dtype="M8[us]")
    days[7] = np.datetime64(odd, "us")
    column = pd.Series(days).dt.tz_localize("UTC").dt.tz_convert(zone)
    ledger = dp.Ledger(tmp_path / "ledger", epsilon=1, delta=1e-6)
    prepare = dp.Prepare({"a": kind}, epsilon=0.5, ledger=ledger).fit({"a": column})
    assert len(ledger.entries()) == 1
    prepare.transform({"a": column})
    read = columns_of({"a": column}, ["a"])[0]["a"]
    days[7] = days[0]
    wanted = pd.Series(days).dt.tz_localize("UTC").dt.tz_convert(zone)
    assert cells.levels_of(read)[:7] == cells.levels_of(columns_of({"a": wanted}, ["a"])[0]["a"])[:7]


@pytest.mark.parametrize("unit", ["ps", "fs", "as", "2h"])
def test_dates_at_the_end_of_what_integers_hold_are_missing(unit):
    odd = np.int64(-(2**63) + 1).view(f"M8[{unit}]") if unit != "2h" else np.datetime64(5, "2h")
    column = np.array([odd, odd])
    for one in (column, list(column), column.astype(object)):
        read = columns_of({"a": one}, ["a"])[0]["a"]
        assert len(cells.levels_of(read)) == 2  # and nothing is raised


def test_a_long_cell_takes_no_longer_than_reading_it():
    """The square of its length took hours."""
    assert cells.level_text("1" * 1_000_000 + "x") is None and math.isnan(cells.number("1" * 1_000_000))


def test_cells_whose_classes_do_anything_raise_nothing():
    class Meta(type):
        def __eq__(cls, other):
            raise RuntimeError("secret")

        __hash__ = type.__hash__

    class Cell(metaclass=Meta):
        pass

    class Date(datetime.date):
        def isoformat(self):
            return 7

    class Number(float):
        def __float__(self):
            raise SystemExit("secret")

    for odd in (Cell(), Date(2020, 1, 1), Number(3.0)):
        (read_in,) = columns_of({"c": [1.0, odd]}, ["c"])[0].values()
        assert cells.levels_of(read_in)[1] is None
        assert math.isnan(cells.numbers_of(read_in)[1]) and math.isnan(cells.truths_of(read_in)[1])


COLUMNS = {
    "zip codes": ["01234", "94103", "02139"],
    "prices": ["1.50", "2.00", "+2.25", "1e5", ".5", "7."],
    "truth values": ["TRUE", "FALSE", "true"],
    "white space": ["1\t", "\t2", "3\v", "\f4.5"],
    "any case": ["tRUE", "FaLSE", "True"],
    "with missing ones": ["1", "", "NA", "03", "inf"],
    "missing ones by all names": ["7", *sorted(cells.MISSING - {""}), "3"],
    "numbers of many digits": ["0.30000000000000004", "12345678901234567890123", "0.1"],
    "texts": ["a", "b", " a"],
}


@pytest.mark.parametrize(
    "odd", ["x", "1.5 kg", "", "1_000", "9223372036854775808", str(2**64 - 1), "1" + 20 * "0"]
)
@pytest.mark.parametrize("column_", COLUMNS.values(), ids=COLUMNS)
def test_one_odd_cell_of_a_file_does_not_change_what_others_say(column_, odd):
    """A reader of CSV files takes "01234" for a number, and text where another cell is none: all moved."""
    lines = ["c", *column_, odd or '""']
    alone, beside = (
        pd.read_csv(io.StringIO("\n".join(some)), skip_blank_lines=False) for some in (lines[:-1], lines)
    )
    for read in (cells.numbers_of, cells.truths_of, cells.levels_of):
        one, other = (list(read(columns_of(table, ["c"])[0]["c"])) for table in (alone, beside))
        np.testing.assert_equal(other[: len(column_)], one)


def test_what_readers_take_for_missing_is_missing_everywhere():
    """One whole number between 2^63 and 2^64 left "NA" as text: a level that 2,000 records had, or none."""
    assert cells.MISSING == STR_NA_VALUES
    codes = ["7", "NA", "3", "NULL"]
    for odd in ("7", "9223372036854775808", "x"):
        table = pd.read_csv(io.StringIO("\n".join(["c", *codes, odd])))
        assert cells.levels_of(columns_of(table, ["c"])[0]["c"])[:4] == ["7", None, "3", None]
    with pytest.raises(ValueError, match="none missing"):
        dp.Category(levels=["NA", "DE"])


def test_values_of_any_column_are_a_column():
    """pandas has text in arrays of its own: one word in a column decided whether `.values` was refused."""
    for cells_ in (["3", "7"], ["3", "seven"], [None, "7"]):
        column_ = pd.read_csv(io.StringIO("\n".join(["c", *map(str, cells_)])))["c"]
        for stored in (column_.values, column_.array, pd.Index(column_), column_.astype("category").values):
            assert len(columns_of({"c": stored}, ["c"])[0]["c"]) == 2
    zoned = pd.Series([pd.Timestamp("2020-01-01 12:00:00+05:30")] * 2)
    without = np.array(["2020-01-01T06:30"] * 2, dtype="M8[us]")  # `.values`, if no cell is odd
    for stored in (zoned.array, without, np.array([*zoned, "odd"], dtype=object)):
        assert cells.levels_of(columns_of({"c": stored}, ["c"])[0]["c"])[0] == "2020-01-01T06:30:00"


def test_zeros_at_the_end_and_numbers_in_arrays_are_read_as_numpy_stores_them():
    for padded, plain in ((b"a\0\0", "a"), ("a\0", "a"), (np.array(1.0), "1")):
        assert cells.level_text(padded) == plain


DATES = [np.datetime64("2020-01-01"), np.datetime64("1999-12-31"), np.datetime64("NaT", "D")]


@pytest.mark.parametrize("odd", ["x", None, b"x"])
@pytest.mark.parametrize(
    "plain",
    [
        [1.0, 2.5, math.nan, math.inf, -math.inf],
        [10**25, -(10**30), 7],
        [np.float32(0.5), np.float32(math.nan), np.float32(math.inf)],
        DATES,
        [np.datetime64(date, "ns") for date in DATES],
        [np.datetime64(5, "ps"), np.datetime64(-7, "as"), np.datetime64("NaT", "fs")],
    ],
)
def test_an_odd_cell_leaves_missing_numbers_and_dates_as_they_were(plain, odd):
    """A NaN was a level "nan" in all other rows, and dates were missing there, for one text or None."""
    columns = [np.array([*plain, odd]) if odd != b"x" else pd.Series([*plain, odd], dtype=object)]
    columns += [[*plain, odd], pd.Series([*plain, odd]), pd.Series([*plain, odd], dtype=object)]
    (alone,) = columns_of({"c": np.array(plain)}, ["c"])[0].values()
    for column_ in columns:
        (read_in,) = columns_of({"c": column_}, ["c"])[0].values()
        for read in (cells.numbers_of, cells.truths_of, cells.levels_of):
            np.testing.assert_equal(list(read(read_in))[: len(plain)], list(read(alone)))


def test_masked_dates_are_dates():
    """NumPy makes whole numbers of them where they are made objects."""
    masked = np.ma.array(np.array(DATES, dtype="M8[ns]"), mask=[0, 1, 0])
    (read_in,) = columns_of({"c": masked}, ["c"])[0].values()
    assert cells.levels_of(read_in) == ["2020-01-01", None, None]


def test_bounds_that_floating_point_cannot_divide_by():
    """(x - 0) / 0 was NaN, and NaN -2**63 as an integer: one record moved the sum by as much."""
    values = np.array([-1.0, 0.0, 5e-324, 1.0, math.nan])
    rows = np.array([moments(np.array([x]), 0.0, 5e-324) for x in values], dtype=float)
    assert np.linalg.norm(rows[:, None] - rows[None], axis=2).max() <= MOMENTS_SENSITIVITY
    with pytest.raises(ValueError, match="too close"):
        Numeric(bounds=(0, 5e-324))


def test_no_date_makes_a_table_fail():
    """Read before anything is paid: an error would say, with its value, that one cell is odd."""
    arrow = [pa.array([1, 10**8], pa.int32()).cast(pa.date32())]
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("ms")):
        arrow.append(pa.array([1, 2**62], pa.int64()).cast(kind))
    tables = [
        *({"x": pd.Series(pd.arrays.ArrowExtensionArray(column))} for column in arrow),
        *({"x": np.array([1, 2**62], dtype=kind)} for kind in ("M8[s]", "M8[Y]", "M8[D]", "m8[Y]", "M8[ns]")),
    ]
    for table in tables:
        columns, n = columns_of(table, ["x"])
        assert n == 2 and cells.levels_of(columns["x"])[0] == read_alone(table)
        assert np.isnan(cells.numbers_of(columns["x"])).all()


def read_alone(table):
    return cells.levels_of(columns_of({"x": table["x"][:1]}, ["x"])[0]["x"])[0]
