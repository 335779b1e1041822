"""What noisy slopes say of the information: of each entry, and draws that are positive definite."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

#: Relative change of a slope over a distance of 1, in units of what one record tells.
DRIFT = 0.3
# Bounds that are tried: of scores, over sqrt(coordinates of a record); of slopes, over what they are on
# average. Least part of a round for the slope.
_CLIPS, _OF_SLOPES, _LEAST_SLOPE = np.geomspace(0.15, 4.0, 17), (2.0, 3.0), 0.06
# Records, and scores of each, that are simulated for it.
_PLAIN = (400, 64)
# Draws of a small matrix, and of a large one, whose entries matter less each.
_DRAWS, _ENTRIES, _LEAST_DRAWS = 96, 960, 24
# Iterations and leapfrog steps of a chain; the acceptance that its steps are tuned for.
_ITERATIONS, _LEAPFROG, _AIM = 60, 8, 0.75
# Draws that are tried and kept where they are positive definite, in units of what is wanted; the least share
# of them with which it is worth while; eigenvalues below which it is not, in units of the noise.
_TRIED, _WORTH, _HOPELESS = (2, 16), 1 / 16, -0.5
# Of the iterations, in which steps are tuned.
_TUNING = 0.7
# Noise below which the matrix is taken as it is, in units of the metric.
_NONE = 1e-4
# Where the largest possible trace begins to matter, relatively to itself.
_SOFT = 0.02


class Efficiency(NamedTuple):
    """What bounds leave of the slope, and of the variance, of plain scores; and the bound of slopes."""

    slope: float
    variance: float
    bound: float


@cache
def efficiency(clip: float, size: int, rank: int, most: float) -> Efficiency:
    """What bounds leave of a linear predictor's normal scores, with as many predictors more as there are.

    Parameters
    ----------
    clip : float
        Bound of scores, over the root of `size`.
    size, rank : int
        Coordinates and predictors of a record.
    most : float
        Bound of slopes over their average norm.
    """
    rng, more = np.random.default_rng(0), max(size - rank, 0)
    squares = rng.normal(size=(*_PLAIN, min(rank, size))) ** 2
    squares[..., 0] *= 1 + (rng.chisquare(more, _PLAIN[0])[:, None] if more else 0.0)
    length = squares.sum(2)
    factor = np.minimum(1.0, clip * math.sqrt(size) / np.sqrt(length))
    norm = np.linalg.norm((factor[..., None] * squares).mean(1), axis=1)
    bound = most * float(norm.mean())
    weight = np.minimum(1.0, bound / norm)
    slope = (weight * (factor * length).mean(1)).mean() / size
    variance = (weight**2 * (factor**2 * length).mean(1)).mean() / size
    return Efficiency(float(slope), float(variance), bound)


class Sharpest(NamedTuple):
    """The bounds of a round that tell most.

    Attributes
    ----------
    variance : float
        Of the estimate of a coordinate of which each record tells 1.
    clip : float
        Of scores, over the root of a record's coordinates.
    part : float
        Of the round's budget, for the slope.
    left : Efficiency
    """

    variance: float
    clip: float
    part: float
    left: Efficiency


def sharpest_bounds(n: float, mu: float, size: float, rank: int, way: float) -> Sharpest:
    """Bounds of scores and slopes, and what the slope has of the budget, that tell most of the parameters.

    Parameters
    ----------
    n, mu : float
        Number of records; of the round.
    size : float
        Coordinates of a record, on average.
    rank : int
        Most predictors of a record.
    way : float
        From the point to the parameters, in units of what one record tells: a slope that is off counts by it.

    Notes
    -----
    The score's noise, about ``a / sqrt(1 - part)``, is beside that of the slope times the way, about
    ``b / sqrt(part)``: their squares have the least sum, ``(a + b)**2``, where part is ``b / (a + b)``.
    """
    best = Sharpest(math.inf, 1.0, 0.5, Efficiency(1.0, 1.0, 1.0))
    for most in _OF_SLOPES:
        for clip in _CLIPS:
            left = efficiency(float(clip), max(round(size), 1), rank, most)
            noises = 2 * clip * math.sqrt(size) / mu, math.sqrt(2.0) * left.bound * way / mu
            part = max(noises[1] / max(sum(noises), 1e-300), _LEAST_SLOPE)
            noise = noises[0] ** 2 / (1 - part) + noises[1] ** 2 / part
            variance = (noise + n * left.variance) / (n * left.slope) ** 2
            best = min(best, Sharpest(variance, float(clip), part, left))
    return best


class Slope(NamedTuple):
    """What is known of the slope of unclipped scores, in a metric: of each entry by itself.

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
        """In another metric; correlations of entries are left out."""
        change = metric @ np.linalg.inv(self.metric)
        return Slope(metric, change @ self.mean @ change.T, change**2 @ self.variance @ change.T**2)

    def and_also(self, mean: np.ndarray, variance: np.ndarray) -> "Slope":
        """With what another release says of each entry."""
        total = np.maximum(self.variance + variance, 1e-300)
        gain = self.variance / total
        return Slope(self.metric, self.mean + gain * (mean - self.mean), gain * variance)


