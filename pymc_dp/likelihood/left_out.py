"""What keeps arrays of records out of a public model, and looks whether it did."""

import io
from collections.abc import Sequence
from typing import Any

import cloudpickle
import numpy as np
import pytensor.tensor as pt
from pytensor import sparse
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.type import Type
from pytensor.graph.utils import Scratchpad
from pytensor.sparse.type import SparseTensorType
from scipy.sparse import csr_matrix

from pymc_dp.errors import PrivacyError
from pymc_dp.records import graph
from pymc_dp.records.arrays import FEW
from pymc_dp.records.model import RecordModel

# Length of an axis of records where their number is private: nothing public depends on it.
_ANY_LENGTH = 2
# What PyTensor notes about a variable and its code looks for.
_KEPT_NOTES = ("lower_triangular", "upper_triangular")
_NUMBERS = (bool, int, float, np.number)


def stand_ins(records: RecordModel) -> dict[Variable, Variable]:
    """Zeros of the shape of each array of records, without the number of records where that is private."""
    known = records.neighboring_relation == "substitute" and records.unit_of_row is None
    length = records.n_rows if known else _ANY_LENGTH
    found: dict[Variable, Variable] = {}
    for leaf, original in records.reading.opaque.original.items():
        shape = [
            length if size == records.n_rows else int(size) for size in np.shape(graph.leaf_value(original))
        ]
        if isinstance(leaf.type, SparseTensorType):
            found[leaf] = sparse.as_sparse_variable(csr_matrix(tuple(shape), dtype=leaf.type.dtype))
        elif isinstance(original.type, SparseTensorType):
            # Entries of each row of a sparse matrix, as many as the fullest row has.
            found[leaf] = pt.zeros((length, 1), dtype=leaf.type.dtype)
        else:
            found[leaf] = pt.zeros(tuple(shape), dtype=leaf.type.dtype)
    return found


def check_public(records: RecordModel, graphs: Sequence[Variable]) -> None:
    """Refuse an array that may hold records and is not one of those that zeros stand in for."""
    reading = records.reading
    for leaf in [*graph.data_leaves(graphs), *graph.inner_leaves(graphs)]:
        known = leaf in reading.opaque.original or leaf in reading.declared
        shape = np.shape(graph.leaf_value(leaf)) if hasattr(leaf.type, "ndim") else ()
        if not known and records.n_rows in shape:
            raise PrivacyError(
                "The public part of the model reads an array as long as there are records that is not "
                "declared as public: it cannot be published."
            )


class Inspector(cloudpickle.Pickler):
    """Looks at all that would be in a pickle: refuses what is as long as there are records, forgets notes.

    Code goes along with a model: a function of the user's, in a prior or a transform, has a table with it if
    it refers to one. PyTensor notes at each node which lines of the program made it, and with them what is
    written there. Graphs inside of Ops and transforms are the user's own: these lose their notes as well,
    which are of use in messages only.
    """

    def __init__(self, records: RecordModel):
        super().__init__(io.BytesIO())
        self._sizes = {size for size in (records.n_rows, records.n) if size > FEW}
        # Arrays that are declared as public, and initial values of variables that are.
        known = [graph.leaf_value(leaf) for leaf in records.reading.declared]
        self._known = {np.shape(value) for value in (*known, *records.reading.start.values())}

    def inspect(self, value: Any) -> None:
        """Raise PrivacyError if there is such a thing."""
        self.dump(value)

    def persistent_id(self, value: Any) -> None:
        """Look at an object; pickle calls this for each, before it takes it apart."""
        if isinstance(value, Apply | Variable):
            notes, value.tag = value.tag, Scratchpad()
            for name in _KEPT_NOTES:
                if hasattr(notes, name):
                    setattr(value.tag, name, getattr(notes, name))
        shape = None if isinstance(value, Type | Variable) else getattr(value, "shape", None)
        if isinstance(value, list | tuple | set | frozenset) and all(isinstance(v, _NUMBERS) for v in value):
            shape = (len(value),)
        if isinstance(shape, tuple) and shape not in self._known and self._sizes & set(shape):
            raise PrivacyError(
                f"The public part of the model holds a {type(value).__name__} that is as long as there are "
                "records.\n"
                "  Why this is refused: what is released has the priors with it, their code too: a function "
                "of yours (CustomDist, a transform) that refers to a table takes it along.\n"
                "  How to fix it: let the function read its arguments and plain numbers alone, or declare "
                "the array with public=."
            )
