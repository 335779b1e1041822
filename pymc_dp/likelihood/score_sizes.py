"""Sizes of scores, coordinate by coordinate: noisy counts of units by octave, and estimates from these.

Octaves are intervals of a standard deviation between consecutive powers of two.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pymc_dp.likelihood.centre import compiled
from pymc_dp.records.sums import sums
from pymc_dp.records.twins import Chunk
from pymc_dp.records.vector_math import add_in_order

#: Number of cells that a coordinate's units are counted in, by the standard deviation of a score. Cell 0 is
#: for units whose twins are all alike, as where outcomes are rare: they touch the coordinate, but do not
#: show the size of its scores. The others are octaves, of which the last is open.
OCTAVES = 81
#: Cell k has standard deviations from 2**(k - LOWEST) to twice that. Cell 1 has all smaller ones as well.
LOWEST = 40
#: Relative error of an information that is computed from octaves without noise.
OF_OCTAVES = 0.15
# Most octaves that are tested together, as one window.
_WIDEST = 4


class Counted(NamedTuple):
    """Estimates from counts, for each coordinate.

    Attributes
    ----------
    information, touched : ndarray, shape (p,)
        Information of all records about the coordinate, and the number of units that touch it. Both are zero
        where no count stands out of the noise. In a block of coordinates that stands out as a whole, a count
        is at least the standard deviation of its noise: where little is known, a distance in units of what is
        counted would be mostly noise.
    error : ndarray, shape (p,)
        Standard deviation of the information, due to the noise of counts.
    noise : float
        Standard deviation of a count's noise.
    number : ndarray, shape (p,)
        The number of units as it is on average: a count that does not stand out by itself is drawn towards
        the mean of its block.
    number_error : ndarray, shape (p,)
        Standard deviation of the error of `number` where the count is drawn to a mean; zero elsewhere.
    alike : ndarray of bool, shape (p,)
        Whether the scores of all groups of a look-up have about the same size, as far as counts show it; of
        no look-up: False.
    """

    information: np.ndarray
    touched: np.ndarray
    error: np.ndarray
    noise: float
    number: np.ndarray
    number_error: np.ndarray
    alike: np.ndarray

    def over(self, information: np.ndarray, known: np.ndarray) -> tuple[float, float]:
        """Return the ratio of this information to another one, (p, p), and its relative error.

        The ratio is the weighted median over the coordinates that are `known`, shape (p,), with weights by
        their errors: the median, since a single noisy count of large scores can make up most of an
        information. It is one number for all coordinates, since separate ratios would contradict the entries
        that coordinates have in common.
        """
        if not known.any():
            return 1.0, OF_OCTAVES
        found = self.information[known]
        ratios = found / np.maximum(np.diag(information)[known], 1e-300)
        errors = self.error[known] / found
        weights = 1 / (OF_OCTAVES**2 + errors**2)
        order = np.argsort(ratios)
        below = np.cumsum(weights[order]) - weights[order] / 2
        middle = math.exp(np.interp(weights.sum() / 2, below, np.log(ratios[order])))
        return middle, math.hypot(OF_OCTAVES, float(np.linalg.norm(weights * errors)) / float(weights.sum()))


class Scales(NamedTuple):
    """Noisy counts of the sizes of scores.

    Attributes
    ----------
    counts : ndarray, shape (p, OCTAVES)
        For each coordinate and octave, the number of units whose twins' scores have a standard deviation
        there.
    noise : float
        Standard deviation of each count's noise.
    """

    counts: np.ndarray
    noise: float

    def sizes(self, lookups: Sequence[np.ndarray]) -> Counted:
        """Estimate the information about each coordinate, and the number of units that touch it.

        Parameters
        ----------
        lookups : sequence of ndarray of int, shape (G, q)
            Coordinates of which each unit touches those of one row. If the counts of a column stand out when
            they are added up, then a coordinate of it that does not stand out alone is taken to have scores
            of the same size as the column, for as many units as its counts have in those octaves. Finally,
            the same is done for all remaining coordinates together.

        Returns
        -------
        Counted
            Zeros where nothing stands out.
        """
        looked_at = _WIDEST * (self.counts.size + len(lookups) * OCTAVES)
        # Probability, at most, that noise alone stands out in any of the windows.
        by_chance = 1e-5
        visible = float(ndtri(1 - by_chance / looked_at))
        found = [_seen(row, self.noise, visible) for row in self.counts]
        information = np.array([one.information for one in found])
        touched = np.array([one.units for one in found])
        errors = np.array([one.error for one in found])
        number, number_error = touched.copy(), np.zeros(len(touched))
        alike = np.zeros(len(touched), dtype=bool)
        columns = [column for rows in lookups for column in rows.T]
        # Sizes of a look-up's scores are alike if their standard deviation in octaves seems at most this.
        part_alike = 0.75
        # The last block has all that are hidden still: coefficients of many similar covariates, for example.
        for k, block in enumerate([*columns, np.flatnonzero(touched == 0)]):
            hidden = block[touched[block] == 0]
            together = _seen(self.counts[block].sum(0), self.noise * math.sqrt(len(block)), visible)
            if k < len(columns):
                alike[block] = together.spread <= part_alike
            if not len(hidden) or together.units <= 0:
                continue
            cells = self.counts[:, together.first : together.last]
            own, least = cells[hidden].sum(1), self.noise * math.sqrt(max(cells.shape[1], 1))
            touched[hidden] = np.maximum(own, least)
            number[hidden], number_error[hidden] = _shrunk(own, least)
            each = touched[hidden] / together.units
            information[hidden], errors[hidden] = each * together.information, each * together.error
        return Counted(information, touched, errors, self.noise, number, number_error, alike)


def _shrunk(counts: np.ndarray, noise: float) -> tuple[np.ndarray, float]:
    """Return counts, shape (G,), nearer to their mean the more of their variance is that of their noise.

    The other result is the standard deviation of their errors, of which that of the mean is a part.
    """
    if noise == 0:
        return np.maximum(counts, 0.0), 0.0
    mean = max(float(counts.mean()), noise / math.sqrt(len(counts)))
    spread = max(float(counts.var()) - noise**2, 0.0)
    part = spread / (spread + noise**2)
    error = noise * math.sqrt(part + (1 - part) ** 2 / len(counts))
    # Least count of a coordinate that does not stand out, over the mean of all such coordinates.
    least_count = 0.25
    return np.maximum(mean + part * (counts - mean), least_count * mean), error


class _Seen(NamedTuple):
    information: float
    error: float
    units: float
    first: int
    last: int
    spread: float = 0.0


def _seen(counts: np.ndarray, noise: float, visible: float) -> _Seen:
    """Estimate the sum of squared scores, and the number of units; zeros if no count stands out.

    A window of octaves stands out if its sum is beyond `visible` standard deviations of that sum's noise.
    """
    best = (0.0, 0, 1)
    for width in range(1, _WIDEST + 1):
        together = np.convolve(counts[1:], np.ones(width), "valid") / math.sqrt(width)
        cell = int(together.argmax()) + 1
        best = max(best, (float(together[cell - 1]), cell, width))
    height, first, width = best
    if not height > visible * max(noise, 0.25):
        return _Seen(0.0, 0.0, 0.0, 0, 0)
    # Octaves at most this far from the window that stands out may count as well.
    beside = 2
    near = np.arange(max(first - beside, 1), min(first + width + beside, len(counts)))
    inside = (near >= first) & (near < first + width)
    # Octaves beside the window count if they are beyond this many standard deviations of the noise: three
    # octaves up, a count that is there by chance would enter the sum of squares 64-fold.
    stands_out = 4.0
    used = inside | (counts[near] > stands_out * noise)
    kept = np.where(used, counts[near], 0.0)
    squares = 4.0 ** (near - LOWEST + 0.5)
    least = float(squares[inside].min())
    alike = float(counts[0]) if counts[0] > stands_out * noise else 0.0
    units = max(float(kept.sum()) + alike, 1.0)
    information, error = max(float(kept @ squares), least), noise * float(np.linalg.norm(squares[used]))
    part = np.maximum(kept, 0.0) / max(float(np.maximum(kept, 0.0).sum()), 1e-300)
    spread = math.sqrt(max(float(part @ near**2 - (part @ near) ** 2), 0.0))
    return _Seen(information, error, units, int(near[0]), int(near[-1]) + 1, spread)


@np.errstate(all="ignore")
def count_octaves(chunk: Chunk, size: int, touched: int) -> np.ndarray:
    """Count the units of a chunk by the octave of the standard deviation of their twins' scores.

    Parameters
    ----------
    chunk : Chunk
    size : int
        p.
    touched : int
        Most coordinates in which a unit is counted: the first ones whose scores are not all zero.

    Returns
    -------
    ndarray, shape (p, OCTAVES)

    Notes
    -----
    **Privacy.** A unit adds 1 to one cell of each of at most `touched` rows; cells of different rows are
    orthogonal.
    """
    m = len(chunk.terms[0].own)
    squares, sizes = np.zeros((m, size)), np.zeros((m, size))
    # Least sum of weights that is divided by: the weights of all twins are zero if none of them is at risk.
    least_weight = 1e-300
    for term in chunk.terms:
        # The standard deviation is that of the twins alone: a record far from them is no measure of their
        # scale.
        among, given = (term.group[1:], None) if term.weights is None else (term.group, term.weights)
        if term.at_risk and given is not None:
            among, given = among[1:], given[1:] / np.maximum(add_in_order(given[1:]), least_weight)
        points = np.asarray(among, dtype=np.float64)
        compared = len(points) > 0
        if not compared:
            points = np.asarray(term.own, dtype=np.float64)[None]
        equal = given is None or not compared
        weights = np.full((1, 1), 1 / len(points)) if equal else np.asarray(given)
        _add_squares(points, weights, compared, term.rows(np.eye(size)), squares, sizes)
    counts = np.zeros((size, OCTAVES))
    _count(sums(squares, chunk.first), sums(sizes, chunk.first), touched, counts)
    return counts


@compiled
def _add_squares(points, weights, centred, rows, squares, sizes):
    """Add to (m, p) the variance of the scores of each row's points, and the mean of their squares."""
    number, m, k = points.shape
    mean, varied = np.zeros(k), np.zeros((k, k))
    for i in range(m):
        row = i if rows.shape[1] == m else 0
        mean[:], varied[:] = 0.0, 0.0
        if centred:
            for j in range(number):
                for a in range(k):
                    mean[a] += (weights[0, 0] if weights.size == 1 else weights[j, i]) * points[j, i, a]
        for j in range(number):
            weight = weights[0, 0] if weights.size == 1 else weights[j, i]
            for a in range(k):
                for b in range(k):
                    varied[a, b] += weight * (points[j, i, a] - mean[a]) * (points[j, i, b] - mean[b])
        for a in range(k):
            for b in range(k):
                for e in range(squares.shape[1]):
                    both = rows[a, row, e] * rows[b, row, e]
                    squares[i, e] += varied[a, b] * both
                    sizes[i, e] += (varied[a, b] + mean[a] * mean[b]) * both


@compiled
def _count(squares, sizes, touched, counts):
    """Add 1 in the octave of a unit's scores, for each of the first `touched` coordinates that it touches."""
    # A unit's twins are taken to be alike if the variance of their scores is at most this fraction of the
    # mean of the squared scores.
    twins_alike = 1e-20
    for i in range(len(squares)):
        left = touched
        for e in range(squares.shape[1]):
            if left > 0 and math.isfinite(sizes[i, e]) and sizes[i, e] > 0:
                left -= 1
                octave = 0
                if squares[i, e] > twins_alike * sizes[i, e]:
                    place = math.floor(min(max(0.5 * math.log2(squares[i, e]), -LOWEST), OCTAVES))
                    octave = min(max(place + LOWEST, 1), OCTAVES - 1)
                counts[e, octave] += 1.0
