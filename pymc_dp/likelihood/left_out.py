"""Removal of arrays of records from the graphs of a public model, and a check that none is left."""

from collections.abc import Collection, Sequence
from copy import deepcopy
from datetime import date, datetime, timedelta
from typing import cast

import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
from pytensor import sparse
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.type import HasShape
from pytensor.graph.utils import Scratchpad
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.random.type import RandomType
from scipy.sparse import csr_matrix

from pymc_dp.errors import PrivacyError
from pymc_dp.records import graph
from pymc_dp.records.several_tables import Records

# Most different numbers that may be written into a public model, one by one or in small arrays.
_MOST_NUMBERS = 50
# For each free variable, so many more different numbers are allowed.
_NUMBERS_OF_VARIABLE = 8
# Types that a dimension's coordinates may have: none that can contain other objects.
_LABELS = (str, int, float, bool, date, datetime, timedelta, pd.Timestamp, pd.Timedelta, pd.Period)


def stand_ins(records: Records) -> dict[Variable, Variable]:
    """Return zeros of the shape of each array of records; a private number of records is replaced by 2."""
    known = records.neighboring_relation == "substitute" and records.unit_of_row is None
    hidden = set() if known else _numbers_of_rows(records)
    found: dict[Variable, Variable] = {}
    for leaf, original in arrays_of_records(records).items():
        # If the number of records is private, the axis of records may have any length: nothing public
        # depends on it.
        shape = [2 if size in hidden else int(size) for size in np.shape(graph.leaf_value(original))]
        if isinstance(leaf.type, SparseTensorType):
            found[leaf] = sparse.as_sparse_variable(csr_matrix(tuple(shape), dtype=leaf.type.dtype))
        elif isinstance(original.type, SparseTensorType):
            # An array of the entries of each row of a sparse matrix, as wide as the fullest row.
            found[leaf] = pt.zeros((shape[0], 1), dtype=leaf.type.dtype)
        else:
            found[leaf] = pt.zeros(tuple(shape), dtype=leaf.type.dtype)
    return found


def check_public(records: Records, graphs: Sequence[Variable]) -> None:
    """Refuse an array that may hold records and is not among those that zeros replace.

    Also refuse many separate numbers, which may be a table in a sum that is written row by row.
    """
    public = arrays_of_records(records).keys() | declared(records)
    lengths = _numbers_of_rows(records)
    leaves = [*graph.data_leaves(graphs), *graph.inner_leaves(graphs)]
    _check_numbers(records, [leaf for leaf in leaves if leaf not in public])
    for leaf in leaves:
        shape = np.shape(graph.leaf_value(leaf)) if isinstance(leaf.type, HasShape) else ()
        if leaf not in public and not lengths.isdisjoint(shape):
            raise PrivacyError(
                "The public part of the model reads an array as long as there are records that is not "
                "declared as public: it cannot be published."
            )


def _check_numbers(records: Records, leaves: Collection[Variable]) -> None:
    few = [graph.leaf_value(leaf) for leaf in leaves if isinstance(leaf, Constant | SharedVariable)]
    found = {x for one in map(np.asarray, few) if one.dtype.kind == "f" for x in np.ravel(one).tolist()}
    if len(found) > _MOST_NUMBERS + _NUMBERS_OF_VARIABLE * len(records.reading.start):
        raise PrivacyError(
            "The public part of the model has more numbers written into it than its priors need.\n"
            "  Why this is refused: they are published with it, and may be records, one by one.\n"
            "  How to fix it: give them as one array, and declare it with public= if it holds no record."
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


def declared(records: Records) -> set[Variable]:
    """Return the arrays of all tables that the user declared as public."""
    return set().union(*(table.reading.data.declared for table in records.tables))


def _numbers_of_rows(records: Records) -> set[int]:
    return {table.n_rows for table in records.tables}


def labels_of(name: str, labels: Sequence[object] | None) -> Sequence[object] | None:
    """Copy the coordinates of a public dimension; refuse any that are not names, numbers or dates."""
    if labels is None:
        return None
    labels = [plain(label) for label in labels]
    for label in labels:
        of_numpy = isinstance(label, np.generic) and not isinstance(label, np.void)
        if not (label is None or of_numpy or type(label) in _LABELS):
            raise PrivacyError(
                f"Coordinates of {name!r} have a {type(label).__name__} among them.\n"
                "  Why this is refused: coordinates are published with the model, and it may hold records.\n"
                "  How to fix it: give names, numbers or dates."
            )
    return deepcopy(labels)


def plain[Name](name: Name) -> Name:
    """Convert a text of a subclass of str to str: a member of an Enum would take its class along."""
    return cast(Name, str.__str__(name)) if isinstance(name, str) else name
