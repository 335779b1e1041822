"""Products of a narrow matrix of records with a vector, column by column."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot

from pymc_dp.records import graph

# Columns up to which this was faster than a library's product: with 5 or 10 by a factor of two.
MOST = 12
# What a loop may do with it besides. One that evaluates a log-gamma or several logarithms of each record is
# slower with more inputs (4% for beta regression).
_CHEAP = (
    *(basic.Abs, basic.Add, basic.AND, basic.Cast, basic.Clip, basic.Identity, basic.IsInf, basic.IsNan),
    *(basic.LogicalComparison, basic.Mul, basic.Neg, basic.OR, basic.Reciprocal, basic.ScalarMaximum),
    *(basic.ScalarMinimum, basic.Sign, basic.Sqr, basic.Sqrt, basic.Sub, basic.Switch, basic.TrueDiv),
    *(basic.Exp, basic.Expm1, basic.Log1p, Sigmoid, Softplus),
)


def by_columns(outputs: Sequence[Variable], shapes: Mapping[Variable, tuple[int, ...]]) -> list[Variable]:
    """The same graphs, ``X @ b`` written as a sum of columns, which joins the loop that uses it.

    Parameters
    ----------
    outputs : sequence of Variable
    shapes : mapping of Variable to tuple of int
        Of one record's part of each variable with data of records on its first axis.

    Returns
    -------
    list of Variable
        No intermediate vector is stored, and what a record gets depends on its own row alone. As they are,
        where a function such as log-gamma is evaluated for each record.
    """
    if not _cheap(outputs, shapes):
        return list(outputs)
    memo: dict[Variable, Variable] = {}
    for node in toposort(list(outputs)):
        inputs = [memo.get(i, i) for i in node.inputs]
        if isinstance(node.op, Dot) and (width := _width(node, shapes)):
            table, column = cast(Any, inputs[0]), cast(Any, inputs[1])
            terms = [table[:, j] * column[j, 0] for j in range(width)]
            memo[node.outputs[0]] = pt.expand_dims(pt.add(*terms) if width > 1 else terms[0], 1)
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(
                zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True)
            )
    return [memo.get(v, v) for v in outputs]


def _cheap(outputs: Sequence[Variable], records: Collection[Variable]) -> bool:
    private = set(records)
    for node in toposort(list(outputs)):
        if private.isdisjoint(node.inputs):
            continue
        private.update(node.outputs)
        if isinstance(node.op, Elemwise) and not isinstance(node.op.scalar_op, _CHEAP):
            if not (isinstance(node.op.scalar_op, basic.Pow) and _is_two(node.inputs[1])):
                return False
    return True


def _is_two(power: Variable) -> bool:
    return isinstance(power, Constant) and bool(np.all(power.data == 2))


def _width(node: Any, shapes: Mapping[Variable, tuple[int, ...]]) -> int:
    """Columns of a product that is worth it; otherwise 0."""
    table, column = node.inputs
    if len(shapes.get(table, ())) != 1 or table.type.dtype != "float64" or column.type.shape[1] != 1:
        return 0
    (width,) = shapes[table]
    return width if column.type.shape[0] == width <= MOST else 0


def shapes_of_one(roots: Mapping[Variable, int]) -> dict[Variable, tuple[int, ...]]:
    """Of one record's part of data leaves that have the records on their first axis."""
    return {root: np.shape(graph.leaf_value(root))[1:] for root, axis in roots.items() if axis == 0}
