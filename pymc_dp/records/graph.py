"""Rewrites of a log-likelihood's graph: checks that couple records are removed, rows are subset.

Nothing in this file evaluates a graph or reads a value, apart from numbers that are sizes.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import cast

import numpy as np
import pytensor.tensor as pt
from pytensor.compile import SharedVariable
from pytensor.compile.builders import OpFromGraph, SymbolicOp
from pytensor.graph import Apply, Constant, Variable, ancestors
from pytensor.graph.traversal import toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.sparse import SparseTensorType
from pytensor.tensor import TensorVariable
from pytensor.tensor.basic import Alloc, AllocEmpty
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dp.records.row_types.ops import inner_constants

# For Ops whose last inputs are sizes rather than values: the position of the first such input.
_SIZE_INPUTS_FROM: dict[type, int] = {Alloc: 1, AllocEmpty: 0, Reshape: 1, SpecifyShape: 1}
#: From a node and its rewritten inputs to replacements of its outputs; None: the node is kept.
type Change = Callable[[Apply, list[Variable]], Sequence[Variable] | None]


def rebuilt(node: Apply, inputs: Sequence[Variable]) -> list[Variable]:
    """Return the outputs of `node` for other inputs, with the static shapes that follow from these."""
    if isinstance(node.op, SymbolicOp):
        out = node.op(*inputs)
        return list(out) if isinstance(out, list | tuple) else [out]
    if any(isinstance(v.type, SparseTensorType) for v in inputs):  # `make_node` of some takes other arguments
        return node.clone_with_new_inputs(inputs).outputs
    return node.op.make_node(*inputs).outputs


def rewritten(
    outputs: Iterable[Variable], change: Change, memo: dict[Variable, Variable] | None = None
) -> list[Variable]:
    """Replace nodes of graphs, and rebuild all that depends on them.

    Parameters
    ----------
    outputs : iterable of Variable
    change : callable
        From a node and its rewritten inputs to replacements of its outputs; None: the node is kept, on these
        inputs.
    memo : dict of Variable to Variable, optional
        Replacements of variables; those that are made here are added to it.
    """
    outputs, memo = list(outputs), {} if memo is None else memo
    for node in toposort(outputs):
        inputs = [memo.get(i, i) for i in node.inputs]
        new = change(node, inputs)
        if new is None and any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            new = rebuilt(node, inputs)
        if new is not None:
            memo.update(zip(node.outputs, new, strict=True))
    return [memo.get(out, out) for out in outputs]


def flatten(
    outputs: Sequence[Variable],
    conditions: list[Variable] | None = None,
    first: Change = lambda node, inputs: None,
) -> list[Variable]:
    """Drop every `CheckAndRaise` and inline every `OpFromGraph`.

    A check's condition is an ``all()`` over rows, so that one bad record would change the value of all rows.
    Without the check only that record's row becomes NaN; valid values are the same. `OpFromGraph` hides
    shapes (and checks) in its inner graph.

    Parameters
    ----------
    outputs : sequence of Variable
    conditions : list of Variable, optional
        The conditions of the checks are appended to it. Those that read no record are about the parameters
        alone: a point that fails one of them has density zero.
    first : callable, optional
        Replaces nodes, as for `rewritten`; None: the node is dropped, inlined or kept as above.

    Returns
    -------
    list of Variable
    """
    conditions = [] if conditions is None else conditions

    def change(node: Apply, inputs: list[Variable]) -> Sequence[Variable] | None:
        if (new := first(node, inputs)) is not None:
            return new
        if isinstance(node.op, CheckAndRaise):
            conditions.extend(inputs[1:])
            return inputs[:1]
        if isinstance(node.op, OpFromGraph) and not isinstance(node.op, SymbolicOp):
            inner = node.op.fgraph
            return flatten(inner.bind(dict(zip(inner.inputs, inputs, strict=True))), conditions, first)
        return None

    return rewritten(outputs, change)


def data_leaves(outputs: Iterable[Variable]) -> list[Variable]:
    """Return the constants and shared variables that graphs read, in a stable order."""
    return [v for v in dict.fromkeys(ancestors(list(outputs))) if isinstance(v, Constant | SharedVariable)]


def inner_leaves(outputs: Iterable[Variable]) -> list[Variable]:
    """Return the constants of the graphs inside of Ops."""
    nodes = dict.fromkeys(v.owner for v in ancestors(list(outputs)) if v.owner is not None)
    return list(dict.fromkeys(leaf for node in nodes for leaf in inner_constants(node.op)))


def changing(outputs: Iterable[Variable]) -> list[SharedVariable]:
    """Return shared variables, except random streams, that a function of the graphs changes when called."""
    found: list[SharedVariable] = []
    new = list(outputs)
    while new:
        shared = [v for v in ancestors(new) if isinstance(v, SharedVariable) and v not in found]
        updates = {v: v.default_update for v in shared if v.default_update is not None}
        found += updates
        new = list(updates.values())
    return [v for v in found if not isinstance(v.type, RandomType)]


def read_as_values(outputs: Sequence[Variable]) -> set[Variable]:
    """Return all variables whose values are used for more than a size."""
    return read_through(outputs, values_of)


def read_through(
    outputs: Sequence[Variable], inputs_of: Callable[[Apply], Iterable[Variable]]
) -> set[Variable]:
    """Return all variables that are read for graphs, where of each node some inputs are read."""
    read = set(outputs)
    for node in reversed(list(toposort(list(outputs)))):
        if not read.isdisjoint(node.outputs):
            read.update(inputs_of(node))
    return read


def values_of(node: Apply) -> list[Variable]:
    """Return the inputs of a node that are more than sizes of what it makes."""
    sizes = sizes_in(node)
    return [v for i, v in enumerate(node.inputs) if i not in sizes]


def sizes_in(node: Apply) -> set[int]:
    """Return the positions of those inputs of a node that are sizes of what it makes."""
    number, drawn = len(node.inputs), size_of_draws(node)
    first = _SIZE_INPUTS_FROM.get(type(node.op), number)
    return {*range(first, number), *(i for i, v in enumerate(node.inputs) if v is drawn)}


def size_of_draws(node: Apply) -> Variable | None:
    """Return the size input of a random variable."""
    try:
        return node.op.size_param(node)
    except (AttributeError, ValueError):  # not a random variable; or one that has none
        return None


def looked_up(
    table: Variable, outputs: Sequence[Variable], private: Set[Variable], products: bool = False
) -> bool:
    """Return whether something that depends on `table` is indexed by positions in the records.

    With `products`, also whether it is multiplied by a matrix of records, such as one of dummy variables.
    """
    reached = {table}
    for node in toposort(list(outputs)):
        if reached.isdisjoint(node.inputs):
            continue
        reached.update(node.outputs)
        by_position = isinstance(node.op, AdvancedSubtensor) and node.inputs[0] in reached
        if by_position and not private.isdisjoint(node.inputs[1:]):
            return True
        op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
        if products and isinstance(op, Dot) and not private.isdisjoint(node.inputs):
            return True
    return False


def storage(leaf: Variable) -> list[np.ndarray]:
    """Return a list that holds the array of a constant or shared variable, also after it is set; not copied.

    A masked array is copied: see `unmasked`.
    """
    if not isinstance(leaf, SharedVariable):
        return [cast(Constant, leaf).data]
    return [unmasked(leaf_value(leaf))] if is_masked(leaf) else leaf.container.storage


def leaf_value(leaf: Variable) -> np.ndarray:
    """Return the array of a constant or shared variable, not copied; perhaps masked, see `storage`."""
    return leaf.container.storage[0] if isinstance(leaf, SharedVariable) else cast(Constant, leaf).data


def is_masked(leaf: Variable) -> bool:
    """Return whether a shared variable holds a masked array: `pm.set_data` makes one if there is a NaN."""
    return isinstance(leaf, SharedVariable) and isinstance(leaf.container.storage[0], np.ma.MaskedArray)


def unmasked[T](value: T) -> T | np.ndarray:
    """Return an array as it is; a masked one as a new array with NaN where it is masked.

    Notes
    -----
    **Privacy.** Compiled functions stop at a masked array, and a single record can make an array masked. For
    types without NaN (whole numbers, truth values) the value under the mask is used: the record's own.
    """
    if not isinstance(value, np.ma.MaskedArray):
        return value
    return value.filled(np.nan) if value.dtype.kind in "fc" else np.array(value)


def columns_of[Key](shapes: Mapping[Key, tuple[int, ...]]) -> dict[Key, slice]:
    """Return the parts of a flat vector that arrays of these shapes take, one after the other."""
    stops = np.cumsum([0, *(math.prod(shape) for shape in shapes.values())]).tolist()
    return {key: slice(*ends) for key, ends in zip(shapes, pairwise(stops), strict=True)}


def slices(vector: TensorVariable, shapes: Mapping[Variable, tuple[int, ...]]) -> dict[Variable, Variable]:
    """Return variables of these shapes as consecutive parts of a flat vector."""
    parts: dict[Variable, Variable] = {}
    for variable, place in columns_of(shapes).items():
        shape = shapes[variable]
        part = vector[place.start] if shape == () else vector[place].reshape(shape)
        parts[variable] = pt.specify_shape(part, variable.type.shape) if shape else part
    return parts


def axes_of_length(leaf: Variable, n: int) -> list[int]:
    """Return the axes of a data leaf that have length `n`."""
    return [axis for axis, size in enumerate(np.shape(leaf_value(leaf))) if size == n]
