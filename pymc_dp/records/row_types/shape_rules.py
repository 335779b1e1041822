"""Rules of sizes, of changes of shape and of scans: when one entry a record is left. See docs/proofs/rows."""

import math
from collections.abc import Collection, Sequence
from functools import partial

from pytensor.graph import Apply, Constant, Variable
from pytensor.scan.op import Scan
from pytensor.tensor import NoneConst
from pytensor.tensor.basic import Alloc, AllocEmpty
from pytensor.tensor.reshape import JoinDims, SplitDims
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from pymc_dp.records.row_types.ops import public_number, sizes_of
from pymc_dp.records.row_types.places import Along
from pymc_dp.records.row_types.record_axes import is_as_long, is_length
from pymc_dp.records.row_types.rules import no_rule, over_records, public_arguments
from pymc_dp.records.row_types.types import (
    LENGTH,
    NOT_WRITTEN,
    PUBLIC,
    Empty,
    Mixed,
    Rows,
    RowType,
    Typing,
    by_place,
    rule,
    whole,
)


@rule(SpecifyShape)
def _specify_shape(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    """Allow a private length only if it is the number of records: an error would reveal something of it."""
    first, *sizes = types
    own = first.axis if isinstance(first, Rows) else None
    right = []
    for axis, (size, t) in enumerate(zip(node.inputs[1:], sizes, strict=True)):
        free = t is PUBLIC and (axis != own or typing.relation == "substitute" or size.type == NoneConst.type)
        right.append(free or (axis == own and is_length(typing, size)))
    return first if all(right) else no_rule(node.op)


@rule(Shape, Shape_i)
def _shape(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    (t,), op = types, node.op
    elsewhere = isinstance(op, Shape_i) and isinstance(t, Rows) and t.axis != op.i
    return PUBLIC if typing.relation == "substitute" or t is PUBLIC or elsewhere else LENGTH


@rule(Alloc)
def _alloc(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    first, *sizes = types
    if not public_arguments(sizes):
        return no_rule(node.op)
    sized = [axis for axis, t in enumerate(sizes) if t is LENGTH]
    of_records = all(is_length(typing, node.inputs[1 + axis]) for axis in sized)
    if isinstance(first, Rows):
        axis = first.axis + node.outputs[0].type.ndim - node.inputs[0].type.ndim
        # With a second axis as long as the records, every record would stand beside every other.
        own = typing.relation == "substitute" or is_length(typing, node.inputs[1 + axis])
        return Rows(axis) if own and of_records and set(sized) <= {axis} else over_records(node.op)
    if first is LENGTH or len(sized) > 1 or not of_records:
        return LENGTH
    if not sized:
        return first
    before = sized[0] - node.outputs[0].type.ndim + node.inputs[0].type.ndim
    return Rows(sized[0]) if typing.one_value(node.inputs[0], before) else by_place(node.op)


@rule(AllocEmpty)
def _alloc_empty(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    if not public_arguments(types):
        return no_rule(node.op)
    lengths = [axis for axis, t in enumerate(types) if t is LENGTH]
    one = len(lengths) == 1 and is_length(typing, node.inputs[lengths[0]])
    sized = Rows(lengths[0]) if one else LENGTH if lengths else PUBLIC
    return Empty(NOT_WRITTEN, sized)


@rule(Reshape)
def _reshape(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    if not public_arguments(types[1:]):
        return no_rule(node.op)
    if not isinstance(types[0], Rows):
        return LENGTH if LENGTH in types else types[0]
    x, out, axis = node.inputs[0], node.outputs[0], types[0].axis
    sizes = sizes_of(node.inputs[1]) or [None] * out.type.ndim
    if types[1] is LENGTH and not all(
        isinstance(size, Variable) and (typing.of(size) is PUBLIC or _is_size(typing, size, x, axis))
        for size in sizes
    ):
        return no_rule(node.op)
    before, alike = _product(x.type.shape[:axis]), True
    for a, size in enumerate(sizes):
        # In row-major order record i stays at position i if as many entries come before the axis.
        same = (alike and a == axis) or (before is not None and before == _product(out.type.shape[:a]))
        fits = out.type.shape[a] == typing.n_rows or _is_size(typing, size, x, axis)
        if same and (fits or _is_rest(sizes, a, x, axis)):
            # No other axis may have a private length.
            others = [size for k, size in enumerate(sizes) if k != a and isinstance(size, Variable)]
            return no_rule(node.op) if any(typing.of(v) is LENGTH for v in others) else Rows(a)
        static = out.type.shape[a]
        alike = alike and a < x.type.ndim
        alike = alike and (_is_size(typing, size, x, a) or (static is not None and static == x.type.shape[a]))
    return over_records(node.op)


def _is_rest(sizes: Sequence[Variable | int | None], a: int, x: Variable, axis: int) -> bool:
    """Return whether a size is -1, and the others are numbers whose product is one record's entries."""
    numbers = [None if size is None else public_number(size) for size in sizes]
    others = [*numbers[:a], *numbers[a + 1 :]]
    of_one = _product([*x.type.shape[:axis], *x.type.shape[axis + 1 :]])
    positive = all(number is not None and number > 0 for number in others)
    return numbers[a] == -1 and positive and of_one == _product(others)


def _product(sizes: Sequence[int | None]) -> int | None:
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


@rule(JoinDims)
def _join_dims(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    (t,), op = types, node.op
    if not isinstance(t, Rows) or op.start_axis > t.axis or (op.n_axes == 1 and op.start_axis == t.axis):
        return t
    return Rows(t.axis - op.n_axes + 1) if t.axis >= op.start_axis + op.n_axes else over_records(op)


@rule(SplitDims)
def _split_dims(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    t, op = types[0], node.op
    if any(size is not PUBLIC for size in types[1:]):
        return no_rule(op)
    if not isinstance(t, Rows) or op.axis > t.axis:
        return t
    more = node.outputs[0].type.ndim - node.inputs[0].type.ndim
    return over_records(op) if op.axis == t.axis else Rows(t.axis + more)


def _is_size(typing: Typing, size: Variable | int | None, x: Variable, axis: int) -> bool:
    """Return whether a number, or scalar, is the length of an axis of x by construction."""
    if isinstance(size, Constant):
        size = int(size.data)
    if not isinstance(size, Variable):
        return size is not None and size == x.type.shape[axis]
    if typing.of(x) == Rows(axis):
        return is_length(typing, size)
    node = size.owner
    return node is not None and isinstance(node.op, Shape_i) and node.op.i == axis and node.inputs[0] is x


# steps


@rule(Scan)
def _scan(typing: Typing, node: Apply, types: Sequence[RowType]) -> list[RowType]:
    """Type the step, and iterate the types of its states until they do not change."""
    op, count = node.op, len(node.outputs)
    private = any(isinstance(t, Rows) for t in types)
    if LENGTH in types or not public_arguments(types[:1]) or (private and op.info.n_mit_mot):
        return [no_rule(op)] * count
    maps = op.get_oinp_iinp_iout_oout_mappings()
    places = list(range(len(types)))
    # Inputs without an axis of steps, by position: a variable may be a sequence as well.
    entire = {*op.outer_untraced_sit_sot(places), *op.outer_non_seqs(places)}
    if any(t == Rows(0) and k not in entire for k, t in enumerate(types)):
        return [over_records(op)] * count
    step = [Rows(t.axis - 1) if isinstance(t, Rows) and k not in entire else t for k, t in enumerate(types)]
    results: list[RowType] = []
    settled = looked = False
    while not (looked and settled):
        looked = settled  # once types have settled, public states can be checked for one number
        sources = {
            op.inner_inputs[k]: step[outer]
            for outer, within in maps["inner_inp_from_outer_inp"].items()
            for k in within
        }
        inner = _within(typing, node, entire, looked)
        found = inner(op.inner_outputs, sources)
        if op.info.as_while and found[op.inner_outputs[-1]] is not PUBLIC:
            return [Mixed("`scan` for as long as the records say")] * count
        results, settled = [], True
        for k in range(count):
            result: RowType = PUBLIC
            made = [op.inner_outputs[one] for one in maps["inner_out_from_outer_out"][k]]
            for one in made:
                result = _either(result, whole(found[one]))
            outer = maps["outer_inp_from_outer_out"].get(k, -1)
            if outer >= 0:  # a state: what the step makes of it is what the next step reads
                result = _either(step[outer], result)
                if looked and isinstance(result, Rows):  # an initial state or a step's result may be public
                    public = [(inner, one, result.axis) for one in made if found[one] is PUBLIC]
                    if types[outer] is PUBLIC and maps["inner_inp_from_outer_inp"][outer]:  # it is no length
                        public.append((typing, node.inputs[outer], result.axis + int(outer not in entire)))
                    if not all(within.one_value(v, axis) for within, v, axis in public):
                        result = by_place(op)
                    elif not all(is_as_long(*one) for one in public):
                        result = no_rule(op)
                settled, step[outer] = settled and result == step[outer], result
            results.append(result)
    untraced = set(op.outer_untraced_sit_sot_outs(node.outputs))
    return [
        Rows(t.axis + 1) if isinstance(t, Rows) and out not in untraced else t
        for out, t in zip(node.outputs, results, strict=True)
    ]


def _within(typing: Typing, node: Apply, entire: Collection[int], states: bool) -> Typing:
    """Make the typing of the step: an input is one number along an axis if the outer variable is.

    With `states`, a state also has to stay so in each step.
    """
    op, stands_for = node.op, dict[Variable, Along]()
    inner, maps = typing.again(stands_for), op.get_oinp_iinp_iout_oout_mappings()

    def along(within: Variable, outside: Variable, first: int, made: Sequence[Variable], axis: int) -> bool:
        start, throughout = typing.one_value(outside, axis + first), inner.one_value.throughout
        return start and all(throughout(within, axis, one) for one in made)

    for k, outer in maps["outer_inp_from_inner_inp"].items():
        made = [op.inner_outputs[one] for one in maps["inner_out_from_inner_inp"][k]] if states else []
        within, first = op.inner_inputs[k], int(outer not in entire)
        stands_for[within] = partial(along, within, node.inputs[outer], first, made)
    return inner


def _either(a: RowType, b: RowType) -> RowType:
    """Return the type of a variable with either type: never below `a`, so that the iteration ends."""
    if b is PUBLIC or isinstance(a, Mixed) or a == b:
        return a
    return b if a is PUBLIC or isinstance(b, Mixed) else Mixed("`scan`, whose state has records on two axes")
