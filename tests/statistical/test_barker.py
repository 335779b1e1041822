"""Chains of DPBarker started from the exact posterior stay there; on batches as far as they can be told.

Chains start at independent exact posterior draws and make 20 iterations; each coordinate is compared with its
exact distribution by Kolmogorov-Smirnov. False-alarm rate 1e-6 a comparison. The controls must fail. (What V
adds on batches is too little for so many chains: tests/steps/test_barker.py::test_acceptance_law shows it.)
"""

import math

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.kernels.acceptance import penalty
from pymc_dp.ratios import barker_correction, build
from tests.conftest import NUMBA
from tests.statistical.test_invariance import banana, skewed

CHAINS, ITERATIONS = {False: 2000, True: 1000}, 20  # on all records, on batches
FALSE_ALARM = 1e-6
RECORDS, BATCH, TEMPERING = 200, 50, 0.01


def all_records(target):
    """A clip that clips nothing."""
    model, draws, step_size, _ = target()
    return model, draws, {"clip_bound": 200.0, "step_size": step_size}


def batches():
    """Two tempered observations' worth of records at 1 and -1 under a skewed prior; moves of up to 2."""
    y = np.where(np.arange(RECORDS) % 2, 1.0, -1.0)
    with pm.Model() as model:
        theta = pm.Gumbel("theta", 0.0, 1.0)
        pm.Normal("y", theta, 1.0, observed=y)
    grid = np.linspace(-10, 15, 200_001)
    log_density = stats.gumbel_r().logpdf(grid) - 0.5 * TEMPERING * RECORDS * grid**2
    cdf = np.cumsum(np.exp(log_density - log_density.max()))

    def draws(size, rng):
        return np.interp(rng.random(size), cdf / cdf[-1], grid)[:, None]

    longest = math.sqrt(BATCH) / (RECORDS * TEMPERING)  # of L = 1
    settings = {"lipschitz": longest / 2, "batch_size": BATCH, "tempering": TEMPERING, "step_size": 1.0}
    return model, draws, settings


def p_value(model, draws, settings, proposal="gaussian"):
    """Smallest p-value over coordinates after 20 iterations."""
    with model:
        step = dp.DPBarker(
            epsilon=np.inf,
            delta=1e-6,
            chains=1,
            proposal=proposal,
            adapt_step_size=False,
            compile_kwargs=NUMBA,
            **settings,
        )
    rng, chains = np.random.default_rng(1), CHAINS["batch_size" in settings]
    step.setup_chain(rng, 0, chains * ITERATIONS)
    ends, accepted = [], 0
    for start in draws(chains, rng):
        step._chain.state = step._arrive(step._chain, start)
        for _ in range(ITERATIONS):
            accepted += step._iterate(step._chain)[0]
        ends.append(step._chain.state.theta)
    assert 0.1 < accepted / (chains * ITERATIONS) < 0.9, "the chains hardly move, or the step is tiny"
    ends, exact = np.array(ends), draws(50_000, rng)
    return min(stats.ks_2samp(ends[:, j], exact[:, j]).pvalue for j in range(exact.shape[1]))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "proposal"), [(banana, "fixed_radius"), (skewed, "gaussian")])
def test_all_records(target, proposal):
    assert p_value(*all_records(target), proposal) > FALSE_ALARM


@pytest.mark.slow
def test_batches():
    assert p_value(*batches()) > FALSE_ALARM


@pytest.mark.slow
def test_control_metropolis_on_all_records(monkeypatch):
    """Metropolis' test of a ratio that has Barker's noise already."""

    def metropolis(log_ratio, noise_std, random):
        return penalty(
            log_ratio + math.log(random.exponential() / random.exponential()), 0.0, random.exponential()
        )

    monkeypatch.setitem(build.TESTS, "barker", metropolis)
    assert p_value(*all_records(skewed)) < FALSE_ALARM


@pytest.mark.slow
def test_control_batches_that_are_not_scaled_up(monkeypatch):
    """The sum over a batch in the place of that over all records."""
    right = barker_correction.batch_ratio

    def unscaled(ratios, n, tempering):
        ratio, variance = right(ratios, n, tempering)
        return ratio * ratios.size / n, variance

    monkeypatch.setattr(barker_correction, "batch_ratio", unscaled)
    assert p_value(*batches()) < FALSE_ALARM
