"""The banana of the thesis, and what is known of it publicly."""

from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from benchmarks import models
from pymc_dp.proposals import FixedRadius, GuidedWalk, OneAtATime
from pymc_dp.ratios import subsets as batch_ratio

N, DELTA = 100_000, 1e-6
CURVATURE, FIRST_VARIANCES = 20.0, (20.0, 2.5)
QUANTILES = {"all": 0.9, "one": 0.99, "guided": 0.99}
HALF, BATCH = 1000, 1000  # iterations before, and after, the draws that count begin; records of a batch


def variances(d: int) -> np.ndarray:
    """Of the likelihood's columns; known to everybody."""
    return np.concatenate([FIRST_VARIANCES, np.ones(d - 2)])


def public_scale(d: int, tempering: float) -> np.ndarray:
    """Posterior standard deviations, from the variances, the curvature and n."""
    scale = np.sqrt(variances(d) / (N * tempering))
    scale[1] = np.sqrt(scale[1] ** 2 + 2 * (CURVATURE * scale[0] ** 2) ** 2)
    return scale


@cache
def public_clip(d: int, tempering: float, kind: str, quantile: float | None = None) -> float:
    """A quantile of the records' log-likelihood ratios for moves of step size 1, on simulated data."""
    rng = np.random.default_rng(123)
    x, moves = np.sqrt(variances(d)) * rng.normal(size=(4000, d)), proposal(kind, d, tempering)
    posterior = models.BananaPosterior(np.zeros(d), variances(d) / (N * tempering), CURVATURE, 0.0, 0.0)
    ratios = []
    for theta in posterior.draws(200, rng):
        new = theta + moves.move(rng, d)
        straight = [np.r_[t[0], t[1] + CURVATURE * t[0] ** 2, t[2:]] for t in (theta, new)]
        terms = [-0.5 * ((x - u) ** 2 / variances(d)).sum(axis=1) for u in straight]
        ratios.append(np.abs(terms[1] - terms[0]))
    return float(np.quantile(ratios, quantile or QUANTILES[kind]))


def proposal(kind: str, d: int, tempering: float) -> Any:
    """Moves in units of the public scale."""
    scale = public_scale(d, tempering)
    return {
        "all": lambda: FixedRadius(scale),
        "one": lambda: OneAtATime(scale),
        "guided": lambda: GuidedWalk(scale),
    }[kind]()


@cache
def public_step(
    kind: str, d: int, tempering: float, noise_multiplier: float, batch_size: int | None = None
) -> float:
    """Step size of the longest expected jump, for a penalty test with this noise; Barker's test without any.

    Found on the posterior as it would be at theta = 0: public, like `public_clip`.
    """
    rng = np.random.default_rng(125)
    posterior = models.BananaPosterior(np.zeros(d), variances(d) / (N * tempering), CURVATURE, 0.0, 0.0)
    start = posterior.draws(2000, rng)
    moves = np.array([proposal(kind, d, tempering).move(rng, d) for _ in start])

    def noise(step: float) -> float:
        clip = step * public_clip(d, tempering, kind)
        if batch_size is None:
            return 2 * noise_multiplier * clip * tempering
        batch = N * tempering * clip / 1.645 / np.sqrt(batch_size)  # its own error, if ratios are normal
        added = noise_multiplier * clip * batch_ratio.sensitivity(clip, batch_size, N, tempering)
        return float(np.hypot(batch, added))

    def accepted(step: float) -> float:
        ratio = posterior.log_density(start + step * moves) - posterior.log_density(start)
        s = noise(step)
        if s == 0:
            return float(np.mean(expit(ratio)))
        terms = ndtr(ratio / s - s / 2) + np.exp(np.minimum(ratio, 50) + log_ndtr(-ratio / s - s / 2))
        return float(np.mean(np.minimum(terms, 1)))

    # Rare long jumps do not help a short chain.
    rates = {step: rate for step in np.geomspace(0.003, 3, 40) if (rate := accepted(step)) >= 0.15}
    return float(max(rates, key=lambda step: step**2 * rates[step]))
