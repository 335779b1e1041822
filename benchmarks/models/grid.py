"""A density of two parameters, normalized on a grid."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

_CELLS = 400  # cells of the grid on each side
_CELL_MARGIN = 1.0  # largest difference of log density between neighbouring cells that matter
_UNRESOLVED_MASS = 1e-6  # largest mass of cells beyond that margin


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """Density of two parameters inside a square, normalized on a grid of 400 x 400 cells.

    Draws choose a cell by the density at its centre and a uniform point in it, and keep the point with
    probability density / (density at the centre · e). That is exact where no point of the cell is denser than
    its centre by more than a factor e; construction fails if cells whose log density differs by more than one
    from a neighbouring cell's hold more than 1e-6 of the mass.

    Attributes
    ----------
    log_kernel : callable
        Log density up to a constant, from shape (k, 2) to shape (k,).
    bound : float
        The square is [−bound, bound]².

    Raises
    ------
    ValueError
        If the density is too narrow for the grid.
    """

    log_kernel: Callable[[np.ndarray], np.ndarray]
    bound: float
    _centres: np.ndarray = field(init=False, repr=False)
    _log_masses: np.ndarray = field(init=False, repr=False)
    _log_constant: float = field(init=False, repr=False)

    def __post_init__(self):
        axis = self.bound * ((np.arange(_CELLS) + 0.5) / _CELLS * 2 - 1)
        centres = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        kernel = self.log_kernel(centres)
        log_total = logsumexp(kernel)
        object.__setattr__(self, "_centres", centres)
        object.__setattr__(self, "_log_masses", kernel - log_total)
        object.__setattr__(self, "_log_constant", log_total + 2 * np.log(self._width))
        square = kernel.reshape(_CELLS, _CELLS)
        steep = np.zeros(square.shape, dtype=bool)
        down, right = (np.abs(np.diff(square, axis=axis)) > _CELL_MARGIN for axis in (0, 1))
        steep[1:] |= down
        steep[:-1] |= down
        steep[:, 1:] |= right
        steep[:, :-1] |= right
        if np.exp(self._log_masses[steep.ravel()]).sum() > _UNRESOLVED_MASS:
            raise ValueError(
                f"The posterior is too narrow for a grid of {_CELLS} x {_CELLS} cells: "
                "raise the temperature or lower n."
            )

    @property
    def _width(self) -> float:
        return 2 * self.bound / _CELLS

    @property
    def mean(self) -> np.ndarray:
        """Mean, by the midpoint rule."""
        return np.exp(self._log_masses) @ self._centres

    @property
    def cov(self) -> np.ndarray:
        """Covariance, by the midpoint rule."""
        centred = self._centres - self.mean
        return (centred * np.exp(self._log_masses)[:, None]).T @ centred

    def draws(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """Independent draws, shape (size, 2)."""
        masses = np.exp(self._log_masses)
        cumulative = np.cumsum(masses)
        kept = [np.empty((0, 2))]
        while sum(map(len, kept)) < size:
            cells = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
            points = self._centres[cells] + self._width * (rng.random((size, 2)) - 0.5)
            log_ratio = self.log_density(points) - (self._log_masses[cells] - 2 * np.log(self._width))
            kept.append(points[np.log1p(-rng.random(size)) < log_ratio - _CELL_MARGIN])
        return np.concatenate(kept)[:size]

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Log density at points of shape (..., 2); minus infinity outside the square."""
        points = theta.reshape(-1, 2)
        out = np.full(len(points), -np.inf)
        inside = (np.abs(points) <= self.bound).all(axis=1)
        out[inside] = self.log_kernel(points[inside]) - self._log_constant
        return out.reshape(theta.shape[:-1])
