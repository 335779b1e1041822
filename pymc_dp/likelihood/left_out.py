"""Removal of arrays of records from the graphs of a public model, and a check that none is left."""

from collections.abc import Sequence
from copy import deepcopy
from datetime import date, datetime, timedelta, timezone
from typing import cast
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
from pytensor import sparse
from pytensor.compile import SharedVariable
from pytensor.graph import Constant, Variable
from pytensor.graph.type import HasShape
from pytensor.graph.utils import Scratchpad
from pytensor.sparse import SparseTensorType
from pytensor.tensor import TensorType
from pytensor.tensor.random.type import RandomType
from scipy.sparse import csr_matrix

from pymc_dp.errors import PrivacyError
from pymc_dp.records import graph
from pymc_dp.records.arrays import PRIVATE, with_entries
from pymc_dp.records.several_tables import Records

# Types of time zones: one of the user's may hold anything.
_TIME_ZONES = (timezone, ZoneInfo)
# Types that a dimension's coordinates may have: none that can contain other objects.
_LABELS = (str, int, float, bool, date, datetime, timedelta, pd.Timestamp, pd.Timedelta, pd.Period)


def stand_ins(records: Records) -> dict[Variable, Variable]:
    """Return zeros of the shape of each array of records; a private number of records is replaced by 2."""
    known = records.neighboring_relation == "substitute" and records.unit_of_row is None
    # If the number of records is private, the axis of records may have any length: nothing public depends on
    # it.
    hidden = set() if known else {table.n_rows for table in records.tables}
    return {
        leaf: _zeros(leaf, [2 if size in hidden else size for size in np.shape(graph.leaf_value(original))])
        for leaf, original in arrays_of_records(records).items()
    }


def _zeros(leaf: Variable, shape: Sequence[int]) -> Variable:
    if isinstance(leaf.type, SparseTensorType):
        return sparse.as_sparse_variable(csr_matrix(tuple(shape), dtype=leaf.type.dtype))
    return pt.zeros(tuple(shape), dtype=leaf.type.dtype)


def read_by_shape(graphs: Sequence[Variable]) -> dict[Variable, Variable]:
    """Return zeros for each array of which graphs read the shape alone: its entries are no part of them."""
    entries = with_entries(graphs)
    return {
        leaf: _zeros(leaf, np.shape(graph.leaf_value(leaf)))
        for leaf in graph.data_leaves(graphs)
        if leaf not in entries and isinstance(leaf.type, TensorType) and leaf.type.ndim
    }


def check_public(records: Records, graphs: Sequence[Variable]) -> None:
    """Refuse an array that may hold records and is not among those that zeros replace."""
    declared = set().union(*(table.reading.data.declared for table in records.tables))
    public = arrays_of_records(records).keys() | declared
    lengths = {table.n_rows for table in records.tables}
    for leaf in [*graph.data_leaves(graphs), *graph.inner_leaves(graphs)]:
        shape = np.shape(graph.leaf_value(leaf)) if isinstance(leaf.type, HasShape) else ()
        if leaf not in public and not lengths.isdisjoint(shape):
            raise PrivacyError(
                "The public part of the model reads an array as long as there are records that is not "
                "declared as public: it cannot be published."
            )


def copied(leaf: Variable) -> Variable:
    """Copy a constant or shared variable, sharing nothing; a random generator is replaced by a new one."""
    if isinstance(leaf.type, RandomType):
        return pytensor.shared(np.random.default_rng(), name=leaf.name)
    value = deepcopy(graph.storage(leaf)[0]) if isinstance(leaf, Constant | SharedVariable) else None
    if isinstance(leaf, Constant):
        return type(leaf)(leaf.type, value, name=leaf.name)
    if isinstance(leaf, SharedVariable):
        new = type(leaf)(leaf.type, value, strict=True, name=leaf.name)
        new.tag = Scratchpad()
        return new
    return leaf


def arrays_of_records(records: Records) -> dict[Variable, Variable]:
    """Map the arrays of records that graphs read, of all tables, to the arrays of the user's model."""
    return {
        leaf: original for table in records.tables for leaf, original in table.reading.opaque.original.items()
    }


def known_to_be_public(records: Records) -> set[Variable]:
    """Return arrays of all tables that are taken, or were declared, as public."""
    data = [(table.reading.data, table.reading.public_arrays) for table in records.tables]
    return {
        one.leaves[array.label]
        for one, arrays in data
        for array in arrays
        if array.kind != PRIVATE and array.label in one.leaves  # others are variables
    }


def labels_of(name: str, labels: Sequence[object] | None) -> Sequence[object] | None:
    """Copy the coordinates of a public dimension; refuse any that are not names, numbers or dates."""
    if labels is None:
        return None
    labels = [plain(label) for label in labels]
    for label in labels:
        if not _is_plain_label(label):
            raise PrivacyError(
                f"Coordinates of {name!r} have a {type(label).__name__} among them.\n"
                "  Why this is refused: coordinates are published with the model, and it may hold records.\n"
                "  How to fix it: give names, numbers or dates."
            )
    return deepcopy(labels)


def _is_plain_label(label: object) -> bool:
    """Return whether a label is a name, a number or a date, and holds no other object."""
    if isinstance(label, datetime) and label.tzinfo is not None:
        return type(label) in _LABELS and type(label.tzinfo) in _TIME_ZONES
    of_numpy = isinstance(label, np.generic) and type(label).__module__ == "numpy"
    return label is None or type(label) in _LABELS or (of_numpy and not isinstance(label, np.void))


def plain[Name](name: Name) -> Name:
    """Convert a text of a subclass of str to str: a member of an Enum would take its class along."""
    return cast(Name, str.__str__(name)) if isinstance(name, str) else name
