"""Sufficient statistics of each record, clipped and added exactly."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pymc_dp.bounds import check_bound
from pymc_dp.records.sums import guarded
from pymc_dp.records.units import chunks_of

# A clipped statistic is cut off to multiples of its bound / GRID. Sums of up to 2**33 integers of at most
# 2**29 are exact in int64, in any order.
GRID = 2**29
LARGEST_N = 2**33
# Rows of a chunk.
_ROWS = 2**15


class Statistics(Protocol):
    """An exponential family: the log-likelihood of a record is ``ln h(y) + ln g(theta) + phi(theta)' S(y)``.

    The methods get what they need as dictionaries: of the rows by the names of the model's observed variables
    and `pymc.Data` containers with one entry a record, and of the parameters by the names of its free
    variables.
    """

    def statistic(self, rows: Mapping[str, np.ndarray]) -> np.ndarray:
        """S of some records, shape (b, k). Row i is a function of row i of each array alone."""

    def natural_parameter(self, point: Mapping[str, np.ndarray]) -> np.ndarray:
        """Phi, shape (k,). Reads no record."""

    def log_g(self, point: Mapping[str, np.ndarray]) -> float:
        """Ln g. Reads no record."""


class StatisticSum(NamedTuple):
    """One pass over the data. All of it is private.

    Attributes
    ----------
    n : int
        Number of records.
    total : ndarray of int64, shape (k,)
        Sum of the clipped statistics, entry j in units of ``widths[j] / GRID``.
    clipped : int
        Number of records whose statistic was clipped or was not a finite number.
    """

    n: int
    total: np.ndarray
    clipped: int


class StatisticBound:
    """Bound on a record's sufficient statistic.

    Parameters
    ----------
    bound : float or array_like of shape (k,)
        A number bounds the Euclidean norm, an array the absolute value of each entry.

    Raises
    ------
    ValueError
        It is not between 1e-100 and 1e100.
    """

    def __init__(self, bound: float | Sequence[float] | np.ndarray):
        self.widths = np.asarray(bound)
        if self.widths.ndim > 1:
            raise ValueError("clip_bound must be positive and finite: a number, or an array of shape (k,).")
        check_bound("clip_bound", self.widths, several=True)
        self.widths = self.widths.astype(float)

    def check(self, k: int, names: str) -> None:
        """Raise ValueError if there are bounds for another number of entries than k."""
        if self.widths.ndim and self.widths.size != k:
            raise ValueError(
                f"clip_bound has {self.widths.size} entries, the sufficient statistic {k}: {names}."
            )

    def largest(self, direction: np.ndarray) -> float:
        """Largest ``direction' S`` of a bounded statistic; exact up to rounding."""
        if self.widths.ndim:
            return float(self.widths @ np.abs(direction))
        return float(self.widths) * math.hypot(*direction)  # which neither overflows nor underflows

    def grid(self, statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Clip to the bound, and cut off to whole multiples of it over GRID.

        Parameters
        ----------
        statistics : ndarray, shape (b, k)

        Returns
        -------
        steps : ndarray of int64, shape (b, k)
            Whole numbers, whose norm (or each of which, for an array of bounds) is at most GRID, exactly. A
            statistic that is not finite gives 0.
        inside : ndarray of bool, shape (b,)
            Whether nothing was clipped.
        """
        with np.errstate(all="ignore"):  # nothing about the values may show
            share = statistics / self.widths
            finite = np.all(np.isfinite(share), axis=1)
            share = np.where(finite[:, None], share, 0.0)
            if self.widths.ndim:
                inside = finite & np.all(np.abs(share) <= 1, axis=1)
                return np.trunc(np.clip(share, -1, 1) * GRID).astype(np.int64), inside
            # Divided by the largest entry, squares cannot overflow.
            largest = np.max(np.abs(share), axis=1, keepdims=True)
            direction = np.where(largest > 0, share / largest, 0.0)
            length = np.sqrt(np.sum(direction**2, axis=1, keepdims=True))
            norm = largest * length
            inward = np.where(norm > 1, direction / length, share)
            steps = np.trunc(inward * GRID).astype(np.int64)
            # Rounding may leave a norm above GRID by some parts in 2**50: one unit less is enough.
            over = np.sum(steps * steps, axis=1) > GRID**2
            steps[over] = np.trunc(inward[over] * (GRID - 1)).astype(np.int64)
            return steps, finite & (norm[:, 0] <= 1)

    def __str__(self) -> str:
        listed = ", ".join(f"{width:g}" for width in np.atleast_1d(self.widths))
        if self.widths.ndim:
            return f"{listed} x distance moved by each entry of phi, by clipping the sufficient statistic"
        return f"{listed} x distance moved by phi, by clipping the sufficient statistic at that norm"


def exact_sum(
    statistic: Callable[[Mapping[str, np.ndarray]], np.ndarray],
    columns: Mapping[str, np.ndarray],
    bound: StatisticBound,
) -> StatisticSum:
    """Sum the clipped statistics of all records; one pass, a chunk at a time.

    Parameters
    ----------
    statistic : callable
        S of some rows, shape (b, k).
    columns : mapping of str to ndarray
        The records, on the first axis of each.
    bound : StatisticBound

    Raises
    ------
    PrivacyError
        The statistic could not be computed; no value is shown.
    ValueError
        There are more than 2**33 records.
    """
    n = len(next(iter(columns.values())))
    if n > LARGEST_N:
        raise ValueError(f"more than 2**33 records ({n}): their grid sum would not be exact.")
    total, inside = np.zeros(1, dtype=np.int64), 0
    for some, _, _ in chunks_of(n, _ROWS, None, None):
        rows = {name: column[some] for name, column in columns.items()}
        steps, unclipped = bound.grid(guarded(statistic, rows))
        total = total + steps.sum(axis=0)
        inside += int(unclipped.sum())
    return StatisticSum(n, total, n - inside)
