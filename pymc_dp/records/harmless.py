"""Parameters with which random variables can be drawn: no sampler raises or loops for ever.

Samplers raise, or loop without end, where a parameter is NaN, negative or huge; one record's parameters would
then stop the draws of all records, which would reveal something of its values. The parameters of such an
entry are replaced before the draw, and what is drawn there is not used.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions import continuous, discrete
from pytensor.graph import Variable
from pytensor.tensor import TensorVariable
from pytensor.tensor.random import basic
from pytensor.tensor.random.op import RandomVariable


class Range(NamedTuple):
    """A closed interval of a parameter's values for which draws work, and a safe value within it."""

    low: float
    high: float
    safe: float


# Largest real parameter: products of three of these do not overflow double precision (1.8e308).
_LARGEST = 1e100
# Largest mean of a count: below the largest 64-bit integer, in which counts are drawn, by a factor of 9000.
_LARGEST_MEAN = 1e15
_REAL = Range(-_LARGEST, _LARGEST, 0.0)
_SCALE = Range(0.0, _LARGEST, 1.0)
_POSITIVE = Range(1 / _LARGEST, _LARGEST, 1.0)
#: Improper densities, from which nothing can be drawn.
IMPROPER = continuous.FlatRV, continuous.HalfFlatRV
# Shape of a gamma variable by which something is divided. With a small shape the variable underflows to 0,
# with probability exp(-708 shape), and the division raises: for the least shape here the probability is 2e-31
# (with a scale of 1e30, 1e-27). For Student's t the shape is half the degrees of freedom.
_DIVISOR = Range(0.1, _LARGEST, 1.0)
# Scale of an inverse gamma variable, which is divided by such a gamma variable.
_NUMERATOR = Range(1e-30, 1e30, 1.0)
# Shapes of beta variables: the sampler rejects about 1 / shape times.
_BETA_SHAPE = Range(1e-3, _LARGEST, 1.0)
_ANY = Range(-np.inf, np.inf, 0.0)
_PROBABILITY = Range(0.0, 1.0, 0.5)
_CHANCE = Range(1 / _LARGEST_MEAN, 1.0, 0.5)
_TRIALS = Range(0, 2**31 - 1, 1)

# Random variables with a location and a scale, symmetric ones and others.
_SYMMETRIC = basic.NormalRV, basic.LogisticRV, basic.VonMisesRV, basic.CauchyRV, basic.LaplaceRV
_SKEWED = basic.HalfNormalRV, basic.LogNormalRV, basic.GumbelRV, basic.HalfCauchyRV, continuous.MoyalRV

RANGES: dict[type[RandomVariable], tuple[Range, ...]] = {
    **dict.fromkeys((*_SYMMETRIC, *_SKEWED), (_REAL, _SCALE)),
    basic.UniformRV: (_REAL, _REAL._replace(safe=1.0)),
    basic.TriangularRV: (_REAL, _REAL._replace(safe=0.5), _REAL._replace(safe=1.0)),
    basic.BetaRV: (_BETA_SHAPE, _BETA_SHAPE),
    basic.GammaRV: (_POSITIVE, _SCALE),
    basic.ParetoRV: (_POSITIVE, _SCALE),
    basic.ExponentialRV: (_SCALE,),
    basic.WeibullRV: (_POSITIVE,),
    basic.PoissonRV: (Range(0.0, _LARGEST_MEAN, 1.0),),
    basic.GeometricRV: (_CHANCE,),
    basic.HyperGeometricRV: (Range(0, 10**9 - 1, 1),) * 3,
    basic.InvGammaRV: (_DIVISOR, _NUMERATOR),
    basic.WaldRV: (_POSITIVE, _POSITIVE),
    basic.StudentTRV: (_DIVISOR._replace(low=0.2), _REAL, _SCALE),
    basic.BernoulliRV: (_PROBABILITY,),
    basic.BinomialRV: (_TRIALS, _PROBABILITY),
    basic.NegBinomialRV: (_POSITIVE, _CHANCE),
    basic.BetaBinomialRV: (_TRIALS, _BETA_SHAPE, _BETA_SHAPE),
    basic.MultinomialRV: (_TRIALS, _PROBABILITY),
    basic.CategoricalRV: (_PROBABILITY,),
    basic.DirichletRV: (_BETA_SHAPE,),
    basic.MvNormalRV: (_REAL, _REAL),
    continuous.WaldRV: (_POSITIVE, _POSITIVE, _REAL),
    continuous.SkewNormalRV: (_REAL, _SCALE, _REAL),
    continuous.RiceRV: (_SCALE, _SCALE),
    continuous.TruncatedNormalRV: (_REAL, _POSITIVE, _ANY._replace(safe=-1.0), _ANY._replace(safe=1.0)),
    discrete.DiscreteUniformRV: (Range(-(2**31), 2**31, 0),) * 2,
}


def _ordered(*values: Variable) -> Variable:
    return reduce(pt.and_, [pt.le(a, b) for a, b in itertools.pairwise(values)])


def _mean_of_counts(n: TensorVariable, p: TensorVariable) -> Variable:
    """Return whether counts fit: a negative binomial's rate is gamma distributed.

    The rate is below 100 (mean + scale) except with probability ``exp(-100)``.
    """
    return pt.le((n + 1) * (1 - p) / p, _LARGEST_MEAN / 100)


def _adds_up(*parameters: Variable) -> Variable:
    # Probabilities whose sum is this near to 1 are divided by it before the draw.
    return pt.le(pt.abs(parameters[-1].sum(axis=-1) - 1), 1e-6)


