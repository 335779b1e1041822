"""Tables in and out: pandas, Polars, or a mapping of names to arrays.

Public of a table: that it is one, the names of its columns, the number of its rows where n is public. The
type in which a column is stored is looked at to read its cells, and for nothing else.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

_FORMS = "a pandas or Polars DataFrame, or a mapping of column names to arrays"


def _is_polars(table: Any) -> bool:
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(table, polars.DataFrame)


def columns_of(table: Any, names: Sequence[str]) -> tuple[dict[str, np.ndarray], int]:
    """The columns of these names, each of shape (n,), and n.

    Raises
    ------
    TypeError
        It is no table.
    ValueError
        A column is not there, is there twice, or has another length or more than one dimension.
    """
    if not (isinstance(table, pd.DataFrame | Mapping) or _is_polars(table)):
        raise TypeError(f"A table is {_FORMS}, got {type(table).__name__}.")
    there = list(table.columns if not isinstance(table, Mapping) else table)
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


def _array(column: Any) -> np.ndarray:
    """A column as an array of plain numbers or of cells."""
    if isinstance(column, np.ma.MaskedArray):
        return np.ma.filled(column.astype(object), None)
    if isinstance(column, pd.Series) and isinstance(column.dtype, np.dtype):
        column = column.to_numpy()
    if isinstance(column, np.ndarray):
        return pd.Series(column).astype(object).to_numpy() if column.dtype.kind in "mM" else column
    cells = column.to_list() if hasattr(column, "to_list") else list(column)
    return np.fromiter(cells, dtype=object, count=len(cells))  # a cell may be a sequence itself


def table_of(columns: Mapping[str, np.ndarray], like: Any) -> Any:
    """Columns as a table of the kind of another one, with its index."""
    if isinstance(like, pd.DataFrame):
        return pd.DataFrame(dict(columns), index=like.index)
    if _is_polars(like):
        return sys.modules["polars"].DataFrame(dict(columns))
    return dict(columns)
