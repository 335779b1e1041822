"""Rules of Ops: when the result of an Op on records has one entry a record again. See docs/proofs/rows."""

from collections.abc import Sequence

from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import DeepCopyOp, TypeCastingOp
from pytensor.conditional.op import IfElse
from pytensor.graph import Apply, Op, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    ARange,
    ExtractDiag,
    Eye,
    Join,
    MakeVector,
    Nonzero,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat, SearchsortedOp
from pytensor.tensor.linalg.solvers.core import SolveBase
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.sort import ArgSortOp, SortOp

from pymc_dp.records.row_types.admitted import admits, goes_by_shapes, never_ends
from pymc_dp.records.row_types.ops import inner_graphs, name_of
from pymc_dp.records.row_types.record_axes import is_as_long
from pymc_dp.records.row_types.types import (
    LENGTH,
    PUBLIC,
    Length,
    Mixed,
    Public,
    Rows,
    RowType,
    Typing,
    aligned,
    rule,
    whole,
)


def over_records(op: Op) -> Mixed:
    """Return the type for an Op that combines different records."""
    return Mixed(f"`{name_of(op)}` over the records")


def public_arguments(types: Sequence[RowType]) -> bool:
    """Return whether sizes, axes and indices depend on no record, except perhaps on the number of records."""
    return all(isinstance(t, Public | Length) for t in types)


def no_rule(op: Op) -> Mixed:
    """Return the type for a use of an Op about which nothing has been proved."""
    return Mixed(f"`{name_of(op)}` of the records, in a way that has no rule")


# entry by entry


