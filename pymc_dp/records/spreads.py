"""Spreads that may be zero: variables of which a power is the variance of an effect, or an overdispersion.

A negative binomial distribution has more variance than Poisson's, Student's t has longer tails than a normal
one: the excess is the inverse of a shape. When such a number is near zero, records carry information about
the number itself and none about its logarithm (`likelihood.near_zero`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import CholeskyCovPacked
from pymc.logprob.transforms import IntervalTransform, LogTransform, Transform
from pytensor.compile import ViewOp
from pytensor.graph import Constant, Variable, ancestors
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random import basic as distributions
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

# Distributions whose last parameter, and no other, is proportional to the standard deviation.
_SCALE_LAWS = (
    distributions.NormalRV,
    distributions.LogNormalRV,
    distributions.LaplaceRV,
    distributions.LogisticRV,
    distributions.CauchyRV,
    distributions.StudentTRV,
)
# Ops that change no number, only shapes.
_COPIES = DimShuffle, Alloc, SpecifyShape, ViewOp
# For functions of a positive number that are powers of it: the exponent.
_EXPONENTS = {
    scalar.Identity: 1.0,
    scalar.Cast: 1.0,
    scalar.Abs: 1.0,
    scalar.Sign: 0.0,
    scalar.Sqrt: 0.5,
    scalar.Sqr: 2.0,
    scalar.Reciprocal: -1.0,
}


class Spread(NamedTuple):
    """A number x, a free variable or its exponential, of which ``x^k`` is proportional to a variance.

    Attributes
    ----------
    power : float
        k: 2 for a standard deviation, -1 for a gamma distribution's shape.
    upper : float
        Upper bound of x, or inf. On the sampler's (transformed) scale the variable is ``log(x)`` without a
        bound, and ``log(x / (upper - x))`` with one.
    exponential : bool
        Whether x is the exponential of the variable.
    places : tuple of int or None
        For a vector, the entries that are spreads: the diagonal of a packed Cholesky factor. None: all.
    offset : float
        c, public: ``x^k`` at the initial point, or more (see `coordinate`).
    """

    power: float
    upper: float = math.inf
    exponential: bool = False
    places: tuple[int, ...] | None = None
    offset: float = math.nan

    def numbers(self, phi: np.ndarray) -> np.ndarray:
        """Return x, given the variable on the sampler's scale."""
        if math.isinf(self.upper):
            return np.exp(phi)
        return self.upper / (1 + np.exp(-phi))

    def phi(self, x: np.ndarray) -> np.ndarray:
        """Return the variable on the sampler's scale, given x; x is first put below the upper bound."""
        if math.isinf(self.upper):
            return np.log(x)
        # Least value of ``upper / x - 1``: a number at or above its upper bound is replaced by one that is
        # below the bound by this part of it.
        least_odds = 1e-6
        return -np.log(np.maximum(self.upper / x - 1, least_odds))

    def holds(self, number: int) -> bool:
        """Return whether this entry of the variable is a spread."""
        return self.places is None or number in self.places

    def coordinate(self, variable: Variable) -> Variable:
        """Return ``log(x^k + c)`` as a graph of the variable on the sampler's scale."""
        whole = pt.as_tensor(variable)
        some = whole if self.places is None else whole[list(self.places)]
        x = pt.exp(some) if math.isinf(self.upper) else self.upper * pt.sigmoid(some)
        psi = pt.log(pt.power(x, self.power) + self.offset)
        return psi if self.places is None else pt.set_subtensor(whole[list(self.places)], psi)

    def in_words(self, name: str) -> str:
        """Describe the coordinate of a variable of this name."""
        x = f"exp({name})" if self.exponential else name
        said = f"log({x} ** {self.power:g} + {self.offset:g})"
        return said if self.places is None else f"{name}, of its diagonal {said}"


