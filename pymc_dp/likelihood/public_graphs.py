"""Graphs of a public model, copied such that they share nothing with the model they are from."""

from copy import deepcopy
from typing import NamedTuple

import numpy as np
import pytensor
from pymc.logprob.transforms import Transform
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import Scratchpad
from pytensor.tensor.random.type import RandomType

from pymc_dp.records import graph


class FreeVariable(NamedTuple):
    """A free variable of a public model.

    Attributes
    ----------
    variable : Variable
    transform : Transform or None
    initial : Variable, ndarray, str or None
        As `pymc.Model.set_initval` takes it.
    """

    variable: Variable
    transform: Transform | None
    initial: Variable | np.ndarray | str | None


class PublicGraphs(NamedTuple):
    """What a public model is made of, by name.

    Attributes
    ----------
    free : dict of str to FreeVariable
    potentials, deterministics, data, lengths : dict of str to Variable
        Of dimensions: their lengths.
    phi : list of Variable
        Parts of the likelihood coordinates.
    """

    free: dict[str, FreeVariable]
    potentials: dict[str, Variable]
    deterministics: dict[str, Variable]
    data: dict[str, Variable]
    lengths: dict[str, Variable]
    phi: list[Variable]

    @property
    def named(self) -> dict[str, Variable]:
        """All that a model lists by name."""
        free = {name: one.variable for name, one in self.free.items()}
        return {**self.data, **free, **self.deterministics, **self.potentials}

    def cloned(self, replaced: dict[Variable, Variable] | None = None, own: bool = False) -> "PublicGraphs":
        """Graphs of their own: shared variables are copied, and constants where `own` is true."""
        free, rest = list(self.free.values()), [self.potentials, self.deterministics, self.data, self.lengths]
        given = [one.initial for one in free if isinstance(one.initial, Variable)]
        outputs = [one.variable for one in free] + given + self.phi
        outputs += [v for group in rest for v in group.values()]
        if replaced:
            outputs = clone_replace(outputs, replaced, rebuild_strict=False)
        leaves = [v for v in dict.fromkeys(ancestors(outputs)) if v.owner is None]
        copies = {v: _copied(v) for v in leaves if isinstance(v, SharedVariable) or own}
        outputs = clone_replace(outputs, {old: new for old, new in copies.items() if new is not old})
        clones = iter(outputs)
        variables = {name: next(clones) for name in self.free}
        initial = {
            name: next(clones) if isinstance(one.initial, Variable) else deepcopy(one.initial)
            for name, one in self.free.items()
        }
        phi = [next(clones) for _ in self.phi]
        potentials, deterministics, data, lengths = ({name: next(clones) for name in group} for group in rest)
        named = {
            name: FreeVariable(variables[name], one.transform, initial[name])
            for name, one in self.free.items()
        }
        return PublicGraphs(named, potentials, deterministics, data, lengths, phi)


def _copied(leaf: Variable) -> Variable:
    """A constant or shared variable that shares nothing with the original; random streams are new ones."""
    if isinstance(leaf.type, RandomType):
        return pytensor.shared(np.random.default_rng(), name=leaf.name)
    value = deepcopy(graph.leaf_value(leaf)) if isinstance(leaf, Constant | SharedVariable) else None
    if isinstance(leaf, Constant):
        return type(leaf)(leaf.type, value, name=leaf.name)
    if isinstance(leaf, SharedVariable):
        new = type(leaf)(leaf.type, value, strict=True, name=leaf.name)
        new.tag = Scratchpad()
        return new
    return leaf