@rule(Elemwise)
def _elemwise(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    private = [isinstance(t, Rows) for t in types]
    if any(private) and (never_ends(node, private) or not admits(node.op, typing.trusted)):
        return Mixed(f"`{name_of(node.op)}` of the records, which may stop with an error")
    return aligned(typing, types, node)


@rule(TypeCastingOp, DeepCopyOp)
def _same(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    return types[0]


@rule(CheckAndRaise)
def _check(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    # Checks are removed from likelihoods before typing; elsewhere, whether a check raises would be visible.
    return (
        types[0] if all(t is PUBLIC for t in types[1:]) else Mixed("a check of the records, which may raise")
    )


@rule(IfElse)
def _if_else(typing: Typing, node: Apply, types: Sequence[RowType]) -> list[RowType]:
    if types[0] is not PUBLIC:
        return [Mixed("`ifelse` on a condition about the records")] * len(node.outputs)
    k = len(node.outputs)
    return [
        yes
        if yes == no
        else _either_of(typing, node, [yes, no], [node.inputs[1 + i], node.inputs[1 + i + k]])
        for i, (yes, no) in enumerate(zip(types[1 : 1 + k], types[1 + k :], strict=True))
    ]


def _either_of(typing: Typing, node: Apply, types: Sequence[RowType], of: Sequence[Variable]) -> RowType:
    """Return the type of either branch; a public branch must be as long as the records: nothing checks it."""
    found = aligned(typing, types, node, of)
    if not isinstance(found, Rows):
        return found
    public = [v for v, t in zip(of, types, strict=True) if t is PUBLIC]
    return found if all(is_as_long(typing, v, found.axis) for v in public) else no_rule(node.op)


@rule(RandomVariable)
def _random(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    return PUBLIC if all(t is PUBLIC for t in types) else Mixed("a random draw that depends on the records")


# axes


@rule(DimShuffle)
def _dimshuffle(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    (t,) = types
    if not isinstance(t, Rows):
        return t
    order = list(node.op.new_order)
    return Rows(order.index(t.axis)) if t.axis in order else over_records(node.op)


def _sweep(
    typing: Typing, node: Apply, types: Sequence[RowType], swept: Sequence[int] | None, drops: bool
) -> RowType:
    """Return the type of an Op that works over one or more axes, and entry by entry along the others."""
    first, *rest = types
    if not public_arguments(rest) or (isinstance(first, Rows) and LENGTH in rest):
        return no_rule(node.op)
    if not isinstance(first, Rows):
        return LENGTH if LENGTH in types else first
    ndim = node.inputs[0].type.ndim
    axes = set(range(ndim)) if swept is None else {a % ndim for a in swept}
    if first.axis in axes:
        return over_records(node.op)
    return Rows(first.axis - sum(a < first.axis for a in axes)) if drops else first


@rule(CAReduce, Argmax)
def _reduce(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    return _sweep(typing, node, types, node.op.axis, drops=True)


@rule(CumOp, SortOp, ArgSortOp, Repeat)
def _along_axis(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    return _sweep(typing, node, types, None if node.op.axis is None else (node.op.axis,), drops=False)


@rule(ExtractDiag)
def _diagonal(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    return _sweep(typing, node, types, (node.op.axis1, node.op.axis2), drops=True)


@rule(SearchsortedOp)
def _search(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    table = types[0] is PUBLIC and all(t is PUBLIC for t in types[2:])
    return types[1] if table else over_records(node.op)


@rule(Nonzero)
def _nonzero(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    return (
        types[0] if not isinstance(types[0], Rows) else Mixed("records chosen by a mask that depends on them")
    )


@rule(Join)
def _join(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    found = aligned(typing, types, node)
    return over_records(node.op) if found == Rows(node.op.axis) else found


@rule(Split)
def _split(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    if any(t is not PUBLIC for t in types[1:]):
        return no_rule(node.op)
    first = types[0]
    return over_records(node.op) if first == Rows(node.op.axis) else first


@rule(MakeVector, ScalarFromTensor, TensorFromScalar, Eye, ARange)
def _numbers(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    return LENGTH if public_arguments(types) else no_rule(node.op)


# linear algebra


@rule(Dot)
def _dot(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    a, b = node.inputs
    left = (("m", "k") if a.type.ndim == 2 else ("k",), ("k", "n") if b.type.ndim == 2 else ("k",))
    return _contract(node, types, left, 0, tuple(s for s in ("m", "n") if s in (*left[0], *left[1])))


@rule(Blockwise)
def _blockwise(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    op = node.op
    if inner_graphs(op.core_op):
        return no_rule(op) if any(t is not PUBLIC for t in types) else PUBLIC
    private = [t is not PUBLIC for t in types]
    if (
        any(private)
        and not goes_by_shapes(op.core_op, node.inputs, private)
        and not typing.is_trusted(op.core_op)
    ):
        return no_rule(op)
    batch = op.batch_ndim(node)
    matrices = types[:1] if isinstance(op.core_op, SolveBase) else types
    if not admits(op, typing.trusted) and any(isinstance(t, Rows) for t in matrices):
        return Mixed(f"`{name_of(op)}`, which stops for all records if it cannot be computed for one")
    core = [isinstance(t, Rows) and t.axis >= batch for t in types]
    if not any(core):
        return aligned(typing, types, node)
    columns = isinstance(op.core_op, SolveBase) and types[0] is PUBLIC and types[1] == Rows(batch + 1)
    if isinstance(op.core_op, Dot) or columns:
        return _contract(node, types, op.inputs_sig, batch, op.outputs_sig[0])
    return over_records(op)


@rule(SolveBase)
def _solve(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    # Each column of the right-hand side is solved by itself.
    return Rows(1) if types[0] is PUBLIC and types[1] == Rows(1) else over_records(node.op)


def _contract(
    node: Apply,
    types: Sequence[RowType],
    signature: Sequence[Sequence[str]],
    batch: int,
    result: Sequence[str],
) -> RowType:
    """Return the type of a product: one factor has records, on an axis that is kept; others are public."""
    private = [(t, sig) for t, sig in zip(types, signature, strict=True) if isinstance(t, Rows)]
    if len(private) != 1 or types.count(PUBLIC) != len(types) - 1:
        return Mixed(f"`{name_of(node.op)}` of records with records")
    t, sig = private[0]
    if t.axis < batch:
        return t
    letter = sig[t.axis - batch]
    shared = sum(letter in other for other in signature) > 1
    return over_records(node.op) if shared or letter not in result else Rows(batch + result.index(letter))


# graphs inside


@rule(OpFromGraph)
def _inner_graph(typing: Typing, node: Apply, types: Sequence[RowType]) -> list[RowType]:
    # Typed as a part of the outer graph, so that what is a length or one number there is so within.
    outputs = node.op.fgraph.bind(dict(zip(node.op.fgraph.inputs, node.inputs, strict=True)))
    found = typing(outputs, dict(zip(node.inputs, types, strict=True)))
    return [whole(found[v]) for v in outputs]
