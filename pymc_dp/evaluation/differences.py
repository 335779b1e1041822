"""Sums of numbers that records have, of any size: a noisy histogram, a bound chosen from it, clipped sums."""

import math
from typing import Any, NamedTuple

import numpy as np

from pymc_dp.errors import TooFewRecordsError
from pymc_dp.evaluation.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum
from pymc_dp.records.sums import GRID, LARGEST_N

#: Shares of a number's budget: the histogram, the sum, the squares.
SHARES = (0.3, 0.6, 0.1)
#: Edges of the histogram, in nats; also the bounds that may be chosen.
EDGES = 2.0 ** np.arange(-8, 11)
_SIDE = EDGES.size
#: Cells: below -1024, ..., -1/256 to 1/256, ..., above 1024; and void.
CELLS = 2 * _SIDE + 2
_CENTRE = _SIDE
# Noise's standard deviations from which on a cell is not taken for empty, and that a whole result needs.
_SEEN, _LEAST = 2.0, 4.0
# Cells in which most records of a usual model are.
_FEW_CELLS = 4


class Total(NamedTuple):
    """What is released of one number that each record has.

    Attributes
    ----------
    sum : float
        Noisy sum of clipped numbers, nats.
    noise : float
        Standard deviation of its noise.
    sampling : float
        Standard deviation of such a sum over data sets of as many records, estimated.
    bound : float
        C, nats a record.
    above, below : float
        Noisy numbers of records beyond C and -C.
    hidden : float
        Records that may lie beyond the bound on a side without showing in these: two standard deviations.
    void : float
        Noisy number of records without a number, which count as 0.
    counts : list of float
        The noisy histogram.
    counts_noise : float
        Standard deviation of the noise of each count.
    """

    sum: float
    noise: float
    sampling: float
    bound: float
    above: float
    below: float
    hidden: float
    void: float
    counts: list[float]
    counts_noise: float


def cells_of(values: np.ndarray, void: np.ndarray) -> np.ndarray:
    """Counts by cell, shape (CELLS,), integers: each record is in one."""
    side = np.searchsorted(EDGES, np.abs(values), side="right")
    cell = np.where(values < 0, _CENTRE - side, _CENTRE + side)
    cell = np.where(void | np.isnan(values), CELLS - 1, cell)
    return np.bincount(cell.astype(np.int64), minlength=CELLS)


def clipped_sums(values: np.ndarray, void: np.ndarray, bound: float) -> tuple[int, int]:
    """Exact sums of ``clip(v / C)`` and of its square, in units of ``1 / GRID``; void records add 0."""
    with np.errstate(all="ignore"):
        inside = np.clip(values / bound, -1.0, 1.0)
    inside = np.where(void | np.isnan(inside), 0.0, inside)
    return (
        int(np.rint(inside * GRID).astype(np.int64).sum()),
        int(np.rint(inside**2 * GRID).astype(np.int64).sum()),
    )


def histogram_sensitivity(neighboring_relation: str) -> float:
    """Most that one record moves counts by, in Euclidean norm, if its own are of norm 1 and not negative."""
    return math.sqrt(2.0) if neighboring_relation == "substitute" else 1.0


def check_enough(spending: Spending, n: int | None, first: int) -> None:
    """Refuse, before it is paid, a histogram that would show nothing but noise.

    Parameters
    ----------
    spending : Spending
    n : int or None
        Number of records where it is public.
    first : int
        Number of the histogram among the releases.

    Raises
    ------
    TooFewRecordsError
    """
    std = histogram_sensitivity(spending.neighboring_relation) * spending.multipliers[first]
    if n is not None and n < _LEAST * _FEW_CELLS * std:
        raise TooFewRecordsError(
            f"{n} records are too few for this share of epsilon = {spending.epsilon:g}: their differences would "
            f"be hidden by noise (about {std:.3g} records in each cell of a histogram). Nothing was spent. Take "
            "a larger epsilon, or compare fewer models."
        )


def total_of(values: np.ndarray, void: np.ndarray, spending: Spending, n: int | None) -> Total:
    """Release a sum: three releases.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Of each record, any numbers. Private.
    void : ndarray of bool, shape (n,)
        Records that count as 0. Private.
    spending : Spending
    n : int or None
        Number of records where it is public.

    Raises
    ------
    TooFewRecordsError
        The noisy histogram shows no record.

    Notes
    -----
    **Privacy.** docs/proofs/check, Theorem 1.
    """
    if values.size > LARGEST_N:
        raise ValueError("more than 2**33 records: their sum would not be exact.")
    relation = spending.neighboring_relation
    counts, std = spending.release(
        ExactSum(cells_of(values, void).astype(float)), histogram_sensitivity(relation)
    )
    of_sum = spending.noise(ExactSum.sensitivity(relation))
    bound = choose_bound(counts, std, of_sum)
    first, second = clipped_sums(values, void, bound)
    found, noise = spending.release(ExactSum(first / GRID, bound), ExactSum.sensitivity(relation))
    squares, of_squares = spending.release(ExactSum(second / GRID, bound**2), 1.0)
    variance = squares - (found**2 / n if n else 0.0)
    k = int(np.searchsorted(EDGES, bound)) + 1
    beyond = _SIDE + 1 - k
    return Total(
        sum=float(found),
        noise=noise,
        sampling=math.sqrt(max(variance, of_squares)),
        bound=bound,
        above=float(counts[_CENTRE + k : -1].sum()),
        below=float(counts[: _CENTRE - k + 1].sum()),
        hidden=2.0 * std * math.sqrt(beyond),
        void=float(counts[-1]),
        counts=[float(count) for count in counts],
        counts_noise=std,
    )


def choose_bound(counts: np.ndarray, std: float, noise_multiplier: float) -> float:
    """The edge at which noise and what is cut cost least together.

    Parameters
    ----------
    counts : ndarray, shape (CELLS,)
        Noisy.
    std : float
        Of their noise.
    noise_multiplier : float
        Noise of the sum in units of the bound.

    Raises
    ------
    TooFewRecordsError
        No cell stands out of its noise.
    """
    magnitudes = counts[_CENTRE + 1 : -1] + counts[:_CENTRE][::-1]
    seen = np.where(magnitudes > _SEEN * std * math.sqrt(2.0), magnitudes, 0.0)
    if not np.any(counts[:-1] > _SEEN * std) and not np.any(seen):
        raise TooFewRecordsError(
            "A noisy histogram of the records' differences shows nothing but noise: a result would say nothing. "
            "Take a larger epsilon, or compare fewer models."
        )
    # Magnitudes k lie between edges k and k + 1; the last ones are open, and said to be of twice their edge.
    sizes = EDGES * math.sqrt(2.0)
    costs: list[Any] = []
    for k, edge in enumerate(EDGES):
        cut = float(seen[k:] @ (sizes[k:] - edge))
        costs.append((noise_multiplier * edge) ** 2 + cut**2)
    return float(EDGES[int(np.argmin(costs))])
