"""Chains of DPPenaltyMH started from the exact posterior stay there: the tests that would catch a wrong one.

Chains start at independent exact posterior draws and make 50 iterations with much noise and a wide clip; see
`chains.p_value`. The controls (penalty term dropped; noise doubled without correction) must fail the same
test.
"""

import math

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.kernels import metropolis as kernel
from tests.conftest import NUMBA
from tests.statistical import chains
from tests.statistical.chains import FALSE_ALARM

CHAINS, ITERATIONS = 1000, 50
pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")  # debug_seed

TARGETS = {
    "banana": chains.of_banana,
    "correlated": lambda: chains.of_gaussian(5, 0.05, 0.1 * np.eye(5) + 0.9, seed=4),
    "skewed": chains.of_rate,
    "tempered": lambda: chains.of_gaussian(2, 0.2, np.eye(2), tempering=0.4, seed=6),
}


def p_value(target, proposal, noise_std=1.5):
    """Of chains at about `noise_std` of noise."""
    clip = 200.0  # nothing is clipped
    nm = noise_std / (2 * clip * target.arguments.get("tempering", 1.0))
    # The epsilon (a huge one) that this little noise has; the calibration then finds the noise again.
    epsilon = float(dp.privacy.gaussian.epsilon(math.sqrt(CHAINS * ITERATIONS) / nm, 1e-6))
    with target.model:
        step = dp.DPPenaltyMH(
            epsilon=epsilon,
            delta=1e-6,
            clip_bound=clip,
            chains=1,
            step_size=target.step_size,
            proposal=proposal,
            clip_fraction=False,
            debug_seed=1,
            **target.arguments,
        )
    found, accepted = chains.invariance(chains.in_numpy(step, target), target, 1, CHAINS, ITERATIONS)
    assert step.last_stats["noise_std"] == pytest.approx(noise_std, rel=0.01)
    assert 0.1 < accepted < 0.9, "the chains hardly move, or the step is tiny"
    return found


@pytest.mark.parametrize("name", TARGETS)
def test_records_in_numpy_are_those_of_the_model(name):
    assert chains.agree(TARGETS[name]())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "proposal"),
    [
        *((name, "gaussian") for name in TARGETS),
        ("correlated", "fixed_radius"),
        *(
            pytest.param(name, "fixed_radius", marks=pytest.mark.exhaustive)
            for name in ("banana", "tempered")
        ),
    ],
)
def test_invariance(name, proposal):
    assert p_value(TARGETS[name](), proposal) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("name", ["banana", pytest.param("skewed", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("control", ["no penalty term", "twice the noise"])
def test_controls_fail(name, control, monkeypatch):
    right = kernel.penalty
    if control == "no penalty term":
        monkeypatch.setattr(kernel, "penalty", lambda r, v, e: right(r, 0.0, e))
    else:
        rng = np.random.default_rng(9)
        monkeypatch.setattr(
            kernel,
            "penalty",
            lambda r, v, e: right(r + math.sqrt(3 * v) * rng.standard_normal(), v, e),
        )
    assert p_value(TARGETS[name](), "gaussian") < FALSE_ALARM


@pytest.mark.slow
def test_without_noise_it_has_the_exact_moments():
    """Sampled as a user does, compiled: means and standard deviations within 5 MCSE of a quadrature's."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = rng.random(200) < 1 / (1 + np.exp(-x @ [0.5, -0.5]))
    with pm.Model():
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
        step = dp.DPPenaltyMH(epsilon=np.inf, delta=1e-6, clip_bound=100.0, chains=2, compile_kwargs=NUMBA)
        quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}
        ours = pm.sample(6000, tune=1000, chains=2, step=step, random_seed=1, **quiet)
    assert not ours.sample_stats["is_private"].any()
    one, two = np.linspace(-1, 2, 121), np.linspace(-2, 1, 121)  # eight standard deviations each side
    grid = np.stack(np.meshgrid(one, two, indexing="ij"), axis=-1).reshape(-1, 2)
    t = grid @ x.T
    log = (y * t - np.logaddexp(0, t)).sum(axis=1) - (grid**2).sum(axis=1) / 8
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    mean = weights @ grid
    exact = {"mean": mean, "sd": np.sqrt(weights @ (grid - mean) ** 2)}
    for statistic, name in ((np.mean, "mean"), (np.std, "sd")):
        value = statistic(ours.posterior["beta"].values, axis=(0, 1))
        error = az.mcse(ours, method=name)["beta"].values
        assert np.all(np.abs(value - exact[name]) < 5 * error)
        assert np.all(error < 0.02), "too few effective draws to say anything"
