"""Rules of indexing: when one entry a record is left. See docs/proofs/rows."""

from collections.abc import Sequence
from typing import NamedTuple

from pytensor.graph import Apply, Variable
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_dp.records.row_types.ops import WRITES, Index, axes_in, indices_of, public_number
from pymc_dp.records.row_types.record_axes import is_as_long, is_range_of, record_range
from pymc_dp.records.row_types.rules import no_rule, over_records, public_arguments
from pymc_dp.records.row_types.types import LENGTH, PUBLIC, Mixed, Rows, RowType, Typing, by_place, rule


class Places(NamedTuple):
    """The axes of the result when a tensor is indexed.

    Attributes
    ----------
    kept : dict of int to int
        Axes that are taken whole, ``:``, and their position in the result.
    first : int
        Position of the first axis of the index arrays in the result.
    ndim : int
        Number of axes of the index arrays, broadcast against each other.
    arrays : list of (int, Variable)
        The axis of the tensor that each index array indexes, and the array.
    total : int
        Number of axes of the result.
    """

    kept: dict[int, int]
    first: int
    ndim: int
    arrays: list[tuple[int, Variable]]
    total: int


def _whole(index: Index) -> bool:
    return isinstance(index, slice) and index == slice(None)


def places_of(node: Apply) -> Places:
    """Find the positions of a tensor's axes in what a node reads or writes of it, by NumPy's rules."""
    indices = indices_of(node)
    padded = [*indices, *[slice(None)] * (node.inputs[0].type.ndim - sum(map(_width, indices)))]
    where = {k: i for k, i in enumerate(padded) if not isinstance(i, slice)}
    ndim = max(map(_ndim, where.values()), default=0)
    together = not where or max(where) - min(where) + 1 == len(where)
    first = min(where) if where and together else 0
    kept, arrays, after, axis = {}, [], 0 if together else ndim, 0
    for k, index in enumerate(padded):
        if isinstance(index, slice):
            if _whole(index):
                kept[axis] = after
            after += 1
        else:
            arrays.append((axis, index))
            after += ndim if together and k == first else 0
        axis += _width(index)
    return Places(kept, first, ndim, arrays, after)


def _width(index: Variable | slice) -> int:
    """Return the number of axes of the tensor that an index consumes: a mask consumes as many as it has."""
    if not isinstance(index, slice) and index.type.dtype == "bool":
        return int(index.type.ndim)
    return 1


def _ndim(index: Variable) -> int:
    """Return the number of axes that an index array has in the result: a mask has one."""
    return 1 if index.type.dtype == "bool" else int(index.type.ndim)


