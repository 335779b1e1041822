"""Public constants of a column, with the size of their noise; applied to cells, one row at a time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from pymc_dp.prepare import cells as read
from pymc_dp.prepare.grid import Cells
from pymc_dp.prepare.kinds import Kind, Numeric


@dataclass(frozen=True)
class NumericConstants:
    """Public constants of a column of numbers.

    Attributes
    ----------
    lower, upper : float
        Bounds to which values are clipped.
    mean, std : float
        Mean and standard deviation of the clipped values, in units of the column.
    mean_noise, std_noise : float
        Standard deviation of the noise in each.
    count, missing : float
        Counts of cells that are numbers, and of those that are not.
    count_noise : float
        Standard deviation of the noise in both.
    cells : Cells
        Noisy histogram, for quantiles.
    reliable : bool
        Whether the variance and the count are well above their noise; if not, `centre` and `scale` are
        computed from quantiles.
    """

    lower: float
    upper: float
    mean: float
    std: float
    mean_noise: float
    std_noise: float
    count: float
    missing: float
    count_noise: float
    cells: Cells
    reliable: bool

    def __post_init__(self) -> None:
        if not (isinstance(self.cells, Cells) and self.lower < self.upper):
            raise ValueError("not the constants of a column: cells are none, or bounds not in order.")

    @property
    def centre(self) -> float:
        """Number that is subtracted, and that replaces missing cells."""
        return self.mean if self.reliable else self._clipped(0.5)

    @property
    def scale(self) -> float:
        """Number that is divided by, above 0."""
        if self.reliable:
            return self.std
        between = (self._clipped(ndtr(1)) - self._clipped(ndtr(-1))) / 2  # as of a normal distribution
        return between if between > 1e-3 * (self.upper - self.lower) else (self.upper - self.lower) / 4

    def _clipped(self, share: float) -> float:
        return min(max(self.cells.quantile(share)[0], self.lower), self.upper)


@dataclass(frozen=True)
class LevelConstants:
    """Public constants of a column of levels.

    Attributes
    ----------
    levels : tuple of str
        Levels that are numbered from 1 on; 0 is for all others and for missing cells.
    counts : tuple of float
        Noisy count of each level.
    other, missing : float
        Noisy counts; NaN (None in JSON) if it is only known that a count is below `threshold`.
    count_noise : float
        Standard deviation of the noise in a count.
    threshold : float
        Least noisy count of a level; 0 if levels are given.
    """

    levels: tuple[str, ...]
    counts: tuple[float, ...]
    other: float
    missing: float
    count_noise: float
    threshold: float

    def __post_init__(self) -> None:
        for name in ("other", "missing"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, math.nan)


@dataclass(frozen=True)
class BooleanConstants:
    """Public constants of a column of yes and no.

    Attributes
    ----------
    true, false, missing : float
        Noisy counts.
    count_noise : float
        Standard deviation of the noise in each.
    """

    true: float
    false: float
    missing: float
    count_noise: float

    @property
    def fill(self) -> float:
        """Number that replaces missing cells: the more frequent of 0 and 1."""
        return float(self.true > self.false)


Constants = NumericConstants | LevelConstants | BooleanConstants


def numeric_constants(
    bounds: tuple[float, float],
    sums: np.ndarray,
    sums_std: float,
    cells: Cells,
    missing: list[tuple[float, float]],
    n: int | None,
) -> NumericConstants:
    """Compute mean and standard deviation from noisy sums.

    Parameters
    ----------
    bounds : (float, float)
    sums : ndarray, shape (3,)
        Noisy count, sum, and sqrt(2) times sum of squares, of values scaled and clipped to [-1, 1].
    sums_std : float
        Standard deviation of the noise in each.
    cells : Cells
    missing : list of (float, float)
        Noisy counts of missing cells, and the standard deviations of their noise.
    n : int or None
        Number of records, if it is public: the count of numbers is then n less the missing cells, whose
        estimate is more precise.
    """
    lower, upper = bounds
    middle, half = (lower + upper) / 2, (upper - lower) / 2
    gone, gone_std = _combined(missing)
    if n is None:
        many = sum(cells.counts), cells.std * math.sqrt(len(cells.counts))
        count, count_std = _combined([(float(sums[0]), sums_std), many])
        count_noise = max(count_std, gone_std)
    else:
        gone, count_noise = _combined([*missing, (n - float(sums[0]), sums_std)])
        gone = min(max(gone, 0.0), float(n))
        count, count_std = n - gone, count_noise
    size = max(count, 1.0)
    m, q = float(sums[1]) / size, float(sums[2]) / math.sqrt(2) / size
    m = min(max(m, -1.0), 1.0)
    variance = q - m**2
    # Standard deviations to first order in the noise of the two sums and of the count.
    m_noise = math.hypot(sums_std, m * count_std) / size
    v_noise = math.sqrt(sums_std**2 / 2 + 4 * m**2 * sums_std**2 + ((2 * m**2 - q) * count_std) ** 2) / size
    # A variance is used if it is above this many standard deviations of its noise: its root is then known to
    # one part in eight.
    stands_out = 4.0
    reliable = variance > stands_out * v_noise and count > stands_out * count_std
    std = math.sqrt(variance) if variance > 0 else 0.0
    return NumericConstants(
        lower=lower,
        upper=upper,
        mean=middle + half * m,
        std=half * std,
        mean_noise=half * m_noise,
        std_noise=half * (v_noise / (2 * std) if std else math.sqrt(v_noise)),
        count=count,
        missing=gone,
        count_noise=count_noise,
        cells=cells,
        reliable=bool(reliable),
    )


def _combined(estimates: list[tuple[float, float]]) -> tuple[float, float]:
    """Average independent estimates, weighted by their precision; return also the standard deviation."""
    weights = np.array([1 / std**2 for _, std in estimates])
    values = np.array([value for value, _ in estimates])
    return float(weights @ values / weights.sum()), float(weights.sum() ** -0.5)


#: Name of the level 0: all values without a level of their own, and missing cells.
OTHER = "(other)"


def transformed(name: str, kind: Kind, constants: Constants, column: np.ndarray) -> dict[str, np.ndarray]:
    """Transform a column to one or two columns, each of shape (n,)."""
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
    """Return values on the scale of the column; numbers of levels become their names."""
    if isinstance(constants, NumericConstants):
        return constants.centre + constants.scale * values
    if isinstance(constants, LevelConstants):
        return np.array([OTHER, *constants.levels], dtype=object)[values.astype(int)]
    return values


def summarised(c: Constants, quantiles: Sequence[float]) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield statistic, value, noise and interval of all that is known of a column."""
    noise = c.count_noise
    if isinstance(c, NumericConstants):
        rows = [("count", c.count, noise), ("missing", c.missing, noise)]
        rows += [("mean", c.mean, c.mean_noise), ("std", c.std, c.std_noise)]
    elif isinstance(c, BooleanConstants):
        rows = [("true", c.true, noise), ("false", c.false, noise), ("missing", c.missing, noise)]
    else:
        rows = [(f"level {one}", count, noise) for one, count in zip(c.levels, c.counts, strict=True)]
        rows += [("other", c.other, noise), ("missing", c.missing, noise)]
    # Quantile of the normal distribution for 95 per cent intervals.
    z95 = 1.959964
    for name, value, std in rows:
        yield name, value, std, value - z95 * std, value + z95 * std
    if isinstance(c, NumericConstants):
        yield "lower bound", c.lower, math.nan, math.nan, math.nan
        yield "upper bound", c.upper, math.nan, math.nan, math.nan
        for share in quantiles:
            value, lower, upper = c.cells.quantile(share, z95)
            yield f"quantile {share:g}", value, math.nan, lower, upper
