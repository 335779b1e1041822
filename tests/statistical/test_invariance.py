"""Chains started from the exact posterior stay there: the tests that would catch a wrong sampler.

2,000 chains start at independent exact posterior draws and make 50 iterations with much noise and a wide
clip. Each coordinate is compared with its exact distribution by Kolmogorov-Smirnov. False-alarm rate 1e-6 a
comparison. The controls (penalty term dropped; noise doubled without correction) must fail the same test.
"""

import math

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.kernels import acceptance
from tests.conftest import NUMBA

CHAINS, ITERATIONS = 2000, 50
FALSE_ALARM = 1e-6


def banana():
    """Curved: a wrong sign or a symmetric error shows."""
    reference = dp.models.banana(2, 40, a=1.0, seed=3)
    return reference.model, reference.posterior_draws, 0.6, {}


def correlated():
    """Five strongly correlated coordinates."""
    cov = 0.1 * np.eye(5) + 0.9
    reference = dp.models.gaussian_mean(5, 50, cov=cov, seed=4)
    return reference.model, reference.posterior_draws, 0.05, {}


def skewed():
    """Rate of exponential data on the log scale, with a gamma prior: skewed, Jacobian included."""
    y = np.random.default_rng(5).exponential(size=3)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 1.0, 1.0)
        pm.Exponential("y", rate, observed=y)

    def draws(size, rng):
        return np.log(rng.gamma(1.0 + y.size, 1 / (1.0 + y.sum()), size=(size, 1)))

    return model, draws, 0.8, {}


def tempered():
    """Likelihood to the power .4."""
    reference = dp.models.gaussian_mean(2, 50, tempering=0.4, seed=6)
    return reference.model, reference.posterior_draws, 0.2, {"tempering": 0.4}


def p_values(target, proposal, seed, noise_std=1.5):
    """Smallest p-value over coordinates after 50 iterations, at about `noise_std` of noise."""
    model, draws, step_size, kwargs = target
    clip = 200.0  # nothing is clipped
    tempering = kwargs.get("tempering", 1.0)
    nm = noise_std / (2 * clip * tempering)
    iterations = CHAINS * ITERATIONS
    # The epsilon (a huge one) that this little noise has; the calibration then finds the noise again.
    epsilon = float(dp.privacy.gaussian.epsilon(math.sqrt(iterations) / nm, 1e-6))
    with model:
        step = dp.DPPenaltyMH(
            epsilon=epsilon,
            delta=1e-6,
            clip_bound=clip,
            chains=1,
            step_size=step_size,
            proposal=proposal,
            clip_fraction=False,
            compile_kwargs=NUMBA,
            **kwargs,
        )
    rng = np.random.default_rng(seed)
    step.setup_chain(rng, 0, iterations)
    ends, accepted = [], 0
    for start in draws(CHAINS, rng):
        step._chain.state = None  # a new chain
        point = step.records.unravel(start)
        for _ in range(ITERATIONS):
            point, (stat,) = step.step(point)
            accepted += stat["accepted"]
        ends.append(step.records.ravel(point))
    assert stat["noise_std"] == pytest.approx(noise_std, rel=0.01)
    assert 0.1 < accepted / iterations < 0.9, "the chains hardly move, or the step is tiny"
    ends, exact = np.array(ends), draws(50_000, rng)
    return min(stats.ks_2samp(ends[:, j], exact[:, j]).pvalue for j in range(exact.shape[1]))


@pytest.mark.slow
@pytest.mark.parametrize("proposal", ["gaussian", "fixed_radius"])
@pytest.mark.parametrize("target", [banana, correlated, skewed, tempered], ids=lambda f: f.__name__)
def test_invariance(target, proposal):
    if target is skewed and proposal == "fixed_radius":
        pytest.skip("one dimension")
    assert p_values(target(), proposal, seed=1) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("target", [banana, skewed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("control", ["no penalty term", "twice the noise"])
def test_controls_fail(target, control, monkeypatch):
    right = acceptance.penalty
    if control == "no penalty term":
        monkeypatch.setattr(acceptance, "penalty", lambda r, v, e: right(r, 0.0, e))
    else:
        rng = np.random.default_rng(9)
        monkeypatch.setattr(
            acceptance,
            "penalty",
            lambda r, v, e: right(r + math.sqrt(3 * v) * rng.standard_normal(), v, e),
        )
    assert p_values(target(), "gaussian", seed=1) < FALSE_ALARM


@pytest.mark.slow
def test_without_noise_it_agrees_with_metropolis():
    """With epsilon = inf and a wide clip: means and standard deviations within 5 MCSE of pm.Metropolis."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    y = rng.random(200) < 1 / (1 + np.exp(-x @ [0.5, -0.5]))
    with pm.Model():
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
        step = dp.DPPenaltyMH(epsilon=np.inf, delta=1e-6, clip_bound=100.0, chains=2, compile_kwargs=NUMBA)
        quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}
        ours = pm.sample(10_000, tune=1000, chains=2, step=step, random_seed=1, **quiet)
        theirs = pm.sample(10_000, tune=1000, chains=2, step=pm.Metropolis(), random_seed=2, **quiet)
    import arviz as az

    assert not ours.sample_stats["is_private"].any()
    for statistic, mcse in ((np.mean, "mean"), (np.std, "sd")):
        values = [statistic(i.posterior["beta"].values, axis=(0, 1)) for i in (ours, theirs)]
        errors = [az.mcse(i, method=mcse)["beta"].values for i in (ours, theirs)]
        assert np.all(np.abs(values[0] - values[1]) < 5 * np.hypot(*errors))
        assert np.all(np.hypot(*errors) < 0.02), "too few effective draws to say anything"
