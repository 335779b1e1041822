"""Where each observed value lies in its predictive distribution, record by record."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.truncated import TruncatedRV
from pytensor.tensor.random.op import RandomVariable

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import graph
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import compiled, guarded

#: Mass of a record, in integers.
UNIT = float(2**20)


class Pit(NamedTuple):
    """Distribution function of the observed values under released draws, averaged over them. Private.

    Attributes
    ----------
    lower, upper : ndarray, shape (n_rows, k)
        ``mean_s F_s(y - 1)`` and ``mean_s F_s(y)`` for whole numbers; both the latter otherwise.
    """

    lower: np.ndarray
    upper: np.ndarray


def distribution_functions(records: RecordModel, name: str) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Compile the distribution functions of an observed variable's rows at a point.

    Parameters
    ----------
    records : RecordModel
    name : str
        Of the observed variable.

    Returns
    -------
    callable
        From a flat vector of parameters to [F(y)], or for whole numbers to [F(y), F(y - 1)].

    Raises
    ------
    ModelRefusedError
        It has no distribution function whose rows depend on one record each.

    Notes
    -----
    **Privacy.** Derived like the log-likelihood: arrays of records are behind shared variables, checks are
    removed, tables are not read beyond their ends, and row i depends on record i alone, by its type.
    """
    opaque, reading = records.reading.opaque, records.reading
    rv, value = opaque.observed[name], opaque.values[opaque.observed[name]]
    if not isinstance(rv.owner.op, RandomVariable | TruncatedRV):
        raise _refusal(name, "is a mixture, censored, or made by other operations")
    whole = rv.type.dtype.startswith(("int", "uint", "bool"))
    try:
        cdfs = [pm.logcdf(rv, value)] + ([pm.logcdf(rv, pt.sub(value, 1))] if whole else [])
        flat = graph.flatten(opaque.on_values(cdfs))
    except Exception as error:
        raise _refusal(name, f"has no distribution function in PyMC ({type(error).__name__})") from None
    if not reading.are_rows(flat):
        raise _refusal(name, "has one that does not depend on one record a row")
    rows = [pm.math.exp(row) for row in records._on_vector(flat)]
    return compiled([records._theta], rows, records.compile_kwargs, private=reading.roots)


def pit_of(function: Callable[[np.ndarray], list[np.ndarray]], points: np.ndarray, n_rows: int) -> Pit:
    """Average distribution functions over draws. Private."""

    def average() -> np.ndarray:
        found = (np.array([np.reshape(v, (n_rows, -1)) for v in function(theta)]) for theta in points)
        return sum(found, start=np.zeros(())) / len(points)

    mean = guarded(average, what="The distribution functions could not be computed")
    return Pit(mean[-1], mean[0])


def masses(pit: Pit, cells: int) -> np.ndarray:
    """Mass of each row in each cell of [0, 1], in whole numbers of which a row has at most `UNIT`.

    Returns
    -------
    ndarray of float, shape (n_rows, cells)
        Of a row with several entries their mean; zero where one is not a number. Private.
    """
    edges = np.arange(cells + 1) / cells
    n_rows, entries = pit.upper.shape
    mass = np.zeros((n_rows, cells))
    for k in range(entries):
        lower, upper = pit.lower[:, k], pit.upper[:, k]
        valid = (lower >= 0) & (upper <= 1 + 1e-9) & (lower <= upper)
        lower, upper = np.where(valid, lower, 0.0).clip(0, 1), np.where(valid, upper, 0.0).clip(0, 1)
        width = upper - lower
        narrow = width < 1e-9
        inside = np.clip(upper[:, None], edges[:-1], edges[1:]) - np.clip(
            lower[:, None], edges[:-1], edges[1:]
        )
        part = inside / np.where(narrow, 1.0, width)[:, None]
        own = np.minimum((upper * cells).astype(np.int64), cells - 1)
        part[narrow] = np.eye(cells)[own[narrow]]
        part[~valid] = 0.0
        mass += part
    return _whole(mass / entries)


def _whole(mass: np.ndarray) -> np.ndarray:
    """Rounded down, so that no row has more than `UNIT`, whatever the rounding errors of its sum are."""
    total = np.maximum(mass.sum(axis=1, keepdims=True), 1.0)
    return np.floor(np.clip(mass / total * (1 - 2.0**-40), 0.0, 1.0) * UNIT)


def counts_of(mass: np.ndarray, unit_of_row: np.ndarray | None, n: int) -> np.ndarray:
    """Exact sums over records of their masses, in units of ``1 / UNIT``; of a person the mean row's."""
    if unit_of_row is not None:
        rows = np.bincount(unit_of_row, minlength=n)
        sums = np.stack([np.bincount(unit_of_row, weights=c, minlength=n) for c in mass.T], axis=1)
        mass = np.floor(sums / rows[:, None])
    return mass.astype(np.int64).sum(axis=0)


def _refusal(name: str, what: str) -> ModelRefusedError:
    return ModelRefusedError(
        f"Observed variable {name!r} {what}.",
        "where a value lies in its predictive distribution is then not a number of that record alone.",
        "check another observed variable, var_name=; compare models by their densities, dp.compare.",
    )
