"""Counts what is written into the public part of a model: rows that a loop writes there are refused.

An array that may hold records is asked about (`checks.public_arrays`). Rows that a loop writes into priors,
Potentials, Deterministics or public parts of the likelihood, each as a number, a position or an operation,
are no array; but no model needs as many of these.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from typing import NamedTuple

import numpy as np
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.transforms import Chain
from pytensor.compile import SharedVariable
from pytensor.graph import Constant, Variable, ancestors
from pytensor.tensor import TensorType
from pytensor.tensor.subtensor import AdvancedIncSubtensor, AdvancedSubtensor, IncSubtensor, Subtensor

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import graph
from pymc_dp.records.checks import SMALL, Refuse
from pymc_dp.records.reading import Reading
from pymc_dp.records.row_types import PUBLIC
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
        Single numbers, each as often as it is read, without positions and sizes; and entries of arrays of at
        most `SMALL` numbers, positions among them.
    inputs : int
        Inputs of operations, positions among them.
    """

    numbers: int
    inputs: int

    def plus(self, others: Iterable["Written"]) -> "Written":
        """Add what other graphs are written with."""
        return Written(*map(sum, zip(self, *others, strict=True)))

    def exceeds(self, most: "Written") -> bool:
        """Return whether there is more of either."""
        return self.numbers > most.numbers or self.inputs > most.inputs


# The most of a whole model. Of some 250 everyday models none has more than 41 numbers and 222 inputs.
_MOST = Written(numbers=200, inputs=1000)


def check(reading: Reading, densities: Mapping[str, Variable], refuse: Refuse) -> None:
    """Refuse what is public, of a model that is written with more than `_MOST`.

    This is priors, Potentials, released Deterministics, and what the likelihood reads that is no record.

    Parameters
    ----------
    reading : Reading
        Variables and arrays that are declared as public do not count; of Deterministics those that are
        released do.
    densities : mapping of str to Variable
        Log-densities as derived, by name. They count where the distribution or the transform is a function
        of the user's, which only they show.
    refuse : callable

    Notes
    -----
    **Privacy.** Graphs as the user wrote them are counted without looking at constants. In a derived density
    PyMC may have simplified some of them by their values; these belong to a prior, and are public.
    """
    opaque, data, read = reading.opaque, reading.data, _of_likelihoods(reading)
    parts: dict[str, list[Variable]] = {name: [rv] for name, rv in opaque.free.items()}
    others = set(opaque.free.values())
    for name, rv in opaque.free.items():
        own = _is_own(opaque.transforms[rv]) or _has_own_law([rv], others - {rv})
        parts[name] += [densities[name]] if own else []
    parts |= {name: [one] for name, one in opaque.potentials.items()}
    parts |= {name: [one] for name, one in opaque.deterministics.items() if name in reading.released}
    public = {one for name, graphs in parts.items() if name in data.names for one in graphs}
    apart = {*opaque.original, *data.declared, *public}
    if count([one for graphs in parts.values() for one in graphs], apart).plus(read.values()).exceeds(_MOST):
        each = {name: count(graphs, apart) for name, graphs in parts.items()}
        each |= read
        refuse(_refuse(max(each, key=lambda name: each[name])))


def _is_own(transform: object) -> bool:
    """Return whether a function of the user's is in a transform."""
    if isinstance(transform, Chain):
        return any(map(_is_own, transform.transform_list))
    return transform is not None and not type(transform).__module__.startswith("pymc.")


def _has_own_law(outputs: Collection[Variable], apart: Set[Variable]) -> bool:
    """Return whether a graph has a distribution of the user's, by itself or within another one."""
    nodes = {v.owner for v in ancestors(list(outputs), blockers=apart) if v not in apart}
    return any(
        isinstance(node.op, CustomDistRV)
        or any(_has_own_law(one.outputs, set()) for one in inner_graphs(node.op))
        for node in nodes
        if node is not None
    )


def _of_likelihoods(reading: Reading) -> dict[str, Written]:
    """Count what each observed variable reads, as the user wrote it, that is no record.

    Deterministics that are released or named as public do not count: they do by themselves.
    """
    opaque, data = reading.opaque, reading.data
    apart = {*opaque.original, *data.declared}
    apart |= {v for name, v in opaque.deterministics.items() if name in {*data.names, *reading.released}}
    found = {}
    for name, rv in opaque.observed.items():
        given, typed = reading.inputs_of(rv)
        public: list[Variable] = []
        left, seen = list(given), set()
        while left:
            v = left.pop()
            if v not in seen and typed.of(v) is PUBLIC:
                public.append(v)
            elif v not in seen and v.owner is not None:
                left.extend(v.owner.inputs)
            seen.add(v)
        found[name] = count(public, {*apart, *opaque.random(given)})
    return found


def count(outputs: Collection[Variable], apart: Set[Variable]) -> Written:
    """Count what graphs are written with, without what is declared elsewhere (`apart`)."""
    found = list(ancestors(list(outputs), blockers=apart))
    nodes = dict.fromkeys(v.owner for v in found if v.owner is not None and v not in apart)
    read = [
        v
        for node in nodes
        for k, v in enumerate(graph.values_of(node))
        if v not in apart
        and _is_small(v)
        and (v.type.ndim or k < _POSITIONS_FROM.get(type(node.op), len(node.inputs)))
    ]
    arrays = {v for v in read if v.type.ndim}
    inner = [count(one.outputs, set()) for node in nodes for one in inner_graphs(node.op)]
    numbers = sum(v not in arrays for v in read) + sum(int(np.size(graph.leaf_value(v))) for v in arrays)
    return Written(numbers, sum(len(node.inputs) for node in nodes)).plus(inner)


def _is_small(leaf: Variable) -> bool:
    """Return whether a variable is a leaf with so few numbers that it is not asked about as an array."""
    is_leaf = isinstance(leaf, Constant | SharedVariable) and isinstance(leaf.type, TensorType)
    return is_leaf and np.size(graph.leaf_value(leaf)) <= SMALL


def _refuse(name: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"What is public in the model is written with more than {_MOST.numbers} numbers, or {_MOST.inputs} "
        f"inputs of operations: most of them in {name!r}.",
        "they would be taken as public, and may be rows that a loop wrote there: what they do would reach "
        "the draws without clipping and noise.",
        "give records as observed data, with one entry a record, and public numbers as one array; if no "
        "record is in it, say so: public=[...] with the name of a prior, Potential or Deterministic.",
    )
