"""The releases of one column, one after the other, and the constants that are computed from them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_dp.prepare import cells as read
from pymc_dp.prepare.constants import BooleanConstants, Constants, LevelConstants, numeric_constants
from pymc_dp.prepare.grid import OCTAVE_EDGES, Cells, edges_by_octaves, number_of_cells, span_of_octaves
from pymc_dp.prepare.kinds import Boolean, Category, Kind, Numeric
from pymc_dp.prepare.releases import GRID, MISSING, histogram, level_counts, moments, named_counts
from pymc_dp.privacy.mechanisms.summaries import ThresholdedCounts
from pymc_dp.records.sums import guarded

# Beginning of the error message if cells cannot be read, which no content of a cell should cause.
READ = "A column could not be read"


def constants_of(kind: Kind, column: np.ndarray, made: Mapping[str, Any], n: int | None) -> Constants:
    """Make the releases in a column's schedule, each once, and compute its constants.

    Parameters
    ----------
    kind : Kind
    column : ndarray, shape (n,)
        Private.
    made : mapping of str to IntegerSums or ThresholdedCounts
        The mechanism that adds the noise, by the name of the release.
    n : int or None
        Number of records, where it is public.

    Notes
    -----
    **Privacy.** Noise scales were fixed before. The cells and the clipping bounds of a release are functions
    of earlier releases: adaptive composition.
    """
    if isinstance(kind, Category):
        levels = guarded(read.levels_of, column, what=READ)
        if kind.levels is None:
            return _found(made["levels"].release(guarded(level_counts, levels)), kind, made["levels"])
        counts = made["counts"].release(guarded(named_counts, levels, kind.levels))
        return _named(counts, kind, made["counts"].std)
    if isinstance(kind, Boolean):
        truths = guarded(read.truths_of, column, what=READ)
        counts = made["counts"].release(guarded(histogram, truths, np.array([-0.5, 0.5, 1.5])))
        _, false, true, _, missing = (float(count) for count in counts)
        return BooleanConstants(true, false, missing, made["counts"].std)
    return _numeric(kind, guarded(read.numbers_of, column, what=READ), made, n)


def _numeric(kind: Numeric, values: np.ndarray, made: Mapping[str, Any], n: int | None) -> Constants:
    std, missing = made["cells"].std, []
    # Number of cells of the second grid if n is private and there is no first grid.
    public_cells = 64
    if kind.bounds is None:
        noisy = made["octaves"].release(guarded(histogram, values, OCTAVE_EDGES))
        missing.append((float(noisy[-1]), std))
        inside = noisy[:-1]
        span = span_of_octaves(inside, std) or (float(OCTAVE_EDGES[0]), float(OCTAVE_EDGES[-1]))
        records = float(inside[inside > 2 * std].sum())
        edges = edges_by_octaves(inside, std, span, number_of_cells(records, std))
    else:
        edges = np.linspace(*kind.bounds, 1 + (public_cells if n is None else number_of_cells(n, std)))
    noisy = made["cells"].release(guarded(histogram, values, edges))
    missing.append((float(noisy[-1]), std))
    cells = Cells(tuple(map(float, edges)), tuple(map(float, noisy[:-1])), std)
    bounds = cells.bounds() if kind.bounds is None else kind.bounds
    sums = made["moments"].release(guarded(moments, values, *bounds)) / GRID
    return numeric_constants(bounds, sums, made["moments"].std / GRID, cells, missing, n)


def _found(noisy: dict[str, float], kind: Category, made: ThresholdedCounts) -> LevelConstants:
    missing = noisy.pop(MISSING, math.nan)
    kept = {name: count for name, count in noisy.items() if count >= kind.at_least}
    threshold = max(made.threshold, kind.at_least)
    return LevelConstants(tuple(kept), tuple(kept.values()), math.nan, missing, made.std, threshold)


def _named(noisy: np.ndarray, kind: Category, std: float) -> LevelConstants:
    *counts, other, missing = (float(count) for count in noisy)
    least = kind.at_least or -math.inf  # a level that was named stays, whatever its count
    named = zip(kind.levels or (), counts, strict=True)
    kept = {name: count for name, count in named if count >= least}
    return LevelConstants(tuple(kept), tuple(kept.values()), other, missing, std, kind.at_least)
