"""A mixture with two modes, by its likelihood on a grid."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.special import ndtr

from benchmarks.models.grid import GridPosterior
from benchmarks.models.reference import ReferenceModel, check_positive, check_sizes, check_vector


def _mixture_lipschitz(variance: float, truncation: float, normalized: bool) -> float:
    """Bound the gradient norm of one record's log density; proof in docs/reference_models.md."""
    widest = 2 * truncation
    bound = np.sqrt(2) * widest
    if not normalized:
        excess = 0.4 * np.sqrt(variance)  # sup_t t / (1 + exp(t²/2σ²)) = 0.39295… σ
        bound = max(bound, np.hypot(widest + excess, widest / 2 + excess))
    return float(bound / variance)


def _mixture_log_kernel(
    x: np.ndarray, variance: float, truncation: float, tempering: float, normalized: bool
) -> Callable[[np.ndarray], np.ndarray]:
    """Tempered log-likelihood of the mixture, at a cost that does not depend on n.

    As a function of x, the log density is analytic in an ellipse around [−truncation, truncation] (its
    singularities are at Im x = ±πσ²/θ_2 and beyond), so it equals its Chebyshev interpolant up to rounding,
    and the sum over the data is a weighted sum over the nodes.
    """
    # Half the height of the ellipse for the largest |θ_2|, in units of the interval.
    height = np.pi * variance / truncation**2
    size = int(np.ceil(40 / np.arcsinh(height)))  # error of order exp(-40)
    if size > 1000:
        raise ValueError("variance is too small relative to truncation².")
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    moments = np.zeros(size)
    for part in np.array_split(x, 1 + len(x) // 10_000):
        moments += np.polynomial.chebyshev.chebvander(part / truncation, size - 1).sum(axis=0)
    moments[1:] *= 2
    weights = np.polynomial.chebyshev.chebvander(nodes, size - 1) @ moments / size
    nodes, sd = truncation * nodes, np.sqrt(variance)

    def block(theta):
        centres = np.stack([theta[:, 0], theta[:, 0] + theta[:, 1]])
        exponents = -((nodes - centres[..., None]) ** 2) / (2 * variance)
        total = np.logaddexp(exponents[0], exponents[1]) @ weights
        if normalized:
            inside = ndtr((truncation - centres) / sd) - ndtr((-truncation - centres) / sd)
            total -= len(x) * np.log(inside.sum(axis=0))
        return tempering * total

    def log_kernel(theta):
        return np.concatenate([block(part) for part in np.array_split(theta, 1 + len(theta) // 10_000)])

    return log_kernel


def truncated_mixture(
    n: int = 50_000,
    *,
    theta: ArrayLike = (0.0, 1.0),
    variance: float = 2.0,
    truncation: float = 3.0,
    temperature: float = 500.0,
    normalized: bool = True,
    seed: int = 0,
    data: ArrayLike | None = None,
) -> ReferenceModel:
    r"""Mixture of two normals on an interval: two parameters, two modes.

    Records come from :math:`½ N(θ_1, σ^2) + ½ N(θ_1 + θ_2, σ^2)` restricted to [−c, c] (values outside are
    drawn again). The prior is flat on [−c, c]². It cannot be flat on the plane: as θ_2 → ∞ one component
    alone keeps the likelihood away from zero, and the posterior would be improper.

    Zhang and Zhang restrict x to [−3, 3] to bound the gradient but keep the density of the unrestricted
    mixture in the energy (appendix E.1). On restricted data, whose variance is about 1.7 < σ² = 2, that
    posterior has *one* mode, at θ_2 = 0, and not the two modes (0, 1) and (1, −1) of their text and figures;
    the program they published does not restrict the data, and there the two modes are. The default here keeps
    both the restriction, without which the gradient has no bound, and the two modes: the density is divided
    by its integral over [−c, c] (``normalized=True``). ``normalized=False`` is appendix E.1 to the letter.

    Parameters
    ----------
    n : int
        Number of records to simulate.
    theta : array_like, shape (2,)
        Parameter to simulate from, inside the square.
    variance : float
        σ², known.
    truncation : float
        c, bound of the records and of each parameter.
    temperature : float
        1/T, at least 1. The posterior is that of the likelihood to the power T.
    normalized : bool
        Whether the density of a record integrates to one over [−c, c].
    seed : int
        Seed of the simulation.
    data : array_like, shape (n,), optional
        Records in [−c, c] to use instead of simulated ones; `n`, `theta` and `seed` are then ignored.

    Returns
    -------
    ReferenceModel
        Free variable ``theta`` of length 2 without transform, observed variable ``x``, posterior a
        `GridPosterior`. ``lipschitz`` holds for every x in [−c, c] and θ in the square (proof in
        docs/reference_models.md): 4.24 for the defaults with either value of `normalized` (Zhang and Zhang:
        8.75).

    Raises
    ------
    ValueError
        If an argument is out of range, a record lies outside [−c, c], or the posterior is too narrow for the
        grid.

    References
    ----------
    W. Zhang and R. Zhang (2023), *DP-Fast MH*, ICML, §6.1 and appendix E.1.
    """
    variance = float(check_positive("variance", variance))
    truncation = float(check_positive("truncation", truncation))
    if not 1 <= temperature < np.inf:
        raise ValueError(f"temperature must be finite and at least 1, got {temperature}.")
    sd = np.sqrt(variance)
    if data is None:
        check_sizes(2, n, smallest_d=2)
        truth = check_vector("theta", theta, 2)
        if np.abs(truth).max() > truncation:
            raise ValueError(f"theta must lie in [-{truncation}, {truncation}]^2.")
        rng = np.random.default_rng(seed)
        x = np.empty(0)
        while len(x) < n:
            candidates = truth[0] + truth[1] * (rng.random(n) < 0.5) + sd * rng.standard_normal(n)
            x = np.concatenate([x, candidates[np.abs(candidates) <= truncation]])
        x = x[:n]
    else:
        truth, x = None, np.asarray(data, dtype=float)
        if x.ndim != 1 or len(x) == 0 or not (np.abs(x) <= truncation).all():
            raise ValueError(f"data must be of shape (n,), with at least one record, all in +-{truncation}.")

    def ends(centre):  # error function at the two ends of the interval
        return (pt.erf((end - centre) / (sd * np.sqrt(2))) for end in (-truncation, truncation))

    def inside(centre):  # probability of a component in the interval
        low, high = ends(centre)
        return (high - low) / 2

    def logp(value, first, second):
        components = [pm.logp(pm.Normal.dist(centre, sd), value) for centre in (first, second)]
        logp = pt.logaddexp(*components) - pt.log(inside(first) + inside(second))
        return pt.switch(pt.abs(value) <= truncation, logp, -np.inf)

    def dist(first, second, size):
        from_second = pm.Bernoulli.dist(inside(second) / (inside(first) + inside(second)), size=size)
        centre = pt.switch(from_second, second, first)
        low, high = ends(centre)
        quantile = low + (high - low) * pm.Uniform.dist(0.0, 1.0, size=size)
        return centre + sd * np.sqrt(2) * pt.erfinv(quantile)

    with pm.Model() as model:
        theta_rv = pm.Uniform("theta", -truncation, truncation, shape=2, default_transform=None)
        first, second = theta_rv[0], theta_rv[0] + theta_rv[1]
        if normalized:
            pm.CustomDist("x", first, second, logp=logp, dist=dist, observed=x)
        else:
            pm.NormalMixture("x", w=[0.5, 0.5], mu=pt.stack([first, second]), sigma=sd, observed=x)

    tempering = 1 / float(temperature)
    kernel = _mixture_log_kernel(x, variance, truncation, tempering, normalized)
    return ReferenceModel(
        model,
        {"x": x},
        GridPosterior(kernel, truncation),
        tempering,
        truth,
        lipschitz=_mixture_lipschitz(variance, truncation, normalized),
    )
