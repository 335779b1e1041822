"""Indices that read no record, in a model as it was written: checked, or made a condition on parameters."""

from collections.abc import Mapping, Sequence

import pytensor.tensor as pt
from pytensor.graph import Variable, ancestors
from pytensor.graph.traversal import toposort
from pytensor.tensor.random.op import RandomVariable

from pymc_dp.records import gate, graph
from pymc_dp.records.positions import as_tensor, in_range, indexes, is_proved, length, positions
from pymc_dp.records.row_types import PUBLIC, RowType

_Shapes = Mapping[Variable, tuple[int, ...]]


def public_positions(
    outputs: Sequence[Variable], types: Mapping[Variable, RowType], shapes: _Shapes
) -> list[Variable]:
    """Return conditions: that positions which read no record, but may be out of range, are in range.

    Raises
    ------
    IndexError
        A position in public data is out of range; with the data's name.
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
    """Return whether a position is a function of data alone."""
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
