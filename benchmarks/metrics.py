"""How far a set of draws is from the posterior it should come from.

R-hat and the effective sample size compare a chain with itself, so they cannot see a chain that settled on
the wrong distribution, which is what clipping, minibatches and noise produce. The metrics here compare with a
reference: exact draws, a density on a grid, or known moments (see `benchmarks.models`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist, pdist

_BLOCK_ELEMENTS = 2**21  # kernel matrix entries held at a time: 16 MB


def _points(name: str, values: ArrayLike) -> np.ndarray:
    points = np.asarray(values, dtype=float)
    if points.ndim != 2 or 0 in points.shape:
        raise ValueError(
            f"{name} must have shape (size, d) with at least one draw, got shape {points.shape}."
        )
    if not np.isfinite(points).all():
        raise ValueError(f"{name} holds NaN or infinite values.")
    return points


def _mean_kernel(x: np.ndarray, y: np.ndarray, bandwidth: float) -> float:
    """Mean of the RBF kernel over all pairs of rows, a block of rows of `x` at a time."""
    rows = max(1, _BLOCK_ELEMENTS // len(y))
    total = 0.0
    for start in range(0, len(x), rows):
        distances = cdist(x[start : start + rows], y, "sqeuclidean")
        total += float(np.exp(distances / (-2.0 * bandwidth**2)).sum())
    return total / (len(x) * len(y))


def median_bandwidth(
    x: ArrayLike, y: ArrayLike, *, rng: np.random.Generator | int = 0, n_median: int = 50
) -> float:
    """Median heuristic for the bandwidth of the RBF kernel.

    Parameters
    ----------
    x, y : array_like, shape (size_x, d) and (size_y, d)
        Two samples, in the same units.
    rng : numpy.random.Generator or int
        Chooses the points; an integer is a seed.
    n_median : int
        Points drawn from each sample with replacement, so that samples of different sizes weigh the same.

    Returns
    -------
    float
        Median distance over all pairs of the ``2 * n_median`` pooled points, in the units of `x`.

    Raises
    ------
    ValueError
        If a sample is empty, not finite or not two-dimensional, if the dimensions differ, if ``n_median <
        2``, or if the median is zero (more than half of the pairs coincide).

    References
    ----------
    O. Räisä (2021), *Differentially Private MCMC*, §7.1, after Gretton et al. (2012), JMLR 13:723-773.
    """
    x, y = _points("x", x), _points("y", y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"x and y must have the same number of columns, got {x.shape[1]} and {y.shape[1]}.")
    if n_median < 2:
        raise ValueError(f"n_median must be at least 2, got {n_median}.")
    rng = np.random.default_rng(rng)
    pooled = np.concatenate([sample[rng.integers(len(sample), size=n_median)] for sample in (x, y)])
    bandwidth = float(np.median(pdist(pooled)))
    if bandwidth == 0.0:
        raise ValueError("The median distance is zero: most draws coincide. Pass bandwidth= explicitly.")
    return bandwidth


def mmd(
    x: ArrayLike,
    y: ArrayLike,
    *,
    rng: np.random.Generator | int = 0,
    n_median: int = 50,
    bandwidth: float | None = None,
) -> float:
    r"""Maximum mean discrepancy between two samples, RBF kernel, median heuristic.

    The estimate is :math:`\sqrt{V}`, with V the biased (V-statistic) estimator of :math:`\mathrm{MMD}^2`:

    .. math:: V = \overline{k(x_i, x_j)} + \overline{k(y_i, y_j)} - 2\,\overline{k(x_i, y_j)},
        \qquad k(x, y) = \exp(-\|x - y\|^2 / 2\sigma^2),

    where each mean runs over *all* pairs, i = j included. V is never negative, and for samples of sizes s and
    t from the same distribution has mean :math:`(1/s + 1/t)(1 - \mathrm{E}\,k)`: the square root of that is
    the floor below which values mean nothing. (The unbiased estimator is below zero about half of the time
    under equality and would have to be cut off there; the floor of V can be computed in advance, and V errs
    on the side of a larger distance.)

    Parameters
    ----------
    x, y : array_like, shape (size_x, d) and (size_y, d)
        Two samples, in the same units. For a chain: its draws after the part that is dropped, and exact
        draws.
    rng : numpy.random.Generator or int
        Chooses the points of the median heuristic; an integer is a seed. Not used when `bandwidth` is given.
    n_median : int
        Points drawn from each sample for the median heuristic.
    bandwidth : float, optional
        σ of the kernel, in the units of `x`. Default: `median_bandwidth`.

    Returns
    -------
    float
        MMD (not its square), in [0, √2].

    Raises
    ------
    ValueError
        As `median_bandwidth`; or if `bandwidth` is not positive and finite.

    Notes
    -----
    Time grows with the product of the sizes; memory does not (16 MB blocks).

    References
    ----------
    O. Räisä (2021), *Differentially Private MCMC*, §7.1; Gretton et al. (2012), JMLR 13:723-773, equation 5.
    """
    x, y = _points("x", x), _points("y", y)
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"x and y must have the same number of columns, got {x.shape[1]} and {y.shape[1]}.")
    if bandwidth is None:
        bandwidth = median_bandwidth(x, y, rng=rng, n_median=n_median)
    elif not (np.isfinite(bandwidth) and bandwidth > 0):
        raise ValueError(f"bandwidth must be positive and finite, got {bandwidth}.")
    squared = (
        _mean_kernel(x, x, bandwidth) + _mean_kernel(y, y, bandwidth) - 2 * _mean_kernel(x, y, bandwidth)
    )
    return float(np.sqrt(max(squared, 0.0)))  # V >= 0; rounding may leave -1e-16


def _cell_masses(name: str, values: ArrayLike, edges: list[np.ndarray]) -> np.ndarray:
    """Probability of each cell, flat, with what lies outside the grid as one last cell."""
    array = np.asarray(values, dtype=float)
    cells = tuple(len(edge) - 1 for edge in edges)
    if array.shape == cells:
        if not np.isfinite(array).all() or (array < 0).any():
            raise ValueError(f"{name}, as a density, must be finite and not negative.")
        masses = array
        for axis, edge in enumerate(edges):
            shape = [1] * len(edges)
            shape[axis] = -1
            masses = masses * np.diff(edge).reshape(shape)
        if not masses.sum() > 0:
            raise ValueError(f"{name}, as a density, is zero everywhere.")
        return np.append(masses.ravel() / masses.sum(), 0.0)
    if array.ndim != 2 or array.shape[1] != len(edges):
        raise ValueError(
            f"{name} must be draws of shape (size, {len(edges)}) or a density of the grid's shape {cells}, "
            f"got shape {array.shape}."
        )
    draws = _points(name, array)
    counts = np.histogramdd(draws, bins=edges)[0].ravel()
    return np.append(counts, len(draws) - counts.sum()) / len(draws)


def symmetric_kl(
    draws_or_density: ArrayLike,
    reference_density: ArrayLike,
    grid: Sequence[ArrayLike],
    *,
    smoothing: float = 1e-3,
) -> float:
    r"""Symmetric Kullback-Leibler divergence on a grid, ½ [KL(p‖q) + KL(q‖p)].

    Both arguments become probabilities of the cells of the grid, with one more cell for everything outside it
    (a density puts nothing there). Empty cells would make the divergence infinite, so each side is mixed with
    the other: :math:`\tilde p = (1-s)p + s q` and :math:`\tilde q = (1-s)q + s p`, s the `smoothing`. The
    result is finite, symmetric in its arguments, zero exactly when the cells agree, and at most ln(1/s): a
    chain far from the reference gets that value.

    Parameters
    ----------
    draws_or_density : array_like, shape (size, d) or (k_1, ..., k_d)
        Draws, or density values (up to a constant) at the cells' centres.
    reference_density : array_like, shape (k_1, ..., k_d) or (size, d)
        The same for the reference.
    grid : sequence of d array_like, shapes (k_1 + 1,), ..., (k_d + 1,)
        Increasing edges of the cells for each dimension; at least three cells each (an array of two columns
        could otherwise be either draws or a density).
    smoothing : float
        s, in [0, ½). Mixing lowers the value a little, most where tails differ; results at different values
        of s cannot be compared. Zero is the plain divergence, infinite when one side alone is zero in a cell.

    Returns
    -------
    float
        Divergence in nats.

    Raises
    ------
    ValueError
        If shapes do not match the grid, edges do not increase, a value is not finite, a density is negative
        or zero everywhere, or `smoothing` is outside [0, ½).

    Notes
    -----
    A histogram of N independent draws over K cells is off by about K/2N in each direction even when the chain
    is perfect: compare with the value that exact draws of the same number have.

    References
    ----------
    W. Zhang and R. Zhang (2023), *DP-Fast MH*, ICML, §6.1 (figure 1). The paper does not define the
    divergence; the authors' published program halves the sum over 99 x 99 cells and floors the probabilities
    inside the logarithms at 1e-13 instead of mixing.
    """
    edges = [np.asarray(edge, dtype=float) for edge in grid]
    for edge in edges:
        if edge.ndim != 1 or len(edge) < 4 or not np.isfinite(edge).all() or not (np.diff(edge) > 0).all():
            raise ValueError("grid must hold, for each dimension, at least four finite increasing edges.")
    if not 0 <= smoothing < 0.5:
        raise ValueError(f"smoothing must be in [0, 1/2), got {smoothing}.")
    p = _cell_masses("draws_or_density", draws_or_density, edges)
    q = _cell_masses("reference_density", reference_density, edges)
    p, q = (1 - smoothing) * p + smoothing * q, (1 - smoothing) * q + smoothing * p
    used = (p > 0) | (q > 0)
    p, q = p[used], q[used]
    if (p == 0).any() or (q == 0).any():
        return float("inf")
    return max(0.0, 0.5 * float(((p - q) * np.log(p / q)).sum()))


@dataclass(frozen=True, eq=False)
class MeanSdError:
    """Errors of the first two moments, per parameter.

    Attributes
    ----------
    mean_error : numpy.ndarray, shape (d,)
        (mean of the draws − reference mean) / reference sd: signed, in posterior standard deviations.
    sd_ratio : numpy.ndarray, shape (d,)
        Standard deviation of the draws / reference sd.
    """

    mean_error: np.ndarray
    sd_ratio: np.ndarray

    @property
    def rms(self) -> float:
        """Root mean square of `mean_error` over the parameters."""
        return float(np.sqrt(np.mean(self.mean_error**2)))


def mean_sd_error(draws: ArrayLike, mean: ArrayLike, sd: ArrayLike) -> MeanSdError:
    """Error of the posterior mean in posterior standard deviations, and ratio of standard deviations.

    Parameters
    ----------
    draws : array_like, shape (size, d)
        At least two draws.
    mean, sd : array_like, shape (d,)
        Moments of the reference, in the units of `draws`.

    Returns
    -------
    MeanSdError
        Both errors for each parameter.

    Raises
    ------
    ValueError
        If shapes differ, there are fewer than two draws, a value is not finite, or an sd is not positive.
    """
    draws = _points("draws", draws)
    mean, sd = np.asarray(mean, dtype=float), np.asarray(sd, dtype=float)
    if len(draws) < 2:
        raise ValueError("draws must hold at least two draws.")
    if mean.shape != draws.shape[1:] or sd.shape != draws.shape[1:]:
        raise ValueError(f"mean and sd must have shape {draws.shape[1:]}, got {mean.shape} and {sd.shape}.")
    if not np.isfinite(mean).all() or not np.isfinite(sd).all() or not (sd > 0).all():
        raise ValueError("mean and sd must be finite, and sd positive.")
    return MeanSdError((draws.mean(axis=0) - mean) / sd, draws.std(axis=0, ddof=1) / sd)
