"""Properties of Ops and of sizes that do not depend on which variables read records."""

from collections.abc import Collection, Iterator
from typing import cast

import numpy as np
from pytensor.compile import SharedVariable
from pytensor.graph import Apply, Constant, Op, Variable, rewrite_graph
from pytensor.graph.basic import equal_computations
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.graph.op import HasMultipleInnerGraph
from pytensor.graph.type import HasShape
from pytensor.tensor.basic import (
    AllocEmpty,
    MakeVector,
    PermuteRowElements,
    ScalarFromTensor,
    TensorFromScalar,
)
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import Shape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor, Subtensor, indices_from_subtensor

WRITES = (IncSubtensor, AdvancedIncSubtensor)
#: An index along one axis, or a mask along several.
type Index = Variable | slice

# Ops that run Python functions of the user's, read files, or print.
_BLACK_BOXES = ("FromFunctionOp", "LoadFromDisk", "Print", "PdbBreakpoint", "DifferentialEquation", "JAXOp")


def known(op: Op) -> bool:
    """Return whether the code of an Op, and of Ops inside of it, is PyTensor's or PyMC's and no black box.

    An Op from elsewhere may do anything, and its Python code may hold data.
    """
    return all(
        type(part).__module__.startswith(("pytensor.", "pymc."))
        and not any(c.__name__ in _BLACK_BOXES for c in type(part).__mro__)
        for part in _parts(op)
    )


def _parts(op: Op) -> Iterator[Op]:
    """Iterate over an Op, the Ops that it applies to entries or to a batch, and those in graphs inside."""
    yield op
    for name in ("scalar_op", "core_op"):
        yield from _parts(getattr(op, name)) if hasattr(op, name) else ()
    if isinstance(op, HasMultipleInnerGraph):
        for node in (node for fgraph in op.inner_graphs.values() for node in fgraph.apply_nodes):
            yield from _parts(node.op)


def trusted_name(op: Op, trusted: Collection[object]) -> str | None:
    """Return the name by which the user vouched for an Op, or None."""
    names = {type(op).__name__, str(op), getattr(op, "__name__", None)}
    for given in trusted:
        if given in names or given is type(op) or given is op:
            return str(given if isinstance(given, str) else type(op).__name__)
    return None


def inner_graphs(op: Op) -> list[AbstractFunctionGraph]:
    """Return the graphs inside of an Op, which may hold data."""
    graphs = list(op.inner_graphs.values()) if isinstance(op, HasMultipleInnerGraph) else []
    for name in ("scalar_op", "core_op"):
        graphs += inner_graphs(getattr(op, name)) if hasattr(op, name) else []
    return graphs


def allocates(op: Op) -> bool:
    """Return whether an Op, its core Op, or an Op in a graph inside of it may leave memory unwritten."""
    # A permutation may name a position twice.
    return any(isinstance(part, AllocEmpty | PermuteRowElements) for part in _parts(op))


def inner_constants(op: Op) -> list[Constant]:
    """Return the constants of the graphs inside of an Op, and of graphs inside of these."""
    found = []
    for fgraph in inner_graphs(op):
        for variable in fgraph.variables:
            if isinstance(variable, Constant):
                found.append(variable)
            if variable.owner is not None:
                found += inner_constants(variable.owner.op)
    return found


def keeps(node: Apply, number: int) -> bool:
    """Return whether a node is a cast that changes no whole number up to `number`."""
    if not (isinstance(node.op, Elemwise) and type(node.op.scalar_op).__name__ == "Cast"):
        return False
    return holds(node.outputs[0].type.dtype, number)


def holds(dtype: str, number: int) -> bool:
    """Return whether a type has all whole numbers up to `number`."""
    kind = np.dtype(dtype).kind
    return dtype == "float64" or (kind in "iu" and np.iinfo(dtype).max >= number)


def sizes_of(shape: Variable) -> list[int] | list[Variable] | None:
    """Return the entries of a vector of sizes, numbers or scalar variables; None if they are not known."""
    if isinstance(shape, Constant):
        return [int(v) for v in shape.data]
    node = shape.owner
    return list(node.inputs) if node is not None and isinstance(node.op, MakeVector) else None


def known_shape(variable: Variable) -> tuple[int | None, ...]:
    """Return the static lengths of a variable, None for unknown ones; () if it is no array."""
    return variable.type.shape if isinstance(variable.type, HasShape) else ()


def name_of(op: Op) -> str:
    """Return what a user would call an Op."""
    of = op.core_op if isinstance(op, Blockwise) else op.scalar_op if isinstance(op, Elemwise) else op
    name = type(of).__name__
    return {"CumOp": "cumsum", "AdvancedSubtensor": "indexing", "Subtensor": "indexing"}.get(
        name, name.lower()
    )


def length_along(variable: Variable, axis: int) -> Variable:
    """Return the length along an axis as a simplified graph of the sizes that the variable is made from."""
    return _simplified(variable.shape[axis])


