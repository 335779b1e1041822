"""Predictors by which a log-likelihood has no curvature but in a kink: Laplace, quantiles, hinges."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable

from pymc_dp.records import adjoints, gate
from pymc_dp.records.sums import guarded

# Records that are made up to see whether second derivatives are 0.
_MADE_UP = 50


def kinks(
    predictors: Any, parts: Mapping[Variable, np.ndarray], shapes: Sequence[tuple[int, ...]]
) -> list[int]:
    """Predictors by which second derivatives are 0 for all made-up records, at two points.

    Their curvature lies in a few records each, of infinite size; or there is none, and secants say so too.

    Parameters
    ----------
    predictors : Predictors
    parts : mapping of Variable to ndarray
        A point: the separate variables of the coordinates.
    shapes : sequence of tuple
        Of one record's part of each variable of data.

    Returns
    -------
    list of int

    Notes
    -----
    **Privacy.** No record is read.
    """
    function = gate.compile_graph(
        [*parts, *predictors.records],
        predictors.derivatives()[1],
        private=predictors.records,
        mode=gate.PLAIN_MODE,
    )
    data = adjoints.as_data(adjoints.made_up(shapes, _MADE_UP), predictors.records)
    moves = np.random.default_rng(1)
    near = [part + 0.1 * (1 + np.abs(part)) * moves.uniform(0.5, 1.0, part.shape) for part in parts.values()]
    found = np.concatenate([guarded(function, *point, *data) for point in (list(parts.values()), near)])
    second = np.abs(np.nan_to_num(found, nan=1.0)).max(axis=0)
    diagonal = np.cumsum([0, *range(predictors.size, 1, -1)])
    return np.flatnonzero(second[diagonal] == 0).tolist()
