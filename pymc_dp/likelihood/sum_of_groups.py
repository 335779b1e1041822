"""The sum of all groups of a look-up, measured with less noise than the sum of the groups' measurements."""

from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.measurements import Comparison


class ByGroup(NamedTuple):
    """A comparison in a metric in which each group is by itself.

    Attributes
    ----------
    comparison : Comparison
    variance : ndarray, shape (p, p)
        Variance of the noise of each entry of the slope.
    """

    comparison: Comparison
    variance: np.ndarray


class SumOfGroups:
    """Scores of G groups that are measured with an additional weight of their sum.

    A record in one of G groups is informative about that group and about all of them. If only groups' scores
    z were measured, each with noise of variance 1, their sum would have noise of variance G. Here ``R z`` is
    measured, with ``R^2 = H = 1 + w^2 S' S``, where S adds up all groups. The squared norm of a record's
    score grows by ``w^2`` times the square of the sum, and the noise of the sum has a variance below
    ``1 / w^2``.

    Parameters
    ----------
        G, q and p: the first ``G q`` of p coordinates belong to groups, group by group.

    Attributes
    ----------
    weight : float
        ``w^2``.
    root : ndarray, shape (p, p)
        R.
    spread : ndarray, shape (p, p)
        Inverse of H: the covariance of the noise of z is a multiple of it.
    """

    def __init__(self, groups: int, columns: int, size: int):
        self._groups, self._columns, self._size = groups, columns, size
        # w^2, the squared weight of the sum of all groups' scores relative to a single group's.
        weight = 0.25
        # With at most this many groups the sum has no weight.
        few = 4
        self.weight = weight if groups > few else 0.0
        mean = np.zeros((size, size))
        k = groups * columns
        mean[:k, :k] = np.kron(np.full((groups, groups), 1 / max(groups, 1)), np.eye(columns))
        one, whole = np.eye(size), 1 + self.weight * groups
        self.root = one + (np.sqrt(whole) - 1) * mean
        self.spread = one - (1 - 1 / whole) * mean
        self._back = one - (1 - 1 / np.sqrt(whole)) * mean

    @property
    def size(self) -> float:
        """Increase of a record's squared score norm, if scores are about 1 in each coordinate."""
        return self.weight * self._columns if self._groups else 0.0

    def by_group(self, seen: Comparison, longer: float) -> ByGroup:
        """Transform back to z by least squares, with zero slopes between two groups.

        Parameters
        ----------
        seen : Comparison
            Comparison of ``R z``.
        longer : float
            Squared norm of ``R z`` over that of z.
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
            variances=seen.variances / longer,
            variance_noise=seen.variance_noise / longer,
        )
        return ByGroup(found, seen.slope_noise**2 * variance)

    def in_sum(self, places: np.ndarray) -> float:
        """Return the variance of the summed noise of these diagonal slopes, over their summed variances."""
        g, w2 = self._groups, self.weight
        if not places.size or places.max() >= g * self._columns:
            return 1.0
        return (1 + 2 * w2) / (1 + 2 * w2 + (g - 1) * w2**2)

    def shared(self, column: np.ndarray) -> float:
        """Return minus the noise covariance of two groups' entries in another's row, over their variance."""
        if column.max(initial=0) >= self._groups * self._columns:
            return 0.0
        return self.weight / (1 + self.weight * (self._groups - 1))