def _simplified(size: Variable) -> Variable:
    found = rewrite_graph([size], include=("ShapeOpt", "canonicalize"), clone=True)
    return cast(list[Variable], found)[0]


def public_number(variable: object) -> int | None:
    """Return the value of an integer constant, or of a shared integer without axes: a number, not data."""
    if isinstance(variable, int | np.integer):
        return int(variable)
    if isinstance(variable, Constant):
        value = variable.data
    elif (
        isinstance(variable, SharedVariable)
        and isinstance(variable.type, HasShape)
        and not variable.type.ndim
    ):
        value = variable.get_value(borrow=True)
    else:
        return None
    value = np.asarray(value)
    return int(value) if value.ndim == 0 and value.dtype.kind in "iu" else None


def indices_of(node: Apply) -> list[Index]:
    """Return the indices by which a node reads or writes a part of its first input."""
    first = 2 if isinstance(node.op, WRITES) else 1
    return list(indices_from_subtensor(node.inputs[first:], node.op.idx_list))


def written_part(node: Apply) -> set[str]:
    """Return which of the parts "0" and "1:" of the last axis ``x[...].set(y)`` writes, all others whole."""
    indices = indices_of(node)
    if not node.op.set_instead_of_inc or len(indices) != node.inputs[0].type.ndim:
        return set()
    if not all(isinstance(index, slice) and index == slice(None) for index in indices[:-1]):
        return set()
    last = indices[-1]
    if isinstance(last, slice):
        rest = public_number(last.start) == 1 and last.stop is None and last.step is None
        return {"1:"} if rest else set()
    return {"0"} if public_number(last) == 0 else set()


def axes_in(shape: Variable, casts: bool = False) -> tuple[Variable | None, range]:
    """Return the variable whose shape, or a part of it, a vector is, and the axes; None if it is no shape.

    With `casts`, the vector may be cast.
    """
    shape = _uncast(shape) if casts else shape
    node = shape.owner
    if node is not None and isinstance(node.op, Shape):
        return node.inputs[0], range(node.inputs[0].type.ndim)
    if node is not None and isinstance(node.op, Subtensor):
        (index, *more) = indices_of(node)
        if not more and isinstance(index, slice):
            given = index.start, index.stop, index.step
            ends = [None if end is None else public_number(end) for end in given]
            of, axes = axes_in(node.inputs[0], casts)
            known = all(end is None or own is not None for end, own in zip(given, ends, strict=True))
            return (of, axes[slice(*ends)]) if known and ends[2] != 0 else (None, axes)
    return None, range(0)


def is_written_before(node: Apply, k: int) -> bool:
    """Return whether the entries of a scan's state that its steps do not write were written before.

    `scan` makes a state as ``empty(steps + taps, ...)[:taps].set(initial)``, where the number of taps is how
    far steps look back.
    """
    info = node.op.info
    looks_back = [*info.mit_mot_in_slices, *info.mit_sot_in_slices, *info.sit_sot_in_slices]
    reach = -min(looks_back[k - 1 - info.n_seqs])
    write = node.inputs[k].owner
    memory = None if write is None else write.inputs[0].owner
    if memory is None or not isinstance(memory.op, AllocEmpty) or not isinstance(write.op, IncSubtensor):
        return False
    indices = indices_of(write)
    taken = indices[0].stop if indices and isinstance(indices[0], slice) else None
    if len(indices) != 1 or taken is None or indices[0] != slice(None, taken):
        return False
    if public_number(_simplified(taken)) != reach:
        return False
    length, parts = memory.inputs[0], [_uncast(taken), _uncast(node.inputs[0])]
    whole, first, steps = (public_number(one) for one in (length, *parts))
    if whole is not None and first is not None and steps is not None:
        return write.op.set_instead_of_inc and whole == first + steps
    total = _uncast(length).owner
    added = total is not None and isinstance(total.op, Elemwise) and name_of(total.op) == "add"
    found = [*map(_uncast, total.inputs)] if added else []
    alike = [len(found) == 2 and all(map(_same_number, found, one)) for one in (parts, parts[::-1])]
    return write.op.set_instead_of_inc and any(alike)


def _same_number(a: Variable, b: Variable) -> bool:
    """Return whether two scalars are the same number, or computed in the same way."""
    number = public_number(a)
    return equal_computations([a], [b]) if number is None else number == public_number(b)


def _uncast(variable: Variable) -> Variable:
    """Return the variable behind casts to types that hold it, and behind conversions to or from scalars."""
    node = variable.owner
    cast_ = node is not None and (
        isinstance(node.op, ScalarFromTensor | TensorFromScalar)
        or (name_of(node.op) == "cast" and node.outputs[0].type.dtype in ("int64", "float64"))
    )
    return _uncast(node.inputs[0]) if cast_ else variable
