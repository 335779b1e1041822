"""Reading and writing of tables: pandas, or a mapping of names to arrays.

Public facts about a table are that it is one, the names of its columns, and the number of its rows where n is
public. The storage type of a column is used to read its cells, and for nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pymc_dp.prepare.cells import ODD

#: Tables that `Prepare` reads and returns.
type Table = pd.DataFrame | Mapping[str, ArrayLike]


def columns_of(table: Table, names: Sequence[str]) -> tuple[dict[str, np.ndarray], int]:
    """Return the columns of these names, each of shape (n,), and n.

    Raises
    ------
    TypeError
        `table` is no table, or a column is of a wrong type.
    ValueError
        A column is missing, is there twice, or has another length or more than one dimension.
    """
    if not isinstance(table, pd.DataFrame | Mapping):
        raise TypeError(
            "A table is a pandas DataFrame, or a mapping of column names to arrays, got "
            f"{type(table).__name__}."
        )
    there = list(table)
    for name in names:
        if there.count(name) != 1:
            raise ValueError(f"The table has {there.count(name)} columns {name!r}: one is needed.")
    columns = {name: _array(table[name]) for name in names}
    for name, column in columns.items():
        if column.ndim != 1:
            raise ValueError(f"Column {name!r} has {column.ndim} dimensions: one is needed.")
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("The columns have different lengths.")
    return columns, len(columns[names[0]])


def _array(column: object) -> np.ndarray:
    """Convert a column to an array of plain numbers or of cells; no content of a cell makes it fail.

    **Privacy.** It runs before anything is paid, and an error would reveal what is in a cell. A cell without
    a Python object (a date after the year 9999) is missing, by a rule that looks at that cell alone.
    """
    if isinstance(column, pd.api.extensions.ExtensionArray | pd.Index):  # `.values` of some columns
        column = pd.Series(column)
    if isinstance(column, np.ma.MaskedArray):
        unmasked = _array(np.ma.getdata(column)).astype(object)
        unmasked[np.ma.getmaskarray(column)] = None
        return unmasked
    if isinstance(column, pd.Series) and isinstance(column.dtype, np.dtype):
        column = column.to_numpy()
    if isinstance(column, np.ndarray) and column.dtype != object:
        return _times(column) if column.dtype.kind in "mM" else column
    if isinstance(column, np.ndarray) and column.ndim != 1:
        return column
    if isinstance(column, pd.Series) and isinstance(column.dtype, pd.ArrowDtype):
        cells = [_python(cell.as_py) for cell in column.array.__arrow_array__()]
    elif isinstance(column, pd.Series | list | tuple | np.ndarray):
        cells = _cells(column)
    else:
        raise TypeError(f"A column is a NumPy array, a pandas Series or a list, got {type(column).__name__}.")
    return np.fromiter(cells, dtype=object, count=len(cells))  # a cell may be a sequence itself


def _cells(column: pd.Series | list | tuple | np.ndarray) -> list[object]:
    """Return each cell; None for one that cannot be read, such as a date after the year 9999 in its zone."""
    try:
        return [_plain_time(cell) for cell in column]
    except ODD:
        one = column.iloc.__getitem__ if isinstance(column, pd.Series) else column.__getitem__
        return [_plain_time(_python(partial(one, k))) for k in range(len(column))]


def _python(read: Callable[[], object]) -> object:
    """Read one cell; None if that raises."""
    try:
        return read()
    except ODD:
        return None


def _plain_time(cell: object) -> object:
    """Convert a NumPy date like those of a column of dates; one odd cell turns such a column into objects."""
    kind = type(cell)  # whose own `==` may be anything
    return _times(np.array([cell]))[0] if kind is np.datetime64 or kind is np.timedelta64 else cell


def _times(column: np.ndarray) -> np.ndarray:
    """Convert dates to pandas' Timestamps; durations become None, as they are neither numbers nor levels."""
    cells = np.full(len(column), None, dtype=object)
    if column.ndim != 1 or column.dtype.kind == "m" or np.datetime_data(column.dtype)[0] == "generic":
        return cells if column.ndim == 1 else column
    try:
        if np.datetime_data(column.dtype)[0] in ("ps", "fs", "as"):  # units that pandas does not have
            column = column.astype("M8[ns]")
        years = column.astype("M8[Y]").astype(np.int64)
        there = ~np.isnat(column) & (np.abs(years) < 10**11)  # years that pandas' dates in seconds can have
        cells[there] = pd.Series(column[there]).astype(object).to_numpy()
    except ODD:  # one of them fails: they are read one by one
        if len(column) > 1:
            cells[:] = [_times(column[k : k + 1])[0] for k in range(len(column))]
    return cells


def table_of(columns: Mapping[str, np.ndarray], like: Table) -> Table:
    """Return columns as a table of the same type as another one, with its index."""
    if isinstance(like, pd.DataFrame):
        return pd.DataFrame(dict(columns), index=like.index)
    return dict(columns)
