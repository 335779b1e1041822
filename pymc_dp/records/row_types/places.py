"""Whether public numbers are the same for every record, or differ by the position of a record."""

from collections.abc import Callable, Mapping

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph import Apply, Constant, Variable
from pytensor.tensor.basic import Alloc, AllocEmpty, ExtractDiag, Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import IncSubtensor, Subtensor

from pymc_dp.records.row_types.ops import indices_of, known_shape

#: Function that returns whether all entries along an axis are one number.
type Along = Callable[[int], bool]


class OneValue:
    """Decides whether all entries of a public variable along an axis are one number, by construction.

    The entries of constants are looked at: a constant is public, or was computed from sizes.

    Parameters
    ----------
    stands_for : mapping of Variable to callable
        For the inputs of a graph within an Op: a function of an axis of the input, with the answer from the
        outer graph.
    """

    def __init__(self, stands_for: Mapping[Variable, Along] | None = None):
        self._stands_for = {} if stands_for is None else stands_for
        # Answers that do not depend on suppositions about the states of a loop.
        self._found: dict[tuple[Variable, int], bool] = {}
        self._supposed: set[tuple[Variable, int]] = set()

    def __call__(self, variable: Variable, axis: int) -> bool:
        """Return whether entries along an axis are one number; true for length 1, or without that axis."""
        shape = known_shape(variable)
        if not 0 <= axis < len(shape) or shape[axis] == 1:
            return True
        if self._supposed:
            return self._looked_up(variable, axis)
        if (variable, axis) not in self._found:
            self._found[variable, axis] = self._looked_up(variable, axis)
        return self._found[variable, axis]

    def throughout(self, state: Variable, axis: int, step: Variable) -> bool:
        """Return whether a loop's state that starts as one number along an axis stays so after each step.

        By induction: it is supposed of the state, and then has to follow for the step's result.
        """
        if (state, axis) in self._supposed:
            return True
        self._supposed.add((state, axis))
        try:
            return self(step, axis)
        finally:
            self._supposed.remove((state, axis))

    def _looked_up(self, variable: Variable, axis: int) -> bool:
        if variable in self._stands_for:
            return self._stands_for[variable](axis)
        if variable.owner is None:
            return isinstance(variable, Constant) and _is_one_number(variable.data, axis)
        return self._made_by(variable.owner, variable, axis)

    def _made_by(self, node: Apply, variable: Variable, axis: int) -> bool:
        op, (x, *rest), ndim = node.op, node.inputs, variable.type.ndim
        match op:
            case Elemwise():
                return all(self(v, axis) for v in node.inputs)
            case Join():
                return axis != op.axis and all(self(v, axis) for v in node.inputs)
            case CumOp() | SortOp() | ArgSortOp():
                return op.axis is not None and axis != op.axis % ndim and self(x, axis)
            case Blockwise() if axis < op.batch_ndim(node):
                return all(self(v, axis) for v in node.inputs)
            case Blockwise() if isinstance(op.core_op, Dot):
                return self(node.inputs[axis - op.batch_ndim(node)], axis)
            case Dot():
                return self(rest[0], rest[0].type.ndim - 1) if axis or x.type.ndim == 1 else self(x, 0)
            case DimShuffle():
                return self(x, int(op.new_order[axis]))  # new axes have length 1: see `__call__`
            case OpFromGraph():
                outputs = op.fgraph.bind(dict(zip(op.fgraph.inputs, node.inputs, strict=True)))
                return self(outputs[node.outputs.index(variable)], axis)
            case AllocEmpty():  # its entries are judged where they are written
                return True
            case Alloc():
                return self(x, axis - ndim + x.type.ndim)
            case CAReduce() | Argmax():
                reduced = range(x.type.ndim) if op.axis is None else op.axis
                return self(x, [a for a in range(x.type.ndim) if a not in reduced][axis])
            case ExtractDiag():
                left = [a for a in range(x.type.ndim) if a not in (op.axis1, op.axis2)]
                return axis < len(left) and self(x, left[axis])
            case Reshape():  # where entries go is not followed: all of them must be one number
                return all(self(x, a) for a in range(x.type.ndim))
            case SpecifyShape():
                return self(x, axis)
            case Subtensor():
                return self(x, _axes_left(node)[axis])
            case IncSubtensor():
                y, left, indices = rest[0], _axes_left(node), indices_of(node)
                if axis not in left or (axis < len(indices) and indices[axis] != slice(None)):
                    return False
                return self(x, axis) and self(y, left.index(axis) - len(left) + y.type.ndim)
        return False


def _is_one_number(values: np.ndarray, axis: int) -> bool:
    array = np.asarray(values)
    return array.size > 0 and bool(np.all(array == np.take(array, [0], axis=axis)))


def _axes_left(node: Apply) -> list[int]:
    """Return the axes of the indexed variable that are left: those with slices or without an index."""
    indices = indices_of(node)
    sliced = [a for a, index in enumerate(indices) if isinstance(index, slice)]
    return [*sliced, *range(len(indices), node.inputs[0].type.ndim)]
