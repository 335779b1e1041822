"""Products of a narrow matrix of records with a vector, in a loop made for its width."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort
from pytensor.tensor.math import Dot

from pymc_dp.records import graph

# Columns up to which this is faster than a library's product: with 6 or 10 by a factor of two.
MOST = 12


class NarrowProduct(Op):
    """``X @ b``, (n, 1), for a matrix of a width that is known when it is compiled.

    What a record gets depends on its own row alone: products are added in the order of the columns.

    Parameters
    ----------
    width : int
    """

    __props__ = ("width",)

    def __init__(self, width: int):
        self.width = width

    def make_node(self, *inputs: Any) -> Apply:
        """As of a product."""
        table, column = inputs
        return Apply(self, [table, column], [pt.tensor(dtype="float64", shape=(table.type.shape[0], 1))])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        """Without compiled code."""
        outputs[0][0] = np.dot(*inputs)


def narrow(outputs: Sequence[Variable], shapes: Mapping[Variable, tuple[int, ...]]) -> list[Variable]:
    """The same graphs, with products of narrow matrices of records as loops of their own.

    Parameters
    ----------
    outputs : sequence of Variable
    shapes : mapping of Variable to tuple of int
        Of one record's part of each variable with data of records on its first axis.
    """
    memo: dict[Variable, Variable] = {}
    for node in toposort(list(outputs)):
        inputs = [memo.get(i, i) for i in node.inputs]
        if isinstance(node.op, Dot) and (width := _width(node, shapes)):
            memo[node.outputs[0]] = cast(Variable, NarrowProduct(width)(*inputs))
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(
                zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True)
            )
    return [memo.get(v, v) for v in outputs]


def _width(node: Any, shapes: Mapping[Variable, tuple[int, ...]]) -> int:
    """Columns of a product that is worth it; otherwise 0."""
    table, column = node.inputs
    if len(shapes.get(table, ())) != 1 or table.type.dtype != "float64" or column.type.shape[1] != 1:
        return 0
    (width,) = shapes[table]
    return width if column.type.shape[0] == width <= MOST and column.type.dtype == "float64" else 0


def shapes_of_one(roots: Mapping[Variable, int]) -> dict[Variable, tuple[int, ...]]:
    """Of one record's part of data leaves that have the records on their first axis."""
    return {root: np.shape(graph.leaf_value(root))[1:] for root, axis in roots.items() if axis == 0}


def _loop(width: int) -> Any:
    @numba.njit
    def narrow_product(table, column):
        if table.shape[1] != width or column.shape[0] != width or not table.flags.c_contiguous:
            # Never read beyond a table; with columns one after the other the library is as fast.
            return np.dot(table, np.ascontiguousarray(column))
        n = table.shape[0]
        out = np.empty((n, 1))
        numbers, factors = table.ravel(), column.ravel()
        for i in range(n):
            total = 0.0
            for j in range(width):
                total += numbers[i * width + j] * factors[j]
            out[i, 0] = total
        return out

    return narrow_product


def _register() -> None:
    """Tell PyTensor's Numba backend; versions without this door call `perform`."""
    try:
        from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
    except ImportError:
        return

    def compiled(op, node, **kwargs):
        return _loop(op.width)

    register_funcify_default_op_cache_key(NarrowProduct)(compiled)


_register()
