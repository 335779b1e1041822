"""Bounds of outcomes, from the graph: those that parameters move, and those by which records are censored."""

from collections.abc import Collection, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.discrete import DiscreteUniformRV
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random import basic as distributions
from pytensor.tensor.type import TensorType

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


def has_unknown_bound(rv: Variable) -> bool:
    """Whether an outcome is censored by a bound that the graph says is infinite for some records."""
    if not isinstance(rv.owner.op, CensoredRV):
        return False
    return any(_may_be_infinite(bound) for bound in rv.owner.inputs[1:])


def bound_of(
    rv: Variable, parameters: Collection[Variable], private: Collection[Variable]
) -> Variable | None:
    """Bound by which records can be compared in intervals: one from above alone, of each record its own.

    Parameters
    ----------
    rv : Variable
        An observed variable.
    parameters : collection of Variable
        Random variables.
    private : collection of Variable
        Arrays of the records.

    Notes
    -----
    **Privacy.** Decided from the graph: an array is not looked at, whatever numbers it has.
    """
    if not isinstance(rv.owner.op, CensoredRV) or rv.type.ndim != 1:
        return None
    distribution, lower, upper = rv.owner.inputs
    own = has_unknown_bound(rv) or not set(private).isdisjoint(ancestors([upper]))
    unbounded = isinstance(lower, Constant) and lower.data.size == 1 and bool(np.all(np.isneginf(lower.data)))
    known = set(parameters).isdisjoint(ancestors([upper]))
    has_density = distribution.type.dtype.startswith("float")
    return upper if own and unbounded and known and has_density else None


def _may_be_infinite(bound: Variable) -> bool:
    """Whether it is computed with a number that is written as infinite; not an infinite constant itself."""
    while bound.owner is not None and isinstance(bound.owner.op, DimShuffle):
        bound = bound.owner.inputs[0]
    return bound.owner is not None and any(
        isinstance(v, Constant) and np.size(v.data) == 1 and bool(np.all(np.isinf(v.data)))
        for v in ancestors([bound])
        if isinstance(v.type, TensorType)
    )


def with_bound(rv: Variable, bound: Variable) -> Variable:
    """The same variable, censored by something else."""
    distribution, lower, _ = rv.owner.inputs
    return CensoredRV.rv_op(distribution, lower, bound)


def never_censored(inputs: Sequence[Variable]) -> list[Variable]:
    """Inputs of a censored variable, with an infinite bound in the place of each record's."""
    distribution, lower, upper = inputs
    return [distribution, lower, pt.fill(upper, pt.constant(np.inf, dtype=upper.type.dtype))]
