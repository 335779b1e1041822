"""Counts numbers that are written into the public part of a model one by one, or in small arrays.

An array that may hold records is asked about (`checks.public_arrays`). Rows that a loop writes into a prior
or a Potential, each as a number, are no array; but no prior needs as many numbers.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)
from pytensor.tensor.type import TensorType

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import graph
from pymc_dp.records.checks import SMALL, Refuse
from pymc_dp.records.opaque import OpaqueModel
from pymc_dp.records.row_types.ops import inner_graphs

# Largest number of them in one graph: twice what the prior of a covariance matrix (LKJ) needs.
_MOST = 100
# For operations of which later inputs are positions: the position of the first of these.
_POSITIONS_FROM: dict[type, int] = {
    Subtensor: 1,
    AdvancedSubtensor: 1,
    IncSubtensor: 2,
    AdvancedIncSubtensor: 2,
}


#: What belongs to a variable, by its name in words; the graphs of a collection are counted together.
Graphs = Mapping[str, Sequence[Collection[Variable]]]


def check(graphs: Graphs, opaque: OpaqueModel, declared: Collection[Variable], refuse: Refuse) -> None:
    """Refuse graphs in which more than `_MOST` numbers are written.

    Parameters
    ----------
    graphs : mapping of str to sequence of collection of Variable
        Other variables of the model are not looked into.
    opaque : OpaqueModel
    declared : collection of Variable
        Arrays that are declared as public: they do not count.
    refuse : callable

    Notes
    -----
    **Privacy.** How often constants are read is counted, and not what they are: that would depend on values.
    """
    named = [*opaque.rvs.values(), *opaque.deterministics.values(), *opaque.potentials.values()]
    apart = {*named, *opaque.original, *declared}
    for name, groups in graphs.items():
        if any(count(group, apart.difference(group)) > _MOST for group in groups):
            refuse(_refuse(name))


def of_priors(
    opaque: OpaqueModel,
    densities: Mapping[str, Variable],
    potentials: Mapping[str, Variable],
    start: Sequence[Variable],
) -> Graphs:
    """Collect the graphs of priors and Potentials, for `check`: as declared and as derived.

    Parameters
    ----------
    opaque : OpaqueModel
    densities, potentials : mapping of str to Variable
        As derived, by name.
    start : sequence of Variable
        Of the initial values of free variables.
    """
    begins = dict(zip(opaque.free, start, strict=True))
    together = f"Potential {', '.join(map(repr, potentials))}"
    return {
        **{f"The prior of {d!r}": [[rv], [densities[d]], [begins[d]]] for d, rv in opaque.free.items()},
        together: [opaque.potentials.values(), potentials.values()],
    }


def of_deterministics(opaque: OpaqueModel, released: Collection[str]) -> Graphs:
    """Collect the graphs of Deterministics that are released, for `check`."""
    return {
        f"Deterministic {name!r}": [[variable]]
        for name, variable in opaque.deterministics.items()
        if name in released
    }


def count(outputs: Collection[Variable], apart: Collection[Variable]) -> int:
    """Count numbers that a graph reads as values, not as positions or sizes; a single one at each reading."""
    found = list(ancestors(list(outputs), blockers=apart))
    nodes = dict.fromkeys(v.owner for v in found if v.owner is not None and v not in apart)
    read = [v for node in nodes for v in _read(node) if v not in apart and _is_small(v)]
    arrays = {v for v in read if v.type.ndim}
    inner = sum(count(one.outputs, ()) for node in nodes for one in inner_graphs(node.op))
    return inner + sum(v not in arrays for v in read) + sum(np.size(graph.leaf_value(v)) for v in arrays)


def _read(node: Apply) -> list[Variable]:
    return graph.values_of(node)[: _POSITIONS_FROM.get(type(node.op), len(node.inputs))]


def _is_small(leaf: Variable) -> bool:
    """Return whether a variable is a leaf with so few numbers that it is not asked about as an array."""
    is_leaf = isinstance(leaf, Constant | SharedVariable) and isinstance(leaf.type, TensorType)
    return is_leaf and np.size(graph.leaf_value(leaf)) <= SMALL


def _refuse(name: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"{name} has more than {_MOST} numbers written into it, one by one or in small arrays.",
        "they would be taken as public, and may be rows that a loop wrote there: what they do would reach "
        "the draws without clipping and noise.",
        "give records as observed data, with one entry a record; give public numbers as one array, and name "
        "it in public=.",
    )
