"""The part of the likelihood coordinates that records see, to which a search is restricted.

In ``a[school] + b[year]`` records have no information about a number that is added to all of a and taken from
all of b. With noise they would seem to have some: a believed slope is positive even where the true one is
zero, so that each round would claim that the parameters are where its point is, along this direction. So
nothing is claimed about such a direction. If it contains a coordinate that is of no look-up (an intercept),
that one is left out. If it consists of two look-ups, no group is left out as a reference level: the
information about it would be the small rest of sums over all other groups, each with its noise. Instead the
mean of the smaller look-up is held at that of the prior.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space

from pymc_dp.likelihood.measurements import Shapes
from pymc_dp.likelihood.mixtures import Message, Normal, inverse
from pymc_dp.likelihood.points import UNBOUNDED


def unseen(sums: Sequence[Sequence[tuple[int, np.ndarray]]], size: int) -> np.ndarray:
    """Return directions, the columns of a matrix (p, k), that no record can see.

    Along them all coordinates of a look-up change by the same number, and each sum stays what it is.

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
    times = np.zeros((len(sums) + 1, size))
    for row, one in zip(times[:-1], sums, strict=True):
        for sign, places in one:
            row[like[places[0]]] += sign
    alone = times[np.count_nonzero(times, axis=1) == 1]
    free = np.setdiff1d(like, np.flatnonzero(alone.any(axis=0)))
    found = null_space(np.unique(times[:, free], axis=0)) if len(free) else np.zeros((0, 0))
    directions = np.zeros((size, found.shape[1]))
    directions[free] = found
    return directions[like]


class Pinned(NamedTuple):
    """Means of look-ups that no record sees, held fixed as if public records had measured them.

    Attributes
    ----------
    rows : ndarray, shape (k, p)
        Weights of the coordinates in each mean.
    values : ndarray, shape (k,)
        Values of the means.
    """

    rows: np.ndarray
    values: np.ndarray

    def in_units(self, unit: np.ndarray) -> "Pinned":
        """Return the same for coordinates that are divided by these numbers, shape (p,)."""
        return self._replace(rows=self.rows * unit)

    def information(self, records: np.ndarray) -> np.ndarray:
        """Return the information of the public records, shape (p, p).

        About each mean it is as much as the real records have about its groups together. The amount does not
        change the result, since no other record sees these means. With about as much as real records have,
        each group keeps a row of its own in the metric.

        Parameters
        ----------
        records : ndarray, shape (p, p)
            Information of the real records, as they are counted: what noise makes of it later may be zero.
        """
        return self.rows.T @ (self._told(records)[:, None] * self.rows)

    def score(self, records: np.ndarray, point: np.ndarray) -> np.ndarray:
        """Return the score of the public records at a point, shape (p,)."""
        return self.rows.T @ (self._told(records) * (self.values - self.rows @ point))

    def _told(self, records: np.ndarray) -> np.ndarray:
        return np.maximum((self.rows != 0) @ np.diag(records), 0.0)


#: Holds nothing, of any number of coordinates.
NOTHING_PINNED = Pinned(np.zeros((0, 1)), np.zeros(0))


