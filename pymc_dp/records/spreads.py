"""Spreads that may be zero: variables of which a power is the variance of an effect, or what a law has more.

A negative binomial law has more variance than Poisson's, Student's t longer tails than a normal one: by the
inverse of a shape. Near zero records tell something of such a number, and nothing of its logarithm
(`likelihood.near_zero`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.transforms import CholeskyCovPacked
from pymc.logprob.transforms import IntervalTransform, LogTransform, Transform
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random import basic as distributions
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

# An offset has so many digits: it is written in the name of a coordinate.
_DIGITS = 2
# Of which the last parameter is proportional to the standard deviation, and no other is.
_OF_SCALE = (
    distributions.NormalRV,
    distributions.LogNormalRV,
    distributions.LaplaceRV,
    distributions.LogisticRV,
    distributions.CauchyRV,
    distributions.StudentTRV,
)
# The offset is at least so much, since one that is too large costs nothing, and one that is too small nearly
# all: then the coordinate is a logarithm again.
_LEAST = 1.0
# But it is no more times the variance at the initial point: small units are seen beside it.
_FAR_ABOVE = 1e8
# A number that is at its upper bound is taken for one that is this part of it below: beyond it is none.
_BELOW = 1e-6
# What changes no number.
_COPIES = DimShuffle, Alloc, SpecifyShape, ViewOp
# Exponents of functions of a positive number.
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
    """A free variable, or its exponential, x: ``x^k`` is the variance of effects, times a constant.

    Attributes
    ----------
    power : float
        k: 2 of a standard deviation, -1 of a gamma distribution's shape.
    upper : float
        What x is below, or inf. As the sampler has it the variable is ``log(x / (1 - x / upper))``, but for a
        factor.
    exponential : bool
        Whether x is the exponential of the variable.
    places : tuple of int or None
        Of a vector, those numbers which are so: the diagonal of a packed Cholesky factor. None: all.
    offset : float
        c, public: ``x^k`` at the initial point, or more.
    """

    power: float
    upper: float = math.inf
    exponential: bool = False
    places: tuple[int, ...] | None = None
    offset: float = math.nan

    def numbers(self, phi: np.ndarray) -> np.ndarray:
        """X of the variable as the sampler has it."""
        if math.isinf(self.upper):
            return np.exp(phi)
        return self.upper / (1 + np.exp(-phi))

    def phi(self, x: np.ndarray) -> np.ndarray:
        """The variable as the sampler has it, of x; beyond the upper bound, of nearly the bound."""
        if math.isinf(self.upper):
            return np.log(x)
        return -np.log(np.maximum(self.upper / x - 1, _BELOW))

    def holds(self, number: int) -> bool:
        """Whether this number of the variable is so."""
        return self.places is None or number in self.places

    def coordinate(self, variable: Variable) -> Variable:
        """``log(x^k + c)`` as a graph of the variable as the sampler has it."""
        whole = pt.as_tensor(variable)
        some = whole if self.places is None else whole[list(self.places)]
        x = pt.exp(some) if math.isinf(self.upper) else self.upper * pt.sigmoid(some)
        psi = pt.log(pt.power(x, self.power) + self.offset)
        return psi if self.places is None else pt.set_subtensor(whole[list(self.places)], psi)

    def in_words(self, name: str) -> str:
        """The coordinate of a variable of this name."""
        x = f"exp({name})" if self.exponential else name
        said = f"log({x} ** {self.power:g} + {self.offset:g})"
        return said if self.places is None else f"{name}, of its diagonal {said}"


def find_spreads(
    outcomes: Sequence[Variable],
    effects: Sequence[Variable],
    transforms: Mapping[Variable, Transform | None],
    start: Mapping[Variable, np.ndarray],
) -> dict[Variable, Spread]:
    """Look for spreads of effects: parameters of their priors, or what multiplies them; and for shapes.

    Parameters
    ----------
    outcomes, effects : sequence of Variable
        Random variables: functions of the free ones.
    transforms : mapping of Variable to Transform or None
        Of the free variables, which are its keys.
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
    for free, one in found.items():
        some = start[free] if one.places is None else start[free][list(one.places)]
        with np.errstate(all="ignore"):
            at_start = float(np.mean(one.numbers(some)) ** one.power)
        offset = max(at_start, min(_LEAST, _FAR_ABOVE * at_start))
        found[free] = one._replace(offset=float(f"{offset:.{_DIGITS}g}"))
    return {free: one for free, one in found.items() if 0 < one.offset < math.inf}


def _diagonal(size: int) -> tuple[int, ...]:
    """Places of the diagonal in a lower triangle, row by row, of so many numbers."""
    ends = np.cumsum(np.arange(1, size + 1)) - 1
    return tuple(ends[ends < size].tolist())


def _upper(variable: Variable, transform: Transform | None, exponential: bool) -> float | None:
    """What a variable, or its exponential, is below that is above zero; None if it is not followed."""
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
    """Standard deviations of effects, as powers of a variable."""
    for rv in effects:
        parameters = rv.owner.op.dist_params(rv.owner)
        if isinstance(rv.owner.op, _OF_SCALE):
            yield from _powers(parameters[-1])
        if isinstance(rv.owner.op, distributions.GammaRV):
            shape, scale = map(_powers, parameters)
            # The mean is their product, which does not depend on it; the variance is that times the scale.
            for (variable, exponent), (other, inverse) in zip(shape, scale, strict=False):
                if variable is other and exponent == -inverse:
                    yield variable, inverse / 2


def _of_products(
    outcomes: Sequence[Variable], effects: Sequence[Variable]
) -> tuple[list[tuple[Variable, float]], list[Variable]]:
    """What multiplies effects that are zero on average; and what is in products of matrices with them.

    One number, or as many as an effect has; more are of items, not of persons.
    """
    reading = {rv for rv in effects if isinstance(rv.owner.op, _OF_SCALE) and _around_zero(rv)}
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
        switched = _is(node.outputs[0], scalar.Switch)  # nothing is known of a person without an entry
        if multiplied or switched or isinstance(node.op, (*_COPIES, Subtensor, AdvancedSubtensor)):
            reading.update(node.outputs)
    return found, others


def _around_zero(rv: Variable) -> bool:
    """Whether a distribution with a location and a scale is around zero, and not a lognormal one."""
    location = _copied(rv.owner.op.dist_params(rv.owner)[-2])
    log = isinstance(rv.owner.op, distributions.LogNormalRV)
    return isinstance(location, Constant) and not np.any(location.data) and not log


def _of_shapes(outcomes: Sequence[Variable], given: Sequence[Variable]) -> Iterable[tuple[Variable, float]]:
    """Shapes of outcomes' laws, of which the inverse may be zero; square roots, as if it were a variance."""
    for node in toposort(list(outcomes), blockers=given):
        if isinstance(node.op, distributions.NegBinomialRV | distributions.StudentTRV):
            first, second, *_ = node.op.dist_params(node)
            powers = _times(_powers(first), -0.5)
            # Of a negative binomial law by n and p the shape is also a size; by a mean, p reads it as well.
            by_mean = isinstance(node.op, distributions.StudentTRV) or {v for v, _ in powers} <= {
                *ancestors([second])
            }
            yield from powers if by_mean else ()


def _powers(variable: Variable) -> list[tuple[Variable, float]]:
    """The variable, and the exponent, of which this is a power times a constant; empty if it is none."""
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
