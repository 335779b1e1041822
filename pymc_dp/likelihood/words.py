"""Public graphs as expressions in words, such as ``mean + tau * z``."""

from collections.abc import Mapping, Sequence

import numpy as np
from pytensor.compile import ViewOp
from pytensor.graph import Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

# By the name of an Op: its infix sign, and its precedence.
_INFIX = {
    "Add": ("+", 1),
    "Sub": ("-", 1),
    "Mul": ("*", 2),
    "TrueDiv": ("/", 2),
    "Dot": ("@", 2),
    "Pow": ("**", 3),
}
# Precedence of names and calls, which need no brackets.
_TIGHTEST = 4
# Text in place of the rest of a long expression.
_MORE = "..."


def in_words(variable: Variable, names: Mapping[Variable, str]) -> str:
    """Write a graph as an expression.

    Parameters
    ----------
    variable : Variable
    names : mapping of Variable to str
        Variables at which the expression ends, and their names.
    """
    depth, length = 6, 60  # deeper and longer expressions are cut off
    said = _said(variable, names, depth)[0]
    return said if len(said) <= length else said[: length - len(_MORE)] + _MORE


def _said(variable: Variable, names: Mapping[Variable, str], depth: int) -> tuple[str, int]:
    if variable in names:
        return names[variable], _TIGHTEST
    node = variable.owner
    if node is None:
        return _of_leaf(variable), _TIGHTEST
    if depth == 0:
        return _MORE, _TIGHTEST
    op = node.op
    # Ops that are left out of the expression, since they change no value.
    silent = DimShuffle | Alloc | SpecifyShape | Reshape | ViewOp | CheckAndRaise | TensorFromScalar
    if isinstance(op, silent):
        return _said(node.inputs[0], names, depth)
    if isinstance(op, Subtensor | AdvancedSubtensor):
        return f"{_tight(node.inputs[0], names, depth, _TIGHTEST)}[{_MORE}]", _TIGHTEST
    if isinstance(op, IncSubtensor | AdvancedIncSubtensor):
        # A matrix that is made of a packed vector is a matrix of zeros, into which its numbers are written.
        into, values = node.inputs[:2]
        if _said(into, names, depth)[0] == "0":
            return _said(values, names, depth)
    core = op.core_op if isinstance(op, Blockwise) else op
    kind = type(core.scalar_op if isinstance(core, Elemwise) else core).__name__
    if kind == "Cast":
        return _said(node.inputs[0], names, depth)
    if kind in _INFIX:
        sign, binds = _INFIX[kind]
        first, *rest = node.inputs
        parts = [
            _tight(first, names, depth - 1, binds),
            *(_tight(v, names, depth - 1, binds + 1) for v in rest),
        ]
        return f" {sign} ".join(parts), binds
    parts = [_said(v, names, depth - 1)[0] for v in node.inputs]
    return f"{kind.lower()}({', '.join(parts)})", _TIGHTEST


def _tight(variable: Variable, names: Mapping[Variable, str], depth: int, binds: int) -> str:
    said, own = _said(variable, names, depth)
    return said if own >= binds else f"({said})"


def _of_leaf(leaf: Variable) -> str:
    if (
        isinstance(leaf, Constant)
        and getattr(leaf.type, "ndim", None) is not None
        and np.size(leaf.data) == 1
    ):
        return f"{np.asarray(leaf.data).item():g}"
    return leaf.name or "array"


def make_unique(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Make names unique by numbering repeated ones: ``x``, ``x (2)``."""
    found: list[str] = []
    for name in names:
        other, number = name, 2
        while other in found or other in taken:
            other, number = f"{name} ({number})", number + 1
        found.append(other)
    return found
