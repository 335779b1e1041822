"""Rows of as many records as one likes: a log-likelihood, rebuilt on other arrays of records.

Nothing in this file evaluates a graph or looks at a value, apart from numbers that are sizes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pytensor.tensor as pt
from pytensor.compile import SharedVariable
from pytensor.graph import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.scan.op import Scan
from pytensor.tensor import TensorType
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape

from pymc_dp.records.graph import leaf_value, rebuilt, sizes_in
from pymc_dp.records.private_number import has_length, with_length


def _of_any_number(node: Apply, n: int) -> Apply:
    """Return a node; a scan is rebuilt so that its step's types do not have the length `n` of records."""
    if not isinstance(node.op, Scan):
        return node
    inner = node.op.fgraph.unfreeze()
    inputs = [
        v.type.clone(shape=tuple(None if size == n else size for size in v.type.shape))()
        if isinstance(v.type, TensorType)
        else v.type()
        for v in inner.inputs
    ]
    memo: dict[Variable, Variable] = dict(zip(inner.inputs, inputs, strict=True))
    for step in inner.toposort():
        given = [memo.get(v, v) for v in step.inputs]
        same = isinstance(step.op, SpecifyShape)  # asserts that a state keeps its length: dropped
        memo.update(zip(step.outputs, given if same else rebuilt(step, given), strict=False))
    outputs = [memo.get(v, v) for v in inner.outputs]
    beside = ("mode", "truncate_gradient", "name", "profile", "allow_gc", "strict")
    settings = {name: getattr(node.op, name) for name in beside}
    return Scan(inputs, outputs, node.op.info, **settings).make_node(*node.inputs)


def _sizes(n: int, size: Variable, values: Mapping[Variable, Variable]) -> Callable[[Variable], Variable]:
    """Return a function that rewrites size inputs of Ops that make shapes: `n` is replaced by `size`."""

    @cache
    def resized(var: Variable) -> Variable:
        if var in values:
            return values[var]
        node = var.owner
        if isinstance(var, Constant | SharedVariable) and has_length(leaf_value(var), n):
            return with_length(leaf_value(var), n, size)
        if node is None or isinstance(node.op, Shape | Shape_i):
            return var  # the length of a tensor that is not subset; of others, the tensor is in `values`
        inputs = [resized(i) for i in node.inputs]
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            return var
        return rebuilt(node, inputs)[node.outputs.index(var)]

    return resized


def replace_records(
    outputs: Sequence[Variable], replacements: Mapping[Variable, Variable], n: int, size: Variable
) -> list[Variable]:
    """Rebuild graphs on other record roots, with `size` records instead of `n`.

    Parameters
    ----------
    outputs : sequence of Variable
        Flattened (see `flatten`) per-record terms, records on the first axis.
    replacements : mapping of Variable to Variable
        For each data leaf with one entry a record: a variable with the entries of `size` records.
    n : int
        Number of records of `outputs`.
    size : Variable
        Number of records of the result.

    Returns
    -------
    list of Variable
        Terms with `size` rows, which read no other record: the cost of evaluating them does not depend on
        `n`. Whether they are the rows of `outputs` is for the caller to verify.
    """
    memo: dict[Variable, Variable] = dict(replacements)
    sizes = _sizes(n, size, memo)
    for node in toposort(outputs):
        of_sizes = sizes_in(node)
        inputs = [sizes(old) if i in of_sizes else memo.get(old, old) for i, old in enumerate(node.inputs)]
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            memo.update(zip(node.outputs, rebuilt(_of_any_number(node, n), inputs), strict=True))
    return [memo.get(out, out) for out in outputs]


def with_any_number(
    terms: Sequence[Variable], roots: Mapping[Variable, int], n: int
) -> tuple[Mapping[Variable, Variable], list[Variable]]:
    """Return a variable for each record root, and terms as functions of these, for any number of records."""
    stand_ins: dict[Variable, Variable] = {
        root: root.type.clone(shape=tuple(None if i == axis else s for i, s in enumerate(root.type.shape)))()
        for root, axis in roots.items()
    }
    first, axis = next((stand_ins[root], axis) for root, axis in roots.items())
    return stand_ins, replace_records(terms, stand_ins, n, first.shape[axis])


def symbolic_rows(
    terms: Sequence[Variable], roots: Mapping[Variable, int], n: int
) -> tuple[Mapping[Variable, Variable], Variable]:
    """Return a variable for each record root, and rows as a function of these, for any number of records."""
    stand_ins, found = with_any_number(terms, roots, n)
    return stand_ins, rows(found)


def rows(terms: Sequence[Variable]) -> Variable:
    """Return one log-likelihood a record: the sum of all terms over all axes but their first."""
    summed = [t if t.type.ndim == 1 else t.sum(axis=tuple(range(1, t.type.ndim))) for t in terms]
    return pt.add(*summed) if len(summed) > 1 else summed[0]
