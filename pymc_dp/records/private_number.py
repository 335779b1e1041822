"""Private numbers with which a graph is written: how many records there are, how many entries are not zero.

PyTensor treats a length in a type as a constant, and simplifies what is computed from it: the graph would no
longer show what depends on the number of records. It is removed from the types of variables and from the
sizes of distributions. Sparse matrices of records become dense ones, whose width is public.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.logprob.abstract import MeasurableOp
from pytensor.compile.builders import OpFromGraph
from pytensor.graph import Apply, Constant, Variable, ancestors
from pytensor.sparse import Dot, SparseTensorType, StructuredDot
from pytensor.tensor import TensorVariable
from scipy.sparse import csr_matrix

from pymc_dp.records.graph import Change, flatten, leaf_value, rewritten, size_of_draws
from pymc_dp.records.refusals import refuse_shape_by_numbers
from pymc_dp.records.row_types.ops import known_shape


def find_number(hidden: Mapping[Variable, Variable], number: int) -> Variable | None:
    """Return the number of records as a graph: the length of an array with an axis of records."""
    shapes = ((new, np.shape(leaf_value(leaf))) for leaf, new in hidden.items())
    return next((new.shape[shape.index(number)] for new, shape in shapes if number in shape), None)


def size_of_records(node: Apply, inputs: Sequence[Variable], number: int, graph: Variable) -> list[Variable]:
    """Return the inputs of a random variable, with a graph in the place of `number` in its size."""
    found, size = list(inputs), size_of_draws(node)
    for k, old in enumerate(node.inputs):
        if old is size:
            leaves = [v for v in ancestors([inputs[k]]) if isinstance(v, Constant)]
            read: dict[Variable, Variable] = {}
            read |= {v: with_length(v.data, number, graph) for v in leaves if has_length(v.data, number)}
            found[k] = rewritten([inputs[k]], lambda node, inputs: None, read)[0]
    return found


def has_length(data: np.ndarray, number: int) -> bool:
    """Return whether a whole number, or a vector of them, has that number."""
    data = np.asarray(data)
    return data.dtype.kind in "iu" and data.ndim < 2 and number in data


def with_length(data: np.ndarray, number: int, graph: Variable) -> Variable:
    """Rebuild a length, or a vector of lengths, with a graph in the place of a number."""
    read = [graph if length == number else pt.constant(length) for length in np.ravel(data)]
    lengths = [pt.cast(length, "int64") for length in read]
    return pt.stack(lengths) if np.ndim(data) else lengths[0]


def with_other_types(
    node: Apply, inputs: Sequence[Variable], number: int | None, change: Change
) -> list[Variable] | None:
    """Rebuild an operation with an inner graph for inputs some of whose lengths are no longer known.

    Parameters
    ----------
    number : int or None
        Number of records, where that is private.
    change : callable
        Replaces nodes of the inner graph, as for `rewritten`.

    Returns
    -------
    list of Variable or None
        None: all lengths are known as before.

    Raises
    ------
    ModelRefusedError
        The operation is a distribution, and the entries of an array decided one of its lengths.
    """
    lost = {length for each in zip(inputs, node.inputs, strict=True) for length in _lost_lengths(*each)}
    stays = any(number is not None and number in known_shape(out) for out in node.outputs)
    if not lost and not stays:
        return None
    op = cast(OpFromGraph, node.op)
    if not isinstance(op, MeasurableOp):
        return flatten(op.fgraph.bind(dict(zip(op.fgraph.inputs, inputs, strict=True))))
    if lost - {number}:
        raise refuse_shape_by_numbers()
    old, new = [kind() for kind in op.input_types], [v.type() for v in inputs]
    within = op.fgraph.bind(dict(zip(op.fgraph.inputs, old, strict=True)))
    outputs = rewritten(within, change, dict(zip(old, new, strict=True)))
    made = copy.copy(op)
    OpFromGraph.__init__(made, new, outputs, inline=op.is_inline, name=op.name, on_unused_input="ignore")
    return made.make_node(*inputs).outputs


def _lost_lengths(new: Variable, old: Variable) -> list[int]:
    """Return the lengths that the type of `old` has, and that of `new` does not."""
    lengths = zip(known_shape(new), known_shape(old), strict=False)
    return [before for now, before in lengths if before is not None and now != before]


def without_sparse_products(
    graphs: Sequence[Variable], private: Collection[Variable]
) -> tuple[list[Variable], dict[Variable, Variable]]:
    """Rewrite products of sparse matrices of records with dense ones as products of dense matrices.

    Returns
    -------
    graphs : list of Variable
    original : dict of Variable to Variable
        From the array that replaces a matrix to that matrix.

    Notes
    -----
    **Privacy.** How many entries of a row are not zero is a private number. An array that held these alone
    would be as wide as the fullest row: its shape, which is taken to be public, would be a function of that
    record, and so would be how sums over the other rows are rounded.
    """
    dense: dict[Variable, TensorVariable] = {}

    def change(node: Apply, inputs: list[Variable]) -> list[Variable] | None:
        if not isinstance(node.op, Dot | StructuredDot) or node.inputs[0] not in private:
            return None
        matrix, factor = inputs
        if matrix.type.format != "csr" or isinstance(factor.type, SparseTensorType):
            return None
        if matrix not in dense:
            dense[matrix] = pytensor.shared(_dense(leaf_value(matrix)), borrow=True)
        return [pt.dot(dense[matrix], factor)]

    found = rewritten(graphs, change)
    return found, {array: matrix for matrix, array in dense.items()}


def _dense(matrix: csr_matrix) -> np.ndarray:
    """Return a matrix as an array, in which a row with a column number out of range is NaN.

    SciPy's `toarray` trusts column numbers: one that is out of range is in another row, or other memory.
    """
    (n, width), stored = matrix.shape, min(len(matrix.data), len(matrix.indices))
    starts = np.clip(matrix.indptr[:-1].astype(np.int64), 0, stored)
    counts = np.clip(matrix.indptr[1:].astype(np.int64), starts, stored) - starts
    row = np.repeat(np.arange(n), counts)
    entry = np.arange(len(row)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    column, found = matrix.indices[entry].astype(np.int64), np.zeros((n, width))
    fits = (column >= 0) & (column < width)
    with np.errstate(all="ignore"):
        np.add.at(found, (row[fits], column[fits]), matrix.data[entry][fits])
    found[row[~fits]] = np.nan
    return found
