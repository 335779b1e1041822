"""Exponentials and logarithms without branches, so that a compiler works on several records at once.

PyTensor's Numba backend calls the C library for them, once a number: that is most of what a pass over the data
costs. The functions below are polynomials; errors are below 2 units in the last place (`tests/records`).
`faster` writes them into a graph as Ops of their own, so that other models of the process keep PyTensor's.
"""

from collections.abc import Sequence
from typing import Any, cast

import numba
import numpy as np
import pytensor.tensor as pt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Variable
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.scalar import basic
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor.elemwise import Elemwise

# No reordering: that would undo corrections of rounding errors. Products may be fused with sums. Inlined, or
# the loop around them is not vectorised.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}, "forceinline": True}
# Added to a number below 2**51 it leaves the nearest integer in the last bits.
_ROUND = 6755399441055744.0
_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Where exponentials are taken for 0 and infinite.
_LEAST, _MOST = -708.0, 709.0
# Bits of sqrt(1/2); smallest normal number.
_HALF, _NORMAL = 0x3FE6A09E667F3BCD, 2.2250738585072014e-308


@intrinsic
def _bits(context, x):
    """The 64 bits of a number."""
    return types.int64(types.float64), lambda context, b, sig, args: b.bitcast(args[0], ir.IntType(64))


@intrinsic
def _number(context, bits):
    """The number of 64 bits."""
    return types.float64(types.int64), lambda context, b, sig, args: b.bitcast(args[0], ir.DoubleType())


@numba.njit(**_OPTIONS)
def exp(x):
    """Exponential; 0 below -708, infinite above 709."""
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    # (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, to 1e-16: Chebyshev's.
    p = 2.5100385495510319078e-8
    p = p * r + 2.7620088445409748161e-7
    p = p * r + 2.7557268459997064772e-6
    p = p * r + 2.4801521295954375131e-5
    p = p * r + 1.9841269863053616878e-4
    p = p * r + 1.3888888917213716901e-3
    p = p * r + 8.3333333333300618325e-3
    p = p * r + 4.1666666666624127873e-2
    p = p * r + 0.16666666666666667453
    p = p * r + 0.5
    p = (p * r) * r + r + 1.0
    found = p * _number((_bits(shifted) + 1023) << 52)
    found = found if x >= _LEAST else 0.0
    found = found if x <= _MOST else np.inf
    return found if x == x else x


@numba.njit(**_OPTIONS)
def log_one_plus(x):
    """Logarithm of 1 + x for x in [0, 1]."""
    s = x / (2.0 + x)
    q = s * s
    # 2 artanh(s) / s - 2, over q, for s in [0, 1/3], to 1e-16: Chebyshev's.
    p = 0.16164045611943532221
    p = p * q + 0.088007384861446738822
    p = p * q + 0.12001072809590712535
    p = p * q + 0.1331414420965493615
    p = p * q + 0.15385570064958623103
    p = p * q + 0.18181789436132858169
    p = p * q + 0.22222222717427862989
    p = p * q + 0.28571428567108757162
    p = p * q + 0.40000000000014582673
    p = p * q + 0.66666666666666658561
    return (s * q) * p + 2.0 * s


@numba.njit(**_OPTIONS)
def log(x):
    """Natural logarithm."""
    small = x < _NORMAL
    bits = _bits(x * 18014398509481984.0 if small else x)
    k = (bits - _HALF) >> 52
    f = _number(bits - (k << 52)) - 1.0
    e = np.float64(k - 54 if small else k)
    s = f / (2.0 + f)
    q = s * s
    p = 0.14617037548791650146
    p = p * q + 0.15331674030167861852
    p = p * q + 0.18182890556695603528
    p = p * q + 0.22222211115144161503
    p = p * q + 0.28571428626095891537
    p = p * q + 0.39999999999899238978
    p = p * q + 0.66666666666666696955
    half = 0.5 * f * f
    found = e * _LN2_HIGH - ((half - (s * (half + q * p) + e * _LN2_LOW)) - f)
    found = found if x > 0.0 else (-np.inf if x == 0.0 else np.nan)
    return found if x < np.inf else x


@numba.njit(**_OPTIONS)
def log_of_sum(x):
    """Logarithm of ``1 + x`` rounded to a number."""
    return log(1.0 + x)


@numba.njit(**_OPTIONS)
def rest_of_sum(x):
    """What rounding ``1 + x`` takes from its logarithm."""
    u = 1.0 + x
    left = ((1.0 - (u - x)) if x > 1.0 else (x - (u - 1.0))) / u
    return left if u > 0.0 and u < np.inf else 0.0


