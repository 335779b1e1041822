"""Counts what is written into the public part of a model: rows that a loop writes there are refused.

An array that may hold records is asked about (`checks.public_arrays`). Rows that a loop writes into priors,
Potentials or Deterministics, each as a number, a position or an operation, are no array; but no model needs
as many of these.
"""

from collections.abc import Collection, Mapping, Set
from typing import NamedTuple

import numpy as np
from pymc.distributions.custom import CustomDistRV
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
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
from pymc_dp.records.arrays import Arrays
from pymc_dp.records.checks import SMALL, Refuse
from pymc_dp.records.opaque import OpaqueModel
from pymc_dp.records.row_types.ops import inner_graphs

# For operations of which later inputs are positions: the position of the first of these.
_POSITIONS_FROM: dict[type, int] = {
    Subtensor: 1,
    AdvancedSubtensor: 1,
    IncSubtensor: 2,
    AdvancedIncSubtensor: 2,
}


class Written(NamedTuple):
    """What graphs are written with.

    Attributes
    ----------
    numbers : int
        Single numbers, each as often as it is read, and entries of arrays of at most `SMALL` numbers; without
        positions and sizes.
    inputs : int
        Inputs of operations, positions among them.
    """

    numbers: int
    inputs: int

    def exceeds(self, most: "Written") -> bool:
        """Return whether there is more of either."""
        return self.numbers > most.numbers or self.inputs > most.inputs


# The most of a whole model. Of some 250 everyday models none has more than 41 numbers and 222 inputs.
_MOST = Written(numbers=200, inputs=1000)


def check(
    opaque: OpaqueModel,
    data: Arrays,
    densities: Mapping[str, Variable],
    released: Collection[str],
    refuse: Refuse,
) -> None:
    """Refuse priors, Potentials and released Deterministics that are written with more than `_MOST`.

    Parameters
    ----------
    opaque : OpaqueModel
    data : Arrays
        Variables and arrays that are declared there as public do not count.
    densities : mapping of str to Variable
        Log-densities as derived, by name. They count where the distribution or the transform is a function
        of the user's, which only they show.
    released : collection of str
        Names of Deterministics among others.
    refuse : callable

    Notes
    -----
    **Privacy.** Graphs as the user wrote them are counted without looking at constants. In a derived density
    PyMC may have simplified some of them by their values; these belong to a prior, and are public.
    """
    parts: dict[str, list[Variable]] = {name: [rv] for name, rv in opaque.free.items()}
    for name, rv in opaque.free.items():
        transform = opaque.transforms[rv]
        own = transform is not None and not type(transform).__module__.startswith("pymc.")
        parts[name] += [densities[name]] if own or isinstance(rv.owner.op, CustomDistRV) else []
    parts |= {name: [one] for name, one in opaque.potentials.items()}
    parts |= {name: [one] for name, one in opaque.deterministics.items() if name in released}
    public = {one for name, graphs in parts.items() if name in data.names for one in graphs}
    apart = {*opaque.original, *data.declared, *public}
    if count([one for graphs in parts.values() for one in graphs], apart).exceeds(_MOST):
        refuse(_refuse(max(parts, key=lambda name: count(parts[name], apart))))


def count(outputs: Collection[Variable], apart: Set[Variable]) -> Written:
    """Count what graphs are written with, without what is declared elsewhere (`apart`)."""
    found = list(ancestors(list(outputs), blockers=apart))
    nodes = dict.fromkeys(v.owner for v in found if v.owner is not None and v not in apart)
    read = [
        v
        for node in nodes
        for v in graph.values_of(node)[: _POSITIONS_FROM.get(type(node.op), len(node.inputs))]
        if v not in apart and _is_small(v)
    ]
    arrays = {v for v in read if v.type.ndim}
    inner = [count(one.outputs, set()) for node in nodes for one in inner_graphs(node.op)]
    numbers = sum(v not in arrays for v in read) + sum(int(np.size(graph.leaf_value(v))) for v in arrays)
    return Written(
        numbers + sum(one.numbers for one in inner),
        sum(len(node.inputs) for node in nodes) + sum(one.inputs for one in inner),
    )


def _is_small(leaf: Variable) -> bool:
    """Return whether a variable is a leaf with so few numbers that it is not asked about as an array."""
    is_leaf = isinstance(leaf, Constant | SharedVariable) and isinstance(leaf.type, TensorType)
    return is_leaf and np.size(graph.leaf_value(leaf)) <= SMALL


def _refuse(name: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"Priors, Potentials and Deterministics are written with more than {_MOST.numbers} numbers, or "
        f"{_MOST.inputs} inputs of operations: most of them in {name!r}.",
        "they would be taken as public, and may be rows that a loop wrote there: what they do would reach "
        "the draws without clipping and noise.",
        "give records as observed data, with one entry a record, and public numbers as one array; if no "
        f"record is in it, say so: public=[{name!r}].",
    )
