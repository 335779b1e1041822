"""A private number of records is removed from the types of variables and from the sizes of distributions.

PyTensor treats a length in a type as a constant, and simplifies what is computed from it: the graph would no
longer show what depends on the number of records.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.abstract import MeasurableOp
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from pymc_dp.records.graph import Change, flatten, leaf_value, rewritten
from pymc_dp.records.refusals import refuse_shape_by_numbers
from pymc_dp.records.row_types.ops import known_shape


def find_number(hidden: Mapping[Variable, Variable], number: int) -> Variable | None:
    """Return the number of records as a graph: the length of an array with an axis of records."""
    for leaf, new in hidden.items():
        shape = np.shape(leaf_value(leaf))
        if number in shape:
            return new.shape[shape.index(number)]
    return None


def size_of_records(node: Apply, inputs: Sequence[Variable], number: int, graph: Variable) -> list[Variable]:
    """Return the inputs of a random variable, with a graph in the place of `number` in its size."""
    sizes = [node.op.size_param(node)] if isinstance(node.op, RandomVariable) else [_size_of(node)]
    found = list(inputs)
    for k, old in enumerate(node.inputs):
        if old in sizes:
            leaves = [v for v in ancestors([inputs[k]]) if isinstance(v, Constant)]
            read: dict[Variable, Variable] = {}
            read |= {v: _with_length(v.data, number, graph) for v in leaves if _has(v, number)}
            found[k] = rewritten([inputs[k]], lambda node, inputs: None, read)[0]
    return found


def _has(constant: Constant, number: int) -> bool:
    """Return whether a constant, a whole number or a vector of them, has that number."""
    data = np.asarray(constant.data)
    return data.dtype.kind in "iu" and data.ndim < 2 and number in data


def _with_length(data: np.ndarray, number: int, graph: Variable) -> Variable:
    """Rebuild a length, or a vector of lengths, with a graph in the place of a number."""
    read = [graph if length == number else pt.constant(length) for length in np.ravel(data)]
    lengths = [pt.cast(length, "int64") for length in read]
    return pt.stack(lengths) if np.ndim(data) else lengths[0]


def _size_of(node: Apply) -> Variable | None:
    """Return the size input of a distribution that is made of others, if it has one."""
    op: Any = node.op
    return op.size_param(node) if getattr(op, "extended_signature", None) else None


def with_other_types(
    node: Apply, inputs: Sequence[Variable], number: int | None, change: Change
) -> list[Variable] | None:
    """Rebuild an operation with an inner graph for inputs some of whose lengths are no longer known.

    Parameters
    ----------
    number : int or None
        Number of records, where that is private.
    change : callable
        Replaces nodes of the inner graph, as for `rewritten`.

    Returns
    -------
    list of Variable or None
        None: all lengths are known as before.

    Raises
    ------
    ModelRefusedError
        The operation is a distribution, and the entries of an array decided one of its lengths.
    """
    lost = {length for each in zip(inputs, node.inputs, strict=True) for length in _lost_lengths(*each)}
    stays = any(number is not None and number in known_shape(out) for out in node.outputs)
    if not lost and not stays:
        return None
    op = cast(OpFromGraph, node.op)
    if not isinstance(op, MeasurableOp):
        return flatten(op.fgraph.bind(dict(zip(op.fgraph.inputs, inputs, strict=True))))
    if lost - {number}:
        raise refuse_shape_by_numbers()
    old, new = [kind() for kind in op.input_types], [v.type() for v in inputs]
    within = op.fgraph.bind(dict(zip(op.fgraph.inputs, old, strict=True)))
    outputs = rewritten(within, change, dict(zip(old, new, strict=True)))
    made = copy.copy(op)
    OpFromGraph.__init__(made, new, outputs, inline=op.is_inline, name=op.name, on_unused_input="ignore")
    return made.make_node(*inputs).outputs


def _lost_lengths(new: Variable, old: Variable) -> list[int]:
    """Return the lengths that the type of `old` has, and that of `new` does not."""
    lengths = zip(known_shape(new), known_shape(old), strict=False)
    return [before for now, before in lengths if before is not None and now != before]
