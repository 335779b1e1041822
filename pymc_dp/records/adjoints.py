"""What the gradient of each record is made of, from the graph of the rows.

Reverse mode for all records at once, stopped where records and parameters meet. In the graph of the rows a
parameter meets the records in an elementwise operation (``y - mu``), in a matrix product (``X @ beta``) or in
a look-up (``a[group]``). The derivative of every row with respect to what comes out there, its *adjoint*, is
one number or a few, and costs about as much as the row itself. The record's gradient is the adjoint times
something simple: 1, the record's row of X, or a one at the record's group. No n x d matrix is ever needed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace, vectorize_graph
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dp.records import graph, verification


class Part(NamedTuple):
    """One of the places where parameters and records meet.

    Attributes
    ----------
    kind : {"values", "product", "lookup"}
    parameter : Variable
        What meets the records there: p numbers, in C order, that depend on no record.
    adjoint : Variable
        First axis: records. For "values" the derivative with respect to the p numbers.
    other : Variable or None
        For a product, the matrix (m, a): with the adjoint, (m, q), the derivative with respect to the
        parameter, (a, q), is their outer product. For a look-up, which of the p numbers each number of the
        adjoint is the derivative with respect to.
    """

    kind: Literal["values", "product", "lookup"]
    parameter: Variable
    adjoint: Variable
    other: Variable | None


class NotStructuredError(Exception):
    """Parameters and records meet in another way."""


class Met(NamedTuple):
    """The graph of the rows, cut open where parameters and records meet.

    Attributes
    ----------
    rows : Variable, vector
    copies : dict of Variable to Variable
        For parameters that meet records elementwise: a copy for each record, an input of `rows`.
    meetings : list of Apply
        Matrix products and look-ups, before copies were put in.
    outs : list of Variable
        What comes out of them, in the graph of `rows`.
    memo : dict of Variable to Variable
        Variables of the graph before copies were put in, and after.
    free : set of Variable
        What depends on parameters, before.
    """

    rows: Variable
    copies: dict[Variable, Variable]
    meetings: list[Any]
    outs: list[Variable]
    memo: dict[Variable, Variable]
    free: set[Variable]


def meet(rows: Variable, parameters: Sequence[Variable], records: Mapping[Variable, int]) -> Met:
    """Find where; arguments and errors as of `by_structure`."""
    rows = cast(list[Variable], rewrite_graph([rows], include=("canonicalize",), clone=True))[0]
    rows = _looked_up_first(rows, parameters, records)
    free, private = _reached(rows, parameters), _reached(rows, records)
    copies: dict[Variable, Variable] = {}
    memo: dict[Variable, Variable] = {}
    meetings = []

    def change(node: Any, inputs: list[Any]) -> list[Variable] | None:
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
        meetings.append(node)
        return None

    (rows,) = graph.rewritten([rows], change, memo)
    outs = [memo.get(node.outputs[0], node.outputs[0]) for node in meetings]
    return Met(rows, copies, meetings, outs, memo, free)


def by_structure(
    rows: Variable, parameters: Sequence[Variable], records: Mapping[Variable, int]
) -> list[Part]:
    """Parts of the gradients of `rows`, from where parameters and records meet.

    Parameters
    ----------
    rows : Variable, vector
        One number a record, in the form that PyMC gave it (see `graph.smooth_rows`).
    parameters : sequence of Variable
        What to differentiate with respect to.
    records : mapping of Variable to int
        Data of the records, and the axis of the records.

    Returns
    -------
    list of Part
        Together: each path from a parameter to a row leads through one of them.

    Raises
    ------
    NotStructuredError
    """
    met = meet(rows, parameters, records)
    copies, memo, meetings, outs = met.copies, met.memo, met.meetings, met.outs
    adjoints = gradients(met.rows.sum(), [*copies.values(), *outs])
    parts = [Part("values", leaf, adjoint, None) for leaf, adjoint in zip(copies, adjoints, strict=False)]
    for node, adjoint in zip(meetings, adjoints[len(copies) :], strict=True):
        if isinstance(node.op, Dot):
            left, parameter = node.inputs
            parts.append(Part("product", parameter, adjoint, memo.get(left, left)))
        else:
            parameter, *index = node.inputs
            numbers = pt.arange(parameter.size).reshape(parameter.shape)
            parts.append(Part("lookup", parameter, adjoint, node.op(numbers, *index)))
    record, axis = next(iter(records.items()))
    return with_originals(parts, copies, record.shape[axis])


def by_record(rows: Variable, parameters: Sequence[Variable], records: Mapping[Variable, int]) -> list[Part]:
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
    single: dict[Variable, Variable] = {}
    many: dict[Variable, Any] = {}
    for record, axis in records.items():
        shape = tuple(size for i, size in enumerate(record.type.shape) if i != axis)
        one = pt.tensor(dtype=record.type.dtype, shape=shape)
        single[record], many[one] = pt.expand_dims(one, axis), pt.moveaxis(cast(Any, record), axis, 0)
    row = replaced([rows], single)[0].sum()
    m = next(iter(many.values())).shape[0]
    return [
        Part("values", parameter, _vectorized(gradient, many, m), None)
        for parameter, gradient in zip(parameters, gradients(row, parameters), strict=True)
    ]


def jacobian(parameter: Variable, touched: Sequence[Variable]) -> Variable:
    """Derivatives of `parameter`, p numbers, with respect to the entries of `touched`, shape (p, entries)."""
    direction = pt.vector(dtype="float64")
    basis = pt.eye(parameter.size)
    found = gradients((parameter.ravel() * direction).sum(), touched)
    columns = [_vectorized(gradient.ravel(), {direction: basis}, parameter.size) for gradient in found]
    # What is left of the direction is its length.
    return replaced([pt.concatenate(columns, axis=1)], {direction: basis[0]})[0]


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

    def looked_up(op: AdvancedSubtensor, table: Variable, index: Variable) -> Any:
        if table not in free or table.owner is None or not isinstance(table.owner.op, Elemwise):
            return op(table, index)
        inputs = [i if i.type.shape[0] == 1 else looked_up(op, i, index) for i in table.owner.inputs]
        return table.owner.op(*inputs)

    def change(node: Any, inputs: list[Any]) -> list[Variable] | None:
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
    return cast(Any, vectorize_graph(parameter, {leaf: copies[leaf] for leaf in leaves})).squeeze(1)


def _leaves(parameter: Variable, free: Collection[Variable]) -> list[Variable]:
    node = parameter.owner
    if node is None or not isinstance(node.op, Elemwise | DimShuffle):
        return [parameter]
    return list(dict.fromkeys(leaf for i in node.inputs if i in free for leaf in _leaves(i, free)))


def with_originals(parts: Sequence[Part], copies: Mapping[Variable, Variable], m: Variable) -> list[Part]:
    """Put each parameter where its copies for the m records were: they are all the same."""
    flat = [v for part in parts for v in (part.adjoint, part.other) if v is not None]
    originals = {copy: pt.expand_dims(leaf, 0) for leaf, copy in copies.items()}
    new = iter(
        pt.broadcast_to(v, (m, *v.shape[1:])) if v.type.shape[0] == 1 else v
        for v in replaced(flat, originals)
    )
    return [
        part._replace(adjoint=next(new), other=None if part.other is None else next(new)) for part in parts
    ]


# PyTensor's functions with the one signature that is used here.


def gradients(cost: Variable, wrt: Sequence[Variable]) -> list[Variable]:
    """Derivatives of a number; zero with respect to what it does not depend on."""
    found = pytensor.grad(cost, list(wrt), disconnected_inputs="ignore", return_disconnected="zero")
    return cast(list[Any], found)


def replaced(outputs: Sequence[Variable], replace: Mapping[Variable, Variable]) -> list[Variable]:
    """Copies of graphs on other variables, whose static shapes may differ."""
    return clone_replace(list(outputs), dict(replace), rebuild_strict=False)


def _vectorized(output: Variable, replace: Mapping[Any, Any], length: Variable) -> Variable:
    """Over the first axis of the replacements, of that length, on which `output` may not depend."""
    batched: Any = vectorize_graph(output, replace)
    if batched.type.ndim > output.type.ndim:
        return batched
    return pt.broadcast_to(batched, (length, *batched.shape))


def made_up(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Five made-up records, one array a variable, records on the first axis."""
    rng = np.random.default_rng(0)
    return [rng.uniform(0.2, 0.8, (5, *shape)) for shape in shapes]


