"""Step sizes of a random walk under the penalty test: where to start, and how to learn from decisions."""

import math
from functools import cache

import numpy as np
from scipy import optimize, stats
from scipy.special import erfc

# Gain of the adaptation is held for this many iterations, then decreases like 1 / t.
_SETTLE = 20.0
_QUANTILES = (np.arange(400) + 0.5) / 400


@cache
def optimal_walk(d: int, fixed_length: bool) -> tuple[float, float]:
    """Find the step that moves farthest when noise, not the posterior, limits the step.

    A move of noise standard deviation s between points of equal density is accepted with probability
    ``erfc(s / sqrt(8))``; the expected squared distance is proportional to ``E[s**2 erfc(s / sqrt(8))]``.
    When the posterior limits the step instead, the best acceptance is nearly the same (Roberts, Gelman &
    Gilks 1997, in many dimensions).

    Parameters
    ----------
    d : int
        Number of parameters.
    fixed_length : bool
        Whether all moves have one length (s is constant) or s varies like the norm of a Gaussian vector.

    Returns
    -------
    noise_std : float
        Root mean square of s at the best step: 2.38 for moves of one length.
    acceptance : float
        Acceptance rate there: .234 for moves of one length; .44, .35, .28 for a Gaussian walk in 1, 2, 5
        dimensions.
    """
    lengths = np.ones(1) if fixed_length else stats.chi.ppf(_QUANTILES, d) / math.sqrt(d)

    def distance(noise_std: float) -> float:
        s = noise_std * lengths
        return -float(np.mean(s**2 * erfc(s / math.sqrt(8))))

    best = optimize.minimize_scalar(distance, bounds=(0.1, 10), method="bounded").x
    return float(best), float(np.mean(erfc(best * lengths / math.sqrt(8))))


def adapted(step_size: float, accepted: bool, target: float, iteration: int) -> float:
    """Step size after a decision: Robbins-Monro on its logarithm (Garthwaite, Fan & Sisson 2016).

    Parameters
    ----------
    step_size : float
    accepted : bool
    target : float
        Acceptance rate that is aimed at.
    iteration : int
        Number of decisions so far, from 1.

    Returns
    -------
    float

    Notes
    -----
    **Privacy.** A function of released decisions.
    """
    gain = 1.0 / (target * (1 - target) * max(_SETTLE, iteration))
    return step_size * math.exp(gain * (accepted - target))