class _Compiled(basic.UnaryScalarOp):
    """A function of one number: compiled as above, otherwise NumPy's."""

    function: Any
    nfunc_spec: Any

    def impl(self, x):
        """For other backends."""
        return getattr(np, self.nfunc_spec[0])(x)

    def c_code(self, node, name, inputs, outputs, sub):
        """For PyTensor's C backend, and a sign that loops may be fused."""
        return f"{outputs[0]} = {self.nfunc_spec[0]}({inputs[0]});"


class _Exp(_Compiled):
    function, nfunc_spec = staticmethod(exp), ("exp", 1, 1)


class _Log(_Compiled):
    function, nfunc_spec = staticmethod(log), ("log", 1, 1)


class _LogOnePlus(_Compiled):
    function, nfunc_spec = staticmethod(log_one_plus), ("log1p", 1, 1)


class _LogOfSum(_LogOnePlus):
    function = staticmethod(log_of_sum)


class _RestOfSum(_Compiled):
    function, nfunc_spec = staticmethod(rest_of_sum), ("zeros_like", 1, 1)

    def c_code(self, node, name, inputs, outputs, sub):
        """The C library's logarithm is whole."""
        return f"{outputs[0]} = 0 * {inputs[0]};"


def _op(kind: type) -> Any:
    return Elemwise(kind(basic.upgrade_to_float64, name=kind.__name__))


_EXP, _LOG, _LOG_ONE_PLUS, _LOG_OF_SUM, _REST_OF_SUM = map(
    _op, (_Exp, _Log, _LogOnePlus, _LogOfSum, _RestOfSum)
)


def _softplus(x: Any) -> Any:
    return pt.maximum(x, 0.0) + _LOG_ONE_PLUS(_EXP(-pt.abs(x)))


# Two Ops where one would be too long for the compiler to inline.
_FORMS: dict[type, Any] = {
    basic.Exp: _EXP,
    basic.Log: _LOG,
    basic.Log1p: lambda x: _LOG_OF_SUM(x) + _REST_OF_SUM(x),
    Sigmoid: lambda x: pt.reciprocal(1.0 + _EXP(-x)),
    Softplus: _softplus,
}


@node_rewriter([Elemwise])
def _fast_form(fgraph, node):
    form = _FORMS.get(type(node.op.scalar_op))
    x = node.inputs[0]
    if form is None or x.type.dtype != "float64" or all(x.type.broadcastable):
        return None
    return [form(x)]


def faster(outputs: Sequence[Variable]) -> list[Variable]:
    """The same graphs, with the functions above for those of many numbers; derivatives are taken before."""
    found = rewrite_graph(
        list(outputs), include=(), custom_rewrite=in2out(_fast_form, ignore_newtrees=True), clone=True
    )
    return cast(list[Variable], found)


class _Inlined(basic.Composite):
    """What a loop does with a record, as a part of the loop and not a function that it calls."""


@node_rewriter([Elemwise])
def _inline(fgraph, node):
    op = node.op.scalar_op
    if type(op) is not basic.Composite:
        return None
    inlined = Elemwise(_Inlined(op.inputs, op.outputs), inplace_pattern=node.op.inplace_pattern)
    return inlined(*node.inputs, return_list=True)


# After PyTensor has made one loop of many (49), before it looks for memory that loops may overwrite (50.5).
_PLACE = 49.5


def vectorised(mode: Any) -> Any:
    """A compilation mode whose loops the compiler can vectorise, however long they are.

    Parameters
    ----------
    mode : Mode, str or None
        As in `pytensor.function`.
    """
    return get_mode(mode).register((in2out(_inline, ignore_newtrees=True, name="inline"), _PLACE))


def _register() -> None:
    """Tell PyTensor's Numba backend; versions without this door call Python, which is right and slow."""
    try:
        from pytensor.link.numba.dispatch.basic import (
            numba_funcify_and_cache_key,
            numba_njit,
            register_funcify_and_cache_key,
        )
        from pytensor.link.numba.dispatch.scalar import register_scalar_funcify, scalar_op_cache_key
    except ImportError:
        return

    def compiled(op, node, **kwargs):
        return op.function, scalar_op_cache_key(op, pymc_dp=1)

    for kind in (_Exp, _Log, _LogOnePlus, _LogOfSum, _RestOfSum):
        register_scalar_funcify(kind)(compiled)

    def inlined(op, node, **kwargs):
        plain = basic.Composite(op.inputs, op.outputs)
        function, key = numba_funcify_and_cache_key(plain, node=node, **kwargs)
        return numba_njit(function.py_func, forceinline=True), key and f"inlined {key}"

    register_funcify_and_cache_key(_Inlined)(inlined)


_register()
