"""Rewrites of compiled graphs by which loops work on several records at once (SIMD).

They belong to the mode in which graphs are compiled here: other models of the process keep PyTensor's own
functions and loops.
"""

from collections.abc import Callable
from inspect import signature
from types import FunctionType
from typing import cast

import pytensor.tensor as pt
from numba.core.dispatcher import Dispatcher
from pytensor import config
from pytensor.compile import Mode, get_mode
from pytensor.graph import Variable, node_rewriter
from pytensor.graph.rewriting.basic import in2out
from pytensor.link.basic import Linker
from pytensor.scalar import GammaLn, Sigmoid, Softplus, basic
from pytensor.tensor import TensorVariable
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.records import vector_math as fast


class _Compiled(basic.ScalarOp):
    """A function of `vector_math` as a scalar Op, which the Numba backend compiles."""

    __props__ = ("name",)

    def __init__(self, function: Dispatcher):
        self.function, self.nin = function, len(signature(function.py_func).parameters)
        super().__init__(basic.upgrade_to_float64, name=function.__name__)

    def impl(self, *numbers):
        """Call the function on single numbers, outside of a loop."""
        return self.function(*numbers)

    def c_code(self, *arguments):
        """Return no code: that the method exists lets PyTensor fuse loops; only Numba compiles this Op."""
        return ""


def _op(function: Dispatcher) -> Callable[..., TensorVariable]:
    return cast(Callable[..., TensorVariable], Elemwise(_Compiled(function)))


def _softplus(x: Variable) -> Variable:
    return pt.maximum(x, 0.0) + _op(fast.log_one_plus)(_op(fast.exp)(pt.neg(pt.abs(x))))


def _log_gamma(x: Variable) -> Variable:
    z = _op(fast.gamma_place)(x)
    return _op(fast.gamma_whole)(
        x, _op(fast.gamma_series)(z, _op(fast.log)(z)), _op(fast.log)(_op(fast.gamma_factor)(x))
    )


# Faster forms of functions; of several Ops where one would be too long for the compiler to inline.
_FORMS: dict[type, Callable[..., Variable]] = {
    basic.Exp: _op(fast.exp),
    basic.Log: _op(fast.log),
    basic.Log1p: lambda x: _op(fast.log_of_sum)(x) + _op(fast.rest_of_sum)(x),
    GammaLn: _log_gamma,
    Sigmoid: lambda x: pt.reciprocal(1.0 + _op(fast.exp)(pt.neg(x))),
    Softplus: _softplus,
}


@node_rewriter([Elemwise])
def _fast_form(fgraph, node):
    form = _FORMS.get(type(node.op.scalar_op))
    if form is None or node.outputs[0].type.dtype != "float64" or all(node.outputs[0].type.broadcastable):
        return None
    return [form(pt.cast(node.inputs[0], "float64"))]


class _Inlined(basic.Composite):
    """A composite scalar Op that is inlined into its loop instead of being called as a function."""


@node_rewriter([Elemwise])
def _inline(fgraph, node):
    op = node.op.scalar_op
    if type(op) is not basic.Composite:
        return None
    inlined = Elemwise(_Inlined(op.inputs, op.outputs), inplace_pattern=node.op.inplace_pattern)
    return inlined(*node.inputs, return_list=True)


def vectorised(mode: Mode | str | None) -> Mode:
    """Return a compilation mode whose loops over many numbers the compiler can vectorise.

    Parameters
    ----------
    mode : Mode, str or None
        As in `pytensor.function`. One that does not compile with Numba is returned as it is.
    """
    plain = get_mode(mode)
    if NUMBA is None or type(plain) is not Mode or type(plain.linker) is not _LOCKED:
        return plain
    forms = in2out(_fast_form, ignore_newtrees=True, name="fast_forms")
    inline = in2out(_inline, ignore_newtrees=True, name="inline")
    # Position of `_fast_form` among PyTensor's rewrites: before it fuses loops (49).
    before = 48.9
    # Position of `_inline`: after the fusion, and before in-place memory is chosen (50.5).
    after = 49.5
    # Numbers that all records share stay vectors of length 1: as scalars they would be passed by a function
    # call.
    rewrites = plain.excluding("scalarize").register((forms, before), (inline, after)).provided_optimizer
    return Mode(linker=NUMBA(), optimizer=rewrites)


def _register() -> tuple[type[Linker] | None, type[Linker] | None]:
    """Register the Ops with PyTensor's Numba backend; return its linker, and the one that is used instead.

    None for both: PyTensor has a version in which this cannot be done.
    """
    try:
        from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS
        from pytensor.link.numba.dispatch.basic import (
            numba_funcify_and_cache_key,
            numba_njit,
            register_funcify_and_cache_key,
        )
        from pytensor.link.numba.dispatch.scalar import register_scalar_funcify, scalar_op_cache_key
        from pytensor.link.numba.linker import NumbaLinker
    except ImportError:
        return None, None

    def compiled(op, node, **kwargs):
        return op.function, scalar_op_cache_key(op, pymc_dp=2, function=op.name)

    def inlined(op, node, **kwargs):
        plain = basic.Composite(op.inputs, op.outputs)
        function, key = numba_funcify_and_cache_key(plain, node=node, **kwargs)
        return numba_njit(function.py_func, forceinline=True), key and f"inlined {key}"

    class Unlocked(NumbaLinker):
        """PyTensor's linker, but compiled functions release the GIL, so that other threads run meanwhile.

        Numba's cache file gets another name: Numba would otherwise use a file of code that keeps the GIL.
        """

        def fgraph_convert(self, fgraph, **kwargs):  # type: ignore[override]
            return numba_funcify_and_cache_key(fgraph, **kwargs)

        def jit_compile(self, fn_and_cache):
            function, key = fn_and_cache
            known, kept = function.py_func, key is not None and config.numba__cache
            code = known.__code__.replace(co_filename="<unlocked>")  # part of the cache file's name
            made = FunctionType(code, known.__globals__, known.__name__)
            if kept:
                CACHED_SRC_FUNCTIONS[made] = f"{key}_fastmath{int(config.numba__fastmath)}_unlocked"
            return numba_njit(made, final_function=True, cache=kept, nogil=True)

    register_scalar_funcify(_Compiled)(compiled)
    register_funcify_and_cache_key(_Inlined)(inlined)
    return NumbaLinker, Unlocked


#: PyTensor's linker, and the one by which graphs are compiled here; None where there is none.
_LOCKED, NUMBA = _register()