def find_spreads(
    outcomes: Sequence[Variable],
    effects: Sequence[Variable],
    transforms: Mapping[Variable, Transform | None],
    start: Mapping[Variable, np.ndarray],
) -> dict[Variable, Spread]:
    """Find spreads: scales in the priors of effects, factors that multiply effects, and shapes of outcomes.

    Parameters
    ----------
    outcomes, effects : sequence of Variable
        Random variables, as functions of the free ones.
    transforms : mapping of Variable to Transform or None
        The transform of each free variable.
    start : mapping of Variable to ndarray
        Their initial values, on the transformed scale.

    Notes
    -----
    **Privacy.** A function of the graph and of the public start.
    """
    found: dict[Variable, Spread] = {}
    products, others = _of_products(outcomes, effects)
    shapes = _of_shapes(outcomes, [*transforms, *effects])
    for variable, exponent in [*_of_priors(effects), *products, *shapes]:
        free = _copied(variable.owner.inputs[0]) if _is(variable, scalar.Exp) else variable
        upper = _upper(free, transforms[free], free is not variable) if free in transforms else None
        if exponent and upper is not None:
            found.setdefault(free, Spread(2 * exponent, upper, free is not variable))
    packed = {free for free, transform in transforms.items() if isinstance(transform, CholeskyCovPacked)}
    for free in packed.intersection(ancestors([*effects, *others])):
        found[free] = Spread(2.0, places=_diagonal(start[free].size))
    # Significant digits to which an offset is rounded, since it is written in the name of a coordinate.
    offset_digits = 2
    # Least value of the offset. An offset that is too large costs nothing; one that is too small costs nearly
    # everything, since the coordinate is then a logarithm again.
    least_offset = 1.0
    # The least offset is at most this many times ``x^k`` at the initial point, so that variances of variables
    # in small units are not lost beside it.
    most_times_start = 1e8
    for free, one in found.items():
        some = start[free] if one.places is None else start[free][list(one.places)]
        with np.errstate(all="ignore"):
            at_start = float(np.mean(one.numbers(some)) ** one.power)
        offset = max(at_start, min(least_offset, most_times_start * at_start))
        found[free] = one._replace(offset=float(f"{offset:.{offset_digits}g}"))
    return {free: one for free, one in found.items() if 0 < one.offset < math.inf}


def _diagonal(size: int) -> tuple[int, ...]:
    """Return the positions of the diagonal in a lower triangle that is stored by rows in `size` numbers."""
    ends = np.cumsum(np.arange(1, size + 1)) - 1
    return tuple(ends[ends < size].tolist())


def _upper(variable: Variable, transform: Transform | None, exponential: bool) -> float | None:
    """Return the upper bound of a variable, or of its exponential, whose lower bound is zero; else None."""
    if exponential:
        return math.inf if transform is None else None
    if isinstance(transform, LogTransform):
        return math.inf
    op = variable.owner.op if isinstance(transform, IntervalTransform) else None
    if not isinstance(op, distributions.UniformRV):
        return None
    bounds = [_copied(one) for one in op.dist_params(variable.owner)]
    if not all(isinstance(one, Constant) and np.size(one.data) == 1 for one in bounds):
        return None
    lower, upper = (np.ravel(one.data)[0].item() for one in bounds)
    return float(upper) if lower == 0 else None


def _of_priors(effects: Sequence[Variable]) -> Iterable[tuple[Variable, float]]:
    """Yield the variables, with exponents, of which standard deviations of effects are powers."""
    for rv in effects:
        parameters = rv.owner.op.dist_params(rv.owner)
        if isinstance(rv.owner.op, _SCALE_LAWS):
            yield from _powers(parameters[-1])
        if isinstance(rv.owner.op, distributions.GammaRV):
            shape, scale = map(_powers, parameters)
            # The variable cancels in the mean, shape times scale; the variance is the mean times the scale.
            for (variable, exponent), (other, inverse) in zip(shape, scale, strict=False):
                if variable is other and exponent == -inverse:
                    yield variable, inverse / 2


