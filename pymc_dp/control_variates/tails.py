"""How much a clip bound may cut, when the furthest records are lost in a histogram's noise."""

from typing import NamedTuple

import numpy as np

from pymc_dp.control_variates.histograms import Histogram

# Octaves of the histogram below its top that are taken as they are, and above it that are modelled.
_BELOW, _ABOVE = 3, 4
# Powers with which numbers may fall beyond the top: above 2, since gradients have a variance, up to an edge.
_POWERS = np.array([2.5, 3, 4, 5, 6, 8, 12, 18])
# Levels of the first cell beyond the top, besides 0, and the lowest in standard deviations of the noise.
_LEVELS, _LOWEST = 24, 0.05
# The top is raised while the next cell, or the next two together, stand so many deviations out.
_ONE, _TWO = 2.5, 3.0
# Clip bounds that are compared: an eighth of an octave apart, from two octaves below to two above the top.
# Or to so many above it, where the curvature says that records are missing.
_STEPS, _REACH, _FAR = 8, 2, 24
# Missing squares count from so many standard deviations of their noise on, and this share of all besides.
_SURELY, _SHARE = 2.5, 0.08
# The remainder beyond a measured layer is not taken to be more than this many times the layer.
_MOST = 4.0
# Coordinates whose noise counts as much as a bias in one direction.
_FEW = 3
# Share of the expected square of what cannot be seen that a result is widened by.
_UNSEEN = 1.0
# Share of what is put back beyond the measured layer that may be wrong.
_DOUBT = 0.7


class Tail:
    """Numbers of records by norm, up to what a noisy histogram shows and beyond.

    Parameters
    ----------
    histogram : Histogram
        Noisy.
    top : int
        Its highest cell that is not empty beyond doubt.
    align : float
        Share of the excess of visible records over a bound that points in one direction.

    Attributes
    ----------
    missing : float
        Sum of the squares of norms that are beyond the top, as far as that is beyond doubt: see `expect`.

    Notes
    -----
    Beyond the top, numbers are one of 200 power laws ``level * r^-power``, weighted by their likelihood given
    the noisy counts there, whose noise is known: a tail that is lost in noise has as much weight as the noise
    leaves it. What lies beyond the top is taken to point in one direction, since nothing is known about it.

    **Privacy.** A function of a released histogram.
    """

    def __init__(self, histogram: Histogram, top: int, align: float):
        counts, std, cells = histogram.counts, max(histogram.std, 0.25), histogram.cells
        while top + 2 < counts.size and (
            counts[top + 1] > _ONE * std or counts[top + 1] + counts[top + 2] > _TWO * np.sqrt(2) * std
        ):
            top += 1
        self._histogram, self._top, self._cells = histogram, top, cells
        beyond = np.arange(1, _ABOVE * cells + 1)
        levels = np.r_[0.0, np.geomspace(_LOWEST * std, max(counts[top], 2 * std), _LEVELS)]
        shapes = 2.0 ** (-_POWERS[:, None] * (beyond - 1) / cells)
        self._models = (levels[:, None, None] * shapes).reshape(-1, beyond.size)
        seen = counts[np.minimum(top + beyond, counts.size - 1)]
        likelihood = -0.5 * ((seen - self._models) ** 2).sum(axis=1) / std**2
        # Any level is as likely as another: the grid's own density is proportional to 1 / level.
        weights = np.exp(likelihood - likelihood.max()) * np.maximum(self._models[:, 0], levels[1])
        self._weights = weights / weights.sum()
        low = max(top - _BELOW * cells, 0)
        self._body = align * np.maximum(counts[low : top + 1], 0.0)
        self._near, self._far = histogram.edges(low, top), histogram.edges(top + 1, top + beyond.size)
        self.missing = 0.0

    def expect(self, information: float, noise: float, offset: float) -> None:
        """Records beyond the top, as far as the curvature says that there are: docs/proofs, section 6.

        Parameters
        ----------
        information : float
            Trace of the information: where the model holds, the sum of the squares of gradients.
        noise : float
            Its noise's standard deviation.
        offset : float
            By how much the centre makes the sum of squared norms larger.
        """
        if self._histogram.std == 0:
            return  # without noise all is seen
        seen, std = self._histogram.second_moment(self._top)
        missing = information + offset - seen
        if missing > _SHARE * (information + offset) + _SURELY * float(np.hypot(noise, std)):
            self.missing = missing

    def excess(self, bound: float) -> tuple[float, float]:
        """Length of the sum of what is cut beyond a bound: its expected value, and root mean square."""
        values = self._body @ _excess(self._near, bound) + self._models @ _excess(self._far, bound)
        return float(self._weights @ values), float(np.sqrt(self._weights @ values**2))

    def best_bound(self, noise: float, size: int, layer: float = 0.0) -> float:
        """Clip bound of least squared noise plus expected squared bias.

        Parameters
        ----------
        noise : float
            Standard deviation per coordinate of the clipped sum's noise, for a bound of 1.
        size : int
            Coordinates.
        layer : float
            Depth of a layer beyond the bound, in bounds, that is released besides: only what is beyond that
            is a bias.
        """
        reach = _FAR if self.missing else _REACH
        octaves = np.arange(-_REACH * _STEPS, reach * _STEPS) / _STEPS
        cells = self._top + octaves * self._cells
        bounds = [self._histogram.edge(cell) for cell in cells]
        # A bias is in one direction, as a rule: that is weighed against the noise of a few coordinates.
        size = min(size, _FEW)
        loss = [
            size * (noise * b) ** 2 * (1 + layer)
            + self.excess(b * (1 + layer))[1] ** 2
            + (self.missing / (4 * b * (1 + layer))) ** 2
            for b in bounds
        ]
        return bounds[int(np.argmin(loss))]

    def beyond(self, bound: float, depth: float) -> tuple[float, float]:
        """Of what is cut: how much more lies beyond a layer than in it, and its root mean square."""
        inner, (outer, rms) = self.excess(bound)[0], self.excess(bound + depth)
        return float(min(outer / max(inner - outer, 1e-300), _MOST)), rms


