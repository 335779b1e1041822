"""The last rewrite of a graph before its loops are fused: no Op can read out of range or stop with an error.

It is applied to the graph as it will be compiled, derivatives included, and to the graphs inside of its Ops.
"""

from functools import reduce

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.compile import SharedVariable
from pytensor.compile.builders import OpFromGraph
from pytensor.graph import Apply, Constant, FunctionGraph, Op, Variable, ancestors
from pytensor.graph.features import ReplaceValidate
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.raise_op import CheckAndRaise
from pytensor.scan.op import Scan
from pytensor.tensor import TensorVariable
from pytensor.tensor.blas.batched import BatchedDot
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot

from pymc_dp.errors import PrivacyError
from pymc_dp.records import positions as at
from pymc_dp.records.harmless import missing
from pymc_dp.records.row_products import ColumnsSolved, RowProduct
from pymc_dp.records.row_types.admitted import may_divide_by_zero
from pymc_dp.records.row_types.index_rules import places_of


class NotRewrittenError(PrivacyError, AssertionError):
    """A graph was not made safe; an `AssertionError`, the one kind of error that PyTensor does not ignore."""


class Safe(GraphRewriter):
    """Rewrite that limits positions, guards division by zero, and rounds products alike for all rows.

    A position that is not proved to be in range is limited to it. Where it was out of range, reading gives
    NaN (for integers, a number that is no position either), adding adds nothing, and setting sets to NaN.
    Products and triangular systems are replaced by ones that compute a record alike wherever it stands
    (`row_products`).

    Parameters
    ----------
    raising : bool
        For graphs of public numbers: whether a position that depends on data alone, and on no input, raises
        an `IndexError` with the names of these data if it is out of range.
    """

    def __init__(self, raising: bool = False):
        super().__init__()
        self.raising = raising

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.raising == other.raising

    def __hash__(self) -> int:
        return hash((type(self), self.raising))

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        """Attach the feature by which replacements are validated."""
        if not hasattr(fgraph, "replace_all_validate"):
            fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph: FunctionGraph) -> None:
        """Rewrite a graph in place.

        Raises
        ------
        NotRewrittenError
            The rewrite failed. After other errors PyTensor would go on without it.
        """
        try:
            self._rewrite_all(fgraph)
        except Exception as error:
            raise NotRewrittenError(
                f"Positions of a graph could not be put in range ({type(error).__name__}): it is not "
                "compiled. This is a bug in pymc_dp, and says nothing about your data: please report the "
                "model."
            ) from error

    def _rewrite_all(self, fgraph: FunctionGraph) -> None:
        for node in list(fgraph.toposort()):
            new = self._rewritten(node)
            if new is None:
                continue
            pairs = [
                (old, old.type.filter_variable(out, allow_convert=True))
                for old, out in zip(node.outputs, new, strict=True)
            ]
            fgraph.replace_all_validate(pairs, reason="pymc_dp_safe")

    def _rewritten(self, node: Apply) -> list[Variable] | None:
        safe = _safe_op(node.op)
        if safe is not None:
            return list(safe.make_node(*node.inputs).outputs)
        if at.indexes(node):
            return self._indexed(node)
        if isinstance(node.op, Elemwise) and node.outputs[0].type.dtype.startswith(("int", "uint")):
            result = _of_whole_numbers(node)
            return None if result is None else [pt.cast(result, node.outputs[0].type.dtype)]
        if isinstance(node.op, Elemwise) and may_divide_by_zero(node):
            base, power = node.inputs
            return list(node.op.make_node(base, pt.cast(power, node.outputs[0].type.dtype)).outputs)
        return None

    def _indexed(self, node: Apply) -> list[Variable] | None:
        open_ones = [
            (p, at.length(node.inputs[0], p.axis))
            for p in at.positions(node)
            if not at.is_proved(node.inputs[p.place], at.length(node.inputs[0], p.axis))
        ]
        inputs = _with_checked_masks(node)
        if not open_ones:
            return None if inputs == node.inputs else _again(node, inputs)
        for position, size in open_ones:
            inputs[position.place] = at.limited(self._checked(inputs[position.place], size), size)
        valid = _valid(node, open_ones)
        if not isinstance(at.core(node), at.WRITES):
            (out,) = _again(node, inputs)
            return [pt.switch(valid, out, np.asarray(missing(out.type.dtype), dtype=out.type.dtype))]
        dtype = node.inputs[0].type.dtype  # the written values' own type may have no NaN
        none = np.asarray(missing(dtype) if at.core(node).set_instead_of_inc else 0, dtype=dtype)
        inputs[1] = pt.switch(valid, pt.cast(inputs[1], dtype), none)
        return _again(node, inputs)

    def _checked(self, index: Variable, size: at.Size) -> Variable:
        """Add a check to an index that depends on data alone, if `raising`."""
        leaves = [v for v in ancestors([index]) if v.owner is None and not isinstance(v, Constant)]
        if not self.raising or not all(isinstance(v, SharedVariable) for v in leaves):
            return index
        names = ", ".join(repr(v.name) for v in leaves if v.name) or "the model's constants"
        check = CheckAndRaise(IndexError, f"a position in {names} is not in the table that it looks up")
        checked = check.make_node(at.as_tensor(index), pt.all(at.in_range(index, size))).outputs[0]
        return checked if index.type.ndim or hasattr(index.type, "shape") else pt.scalar_from_tensor(checked)