class IdentifiedCoordinates:
    """Coordinates psi, functions of phi that determine all that records see of it.

    ``psi = T (phi[kept] + others phi[left]) + V g``. No record sees changes along columns of V. T subtracts
    multiples of them until the means that `pinned` holds are zero, and ``V g`` gives these their values g.

    Parameters
    ----------
    shapes : Shapes
    prior : Normal
        Prior of phi.

    Attributes
    ----------
    kept : ndarray of int, shape (r,)
        Coordinates of phi that are kept.
    left : ndarray of int, shape (k,)
        Coordinates of phi that are left out: constants before others, and those of no look-up before groups.
    others : ndarray, shape (r, k)
        What is added to the kept coordinates, for each that is left out.
    pinned : Pinned
        Means that are held.
    size, touched, rank, lookups, sums
        As of `Shapes`, for psi; in `sums`, -1 stands for a coordinate that was left out.
    """

    def __init__(self, shapes: Shapes, prior: Normal):
        directions, size = unseen(shapes.sums, shapes.size), shapes.size
        self._size = size
        variances = np.diag(inverse(prior.precision)) if directions.size else np.ones(size)
        groups, arrays = np.zeros(size), [p for one in shapes.sums for _, p in one if len(p) > 1]
        for places in arrays:
            groups[places] = np.maximum(groups[places], len(places))
        # No mean of the largest look-up is held: the slope has a block for each group, and none for all.
        first = max(shapes.lookups, key=np.size, default=np.zeros(0, dtype=int)).ravel()
        groups[first] = size + 1
        # A coordinate with a prior variance below this part of the largest is a constant.
        constant = 1e-12
        order = np.where(variances <= constant * variances.max(), -1.0, groups)
        left, held = {}, {}
        # Entries of a direction below this part of its largest entry are rounding errors.
        rounding = 1e-6
        # A search needs one coordinate, even if records see none.
        for k in range(min(directions.shape[1], size - 1)):
            direction = directions[:, k] / np.abs(directions[:, k]).max(initial=1e-300)
            places = np.flatnonzero(np.abs(direction) > rounding)
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
        """Return bounds of psi (2, r), given those of phi (2, p); a sum of several coordinates has none."""
        alone = ~np.hstack([self.others, self._along]).any(axis=1)
        return np.where(alone, bounds[:, self.kept], UNBOUNDED)

    def of(self, phi: np.ndarray) -> np.ndarray:
        """Return psi, shape (..., r), of phi, shape (..., p)."""
        return phi @ self._change.T + self._along @ self.pinned.values

    def phi(self, psi: np.ndarray) -> np.ndarray:
        """Return a phi, shape (..., p), that psi belongs to."""
        phi = np.zeros((*psi.shape[:-1], self._size))
        phi[..., self.kept] = psi
        return phi

    def prior(self, prior: Normal) -> Normal:
        """Return the prior of psi, given that of phi."""
        if not len(self.left) and not len(self.pinned.values):
            return prior
        whole = inverse(prior.precision)
        covariance = self._change @ whole @ self._change.T
        # Held means may have any prior variance: they have that of a mean of independent levels.
        kept = self._kept_change @ whole @ self._kept_change.T
        levels = np.array([variance_of_levels(kept, np.flatnonzero(row)) for row in self.pinned.rows])
        held = levels * (self.pinned.rows**2).sum(1)
        covariance += self._along @ np.diag(held) @ self._along.T
        draws = None if prior.draws is None else self.of(prior.draws)
        return Normal(inverse(covariance), self.of(prior.mean), draws)

    def matrix(self, information: np.ndarray) -> np.ndarray:
        """Return the information about phi, shape (p, p), given that about psi, shape (r, r)."""
        return self._change.T @ information @ self._change

    def message(self, message: Message) -> Message:
        """Return the likelihood of phi, given that of psi."""
        vector = message.vector - message.information @ (self._along @ self.pinned.values)
        return Message(self.matrix(message.information), self._change.T @ vector)

    @property
    def _kept_change(self) -> np.ndarray:
        """D, shape (r, p): ``D phi`` is ``phi[kept] + others phi[left]``."""
        change = np.zeros((self.size, self._size))
        change[np.arange(self.size), self.kept] = 1.0
        change[:, self.left] = self.others
        return change

    @property
    def _change(self) -> np.ndarray:
        """T D, shape (r, p), with ``psi = T D phi + V g``."""
        change = self._kept_change
        return change - self._along @ (self.pinned.rows @ change)


def variance_of_levels(covariance: np.ndarray, places: np.ndarray) -> float:
    """Return the variance of independent levels that differ as much as coordinates at these places do."""
    some = covariance[np.ix_(places, places)]
    return float(np.trace(some) - some.sum() / len(places)) / max(len(places) - 1, 1)