def _of_products(
    outcomes: Sequence[Variable], effects: Sequence[Variable]
) -> tuple[list[tuple[Variable, float]], list[Variable]]:
    """Return factors of effects that have mean zero, as powers of variables; and factors in matrix products.

    A factor is one number, or has as many as a person's effect; longer ones are loadings of items, and are
    left out.
    """
    reading = {rv for rv in effects if isinstance(rv.owner.op, _SCALE_LAWS) and _around_zero(rv)}
    shapes = [(), *(rv.type.shape[1:] for rv in reading)]
    found, others = [], []
    for node in toposort(list(outcomes), blockers=effects):
        known = [v for v in node.inputs if v in reading]
        rest = [v for v in node.inputs if v not in reading]
        if not known:
            continue
        multiplied = _is(node.outputs[0], scalar.Mul) and len(known) == 1
        if multiplied:
            found += [one for other in rest for one in _powers(other) if one[0].type.shape in shapes]
        if isinstance(node.op, Dot | Blockwise):
            others += rest
        switched = _is(node.outputs[0], scalar.Switch)  # NaN for a person without an entry
        if multiplied or switched or isinstance(node.op, (*_COPIES, Subtensor, AdvancedSubtensor)):
            reading.update(node.outputs)
    return found, others


def _around_zero(rv: Variable) -> bool:
    """Return whether a location-scale distribution has location zero, and is not lognormal."""
    location = _copied(rv.owner.op.dist_params(rv.owner)[-2])
    log = isinstance(rv.owner.op, distributions.LogNormalRV)
    return isinstance(location, Constant) and not np.any(location.data) and not log


def _of_shapes(outcomes: Sequence[Variable], given: Sequence[Variable]) -> Iterable[tuple[Variable, float]]:
    """Yield variables of which the inverse shape of an outcome's distribution is a power.

    Exponents are those of its square root, as if the inverse shape were a variance.
    """
    for node in toposort(list(outcomes), blockers=given):
        if isinstance(node.op, distributions.NegBinomialRV | distributions.StudentTRV):
            first, second, *_ = node.op.dist_params(node)
            powers = _times(_powers(first), -0.5)
            # With parameters n and p of a negative binomial the shape is a size too. With a mean as the
            # parameter, p depends on the shape: only then the shape is an overdispersion alone.
            by_mean = isinstance(node.op, distributions.StudentTRV) or {v for v, _ in powers} <= {
                *ancestors([second])
            }
            yield from powers if by_mean else ()


def _powers(variable: Variable) -> list[tuple[Variable, float]]:
    """Return the variable and the exponent of which this is a power, up to a constant factor, as a list.

    Empty for a constant. What is not recognised as a power of something else is its own first power.
    """
    node = variable.owner
    if isinstance(variable, Constant):
        return []
    if node is None or not isinstance(node.op, (*_COPIES, Elemwise)):
        return [(variable, 1.0)]
    inputs = [_copied(v) for v in node.inputs]
    op = node.op.scalar_op if isinstance(node.op, Elemwise) else None
    if op is None:
        return _powers(inputs[0])
    for kind, exponent in _EXPONENTS.items():
        if isinstance(op, kind):
            return _times(_powers(inputs[0]), exponent)
    if isinstance(op, scalar.Pow) and isinstance(inputs[1], Constant) and np.size(inputs[1].data) == 1:
        return _times(_powers(inputs[0]), np.ravel(inputs[1].data)[0].item())
    if isinstance(op, scalar.Mul | scalar.TrueDiv):
        signs = [1.0, *[-1.0 if isinstance(op, scalar.TrueDiv) else 1.0] * (len(inputs) - 1)]
        parts = [part for one, sign in zip(inputs, signs, strict=True) for part in _times(_powers(one), sign)]
        if parts and all(one is parts[0][0] for one, _ in parts):
            return [(parts[0][0], sum(exponent for _, exponent in parts))]
    return [(variable, 1.0)]


def _is(variable: Variable, op: type) -> bool:
    node = variable.owner
    return node is not None and isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, op)


def _copied(variable: Variable) -> Variable:
    while variable.owner is not None and isinstance(variable.owner.op, _COPIES):
        variable = variable.owner.inputs[0]
    return variable


def _times(powers: list[tuple[Variable, float]], factor: float) -> list[tuple[Variable, float]]:
    return [(variable, factor * exponent) for variable, exponent in powers]
