"""The Ops that are known not to raise, whatever numbers they are given, in graphs that are compiled.

An error would be about one record, and would be visible. `tests/records/test_gate.py` tries each Op, and its
derivative, with inputs that are NaN, infinite, zero, subnormal, singular and empty.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph import Apply, Constant, Op, Variable
from pytensor.graph.traversal import toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar import Cast, Identity, IntDiv, Mod, Pow, Switch
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.row_types.ops import name_of, trusted_name

#: Scalar Ops, by the names of their classes.
SCALARS = frozenset(
    "Abs Add AND ArcCos ArcCosh ArcSin ArcSinh ArcTan ArcTan2 ArcTanh BetaInc BetaIncInv Cast Ceil Clip "
    "Conj Cos Cosh Deg2Rad EQ Erf Erfc Erfcinv Erfcx Erfinv Exp Exp2 Expm1 Floor GE GT Gamma GammaInc "
    "GammaIncC GammaIncCInv GammaIncInv GammaLn I0 I0e I1 I1e Identity IntDiv Invert IsInf IsNan "
    "Ive J0 J1 Jv Kve LE LT Log Log10 Log1mexp Log1p Log2 Maximum Minimum Mod Mul NEQ NdtriExp Neg OR "
    "Owens_t PolyGamma Pow Psi Rad2Deg Real Reciprocal RoundHalfAwayFromZero RoundHalfToEven Second "
    "Sigmoid Sign Sin Sinh Softplus Sqr Sqrt Sub Switch Tan Tanh TriGamma TrueDiv Trunc XOR".split()
)
#: Scalar Ops with a graph inside, whose Ops are checked one by one.
_OF_SCALARS = frozenset({"Composite", "ScalarLoop"})
#: All admitted Ops. Linear algebra gives NaN for a matrix for which it has no result; sums, shapes, indexing
#: and sorting raise only if shapes do not fit, and shapes are public.
ADMITTED = SCALARS.union(
    _OF_SCALARS,
    "Cholesky QR SolveTriangular CholeskySolve "
    "AdvancedIncSubtensor AdvancedSubtensor All Alloc AllocDiag AllocEmpty Any ARange ArgSortOp Argmax "
    "BatchedDot BroadcastTo CAReduce CumOp DeepCopyOp DimShuffle Dot ExtractDiag Eye FixedOpCAReduce Gemm "
    "Gemv Ger Dot22 Dot22Scalar IfElse IncSubtensor Join JoinDims MakeVector Max Min Mean MulWithoutZeros "
    "Nonzero Prod ProdWithoutZeros Repeat Reshape ScalarFromTensor SearchsortedOp Shape Shape_i SortOp "
    "SpecifyShape Split SplitDims Subtensor Sum TensorFromScalar Tri ViewOp Softmax SoftmaxGrad LogSoftmax "
    "ConvolveNd Convolve1d".split(),
)


#: Those of these Ops whose result has a shape that depends on the shapes of its inputs, not on their numbers.
OF_SHAPES = frozenset(
    "Cholesky QR SolveBase AllocDiag ArgSortOp Argmax BatchedDot CAReduce Convolve1d "
    "CumOp Dot Dot22 Dot22Scalar ExtractDiag Gemm Gemv Ger LogSoftmax SearchsortedOp Softmax SoftmaxGrad "
    "SortOp".split()
)
# Exceptions, from this input on: the sorter of `searchsorted`, and the mode of a convolution.
NUMBERS_OF_SHAPES = {"SearchsortedOp": 2, "Convolve1d": 2}


def goes_by_shapes(op: Op, inputs: Sequence[Variable], private: Sequence[bool]) -> bool:
    """Return whether, within each batch entry, an Op's result has a shape that depends on shapes alone."""
    if isinstance(op, Subtensor | AdvancedSubtensor):
        whole = all(one == slice(None) for one in op.idx_list if isinstance(one, slice))
        return whole and not any(v.type.dtype == "bool" for v in inputs[1:])
    first = next((k for name, k in NUMBERS_OF_SHAPES.items() if name == type(op).__name__), len(private))
    return not OF_SHAPES.isdisjoint(c.__name__ for c in type(op).__mro__) and not any(private[first:])


def admits(op: Op, trusted: Collection[object] = ()) -> bool:
    """Return whether an Op is known not to raise; graphs inside of it are checked by `admit`."""
    if isinstance(op, Elemwise):
        return admits_number(op.scalar_op)
    if isinstance(op, Blockwise):
        return admits(op.core_op, trusted)
    if isinstance(op, Scan | OpFromGraph | CheckAndRaise):
        return True
    names = {c.__name__ for c in type(op).__mro__}
    return not ADMITTED.isdisjoint(names) or trusted_name(op, trusted) is not None


