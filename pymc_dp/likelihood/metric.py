"""The metric of a round: a record has information of about 1 on each of its coordinates.

The sum of all groups of a look-up is measured with less noise than the sum of the groups' measurements.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_dp.likelihood.measurements import Comparison
from pymc_dp.likelihood.mixtures import symmetric


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
    groups, columns, size : int
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
        return self.weight * self._columns

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
        places = np.arange(k).reshape(self._groups, q)
        some = places[:, :, None], places[:, None, :]
        slope[some] = (each - w2**2 * total) / (1 + 2 * w2)
        less = 1 - w2**2 / (1 + 2 * w2 + self._groups * w2**2)
        variance[some] = less / (1 + 2 * w2) * (0.5 + 0.5 * np.eye(q))
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
        if places.max() >= g * self._columns:
            return 1.0
        return (1 + 2 * w2) / (1 + 2 * w2 + (g - 1) * w2**2)

    def shared(self, column: np.ndarray) -> float:
        """Return minus the noise covariance of two groups' entries in another's row, over their variance."""
        if column.max() >= self._groups * self._columns:
            return 0.0
        return self.weight / (1 + self.weight * (self._groups - 1))


class Places:
    """Positions of the coordinates in a metric: those of look-ups, and which of them records see together.

    Parameters
    ----------
    lookups : sequence of ndarray of int, shape (G, q)
        Coordinates of each group: a unit touches those of one row.
    size : int
        p, the number of likelihood coordinates, and the attribute `size`.
    sums : sequence of sequence of tuple
        See `Shapes.sums`; -1 stands for a level that is none of the coordinates.

    Attributes
    ----------
    order : ndarray of int, shape (p,)
        The likelihood coordinate that each coordinate of the metric is about. Those of the largest look-up
        are first, row by row.
    blocks : int
        Number of coordinates of the largest look-up.
    overall : SumOfGroups
        Measurement of the sum of its groups.
    lookups : list of ndarray of int, shape (G, q)
        Coordinates of the metric that belong to each look-up's groups.
    alike : list of ndarray of int
        Coordinates of the metric that belong to look-ups, or are added to these in sums: by coordinates of a
        sum, a record's scores are the same number.
    shown : ndarray of bool, shape (p, p)
        Pairs of likelihood coordinates of one sum: how their scores are correlated is known from the graph.
    together : ndarray, shape (p, p)
        Zero for two coordinates of the metric that no record sees together, else 1. A slope consists of
        blocks of q by q, on the diagonal of its first part, and of the rows and columns of the others.
    """

    def __init__(
        self, lookups: Sequence[np.ndarray], size: int, sums: Sequence[Sequence[tuple[int, np.ndarray]]]
    ):
        self._lookups, self.size, self._sums = lookups, size, sums
        first = max(lookups, key=np.size, default=np.zeros((0, 1), dtype=int))
        self.blocks, self._columns = first.size, first.shape[1]
        self.overall = SumOfGroups(first.shape[0], first.shape[1], size)
        self.order = np.append(first, np.setdiff1d(np.arange(size), first)).astype(int)
        places = np.argsort(self.order)
        self.lookups = [places[rows] for rows in lookups]
        self.shown = np.zeros((size, size), dtype=bool)
        for some in (np.concatenate([p for _, p in one]) for one in sums):
            self.shown[np.ix_(some[some >= 0], some[some >= 0])] = True
        np.fill_diagonal(self.shown, False)
        like = np.arange(size)
        for some in [
            *(rows.ravel() for rows in lookups),
            *(np.concatenate([p for _, p in one]) for one in sums),
        ]:
            same = like[some[some >= 0]]
            like[np.isin(like, same)] = same.min(initial=size)
        chosen = np.unique([like[rows[0, 0]] for rows in lookups])
        self.alike = [np.sort(places[like == one]) for one in chosen]
        self._seen = np.ones((size, size))
        for rows in lookups:
            self._seen[np.ix_(rows.ravel(), rows.ravel())] = np.kron(
                np.eye(len(rows)), np.ones((rows.shape[1],) * 2)
            )
        self.together = np.ones((size, size))
        blocks = np.kron(np.eye(len(first)), np.ones((first.shape[1],) * 2))
        self.together[: self.blocks, : self.blocks] = blocks

    def entries(self, touched: np.ndarray) -> float:
        """Return the mean number of entries in a row of a slope, weighed by how many records see both.

        Parameters
        ----------
        touched : ndarray, shape (p,)
            Number of units that touch each coordinate of the metric.
        """
        both = np.minimum.outer(touched, touched) / np.sqrt(np.outer(touched, touched))
        return float((self.together * both).sum() / self.size)

    def information(self, sizes: np.ndarray, touched: np.ndarray, n: float) -> np.ndarray:
        """Return the records' information, shape (p, p), as far as the graph and counts show it.

        A record's scores by all coordinates of one sum are the same number v, but for signs. If codes choose
        from look-ups independently, with parts q_a and q_b of all records, the slope is ``E v^2 diag(q_a)``
        within a look-up and ``E v^2 q_a q_b'`` between two.

        Parameters
        ----------
        sizes : ndarray, shape (p,)
            Diagonal of the information.
        touched : ndarray, shape (p,)
            Number of units that touch each coordinate; zero where counts do not show it.
        n : float
            Number of all units.
        """
        number, found = np.where(touched > 0, touched, self.hidden(n)), np.zeros((self.size, self.size))
        for one in self._sums:
            choices = []
            for sign, places in one:
                inside, choice = places[places >= 0], np.zeros(self.size)
                whole = float(number[inside].sum())
                if 0 < len(inside) < len(places):  # levels that are none of the coordinates have their part
                    times = sum(np.array_equal(places, other) for _, other in one)
                    whole = max(whole * len(places) / len(inside), n * times)
                choice[inside] = number[inside] / max(whole, 1e-300)
                found += np.diag(choice) - np.outer(choice, choice)
                choices.append(sign * choice)
            found += np.outer(sum(choices), sum(choices))
        roots = np.sqrt(sizes / np.maximum(np.diag(found), 1e-300))
        found *= np.outer(roots, roots)
        np.fill_diagonal(found, sizes)
        return found

    def possible(self, slopes: np.ndarray, metric: np.ndarray, touched: int) -> np.ndarray:
        """Project slopes, shape (m, p, p), on those that records can have.

        No record sees two groups of a look-up. The score s of a record that sees t coordinates has
        ``s s' <= t diag(s^2)``, so that a slope of all records that is scaled to a diagonal of 1 has no
        eigenvalue above t. Beside a metric's blocks noise obeys neither, and would grow from round to round.

        Parameters
        ----------
        slopes : ndarray, shape (m, p, p)
            In the metric.
        metric : ndarray, shape (p, p)
        touched : int
            t.
        """
        if touched >= self.size or len(self.lookups) < 2:  # a single look-up's blocks are in the metric
            return slopes
        back = np.linalg.inv(metric)
        found = self._seen * (back @ slopes @ back.T)
        root = np.sqrt(np.maximum(np.diagonal(found, axis1=1, axis2=2), 1e-300))
        values, vectors = np.linalg.eigh(found / (root[:, :, None] * root[:, None, :]))
        # Smallest eigenvalue of a slope that was scaled to a diagonal of 1.
        least = 1e-3
        half = metric @ (root[:, :, None] * vectors * np.sqrt(np.clip(values, least, touched))[:, None, :])
        return half @ half.transpose(0, 2, 1)

    def hidden(self, n: float) -> np.ndarray:
        """Return how many records touch each coordinate if counts do not show it: all, or a group's part."""
        each = np.full(self.size, n)
        for rows in self._lookups:
            each[rows] = n / len(rows)
        return each

    def shrunk(
        self, slope: np.ndarray, noisy: np.ndarray, sure: np.ndarray, touched: np.ndarray
    ) -> np.ndarray:
        """Return a slope in which entries between blocks and other coordinates are shrunk.

        A covariate with a mean far from zero is nearly all explained by what all groups have in common. This
        is known well, and stays as it is. By how much single groups differ from it is mostly noise: they take
        at most half of the information that is left.

        Parameters
        ----------
        slope : ndarray, shape (p, p)
            In the metric, and positive definite: the mean of draws. There, single entries beside blocks are
            mostly the noise of drawing. Between groups, where `possible` may leave noise, they are not read.
        noisy : ndarray, shape (p, p)
            Another one, from which these single entries are taken.
        sure : ndarray, shape (p, p)
            Factors of these.
        touched : ndarray, shape (p,)
            Number of units that touch each coordinate of the metric.
        """
        k, q, found = self.blocks, self._columns, slope.copy()
        found[:k, :k] *= self.together[:k, :k]
        if not 0 < k < self.size:
            return found
        own, units = found[:k, :k], np.zeros((k, q))
        units[np.arange(k), np.arange(k) % q] = touched[:k]
        back = np.linalg.solve(own, units)  # in common: least squares, weighted by the blocks' inverse
        shared = units @ np.linalg.solve(units.T @ back, back.T)
        common, apart = shared @ slope[:k, k:], sure[:k, k:] * (noisy[:k, k:] - shared @ noisy[:k, k:])
        rest = symmetric(slope[k:, k:] - common.T @ np.linalg.solve(own, common))
        root = np.linalg.inv(_whitening(rest, np.ones(self.size - k)))
        taken = np.linalg.solve(root, apart.T @ np.linalg.solve(own, apart))
        most = float(np.linalg.eigvalsh(symmetric(np.linalg.solve(root, taken.T))).max())
        # Part of the information about coordinates outside the look-up that single groups may take.
        most_taken = 0.5
        found[:k, k:] = common + apart * min(1.0, np.sqrt(most_taken / max(most, 1e-300)))
        found[k:, :k] = found[:k, k:].T
        return found

    def metric(self, information: np.ndarray, prior: np.ndarray, touched: np.ndarray) -> np.ndarray:
        """Return the metric A: a record's information about each of its coordinates is about 1.

        The coordinates of the largest look-up come first, with each row by itself. The others are made
        uncorrelated with them. How far they are correlated is computed from the records alone: here the prior
        is known group by group only, and may have much less information about the level of all groups than
        about each.

        Parameters
        ----------
        information : ndarray, shape (p, p)
            Information of the records.
        prior : ndarray, shape (p, p)
            Precision of the prior.
        touched : ndarray, shape (p,)
            Number of units that touch each coordinate of the metric.

        Returns
        -------
        ndarray, shape (p, p)
        """
        k, root = self.blocks, np.sqrt(touched)
        whole, prior = (one[np.ix_(self.order, self.order)] for one in (information, prior))
        own, also = (self.together[:k, :k] * one[:k, :k] for one in (whole, prior))
        # Part of the prior's precision that is added to a look-up's information before it is inverted: counts
        # may not show any.
        ridge = 1e-6
        shared = whole[k:, :k] @ np.linalg.inv(own + ridge * also)
        rest = whole[k:, k:] + prior[k:, k:] - shared @ whole[:k, k:]
        found = np.zeros_like(whole)
        found[:k, :k] = _whitening(own + also, root[:k])
        found[k:, k:] = _whitening(symmetric(rest), root[k:])
        found[k:, :k] = -found[k:, k:] @ shared
        return found[:, np.argsort(self.order)]


def _whitening(matrix: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return W with ``W matrix W'`` diagonal, the squares of `root`; blocks of zeros remain zero.

    Each row is about one coordinate, without what is due to coordinates with larger roots: these are known
    better.
    """
    order = np.argsort(-root, kind="stable")
    values, vectors = np.linalg.eigh((matrix / np.outer(root, root))[np.ix_(order, order)])
    values = np.maximum(values, 1e-20 * values.max(initial=1e-300))
    upper = np.linalg.qr(np.sqrt(values)[:, None] * vectors.T, mode="r")
    inverse = np.linalg.inv(upper.T * np.sign(np.diag(upper)))
    found = np.zeros_like(inverse)
    found[np.ix_(order, order)] = inverse
    return root[:, None] * found / root
