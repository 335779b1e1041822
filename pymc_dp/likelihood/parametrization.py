"""Parametrisation of levels of groups for a sampler: centred, not centred, or partly centred."""

import math
from collections.abc import Set
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pytensor.graph import Variable, ancestors
from pytensor.tensor import TensorVariable
from pytensor.tensor.random import basic as distributions

# Distributions whose last two parameters are a location and a scale.
_WITH_SCALE = (
    distributions.NormalRV,
    distributions.LaplaceRV,
    distributions.LogisticRV,
    distributions.CauchyRV,
    distributions.StudentTRV,
)


class Estimates(NamedTuple):
    """Mode and information of a released likelihood for an array of parameters, each by itself.

    Attributes
    ----------
    mode, information : ndarray
        Arrays of the shape of the parameters.
    """

    mode: np.ndarray
    information: np.ndarray


class PartlyCentred(Transform):
    """Levels x with location m and scale s, sampled as ``lambda m + s^(lambda - 1) (x - m)``.

    With ``lambda = 1`` that is x; with 0 its distribution does not depend on m and s. If data have little
    information about levels beside their prior, then x and s form a funnel, in which samplers get stuck,
    and a small lambda avoids it (Papaspiliopoulos, Roberts & Skold 2007, A general framework for the
    parametrization of hierarchical models; Gorinova, Moore & Hoffman 2020, Automatic reparameterisation of
    probabilistic programs, section 4).

    Parameters
    ----------
    kept : ndarray
        lambda of each level, between 0 and 1.
    """

    name = "centring"

    def __init__(self, kept: np.ndarray):
        self._kept = np.array(kept)

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Transform levels to what is sampled."""
        location, scale = inputs[-2:]
        return self._kept * location + scale ** (self._kept - 1) * (value - location)

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Transform what is sampled to levels."""
        location, scale = inputs[-2:]
        return location + scale ** (1 - self._kept) * (value - self._kept * location)

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Compute the logarithm of the derivative of levels by what is sampled."""
        return (1 - self._kept) * pt.log(inputs[-1]) + pt.zeros_like(value)


class NotCentred(Transform):
    """Normal vectors x with mean m and covariance ``L L'``, sampled as ``L^-1 (x - m)``.

    See `PartlyCentred`.
    """

    name = "centring"
    ndim_supp = 1

    def forward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Transform vectors to what is sampled."""
        mean, covariance = inputs[-2:]
        return pt.linalg.solve_triangular(_root(covariance), value - mean, lower=True, b_ndim=1)

    def backward(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Transform what is sampled to vectors."""
        mean, covariance = inputs[-2:]
        return mean + pt.matvec(_root(covariance), value)

    def log_jac_det(self, value: TensorVariable, *inputs: TensorVariable) -> TensorVariable:
        """Compute the logarithm of the determinant of the derivative of a vector by what is sampled."""
        diagonal = pt.diagonal(_root(inputs[-1]), axis1=-2, axis2=-1)
        return pt.log(diagonal).sum(-1) + pt.zeros_like(value[..., 0])


def _root(covariance: TensorVariable) -> TensorVariable:
    return pt.linalg.cholesky(covariance, lower=True)


def centring_of(variable: Variable, free: Set[Variable], estimates: Estimates | None) -> Transform | None:
    """Choose the transform of a variable, if it has levels whose scale is sampled; None for others.

    Parameters
    ----------
    variable : Variable
        A random variable.
    free : set of Variable
        All variables that are sampled.
    estimates : Estimates, optional
        Mode and information of the likelihood for each level. Default: levels are not centred, as if the
        likelihood had no information about them.

    Notes
    -----
    A level with information i has ``lambda = i s^2 / (1 + i s^2)``, with the moment estimate of s^2
    (DerSimonian & Laird 1986, Meta-analysis in clinical trials, equation 8) over all levels that have the
    same scale: the best choice for normal levels with a known s. Vectors are centred or not, by the mean of
    these lambda.

    **Privacy.** A function of what is released.
    """
    node = variable.owner
    of_vectors = isinstance(node.op, distributions.MvNormalRV)
    if not isinstance(variable, TensorVariable) or not (of_vectors or isinstance(node.op, _WITH_SCALE)):
        return None
    scale = pt.as_tensor(node.op.dist_params(node)[-1])
    if variable.ndim == 0 or not free & set(ancestors([scale])):
        return None
    # Vectors whose mean lambda (see `PartlyCentred`) is more than this are sampled as they are.
    half = 0.5
    if of_vectors:
        axes = tuple(range(variable.ndim - 1))
        centred = estimates is not None and np.mean(_kept(estimates, axes)) > half
        return None if centred else NotCentred()
    if estimates is None:
        return PartlyCentred(np.zeros(()))
    apart = variable.ndim - scale.ndim
    same = tuple(k for k in range(variable.ndim) if k < apart or scale.type.broadcastable[k - apart])
    return PartlyCentred(_kept(estimates, same))


def _kept(estimates: Estimates, axes: tuple[int, ...]) -> np.ndarray:
    """Compute lambda of each level, for levels that have the same scale along some axes."""
    information, number = estimates.information, math.prod(estimates.mode.shape[k] for k in axes)
    with np.errstate(all="ignore"):
        if number == 1:  # each level has a scale of its own, which its squared deviation estimates
            middle = (information * estimates.mode).sum() / information.sum()
            part = np.maximum(information * (estimates.mode - middle) ** 2 - 1, 0.0)
        else:
            total = information.sum(axis=axes, keepdims=True)
            middle = (information * estimates.mode).sum(axis=axes, keepdims=True) / total
            square = (information * (estimates.mode - middle) ** 2).sum(axis=axes, keepdims=True)
            factor = total - (information**2).sum(axis=axes, keepdims=True) / total
            part = information * np.maximum((square - (number - 1)) / factor, 0.0)
        return np.where(np.isfinite(part), part / (1 + part), 0.0)
