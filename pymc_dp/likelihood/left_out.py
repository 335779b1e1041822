"""What keeps arrays of records out of a public model, and looks whether it did."""

import io
from collections.abc import Sequence

import cloudpickle
import numpy as np
import pytensor.tensor as pt
from pytensor import sparse
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.type import HasShape, Type
from pytensor.graph.utils import Scratchpad
from pytensor.sparse.type import SparseTensorType
from scipy.sparse import csr_matrix

from pymc_dp.errors import PrivacyError
from pymc_dp.records import graph
from pymc_dp.records.arrays import FEW
from pymc_dp.records.several_tables import Records


def stand_ins(records: Records) -> dict[Variable, Variable]:
    """Zeros of the shape of each array of records, without the number of records where that is private."""
    known = records.neighboring_relation == "substitute" and records.unit_of_row is None
    hidden = set() if known else _numbers_of_rows(records)
    found: dict[Variable, Variable] = {}
    for leaf, original in arrays_of_records(records).items():
        # Any length of an axis of records where their number is private: nothing public depends on it.
        shape = [2 if size in hidden else int(size) for size in np.shape(graph.leaf_value(original))]
        if isinstance(leaf.type, SparseTensorType):
            found[leaf] = sparse.as_sparse_variable(csr_matrix(tuple(shape), dtype=leaf.type.dtype))
        elif isinstance(original.type, SparseTensorType):
            # Entries of each row of a sparse matrix, as many as the fullest row has.
            found[leaf] = pt.zeros((shape[0], 1), dtype=leaf.type.dtype)
        else:
            found[leaf] = pt.zeros(tuple(shape), dtype=leaf.type.dtype)
    return found


def check_public(records: Records, graphs: Sequence[Variable]) -> None:
    """Refuse an array that may hold records and is not one of those that zeros stand in for."""
    arrays, declared, lengths = arrays_of_records(records), _declared(records), _numbers_of_rows(records)
    for leaf in [*graph.data_leaves(graphs), *graph.inner_leaves(graphs)]:
        known = leaf in arrays or leaf in declared
        shape = np.shape(graph.leaf_value(leaf)) if isinstance(leaf.type, HasShape) else ()
        if not known and not lengths.isdisjoint(shape):
            raise PrivacyError(
                "The public part of the model reads an array as long as there are records that is not "
                "declared as public: it cannot be published."
            )


def arrays_of_records(records: Records) -> dict[Variable, Variable]:
    """Arrays of the records of all tables, from what is read to the model's own."""
    return {
        leaf: original for table in records.tables for leaf, original in table.reading.opaque.original.items()
    }


def _declared(records: Records) -> set[Variable]:
    return set().union(*(table.reading.data.declared for table in records.tables))


def _numbers_of_rows(records: Records) -> set[int]:
    return {table.n_rows for table in records.tables}


class Inspector(cloudpickle.Pickler):
    """Looks at all that would be in a pickle: refuses what is as long as there are records, forgets notes.

    Code goes along with a model: a function of the user's, in a prior or a transform, has a table with it if
    it refers to one. PyTensor notes at each node which lines of the program made it, and with them what is
    written there. Graphs inside of Ops and transforms are the user's own: these lose their notes as well,
    which are of use in messages only.
    """

    def __init__(self, records: Records):
        super().__init__(io.BytesIO())
        self._sizes = {size for size in records.lengths if size > FEW}
        # Arrays that are declared as public, and initial values of variables that are.
        known = [graph.leaf_value(leaf) for leaf in _declared(records)]
        self._known = {np.shape(value) for value in (*known, *records.reading.start.values())}

    def inspect(self, value: object) -> None:
        """Raise PrivacyError if there is such a thing."""
        self.dump(value)

    def persistent_id(self, value: object) -> None:
        """Look at an object; pickle calls this for each, before it takes it apart."""
        if isinstance(value, Apply | Variable):
            notes, value.tag = value.tag, Scratchpad()
            for name in ("lower_triangular", "upper_triangular"):  # which PyTensor's code looks for
                if hasattr(notes, name):
                    setattr(value.tag, name, getattr(notes, name))
        shape = None if isinstance(value, Type | Variable) else getattr(value, "shape", None)
        numbers = bool | int | float | np.number
        if isinstance(value, list | tuple | set | frozenset) and all(isinstance(v, numbers) for v in value):
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