def never_ends(node: Apply, private: Sequence[bool]) -> bool:
    """Return whether the run time of a node grows with a number of the records.

    It is the order of a polygamma function, or the number of steps of a loop, also within a composite Op. A
    number that is one of a few that are written in the graph is no longer than these.
    """
    scalar: Any = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    if type(scalar).__name__ in ("PolyGamma", "ScalarLoop"):
        return private[0] and not _is_limited(node.inputs[0])
    if type(scalar).__name__ != "Composite":
        return False
    inputs = dict(zip(scalar.fgraph.inputs, node.inputs, strict=True))
    reached = {v for v, is_private in zip(inputs, private, strict=True) if is_private}
    reached -= {v for v in reached if _is_limited(inputs[v])}
    for inner in scalar.fgraph.toposort():
        own = [v in reached for v in inner.inputs]
        if never_ends(inner, own):
            return True
        reached.update(inner.outputs if any(own) else ())
    return False


def _is_limited(number: Variable) -> bool:
    """Return whether a number is one of a few that are written in the graph."""
    node = number.owner
    if node is None:
        return isinstance(number, Constant)
    scalar = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    if isinstance(scalar, Switch):
        return all(map(_is_limited, node.inputs[1:]))
    return isinstance(scalar, Cast | Identity | DimShuffle) and _is_limited(node.inputs[0])


def may_divide_by_zero(node: Apply, whole: bool = False) -> bool:
    """Return whether a node is a power of a float with an exponent that may be a negative whole number.

    Compiled code multiplies then, and divides 1 by the product: at zero it stops. `safe_rewriter` makes the
    exponent a float, and guards powers and divisions of whole numbers; within another scalar Op, where it
    does not look, none is admitted.

    Parameters
    ----------
    node : Apply
    whole : bool
        Whether powers and divisions of whole numbers count too.
    """
    op = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    if not isinstance(op, Pow | IntDiv | Mod):
        return False
    second, is_power = node.inputs[1], isinstance(op, Pow)
    written = isinstance(second, Constant) and np.size(second.data) == 1  # a number, not an array
    if written and np.all(second.data >= (0 if is_power else 1)):
        return False
    if np.dtype(node.outputs[0].type.dtype).kind in "iub":
        return whole
    return is_power and np.dtype(second.type.dtype).kind in "iub"


def admits_number(op: Op) -> bool:
    """Return whether a scalar Op, with all Ops that it is made of, is known not to raise."""
    names = {c.__name__ for c in type(op).__mro__}
    inner = getattr(op, "fgraph", None)
    if inner is not None:
        return not _OF_SCALARS.isdisjoint(names) and all(
            admits_number(n.op) and not may_divide_by_zero(n, whole=True) for n in inner.apply_nodes
        )
    return not SCALARS.isdisjoint(names)


def admit(
    outputs: Sequence[Variable],
    private: Collection[Variable],
    random: bool = False,
    trusted: Collection[object] = (),
) -> None:
    """Refuse a graph in which an Op that may raise reads records.

    Parameters
    ----------
    outputs : sequence of Variable
    private : collection of Variable
        Variables that hold records.
    random : bool
        Whether random draws are admitted.
    trusted : collection of str or type
        Ops that the user vouches for.

    Raises
    ------
    ModelRefusedError
    """
    reached = set(private)
    for node in toposort(list(outputs)):
        op = node.op
        is_private = [v in reached for v in node.inputs]
        if not any(is_private) or isinstance(op, Shape | Shape_i):  # shapes are public
            continue
        conditional = isinstance(op, CheckAndRaise) and any(is_private[1:])
        drawn = isinstance(op, RandomVariable) and random
        if conditional or never_ends(node, is_private) or not (drawn or admits(op, trusted)):
            raise _refusal(op)
        inner = op.core_op if isinstance(op, Blockwise) else op
        if isinstance(inner, Scan | OpFromGraph):
            admit(inner.fgraph.outputs, _inner(inner, node, is_private), random, trusted)
        reached.update(node.outputs)


def _inner(op: Op, node: Apply, private: Sequence[bool]) -> set[Variable]:
    """Return inputs of the graph inside of an Op that may depend on records: of a scan, all states do."""
    if not isinstance(op, Scan):
        return {v for v, is_private in zip(op.fgraph.inputs, private, strict=True) if is_private}
    own = dict(zip(node.inputs, private, strict=True))
    by_outer = op.get_oinp_iinp_iout_oout_mappings()["inner_inp_from_outer_inp"]
    fixed = {*op.outer_seqs(node.inputs), *op.outer_non_seqs(node.inputs)}
    inputs = op.fgraph.inputs
    return {
        inputs[k]
        for outer, inner in by_outer.items()
        for k in inner
        if node.inputs[outer] not in fixed or own[node.inputs[outer]]
    }


def _refusal(op: Op) -> ModelRefusedError:
    return ModelRefusedError(
        f"`{name_of(op)}` of the records may stop with an error.",
        "what it stops at would be one record's numbers, and an error shows.",
        "write the model without it (a product with a Cholesky factor for an inverse or a determinant).",
    )