def _safe_op(op: Op) -> Op | None:
    """Return an Op with products by row, or with a safe inner graph; None if nothing changes."""
    if isinstance(op, Dot):
        return RowProduct()
    if isinstance(op, BatchedDot):
        return Blockwise(RowProduct())
    if isinstance(op, SolveTriangular | CholeskySolve) and op.b_ndim == 2:  # records may be columns
        return ColumnsSolved(op.lower, getattr(op, "unit_diagonal", False), isinstance(op, CholeskySolve))
    if isinstance(op, Blockwise):
        new = _safe_op(op.core_op)
        return None if new is None else Blockwise(new, signature=op.signature, name=op.name)
    if not isinstance(op, Scan | OpFromGraph):
        return None
    inner = op.fgraph.unfreeze()
    Safe().rewrite(inner)
    new = op.clone_with_inner_graph(inner)
    return None if new == op else new


def _with_checked_masks(node: Apply) -> list[Variable]:
    """Return inputs of a node; a mask that does not fit its table raises `IndexError` (shapes are public)."""
    inputs = list(node.inputs)
    for place, axis in [] if isinstance(node.op, Blockwise) else at.masks(node):
        mask, table = inputs[place], inputs[0]
        axes = range(axis, axis + mask.type.ndim)
        if all(
            s is not None and s == table.type.shape[a] for s, a in zip(mask.type.shape, axes, strict=True)
        ):
            continue
        same = pt.all([pt.eq(mask.shape[k], table.shape[a]) for k, a in enumerate(axes)])
        check = CheckAndRaise(IndexError, "a mask is not as long as what it selects from")
        inputs[place] = check.make_node(mask, same).outputs[0]
    return inputs


def _again(node: Apply, inputs: list[Variable]) -> list[Variable]:
    return list(node.op.make_node(*inputs).outputs)


def _valid(node: Apply, given: list[tuple[at.Position, at.Size]]) -> Variable:
    """Compute whether positions are in range, in a shape that broadcasts with what is read or written."""
    conditions: list[TensorVariable] = []
    for position, size in given:
        index = node.inputs[position.place]
        one = at.in_range(index, size)
        if isinstance(node.op, Blockwise):  # all positions of a batch entry together
            inner = tuple(range(position.batch, one.type.ndim))
            one = one.all(axis=inner) if inner else one
        conditions.append(one)
    result = reduce(pt.and_, conditions)
    writes = isinstance(at.core(node), at.WRITES)
    if isinstance(node.op, Blockwise):
        read = node.inputs[1] if writes else node.outputs[0]
        return pt.shape_padright(result, read.type.ndim - result.type.ndim)
    places = places_of(node)  # what is written may lack leading axes: it is then broadcast
    return pt.shape_padright(result, places.total - places.first - result.type.ndim)


def _of_whole_numbers(node: Apply) -> Variable | None:
    """Rewrite integer divisions and powers at which compiled code would stop.

    These are the lowest integer divided by -1, and negative powers of 0. Division by zero gives 0, as in
    compiled code; so does a power that is no integer.
    """
    op, (out,) = node.op.scalar_op, node.outputs

    def number(value: int) -> np.ndarray:
        return np.asarray(value, dtype=out.type.dtype)

    if isinstance(op, ps.IntDiv | ps.Mod):
        a, d = node.inputs
        low, high = at.bounds(d)
        if low > 0 or high < -1:
            return None
        safe = pt.switch(pt.or_(pt.eq(d, 0), pt.eq(d, -1)), np.asarray(1, dtype=d.type.dtype), d)
        divided = node.op(a, safe)
        if isinstance(op, ps.Mod):
            return pt.switch(pt.eq(d, 0), number(0), divided)
        return pt.switch(pt.eq(d, 0), number(0), pt.switch(pt.eq(d, -1), -divided, divided))
    if isinstance(op, ps.Pow):
        a, power = node.inputs
        if at.bounds(power)[0] >= 0:
            return None
        size = pt.abs(pt.maximum(pt.cast(power, "int64"), np.int64(-(2**62))))
        broken = pt.and_(pt.lt(power, 0), pt.neq(pt.abs(a), 1))
        whole = pt.cast(pt.cast(a, out.type.dtype) ** size, out.type.dtype)
        return pt.switch(broken, number(0), whole)
    return None
