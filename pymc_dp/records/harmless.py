"""Parameters of random variables for which a draw neither raises nor takes for ever.

One record's parameters must not stop the draws of all: that would be a function of its values. Samplers
raise, or loop without end, where a parameter is NaN, negative or huge. The parameters of such an entry are
replaced before the draw, and what is drawn there is not used.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions import continuous, discrete
from pytensor.graph.basic import Variable
from pytensor.tensor.random import basic
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable


class Range(NamedTuple):
    """Values of a parameter for which draws work, ends included, and one of them."""

    low: float
    high: float
    safe: float


# So far from the largest number in double precision, 1.8e308, that products of three do not overflow.
_FAR = 1e100
# Counts are drawn in 64-bit integers: their means stay this far, by a factor of 9000, from the largest.
_MEAN = 1e15
_REAL = Range(-_FAR, _FAR, 0.0)
_SCALE = Range(0.0, _FAR, 1.0)
_POSITIVE = Range(1 / _FAR, _FAR, 1.0)
#: Densities that are no distributions: nothing is drawn from them.
IMPROPER = continuous.FlatRV, continuous.HalfFlatRV
# Gamma variables of small shape underflow to 0, with probability exp(-708 shape), and then what is divided by
# them raises: for this shape that is 2e-31; over a scale of 1e30, 1e-27. Student t has half its degrees of
# freedom as the shape.
_DIVISOR, _OVER = Range(0.1, _FAR, 1.0), Range(1e-30, 1e30, 1.0)
# Beta variables of small shapes are tried again and again, some 1 / shape times.
_TRIED = Range(1e-3, _FAR, 1.0)
_PROBABILITY = Range(0.0, 1.0, 0.5)
_CHANCE = Range(1 / _MEAN, 1.0, 0.5)
_TRIALS = Range(0, 2**31 - 1, 1)

RANGES: dict[type[RandomVariable], tuple[Range, ...]] = {
    basic.UniformRV: (_REAL, _REAL._replace(safe=1.0)),
    basic.TriangularRV: (_REAL, _REAL._replace(safe=0.5), _REAL._replace(safe=1.0)),
    basic.BetaRV: (_TRIED, _TRIED),
    basic.NormalRV: (_REAL, _SCALE),
    basic.HalfNormalRV: (_REAL, _SCALE),
    basic.LogNormalRV: (_REAL, _SCALE),
    basic.GammaRV: (_POSITIVE, _SCALE),
    basic.ParetoRV: (_POSITIVE, _SCALE),
    basic.GumbelRV: (_REAL, _SCALE),
    basic.ExponentialRV: (_SCALE,),
    basic.WeibullRV: (_POSITIVE,),
    basic.LogisticRV: (_REAL, _SCALE),
    basic.VonMisesRV: (_REAL, _SCALE),
    basic.PoissonRV: (Range(0.0, _MEAN, 1.0),),
    basic.GeometricRV: (_CHANCE,),
    basic.HyperGeometricRV: (Range(0, 10**9 - 1, 1),) * 3,
    basic.CauchyRV: (_REAL, _SCALE),
    basic.HalfCauchyRV: (_REAL, _SCALE),
    basic.InvGammaRV: (_DIVISOR, _OVER),
    basic.WaldRV: (_POSITIVE, _POSITIVE),
    basic.StudentTRV: (_DIVISOR._replace(low=0.2), _REAL, _SCALE),
    basic.BernoulliRV: (_PROBABILITY,),
    basic.LaplaceRV: (_REAL, _SCALE),
    basic.BinomialRV: (_TRIALS, _PROBABILITY),
    basic.NegBinomialRV: (_POSITIVE, _CHANCE),
    basic.BetaBinomialRV: (_TRIALS, _TRIED, _TRIED),
    basic.MultinomialRV: (_TRIALS, _PROBABILITY),
    basic.CategoricalRV: (_PROBABILITY,),
    basic.DirichletRV: (_TRIED,),
    basic.MvNormalRV: (_REAL, _REAL),
    continuous.WaldRV: (_POSITIVE, _POSITIVE, _REAL),
    continuous.SkewNormalRV: (_REAL, _SCALE, _REAL),
    continuous.RiceRV: (_SCALE, _SCALE),
    continuous.MoyalRV: (_REAL, _SCALE),
    continuous.TruncatedNormalRV: (
        _REAL,
        _POSITIVE,
        Range(-np.inf, np.inf, -1.0),
        Range(-np.inf, np.inf, 1.0),
    ),
    discrete.DiscreteUniformRV: (Range(-(2**31), 2**31, 0),) * 2,
}


def _ordered(*values: Variable) -> Variable:
    return reduce(pt.and_, [pt.le(a, b) for a, b in itertools.pairwise(values)])


def _mean_of_counts(n: TensorVariable, p: TensorVariable) -> Variable:
    """The rate of a negative binomial is gamma: it is within 100 (mean + scale) but for ``exp(-100)``."""
    return pt.le((n + 1) * (1 - p) / p, _MEAN / 100)


def _adds_up(*parameters: Variable) -> Variable:
    # So near to 1 probabilities are divided by their sum.
    return pt.le(pt.abs(parameters[-1].sum(axis=-1) - 1), 1e-6)


#: What parameters have to do with each other.
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
    """Parameters to draw with.

    Parameters
    ----------
    op : RandomVariable
    parameters : sequence of Variable

    Returns
    -------
    parameters : list of Variable
        The same where they are fit, others where they are not.
    fit : Variable
        Where they are: booleans, one for each draw but for those of the same parameters.
    op : RandomVariable
        The same, or what draws one entry at a time and gives NaN where that fails: of a random variable whose
        demands are not known, or written by the user.
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
    """Of all entries of a draw's parameter; false for NaN as well."""
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
    """Draws one entry at a time with another random variable's code, each from its own parameters alone.

    Where that code raises, the draw is NaN, or the smallest whole number.

    Parameters
    ----------
    drawn : RandomVariable
    inplace : bool
        As for others; PyTensor makes one that is from one that is not.
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
        """Draw them all."""
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
        except Exception:  # of one record: it has no twins
            return None


def missing(dtype: str) -> float | int:
    """What stands for a draw that could not be made: NaN, or the smallest whole number."""
    return np.nan if np.dtype(dtype).kind == "f" else (np.iinfo(dtype).min if dtype != "bool" else False)


def present(draws: Variable) -> Variable:
    """Where draws were made: see `missing`."""
    dtype = draws.type.dtype
    if dtype.startswith("float"):
        return pt.invert(pt.isnan(draws))
    return pt.neq(draws, missing(dtype)) if dtype != "bool" else pt.or_(draws, True)
