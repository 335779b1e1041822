"""Reads a model's likelihood as an exponential family: S of a record, and the graphs of phi and ln g."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import graph
from pymc_dp.records.families import KNOWN, RULES, Graph, Values
from pymc_dp.records.reading import Reading
from pymc_dp.records.row_types import PUBLIC


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
        given = graph.flatten(reading.opaque.on_values(op.dist_params(rv.owner)))
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
