"""Meetings: operations of the graph at which parameters and records are combined; derivatives start there.

A parameter meets the records in an elementwise operation (``y - mu``), in a matrix product (``X @ beta``) or
in a look-up (``a[group]``). The derivative of every row with respect to the result of that operation, its
*adjoint*, is one number or a few, and costs about as much as the row itself. The derivative of a record with
respect to the parameter is the adjoint times something simple: 1, the record's row of X, or a one at the
record's group. No n x d matrix is ever needed.
"""

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Literal, NamedTuple, cast

import pytensor.tensor as pt
from pytensor.graph import Apply, FunctionGraph, Variable, ancestors, rewrite_graph, vectorize_graph
from pytensor.graph.fg import ClientType
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import toposort
from pytensor.scalar import Add, Mul, Neg, Sub
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dp.records import graph
from pymc_dp.records.derivatives import NotStructuredError, gradients, replaced

Kind = Literal["values", "product", "lookup"]


class Meeting(NamedTuple):
    """One of the places in the graph where parameters and records meet.

    Attributes
    ----------
    kind : {"values", "product", "lookup"}
    parameter : Variable
        The parameter's side of the operation: p numbers, in C order, that depend on no record.
    out : Variable
        The result of the operation, records on the first axis. For "values", an input of the rows: a copy of
        the parameter for each record.
    other : Variable or None
        For a product, the matrix, shape (m, a): a record's derivative with respect to the parameter, (a, q),
        is the outer product of its rows of the matrix and of the adjoint, (m, q). For a look-up, the
        positions: which of the p numbers each number of the adjoint belongs to.
    """

    kind: Kind
    parameter: Variable
    out: Variable
    other: Variable | None


class Met(NamedTuple):
    """The graph of the rows, with the places where parameters and records meet.

    Attributes
    ----------
    rows : Variable, vector
    meetings : list of Meeting
        Every path from a parameter to a row leads through one of them.
    originals : dict of Variable to Variable
        For each copy of a parameter, the parameter itself with an axis of length 1 in front.
    records : dict of Variable to int
        Data of any number of records, and the axis of the records.
    """

    rows: Variable
    meetings: list[Meeting]
    originals: dict[Variable, Variable]
    records: dict[Variable, int]

    def adjoints(self) -> list[Variable]:
        """Return the derivatives of the rows with respect to the result of each meeting."""
        return gradients(self.rows.sum(), [meeting.out for meeting in self.meetings])

    def table(self, other: Variable) -> int | None:
        """Return the position of a matrix among the data; None if it is computed from the data."""
        return list(self.records).index(other) if self.records.get(other) == 0 else None

    def of_data(
        self, outputs: Sequence[Variable], given: Mapping[Variable, Variable] | None = None
    ) -> list[Variable]:
        """Rewrite graphs as functions of parameters and data, one entry a record on the first axis.

        `given` has what is put in the place of inputs; default: the parameters in that of their copies.
        """
        record, axis = next(iter(self.records.items()))
        new = replaced(outputs, self.originals if given is None else given)
        m = record.shape[axis]
        return [pt.broadcast_to(v, (m, *v.shape[1:])) if v.type.shape[0] == 1 else v for v in new]


