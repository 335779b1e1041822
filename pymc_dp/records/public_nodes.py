"""Public nodes: the functions of parameters nearest to the observed variables that read no record."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.abstract import MeasurableOp
from pytensor.compile import ViewOp
from pytensor.graph import Apply, Constant, Variable, ancestors
from pytensor.graph.traversal import toposort
from pytensor.scalar import Exp, Mul, Reciprocal, Sqrt, TrueDiv
from pytensor.tensor.basic import Alloc
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dp.records.row_types import PUBLIC, RowType
from pymc_dp.records.row_types.ops import known_shape

# Entrywise Ops. Where only one input depends on parameters, a quadratic approximation in that input is as
# good as one in the output.
_ENTRYWISE = (Elemwise, DimShuffle, Alloc, Reshape, SpecifyShape, ViewOp)

# Coordinates depend on each other where a singular value of the matrix of their derivatives, each of length
# one, is below this.
_DEPENDENT = 1e-7
# What the law of a record sees of a node: single entries, sums of these with its own numbers; rows; or all.
_ENTRIES, _ROWS, _WHOLE = 0, 1, 2


class PublicNode(NamedTuple):
    """A public function of parameters, and the variable of the graph that is replaced by it.

    Attributes
    ----------
    public : Variable
    read : Variable
        `public` itself, or a variable equal to ``public[index]`` for an index with one entry a record.
    gather : Apply or None
        A node that indexes another variable in the same way.
    logarithm : bool
        Whether `public` is the logarithm of that function.
    """

    public: Variable
    read: Variable
    gather: Apply | None = None
    logarithm: bool = False

    def given(self, value: Variable) -> Variable:
        """Return what replaces `read` when `value` replaces `public`."""
        if self.logarithm:
            value = pt.exp(value)
        if self.gather is None:
            return value
        return self.gather.op.make_node(value, *self.gather.inputs[1:]).outputs[0]


class PublicNodes:
    """Finds public nodes, from the observed variables back.

    Parameters
    ----------
    observed, free : sequence of Variable
        Random variables, with records behind shared variables.
    types : mapping of Variable to RowType
        Row types of the graph between them.
    sizes : set of int
        Lengths of an axis that mark records.
    positive : set of Variable, optional
        Free variables that are sampled by their logarithm, as then are nodes that are products of these.
    constrained : set of Variable, optional
        Free variables of which entries limit each other, such as weights or numbers that are in order.

    Notes
    -----
    **Privacy.** Looks at Ops, types and static shapes, and at whether public constants are above zero.
    """

    def __init__(
        self,
        observed: Sequence[Variable],
        free: Sequence[Variable],
        types: Mapping[Variable, RowType],
        sizes: set[int],
        positive: Iterable[Variable] = (),
        constrained: Iterable[Variable] = (),
    ):
        self._constrained = set(constrained)
        self._observed, self._free, self._above_zero = list(observed), set(free), set(positive)
        self._parameters: set[Variable] = set(self._free)
        # Variables that read records, have an axis of their length, or are random.
        self._private: set[Variable] = set(self._observed)
        self._private.update(v for v, t in types.items() if t is not PUBLIC)
        for node in toposort(self._observed):
            random = isinstance(node.op, MeasurableOp)
            for out in set(node.outputs) - self._free:
                if not isinstance(node.op, Shape | Shape_i) and self._parameters & set(node.inputs):
                    self._parameters.add(out)
                if random or self._private & set(node.inputs) or sizes & set(known_shape(out)):
                    self._private.add(out)

    def __call__(self, closed: Set[Variable] = frozenset()) -> list[PublicNode] | None:
        """Return the nodes that are no free variables themselves; None if one of them is not real-valued.

        Variables in `closed` are no nodes: what they are made of is.
        """
        self._closed = closed
        found: dict[Variable, PublicNode] = {}
        stack, seen = list(reversed(self._observed)), set()
        while stack:
            variable = stack.pop()
            if variable in seen or variable not in self._parameters:
                continue
            seen.add(variable)
            node = self._public(variable)
            if node is None:
                stack.extend(reversed(variable.owner.inputs))
            elif variable.type.dtype != "float64" or node.public.type.dtype != "float64":
                return None
            elif node.public not in self._free:
                found[node.read] = node
        return list(found.values())

    def bound_together(
        self,
        nodes: Sequence[PublicNode],
        places: Mapping[Variable, slice],
        sums: Set[Variable],
        near: Callable[[], tuple[np.ndarray, np.ndarray]],
    ) -> set[Variable]:
        """Return what is read of nodes of which entries limit each other where they are parameters of a law.

        A search moves each coordinate by itself: weights ``(1 - psi, psi)`` would no longer add up to one,
        and sums of them no longer grow; no outcome could be drawn. Linear predictors, and entries that
        records look up, may be any numbers.

        Parameters
        ----------
        nodes : sequence of PublicNode
        places : mapping of Variable to slice
            Coordinates that belong to each variable that is read.
        sums : set of Variable
            Variables that sum to zero, and are coordinates nevertheless.
        near : callable
            Returns coordinates, shape (p,), and their derivatives by the parameters, (p, d), at some point.
        """
        seen_as = self._seen_as(nodes)
        whole = {node.read for node in nodes if seen_as[node.read] == _WHOLE}
        given = {node.read for node in nodes if not self._constrained.isdisjoint(ancestors([node.public]))}
        if given & whole:
            return given & whole
        rows = {read for read, kind in seen_as.items() if kind == _ROWS}
        if not rows and not whole:
            return set()
        values, slopes = near()
        if not np.isfinite(slopes).all():
            return set()
        affine = {read for read in rows if not _is_linear(slopes[places[read]], values[places[read]])}
        for read in (places.keys() - whole) & (seen_as.keys() | sums):
            slopes[places[read]] = 0.0
        bound = np.abs(_dependent(slopes)).any(axis=1)
        return affine | {read for read in whole if bound[places[read]].any()}

    def _seen_as(self, nodes: Iterable[PublicNode]) -> dict[Variable, int]:
        """Return how the laws of records see what is read of each node: entries, rows or the whole of it."""
        uses: dict[Variable, list[tuple[Apply, int]]] = {}
        for node in toposort(self._observed):
            for k, v in enumerate(node.inputs):
                uses.setdefault(v, []).append((node, k))

        def seen(variable: Variable, node: Apply, k: int) -> int:
            out = node.outputs[0]
            if isinstance(node.op, Shape | Shape_i):
                return _ENTRIES
            if isinstance(node.op, MeasurableOp):
                return _WHOLE if variable.type.ndim else _ENTRIES
            if out not in self._private:
                return largest(out)
            product = node.op.core_op if isinstance(node.op, Blockwise) else node.op
            if out.type.ndim <= 1 or isinstance(product, Dot):
                return _ENTRIES
            return _ROWS if isinstance(node.op, AdvancedSubtensor) and not k else _WHOLE

        @cache
        def largest(variable: Variable) -> int:
            return max((seen(variable, *use) for use in uses.get(variable, [])), default=_ENTRIES)

        return {node.read: _ENTRIES if node.gather else largest(node.read) for node in nodes}

    def _public(self, variable: Variable) -> PublicNode | None:
        if variable not in self._private:
            source = self._source(variable)
            if source in self._closed:
                return None
            node = self._on_its_scale(PublicNode(source, source))
            return node if node.logarithm or not self._has_quotient(source) else None
        if isinstance(variable.owner.op, Elemwise) and len(self._of_parameters(variable)) > 1:
            gathered = self._gathered(variable)
            if gathered is not None and variable not in self._closed:
                return self._on_its_scale(PublicNode(gathered[0], variable, gathered[1]))
        return None

    def _on_its_scale(self, node: PublicNode) -> PublicNode:
        """Replace a node that is positive by construction by its logarithm, like a positive free variable."""
        if node.public in self._free or not self._is_positive(node.public):
            return node
        return node._replace(public=pt.log(node.public), logarithm=True)

    def _is_positive(self, variable: Variable) -> bool:
        if variable in self._above_zero:
            return True
        if isinstance(variable, Constant):
            return bool(np.all(np.asarray(variable.data) > 0))
        node = None if variable in self._free else variable.owner
        if node is None or not isinstance(node.op, _ENTRYWISE):
            return False
        if not isinstance(node.op, Elemwise):
            return self._is_positive(node.inputs[0])
        made = isinstance(node.op.scalar_op, Mul | TrueDiv | Reciprocal | Sqrt)
        return isinstance(node.op.scalar_op, Exp) or (made and all(map(self._is_positive, node.inputs)))

    def _has_quotient(self, variable: Variable) -> bool:
        """Return whether a variable is divided by a parameter.

        Distributions convert parameters in this way; log-likelihoods are far from quadratic in the result.
        """
        stack = [variable]
        while stack:
            node = stack.pop().owner
            if node is None or not isinstance(node.op, _ENTRYWISE):
                continue
            scalar = node.op.scalar_op if isinstance(node.op, Elemwise) else None
            if isinstance(scalar, TrueDiv | Reciprocal) and node.inputs[-1] in self._parameters:
                return True
            stack.extend(v for v in node.inputs if v in self._parameters - self._free)
        return False

    def _of_parameters(self, variable: Variable) -> list[Variable]:
        return [v for v in dict.fromkeys(variable.owner.inputs) if v in self._parameters]

    def _source(self, variable: Variable) -> Variable:
        """Go back through entrywise functions of a single input that depends on parameters."""
        while variable not in self._free and isinstance(variable.owner.op, _ENTRYWISE):
            inputs = self._of_parameters(variable)
            if len(inputs) > 1:
                one = self._entrywise_of([variable])
                return one if one is not None else variable
            variable = inputs[0]
        return variable

    def _entrywise_of(self, variables: Iterable[Variable]) -> Variable | None:
        """Return the free variable of which this is an entrywise function, if there is exactly one."""
        found, stack = set(), list(variables)
        while stack:
            variable = stack.pop()
            if variable in self._free:
                found.add(variable)
            elif isinstance(variable.owner.op, _ENTRYWISE):
                stack.extend(self._of_parameters(variable))
            else:
                return None
        return found.pop() if len(found) == 1 else None

    def _gathered(self, variable: Variable) -> tuple[Variable, Apply] | None:
        """Read ``mean + tau * z[index]`` as ``(mean + tau * z)[index]``: a public vector, and the gather."""
        node = variable.owner
        if node is None or variable in self._free:
            return None
        if isinstance(node.op, AdvancedSubtensor):
            table, *index = node.inputs
            simple = table.type.ndim == 1 and len(index) == 1 and index[0].type.ndim == 1
            public = table in self._parameters and table not in self._private
            return (table, node) if simple and public else None
        if not isinstance(node.op, Elemwise):
            return None
        inputs, gathers = [], []
        for part in node.inputs:
            if all(part.type.broadcastable) and part not in self._private:
                inputs.append(part)
                continue
            found = self._gathered(part)
            if found is None:
                return None
            inputs.append(found[0])
            gathers.append(found[1])
        if not gathers or any(g.inputs[1] is not gathers[0].inputs[1] for g in gathers):
            return None
        return node.op.make_node(*inputs).outputs[0], gathers[0]


def _dependent(slopes: np.ndarray) -> np.ndarray:
    """Return combinations of the rows of a matrix (p, d) that are zero, as columns (p, k).

    Factors that are rounding errors are set to zero. Rows of zeros are in no combination.
    """
    largest = np.abs(slopes).max(axis=1)
    some = np.flatnonzero(largest > 0)
    rows = slopes[some] / largest[some, None]
    sizes = np.linalg.norm(rows, axis=1)
    left, values, _ = np.linalg.svd(rows / sizes[:, None])
    found = left[:, int(np.sum(values > _DEPENDENT)) :]
    combinations = np.zeros((len(slopes), found.shape[1]))
    combinations[some] = np.where(np.abs(found) > _DEPENDENT, found, 0.0) / (largest[some] * sizes)[:, None]
    return combinations


def _is_linear(slopes: np.ndarray, values: np.ndarray) -> bool:
    """Return whether combinations of entries that are constants are zero, as are sums of centred levels.

    Sums and multiples of such entries are possible, too. That of weights is one.
    """
    combinations = _dependent(slopes)
    rounding = _DEPENDENT * np.abs(combinations).T @ np.abs(values)
    return bool((np.abs(combinations.T @ values) <= rounding).all())
