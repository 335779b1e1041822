"""Beliefs about the information matrix from noisy slopes: entry by entry, and as positive definite draws."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numba
import numpy as np

from pymc_dp.likelihood.mixtures import is_positive
from pymc_dp.likelihood.truncated import between

#: Relative change of a slope over a distance of one standard error of one record.
DRIFT = 0.3
# Part of the diagonal that is added to it before a matrix is inverted.
_RIDGE = 1e-11


class Slope(NamedTuple):
    """Beliefs about the slope of unclipped scores, in a metric: each entry by itself, with a normal law.

    Attributes
    ----------
    metric : ndarray, shape (p, p)
    mean : ndarray, shape (p, p)
    variance : ndarray, shape (p, p)
    """

    metric: np.ndarray
    mean: np.ndarray
    variance: np.ndarray

    def seen_in(self, metric: np.ndarray) -> "Slope":
        """Return the same in another metric; correlations between entries are ignored."""
        change = metric @ np.linalg.inv(self.metric)
        return Slope(metric, change @ self.mean @ change.T, change**2 @ self.variance @ change.T**2)

    def within(self, other: "Slope") -> "Slope":
        """Combine entries with those of another one that is not independent, with the smaller variances."""
        both = self.and_also(other.mean, other.variance)
        return both._replace(variance=np.minimum(self.variance, other.variance))

    def and_also(self, mean: np.ndarray, variance: np.ndarray) -> "Slope":
        """Combine entries with an independent measurement of each."""
        total = np.maximum(self.variance + variance, 1e-300)
        gain = self.variance / total
        return Slope(self.metric, self.mean + gain * (mean - self.mean), gain * variance)


class InCommon(NamedTuple):
    """Errors of a symmetric matrix that are proportional to a common standard normal number.

    There is one number for each of `others`, in the entries between it and `column`.

    Attributes
    ----------
    column : ndarray of int, shape (G,)
    others : ndarray of int, shape (r,)
    deviations : ndarray, shape (G, r)
        Standard deviation of each entry's error.
    """

    column: np.ndarray
    others: np.ndarray
    deviations: np.ndarray

    def times(self, factor: float) -> "InCommon":
        """Return those of the matrix times a factor."""
        return self._replace(deviations=factor * self.deviations)

    def add(self, matrices: np.ndarray, rng: np.random.Generator) -> None:
        """Draw the numbers for each of several matrices, shape (m, p, p), and add the errors to these."""
        move = rng.normal(size=(len(matrices), 1, len(self.others))) * self.deviations
        matrices[:, self.column[:, None], self.others] += move
        matrices[:, self.others[:, None], self.column] += move.swapaxes(1, 2)


def draws(
    seen: np.ndarray,
    noise: np.ndarray,
    largest_trace: float,
    together: np.ndarray,
    in_common: Sequence[InCommon] = (),
) -> np.ndarray:
    """Draw positive definite matrices of which a given matrix may be a noisy measurement.

    Parameters
    ----------
    seen : ndarray, shape (p, p)
        A positive semi-definite matrix with symmetric noise.
    noise : ndarray, shape (p, p)
        Standard deviation of the noise on the diagonal; beside it, that times sqrt(2).
    largest_trace : float
        Public upper bound of the trace without noise.
    together : ndarray, shape (p, p)
        Zero where entries are known to be zero. The zeros are those of a block diagonal matrix in some first
        rows and columns, so that its Cholesky factor has them too.
    in_common : sequence of InCommon, optional
        Further errors.

    Returns
    -------
    ndarray, shape (m, p, p)

    Notes
    -----
    Rejection sampling: normal draws around what was seen, of which those that are positive definite are kept.
    Where too few would be, Gibbs sampling of many short chains from one start. The generator's seed is known,
    so that the same release gives the same draws.

    **Privacy.** A function of what is released.
    """
    values, vectors = np.linalg.eigh(seen)
    # Noise below this, in the metric, counts as none.
    no_noise = 1e-4
    if noise.max() <= no_noise:
        return ((vectors * np.maximum(values, no_noise)) @ vectors.T)[None]
    found = _kept(seen, noise, largest_trace, in_common)
    return _chains(seen, noise, largest_trace, together, in_common) if found is None else found


def _number(p: int) -> int:
    """Return how many matrices are drawn."""
    # Number of draws of a p by p matrix, times p: a single entry of a large matrix matters less.
    entries = 960
    # Smallest number of draws.
    least_draws = 12
    # Largest number of draws.
    most_draws = 96
    return int(np.clip(entries // p, least_draws, most_draws))


def _kept(
    seen: np.ndarray, noise: np.ndarray, largest_trace: float, in_common: Sequence[InCommon]
) -> np.ndarray | None:
    """Draw by rejection; return None if too few would be accepted."""
    # Rejection is not tried if the least eigenvalue is below this, in units of the noise.
    hopeless = -0.5
    if np.linalg.eigvalsh(seen)[0] < hopeless * np.diag(noise).max():
        return None
    rng, number = np.random.default_rng(1), _number(len(seen))
    kept: list[np.ndarray] = []
    # Largest number of batches of rejection sampling, each of twice as many draws as are wanted.
    batches = 8
    # Rejection is given up if fewer than this part of the draws that are wanted have been accepted.
    worth = 1 / 16
    for _ in range(batches):
        tried = rng.normal(size=(2 * number, len(seen), len(seen)))
        tried = seen + noise * (tried + tried.transpose(0, 2, 1)) / 2
        for one in in_common:
            one.add(tried, rng)
        kept += filter(is_positive, tried[np.trace(tried, axis1=1, axis2=2) < largest_trace])
        if len(kept) >= number:
            return np.array(kept[:number])
        if len(kept) < worth * number:
            return None
    return None


def _chains(
    seen: np.ndarray,
    noise: np.ndarray,
    largest_trace: float,
    together: np.ndarray,
    in_common: Sequence[InCommon] = (),
) -> np.ndarray:
    """Draw by Gibbs sampling, entry by entry, with many chains.

    If the matrix has blocks with zeros between them, a block and what it shares with the others are drawn
    with the others' Schur complement in place of what is shared. The bounds of an entry are the same, and the
    matrices are small.
    """
    number = _number(len(seen))
    # Eigenvalues of a chain's start are raised to this, in units of the noise, before entries become zero.
    least_start = 0.3
    rng, least = np.random.default_rng(0), least_start * np.diag(noise).max()
    values, vectors = np.linalg.eigh(seen * together)
    start = (vectors * np.maximum(values, least)) @ vectors.T * together  # zeros reduce eigenvalues again
    # Entries beside the diagonal are multiplied by this until eigenvalues are at least a tenth of that.
    less = 0.7
    while np.linalg.eigvalsh(start)[0] < 0.1 * least and np.abs(np.tril(start, -1)).max() > _RIDGE * least:
        start = less * start + (1 - less) * np.diag(np.diag(start))
    # Largest trace of a chain's start, over the upper bound of traces.
    room = 0.9
    start *= min(1.0, room * largest_trace / float(np.trace(start)))
    chains, around = (np.repeat(one[None], number, axis=0) for one in (start, seen))
    for one in in_common:
        one.add(around, rng)
    whole = together.all(1)
    shared = np.flatnonzero(whole)
    own = together[:, ~whole] > 0
    blocks = [np.flatnonzero(~whole)[columns] for columns in np.unique(own[~whole], axis=0)]
    # Number of sweeps of a Gibbs chain over all entries.
    sweeps = 8
    for _ in range(sweeps):
        try:
            moved = _moved(chains, around, noise, largest_trace, blocks, shared, rng)
        except np.linalg.LinAlgError:
            break
        if not np.isfinite(moved).all():
            break
        chains = moved
    return chains


def _moved(
    chains: np.ndarray,
    seen: np.ndarray,
    noise: np.ndarray,
    largest_trace: float,
    blocks: list[np.ndarray],
    shared: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return chains in which each entry was drawn once: block after block, and at last what they share."""
    chains, rest = chains.copy(), chains[:, shared[:, None], shared]
    # Least eigenvalue of the Schur complement of what blocks share, in units of the noise.
    least_eigenvalue = 1e-3
    least = least_eigenvalue * np.diag(noise).max()
    for block in blocks:
        rest = rest - _through(chains, block, shared)
    for block in blocks:
        places = np.concatenate([block, shared])
        rest = rest + _through(chains, block, shared)
        small = chains[:, places[:, None], places]
        small[:, len(block) :, len(block) :] = rest
        room = largest_trace - np.trace(chains, axis1=1, axis2=2)
        _sweep(small, seen[:, places[:, None], places], noise[places[:, None], places], room, len(block), rng)
        chains[:, block[:, None], places] = small[:, : len(block)]
        chains[:, places[:, None], block] = small[:, :, : len(block)]
        rest = rest - _through(chains, block, shared)
        if len(shared):  # many blocks may leave it nearly singular, and rounding no longer positive
            lack = np.maximum(least - np.linalg.eigvalsh(rest)[:, 0], 0.0)
            more = lack[:, None, None] * np.eye(len(shared))
            rest = rest + more
            chains[:, shared[:, None], shared] += more
    if len(shared):
        apart = chains[:, shared[:, None], shared] - rest
        around, deviations = seen[:, shared[:, None], shared] - apart, noise[shared[:, None], shared]
        room = largest_trace - np.trace(chains, axis1=1, axis2=2)
        _sweep(rest, around, deviations, room, len(shared), rng)
        chains[:, shared[:, None], shared] = rest + apart
    return chains


