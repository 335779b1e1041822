"""How large scores are, coordinate by coordinate: noisy counts of octaves, and what they show."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pymc_dp.likelihood.centre import compiled
from pymc_dp.records.sums import sums
from pymc_dp.records.twins import Chunk

#: Octaves of a score's standard deviation: this many. The first is of units whose twins are all alike, as
#: where outcomes are rare: these have a score, and say nothing of its size. The last is open.
OCTAVES = 81
#: The second octave begins at 2**-LOWEST.
LOWEST = 40
#: Relative error of an information that comes from octaves, where there is no noise.
OF_OCTAVES = 0.15
# The most octaves that are looked at together.
_WIDEST = 4
# Sum of the weights of twins of which none is at risk: nothing is divided by it.
_LEAST_WEIGHT = 1e-300
# Octaves so far beside what stands out count too,
_BESIDE = 2
# where they are beyond so many standard deviations of the noise: one by chance, three octaves up, would count
# 64-fold.
_COUNTS = 4.0
# Twins are alike where the variance of their scores is at most this part of what their square is.
_TWINS_ALIKE = 1e-20


class Counted(NamedTuple):
    """What counts show of each coordinate.

    Attributes
    ----------
    information, touched : ndarray, shape (p,)
        What all records tell of it, and the number of units that it touches; zero where nothing stands out.
    error : ndarray, shape (p,)
        Standard deviation of the information, by the noise of counts.
    noise : float
        Of a count.
    """

    information: np.ndarray
    touched: np.ndarray
    error: np.ndarray
    noise: float

    def over(self, information: np.ndarray, known: np.ndarray) -> tuple[float, float]:
        """How much larger it is than another information, (p, p), and the relative error of that.

        The middle one of the coordinates that are known, shape (p,), where each has a weight by its error: a
        count of large scores may be noise, and would be most of a size. One number for all: a coordinate's
        alone would be at odds with what it has in common with others.
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
    """Noisy counts of how large scores are.

    Attributes
    ----------
    counts : ndarray, shape (p, OCTAVES)
        Of each coordinate: units whose twins' scores have a standard deviation in each octave.
    noise : float
        Standard deviation of each count's noise.
    """

    counts: np.ndarray
    noise: float

    def sizes(self, lookups: Sequence[np.ndarray]) -> Counted:
        """Information about each coordinate, and the number of units that it touches.

        Parameters
        ----------
        lookups : sequence of ndarray of int, shape (G, q)
            Coordinates of which each unit touches those of one row: where one of a column does not stand
            out, it is taken to be as large as the others, for as many units as are counted in the octaves in
            which these are. So are, at last, all that do not stand out, if they do together.

        Returns
        -------
        Counted
            Zeros where nothing stands out.
        """
        looked_at = _WIDEST * (self.counts.size + len(lookups) * OCTAVES)
        # Noise alone stands out anywhere with this probability at most.
        by_chance = 1e-5
        visible = float(ndtri(1 - by_chance / looked_at))
        found = [_seen(row, self.noise, visible) for row in self.counts]
        information = np.array([one.information for one in found])
        touched = np.array([one.units for one in found])
        errors = np.array([one.error for one in found])
        # What is hidden of others is taken together last: coefficients of many covariates that are alike.
        for block in [*(column for rows in lookups for column in rows.T), np.flatnonzero(touched == 0)]:
            if not len(block):
                continue
            together = _seen(self.counts[block].sum(0), self.noise * math.sqrt(len(block)), visible)
            if together.units <= 0:
                continue
            hidden = block[touched[block] == 0]
            cells = self.counts[:, together.first : together.last]
            least = self.noise * math.sqrt(max(cells.shape[1], 1))
            touched[hidden] = np.maximum(cells[hidden].sum(1), least)
            each = touched[hidden] / together.units
            information[hidden], errors[hidden] = each * together.information, each * together.error
        return Counted(information, touched, errors, self.noise)


class _Seen(NamedTuple):
    information: float
    error: float
    units: float
    first: int
    last: int


def _seen(counts: np.ndarray, noise: float, visible: float) -> _Seen:
    """Sum of squares, and number, of what stands out of the counts of octaves; zero if nothing does.

    What stands out is beyond so many standard deviations of the noise of its octaves together.
    """
    best = (0.0, 0, 1)
    for width in range(1, _WIDEST + 1):
        together = np.convolve(counts[1:], np.ones(width), "valid") / math.sqrt(width)
        cell = int(together.argmax()) + 1
        best = max(best, (float(together[cell - 1]), cell, width))
    height, first, width = best
    if not height > visible * max(noise, 0.25):
        return _Seen(0.0, 0.0, 0.0, 0, 0)
    near = np.arange(max(first - _BESIDE, 1), min(first + width + _BESIDE, len(counts)))
    inside = (near >= first) & (near < first + width)
    used = inside | (counts[near] > _COUNTS * noise)
    kept = np.where(used, counts[near], 0.0)
    squares = 4.0 ** (near - LOWEST + 0.5)
    least = float(squares[inside].min())
    alike = float(counts[0]) if counts[0] > _COUNTS * noise else 0.0
    units = max(float(kept.sum()) + alike, 1.0)
    information, error = max(float(kept @ squares), least), noise * float(np.linalg.norm(squares[used]))
    return _Seen(information, error, units, int(near[0]), int(near[-1]) + 1)


@np.errstate(all="ignore")
def count_octaves(chunk: Chunk, size: int, touched: int) -> np.ndarray:
    """Counts of the octaves of the standard deviation of twins' scores: what one pass adds.

    Parameters
    ----------
    chunk : Chunk
    size : int
        p.
    touched : int
        Most coordinates in which a unit counts: the first ones that are not zero.

    Returns
    -------
    ndarray, shape (p, OCTAVES)

    Notes
    -----
    **Privacy.** A unit adds 1 to one cell of each of at most `touched` rows; cells of different rows are at
    right angles.
    """
    m = len(chunk.terms[0].own)
    squares, sizes = np.zeros((m, size)), np.zeros((m, size))
    for term in chunk.terms:
        # Of twins alone: a record that is far from them says nothing of their scale.
        among, given = (term.group[1:], None) if term.weights is None else (term.group, term.weights)
        if term.at_risk and given is not None:
            among, given = among[1:], given[1:] / np.maximum(given[1:].sum(0), _LEAST_WEIGHT)
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
    """Add the variance of the scores of each row's points, and the mean of their squares: (m, p)."""
    number, m, k = points.shape
    mean, varied, whole = np.zeros(k), np.zeros((k, k)), np.zeros((k, k))
    for i in range(m):
        row = i if rows.shape[1] == m else 0
        mean[:], varied[:], whole[:] = 0.0, 0.0, 0.0
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
                whole[a, b] = varied[a, b] + mean[a] * mean[b]
                for e in range(squares.shape[1]):
                    both = rows[a, row, e] * rows[b, row, e]
                    squares[i, e] += varied[a, b] * both
                    sizes[i, e] += whole[a, b] * both


@compiled
def _count(squares, sizes, touched, counts):
    """Add 1 in the octave of each of the first coordinates in which a unit counts."""
    for i in range(len(squares)):
        left = touched
        for e in range(squares.shape[1]):
            if left > 0 and math.isfinite(sizes[i, e]) and sizes[i, e] > 0:
                left -= 1
                octave = 0
                if squares[i, e] > _TWINS_ALIKE * sizes[i, e]:
                    place = math.floor(min(max(0.5 * math.log2(squares[i, e]), -LOWEST), OCTAVES))
                    octave = min(max(place + LOWEST, 1), OCTAVES - 1)
                counts[e, octave] += 1.0
