"""What the prior of the likelihood coordinates is like: a normal distribution, for the search alone."""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.likelihood.public_model import PublicModel
from pymc_dp.records.gate import CHECK_MODE, compile_graph

# Draws of the prior.
_DRAWS = 1000
# This part of its draws is nearer to the median than `_OF_PART` standard deviations: the levels of groups
# whose spread is unknown are mostly near it, but a search that holds those further out for impossible takes
# the scores that say so for noise.
_PART = 0.95
# Two-sided quantile of a normal number for that part.
_OF_PART = 1.96
# Standard deviation where the prior has none.
_UNKNOWN = 100.0
# The least and the most that is taken for one.
_LEAST = 1e-100
_MOST = 1e100


def approximate_prior(public: PublicModel, start: np.ndarray) -> Normal:
    """A normal distribution with the median and the spread of the prior's draws.

    Parameters
    ----------
    public : PublicModel
    start : ndarray, shape (p,)
        Likelihood coordinates at the initial point, which is the mean where the prior cannot be drawn.

    Returns
    -------
    Normal

    Notes
    -----
    The released likelihood does not have it in it: it is what steps of the search are compared with.

    **Privacy.** A function of the public part of the model.
    """
    draws = _draws(public)
    if draws is None:
        return Normal(np.eye(start.size) / _UNKNOWN**2, start)
    draws = np.where(np.isfinite(draws), draws, np.nan)
    with np.errstate(all="ignore"):
        middle = np.nanmedian(draws, axis=0)
        spread = np.nanquantile(np.abs(draws - middle), _PART, axis=0) / _OF_PART
    middle = np.where(np.isfinite(middle), middle, start)
    spread = np.clip(np.where(np.isfinite(spread) & (spread > 0), spread, _UNKNOWN), _LEAST, _MOST)
    # Beyond so many standard deviations a draw counts as so many, since priors of scales have draws that are
    # further than all others together.
    furthest = 3.0
    apart = np.clip(np.nan_to_num((draws - middle) / spread), -furthest, furthest)
    covariance = apart.T @ apart / len(apart)
    root = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    # Part of a correlation that is left: what so many draws show of it is not exact.
    kept = 0.98
    correlation = kept * covariance / np.outer(root, root)
    np.fill_diagonal(correlation, 1.0)
    precision = np.linalg.inv(correlation) / np.outer(spread, spread)
    return Normal(0.5 * (precision + precision.T), middle, draws)


def _draws(public: PublicModel) -> np.ndarray | None:
    """Draws of the coordinates, shape (m, p); None where the prior has no draws."""
    parts: list[Variable] = []

    def keep(phi: Sequence[Variable]) -> Variable:
        parts.extend(phi)
        return pt.constant(0.0)

    public.model(keep)
    whole = pt.concatenate([pt.as_tensor(part).ravel() for part in parts])
    try:
        with np.errstate(all="ignore"):
            drawn = compile_graph([], whole, private=(), random=True, mode=CHECK_MODE, random_seed=0)
            return np.stack([drawn() for _ in range(_DRAWS)])
    except NotImplementedError:  # a flat prior
        return None