def meet(
    rows: Variable,
    parameters: Sequence[Variable],
    records: Mapping[Variable, int],
    outcomes: Collection[Variable] = (),
) -> Met:
    """Find where parameters and records meet.

    Parameters
    ----------
    rows : Variable, vector
        One number a record, in the form that PyMC gave it (see `other_records.rows`).
    parameters : sequence of Variable
    records : mapping of Variable to int
        Data of the records, and the axis of the records.
    outcomes : collection of Variable, optional
        Data that parameters may meet elementwise only: no matrix and no position may be computed from them.

    Returns
    -------
    Met

    Raises
    ------
    NotStructuredError
        Parameters and records meet in an operation of another kind.
    """
    rows = cast(list[Variable], rewrite_graph([rows], include=("canonicalize",), clone=True))[0]
    rows = _looked_up_first(rows, parameters, records)
    free, private = _reached(rows, parameters), _reached(rows, records)
    copies: dict[Variable, Variable] = {}
    memo: dict[Variable, Variable] = {}
    nodes = []

    def change(node: Apply, inputs: list[Variable]) -> list[Variable] | None:
        met = [k for k, i in enumerate(node.inputs) if i in free and i not in private]
        if not met or not private.intersection(node.inputs):
            return None
        shape = node.outputs[0].type.shape
        if not shape or shape[0] is not None:
            raise NotStructuredError
        op = node.op
        if isinstance(op, Elemwise) or (isinstance(op, Blockwise) and op.batch_ndim(node)):
            copied = [_copied(i, free, copies) if k in met else i for k, i in enumerate(inputs)]
            return graph.rebuilt(node, copied)
        product = isinstance(op, Dot) and met == [1]
        fixed = isinstance(op, AdvancedSubtensor) and not free.intersection(node.inputs[1:])
        if not product and not (fixed and met == [0]):
            raise NotStructuredError
        nodes.append(node)
        return None

    (rows,) = graph.rewritten([rows], change, memo)
    outs = [memo.get(node.outputs[0], node.outputs[0]) for node in nodes]
    clients = FunctionGraph(outputs=[rows], clone=False).clients
    inputs, found = {*copies.values(), *outs}, []
    for leaf, copy in copies.items():
        scaled = _multiplied(copy, clients, inputs)
        if scaled is None or not set(outcomes).isdisjoint(ancestors([scaled[1]])):
            found.append(Meeting("values", leaf, copy, None))
        else:
            found.append(Meeting("product", leaf, *scaled))
    for node, out in zip(nodes, outs, strict=True):
        first, *others = node.inputs
        if isinstance(node.op, Dot):
            found.append(Meeting("product", others[0], out, memo.get(first, first)))
        else:
            numbers = pt.arange(first.size).reshape(first.shape)
            found.append(Meeting("lookup", first, out, node.op(numbers, *others)))
    tables = [meeting.other for meeting in found if meeting.other is not None]
    if not set(outcomes).isdisjoint(ancestors(tables)):
        raise NotStructuredError
    originals: dict[Variable, Variable] = {copy: pt.expand_dims(leaf, 0) for leaf, copy in copies.items()}
    return Met(rows, found, originals, dict(records))


class Summand(NamedTuple):
    """The sum that an input is a term of: which node it is, along which of its axes, and with which sign."""

    total: int
    axes: tuple[bool, ...]
    sign: int


def added(rows: Variable, inputs: Sequence[Variable]) -> list[Summand | None]:
    """Return for each input the one sum that it is a term of; None if it is used in another way."""
    copies = {v: v.type() for v in inputs}
    fgraph = FunctionGraph(outputs=replaced([rows], copies), clone=False)
    MergeOptimizer().rewrite(fgraph)
    found: list[Summand | None] = []
    for variable in copies.values():
        total, axes, sign = None, variable.type.broadcastable, 1
        while len(clients := fgraph.clients.get(variable, [])) == 1:
            (node, place) = clients[0]
            # Only elementwise Ops count: a sum over an axis has a scalar Op, too.
            scalar = node.op.scalar_op if isinstance(node.op, Elemwise) else None
            if isinstance(scalar, Add | Sub | Neg):
                sign *= -1 if isinstance(scalar, Neg) or (isinstance(scalar, Sub) and place == 1) else 1
                total = total if isinstance(scalar, Neg) else node
            elif total is not None or not in_order(node):
                break
            variable = node.outputs[0]
            axes = variable.type.broadcastable if total is None else axes
        found.append(None if total is None else Summand(id(total), axes, sign))
    return found


def in_order(node: Apply) -> bool:
    """Return whether a node's output has the numbers of its input, in the same C order."""
    if isinstance(node.op, DimShuffle):
        return list(node.op.shuffle) == sorted(node.op.shuffle)
    return isinstance(node.op, Reshape | SpecifyShape)


