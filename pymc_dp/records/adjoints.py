"""What the gradient of each record is made of, from the graph of the rows.

Reverse mode for all records at once, stopped where records and parameters meet. In the rows' graph a parameter
meets the records in an elementwise operation (``y - mu``), in a matrix product (``X @ beta``) or in a look-up
(``a[group]``). The derivative of every row with respect to what comes out there (the *adjoint*: a number or a few
a record) costs about as much as the row itself, and the record's gradient is that number times something simple: 1,
the record's row of X, or a one at the record's group. No array of n x d numbers is ever needed.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import pytensor.tensor as pt
from pytensor.gradient import grad
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dp.records import graph


class Part(NamedTuple):
    """One place where parameters and records meet.

    Attributes
    ----------
    parameter : Variable
        What meets the records there: a function of the parameters alone, p numbers in C order.
    adjoint : Variable
        First axis: records.
    other : Variable or None
        For a product, the (m, a) matrix; with `adjoint` (m, q), the record's derivative with respect to the
        parameter, shape (a, q), is their outer product. For a look-up, the positions looked up, as many as
        `adjoint` has numbers. None: `adjoint` has p numbers a record, the derivative itself.
    kind : {"values", "product", "lookup"}
    """

    kind: str
    parameter: Variable
    adjoint: Variable
    other: Variable | None


class NotStructuredError(Exception):
    """Parameters and records meet in an operation that is not one of the three kinds."""


def by_structure(
    rows: Variable, parameters: Collection[Variable], records: Mapping[Variable, int]
) -> list[Part]:
    """Parts of the gradients of `rows`, from where parameters and records meet.

    Parameters
    ----------
    rows : Variable, vector
        One number a record, in the form that PyMC gave it (see `graph.smooth_rows`).
    parameters : collection of Variable
        What to differentiate with respect to.
    records : mapping of Variable to int
        Data of the records, and the axis of the records.

    Returns
    -------
    list of Part
        Together, each path from a parameter to a row leads through one of them.

    Raises
    ------
    NotStructuredError
    """
    (rows,) = rewrite_graph([rows], include=("canonicalize",), clone=True)
    rows = _look_up_first(rows, parameters, records)
    free, private = _reached([rows], parameters), _reached([rows], records)
    copies: dict[Variable, Variable] = {}
    memo: dict[Variable, Variable] = {}
    meetings = []
    for node in toposort([rows]):
        inputs = [memo.get(i, i) for i in node.inputs]
        met = [k for k, i in enumerate(node.inputs) if i in free and i not in private]
        if met and private.intersection(node.inputs):
            out = node.outputs[0]
            if out.type.ndim == 0 or out.type.shape[0] is not None:
                raise NotStructuredError(str(node))
            if isinstance(node.op, Elemwise) or (isinstance(node.op, Blockwise) and node.op.batch_ndim(node)):
                for k in met:
                    inputs[k] = _copied(node.inputs[k], free, copies)
            elif (isinstance(node.op, Dot) and met == [1]) or (
                isinstance(node.op, AdvancedSubtensor)
                and met == [0]
                and not free.intersection(node.inputs[1:])
            ):
                meetings.append(node)
            else:
                raise NotStructuredError(str(node))
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(
                zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True)
            )
    outs = [memo.get(node.outputs[0], node.outputs[0]) for node in meetings]
    adjoints = grad(
        memo.get(rows, rows).sum(),
        [*copies.values(), *outs],
        disconnected_inputs="ignore",
        return_disconnected="zero",
    )
    parts = [Part("values", leaf, adjoint, None) for leaf, adjoint in zip(copies, adjoints, strict=False)]
    for node, adjoint in zip(meetings, adjoints[len(copies) :], strict=True):
        if isinstance(node.op, Dot):
            left, parameter = node.inputs
            parts.append(Part("product", parameter, adjoint, memo.get(left, left)))
        else:
            parameter, *index = node.inputs
            positions = pt.arange(parameter.size).reshape(parameter.shape)
            parts.append(Part("lookup", parameter, adjoint, node.op(positions, *index)))
    record, axis = next(iter(records.items()))
    return _with_originals(parts, copies, record.shape[axis])


def by_record(
    rows: Variable, parameters: Collection[Variable], records: Mapping[Variable, int]
) -> list[Part]:
    """Parts for any graph: the gradient of the one row of one record, vectorized over records.

    Parameters
    ----------
    rows, parameters, records
        As in `by_structure`.

    Returns
    -------
    list of Part
        One for each parameter, of kind "values".
    """
    single, many = {}, {}
    for record, axis in records.items():
        shape = [s for i, s in enumerate(record.type.shape) if i != axis]
        one = pt.tensor(dtype=record.type.dtype, shape=shape)
        single[record], many[one] = pt.expand_dims(one, axis), pt.moveaxis(record, axis, 0)
    (row,) = clone_replace([rows], single, rebuild_strict=False)
    gradients = grad(row.sum(), list(parameters), disconnected_inputs="ignore", return_disconnected="zero")
    m = next(iter(many.values())).shape[0]
    parts = []
    for parameter, gradient in zip(parameters, gradients, strict=True):
        batched = vectorize_graph(gradient, many)
        if batched.type.ndim == gradient.type.ndim:  # the same for all records
            batched = pt.broadcast_to(batched, (m, *gradient.shape))
        parts.append(Part("values", parameter, batched, None))
    return parts


def jacobian(parameter: Variable, touched: Sequence[Variable]) -> Variable:
    """Derivatives of what met the records, shape (p, columns of `touched`), no record in it."""
    direction = pt.vector(dtype="float64")
    gradients = grad(
        (parameter.ravel() * direction).sum(),
        list(touched),
        disconnected_inputs="ignore",
        return_disconnected="zero",
    )
    basis = pt.eye(parameter.size)
    columns = []
    for gradient in gradients:
        batched = vectorize_graph(gradient, {direction: basis})
        if batched.type.ndim == gradient.type.ndim:
            batched = pt.broadcast_to(batched, (parameter.size, *gradient.shape))
        columns.append(batched.reshape((parameter.size, gradient.size)))
    # What is left of the direction is its length.
    return clone_replace(pt.concatenate(columns, axis=1), {direction: basis[0]})


def touched(parameter: Variable, parameters: Sequence[Variable]) -> list[Variable]:
    """Which of `parameters` one depends on."""
    found = set(ancestors([parameter]))
    return [p for p in parameters if p in found]


def same_numbers(parameter: Variable) -> Variable:
    """What `parameter` is but for its shape."""
    while (node := parameter.owner) is not None and (
        isinstance(node.op, Reshape | SpecifyShape)
        or (isinstance(node.op, DimShuffle) and list(node.op.shuffle) == sorted(node.op.shuffle))
    ):
        parameter = node.inputs[0]
    return parameter


def _reached(outputs: Sequence[Variable], sources: Collection[Variable]) -> set[Variable]:
    """All variables of the graph that depend on `sources`."""
    reached = set(sources)
    for node in toposort(outputs):
        if reached.intersection(node.inputs):
            reached.update(node.outputs)
    return reached


def _look_up_first(
    rows: Variable, parameters: Collection[Variable], records: Collection[Variable]
) -> Variable:
    """``(mu + tau * z)[group] -> mu + tau * z[group]``: most parameters then meet the records elementwise."""
    free, private = _reached([rows], parameters), _reached([rows], records)

    def looked_up(op: AdvancedSubtensor, table: Variable, index: Variable) -> Variable:
        if table.owner is None or not isinstance(table.owner.op, Elemwise) or table not in free:
            return op(table, index)
        parts = table.owner.inputs
        return table.owner.op(*[p if p.type.shape[0] == 1 else looked_up(op, p, index) for p in parts])

    memo: dict[Variable, Variable] = {}
    for node in toposort([rows]):
        inputs = [memo.get(i, i) for i in node.inputs]
        if (
            isinstance(node.op, AdvancedSubtensor)
            and node.op.idx_list == (0,)
            and node.inputs[1].type.ndim == 1
            and node.inputs[0] not in private
            and len(node.outputs[0].type.shape) == node.inputs[0].type.ndim
        ):
            memo[node.outputs[0]] = looked_up(node.op, *inputs)
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(
                zip(node.outputs, node.clone_with_new_inputs(inputs, strict=False).outputs, strict=True)
            )
    return memo.get(rows, rows)


def _copied(parameter: Variable, free: Collection[Variable], copies: dict[Variable, Variable]) -> Variable:
    """`parameter`, of length 1 along the records' axis, with a copy of its leaves for each record.

    The leaves are what it is an elementwise function of.
    """
    if parameter.type.shape[0] != 1:
        raise NotStructuredError
    leaves = [leaf for leaf in _leaves(parameter, free) if leaf.type.dtype.startswith("float")]
    for leaf in leaves:
        if leaf not in copies:
            copies[leaf] = pt.tensor(dtype=leaf.type.dtype, shape=(None, *leaf.type.shape))
    if not leaves:  # a condition: nothing to differentiate
        return parameter
    return vectorize_graph(parameter, {leaf: copies[leaf] for leaf in leaves}).squeeze(1)


def _leaves(parameter: Variable, free: Collection[Variable]) -> list[Variable]:
    node = parameter.owner
    if node is None or not isinstance(node.op, Elemwise | DimShuffle):
        return [parameter]
    return list(dict.fromkeys(leaf for i in node.inputs if i in free for leaf in _leaves(i, free)))


def _with_originals(parts: Sequence[Part], copies: Mapping[Variable, Variable], m: Variable) -> list[Part]:
    """Put each parameter where its copies for the m records were: they are all the same."""
    flat = [v for part in parts for v in (part.adjoint, part.other) if v is not None]
    originals = {copy: pt.expand_dims(leaf, 0) for leaf, copy in copies.items()}
    new = iter(
        pt.broadcast_to(v, (m, *v.shape[1:])) if v.type.shape[0] == 1 else v
        for v in clone_replace(flat, originals, rebuild_strict=False)
    )
    return [
        part._replace(adjoint=next(new), other=None if part.other is None else next(new)) for part in parts
    ]
