"""Public constants applied to cells, one row at a time; and what they say, for a reader."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pymc_dp.prepare import cells as read
from pymc_dp.prepare.constants import BooleanConstants, Constants, LevelConstants, NumericConstants
from pymc_dp.prepare.kinds import Kind, Numeric

#: Name of the level 0: all that have no level of their own, and what is missing.
OTHER = "(other)"
_Z95 = 1.959964


def transformed(name: str, kind: Kind, constants: Constants, column: np.ndarray) -> dict[str, np.ndarray]:
    """Columns that one column becomes, each of shape (n,)."""
    if isinstance(constants, NumericConstants):
        values = read.numbers_of(column)
        missing = np.isnan(values)
        clipped = np.clip(values, constants.lower, constants.upper)
        out = {name: np.where(missing, 0.0, (clipped - constants.centre) / constants.scale)}
        if isinstance(kind, Numeric) and kind.indicator:
            out[f"{name}_missing"] = missing.astype(float)
        return out
    if isinstance(constants, BooleanConstants):
        values = read.truths_of(column)
        return {name: np.where(np.isnan(values), constants.fill, values)}
    number = {level: k for k, level in enumerate(constants.levels, start=1)}
    codes = np.array([number.get(level, 0) for level in read.levels_of(column)], dtype=np.int64)  # type: ignore[arg-type]
    return {name: codes}


def restored(constants: Constants, values: np.ndarray) -> np.ndarray:
    """Values on the scale of the column; numbers of levels as their names."""
    if isinstance(constants, NumericConstants):
        return constants.centre + constants.scale * values
    if isinstance(constants, LevelConstants):
        return np.array([OTHER, *constants.levels], dtype=object)[values.astype(int)]
    return values


def summarised(
    constants: Constants, quantiles: Sequence[float]
) -> Iterator[tuple[str, float, float, float, float]]:
    """Statistic, value, noise and interval of what is known of a column."""
    if isinstance(constants, NumericConstants):
        c = constants
        noise = c.count_noise
        yield from _with_noise(("count", c.count, noise), ("missing", c.missing, noise))
        yield from _with_noise(("mean", c.mean, c.mean_noise), ("std", c.std, c.std_noise))
        yield "lower bound", c.lower, math.nan, math.nan, math.nan
        yield "upper bound", c.upper, math.nan, math.nan, math.nan
        for share in quantiles:
            value, lower, upper = c.cells.quantile(share, _Z95)
            yield f"quantile {share:g}", value, math.nan, lower, upper
        return
    noise = constants.count_noise
    if isinstance(constants, BooleanConstants):
        yield from _with_noise(("true", constants.true, noise), ("false", constants.false, noise))
    else:
        rows = zip(constants.levels, constants.counts, strict=True)
        yield from _with_noise(*((f"level {level}", count, noise) for level, count in rows))
        yield from _with_noise(("other", constants.other, noise))
    yield from _with_noise(("missing", constants.missing, noise))


def _with_noise(*rows: tuple[str, float, float]) -> Iterator[tuple[str, float, float, float, float]]:
    for name, value, noise in rows:
        yield name, value, noise, value - _Z95 * noise, value + _Z95 * noise
