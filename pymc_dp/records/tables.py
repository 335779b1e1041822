"""Look-ups in a model as it was written: a record with a position out of range counts as not finite."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.random.op import RandomVariable

from pymc_dp.records import gate, graph
from pymc_dp.records.positions import as_tensor, in_range, indexes, is_proved, length, limited, positions
from pymc_dp.records.row_types import PUBLIC, Rows, RowType

_Shapes = Mapping[Variable, tuple[int, ...]]


def within_tables(
    outputs: Sequence[Variable], types: Mapping[Variable, RowType], shapes: _Shapes
) -> list[Variable]:
    """Graphs of records that read no table beyond its ends, and write to no other record.

    Parameters
    ----------
    outputs : sequence of Variable
        One entry a record on the first axis.
    types : mapping of Variable to RowType
    shapes : mapping of Variable to tuple of int
        Of the free variables, which graphs may not say (``dims=``).

    Returns
    -------
    list of Variable
        NaN for each record that has a position which a table does not have. The positions of all records are
        limited; where that is proved to change nothing, they are as they were.

    Notes
    -----
    **Privacy.** Whether a record's position is in range is a function of that record and of public shapes,
    and decides about its own entry alone.
    """
    valid: dict[Any, list[Any]] = {}  # of each node, by record

    def change(node: Any, inputs: list[Any]) -> list[Variable] | None:
        for place, axis, _ in positions(node) if indexes(node) else ():
            index, size = inputs[place], length(inputs[0], axis, shapes)
            t = types.get(node.inputs[place])
            if not isinstance(t, Rows) or is_proved(index, size):
                continue
            others = tuple(a for a in range(index.type.ndim) if a != t.axis)
            one = in_range(index, size)
            valid.setdefault(node, []).append(one.all(axis=others) if others else one)
            inputs[place] = limited(index, size)
        return graph.rebuilt(node, inputs) if node in valid else None

    limited_outputs = graph.rewritten(outputs, change)
    return [_where(new, v, valid) for new, v in zip(limited_outputs, outputs, strict=True)]


def drawn_within_tables(
    outcome: Variable, fit: Any, types: Mapping[Variable, RowType], shapes: _Shapes
) -> tuple[Any, Any]:
    """A draw, and which records it is fit for: not for one with a position that its table does not have.

    Parameters
    ----------
    outcome, fit : Variable
        Of all records; fit has booleans, one a record.
    types, shapes : mapping
        See `within_tables`.
    """
    found: list[Any] = within_tables([outcome, fit.astype("float64")], types, shapes)
    if found[0].type.dtype != outcome.type.dtype:  # whole numbers, with NaN among them
        found[0] = pt.switch(pt.isnan(found[0]), 0.0, found[0]).astype(outcome.type.dtype)
    return found[0], pt.eq(found[1], 1.0)


def _where(new: Any, output: Variable, valid: Mapping[Any, list[Any]]) -> Any:
    """An output where the positions that it depends on are valid; NaN elsewhere."""
    nodes = dict.fromkeys(v.owner for v in ancestors([output]) if v.owner in valid)
    all_valid = [one for node in nodes for one in valid[node]]
    if not all_valid:
        return new
    together = reduce(pt.and_, all_valid)
    return pt.switch(pt.shape_padright(together, new.type.ndim - 1), new, float("nan"))


def public_positions(
    outputs: Sequence[Variable], types: Mapping[Variable, RowType], shapes: _Shapes
) -> list[Variable]:
    """Whether positions that read no record are in range; of those that need not be.

    Raises
    ------
    IndexError
        One of public data is not; with the data's name.
    """
    conditions = []
    for node in toposort(list(outputs)):
        for place, axis, _ in positions(node) if indexes(node) else ():
            index, size = node.inputs[place], length(node.inputs[0], axis, shapes)
            if types.get(index, PUBLIC) is not PUBLIC or is_proved(index, size):
                continue
            condition = pt.all(in_range(index, size))
            if _is_given(index):
                _check(condition, index)
            else:
                conditions.append(condition)
    return conditions


def _is_given(index: Variable) -> bool:
    """Whether a position is a function of data alone."""
    read = list(ancestors([index]))
    drawn = any(v.owner is not None and isinstance(v.owner.op, RandomVariable) for v in read)
    leaves = [v for v in read if v.owner is None]
    return not drawn and len(graph.data_leaves([as_tensor(index)])) == len(leaves)


def _check(condition: Variable, index: Variable) -> None:
    if len(graph.data_leaves([condition])) != sum(v.owner is None for v in ancestors([condition])):
        return  # the table's length depends on a parameter
    if not gate.evaluate(condition):
        names = ", ".join(repr(v.name) for v in graph.data_leaves([as_tensor(index)]) if v.name)
        raise IndexError(
            f"{names or 'An array of the model'} has a position that is not in the table that it looks up."
        )
