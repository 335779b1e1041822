"""Public nodes: the functions of parameters nearest to the observed variables that read no record."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.abstract import MeasurableOp
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.graph.type import HasShape
from pytensor.scalar.basic import Exp, Mul, Reciprocal, Sqrt, TrueDiv
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_dp.records.row_types import PUBLIC, RowType

# Entrywise Ops. Where only one input depends on parameters, a quadratic approximation in that input is as
# good as one in the output.
_ENTRYWISE = (Elemwise, DimShuffle, Alloc, Reshape, SpecifyShape, ViewOp)

# Coordinates depend on each other where a singular value of the matrix of their derivatives, each of length
# one, is below this.
_DEPENDENT = 1e-7


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
                shape = out.type.shape if isinstance(out.type, HasShape) else ()
                if random or self._private & set(node.inputs) or sizes & set(shape):
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
        jacobian: Callable[[], np.ndarray],
    ) -> set[Variable]:
        """Return what is read of nodes of which entries depend on each other, or on other coordinates.

        A search moves each coordinate by itself: weights ``(1 - psi, psi)`` would no longer add up to one,
        and sums of them no longer grow; no outcome could be drawn. Where records look up single entries, each
        is what it is whatever the others are.

        Parameters
        ----------
        nodes : sequence of PublicNode
        places : mapping of Variable to slice
            Coordinates that belong to each variable that is read.
        sums : set of Variable
            Variables that sum to zero, and are coordinates nevertheless.
        jacobian : callable
            Returns derivatives of the coordinates by the parameters, shape (p, d), at some point.
        """
        looked_up = self._looked_up(nodes)
        given = {node.read for node in nodes if not self._constrained.isdisjoint(ancestors([node.public]))}
        if given - looked_up:
            return given - looked_up
        apart = {read for read in looked_up if read.type.ndim == 1} | sums
        if all(node.read in apart for node in nodes):
            return set()
        slopes = jacobian()
        for read in apart & places.keys():
            slopes[places[read]] = 0.0
        largest = np.abs(slopes).max(axis=1)
        some = np.flatnonzero(largest > 0)  # an entry that is a constant moves nowhere
        if not np.isfinite(largest).all():
            return set()
        rows = slopes[some] / largest[some, None]
        left, values, _ = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        dependent = left[:, int(np.sum(values > _DEPENDENT)) :]
        bound = np.zeros(len(slopes), dtype=bool)
        bound[some] = (np.abs(dependent) > _DEPENDENT).any(axis=1)
        return {node.read for node in nodes if bound[places[node.read]].any()}

    def _looked_up(self, nodes: Iterable[PublicNode]) -> set[Variable]:
        """Return what is read of those nodes of which every use is a look-up of single entries."""
        uses: dict[Variable, list[tuple[Apply, int]]] = {}
        for node in toposort(self._observed):
            for k, v in enumerate(node.inputs):
                uses.setdefault(v, []).append((node, k))

        def only_looked_up(variable: Variable) -> bool:
            for node, k in uses.get(variable, []):
                entrywise = isinstance(node.op, _ENTRYWISE) and node.outputs[0] not in self._private
                if isinstance(node.op, Shape | Shape_i) or (entrywise and only_looked_up(node.outputs[0])):
                    continue
                if not isinstance(node.op, AdvancedSubtensor) or k:
                    return False
            return True

        return {node.read for node in nodes if node.gather is not None or only_looked_up(node.read)}

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
