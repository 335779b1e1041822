"""What keeps arrays of records out of a public model, and looks whether it did."""

import io
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from types import CodeType, FunctionType

import cloudpickle
import numpy as np
import pytensor.tensor as pt
from pytensor import sparse
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.type import HasShape, Type
from pytensor.graph.utils import Scratchpad
from pytensor.sparse.type import SparseTensorType
from scipy.sparse import csr_matrix

from pymc_dp.errors import PrivacyError
from pymc_dp.records import graph
from pymc_dp.records.arrays import FEW
from pymc_dp.records.several_tables import Records

# What may be in a pickle beside public arrays: so many numbers or names at one place.
_MOST = 50
_TEXT = (str, bytes, bytearray)
_CONTAINERS = (*_TEXT, list, tuple, set, frozenset, deque, Mapping)
_OF_MODELS, _LIBRARIES = (Variable, Apply, Type, FunctionType, type), {"pytensor", "pymc"}


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
    """Looks at all that would be in a pickle: refuses what may hold a table of records, forgets notes.

    Code goes along with a model: a function of the user's, in a prior or a transform, has a table with it if
    it refers to one, as an array, a dictionary, a list of pairs or text. So nothing is let through that holds
    more than a few numbers and names, but for public arrays, those that the graphs read, code and what
    describes it.
    PyTensor notes at each node which lines of the program made it, and with them what is written there.
    Graphs inside of Ops and transforms are the user's own: these lose their notes as well, which are of use
    in messages only.
    """

    def __init__(self, records: Records, graphs: Sequence[Variable] = ()):
        super().__init__(io.BytesIO())
        leaves = [*graph.data_leaves(graphs), *graph.inner_leaves(graphs)]
        self._of_graphs = {id(graph.leaf_value(leaf)) for leaf in leaves}  # see `check_public`
        self._sizes = {size for size in records.lengths if size > FEW}
        # Arrays that are declared as public, and initial values of variables that are.
        known = [graph.leaf_value(leaf) for leaf in _declared(records)]
        self._known = {np.shape(value) for value in (*known, *records.reading.start.values())}
        self._documentation: set[str] = set()

    def inspect(self, value: object) -> None:
        """Raise PrivacyError if there is such a thing."""
        self.dump(value)

    def persistent_id(self, value: object) -> str | None:
        """Look at an object; pickle calls this for each, before it takes it apart.

        Returns
        -------
        str or None
            Not None: there is nothing to be taken apart.
        """
        if isinstance(value, Apply | Variable):
            notes, value.tag = value.tag, Scratchpad()
            for name in ("lower_triangular", "upper_triangular"):  # which PyTensor's code looks for
                if hasattr(notes, name):
                    setattr(value.tag, name, getattr(notes, name))
        if isinstance(value, FunctionType | type | Op) and value.__doc__:
            self._documentation.add(value.__doc__)
        if isinstance(value, CodeType):
            self._refuse_many(value.co_consts)
            for constant in value.co_consts:
                self.persistent_id(constant)
            return "code"
        shape = None if isinstance(value, Type | Variable) else getattr(value, "shape", None)
        if isinstance(shape, tuple) and shape not in self._known and self._as_long(shape):
            raise self._refusal(value, "that is as long as there are records")
        if isinstance(value, np.ndarray) and value.dtype.kind not in "OSU":
            if value.size > _MOST and shape not in self._known and id(value) not in self._of_graphs:
                raise self._refusal(value, "that is neither an array of the model's own nor a public one")
            return "numbers"
        self._refuse_many(value)
        return None

    def _as_long(self, shape: tuple[object, ...]) -> bool:
        """Whether an axis is as long as there are records; a vector, as long as several columns of them."""
        several = [n % size == 0 for n in shape[:1] for size in self._sizes if isinstance(n, int) and n]
        return not self._sizes.isdisjoint(shape) or (len(shape) == 1 and any(several))

    def _refuse_many(self, value: object) -> None:
        if isinstance(value, np.ndarray):
            value = np.ravel(value).tolist()
        if not isinstance(value, _CONTAINERS):
            return
        many = _amount(value, self._documentation)
        of_records = not isinstance(value, _TEXT) and len(value) in self._sizes and many >= len(value)
        if many > _MOST or of_records:
            raise self._refusal(value, "with more than a few numbers or names")

    @staticmethod
    def _refusal(value: object, what: str) -> PrivacyError:
        return PrivacyError(
            f"The public part of the model holds a {type(value).__name__} {what}.\n"
            "  Why this is refused: what is released has the priors with it, their code too: a function of "
            "yours (CustomDist, a transform) that refers to a table takes it along.\n"
            "  How to fix it: let the function read its arguments and plain numbers alone, or give the model "
            "the numbers as an array and declare it with public=."
        )


def _amount(value: object, documentation: Collection[str]) -> int:
    """How many numbers and names there are, about: a name has ten letters. Names of attributes are none."""
    if isinstance(value, _TEXT):
        return 0 if value in documentation else 1 + len(value) // 10
    if isinstance(value, Mapping):
        keys = [key for key in value if not (isinstance(key, str) and key.isidentifier())]
        return _amount([*keys, *value.values()], documentation)
    if isinstance(value, _CONTAINERS):
        return sum(_amount(one, documentation) for one in value)
    if isinstance(value, int):
        return 1 + value.bit_length() // 64
    if isinstance(value, np.ndarray):
        return 0  # is looked at by itself
    # Nodes, types and functions are as many as a model has.
    return int(not isinstance(value, _OF_MODELS) and type(value).__module__.split(".")[0] not in _LIBRARIES)
