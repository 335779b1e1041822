"""Positions (indices) at which compiled code reads and writes: proved to be in range, or limited to it.

Compiled code does not check indices: a position beyond the table would read whatever is in memory there,
perhaps another record, or end the process. A negative position counts from the end, as in NumPy: positions in
a table of length K are -K, ..., K - 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.graph import Apply, Constant, Op, Variable, ancestors, clone_replace
from pytensor.graph.type import HasShape
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import ScalarType
from pytensor.tensor import TensorVariable
from pytensor.tensor.basic import Alloc, ARange, Nonzero, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)

WRITES = (IncSubtensor, AdvancedIncSubtensor)
# Ops that select, reorder or copy numbers of their first input, and change none.
_SELECTS = (
    DimShuffle,
    Reshape,
    SpecifyShape,
    JoinDims,
    SplitDims,
    Alloc,
    Subtensor,
    AdvancedSubtensor,
    ScalarFromTensor,
    TensorFromScalar,
)
Bounds = tuple[float, float]
# Length of a table.
type Size = TensorVariable | int


class Position(NamedTuple):
    """An index of a look-up or of a write.

    Attributes
    ----------
    place : int
        Number of the node's input.
    axis : int
        Axis of the table that it indexes.
    batch : int
        Number of the index's leading batch axes (`Blockwise`).
    """

    place: int
    axis: int
    batch: int


def core(node: Apply) -> Op:
    """Return the Op of a node, or the Op that it applies to a batch."""
    return node.op.core_op if isinstance(node.op, Blockwise) else node.op


def indexes(node: Apply) -> bool:
    """Return whether a node reads or writes at positions."""
    return isinstance(core(node), (Subtensor, AdvancedSubtensor, *WRITES))


def positions(node: Apply) -> list[Position]:
    """Return the positions of a node that `indexes`, without the ends of slices, which are cut to range."""
    return [Position(*found) for found in _arrays(node) if node.inputs[found[0]].type.dtype != "bool"]


def masks(node: Apply) -> list[tuple[int, int]]:
    """Return the inputs of a node that are masks, and the first axis of the table that each selects from."""
    return [found[:2] for found in _arrays(node) if node.inputs[found[0]].type.dtype == "bool"]


def _arrays(node: Apply) -> Iterator[tuple[int, int, int]]:
    """Yield for each index that is no slice: its input's number, its first axis of the table, batch axes."""
    op = core(node)
    batch = node.op.batch_ndim(node) if isinstance(node.op, Blockwise) else 0
    axis = batch
    inputs: list[Any] = list(range(2 if isinstance(op, WRITES) else 1, len(node.inputs)))
    places = cast(Sequence[int | slice], indices_from_subtensor(inputs, op.idx_list))
    for place in places:
        if isinstance(place, slice):
            axis += 1
            continue
        yield place, axis, batch
        index = node.inputs[place]
        axis += index.type.ndim - batch if index.type.dtype == "bool" else 1


def bounds(variable: Variable) -> Bounds:
    """Return numbers between which all entries of a variable are, whatever the data are."""
    node = variable.owner
    lowest, highest = _bounds_of_type(variable.type.dtype)
    if isinstance(variable, Constant):
        data = np.asarray(variable.data)
        return (float(data.min()), float(data.max())) if data.size else (0.0, 0.0)
    if node is None:
        return lowest, highest
    low, high = _bounds_of_result(node)
    # Numbers that overflow the type may become anything in it.
    return (low, high) if lowest <= low and high <= highest else (lowest, highest)


def _bounds_of_type(dtype: str) -> Bounds:
    kind = np.dtype(dtype).kind
    if kind == "b":
        return 0.0, 1.0
    if kind in "iu":
        return float(np.iinfo(dtype).min), float(np.iinfo(dtype).max)
    return -np.inf, np.inf