def _excess(edges: np.ndarray, bound: float) -> np.ndarray:
    """Mean excess over a bound of norms that are spread evenly over each cell."""
    low, high = edges[:-1], edges[1:]
    above = np.maximum(low, bound)
    return np.where(high > bound, (high - above) / (high - low) * (0.5 * (high + above) - bound), 0.0)


class Cut(NamedTuple):
    """What clipping took from a sum, and what is not known of it, in the metric.

    Attributes
    ----------
    put_back : ndarray, shape (p,)
        To be added to the clipped sum.
    left : ndarray, shape (p, p)
        Covariance of what is still missing, or too much: noise of the measurement apart.
    noise : float
        Standard deviation of the noise of `put_back`, per coordinate.
    """

    put_back: np.ndarray
    left: np.ndarray
    noise: float


def put_back(
    layer: np.ndarray, noise: float, tail: Tail, bound: float, depth: float, mask: np.ndarray
) -> Cut:
    """What to add to a clipped sum, from a noisy measurement of the first layer beyond the bound.

    Parameters
    ----------
    layer : ndarray, shape (p,)
        Noisy sum of what lies between `bound` and ``bound + depth``.
    noise : float
        Standard deviation of its noise, per coordinate.
    tail : Tail
    bound, depth : float
    mask : ndarray of bool, shape (p, p)
        Pairs of coordinates that a covariance may relate.

    Notes
    -----
    The layer is added as it is: with the clipped sum it is the sum clipped at ``bound + depth``. Beyond it
    there is more of the same direction, by the ratio that the tail implies, as far as the layer stands out of
    its noise (James and Stein's factor). Half of that may be wrong; what the factor takes away may have been
    there; and so may the tail that no histogram shows, in the direction of the layer as far as that is known.
    """
    size = layer.size
    if noise == 0:
        return Cut(layer, np.zeros((size, size)), 0.0)
    ratio, rms = tail.beyond(bound, depth)
    # What is released is rounded, and may be 0.
    squared = max(float(layer @ layer), 1e-300)
    shrunk = max(0.0, 1 - size * noise**2 / squared)
    more = ratio * shrunk * layer
    along = mask * np.outer(layer, layer) / squared
    spread = shrunk * along + (1 - shrunk) / size * np.eye(size)
    left = _DOUBT**2 * mask * np.outer(more, more) + _UNSEEN * rms**2 * spread
    left += ratio**2 * shrunk * noise**2 * np.eye(size)
    return Cut(layer + more, left, noise)
