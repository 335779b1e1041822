"""Products of a narrow matrix of records with a vector, in a loop compiled for its width."""

from typing import Any

import numba
import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.math import Dot

# Columns up to which this is faster than a library's product: with 6 or 10 by a factor of two.
MOST = 12
# From here on compilers may gather a column of several rows at once: four times as slow as row by row.
_BY_ROW = 8


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

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """Without compiled code."""
        outputs[0][0] = np.dot(*inputs)


@node_rewriter([Dot])
def narrow(fgraph, node):
    """A narrow matrix times one column of known length, in a loop of its own."""
    table, column = node.inputs
    width, number = column.type.shape
    if number != 1 or width is None or not 0 < width <= MOST:
        return None
    if table.type.dtype != "float64" or column.type.dtype != "float64":
        return None
    return [NarrowProduct(width)(table, column)]


def _loop(width: int) -> Any:
    @numba.njit(fastmath=False)  # said, or it would be as of the loop that calls it: sums in any order
    def narrow_product(table, column):
        if table.shape[1] != width or column.shape[0] != width or not table.flags.c_contiguous:
            # Never read beyond a table; with columns one after the other the library is as fast.
            return np.dot(table, np.ascontiguousarray(column))
        n = table.shape[0]
        out = np.empty((n, 1))
        numbers, factors = table.ravel(), column.ravel()
        for i in range(n):
            total = 0.0
            if width < _BY_ROW:
                for j in range(width):
                    total += numbers[i * width + j] * factors[j]
            else:
                row = numbers[i * width : (i + 1) * width]
                for j in range(width):
                    total += row[j] * factors[j]
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
        return _loop(op.width), 2  # version of the code, for what is cached

    register_funcify_default_op_cache_key(NarrowProduct)(compiled)


_register()
