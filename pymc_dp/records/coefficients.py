"""Bounded coefficients: free variables with a bounded prior that the likelihood only adds to other terms.

A coefficient under `pymc.HalfNormal` is sampled by its logarithm. Where the coefficient is nearly zero,
records carry as much information about the coefficient as elsewhere, and none about its logarithm: therefore
the coefficient itself, not its logarithm, is a likelihood coordinate.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType

import numpy as np
from pymc.distributions.continuous import HalfCauchyRV, HalfStudentTRV
from pymc.logprob.transforms import IntervalTransform, LogOddsTransform, LogTransform, Transform
from pytensor.compile import ViewOp
from pytensor.graph import Apply, Constant, Op, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar import Erf, Erfc, Erfcx, Sigmoid, Softplus
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.random.basic import InvGammaRV, LogNormalRV, ParetoRV
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

# Ops that select, copy, or sum entries of their first input.
_TAKES = DimShuffle, Alloc, Reshape, SpecifyShape, ViewOp, Subtensor, AdvancedSubtensor, Sum
_COPIES = scalar.Identity | scalar.Cast | scalar.Neg
# Functions that are defined for all real numbers and whose values never change sign: what is computed from
# their values puts no bound on the argument.
_EVERYWHERE = (
    scalar.Abs
    | scalar.Cosh
    | scalar.EQ
    | scalar.GE
    | scalar.GT
    | scalar.LE
    | scalar.LT
    | scalar.NEQ
    | scalar.Sign
    | scalar.Sqr
    | Erfc
    | Erfcx
    | Sigmoid
    | Softplus
)
# Functions that are defined for all real numbers, with the sign of their argument.
_ODD = scalar.Expm1 | scalar.Tanh | Erf
# Priors of positive numbers of any order of magnitude. A search may begin far from the value, and gets there
# fast only by the logarithm: these variables stay on the logarithmic scale.
_HEAVY_TAILED = HalfCauchyRV | HalfStudentTRV | InvGammaRV | LogNormalRV | ParetoRV
# Returned by `_Read._sign` instead of a sign: nothing computed from the result puts a bound on the variable.
_NO_BOUND_BEHIND = 2


def find_coefficients(
    terms: Sequence[Variable],
    places: Mapping[Variable, Variable],
    others: Sequence[Variable],
    transforms: Mapping[Variable, Transform | None],
    start: Mapping[Variable, np.ndarray],
) -> dict[Variable, tuple[float, float]]:
    """Find bounded variables that enter the log-densities only as terms of sums.

    Parameters
    ----------
    terms : sequence of Variable
        Log-densities of the records.
    places : mapping of Variable to Variable
        For free random variables, the variable in `terms` that stands for their untransformed value.
    others : sequence of Variable
        Variables in `terms` that stand for other parameters.
    transforms : mapping of Variable to Transform or None
        By free random variable.
    start : mapping of Variable to ndarray
        Initial values by free random variable, not transformed.

    Returns
    -------
    dict of Variable to (float, float)
        By free random variable: the bounds between which the log-densities can be computed.

    Notes
    -----
    ``a + x * b``, ``y - t`` and ``X @ b - c``, where x and X depend on no parameter, are followed to the
    place where something else is added or subtracted. A variable that is read in another way as well, in a
    logarithm or as a divisor, is a scale, a rate or a shape, whose logarithm is the better coordinate.

    **Privacy.** A function of the graph and of the public start.
    """
    read, found = _Read(terms, [*places.values(), *others]), {}
    # Least distance of numbers to a bound, as a part of the distance at the initial point.
    margin = 1e-6
    for rv, place in places.items():
        bounds, sums = bounds_of(rv, transforms.get(rv)), read.sums_with(place)
        if bounds is None or sums is None or not start[rv].size:
            continue
        lower, upper = (-math.inf, math.inf) if read.may_be_any(sums) else bounds
        away = [margin * float(np.min(np.abs(start[rv] - bound))) for bound in bounds]
        found[rv] = lower + away[0], upper - away[1] if math.isfinite(upper) else upper
    return found


def bounds_of(rv: Variable, transform: Transform | None) -> tuple[float, float] | None:
    """Return the public bounds that all entries share; None if there is no lower bound, or if they differ."""
    if isinstance(rv.owner.op, _HEAVY_TAILED):
        return None
    if isinstance(transform, LogTransform):
        return 0.0, math.inf
    if isinstance(transform, LogOddsTransform):
        return 0.0, 1.0
    if not isinstance(transform, IntervalTransform):
        return None
    ends = transform.args_fn(*rv.owner.inputs)
    lower, upper = (_number(end, far) for end, far in zip(ends, (-math.inf, math.inf), strict=True))
    if lower is None or upper is None or math.isinf(lower) or not lower < upper:
        return None
    return lower, upper


def _number(variable: object, otherwise: float) -> float | None:
    """Return the one number of a constant, `otherwise` for None; None if it has several or is no constant."""
    if isinstance(variable, Variable):
        while variable.owner is not None and isinstance(variable.owner.op, DimShuffle | Alloc | SpecifyShape):
            variable = variable.owner.inputs[0]
        if not isinstance(variable, Constant):
            return None
        variable = variable.data
    numbers = np.unique(np.asarray(otherwise if variable is None else variable, dtype=float))
    return float(numbers[0]) if numbers.size == 1 else None


class _Read:
    """For each variable of some graphs: the nodes that read it, and the inputs and data it depends on."""

    def __init__(self, terms: Sequence[Variable], parameters: Iterable[Variable]):
        self._terms, self._parameters = set(terms), set(parameters)
        self._made_of: dict[Variable, frozenset[Variable]] = {}
        self._clients: dict[Variable, list[Apply]] = {}
        for node in toposort(list(terms)):
            self._made_of.update(dict.fromkeys(node.outputs, frozenset().union(*map(self._of, node.inputs))))
            for v in dict.fromkeys(node.inputs):
                self._clients.setdefault(v, []).append(node)

    def _of(self, variable: Variable) -> frozenset[Variable]:
        leaf = frozenset[Variable]() if isinstance(variable, Constant) else frozenset([variable])
        return self._made_of.get(variable, leaf)

    def sums_with(self, value: Variable) -> list[tuple[Variable, bool]] | None:
        """Return the sums of a value and terms that depend on something else; None if it is read otherwise.

        With each comes whether the value is in some entries of a vector and not in others, as a gap between
        cutpoints or between components of a mixture: it then keeps the entries in order. The argument of a
        sigmoid or a softplus counts as such a sum, if the value was multiplied by something else before.
        """
        stack, seen = [(value, False, False)], set[tuple[Variable, bool, bool]]()
        sums: list[tuple[Variable, bool]] = []
        if value not in self._clients:
            return None
        while stack:
            variable, multiplied, in_order = stack.pop()
            if (variable, multiplied, in_order) in seen:
                continue
            seen.add((variable, multiplied, in_order))
            if variable in self._terms:
                return None
            for node in self._clients.get(variable, []):
                made, (out, *_) = frozenset().union(*map(self._of, node.inputs)), node.outputs
                ordered = _keeps_order(node, in_order)
                if _is(node, scalar.Add | scalar.Sub):
                    if made - {value}:
                        sums.append((out, ordered))
                    else:
                        stack.append((out, multiplied, ordered))
                elif self._is_linear(node, variable):
                    others = not isinstance(_op(node), _TAKES) and bool(made - {value})
                    stack.append((out, multiplied or others, ordered))
                elif multiplied and _is(node, Sigmoid | Softplus):
                    sums.append((variable, in_order))
                else:
                    return None
        return sums

    def may_be_any(self, sums: Sequence[tuple[Variable, bool]]) -> bool:
        """Return whether what is computed from the sums is defined for all real values of the sums.

        It is not where ``1 - exp(-s)`` is a probability, which needs s > 0; nor where a positive number keeps
        entries of a vector in order (see `sums_with`), until one of the entries is selected for each record.
        """
        stack, seen = [(one, 0, ordered) for one, ordered in sums], set[tuple[Variable, int, bool]]()
        while stack:
            variable, sign, in_order = stack.pop()
            if (variable, sign, in_order) in seen:
                continue
            seen.add((variable, sign, in_order))
            for node in self._clients.get(variable, []):
                after, ordered = self._sign(node, variable, sign), _keeps_order(node, in_order)
                if after is None or (ordered and after == _NO_BOUND_BEHIND and not _is_shape(node, variable)):
                    return False
                stack += [(out, after, ordered) for out in node.outputs if after != _NO_BOUND_BEHIND]
        return True

    def _sign(self, node: Apply, variable: Variable, sign: int) -> int | None:
        """Return the sign of a node's result for values of a variable of some sign; 0 is for any sign.

        `_NO_BOUND_BEHIND`: whatever is computed from the result is defined. None: the result is not defined
        for all values, or it is not known whether it is.
        """
        power = _is(node, scalar.Pow) and _is_whole(node.inputs[1])
        if _is_shape(node, variable):
            return _NO_BOUND_BEHIND
        if _is(node, _EVERYWHERE) or (power and (_number(node.inputs[1], 0.0) or 0.0) % 2 == 0):
            return _NO_BOUND_BEHIND
        if _is(node, scalar.Exp):
            return 1
        if _is(node, _ODD) or power:
            return sign
        if isinstance(_op(node), Join | MakeVector):
            return sign or None
        if _is(node, scalar.Neg):
            return -sign
        if _is(node, scalar.Sub):
            return 0
        if _is(node, scalar.Add):
            known = [v for v in node.inputs if isinstance(v, Constant)]
            return sign if sign > 0 and all(np.all(v.data >= 0) for v in known) else 0
        if _is(node, scalar.Mul | scalar.TrueDiv) and sign:
            known = [v for v in node.inputs if isinstance(v, Constant)]
            return sign * (-1) ** sum(bool(np.all(v.data < 0)) for v in known)
        passes = _is(node, scalar.Mul | scalar.Second) or (
            _is(node, scalar.Switch) and variable is not node.inputs[0]
        )
        if passes or self._is_linear(node, variable, alone=False):
            return sign
        return _NO_BOUND_BEHIND if sign > 0 else None

    def _is_linear(self, node: Apply, variable: Variable, alone: bool = True) -> bool:
        """Return whether a node is linear in a variable.

        If `alone`, it may multiply the variable only by what depends on no parameter, and sums do not count;
        else it may multiply by anything that is not the variable, and sums count.
        """
        op = _op(node)
        if isinstance(op, _TAKES):
            return node.inputs[0] is variable and variable not in node.inputs[1:]
        if isinstance(op, Join | MakeVector) or (isinstance(op, CumOp) and op.mode == "add"):
            return True
        others = [v for v in node.inputs if v is not variable]
        known = not alone or all(self._parameters.isdisjoint(self._of(v)) for v in others)
        if isinstance(op, Dot) or _is(node, scalar.Mul):
            return known and len(others) == len(node.inputs) - 1
        if _is(node, scalar.TrueDiv):
            return known and node.inputs[0] is variable and len(others) == 1
        if _is(node, scalar.Second):
            return node.inputs[1] is variable and len(others) == 1
        return _is(node, _COPIES) or (not alone and _is(node, scalar.Add | scalar.Sub))


def _op(node: Apply) -> Op:
    return node.op.core_op if isinstance(node.op, Blockwise) else node.op


def _keeps_order(node: Apply, before: bool) -> bool:
    """Return whether entries of a result may be in order, as a positive number is added to some of them.

    A vector that is made of several terms, or of cumulative sums, has such entries; a selected one is alone.
    """
    op = _op(node)
    if isinstance(op, Join | MakeVector | CumOp):
        return True
    selected = isinstance(op, Subtensor) and node.outputs[0].type.ndim < node.inputs[0].type.ndim
    return before and not (selected or isinstance(op, AdvancedSubtensor | Dot | Sum))


def _is_shape(node: Apply, variable: Variable) -> bool:
    """Return whether a node reads only the shape of a variable."""
    second = _is(node, scalar.Second) and variable is not node.inputs[1]
    return second or isinstance(node.op, Shape | Shape_i)


def _is_whole(variable: Variable) -> bool:
    number = _number(variable, math.nan)
    return number is not None and number >= 0 and number.is_integer()


def _is(node: Apply, op: type | UnionType) -> bool:
    return isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, op)
