"""Targets with an exact posterior, their records in numpy, and whether a sampler leaves them alone.

A step is made of the PyMC model, as a user makes it; its chains then read the same records in numpy, which
`agree` compares with the model's own. Nothing is compiled, and no book is kept of draws.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats

from benchmarks import models
from pymc_dp.records.gradients import SumOfGradients
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID, SumOfRatios

FALSE_ALARM = 1e-6  # of a comparison; everything is seeded, so that it is of the seed, not of a run


@dataclass
class Target:
    """A model and its exact posterior, in unconstrained space.

    `rows` and `log_prior` are functions of theta, `slopes` gives the rows' gradients and that of the prior.
    """

    model: pm.Model
    draws: Callable[[int, np.random.Generator], np.ndarray]
    rows: Callable[[np.ndarray], np.ndarray]
    log_prior: Callable[[np.ndarray], float]
    step_size: float
    slopes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


class NumpyRecords:
    """What ratios and trajectories need of `RecordModel`."""

    def __init__(self, target, records):
        self.target, self.full_batch, self._own = target, self, records
        self.n, self.d = records.n, records.d

    def __getattr__(self, name):
        return getattr(self._own, name)

    def log_prior(self, theta):
        return self.target.log_prior(theta)

    def at(self, theta):
        return self.target.rows(theta), self.target.log_prior(theta)

    def __call__(self, theta, old, clip_bound):
        rows, log_prior = self.at(theta)
        ratio = (rows - old) / clip_bound
        clipped = np.abs(ratio).max() > 1
        total = np.rint((ratio.clip(-1, 1) if clipped else ratio) * GRID).sum()
        return SumOfRatios(total, float(np.sum(np.abs(ratio) > 1)) if clipped else 0.0, rows, log_prior)

    def ratios(self, theta, new, units):
        return (self.target.rows(new) - self.target.rows(theta))[units]

    def gradients(self, theta, bound):
        rows, _ = self.target.slopes(theta)
        norms = np.sqrt((rows * rows).sum(axis=1))
        factors = bound / np.maximum(norms, bound)
        return SumOfGradients(factors @ rows, float(np.sum(norms > bound)))

    def log_prior_gradient(self, theta):
        return self.target.slopes(theta)[1]


def agree(target, points=5):
    """Whether the records in numpy are those of the model."""
    own = RecordModel(target.model)
    numpy = NumpyRecords(target, own)
    apart = []
    for theta in target.draws(points, np.random.default_rng(0)):
        new = theta + 0.3
        rows, log_prior = own.full_batch.at(theta)
        there, prior_there = own.full_batch.at(new)
        apart += [there - rows - numpy.ratios(theta, new, np.arange(own.n))]
        apart += [prior_there - log_prior - target.log_prior(new) + target.log_prior(theta)]
        for bound in (0.4, 1e3):
            ours, theirs = (x.full_batch(new, x.full_batch.at(theta)[0], bound) for x in (numpy, own))
            apart += [(ours.total - theirs.total) / GRID * bound, ours.clipped - theirs.clipped]
            if target.slopes is not None:
                ours, theirs = (x.gradients(theta, bound) for x in (numpy, own))
                apart += [ours.total - theirs.total, ours.clipped - theirs.clipped]
        if target.slopes is not None:
            apart += [numpy.log_prior_gradient(theta) - own.log_prior_gradient(theta)]
    return max(np.abs(a).max() for a in apart) < 1e-3


def in_numpy(step, target):
    """The step, reading these records."""
    step.records = NumpyRecords(target, step.records)
    return step


def ends_of(step, starts, iterations):
    """Where chains are after so many iterations, shape (chains, d), and the share of accepted moves."""
    ends, accepted, chain = [], 0, step._chain
    for start in starts:
        chain.state = chain.memory = None
        chain.state = step._arrive(chain, start)
        for _ in range(iterations):
            now, step.last_stats = step._iterate(chain)
            step.moves.decided(now)
            accepted += now
        ends.append(chain.state.theta)
    return np.array(ends), accepted / (len(starts) * iterations)


def path(step, start, iterations):
    """Where one chain is after each iteration, shape (iterations, d)."""
    chain, points = step._chain, []
    chain.state = step._arrive(chain, start)
    for _ in range(iterations):
        step._iterate(chain)
        chain.iteration += 1
        points.append(chain.state.theta)
    return np.array(points)


def of_scores(z):
    """Smallest p-value of tests that these are draws of N(0, 1): of the law, of the mean, of the width.

    With 1,000 of them: a mean that is off by .16 standard deviations, or a width by 11%. The test of
    Kolmogorov and Smirnov alone needs 2,000 for such a mean, and sees a width from 29% on then.
    """
    width = stats.chi2(z.size).cdf(np.sum(z * z))
    mean = 2 * stats.norm.sf(abs(z.mean()) * math.sqrt(z.size))
    return min(stats.kstest(z, "norm").pvalue, mean, 2 * min(width, 1 - width))


def p_value(ends, exact):
    """Smallest over columns: ends against many exact draws, by their normal scores (any law has some)."""
    ranks = [np.searchsorted(np.sort(true), mine) for mine, true in zip(ends.T, exact.T, strict=True)]
    return min(of_scores(stats.norm.ppf((rank + 0.5) / (len(exact) + 1))) for rank in ranks)


def invariance(step, target, seed, chains, iterations):
    """`p_value` of chains from exact draws, for each coordinate and the energy; share of accepted moves.

    (A test that accepts too much heats a chain.)
    """
    rng = np.random.default_rng(seed)
    step.setup_chain(rng, 0, chains * iterations)
    ends, accepted = ends_of(step, target.draws(chains, rng), iterations)
    power = target.arguments.get("tempering", 1.0)

    def columns(points):
        energy = [power * target.rows(x).sum() + target.log_prior(x) for x in points]
        return np.column_stack([points, energy])

    return p_value(columns(ends), columns(target.draws(20_000, rng))), accepted


def of_banana(a=1.0):
    """Curved: a wrong sign or a symmetric error shows."""
    reference = models.banana(2, 40, a=a, seed=3)
    x, likelihood, prior = reference.data["x"], 1 / np.array([20.0, 2.5]), 1 / PRIOR_VARIANCE

    def rows(theta):
        return -0.5 * ((x - (theta[0], theta[1] + a * theta[0] ** 2)) ** 2 @ likelihood)

    def log_prior(theta):
        return -0.5 * prior * (theta[0] ** 2 + (theta[1] + a * theta[0] ** 2) ** 2)

    def slopes(theta):
        straight = np.array([theta[0], theta[1] + a * theta[0] ** 2])
        bend = np.array([[1.0, 0.0], [2 * a * theta[0], 1.0]])
        return ((x - straight) * likelihood) @ bend, -prior * straight @ bend

    return Target(reference.model, reference.posterior_draws, rows, log_prior, 0.6, slopes)


PRIOR_VARIANCE = 1000.0


def of_gaussian(d, step_size, cov, **arguments):
    """Normal data of known covariance."""
    reference = models.gaussian_mean(d, 50, cov=cov, **arguments)
    x, precision, prior = reference.data["x"], np.linalg.inv(cov), 1 / PRIOR_VARIANCE

    def rows(theta):
        apart = x - theta
        return -0.5 * np.einsum("ni,ni->n", apart @ precision, apart)

    return Target(
        reference.model,
        reference.posterior_draws,
        rows,
        lambda theta: -0.5 * prior * float(theta @ theta),
        step_size,
        lambda theta: ((x - theta) @ precision, -prior * theta),
        {"tempering": reference.tempering} if reference.tempering != 1 else {},
    )


def of_rate():
    """Rate of exponential data on the log scale, with a gamma prior: skewed, Jacobian included."""
    y = np.random.default_rng(5).exponential(size=3)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 1.0, 1.0)
        pm.Exponential("y", rate, observed=y)

    def draws(size, rng):
        return np.log(rng.gamma(1.0 + y.size, 1 / (1.0 + y.sum()), size=(size, 1)))

    def rows(theta):
        return theta[0] - y * math.exp(theta[0])

    return Target(model, draws, rows, lambda theta: theta[0] - math.exp(theta[0]), 0.8)


def on_a_line(model, rows, location, scale, log_likelihood, grid, step_size, **arguments):
    """One parameter with a Gumbel prior; exact draws from a grid."""
    log_density = stats.gumbel_r(location, scale).logpdf(grid) + log_likelihood
    cdf = np.cumsum(np.exp(log_density - log_density.max()))

    def draws(size, rng):
        return np.interp(rng.random(size), cdf / cdf[-1], grid)[:, None]

    def log_prior(theta):
        z = (theta[0] - location) / scale
        return -z - math.exp(-z)

    return Target(model, draws, rows, log_prior, step_size, arguments=arguments)
