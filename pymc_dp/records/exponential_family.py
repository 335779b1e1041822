"""Reads a model's likelihood as an exponential family: S of a record, and the graphs of phi and ln g."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import gate
from pymc_dp.records.graph import flatten
from pymc_dp.records.reading import Reading
from pymc_dp.records.row_types import PUBLIC

# A graph with a tensor's methods, which PyTensor declares for none.
Graph = Any


@dataclass
class Part:
    """A few entries of the sufficient statistic.

    Attributes
    ----------
    name : str
        Of the statistic, for messages; "y" stands for the variable.
    statistic : callable
        From values of the observed variable, shape (b, ...), to entries, shape (b, ...).
    natural : Graph
        Natural parameters; elementwise families: one entry of y, broadcast; others: all of them, a vector.
    """

    name: str
    statistic: Callable[[np.ndarray], np.ndarray]
    natural: Graph


@dataclass
class Family:
    """What one observed variable contributes: parts, and ln g.

    Elementwise graphs are about one number, and are added up over those of a record; others are about the
    whole record.
    """

    parts: list[Part]
    log_g: Graph
    elementwise: bool = True


class Values:
    """Values of graphs of a model's free variables, near its initial point."""

    def __init__(self, model: pm.Model):
        start, rng = gate.initial_point(model), np.random.default_rng(0)
        self._value_vars = model.value_vars
        self._points = [start] + [
            {name: value + rng.normal(scale=0.5, size=np.shape(value)) for name, value in start.items()}
            for _ in range(2)
        ]

    def at_start(self, graph: Graph) -> np.ndarray:
        """Value at the initial point."""
        return self._values(graph, self._points[:1])[0]

    def moves(self, graph: Graph) -> bool:
        """Whether the value depends on a free variable (its shape alone may be computed from one)."""
        if set(self._value_vars).isdisjoint(ancestors([graph])):
            return False
        first, *others = self._values(graph, self._points)
        return not all(np.array_equal(first, other, equal_nan=True) for other in others)

    def _values(self, graph: Graph, points: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
        function = gate.compile_graph(self._value_vars, graph, private=(), mode=gate.CHECK_MODE)
        with np.errstate(all="ignore"):
            return [function(*(point[v.name] for v in self._value_vars)) for point in points]


def _same(y: np.ndarray) -> np.ndarray:
    return y


def _normal(model: Values, mu: Graph, sigma: Graph) -> Family:
    spread = -0.5 / sigma**2
    if not model.moves(mu):
        centre = model.at_start(mu)
        return Family([Part("(y - mu)^2", lambda y: (y - centre) ** 2, spread)], -pt.log(sigma))
    parts = [Part("y", _same, mu / sigma**2), Part("y^2", np.square, spread)]
    return Family(parts, spread * mu**2 - pt.log(sigma))


def _bernoulli(model: Values, p: Graph) -> Family:
    return Family([Part("y", _same, pt.log(p) - pt.log1p(-p))], pt.log1p(-p))


def _binomial(model: Values, n: Graph, p: Graph) -> Family:
    return Family([Part("y", _same, pt.log(p) - pt.log1p(-p))], n * pt.log1p(-p))


def _poisson(model: Values, mu: Graph) -> Family:
    return Family([Part("y", _same, pt.log(mu))], -mu)


def _exponential(model: Values, scale: Graph) -> Family:
    return Family([Part("y", _same, -1 / scale)], -pt.log(scale))


def _gamma(model: Values, alpha: Graph, scale: Graph) -> Family:
    parts = [Part("log y", np.log, alpha), Part("y", _same, -1 / scale)]
    return Family(parts, -pt.gammaln(alpha) - alpha * pt.log(scale))


def _beta(model: Values, alpha: Graph, beta: Graph) -> Family:
    parts = [Part("log y", np.log, alpha), Part("log(1 - y)", lambda y: np.log1p(-y), beta)]
    return Family(parts, pt.gammaln(alpha + beta) - pt.gammaln(alpha) - pt.gammaln(beta))


def _categorical(model: Values, p: Graph) -> Family:
    size = int(model.at_start(p.shape[0]))
    # The indicators add up to 1: of all phi that differ by a constant the one with mean 0 moves least.
    level = pt.log(p).mean()
    indicators = Part("y == k", lambda y: (y[:, None] == np.arange(size)).astype(float), pt.log(p) - level)
    return Family([indicators], level, elementwise=False)


def _mv_normal(model: Values, mu: Graph, cov: Graph) -> Family:
    precision: Graph = pt.linalg.inv(cov)
    size = int(model.at_start(mu.shape[0]))
    i, j = np.triu_indices(size)
    # Weights make the norm of the products that of the outer product: norm(y)^2.
    weight = np.where(i == j, 1.0, np.sqrt(2.0))
    centre = np.zeros(size) if model.moves(mu) else model.at_start(mu)
    mu = mu - centre

    def products(y: np.ndarray) -> np.ndarray:
        z = y - centre
        return weight * z[:, i] * z[:, j]

    parts = [
        Part("y y'", products, -0.5 * weight * precision[i, j]),
        *([Part("y", lambda y: y - centre, precision @ mu)] if model.moves(mu) else []),
    ]
    log_g = -0.5 * (mu @ precision @ mu + pt.linalg.slogdet(cov)[1])
    return Family(parts[::-1], log_g, elementwise=False)


# Rule, and dimensions of a value, of each distribution.
RULES: dict[type, tuple[Callable[..., Family], int]] = {
    type(distribution.rv_op): (rule, ndim)
    for distribution, rule, ndim in (
        (pm.Normal, _normal, 0),
        (pm.Bernoulli, _bernoulli, 0),
        (pm.Binomial, _binomial, 0),
        (pm.Poisson, _poisson, 0),
        (pm.Exponential, _exponential, 0),
        (pm.Gamma, _gamma, 0),
        (pm.Beta, _beta, 0),
        (pm.Categorical, _categorical, 0),
        (pm.MvNormal, _mv_normal, 1),
    )
}
#: Distributions that are recognised.
KNOWN = tuple(sorted(op.__name__.removesuffix("RV") for op in RULES))


@dataclass
class Recognised:
    """The exponential family of a model.

    Attributes
    ----------
    names : list of str
        Of the statistic's entries.
    statistic : callable
        From rows by observed variable to S, shape (b, k).
    natural, log_g : Variable
        Vector of k entries and scalar, of the model's value variables.
    """

    names: list[str]
    statistic: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    natural: Variable
    log_g: Variable


def recognise(model: pm.Model, reading: Reading, shapes: Mapping[str, tuple[int, ...]]) -> Recognised:
    """Read a model's likelihood as an exponential family.

    Parameters
    ----------
    model : pymc.Model
    reading : Reading
        Of this model.
    shapes : mapping of str to tuple
        Of the observed values, by variable; records on the first axis.

    Raises
    ------
    ModelRefusedError
        An observed variable has another distribution, or parameters that differ from record to record.
    """
    names: list[str] = []
    natural: list[Graph] = []
    log_g: list[Graph] = []
    statistics: list[tuple[str, Callable[[np.ndarray], np.ndarray]]] = []
    values = Values(model)

    for name, rv in reading.opaque.observed.items():
        op = rv.owner.op
        if type(op) not in RULES:
            raise _refuse(
                f"Observed variable {name!r} has a distribution that is not recognised as an exponential "
                f"family (known: {', '.join(KNOWN)})."
            )
        rule, ndim = RULES[type(op)]
        given = flatten(reading.opaque.on_values(op.dist_params(rv.owner)))
        if any(t is not PUBLIC for t in reading.types_of(given)):
            raise _refuse(_DIFFERS.format(name))
        family = rule(
            values,
            *(
                _shared(parameter, own, rv.type.ndim - ndim, name)
                for parameter, own in zip(given, op.ndims_params, strict=True)
            ),
        )
        if not family.elementwise and rv.type.ndim != 1 + ndim:
            raise _refuse(f"Observed variable {name!r} has several values a record.")
        # Shape of what a record adds up.
        entries = shapes[name][1:] if family.elementwise else ()
        for part in family.parts:
            if not values.moves(part.natural):
                continue
            phi = pt.broadcast_to(part.natural, entries).ravel() if family.elementwise else part.natural
            natural.append(phi)
            statistics.append((name, part.statistic))
            with np.errstate(all="ignore"):
                size = part.statistic(np.zeros((1, *shapes[name][1:]))).size
            label = re.sub(r"\by\b", name, part.name)
            names += [label] if size == 1 else [f"{label}[{k}]" for k in range(size)]
        log_g.append(pt.broadcast_to(family.log_g, entries).sum() if entries else family.log_g)
    if not natural:
        raise _refuse("No natural parameter of the likelihood depends on a free variable.")

    def statistic(rows: Mapping[str, np.ndarray]) -> np.ndarray:
        columns = [f(np.asarray(rows[name], dtype=float)) for name, f in statistics]
        return np.concatenate([c.reshape(c.shape[0], -1) for c in columns], axis=1)

    return Recognised(names, statistic, pt.concatenate(natural), pt.add(*log_g, 0.0))


_DIFFERS = (
    "A parameter of observed variable {!r} differs from record to record, or reads an array with one entry a "
    "record."
)


def _shared(parameter: Graph, own: int, batch: int, name: str) -> Variable:
    """Parameter without its record axis, which has length 1."""
    if parameter.type.ndim - own < batch:
        return parameter
    if parameter.type.shape[0] != 1:
        raise _refuse(_DIFFERS.format(name))
    return parameter[0]


def _refuse(what: str) -> ModelRefusedError:
    return ModelRefusedError(
        what,
        "an iteration reads the sum of the records' sufficient statistics only, and that is not all that the "
        "likelihood needs here.",
        "pass sufficient_statistics= an object with statistic, natural_parameter and log_g "
        "(docs/exponential_families), or lipschitz= instead.",
    )
