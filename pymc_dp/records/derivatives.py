"""Derivatives of graphs for all records at once, and a check that each row depends on its own record only."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.gradient import NullTypeGradError
from pytensor.graph import Apply, Constant, Variable, ancestors, clone_replace, rewrite_graph, vectorize_graph
from pytensor.graph.traversal import toposort
from pytensor.graph.type import HasDataType
from pytensor.graph.utils import MethodNotDefined
from pytensor.scalar import basic as scalar
from pytensor.scan.op import Scan
from pytensor.tensor.elemwise import Elemwise

from pymc_dp.records import graph
from pymc_dp.records.reading import Reading
from pymc_dp.records.refusals import refuse_derivative, refuse_steps
from pymc_dp.records.sums import guarded
from pymc_dp.records.verification import differ, made_up

# Step functions, whose derivatives are zero.
_JUMPS = scalar.Sign | scalar.Ceil | scalar.Floor | scalar.Trunc | scalar.RoundHalfToEven


class NotStructuredError(Exception):
    """Parameters and records meet in another way, or a row does not depend on its own record only."""


# `gradients` and `replaced` are PyTensor's functions, with the one signature that is used here.


def gradients(cost: Variable, wrt: Sequence[Variable]) -> list[Variable]:
    """Differentiate a number; derivatives by variables that it does not depend on are zero.

    Raises
    ------
    ModelRefusedError
        An Op has no derivative.
    """
    try:
        found = pytensor.grad(cost, list(wrt), disconnected_inputs="ignore", return_disconnected="zero")
    except (MethodNotDefined, NullTypeGradError, NotImplementedError) as error:
        raise refuse_derivative(type(error).__name__) from None
    return cast(list[Variable], found)


def check_slopes(reading: Reading) -> None:
    """Refuse a release if log-likelihoods read a parameter but have no derivative by it.

    Raises
    ------
    ModelRefusedError
    """
    values = {reading.opaque.values[rv]: name for name, rv in reading.opaque.free.items()}
    if steps := read_in_steps(reading.terms, values):
        raise refuse_steps([name for v, name in values.items() if v in steps])


def read_in_steps(outputs: Sequence[Variable], parameters: Collection[Variable]) -> set[Variable]:
    """Return the parameters on which outputs depend only by steps, as by comparisons with something."""
    moving: dict[Variable, frozenset[Variable]] = {v: frozenset([v]) for v in parameters}
    for node in toposort(list(outputs)):
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, _JUMPS):
            continue
        reads = frozenset[Variable]().union(*(moving.get(v, frozenset()) for v in node.inputs))
        # Slices and generators have no numbers; truth values and integers have no derivatives.
        numbers = [v for v in node.outputs if isinstance(v.type, HasDataType)]
        moving |= {v: reads for v in numbers if v.type.dtype.startswith(("float", "complex"))}
    moves = frozenset[Variable]().union(*(moving.get(v, frozenset()) for v in outputs))
    return set(parameters).intersection(ancestors(outputs)) - moves


def replaced(outputs: Sequence[Variable], replace: Mapping[Variable, Variable]) -> list[Variable]:
    """Copy graphs with other variables in place of some; their static shapes may differ."""
    return clone_replace(list(outputs), dict(replace), rebuild_strict=False)


def by_record(rows: Variable, parameters: Sequence[Variable], records: Mapping[Variable, int]) -> Variable:
    """Differentiate any rows: take the gradient of a single record's row, and vectorize it over records.

    Parameters
    ----------
    rows : Variable, vector
        One number a record.
    parameters : sequence of Variable
        What to differentiate with respect to.
    records : mapping of Variable to int
        Data of the records, and the axis of the records.

    Returns
    -------
    Variable, shape (m, p)
        Derivatives by all numbers of the parameters, in their order.

    Raises
    ------
    ModelRefusedError
        An Op has no derivative, or none that can be taken record by record.
    """
    if any(v.owner is not None and isinstance(v.owner.op, Scan) for v in ancestors([rows])):
        raise refuse_derivative("a `scan` by record: write its steps as sums and products of arrays")
    single: dict[Variable, Variable] = {}
    many: dict[Variable, Variable] = {}
    for record, axis in records.items():
        shape = tuple(size for i, size in enumerate(record.type.shape) if i != axis)
        one = pt.tensor(dtype=record.type.dtype, shape=shape)
        single[record], many[one] = pt.expand_dims(one, axis), pt.moveaxis(pt.as_tensor(record), axis, 0)
    row = replaced([rows], single)[0].sum()
    m = next(iter(many.values())).shape[0]
    opened = graph.rewritten(gradients(row, parameters), _opened)
    # At each rewrite PyTensor appends to a constant's trace of where it was made, and some constants outlive
    # the graph: their traces would become 27 times as long with each model of an `MvNormal`, up to gigabytes.
    for leaf in ancestors(opened):
        if isinstance(leaf, Constant):
            leaf.tag.trace = []
    found = rewrite_graph(opened, include=("ShapeOpt", "canonicalize"))
    return pt.concatenate([_vectorized(one.ravel(), many, m) for one in cast(list[Variable], found)], axis=1)


def _opened(node: Apply, inputs: list[Variable]) -> Sequence[Variable] | None:
    """Inline Ops that are graphs, such as ``LogSumExp``: vectorized they would be loops in Python."""
    if not isinstance(node.op, OpFromGraph):
        return None
    inner = node.op.fgraph
    return graph.rewritten(inner.bind(dict(zip(inner.inputs, inputs, strict=True))), _opened)


def jacobian(parameter: Variable, touched: Sequence[Variable]) -> Variable:
    """Differentiate `parameter`, p numbers, by the entries of `touched`: shape (p, entries)."""
    direction = pt.vector(dtype="float64")
    basis = pt.eye(parameter.size)
    found = gradients((parameter.ravel() * direction).sum(), touched)
    columns = [_vectorized(gradient.ravel(), {direction: basis}, parameter.size) for gradient in found]
    # Of `direction` only the length may be left in the graph: any vector of that length will do.
    return replaced([pt.concatenate(columns, axis=1)], {direction: basis[0]})[0]


def _vectorized(output: Variable, replace: Mapping[Variable, Variable], length: Variable) -> Variable:
    """Vectorize `output` over the replacements' first axis, of that length; it may not depend on them."""
    batched = cast(Variable, vectorize_graph(output, replace))
    if batched.type.ndim > output.type.ndim:
        return batched
    return pt.broadcast_to(batched, (length, *batched.shape))


