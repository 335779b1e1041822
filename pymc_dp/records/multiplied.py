"""Where parameters are only ever multiplied with numbers of the records, and added up."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Mul
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Reshape, SpecifyShape

from pymc_dp.records import adjoints


def multiplied(
    copy: Variable, clients: Mapping[Variable, Sequence[Any]], given: set[Variable]
) -> tuple[Variable, Variable] | None:
    """Where a parameter's copy is only ever multiplied with numbers of the records: ``b * x``.

    Or several with as many numbers, and added up: ``(beta * X).sum(axis=1)``. What comes out, and the numbers
    as a matrix.
    """

    def used(variable: Variable) -> Any:
        by = clients.get(variable, [])
        return by[0][0] if len(by) == 1 else None

    variable, node = copy, used(copy)
    while node is not None and isinstance(node.op, DimShuffle):
        variable, node = node.outputs[0], used(node.outputs[0])
    if node is None or not isinstance(node.op, Elemwise) or not isinstance(node.op.scalar_op, Mul):
        return None
    others = [i for i in node.inputs if i is not variable]
    if len(others) + 1 != len(node.inputs) or given.intersection(ancestors(others)):
        return None
    # Numbers of a narrow type are multiplied with a parameter in its type: their product is not to overflow.
    numbers = [cast(Any, other).astype("float64") for other in others]
    size, out, other = copy.type.shape[1:], node.outputs[0], prod(numbers)
    # A length that is not known is that of the parameter, unless that is 1: then it may be any.
    same = all(a == b or (a is None and b != 1) for a, b in zip(other.type.shape[1:], size, strict=False))
    if other.type.ndim != copy.type.ndim or other.type.shape[0] is not None or not same:
        return None
    if not size:
        return out, pt.expand_dims(other, 1)
    node = used(out)
    summed = node is not None and isinstance(node.op, Sum) and node.op.axis == (1,)
    return (node.outputs[0], other) if summed and len(size) == 1 else None


def added(rows: Variable, inputs: Sequence[Variable]) -> list[tuple[int, int] | None]:
    """For each input the one sum into which it goes, and with how many dimensions; None: elsewhere."""
    copies = {v: v.type() for v in inputs}
    fgraph = FunctionGraph(outputs=adjoints.replaced([rows], copies), clone=False)
    MergeOptimizer().rewrite(fgraph)
    found: list[tuple[int, int] | None] = []
    for variable in copies.values():
        clients = fgraph.clients.get(variable, [])
        while len(clients) == 1 and isinstance(clients[0][0].op, DimShuffle | Reshape | SpecifyShape):
            variable = clients[0][0].outputs[0]
            clients = fgraph.clients.get(variable, [])
        op = clients[0][0].op if len(clients) == 1 else None
        is_sum = isinstance(op, Elemwise) and isinstance(op.scalar_op, Add)
        found.append((id(clients[0][0].outputs[0]), variable.type.ndim) if is_sum else None)
    return found