def _multiplied(
    copy: Variable, clients: Mapping[Variable, Sequence[ClientType]], inputs: Collection[Variable]
) -> tuple[Variable, Variable] | None:
    """Return the product in which a parameter's copy is multiplied by data, if that is its only use.

    That is ``b * x``, or the sum ``(beta * X).sum(axis=1)`` for a vector: the result, and the data as a
    matrix. None if the copy is used in another way.
    """

    def used(variable: Variable) -> Apply | None:
        by = clients.get(variable, [])
        return by[0][0] if len(by) == 1 else None

    variable, node = copy, used(copy)
    while node is not None and isinstance(node.op, DimShuffle):
        variable, node = node.outputs[0], used(node.outputs[0])
    if node is None or not isinstance(node.op, Elemwise) or not isinstance(node.op.scalar_op, Mul):
        return None
    others = [i for i in node.inputs if i is not variable]
    if not others or len(others) + 1 != len(node.inputs) or not set(inputs).isdisjoint(ancestors(others)):
        return None
    # Data of a narrow type are multiplied in float64, the parameter's type, so that products do not overflow.
    numbers = [other.astype("float64") for other in others]
    size, out, other = copy.type.shape[1:], node.outputs[0], prod(numbers)
    # An unknown length must be the parameter's by broadcasting, unless that is 1: then it may be any.
    same = all(a == b or (a is None and b != 1) for a, b in zip(other.type.shape[1:], size, strict=False))
    if other.type.ndim != copy.type.ndim or other.type.shape[0] is not None or not same:
        return None
    if not size:
        return out, pt.expand_dims(other, 1)
    node = used(out)
    if node is None or not isinstance(node.op, Sum) or node.op.axis != (1,) or len(size) != 1:
        return None
    return node.outputs[0], other


def _reached(output: Variable, sources: Collection[Variable]) -> set[Variable]:
    """Return all variables of the graph that depend on `sources`."""
    reached = set(sources)
    for node in toposort([output]):
        if reached.intersection(node.inputs):
            reached.update(node.outputs)
    return reached


def _looked_up_first(
    rows: Variable, parameters: Collection[Variable], records: Collection[Variable]
) -> Variable:
    """Rewrite ``(mu + tau * z)[group]`` as ``mu + tau * z[group]``: mu and tau meet records elementwise."""
    free, private = _reached(rows, parameters), _reached(rows, records)

    def looked_up(op: AdvancedSubtensor, table: Variable, index: Variable) -> Variable:
        if table not in free or table.owner is None or not isinstance(table.owner.op, Elemwise):
            return op.make_node(table, index).outputs[0]
        inputs = [i if i.type.shape[0] == 1 else looked_up(op, i, index) for i in table.owner.inputs]
        return table.owner.op.make_node(*inputs).outputs[0]

    def change(node: Apply, inputs: list[Variable]) -> list[Variable] | None:
        by_rows = isinstance(node.op, AdvancedSubtensor) and node.op.idx_list == (0,)
        simple = by_rows and node.inputs[1].type.ndim == 1 and node.inputs[0] not in private
        return [looked_up(node.op, *inputs)] if simple else None

    return graph.rewritten([rows], change)[0]


def _copied(parameter: Variable, free: Collection[Variable], copies: dict[Variable, Variable]) -> Variable:
    """Compute a parameter, of length 1 along the records' axis, from copies of its leaves for each record.

    The leaves are the variables of which it is an elementwise function.
    """
    if parameter.type.shape[0] != 1:
        raise NotStructuredError
    leaves = [leaf for leaf in _leaves(parameter, free) if leaf.type.dtype.startswith("float")]
    if not leaves:  # a condition: nothing to differentiate
        return parameter
    for leaf in leaves:
        if leaf not in copies:
            copies[leaf] = pt.tensor(dtype=leaf.type.dtype, shape=(None, *leaf.type.shape))
    return vectorize_graph(parameter, {leaf: copies[leaf] for leaf in leaves}).squeeze(1)


def _leaves(parameter: Variable, free: Collection[Variable]) -> list[Variable]:
    node = parameter.owner
    if node is None or not isinstance(node.op, Elemwise | DimShuffle):
        return [parameter]
    return list(dict.fromkeys(leaf for i in node.inputs if i in free for leaf in _leaves(i, free)))