@rule(Subtensor)
def _subtensor(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    if not public_arguments(types[1:]) or (isinstance(types[0], Rows) and LENGTH in types[1:]):
        return no_rule(node.op)
    indices = indices_of(node)
    if not isinstance(types[0], Rows):
        other = types[0] is LENGTH and _another_length(typing, node.inputs[0], indices)
        return PUBLIC if other else LENGTH if LENGTH in types else types[0]
    axis = types[0].axis
    if axis < len(indices) and not _whole(indices[axis]):
        return Mixed("a part of the records, or their order, taken with `[...]`")
    return Rows(axis - sum(not isinstance(i, slice) for i in indices[:axis]))


def _another_length(typing: Typing, shape: Variable, indices: Sequence[Index]) -> bool:
    """Return whether the entry taken of a shape is the length of another axis than the records'."""
    if len(indices) != 1 or isinstance(indices[0], slice):
        return False
    of, axes = axes_in(shape, casts=True)
    t = None if of is None else typing.of(of)
    index = public_number(indices[0])
    if not isinstance(t, Rows) or index is None or not -len(axes) <= index < len(axes):
        return False
    return axes[index] != t.axis


@rule(AdvancedSubtensor)
def _indexed(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    """Return the type of ``x[indices]``; for writes, `_written` checks public numbers beside records."""
    writes = isinstance(node.op, WRITES)
    first = 2 if writes else 1  # what is written comes before the indices
    x, inputs, x_type, input_types = node.inputs[0], node.inputs[first:], types[0], types[first:]
    private = {v: t for v, t in zip(inputs, input_types, strict=True) if isinstance(t, Rows)}
    places = places_of(node)
    if any(v.type.dtype == "bool" for v in private):
        return Mixed("records chosen by a mask that depends on them")
    # Index arrays are broadcast against each other from the right.
    lifted = {t.axis + places.ndim - v.type.ndim for v, t in private.items()}
    if any(v.type.ndim == 0 or v.type.shape[t.axis] == 1 for v, t in private.items()):
        return no_rule(node.op)
    ranges = {
        axis: r + places.ndim - index.type.ndim
        for axis, index in places.arrays
        if (r := record_range(typing, index)) is not None
    }
    unknown = [v for v, t in zip(inputs, input_types, strict=True) if t is LENGTH]
    own = x_type.axis if isinstance(x_type, Rows) else None
    if own is not None:
        if own in places.kept:
            return over_records(node.op) if private or unknown else Rows(places.kept[own])
        if own not in ranges:
            return Mixed("records looked up by position with `[...]`")
        lifted.add(ranges[own])
    if lifted:
        counted = [v for axis, v in places.arrays if ranges.get(axis) in lifted]
        if len(lifted) > 1 or not set(unknown) <= set(counted):
            return Mixed("`[...]` with records on two axes: every one with every other")
        (lift,) = lifted
        if x_type is LENGTH:
            return no_rule(node.op)
        looked_up = [(axis, v) for axis, v in places.arrays if v not in private and axis != own]

        # Either all records read one position; or each reads its own, where the table is one number along
        # the axis and all its positions are read.
        def reaches(axis: int, v: Variable) -> bool:
            return is_range_of(typing, v, x, axis) or (axis in ranges and is_as_long(typing, x, axis))

        if not writes and not all(
            _is_one_place(typing, v, lift - places.ndim)
            or (own is None and typing.one_value(x, axis) and reaches(axis, v))
            for axis, v in looked_up
        ):
            return by_place(node.op)
        return Rows(places.first + lift)
    return LENGTH if unknown or x_type is LENGTH else PUBLIC


@rule(*WRITES)
def _written(typing: Typing, node: Apply, types: Sequence[RowType]) -> RowType:
    """Return the type of ``x[indices].set(y)`` or ``.inc(y)``."""
    x, y, *inputs = node.inputs
    x_type, y_type, *input_types = types
    place = _indexed(typing, node, types)
    if isinstance(place, Mixed):
        return place
    if place is LENGTH or not isinstance(y_type, Rows | type(PUBLIC)):
        return no_rule(node.op)
    places = places_of(node)
    ndim = places.total
    after = place.axis if isinstance(place, Rows) else None
    if isinstance(y_type, Rows):
        aligned = y_type.axis + ndim - y.type.ndim
        if after not in (None, aligned) or y.type.shape[y_type.axis] == 1:
            return Mixed("records written where other records are")
        after = aligned
    if after is None:
        return PUBLIC
    if y_type is PUBLIC and not typing.one_value(y, after - ndim + y.type.ndim):
        return by_place(node.op)
    # Find the axis of x along which records are written: taken whole, or indexed by 0, 1, ..., n - 1.
    found = [axis for axis, there in places.kept.items() if there == after]
    lift = after - places.first
    known = dict(zip(inputs, input_types, strict=True))
    for axis, v in places.arrays:
        r, t = record_range(typing, v), known.get(v, PUBLIC)  # an index that is no input is a number
        if r is not None and r + places.ndim - v.type.ndim == lift:
            found.append(axis)
        elif lift in range(places.ndim) and t is PUBLIC and not _is_one_place(typing, v, lift - places.ndim):
            return by_place(node.op)
    if not found:
        return Mixed("records added up or written at positions that depend on them")
    if isinstance(x_type, Rows):
        return x_type if found == [x_type.axis] else over_records(node.op)
    if len(found) > 1 or not typing.one_value(x, found[0]):
        return by_place(node.op)
    # If x is written at a range and is longer, some of its entries are no record's; and an error would reveal
    # whether a private number of records equals its length.
    whole = found[0] in places.kept and typing.relation == "substitute"
    return Rows(found[0]) if whole or is_as_long(typing, x, found[0]) else no_rule(node.op)


def _is_one_place(typing: Typing, index: Variable, axis: int) -> bool:
    """Return whether an index is one number along an axis of the broadcast indices.

    `axis` is negative, and counts from the end. A mask stands for an array of positions along the last axis.
    """
    if index.type.dtype == "bool":
        return axis != -1
    return typing.one_value(index, axis + index.type.ndim)