#: Conditions on several parameters together.
TOGETHER: dict[type[RandomVariable], Callable[..., Variable]] = {
    basic.UniformRV: _ordered,
    basic.TriangularRV: lambda left, mode, right: _ordered(left, mode, right) & pt.lt(left, right),
    basic.NegBinomialRV: _mean_of_counts,
    basic.HyperGeometricRV: lambda good, bad, sample: pt.le(sample, good + bad),
    basic.MultinomialRV: _adds_up,
    basic.CategoricalRV: _adds_up,
    continuous.TruncatedNormalRV: lambda mu, sigma, lower, upper: pt.lt(
        (lower - mu) / sigma, (upper - mu) / sigma
    ),
    discrete.DiscreteUniformRV: _ordered,
}


def harmless(
    op: RandomVariable, parameters: Sequence[Variable]
) -> tuple[list[Variable], Variable, RandomVariable]:
    """Return parameters with which a random variable can be drawn.

    Parameters
    ----------
    op : RandomVariable
    parameters : sequence of Variable

    Returns
    -------
    parameters : list of Variable
        The given parameters where these can be drawn with, safe values elsewhere.
    fit : Variable
        Where they can: booleans, in the parameters' batch shape.
    op : RandomVariable
        The given one. For a random variable whose requirements are not known, such as a user's: one that
        draws entry by entry and gives NaN where that fails.
    """
    kind = next((c for c in type(op).__mro__ if c in RANGES), None)
    ranges = [_REAL] * len(parameters) if kind is None else RANGES[kind]
    each = list(zip(parameters, ranges, op.ndims_params, strict=True))
    conditions = [_within(p, r, core) for p, r, core in each]
    if kind in TOGETHER:
        conditions.append(TOGETHER[kind](*parameters))
    fit = reduce(pt.and_, conditions)
    if kind is None:
        return list(parameters), fit, EntryByEntry(op)
    return [_switched(fit, p, r, core, kind) for p, r, core in each], fit, op


def _within(parameter: Variable, r: Range, core: int) -> Variable:
    """Compute whether all entries of a draw's parameter are in the range; false for NaN."""
    low, high = (pt.constant(end, dtype="float64") for end in (r.low, r.high))
    inside = pt.ge(parameter, low) & pt.le(parameter, high)
    return inside.all(axis=tuple(range(-core, 0))) if core else inside


def _switched(
    fit: Variable, parameter: Variable, r: Range, core: int, kind: type[RandomVariable]
) -> Variable:
    safe: Variable = pt.constant(np.asarray(r.safe, dtype=parameter.type.dtype))
    if core == 2:
        safe = pt.eye(parameter.shape[-1])
    elif core == 1 and kind in (basic.MultinomialRV, basic.CategoricalRV):
        parameter, safe = parameter / parameter.sum(axis=-1, keepdims=True), 1.0 / parameter.shape[-1]
    return pt.switch(pt.shape_padright(fit, core), parameter, safe)


class EntryByEntry(RandomVariable):
    """Random variable that draws entry by entry with another one's code, each from its own parameters alone.

    Where that code raises, the draw is NaN, or the smallest integer.

    Parameters
    ----------
    drawn : RandomVariable
    inplace : bool
        As for other random variables; PyTensor sets it in a rewrite.
    """

    __props__ = ("drawn", "inplace")  # type: ignore[assignment]

    def __init__(self, drawn: RandomVariable, inplace: bool = False):
        self.drawn = drawn
        super().__init__(name=drawn.name, signature=drawn.signature, dtype=drawn.dtype, inplace=inplace)

    def _supp_shape_from_params(
        self, dist_params: Sequence[Variable], param_shapes: Sequence[Variable] | None = None
    ) -> object:
        return self.drawn._supp_shape_from_params(dist_params, param_shapes)

    def rng_fn(self, rng: np.random.Generator, *args: np.ndarray) -> np.ndarray:
        """Draw all entries."""
        *parameters, size = args
        cores = self.drawn.ndims_params
        shapes = [np.shape(p)[: np.ndim(p) - core] for p, core in zip(parameters, cores, strict=True)]
        batch = np.broadcast_shapes(*shapes) if size is None else tuple(int(s) for s in size)
        whole = [
            np.broadcast_to(p, batch + np.shape(p)[np.ndim(p) - core :])
            for p, core in zip(parameters, cores, strict=True)
        ]
        found = [self._one(rng, [p[index] for p in whole]) for index in np.ndindex(*batch)]
        shape = next((np.shape(draw) for draw in found if draw is not None), ())
        bad = missing(str(self.dtype))
        entries = [np.full(shape, bad, dtype=self.dtype) if draw is None else draw for draw in found]
        return np.reshape(np.asarray(entries, dtype=self.dtype), batch + shape)

    def _one(self, rng: np.random.Generator, parameters: list[np.ndarray]) -> np.ndarray | None:
        try:
            return np.asarray(self.drawn.rng_fn(rng, *parameters, None), dtype=self.dtype)
        except Exception:  # it is about one record, which then has no twins
            return None


def missing(dtype: str) -> float | int:
    """Return the value that stands for a number that was not drawn or read: NaN, or an extreme integer."""
    kind = np.dtype(dtype).kind
    if kind in "fcb":
        return False if kind == "b" else np.nan
    return np.iinfo(dtype).min if kind == "i" else np.iinfo(dtype).max


def present(draws: Variable) -> Variable:
    """Compute where draws were made: see `missing`."""
    dtype = draws.type.dtype
    if dtype.startswith("float"):
        return pt.invert(pt.isnan(draws))
    return pt.neq(draws, missing(dtype)) if dtype != "bool" else pt.eq(draws, draws)
