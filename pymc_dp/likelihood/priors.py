"""A normal approximation of the prior of the likelihood coordinates, used by the search alone."""

from collections.abc import Callable, Sequence

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import FlatRV, HalfFlatRV
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.multivariate import ICARRV
from pymc.distributions.simulator import SimulatorRV
from pytensor.graph import Constant, Op, Variable, ancestors, clone_replace
from scipy.special import ndtri

from pymc_dp.likelihood.mixtures import UNKNOWN, Normal
from pymc_dp.likelihood.public_model import PublicModel, name_numbers
from pymc_dp.records.gate import CHECK_MODE, compile_graph
from pymc_dp.records.row_types.ops import known

# Standard deviation of the logarithm, in the log-normal distribution that replaces a flat prior on positive
# numbers.
_OF_HALF_FLAT = 5.0
# Standard deviation of the normal distribution that replaces a flat prior.
_OF_FLAT = 100.0


def approximate_prior(public: PublicModel, start: np.ndarray) -> Normal:
    """Compute a normal distribution with the median and the spread of the prior's draws.

    Parameters
    ----------
    public : PublicModel
    start : ndarray, shape (p,)
        Likelihood coordinates at the initial point: the mean, if no draws of the prior can be made.

    Returns
    -------
    Normal

    Notes
    -----
    The search uses it as a prior and as a scale of its steps. It is not part of the released likelihood.

    **Privacy.** A function of the public part of the model. Where a function of the user's draws (`random=`),
    none is called: it may draw from the records.
    """
    draws = _draws(public, start)
    if draws is None:
        return Normal.unknown(start)
    return Normal.like(_without_vague_scales(draws, public, start), start)


def _without_vague_scales(draws: np.ndarray, public: PublicModel, start: np.ndarray) -> np.ndarray:
    """Replace logarithms with a wider prior than a flat one counts as, by draws around the start.

    The logarithm of a variable with the prior ``Gamma(0.001, 0.001)`` has a standard deviation of hundreds.
    In that unit of length nothing that records show would be seen.
    """
    draws = draws.copy()
    # Quantiles between which about two thirds of all draws are.
    most_of = 0.16, 0.84
    for k, name in enumerate(name_numbers(public.parts)):
        if name.split("[")[0].endswith("_log__"):
            some = np.where(np.isfinite(draws[:, k]), draws[:, k], -np.inf)
            low, high = np.quantile(some, most_of, method="nearest")
            if high - low > 2 * _OF_HALF_FLAT:
                ranks = (some.argsort().argsort() + 0.5) / len(draws)
                draws[:, k] = start[k] + _OF_HALF_FLAT * ndtri(ranks)
    return draws


def _draws(public: PublicModel, start: np.ndarray) -> np.ndarray | None:
    """Draw the coordinates from the prior, shape (m, p); None if that is not possible for any.

    A part of them that cannot be drawn is drawn around its start, as one of which nothing is known.
    """
    parts: list[Variable] = []

    def keep(phi: Sequence[Variable]) -> Variable:
        parts.extend(phi)
        return pt.constant(0.0)

    public.model(keep)
    parts = _with_proper_priors(parts)
    may_be = [all(_can_be_drawn(v.owner.op) for v in ancestors([x]) if v.owner is not None) for x in parts]
    some = [pt.as_tensor(x).ravel() for x, drawn in zip(parts, may_be, strict=True) if drawn]
    if not some:
        return None
    places = np.repeat(may_be, [part.size for part in public.parts])
    # Number of draws of the prior.
    number = 1000
    ranks = np.random.default_rng(0).permuted(np.tile(np.arange(number), (start.size, 1)), axis=1).T
    draws = start + UNKNOWN * ndtri((ranks + 0.5) / number)
    with np.errstate(all="ignore"):
        whole = pt.concatenate(some)
        draw = compile_graph([], whole, private=(), random=True, mode=CHECK_MODE, random_seed=0)
        draws[:, places] = [_or_unknown(draw, int(places.sum())) for _ in range(number)]
    return draws


def _or_unknown(drawn: Callable[[], np.ndarray], size: int) -> np.ndarray:
    """Return a draw, shape (p,); NaN if it has no number, as one over a gamma draw that rounds to zero."""
    try:
        return drawn()
    except ArithmeticError:
        return np.full(size, np.nan)


def _can_be_drawn(op: Op) -> bool:
    """Return whether no code of the user's computes or draws, which may look at records, nor an ICAR's."""
    return known(op) and not isinstance(op, CustomDistRV | SimulatorRV | ICARRV)


def _with_proper_priors(parts: list[Variable]) -> list[Variable]:
    """Replace flat priors by normal and log-normal distributions, and an ICAR's by one that can be drawn."""
    proper: dict[Variable, Variable] = {}
    for variable in ancestors(parts):
        op = None if variable.owner is None else variable.owner.op
        if isinstance(op, FlatRV):
            proper[variable] = pm.Normal.dist(0.0, _OF_FLAT, size=pt.shape(variable))
        elif isinstance(op, HalfFlatRV):
            proper[variable] = pm.LogNormal.dist(0.0, _OF_HALF_FLAT, size=pt.shape(variable))
        elif isinstance(op, ICARRV) and variable.type.ndim == 1:
            adjacency, sigma, _ = op.dist_params(variable.owner)
            if isinstance(adjacency, Constant):
                root = _root_of_icar(adjacency.data)
                proper[variable] = sigma * pt.dot(root, pm.Normal.dist(0.0, 1.0, size=len(root)))
    return clone_replace(parts, proper) if proper else parts


def _root_of_icar(adjacency: np.ndarray) -> np.ndarray:
    """Return a root R, shape (m, m), of an ICAR prior's covariance ``R R'``, for the scale 1.

    It is the inverse of the graph's Laplacian where that is positive. The sum of all is zero. What the prior
    leaves free beside the sum, as the levels of regions without neighbours, is as wide as a flat prior.

    Parameters
    ----------
    adjacency : ndarray, shape (m, m)
    """
    laplacian = np.diag(adjacency.sum(1)) - adjacency
    apart = np.eye(len(laplacian)) - 1 / len(laplacian)
    values, vectors = np.linalg.eigh(laplacian)
    return apart @ (vectors / np.sqrt(np.maximum(values, 1 / _OF_FLAT**2)))
