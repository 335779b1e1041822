"""Chains of DPBarker started from the exact posterior stay there; on batches as far as they can be told.

Chains start at independent exact posterior draws and make 20 iterations; see `chains.p_value`. The controls
must fail. (What V adds on batches is too little for so many chains:
tests/steps/test_barker.py::test_acceptance_law shows it.)
"""

import math

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.kernels.metropolis import penalty
from pymc_dp.ratios import barker_correction, build
from tests.statistical import chains
from tests.statistical.chains import FALSE_ALARM

CHAINS, ITERATIONS = {False: 1000, True: 1000}, 20  # on all records, on batches
RECORDS, BATCH, TEMPERING = 200, 50, 0.01
pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")  # debug_seed


def all_records(target):
    """A clip that clips nothing."""
    return target, {"clip_bound": 200.0, "step_size": target.step_size}


def batches():
    """Two tempered observations' worth of records at 1 and -1 under a skewed prior; moves of up to 2."""
    y = np.where(np.arange(RECORDS) % 2, 1.0, -1.0)
    with pm.Model() as model:
        theta = pm.Gumbel("theta", 0.0, 1.0)
        pm.Normal("y", theta, 1.0, observed=y)
    grid = np.linspace(-10, 15, 200_001)
    log_likelihood = -0.5 * TEMPERING * RECORDS * grid**2
    target = chains.on_a_line(
        model, lambda t: -0.5 * (y - t) ** 2, 0.0, 1.0, log_likelihood, grid, 1.0, tempering=TEMPERING
    )
    longest = math.sqrt(BATCH) / (RECORDS * TEMPERING)  # of L = 1
    return target, {"lipschitz": longest / 2, "batch_size": BATCH, "step_size": 1.0}


def p_value(target, settings, proposal="gaussian"):
    with target.model:
        step = dp.DPBarker(
            epsilon=np.inf,
            delta=1e-6,
            chains=1,
            proposal=proposal,
            adapt_step_size=False,
            debug_seed=1,
            **settings,
            **target.arguments,
        )
    chosen = CHAINS["batch_size" in settings]
    found, accepted = chains.invariance(chains.in_numpy(step, target), target, 1, chosen, ITERATIONS)
    assert 0.1 < accepted < 0.9, "the chains hardly move, or the step is tiny"
    return found


def test_records_in_numpy_are_those_of_the_model():
    assert chains.agree(batches()[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "proposal"), [(chains.of_banana, "fixed_radius"), (chains.of_rate, "gaussian")]
)
def test_all_records(target, proposal):
    assert p_value(*all_records(target()), proposal) > FALSE_ALARM


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
    assert p_value(*all_records(chains.of_rate())) < FALSE_ALARM


@pytest.mark.slow
def test_control_batches_that_are_not_scaled_up(monkeypatch):
    """The sum over a batch in the place of that over all records."""
    right = barker_correction.batch_ratio

    def unscaled(ratios, n, tempering):
        ratio, variance = right(ratios, n, tempering)
        return ratio * ratios.size / n, variance

    monkeypatch.setattr(barker_correction, "batch_ratio", unscaled)
    assert p_value(*batches()) < FALSE_ALARM
