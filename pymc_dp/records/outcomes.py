"""What outcomes records have: from a model's graph."""

import pymc as pm
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import BernoulliRV


def logit_outcomes(model: pm.Model) -> bool:
    """Whether the likelihood is that of one Bernoulli variable, whose probability is a sigmoid.

    Parameters
    ----------
    model : pymc.Model

    Notes
    -----
    **Privacy.** A function of the kinds of variables; no value is looked at.
    """
    if model.potentials or len(model.observed_RVs) != 1:
        return False
    node = model.observed_RVs[0].owner
    if node is None or not isinstance(node.op, BernoulliRV):
        return False
    link = node.inputs[-1].owner
    return link is not None and isinstance(link.op, Elemwise) and isinstance(link.op.scalar_op, Sigmoid)
