"""Bounds of outcomes, from the graph: bounds of a support that parameters move, and bounds of censoring."""

from collections.abc import Collection, Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.continuous import PositiveContinuous
from pymc.distributions.discrete import DiscreteUniformRV
from pytensor.graph import Constant, Variable, ancestors
from pytensor.tensor import TensorType
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random import basic as distributions

from pymc_dp.records.opaque import OpaqueModel
from pymc_dp.records.refusals import MOVES, UNKNOWN

# Distributions of positive numbers: a lower bound of zero censors nothing.
_POSITIVE_LAWS = tuple(law.rv_type for law in PositiveContinuous.__subclasses__() if law.rv_type is not None)
# For distributions of which parameters bound the support: the positions of these parameters.
_SUPPORT_BOUNDS = {
    distributions.UniformRV: (0, 1),
    DiscreteUniformRV: (0, 1),
    distributions.TriangularRV: (0, 2),
    distributions.ParetoRV: (1,),
}


def has_moving_bound(rv: Variable, opaque: OpaqueModel) -> bool:
    """Return whether free variables move a bound of the support, which scores do not determine.

    For a uniform or Pareto distribution the derivative by the bound is the same for all outcomes within.
    """
    op = rv.owner.op
    bounds = [op.dist_params(rv.owner)[k] for k in _SUPPORT_BOUNDS.get(type(op), ())]
    read = ancestors(bounds, blockers=list(opaque.observed.values()))
    return not set(opaque.free.values()).isdisjoint(read)


def has_unknown_bound(rv: Variable) -> bool:
    """Return whether the graph shows a censoring bound that is infinite for some records."""
    if not isinstance(rv.owner.op, CensoredRV):
        return False
    return any(_may_be_infinite(bound) for bound in rv.owner.inputs[1:])


def find_bounds(
    opaque: OpaqueModel, known: bool, effects: bool
) -> tuple[dict[str, list[Variable]], dict[str, Variable]]:
    """Find censoring bounds that are arrays of records, and bounds of what is compared in intervals.

    Parameters
    ----------
    opaque : OpaqueModel
    known : bool
        Whether arrays are assumed to be known bounds of all records: then only bounds that may be infinite
        according to the graph are returned.
    effects : bool
        Whether persons have effects: then nothing is compared in intervals.

    Returns
    -------
    arrays : dict of str to list of Variable
        Bounds, by observed variable, of which only the numbers show whether they are known.
    in_intervals : dict of str to Variable
        Upper bounds of the observed variables that are compared in intervals.

    Notes
    -----
    **Privacy.** Decided from the graph: the numbers of an array are not looked at.
    """
    arrays: dict[str, list[Variable]] = {}
    in_intervals: dict[str, Variable] = {}
    for name, rv in opaque.observed.items():
        if not isinstance(rv.owner.op, CensoredRV):
            continue
        own = [v for v in rv.owner.inputs[1:] if not opaque.original.keys().isdisjoint(ancestors([v]))]
        if own and not (known or has_unknown_bound(rv)):
            arrays[name] = own
        if not effects and (name in arrays or has_unknown_bound(rv)) and _has_intervals(rv, opaque):
            in_intervals[name] = rv.owner.inputs[2]
    return arrays, in_intervals


def _has_intervals(rv: Variable, opaque: OpaqueModel) -> bool:
    """Return whether records can be compared in intervals: one upper bound each, free of parameters."""
    distribution, lower, upper = rv.owner.inputs
    least = 0.0 if isinstance(distribution.owner.op, _POSITIVE_LAWS) else -np.inf
    below = isinstance(lower, Constant) and lower.data.size == 1 and bool(np.all(lower.data <= least))
    known = set(opaque.rvs.values()).isdisjoint(ancestors([upper]))
    return below and known and rv.type.ndim == 1 and distribution.type.dtype.startswith("float")


def say_unlike(opaque: OpaqueModel, bounds: Collection[str]) -> dict[str, str]:
    """Return the outcomes, not in `bounds`, that have no twins because of their bounds, and why."""
    return {
        name: MOVES if has_moving_bound(rv, opaque) else UNKNOWN
        for name, rv in opaque.observed.items()
        if has_moving_bound(rv, opaque) or (has_unknown_bound(rv) and name not in bounds)
    }


def _may_be_infinite(bound: Variable) -> bool:
    """Return whether a bound is computed with an infinite constant, without being one itself."""
    while bound.owner is not None and isinstance(bound.owner.op, DimShuffle):
        bound = bound.owner.inputs[0]
    return bound.owner is not None and any(
        isinstance(v, Constant) and np.size(v.data) == 1 and bool(np.all(np.isinf(v.data)))
        for v in ancestors([bound])
        if isinstance(v.type, TensorType)
    )


def with_bound(rv: Variable, bound: Variable) -> Variable:
    """Return the same variable with another upper bound of censoring."""
    distribution, lower, _ = rv.owner.inputs
    return CensoredRV.rv_op(distribution, lower, bound)


def never_censored(inputs: Sequence[Variable]) -> list[Variable]:
    """Return the inputs of a censored variable, with an infinite upper bound in the place of its own."""
    distribution, lower, upper = inputs
    return [distribution, lower, pt.fill(upper, pt.constant(np.inf, dtype=upper.type.dtype))]
