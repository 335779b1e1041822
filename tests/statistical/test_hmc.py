"""DPHMC leaves the exact posterior invariant, with noise on the gradients and on the ratio.

Chains start at independent exact posterior draws; after some iterations each coordinate is compared with its
exact distribution by Kolmogorov-Smirnov. False-alarm rate 1e-6 a comparison. The controls must fail.
"""

import math

import numpy as np
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.kernels import acceptance
from pymc_dp.steps import hmc as hmc_module
from tests.conftest import NUMBA

FALSE_ALARM = 1e-6
BOUND = 400.0  # nothing is clipped


def banana():
    reference = dp.models.banana(2, 40, a=1.0, seed=3)
    # model, draws, step size, leapfrog steps, mass, noise of gradients and ratios, chains, iterations
    return reference, {"step_size": 0.2, "n_leapfrog": 3}, (1.0, 3.0), 1200, 25


def correlated():
    cov = 0.1 * np.eye(10) + 0.9
    reference = dp.models.gaussian_mean(10, 50, cov=cov, seed=4)
    return reference, {"step_size": 0.05, "n_leapfrog": 4}, (4.0, 3.0), 1000, 25


def p_values(target, seed, monkeypatch=None):
    """Smallest p-value over coordinates."""
    reference, kwargs, (gradient_std, ratio_std_per_distance), chains, iterations = target
    nm_gradient, nm_ratio = gradient_std / (2 * BOUND), ratio_std_per_distance / (2 * BOUND)
    total = chains * iterations
    gradients, ratios = (total * kwargs["n_leapfrog"] + 1) / nm_gradient**2, total / nm_ratio**2
    epsilon = float(dp.privacy.gaussian.epsilon(math.sqrt(gradients + ratios), 1e-6))
    with reference.model:
        step = dp.DPHMC(
            epsilon=epsilon,
            delta=1e-6,
            lipschitz=BOUND,
            gradient_share=gradients / (gradients + ratios),
            chains=1,
            clip_fraction=False,
            compile_kwargs=NUMBA,
            **kwargs,
        )
    rng = np.random.default_rng(seed)
    step.setup_chain(rng, 0, total)
    assert step.plan.parameters["gradient_noise_multiplier"] == pytest.approx(nm_gradient, rel=0.01)
    ends, accepted = [], 0
    for start in reference.posterior_draws(chains, rng):
        step._chain.state = step._chain.memory = None  # a new chain
        point = step.records.unravel(start)
        for _ in range(iterations):
            point, (stat,) = step.step(point)
            accepted += stat["accepted"]
        ends.append(step.records.ravel(point))
    assert 0.05 < accepted / total < 0.95, accepted / total
    ends, exact = np.array(ends), reference.posterior_draws(50_000, rng)
    values = [stats.ks_2samp(ends[:, j], exact[:, j]).pvalue for j in range(exact.shape[1])]
    # The energy too: a test that accepts too much heats the chain.
    energy = [[step.records.full_batch.at(x) for x in draws] for draws in (ends, exact[:5000])]
    energy = [[rows.sum() + log_prior for rows, log_prior in pairs] for pairs in energy]
    values.append(stats.ks_2samp(*energy).pvalue)
    return min(values)


@pytest.mark.slow
@pytest.mark.parametrize("target", [banana, correlated], ids=lambda f: f.__name__)
def test_invariance(target):
    assert p_values(target(), seed=1) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("control", ["gradient of the wrong end", "no kinetic energy"])
def test_controls_fail(control, monkeypatch):
    if control == "gradient of the wrong end":
        run, penalty, last = hmc_module.Trajectories.run, acceptance.penalty, {}

        def wrong(self, theta, gradient, momentum, gradient_at):
            # After a rejection, the gradient at the end that was not taken.
            if last.get("rejected") and np.array_equal(theta, last["start"]):
                gradient = last["end"]
            new, end, momentum = run(self, theta, gradient, momentum, gradient_at)
            last.update(start=theta, end=end)
            return new, end, momentum

        def judged(ratio, variance, exponential):
            last["rejected"] = not penalty(ratio, variance, exponential)
            return not last["rejected"]

        monkeypatch.setattr(hmc_module.Trajectories, "run", wrong)
        monkeypatch.setattr(acceptance, "penalty", judged)
    else:
        monkeypatch.setattr(hmc_module.Trajectories, "kinetic_energy", lambda self, p: 0.0)
    assert p_values(banana(), seed=1) < FALSE_ALARM