def _bounds_of_result(node: Apply) -> Bounds:
    op = node.op
    if isinstance(op, Elemwise):
        return _bounds_of_number(op.scalar_op, node)
    if isinstance(op, _SELECTS):
        return bounds(node.inputs[0])
    if isinstance(op, ARange):
        (start, _), (_, stop), (step, _) = (bounds(v) for v in node.inputs)
        return (start, stop - 1) if step > 0 else (-np.inf, np.inf)
    return (0.0, np.inf) if isinstance(op, Nonzero) else (-np.inf, np.inf)


def _bounds_of_number(op: Op, node: Apply) -> Bounds:
    """Return bounds of clipped, cast or copied integers; none for floats, since NaN is within no bounds."""
    if any(np.dtype(v.type.dtype).kind == "f" for v in node.inputs):
        return -np.inf, np.inf
    given = [bounds(v) for v in node.inputs]
    if isinstance(op, ps.Clip):
        (low, high), least, most = given
        return max(least[0], min(low, most[0])), min(most[1], max(high, least[1]))
    return given[0] if isinstance(op, ps.Cast | ps.Identity) else (-np.inf, np.inf)


def length(table: Variable, axis: int, shapes: Mapping[Variable, tuple[int, ...]] | None = None) -> Size:
    """Return the length of a table along an axis: a number if types have it, else a graph of its shape.

    Parameters
    ----------
    table : Variable
    axis : int
    shapes : mapping of Variable to tuple of int, optional
        Shapes of variables whose types may not have them.
    """
    known = table
    given = {v: shapes[v] for v in ancestors([table]) if v in shapes} if shapes else {}
    if given:
        stand_ins: dict[Variable, Variable] = {
            v: pt.tensor(dtype=v.type.dtype, shape=shape) for v, shape in given.items()
        }
        (known,) = clone_replace([table], stand_ins, rebuild_strict=False)
    size = known.type.shape[axis]
    return Shape_i(axis).make_node(table).outputs[0] if size is None else size


def is_proved(index: Variable, size: Size) -> bool:
    """Return whether an index is in range of a table of that length, whatever the data are."""
    if isinstance(index.type, HasShape) and 0 in index.type.shape:
        return True  # it has no entry
    if isinstance(size, Variable):
        return _counts_to(index, size)
    low, high = bounds(index)
    return -size <= low and high <= size - 1


def _counts_to(index: Variable, size: Variable) -> bool:
    """Return whether an index is 0, 1, ..., size - 1, or a part of it, by construction."""
    node = index.owner
    while node is not None and isinstance(node.op, DimShuffle | Reshape):
        node = node.inputs[0].owner
    if node is None or not isinstance(node.op, ARange):
        return False
    if bounds(node.inputs[0])[0] < 0 or bounds(node.inputs[2])[0] <= 0:
        return False
    stop = node.inputs[1]
    while stop.owner is not None and isinstance(stop.owner.op, ScalarFromTensor | TensorFromScalar):
        stop = stop.owner.inputs[0]
    own, asked = stop.owner, size.owner
    if own is None or asked is None or own.op != asked.op:
        return False
    return isinstance(own.op, Shape_i) and own.inputs[0] is asked.inputs[0]


def in_range(index: Variable, size: Size) -> TensorVariable:
    """Compute, entry by entry, whether a table of that length has the position."""
    index = as_tensor(index)
    return pt.and_(pt.ge(index, -size), pt.lt(index, size))


def limited(index: Variable, size: Size) -> Variable:
    """Limit an index: where it is out of range it becomes the first or the last position."""
    if isinstance(size, Variable):
        nothing = "a position in a table that has no entries"
        some = pt.or_(pt.gt(size, 0), pt.eq(as_tensor(index).size, 0))
        size = CheckAndRaise(IndexError, nothing).make_node(size, some).outputs[0]
    elif size == 0:
        raise IndexError("a model reads a table that has no entries")
    position = pt.clip(pt.cast(as_tensor(index), "int64"), -size, size - 1)
    return pt.scalar_from_tensor(position) if isinstance(index.type, ScalarType) else position


def as_tensor(index: Variable) -> Variable:
    """Convert an index to a tensor: a single position may be a scalar that is none."""
    return TensorFromScalar().make_node(index).outputs[0] if isinstance(index.type, ScalarType) else index
