"""The part of the likelihood coordinates that records see: a search knows of no other.

Of ``a[school] + b[year]`` no record tells a number that is added to all of a and taken from all of b. Noise
would: a slope that is zero in a direction has to be positive to be believed, and each round would say with it
that the parameters are where it was. So nothing is said of such a direction. Where it has a coordinate that
is of no look-up (an intercept), that one is left out. Of two look-ups no group is: what records tell of one
that is left out, a reference level, would be the little that is left of sums over all others, each behind its
noise. There the mean of the smaller look-up is held where it is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space

from pymc_dp.likelihood.comparisons import Bounds
from pymc_dp.likelihood.measurements import Comparison, NoisySums, Shapes
from pymc_dp.likelihood.mixtures import Message, Normal, inverse
from pymc_dp.likelihood.octaves import Scales
from pymc_dp.likelihood.points import UNBOUNDED

# Entries of a direction below this part of its largest are rounding.
_ROUNDING = 1e-6
# A prior variance below this part of the largest is that of a constant.
_CONSTANT = 1e-12


def unseen(sums: Sequence[Sequence[tuple[int, np.ndarray]]], size: int) -> np.ndarray:
    """Directions, shape (p, k), that no record can see.

    Along them all coordinates that one look-up chooses from change alike, and each sum stays what it is.

    Parameters
    ----------
    sums : sequence of sequence of tuple
        See `Shapes.sums`.
    size : int
        p.
    """
    like = np.arange(size)
    for places in (places for one in sums for _, places in one if len(places) > 1):
        like[np.isin(like, like[places])] = like[places[0]]
    rows = []
    for one in sums:
        row: dict[int, int] = {}
        for sign, places in one:
            row[like[places[0]]] = row.get(like[places[0]], 0) + sign
        rows.append({k: times for k, times in row.items() if times})
    zero = {k for row in rows if len(row) == 1 for k in row}
    free = np.array([k for k in np.unique(like) if k not in zero], dtype=int)
    directions = np.zeros((size, 0))
    if len(free):
        some = {tuple(row.get(k, 0) for k in free) for row in rows} | {(0,) * len(free)}
        found = null_space(np.array(sorted(some), dtype=float))
        directions = np.zeros((size, found.shape[1]))
        directions[free] = found
    return directions[like]


class Pinned(NamedTuple):
    """Means of look-ups, of which no record tells: held where they are, as if public records had said so.

    Attributes
    ----------
    rows : ndarray, shape (k, p)
        Each a mean of coordinates.
    values : ndarray, shape (k,)
    """

    rows: np.ndarray
    values: np.ndarray

    @classmethod
    def none(cls, size: int) -> "Pinned":
        """Nothing is held."""
        return cls(np.zeros((0, size)), np.zeros(0))

    def in_units(self, unit: np.ndarray) -> "Pinned":
        """The same of the coordinates over these numbers, shape (p,)."""
        return self._replace(rows=self.rows * unit)

    def information(self, records: np.ndarray) -> np.ndarray:
        """Of the public records, shape (p, p): as much of each mean as records tell of its groups together.

        How many there are does not change the result, since no other record speaks of these means. With about
        as many as there are real ones, each group keeps a row of its own in the metric.

        Parameters
        ----------
        records : ndarray, shape (p, p)
            What records tell.
        """
        return self.rows.T @ (self._told(records)[:, None] * self.rows)

    def score(self, records: np.ndarray, point: np.ndarray) -> np.ndarray:
        """What they say at a point, shape (p,)."""
        return self.rows.T @ (self._told(records) * (self.values - self.rows @ point))

    def _told(self, records: np.ndarray) -> np.ndarray:
        return np.maximum((self.rows != 0) @ np.diag(records), 0.0)


class SeenCoordinates:
    """Coordinates psi that tell all that records see of phi.

    ``psi = T (phi[kept] + others phi[left]) + V g``, where T takes so much away along each column of V, which
    no record sees, that the means that `pinned` holds are g.

    Parameters
    ----------
    shapes : Shapes
    prior : Normal
        Of phi.

    Attributes
    ----------
    kept, left : ndarray of int, shapes (r,) and (k,)
        Of phi. Left are constants before coordinates of their own, and these before groups.
    others : ndarray, shape (r, k)
    pinned : Pinned
        Means that are held.
    size, touched, rank, lookups, sums
        As of `Shapes`, of psi; in sums -1 for what was left.
    """

    def __init__(self, shapes: Shapes, prior: Normal):
        directions, size = unseen(shapes.sums, shapes.size), shapes.size
        self._size = size
        variances = np.diag(inverse(prior.precision)) if directions.size else np.ones(size)
        groups, arrays = np.zeros(size), [p for one in shapes.sums for _, p in one if len(p) > 1]
        for places in arrays:
            groups[places] = np.maximum(groups[places], len(places))
        # The slope of the largest look-up has a block for each group: a mean over all would be in none.
        first = max(shapes.lookups, key=np.size, default=np.zeros(0, dtype=int)).ravel()
        groups[first] = size + 1
        order = np.where(variances <= _CONSTANT * variances.max(), -1.0, groups)
        left, held = {}, {}
        # A search needs one coordinate, even if records see none.
        for k in range(min(directions.shape[1], size - 1)):
            direction = directions[:, k] / np.abs(directions[:, k]).max(initial=1e-300)
            places = np.flatnonzero(np.abs(direction) > _ROUNDING)
            one = int(places[np.argmin(order[places])])
            row = np.zeros(size)
            if 0 < order[one] <= size:
                alike = np.unique(np.concatenate([p for p in arrays if one in p]))
                row[alike] = 1 / len(alike)
                held[k] = row
            else:
                row[one] = 1.0
                left[k] = one
            directions[:, k] = direction / (row @ direction)
            beside = np.arange(directions.shape[1]) != k
            directions[:, beside] -= np.outer(directions[:, k], row @ directions[:, beside])
        self.left = np.array(list(left.values()), dtype=int)
        self.kept = np.setdiff1d(np.arange(size), self.left)
        self.others = -directions[self.kept][:, list(left)]
        self._along = directions[self.kept][:, list(held)]
        self.size, self.touched = len(self.kept), min(shapes.touched, len(self.kept))
        self.rank = min(shapes.rank, len(self.kept))
        rows = np.array([row[self.kept] for row in held.values()]).reshape(len(held), self.size)
        mean = prior.mean[self.kept] + self.others @ prior.mean[self.left]
        self.pinned = Pinned(rows, rows @ mean)
        place = np.full(size, -1)
        place[self.kept] = np.arange(len(self.kept))
        lookups = [place[rows][(place[rows] >= 0).all(axis=1)] for rows in shapes.lookups]
        self.lookups = [rows for rows in lookups if len(rows) > 1]
        self.sums: Sequence[Sequence[tuple[int, np.ndarray]]] = [
            [(sign, place[places]) for sign, places in one] for one in shapes.sums
        ]

    def within(self, bounds: np.ndarray) -> np.ndarray:
        """Bounds of psi, shape (2, r), where those of phi are these, (2, p): a sum with others has none."""
        alone = ~np.hstack([self.others, self._along]).any(axis=1)
        return np.where(alone, bounds[:, self.kept], UNBOUNDED)

    def of(self, phi: np.ndarray) -> np.ndarray:
        """Psi, shape (..., r), of phi, shape (..., p)."""
        return phi @ self._change.T + self._along @ self.pinned.values

    def phi(self, psi: np.ndarray) -> np.ndarray:
        """A phi, shape (..., p), of which this is psi."""
        phi = np.zeros((*psi.shape[:-1], self._size))
        phi[..., self.kept] = psi
        return phi

    def prior(self, prior: Normal) -> Normal:
        """That of psi."""
        if not len(self.left) and not len(self.pinned.values):
            return prior
        whole = inverse(prior.precision)
        covariance = self._change @ whole @ self._change.T
        # Of what is held a prior may say anything.
        held = self.pinned.rows @ self._kept_change @ whole @ self._kept_change.T @ self.pinned.rows.T
        covariance += self._along @ np.diag(np.diag(held)) @ self._along.T
        draws = None if prior.draws is None else self.of(prior.draws)
        return Normal(inverse(covariance), self.of(prior.mean), draws)

    def matrix(self, information: np.ndarray) -> np.ndarray:
        """Of phi, shape (p, p), where psi has this information, shape (r, r)."""
        return self._change.T @ information @ self._change

    def message(self, message: Message) -> Message:
        """Of phi."""
        vector = message.vector - message.information @ (self._along @ self.pinned.values)
        return Message(self.matrix(message.information), self._change.T @ vector)

    @property
    def _kept_change(self) -> np.ndarray:
        """D, shape (r, p), of the coordinates of which none is left out."""
        change = np.zeros((self.size, self._size))
        change[np.arange(self.size), self.kept] = 1.0
        change[:, self.left] = self.others
        return change

    @property
    def _change(self) -> np.ndarray:
        """T D, shape (r, p), with ``psi = T D phi + V g``."""
        change = self._kept_change
        return change - self._along @ (self.pinned.rows @ change)


class SumsOfSeen:
    """Noisy sums of what records see: `NoisySums`.

    Parameters
    ----------
    measurements : NoisySums
        Of all coordinates.
    source : SeenCoordinates

    Notes
    -----
    **Privacy.** Asks for the sums of a metric that has nothing of some coordinates.
    """

    def __init__(self, measurements: NoisySums, source: SeenCoordinates):
        self._measure, self._seen = measurements, source
        self.source: Shapes = source

    @property
    def left(self) -> float:
        """Share of the budget that is neither spent nor kept."""
        return self._measure.left

    def scales(self, phi: np.ndarray, twins: int, share: float) -> Scales:
        """See `Measurements.scales`."""
        seen = self._measure.scales(self._seen.phi(phi), twins, share)
        return seen._replace(counts=seen.counts[self._seen.kept])

    def compare(
        self, phi: np.ndarray, metric: np.ndarray, bounds: Bounds, twins: int, shares: tuple[float, float]
    ) -> Comparison:
        """See `Measurements.compare`."""
        source, p = self._seen, self._measure.source.size
        whole, places = np.zeros((p, p)), np.ix_(source.kept, source.kept)
        whole[places] = metric
        seen = self._measure.compare(source.phi(phi), whole, bounds, twins, shares)
        return seen._replace(score=seen.score[source.kept], slope=seen.slope[places])