def as_data(values: Sequence[np.ndarray], records: Mapping[Variable, int]) -> list[np.ndarray]:
    """Such arrays with the type and the axis of their variables; what is no floating-point number is 0."""
    return [
        np.ascontiguousarray(
            np.moveaxis(array if record.type.dtype.startswith("float") else np.zeros_like(array), 0, axis),
            dtype=record.type.dtype,
        )
        for (record, axis), array in zip(records.items(), values, strict=True)
    ]


def numbers_a_record(
    evaluate: Callable[..., list[np.ndarray]],
    records: Mapping[Variable, int],
    shapes: Sequence[tuple[int, ...]],
) -> list[int]:
    """Check, on made-up records, that an output's first axis is theirs, and each row about its own record.

    Parameters
    ----------
    evaluate : callable
        From the data of some records, one array a variable, to the outputs.
    records : mapping of Variable to int
        And the axis of the records.
    shapes : sequence of tuple
        Of one record's part of each.

    Returns
    -------
    list of int
        How many numbers a record each output has.

    Raises
    ------
    NotStructuredError
        It is not so.
    """
    made = made_up(shapes)

    def outputs(size: int, first: float | None = None) -> list[np.ndarray]:
        some = [values[:size].copy() for values in made]
        if first is not None:
            for values in some:
                values[0] = first
        return evaluate(*as_data(some, records))

    few, many = outputs(2), outputs(5)
    for two, five, *changed in zip(few, many, outputs(5, 0.5), outputs(5, np.nan), strict=True):
        if (len(two), len(five)) != (2, 5) or two.shape[1:] != five.shape[1:]:
            raise NotStructuredError
        if any(np.any(verification.differ(five[1:], other[1:])) for other in changed):
            raise NotStructuredError
    return [two[0].size for two in few]
