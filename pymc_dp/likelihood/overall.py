"""The sum of all groups of a look-up, which is measured better than by groups' own noise added up."""

from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.measurements import Comparison

# Weight of the sum of all groups' scores beside each group's, squared.
_WEIGHT = 0.25
# With so few groups there is none.
_FEW = 4


class Apart(NamedTuple):
    """A comparison, in a metric where each group is by itself.

    Attributes
    ----------
    seen : Comparison
    variance : ndarray, shape (p, p)
        Of the noise of each entry of the slope.
    """

    seen: Comparison
    variance: np.ndarray


class Overall:
    """Scores of G groups, in which their sum has a weight.

    A record that is in one of G groups says something of that group and of all of them. Where only groups'
    scores z are measured, each behind noise of variance 1, their sum is behind G. Here ``R z`` is, with
    ``R^2 = H = 1 + w^2 S' S`` and S what adds all groups up: a record's score is longer, by ``w^2`` of its
    square, and the noise of the sum is below ``1 / w^2``.

    Parameters
    ----------
    groups, columns, size : int
        G and q: the first ``G q`` of p coordinates are those of groups, group by group.

    Attributes
    ----------
    weight : float
        ``w^2``.
    root : ndarray, shape (p, p)
        R.
    spread : ndarray, shape (p, p)
        Inverse of H, of which the variance of the noise of z is a multiple.
    """

    def __init__(self, groups: int, columns: int, size: int):
        self._groups, self._columns, self._size = groups, columns, size
        self.weight = _WEIGHT if groups > _FEW else 0.0
        mean = np.zeros((size, size))
        k = groups * columns
        mean[:k, :k] = np.kron(np.full((groups, groups), 1 / max(groups, 1)), np.eye(columns))
        one, whole = np.eye(size), 1 + self.weight * groups
        self.root = one + (np.sqrt(whole) - 1) * mean
        self.spread = one - (1 - 1 / whole) * mean
        self._back = one - (1 - 1 / np.sqrt(whole)) * mean

    @property
    def size(self) -> float:
        """What a record's score is longer by, squared, where it is about 1 in each coordinate."""
        return self.weight * self._columns if self._groups else 0.0

    def apart(self, seen: Comparison, longer: float) -> Apart:
        """Go back to z, where a group's slope is zero beside another's: the least squares that are so.

        Parameters
        ----------
        seen : Comparison
            Of ``R z``.
        longer : float
            How much longer than z that is, squared.
        """
        p, k, q, w2 = self._size, self._groups * self._columns, self._columns, self.weight
        slope = self._back @ seen.slope @ self._back
        own = np.diag(self.spread)
        variance = np.full((p, p), 0.5) + 0.5 * np.eye(p)
        variance[:k], variance[:, :k] = own[:k, None] * variance[:k], variance[:, :k] * own[:k]
        within = self.root @ seen.slope @ self.root
        blocks = within[:k, :k].reshape(self._groups, q, self._groups, q)
        each = np.einsum("gigj->gij", blocks)
        total = each.sum(0) / (1 + 2 * w2 + self._groups * w2**2)
        slope[:k, :k], variance[:k, :k] = 0.0, 0.0
        for g, block in enumerate((each - w2**2 * total) / (1 + 2 * w2)):
            some = slice(g * q, (g + 1) * q)
            slope[some, some] = block
            less = 1 - w2**2 / (1 + 2 * w2 + self._groups * w2**2)
            variance[some, some] = less / (1 + 2 * w2) * (0.5 + 0.5 * np.eye(q))
        found = seen._replace(
            score=self._back @ seen.score,
            slope=slope,
            trace=seen.trace / longer,
            trace_noise=seen.trace_noise / longer,
        )
        return Apart(found, seen.slope_noise**2 * variance)

    def in_sum(self, places: np.ndarray) -> float:
        """Of these coordinates' slopes, the variance of the sum of noises over the sum of variances."""
        g, w2 = self._groups, self.weight
        if not places.size or places.max() >= g * self._columns:
            return 1.0
        return (1 + 2 * w2) / (1 + 2 * w2 + (g - 1) * w2**2)

    def shared(self, column: np.ndarray) -> float:
        """Minus the covariance of the noise of two groups beside another coordinate, over the variance."""
        if column.max(initial=0) >= self._groups * self._columns:
            return 0.0
        return self.weight / (1 + self.weight * (self._groups - 1))
