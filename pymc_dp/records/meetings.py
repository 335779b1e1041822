"""Where parameters and records meet in the graph of the rows: what derivatives of records are made of.

A parameter meets the records in an elementwise operation (``y - mu``), in a matrix product (``X @ beta``) or
in a look-up (``a[group]``). The derivative of every row with respect to what comes out there, its *adjoint*,
is one number or a few, and costs about as much as the row itself. The derivative of a record with respect to
the parameter is the adjoint times something simple: 1, the record's row of X, or a one at the record's group.
No n x d matrix is ever needed.
"""

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Literal, NamedTuple, cast

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import ClientType, FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar.basic import Add, Mul, Neg, Sub
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dp.records import graph
from pymc_dp.records.derivatives import NotStructuredError, gradients, replaced

Kind = Literal["values", "product", "lookup"]


class Meeting(NamedTuple):
    """One of the places where parameters and records meet.

    Attributes
    ----------
    kind : {"values", "product", "lookup"}
    parameter : Variable
        What meets the records there: p numbers, in C order, that depend on no record.
    out : Variable
        What comes out, first axis records. For "values" an input of the rows: a copy of the parameter for
        each record.
    other : Variable or None
        For a product, the matrix (m, a): with the adjoint, (m, q), the derivative with respect to the
        parameter, (a, q), is their outer product. For a look-up, which of the p numbers each number of the
        adjoint is the derivative with respect to.
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
        Each path from a parameter to a row leads through one of them.
    originals : dict of Variable to Variable
        For each copy of a parameter the parameter itself, with an axis of length 1 in front.
    records : dict of Variable to int
        Data of the records, any number of them, and the axis of the records.
    """

    rows: Variable
    meetings: list[Meeting]
    originals: dict[Variable, Variable]
    records: dict[Variable, int]

    def adjoints(self) -> list[Variable]:
        """Derivatives of the rows with respect to what comes out of each meeting."""
        return gradients(self.rows.sum(), [meeting.out for meeting in self.meetings])

    def table(self, other: Variable) -> int | None:
        """Position among the data of what is a matrix of theirs as it is."""
        return list(self.records).index(other) if self.records.get(other) == 0 else None

    def of_data(
        self, outputs: Sequence[Variable], given: Mapping[Variable, Variable] | None = None
    ) -> list[Variable]:
        """Graphs as functions of parameters and data, one entry a record on the first axis.

        With `given` in the place of inputs; by default the parameters in that of their copies.
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
        One number a record, in the form that PyMC gave it (see `graph.rows`).
    parameters : sequence of Variable
    records : mapping of Variable to int
        Data of the records, and the axis of the records.
    outcomes : collection of Variable, optional
        Data that parameters meet elementwise only: no matrix and no position may be computed from them.

    Returns
    -------
    Met

    Raises
    ------
    NotStructuredError
        They meet in another way.
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
    """Where an input goes: into one sum, there along which of its axes, and with which sign."""

    total: int
    axes: tuple[bool, ...]
    sign: int


def added(rows: Variable, inputs: Sequence[Variable]) -> list[Summand | None]:
    """For each input the one sum into which it goes; None: elsewhere."""
    copies = {v: v.type() for v in inputs}
    fgraph = FunctionGraph(outputs=replaced([rows], copies), clone=False)
    MergeOptimizer().rewrite(fgraph)
    found: list[Summand | None] = []
    for variable in copies.values():
        total, axes, sign = None, variable.type.broadcastable, 1
        while len(clients := fgraph.clients.get(variable, [])) == 1:
            (node, place) = clients[0]
            # Of an elementwise Op: that which adds up an axis has one, too.
            scalar = node.op.scalar_op if isinstance(node.op, Elemwise) else None
            if isinstance(scalar, Add | Sub | Neg):
                sign *= -1 if isinstance(scalar, Neg) or (isinstance(scalar, Sub) and place == 1) else 1
                total = total if isinstance(scalar, Neg) else node
            elif total is not None or not _in_order(node):
                break
            variable = node.outputs[0]
            axes = variable.type.broadcastable if total is None else axes
        found.append(None if total is None else Summand(id(total), axes, sign))
    return found


def _in_order(node: Apply) -> bool:
    """Whether the numbers of an input are the output's, in C order."""
    if isinstance(node.op, DimShuffle):
        return list(node.op.shuffle) == sorted(node.op.shuffle)
    return isinstance(node.op, Reshape | SpecifyShape)


def _multiplied(
    copy: Variable, clients: Mapping[Variable, Sequence[ClientType]], inputs: Collection[Variable]
) -> tuple[Variable, Variable] | None:
    """Where a parameter's copy is only ever multiplied with numbers of the records: ``b * x``.

    Or several with as many numbers, and added up: ``(beta * X).sum(axis=1)``. What comes out, and the numbers
    as a matrix.
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
    # Numbers of a narrow type are multiplied with a parameter in its type: their product is not to overflow.
    numbers = [other.astype("float64") for other in others]
    size, out, other = copy.type.shape[1:], node.outputs[0], prod(numbers)
    # A length that is not known is that of the parameter, unless that is 1: then it may be any.
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
    """All variables of the graph that depend on `sources`."""
    reached = set(sources)
    for node in toposort([output]):
        if reached.intersection(node.inputs):
            reached.update(node.outputs)
    return reached


def _looked_up_first(
    rows: Variable, parameters: Collection[Variable], records: Collection[Variable]
) -> Variable:
    """``(mu + tau * z)[group] -> mu + tau * z[group]``: mu and tau then meet the records elementwise."""
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
    """`parameter`, of length 1 along the records' axis, from a copy for each record of its leaves.

    The leaves are what it is an elementwise function of.
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