def numbers_a_record(
    function: Callable[..., list[np.ndarray]],
    given: Sequence[np.ndarray],
    records: Mapping[Variable, int],
    roots: Mapping[Variable, int],
) -> list[int]:
    """Check on made-up records that outputs have one row a record, which depends on that record only.

    Parameters
    ----------
    function : callable
        Takes the arrays in `given`, then the data of some records.
    given : sequence of ndarray
    records : mapping of Variable to int
        The data as inputs, and the axis of the records.
    roots : mapping of Variable to int
        The arrays of the model that they stand for.

    Returns
    -------
    list of int
        The number of numbers a record in each output.

    Raises
    ------
    NotStructuredError
        An output has another number of rows, or a row depends on another record.
    """

    def outputs(size: int, first: float | None = None) -> list[np.ndarray]:
        return guarded(function, *given, *made_up(records, roots, size, first))

    few, many = outputs(2), outputs(5)
    for two, five, *changed in zip(few, many, outputs(5, 0.5), outputs(5, np.nan), strict=True):
        if (len(two), len(five)) != (2, 5) or two.shape[1:] != five.shape[1:]:
            raise NotStructuredError
        if any(np.any(differ(five[1:], other[1:])) for other in changed):
            raise NotStructuredError
    return [two[0].size for two in few]


def both_near(
    function: Callable[[np.ndarray], np.ndarray],
    jacobian: Callable[[np.ndarray], np.ndarray],
    start: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a function and its Jacobian at a point near the start, where no entry is zero by chance."""
    rng = np.random.default_rng(0)
    point = start + 0.5 * rng.normal(size=start.size)
    return function(point), jacobian(point)


def rank_near(jacobian: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> int:
    """Return the rank of a Jacobian near the start."""
    _, slopes = both_near(np.copy, jacobian, start)
    return int(np.linalg.matrix_rank(slopes)) if np.all(np.isfinite(slopes)) else len(slopes)


def is_shear(jacobian: Callable[[np.ndarray], np.ndarray], start: np.ndarray, alone: int) -> bool:
    """Return whether the Jacobian varies with the point while its determinant does not.

    Each of the last `alone` coordinates is a function of one parameter of its own, and is treated as equal to
    it.
    """
    rng = np.random.default_rng(0)
    points = start + 0.5 * rng.normal(size=(3, start.size))
    slopes = np.array([jacobian(point) for point in points])
    if not np.all(np.isfinite(slopes)):
        return False
    slopes[:, len(slopes[0]) - alone :] = slopes[:, len(slopes[0]) - alone :] != 0
    # The determinant's square, also of more coordinates than parameters.
    volumes = np.linalg.det(slopes.swapaxes(1, 2) @ slopes)
    curved = not np.allclose(slopes, slopes[0], rtol=1e-9, atol=1e-12)
    return curved and bool(volumes[0] > 0) and np.allclose(volumes, volumes[0], rtol=1e-9)
