"""Bounds of outcomes, from the graph: those that parameters move, and those by which records are censored."""

from collections.abc import Collection, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.discrete import DiscreteUniformRV
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random import basic as distributions

from pymc_dp.records.opaque import OpaqueModel

# Laws by which parameters of theirs nothing is beyond: their places.
_BOUNDS = {
    distributions.UniformRV: (0, 1),
    DiscreteUniformRV: (0, 1),
    distributions.TriangularRV: (0, 2),
    distributions.ParetoRV: (1,),
}


def has_moving_bound(rv: Variable, opaque: OpaqueModel) -> bool:
    """Whether scores tell nothing of a parameter: outcomes are within it, and as likely everywhere."""
    op = rv.owner.op
    bounds = [op.dist_params(rv.owner)[k] for k in _BOUNDS.get(type(op), ())]
    read = ancestors(bounds, blockers=list(opaque.observed.values()))
    return not set(opaque.free.values()).isdisjoint(read)


def bound_of(rv: Variable, roots: Collection[Variable], parameters: Collection[Variable]) -> Variable | None:
    """Bound by which a continuous outcome is censored from above, if each record has its own; else None.

    Parameters
    ----------
    rv : Variable
        An observed variable.
    roots : collection of Variable
        What holds records.
    parameters : collection of Variable
        Random variables.
    """
    if not isinstance(rv.owner.op, CensoredRV) or rv.type.ndim != 1 or not rv.type.dtype.startswith("float"):
        return None
    _, lower, upper = rv.owner.inputs
    read = set(ancestors([upper]))
    unbounded = isinstance(lower, Constant) and bool(np.all(np.isneginf(lower.data)))
    own = unbounded and not read.isdisjoint(roots) and read.isdisjoint(parameters)
    return upper if own else None


def with_bound(rv: Variable, bound: Variable) -> Variable:
    """The same variable, censored by something else."""
    distribution, lower, _ = rv.owner.inputs
    return CensoredRV.rv_op(distribution, lower, bound)


def never_censored(inputs: Sequence[Variable]) -> list[Variable]:
    """Inputs of a censored variable, with bounds that nothing reaches in the place of each record's."""
    distribution, lower, upper = inputs
    dtype = np.dtype(upper.type.dtype)
    largest = np.inf if dtype.kind == "f" else np.iinfo(dtype).max
    return [distribution, lower, pt.fill(upper, pt.constant(largest, dtype=dtype))]
