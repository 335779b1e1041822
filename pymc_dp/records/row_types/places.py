"""Whether public numbers stand for every record alike, or differ by the place that a record has."""

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, NominalVariable, Variable
from pytensor.graph.type import HasShape
from pytensor.tensor.basic import Alloc, AllocEmpty, ExtractDiag, Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import IncSubtensor, Subtensor, indices_from_subtensor

from pymc_dp.records.row_types.ops import known_shape


def one_value(variable: Variable, axis: int) -> bool:
    """Whether all entries of a public variable along an axis are one number, by construction.

    A constant counts by its numbers: it is public, or was computed of sizes.
    """
    ndim = variable.type.ndim if isinstance(variable.type, HasShape) else 0
    if axis >= ndim or variable.type.shape[axis] == 1:
        return True
    if isinstance(variable, NominalVariable):  # of an inner graph: what stands for it is looked at outside
        return True
    if variable.owner is None:
        return isinstance(variable, Constant) and _is_one_number(variable.data, axis)
    node, (x, *rest) = variable.owner, variable.owner.inputs
    match node.op:
        case Elemwise():
            return all(one_value(v, axis) for v in node.inputs)
        case Join():
            return axis != node.op.axis and all(one_value(v, axis) for v in node.inputs)
        case CumOp() | SortOp() | ArgSortOp():
            swept = node.op.axis
            return swept is not None and axis != swept % ndim and one_value(x, axis)
        case Blockwise():
            return axis < node.op.batch_ndim(node) and all(one_value(v, axis) for v in node.inputs)
        case DimShuffle():
            return one_value(x, int(node.op.new_order[axis]))  # an axis that is new has length 1
        case OpFromGraph():
            within = node.op.fgraph
            outputs = within.bind(dict(zip(within.inputs, node.inputs, strict=True)))
            return one_value(outputs[node.outputs.index(variable)], axis)
        case AllocEmpty():  # what was written is looked at where it is written
            return True
        case Alloc():
            before = axis - ndim + x.type.ndim
            return before < 0 or one_value(x, before)
        case CAReduce():
            reduced = range(x.type.ndim) if node.op.axis is None else node.op.axis
            return one_value(x, [a for a in range(x.type.ndim) if a not in reduced][axis])
        case ExtractDiag():
            left = [a for a in range(x.type.ndim) if a not in (node.op.axis1, node.op.axis2)]
            return axis < len(left) and one_value(x, left[axis])
        case Subtensor():
            return one_value(x, _axes_left(node)[axis])
        case IncSubtensor():
            y, left = rest[0], _axes_left(node)
            if axis not in left or not _is_whole(node, axis):
                return False
            written = left.index(axis) - len(left) + y.type.ndim
            return one_value(x, axis) and (written < 0 or one_value(y, written))
    return False


def same_for_all(variable: Variable, n_rows: int, first: int = 0) -> bool:
    """Whether a public variable is the same along all axes, from the first on, as long as records."""
    shape = known_shape(variable)
    return all(
        one_value(variable, axis) for axis, length in enumerate(shape) if length == n_rows and axis >= first
    )


def _is_one_number(values: np.ndarray, axis: int) -> bool:
    array = np.asarray(values)
    return array.size > 0 and bool(np.all(array == np.take(array, [0], axis=axis)))


def _indices(node: Apply) -> list[object]:
    first = 2 if isinstance(node.op, IncSubtensor) else 1
    return list(indices_from_subtensor(node.inputs[first:], node.op.idx_list))


def _axes_left(node: Apply) -> list[int]:
    """Axes of what is indexed that are left."""
    whole = [a for a, index in enumerate(_indices(node)) if isinstance(index, slice)]
    return [*whole, *range(len(_indices(node)), node.inputs[0].type.ndim)]


def _is_whole(node: Apply, axis: int) -> bool:
    indices = _indices(node)
    return axis >= len(indices) or indices[axis] == slice(None)