def _through(chains: np.ndarray, block: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """Return what a block subtracts in the Schur complement: ``B' D^-1 B``, shape (m, s, s)."""
    both = chains[:, block[:, None], shared]
    return both.swapaxes(1, 2) @ np.linalg.solve(chains[:, block[:, None], block], both)


def _sweep(
    matrices: np.ndarray,
    seen: np.ndarray,
    noise: np.ndarray,
    room: np.ndarray,
    first: int,
    rng: np.random.Generator,
) -> None:
    """Draw the entries of the first rows and columns of positive definite matrices (m, p, p) anew.

    With all others fixed, an entry has a normal law that is truncated to where the matrix is positive
    definite. With K the inverse, ``J + t E_ii`` is so for ``t > -1 / K_ii``, and ``J + t (E_ij + E_ji)`` for
    ``-1 / (s + K_ij) < t < 1 / (s - K_ij)``, where ``s = sqrt(K_ii K_jj)``.

    Parameters
    ----------
    matrices : ndarray, shape (m, p, p)
        Changed in place.
    seen : ndarray, shape (m, p, p)
        Means of the entries without truncation.
    noise : ndarray, shape (p, p)
        As in `draws`.
    room : ndarray, shape (m,)
        What the traces may grow by.
    first : int
        Number of rows.
    rng : numpy.random.Generator
    """
    ridge = _RIDGE * np.diagonal(matrices, axis1=1, axis2=2)[:, :, None] * np.eye(matrices.shape[-1])
    entries = np.array([(i, j) for j in range(first) for i in range(j, matrices.shape[-1])])
    uniform = rng.uniform(size=(len(entries), len(matrices)))
    order = rng.permutation(len(entries))
    _draw_entries(
        matrices, np.linalg.inv(matrices + ridge), seen, noise, room, entries[order], uniform[order]
    )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _draw_entries(matrices, inverses, seen, noise, room, entries, uniform):
    """Draw entries one after the other, in each matrix with one uniform number, and update the inverses."""
    # A step goes at most this part of the way to where a matrix is singular, or its trace too large.
    part_inside = 0.95
    for k in range(len(matrices)):
        matrix, inverse, left = matrices[k], inverses[k], room[k]
        for e in range(len(entries)):
            i, j = entries[e]
            both = inverse[i, j]
            if i == j:
                deviation, low, high = noise[i, i], -1 / both, left
            else:
                root = math.sqrt(max(inverse[i, i] * inverse[j, j], both * both))
                deviation, low, high = noise[i, j] / math.sqrt(2.0), -1 / (root + both), 1 / (root - both)
            low, high = part_inside * low, part_inside * high
            away = (matrix[i, j] - seen[k, i, j]) / deviation
            drawn = between(away + low / deviation, away + high / deviation, uniform[e, k])
            move = min(max(deviation * (drawn - away), low), high)
            matrix[i, j] += move
            if i == j:
                left -= move
            else:
                matrix[j, i] += move
            _follow(inverse, i, j, move)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _follow(inverse, i, j, grow):
    """Update the inverse (p, p) of a matrix whose entries (i, j) and (j, i), or (i, i), grow.

    By Woodbury's identity with U = (e_i, e_j), and the inverse of (0, 1; 1, 0) / grow + U' K U.
    """
    p = len(inverse)
    first, second = inverse[:, i].copy(), inverse[:, j].copy()
    if i == j:
        scale = grow / (1 + grow * first[i])
        for a in range(p):
            for b in range(p):
                inverse[a, b] -= scale * first[a] * first[b]
        return
    one, other, grown = first[i], second[j], 1 + grow * first[j]
    scale = grow / (grown**2 - grow**2 * one * other)
    for a in range(p):
        to_second = grown * first[a] - grow * one * second[a]
        to_first = grown * second[a] - grow * other * first[a]
        for b in range(p):
            inverse[a, b] -= scale * (to_second * second[b] + to_first * first[b])
