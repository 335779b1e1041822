"""Numbers of records and of tables of a model, from the lengths of its observed variables."""

from collections.abc import Collection, Mapping

import numpy as np
import pymc as pm
from pytensor.graph import Variable

from pymc_dp.records import checks, graph
from pymc_dp.records.clipped_sums import LARGEST_N
from pymc_dp.records.row_types.ops import public_number


def number_of_rows(model: pm.Model, observed: Collection[str] | None = None) -> int:
    """Return the length of the first axis of the observed variables, or of some of them.

    Raises
    ------
    ModelRefusedError
        Lengths differ, or the model has no observed or no free variables that can be read.
    """
    checks.supported(model)
    names = [rv.name for rv in model.observed_RVs] if observed is None else list(observed)
    n_rows = checks.same_records({name: _records_of(model, model[name]) for name in names})
    checks.observed_term(names[0], 1, n_rows)
    return n_rows


def tables_of(model: pm.Model) -> dict[int, list[str]]:
    """Group observed variables by the length of their first axis: each length is one table of records.

    Raises
    ------
    ModelRefusedError
        A variable has no records, or the model has no observed or no free variables that can be read.
    """
    checks.supported(model)
    found: dict[int, list[str]] = {}
    for rv in model.observed_RVs:
        found.setdefault(number_of_rows(model, [rv.name]), []).append(rv.name)
    return found


def dims_of_records(
    model: pm.Model, axes: Mapping[str | None, int], lengths: Mapping[str, Variable], sizes: Collection[int]
) -> list[str]:
    """Return the names of dimensions of records: those of axes of records, and all of such a length.

    Parameters
    ----------
    axes : mapping of str to int
        Axis of records of named variables.
    lengths : mapping of str to Variable
        Length of each dimension of the model.
    sizes : collection of int
        Number of units, and of records of each other table.
    """
    dims = {name: model.named_vars_to_dims.get(name or "", ()) for name in axes}
    found = {dims[name][axis] for name, axis in axes.items() if axis < len(dims[name])}
    found |= {name for name, length in lengths.items() if public_number(length) in sizes}
    return sorted(name for name in found if name is not None)


def _records_of(model: pm.Model, rv: Variable) -> int | None:
    """Return the length of an observed variable's first axis, from shapes; None for a single number."""
    value = model.rvs_to_values[rv]
    if value.type.ndim == 0:
        return None
    if value.owner is None:
        return int(np.shape(graph.leaf_value(value))[0])
    return checks.length_from_shapes(rv.name, value)


def refuse_more_than_exact(lengths: Collection[int], terms: int) -> None:
    """Refuse tables of these lengths if sums over their rows, of so many terms each, would not be exact.

    Raises
    ------
    ValueError
    """
    if max(lengths, default=0) * terms > LARGEST_N:
        raise ValueError("more than 2**29 records times terms: their sums would not be exact.")
