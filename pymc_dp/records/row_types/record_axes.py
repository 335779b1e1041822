"""Which variables are provably the number of records, have such a length, or are positions 0, ..., n - 1."""

from collections.abc import Callable

from pytensor.graph import Variable
from pytensor.tensor.basic import Alloc, AllocEmpty, ARange, Join, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape_i
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor, Subtensor

from pymc_dp.records.row_types.ops import (
    axes_in,
    holds,
    indices_of,
    keeps,
    known_shape,
    public_number,
    sizes_of,
)
from pymc_dp.records.row_types.types import Rows, Typing


def is_length(typing: Typing, variable: Variable | int) -> bool:
    """Return whether a scalar is the number of records by construction."""
    node = variable.owner if isinstance(variable, Variable) else None
    if isinstance(variable, int) or node is None:
        return public_number(variable) == typing.n_rows
    if (of := _whose_length(variable)) is not None:
        return is_as_long(typing, *of)
    if isinstance(node.op, Subtensor) and len(node.op.idx_list) == 1:
        (index,) = indices_of(node)
        vector, sizes = node.inputs[0].owner, sizes_of(node.inputs[0])
        if vector is not None and isinstance(vector.op, DimShuffle):  # a vector of one number
            return vector.inputs[0].type.ndim == 0 and is_length(typing, vector.inputs[0])
        place = None if isinstance(index, slice) else public_number(index)
        return place is not None and sizes is not None and is_length(typing, sizes[place])
    if isinstance(node.op, Elemwise) and type(node.op.scalar_op).__name__ == "Mul":
        rest = [v for v in node.inputs if public_number(v) != 1]
        return variable.type.ndim == 0 and len(rest) == 1 and is_length(typing, rest[0])
    if isinstance(node.op, ScalarFromTensor | TensorFromScalar | DimShuffle) or keeps(node, typing.n_rows):
        return is_length(typing, node.inputs[0])
    return False


def _whose_length(number: Variable) -> tuple[Variable, int] | None:
    """Return the tensor and the axis whose length a scalar is, as the graph is written; or None."""
    node = number.owner
    if node is not None and isinstance(node.op, Shape_i):
        return node.inputs[0], node.op.i
    if node is None or not isinstance(node.op, Subtensor) or len(node.op.idx_list) != 1:
        return None
    (index,) = indices_of(node)
    place = None if isinstance(index, slice) else public_number(index)
    of, axes = axes_in(node.inputs[0])
    if of is None or place is None or not -len(axes) <= place < len(axes):
        return None
    return of, axes[place]


def is_as_long(typing: Typing, tensor: Variable, axis: int) -> bool:
    """Return whether an axis of a tensor is as long as there are records, by construction."""
    shape = known_shape(tensor)
    if not 0 <= axis < len(shape) or shape[axis] == 1:
        return False
    if _axis_of_records(typing, tensor, axis):
        return True
    node = tensor.owner
    match None if node is None else node.op:
        case Alloc():
            return is_length(typing, node.inputs[1 + axis])
        case AllocEmpty():
            return is_length(typing, node.inputs[axis])
        case IncSubtensor() | AdvancedIncSubtensor():
            return is_as_long(typing, node.inputs[0], axis)
        case Elemwise():
            return any(is_as_long(typing, v, axis) for v in node.inputs)
        case DimShuffle():
            before = node.op.new_order[axis]
            return before != "x" and is_as_long(typing, node.inputs[0], int(before))
        case Join():
            return axis != node.op.axis and any(is_as_long(typing, v, axis) for v in node.inputs)
    return False


def _axis_of_records(typing: Typing, tensor: Variable, axis: int) -> bool:
    shape = known_shape(tensor)
    return typing.of(tensor) == Rows(axis) or (axis < len(shape) and shape[axis] == typing.n_rows)


def record_range(typing: Typing, variable: Variable) -> int | None:
    """Return the axis along which a variable is 0, 1, ..., n - 1 by construction; others have length 1."""
    return _range(typing, variable, lambda stop: is_length(typing, stop))


def is_range_of(typing: Typing, variable: Variable, tensor: Variable, axis: int) -> bool:
    """Return whether a variable is all positions 0, 1, ... along an axis of a tensor, by construction."""
    length = tensor.type.shape[axis]

    def is_stop(stop: Variable) -> bool:
        return (length is not None and public_number(stop) == length) or _whose_length(stop) == (tensor, axis)

    return _range(typing, variable, is_stop) is not None


def _range(typing: Typing, variable: Variable, is_stop: Callable[[Variable], bool]) -> int | None:
    node = variable.owner
    if node is None:
        return None
    if isinstance(node.op, ARange):
        start, stop, step = node.inputs
        whole = public_number(start) == 0 and public_number(step) == 1 and is_stop(stop)
        return 0 if whole and holds(node.op.dtype, typing.n_rows) else None
    if isinstance(node.op, DimShuffle):
        axis = _range(typing, node.inputs[0], is_stop)
        order = list(node.op.new_order)
        return order.index(axis) if axis in order else None
    if isinstance(node.op, Reshape):
        # All axes but one must have length 1.
        sizes = sizes_of(node.inputs[1]) or []
        long = [a for a, size in enumerate(sizes) if public_number(size) != 1]
        return long[0] if len(long) == 1 and _range(typing, node.inputs[0], is_stop) is not None else None
    return _range(typing, node.inputs[0], is_stop) if keeps(node, typing.n_rows) else None
