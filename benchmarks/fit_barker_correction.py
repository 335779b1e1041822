"""Fit of the correction distribution of minibatch Barker, and the proof that no other does better.

    python -m benchmarks.fit_barker_correction

Minibatch Barker needs a distribution V such that N(0, 2) + V is close to the standard logistic (Heikkilä et
al. 2019; Räisä 2021, section 3.2). Every Gaussian mixture is a mixture of points, so that nothing is lost by
taking V discrete: points 0, +-a_1, ..., +-a_m. For points on a grid the smallest largest CDF error is a
linear program; its solution says how many points are needed, and a few linear programs in the weights and
the points together then move them to the optimum. Where the error is largest, weights of a dual program
prove that no distribution V whatever has a smaller one (see `lower_bound`).

Prints the parameters that `pymc_dp/ratios/barker_correction.py` ships, the errors, and what other variances
would allow. Takes about ten seconds.
"""

import numpy as np
from scipy import optimize
from scipy.special import expit, ndtr

VARIANCE = 2.0
GRID = np.linspace(0.0, 30.0, 3001)  # the errors are odd functions of x


def smoothed(x: np.ndarray, points: np.ndarray, variance: float) -> np.ndarray:
    """CDF at x of a Gaussian plus a fair sign times a point, shape (len(x), len(points))."""
    scale = np.sqrt(variance)
    x = np.asarray(x)[:, None]
    return 0.5 * (ndtr((x - points) / scale) + ndtr((x + points) / scale))


def slopes(x: np.ndarray, points: np.ndarray, variance: float) -> np.ndarray:
    """Derivative of `smoothed` along the points."""
    x = np.asarray(x)[:, None]

    def density(z: np.ndarray) -> np.ndarray:
        return np.exp(-0.5 * z * z / variance) / np.sqrt(2 * np.pi * variance)

    return 0.5 * (density(x + points) - density(x - points))


def minimax(
    matrix: np.ndarray, target: np.ndarray, equal: np.ndarray, total: float, bounds: list
) -> tuple[np.ndarray, float]:
    """Minimise the largest ``|matrix @ u - target|`` subject to ``equal @ u = total``: a linear program."""
    column = np.ones((target.size, 1))
    solution = optimize.linprog(
        np.append(np.zeros(matrix.shape[1]), 1.0),
        A_ub=np.block([[matrix, -column], [-matrix, -column]]),
        b_ub=np.concatenate([target, -target]),
        A_eq=np.append(equal, 0.0)[None, :],
        b_eq=[total],
        bounds=[*bounds, (0, None)],
        method="highs-ds",
    )
    return solution.x[:-1], solution.fun


def on_a_grid(variance: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Best V on a grid: points and weights of sign pairs, neighbouring points merged, and its error."""
    x, grid = GRID[::5], np.linspace(0.0, 20.0, 401)
    weights, error = minimax(
        smoothed(x, grid, variance), expit(x), np.ones(grid.size), 1.0, [(0, 1)] * grid.size
    )
    used = np.flatnonzero(weights > 1e-7)
    groups = np.split(used, np.flatnonzero(np.diff(used) > 2) + 1)
    points = np.array([np.average(grid[g], weights=weights[g]) for g in groups])
    merged = np.array([weights[g].sum() for g in groups])
    return points, merged / merged.sum(), error


def polished(points: np.ndarray, weights: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Points (the first stays at 0) and weights moved to the optimum by sequential linear programs."""
    k, reach = points.size, 0.1
    while reach > 1e-9:
        base = smoothed(GRID, points, variance)
        matrix = np.hstack([base, weights[1:] * slopes(GRID, points[1:], variance)])
        bounds = [*((-w, 1 - w) for w in weights), *([(-reach, reach)] * (k - 1))]
        move, _ = minimax(
            matrix, expit(GRID) - base @ weights, np.append(np.ones(k), np.zeros(k - 1)), 0.0, bounds
        )
        moved = points + np.append(0.0, move[k:]), weights + move[:k]
        if largest_error(*moved, variance) < largest_error(points, weights, variance):
            points, weights = moved
        else:
            reach /= 3
    return points, weights / weights.sum()


def errors(points: np.ndarray, weights: np.ndarray, variance: float) -> np.ndarray:
    """CDF error on the grid."""
    return smoothed(GRID, points, variance) @ weights - expit(GRID)


def largest_error(points: np.ndarray, weights: np.ndarray, variance: float) -> float:
    """Largest CDF error on the grid."""
    return float(np.max(np.abs(errors(points, weights, variance))))


def lower_bound(points: np.ndarray, weights: np.ndarray, variance: float) -> float:
    """No distribution V, discrete or not, has a smaller largest CDF error than this.

    For numbers y at x_1, ..., x_m with ``sum |y| = 1`` and any symmetric V, the largest error is at least
    ``sum y_i (logistic(x_i) - F_V(x_i))``. F_V is a mean of columns of `smoothed`, so that this is at least
    ``sum y_i logistic(x_i) - max_a sum y_i smoothed(x_i, a)``, whatever the y. (An asymmetric V has at least
    the error of its symmetrized version.) Good x are where the error of `points` is largest; good y make the
    sum over i largest at the points. The maximum over a is that on a grid of spacing h, plus h^2 / 8
    times the largest second derivative.
    """
    error = errors(points, weights, variance)
    size = np.abs(error)
    peaks = 1 + np.flatnonzero((size[1:-1] >= size[:-2]) & (size[1:-1] > size[2:]))
    peaks = peaks[size[peaks] > 0.99 * size.max()]
    x = GRID[peaks]
    level = smoothed(x, points, variance).T
    equations = np.vstack([level[1:] - level[0], slopes(x, points[1:], variance).T, -np.sign(error[peaks])])
    y = np.linalg.lstsq(equations, np.append(np.zeros(2 * points.size - 2), 1.0), rcond=None)[0]
    y /= np.abs(y).sum()
    spacing = 1e-4
    a = np.arange(0.0, 45.0, spacing)  # far beyond the x: there nothing changes any more
    values = sum(weight * smoothed(np.array([p]), a, variance)[0] for p, weight in zip(x, y, strict=True))
    curvature = 0.25 / variance  # more than phi(1) / variance, the largest of a normal CDF
    return float(y @ expit(x) - values.max() - curvature * spacing**2 / 8 - 1e-12)


def fit(variance: float = VARIANCE, digits: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of sign pairs, rounded; the first point is 0."""
    points, weights, _ = on_a_grid(variance)
    points, weights = (np.round(values, digits) for values in polished(points, weights, variance))
    weights[0] = np.round(1 - weights[1:].sum(), digits)
    return points, weights


def main() -> None:
    points, weights = fit()
    print(f"POINTS = ({', '.join(f'{p:.6f}' for p in points)})")
    print(f"WEIGHTS = ({', '.join(f'{w:.6f}' for w in weights)})")
    print(f"largest CDF error {largest_error(points, weights, VARIANCE):.4e}")
    print(f"no V has less than {lower_bound(points, weights, VARIANCE):.4e}")
    print("\nnoise variance: largest CDF error of the best V")
    for variance in (1.0, 1.25, 1.5, 1.75, 2.0, 2.25):
        print(f"{variance:5.2f}: about {on_a_grid(variance)[2]:.1e}")


if __name__ == "__main__":
    main()
