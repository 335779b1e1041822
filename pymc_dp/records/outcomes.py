"""What outcomes records have: from a model's graph, and a trial of it on made-up records."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import BernoulliRV

from pymc_dp.records import gate, graph
from pymc_dp.records.predictors import Predictors

# Made-up records, and how far a derivative may be from that of a logistic regression.
_TRIED, _ROUNDING = 64, 1e-9


def logit_outcomes(model: pm.Model, predictors: Predictors | None, roots: Mapping[Variable, int]) -> bool:
    """Whether the likelihood is that of one Bernoulli variable whose logit is the single predictor.

    Parameters
    ----------
    model : pymc.Model
    predictors : Predictors or None
    roots : mapping of Variable to int
        Data leaves with one entry a record, and the axis of the records, in the order of
        ``predictors.records``.

    Notes
    -----
    **Privacy.** A function of the kinds of variables and of shapes; derivatives are tried on made-up records.
    No value is looked at.
    """
    if model.potentials or len(model.observed_RVs) != 1 or predictors is None or predictors.size != 1:
        return False
    (observed,) = model.observed_RVs
    node = observed.owner
    if node is None or not isinstance(node.op, BernoulliRV):
        return False
    link = node.inputs[-1].owner
    if link is None or not isinstance(link.op, Elemwise) or not isinstance(link.op.scalar_op, Sigmoid):
        return False
    leaves = set(ancestors([model.rvs_to_values[observed]]))
    try:
        first, second = _tried(predictors, roots, leaves)
    except Exception:  # of made-up records: not about values
        return False
    size = np.abs(first)
    return bool(
        np.all(np.abs(second + size * (1 - size)) <= _ROUNDING) and np.all(size <= 1) and size.max() > 0.5
    )


def _tried(
    predictors: Predictors, roots: Mapping[Variable, int], outcomes: set[Variable]
) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivatives by the predictor, of made-up records."""
    rng = np.random.default_rng(0)

    def values(root: Any, axis: int) -> np.ndarray:
        shape = list(np.shape(graph.leaf_value(root)))
        shape[axis] = _TRIED
        if root in outcomes or root.type.dtype.startswith(("int", "uint", "bool")):
            return (rng.random(shape) < 0.5).astype(root.type.dtype)
        return rng.uniform(0.5, 1.5, shape).astype(root.type.dtype)

    given = [values(root, axis) for root, axis in roots.items()]
    inputs = [
        rng.normal(size=(_TRIED,) if variable.type.ndim == 1 else (_TRIED, 1))
        for variable in predictors.inputs
    ]
    outputs = [predictors.first[0], predictors.second[0][0]]
    function = gate.compile_graph(
        [*predictors.inputs, *predictors.records],
        outputs,
        private=predictors.records,
        mode=gate.PLAIN_MODE,
    )
    first, second = function(*inputs, *given)
    return np.ravel(first), np.ravel(second)
