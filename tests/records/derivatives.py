"""Gradients of each unit's log-likelihood by another route: forward mode, one coordinate after the other."""

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import pushforward
from pytensor.graph.replace import clone_replace

from pymc_dp.records import graph, other_records
from pymc_dp.records.predictors import find
from pymc_dp.records.sums import compiled, guarded


def along(values, theta, direction):
    """Directional derivative of `values` at `theta`, evaluated in forward mode."""
    step = pt.scalar(dtype="float64")
    (moved,) = clone_replace([values], {theta: theta + step * direction})
    derivative = pushforward(moved, step, pt.constant(np.float64(1.0)))
    return clone_replace([derivative], {step: pt.constant(np.float64(0.0))})[0]


def gradients_of(records, phi):
    """By the likelihood coordinates, shape (n, p)."""
    seen = records.coordinates
    stand_ins, rows = other_records.symbolic_rows(
        seen.joined(seen.open_terms), records._roots, records.n_rows
    )
    direction = pt.vector("direction", shape=(seen.size,), dtype="float64")
    slope = along(rows, seen.vector, direction)
    given = list(stand_ins.values())
    function = compiled([seen.vector, direction, *given], slope, records.compile_kwargs, private=given)
    data = [graph.leaf_value(root) for root in records._roots]
    by_row = np.stack([guarded(function, phi, e, *data) for e in np.eye(seen.size)], axis=1)
    if records.unit_of_row is None:
        return by_row
    found = np.zeros((records.n, seen.size))
    np.add.at(found, records.unit_of_row, by_row)
    return found


def predictors_of(records):
    """Those of the likelihood as it is, whichever outcomes rows read; None for sparse matrices."""
    seen, original = records.coordinates, records.reading.opaque.original
    if any(hasattr(original.get(root, root).type, "format") for root in records._roots):
        return None
    return find(seen.open_terms, seen, records._roots, records.n_rows, seen(records._start))