class _Density(NamedTuple):
    """Of the Cholesky factor L, whose diagonal moves by its logarithm: normal noise, and J = L L'."""

    seen: np.ndarray
    noise: np.ndarray
    trace: float
    power: np.ndarray
    free: np.ndarray

    def __call__(self, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its logarithm, shape (m,), and the gradient, (m, p, p), lower triangular."""
        diagonal = np.diagonal(root, axis1=1, axis2=2)
        product = root @ root.transpose(0, 2, 1)
        left = self.seen - product
        over = np.maximum(np.trace(product, axis1=1, axis2=2) - self.trace, 0.0) / (_SOFT * self.trace)
        value = -0.5 * ((left / self.noise) ** 2).sum((1, 2)) - 0.5 * over**2
        value = value + (self.power * np.log(diagonal)).sum(1)
        slope = left / self.noise**2 - (over / (_SOFT * self.trace))[:, None, None] * np.eye(len(self.seen))
        gradient = self.free * (2 * slope @ root)
        places = np.arange(len(self.seen))
        gradient[:, places, places] = gradient[:, places, places] * diagonal + self.power
        return value, gradient


def draws(seen: np.ndarray, noise: np.ndarray, largest_trace: float, together: np.ndarray) -> np.ndarray:
    """Positive definite matrices that may be behind a noisy one.

    Parameters
    ----------
    seen : ndarray, shape (p, p)
        A positive semi-definite matrix with symmetric noise.
    noise : ndarray, shape (p, p)
        Its standard deviation on the diagonal; off it that times sqrt(2).
    largest_trace : float
        Public bound of the trace of what is behind it.
    together : ndarray, shape (p, p)
        Zero where entries are known to be zero. The zeros are those of a block diagonal matrix in some first
        rows and columns, so that its Cholesky factor has them too.

    Returns
    -------
    ndarray, shape (m, p, p)

    Notes
    -----
    Normal draws around what was seen, those kept that are positive definite; where these are few, Hamiltonian
    Monte Carlo on the Cholesky factor, many short chains from one start. The generator's seed is known, so
    that the same release gives the same draws.

    **Privacy.** A function of what is released.
    """
    values, vectors = np.linalg.eigh(seen)
    if noise.max() <= _NONE:
        return ((vectors * np.maximum(values, _NONE)) @ vectors.T)[None]
    found = _kept(seen, noise, largest_trace)
    return _chains(seen, noise, largest_trace, together) if found is None else found


def _number(p: int) -> int:
    """Of draws."""
    return int(np.clip(_ENTRIES // p, _LEAST_DRAWS, _DRAWS))


def _kept(seen: np.ndarray, noise: np.ndarray, largest_trace: float) -> np.ndarray | None:
    """By rejection; None where too few would be kept."""
    if np.linalg.eigvalsh(seen)[0] < _HOPELESS * np.diag(noise).max():
        return None
    rng, number = np.random.default_rng(1), _number(len(seen))
    for times in _TRIED:
        tried = rng.normal(size=(times * number, len(seen), len(seen)))
        tried = seen + noise * (tried + tried.transpose(0, 2, 1)) / 2
        inside = np.linalg.eigvalsh(tried)[:, 0] > 0
        inside &= np.trace(tried, axis1=1, axis2=2) < largest_trace
        if inside.sum() >= number:
            return tried[inside][:number]
        if inside.sum() < _WORTH * number:
            return None
    return None


def _chains(seen: np.ndarray, noise: np.ndarray, largest_trace: float, together: np.ndarray) -> np.ndarray:
    """By Hamiltonian Monte Carlo."""
    p, number = len(seen), _number(len(seen))
    places, least = np.arange(p), np.diag(noise)
    free = np.tril(together)
    # A start with the diagonal that was seen, and as much beside it as leaves it positive definite.
    size = np.sqrt(np.maximum(np.diag(seen), 0.3 * least))
    least_value = float(np.linalg.eigvalsh(seen / np.outer(size, size))[0])
    part = min(1.0, 0.8 / max(1.0 - least_value, 1e-300))
    start = part * seen + np.diag(size**2 - part * np.diag(seen))
    start = start * min(1.0, 0.9 * largest_trace / float(np.trace(start)))
    root = np.repeat(free[None] * np.linalg.cholesky(start), number, axis=0)
    # The determinant of the map from L to J, and that of logarithms.
    density = _Density(seen, np.maximum(noise, 1e-6 * least.max()), largest_trace, free.sum(0) + 1.0, free)
    rng, step = np.random.default_rng(0), 0.1 * min(float(least.min()), 1.0)
    value, gradient = density(root)
    with np.errstate(all="ignore"):
        for k in range(_ITERATIONS):
            speed = free * rng.normal(size=root.shape)
            energy = value - 0.5 * (speed**2).sum((1, 2))
            length = step * rng.uniform(0.7, 1.3, (number, 1, 1))
            new, slope, height = root, gradient, value
            for _ in range(_LEAPFROG):
                speed = speed + 0.5 * length * slope
                moved = new + length * speed
                grown = np.clip((length * speed)[:, places, places], -3.0, 3.0)
                moved[:, places, places] = new[:, places, places] * np.exp(grown)
                new = free * moved
                height, slope = density(new)
                speed = speed + 0.5 * length * slope
            change = height - 0.5 * (speed**2).sum((1, 2)) - energy
            chance = np.exp(np.minimum(np.nan_to_num(change, nan=-math.inf), 0.0))
            taken = (rng.uniform(size=number) < chance)[:, None, None]
            root, gradient = np.where(taken, new, root), np.where(taken, slope, gradient)
            value = np.where(taken[:, 0, 0], height, value)
            if k < _TUNING * _ITERATIONS:
                step *= math.exp(0.6 * (float(chance.mean()) - _AIM))
    return root @ root.transpose(0, 2, 1)
