"""Private sums of unbounded numbers: a noisy histogram, a clipping bound chosen from it, clipped sums."""

import math
from typing import NamedTuple

import numpy as np

from pymc_dp.errors import PrivacyError, TooFewRecordsError
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.privacy.mechanisms.randomness import ExactSum, histogram_sensitivity
from pymc_dp.records.sums import GRID, LARGEST_N

#: Shares of the budget of one total, for its three releases: the histogram, the sum, the sum of squares.
SHARES = (0.4, 0.5, 0.1)
#: Edges of the histogram's cells, in nats. The clipping bound is one of them.
EDGES = 2.0 ** np.arange(-8, 11)
#: Number of cells: below -1024, ..., -1/256 to 1/256, ..., above 1024; and one for void records.
CELLS = 2 * EDGES.size + 2
#: Index of the cell around 0.
CENTRE = EDGES.size


class Total(NamedTuple):
    """Released sum of numbers, one for each record, with its errors.

    Attributes
    ----------
    sum : float
        Noisy sum of the clipped numbers, in nats.
    noise : float
        Standard deviation of its noise.
    sampling : float
        Estimated standard deviation of such a sum over data sets with as many records.
    bound : float
        Clipping bound C, in nats for each record.
    cut : float
        Estimated nats by which clipping changed the sum: for records that the histogram shows beyond the
        bound, and for those that its noise may hide, if their tail has an index of 1.5 or more. An error of
        unknown sign.
    above, below : float
        Noisy numbers of records above C and below -C.
    hidden : float
        Number of records that noise may hide beyond the bound, on each side: two standard deviations.
    counts : list of float
        The noisy histogram.
    counts_noise : float
        Standard deviation of the noise of each count.
    """

    sum: float
    noise: float
    sampling: float
    bound: float
    cut: float
    above: float
    below: float
    hidden: float
    counts: list[float]
    counts_noise: float


def cells_of(values: np.ndarray, void: np.ndarray) -> np.ndarray:
    """Count the records in each cell, shape (CELLS,), integers: each record is in one cell."""
    side = np.searchsorted(EDGES, np.abs(values), side="right")
    cell = np.where(values < 0, CENTRE - side, CENTRE + side)
    cell = np.where(void | np.isnan(values), CELLS - 1, cell)
    return np.bincount(cell.astype(np.int64), minlength=CELLS)


def clipped_sums(values: np.ndarray, void: np.ndarray, bound: float) -> tuple[int, int]:
    """Sum ``clip(v / C)`` and its square exactly, in units of ``1 / GRID``; void records add 0."""
    with np.errstate(all="ignore"):
        inside = np.clip(values / bound, -1.0, 1.0)
    inside = np.where(void | np.isnan(inside), 0.0, inside)
    first, second = (int(np.rint(part * GRID).astype(np.int64).sum()) for part in (inside, inside**2))
    return first, second


def check_enough(spending: Spending, n: int | None, first: int) -> None:
    """Refuse, before it is paid, a histogram that would show only noise.

    Parameters
    ----------
    spending : Spending
    n : int or None
        Number of records where it is public.
    first : int
        Index of the histogram among the releases.

    Raises
    ------
    TooFewRecordsError
    """
    std = histogram_sensitivity(spending.neighboring_relation) * spending.multipliers[first]
    # With a usual model most records are in four cells, and a count must be four standard deviations to be
    # seen.
    if n is not None and n < 4 * 4 * std:
        raise TooFewRecordsError(
            f"{n} records are too few for this share of epsilon = {spending.epsilon:g}: their differences "
            f"would be hidden by noise (about {std:.3g} records in each cell of a histogram). Nothing was "
            "spent. Take a larger epsilon, or compare fewer models."
        )


def total_of(values: np.ndarray, void: np.ndarray, spending: Spending, n: int | None) -> Total:
    """Release a sum of numbers: a histogram, the clipped sum, and the sum of squares.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Any number for each record. Private.
    void : ndarray of bool, shape (n,)
        Records that count as 0. Private.
    spending : Spending
    n : int or None
        Number of records where it is public.

    Raises
    ------
    TooFewRecordsError
        The noisy histogram shows no records.
    PrivacyError
        The noisy histogram shows many void records.

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
    _refuse_void(counts, std)
    of_sum = spending.noise(ExactSum.sensitivity(relation))
    bound, cut = choose_bound(counts, std, of_sum)
    first, second = clipped_sums(values, void, bound)
    found, noise = spending.release(ExactSum(first / GRID, bound), ExactSum.sensitivity(relation))
    squares, of_squares = spending.release(ExactSum(second / GRID, bound**2), 1.0)
    variance = squares - (found**2 / n if n else 0.0)
    k = int(np.searchsorted(EDGES, bound)) + 1
    beyond = EDGES.size + 1 - k
    return Total(
        sum=float(found),
        noise=noise,
        sampling=math.sqrt(max(variance, of_squares)),
        bound=bound,
        cut=cut,
        above=float(counts[CENTRE + k : -1].sum()),
        below=float(counts[: CENTRE - k + 1].sum()),
        hidden=2.0 * std * math.sqrt(beyond),
        counts=[float(count) for count in counts],
        counts_noise=std,
    )


def _refuse_void(counts: np.ndarray, std: float) -> None:
    """Refuse to sum where many records are void; decided from released numbers."""
    void = float(counts[-1])
    if void > max(5 * std, 0.01 * float(counts.sum())):
        raise PrivacyError(
            f"About {void:.0f} records have no score, or observed values that differ from the reference's: "
            "the models are not of the same records in the same order, or a draw rules records out. (The "
            "number is noisy and was released; the budget is spent.)"
        )


def choose_bound(counts: np.ndarray, std: float, noise_multiplier: float) -> tuple[float, float]:
    """Choose the edge at which the squares of the noise and of the clipping error have the smallest sum.

    Parameters
    ----------
    counts : ndarray, shape (CELLS,)
        The noisy histogram.
    std : float
        Standard deviation of the noise of a count.
    noise_multiplier : float
        Standard deviation of the sum's noise, in units of the bound.

    Returns
    -------
    bound : float
    cut : float
        Estimated nats by which clipping changes the sum.

    Raises
    ------
    TooFewRecordsError
        No count is significantly above its noise.
    """
    seen, unseen = _magnitudes(counts, std)
    # Numbers between two neighbouring edges, and beyond the last edge, are taken to be sqrt(2) times the
    # lower edge.
    beyond = np.triu(math.sqrt(2.0) * EDGES - EDGES[:, None])
    cuts = beyond @ (seen + unseen)[1:]
    best = int(np.argmin((noise_multiplier * EDGES) ** 2 + cuts**2))
    return float(EDGES[best]), float(cuts[best])


def _magnitudes(counts: np.ndarray, std: float) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of records by magnitude, from 0 outwards: those seen, and those that noise may hide.

    Beyond the last cell that is seen, noise may hide records. In the first such cell, their number is bounded
    by its count and noise (it is not extrapolated from the cells that are seen, as bulk and tail may differ).
    From there on their numbers fall as in a tail of index 1.5.

    Raises
    ------
    TooFewRecordsError
        No count is significantly above its noise.
    """
    found = np.r_[counts[CENTRE], counts[CENTRE + 1 : -1] + counts[:CENTRE][::-1]]
    scale = std * np.r_[1.0, np.full(EDGES.size, math.sqrt(2.0))]
    levels = found / np.maximum(scale, 1e-9)
    # A cell counts as not empty if its count exceeds this number of standard deviations of its noise: `alone`
    # for any cell (the strictest, as a mistake about a cell far out costs most), `fullest` for the cell with
    # the largest count, and `beside` for one whose inner neighbour is not empty.
    alone, fullest, beside = 4.0, 2.5, 2.0
    full = (levels > alone) | ((levels > fullest) & (levels == levels.max()))
    for cell in range(1, full.size):
        full[cell] |= full[cell - 1] and levels[cell] > beside
    if not np.any(full):
        raise TooFewRecordsError(
            "A noisy histogram of the records' differences shows nothing but noise: a result would say "
            "nothing. Take a larger epsilon, or compare fewer models."
        )
    unseen, last = np.zeros(found.size), int(np.flatnonzero(full)[-1])
    # Factor by which hidden numbers fall with each octave: a tail of index 1.5 (log densities of normal and t
    # errors).
    falls = 2.0**-1.5
    if last + 1 < found.size:
        nearest = max(found[last + 1], 0.0) + 2 * scale[last + 1]
        unseen[last + 1 :] = nearest * falls ** np.arange(found.size - last - 1)
    return np.where(full, found, 0.0), unseen
