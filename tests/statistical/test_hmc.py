"""DPHMC leaves the exact posterior invariant, with noise on the gradients and on the ratio.

Chains start at independent exact posterior draws; see `chains.p_value`. The controls must fail.
"""

import math

import numpy as np
import pytest

import pymc_dp as dp
from pymc_dp.kernels import metropolis as kernel
from pymc_dp.steps import hmc as hmc_module
from tests.statistical import chains
from tests.statistical.chains import FALSE_ALARM

BOUND = 400.0  # nothing is clipped
CHAINS, ITERATIONS = 600, 25
pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")  # debug_seed


def banana():
    # target, leapfrog steps, noise of gradients, noise of ratios per distance
    return chains.of_banana(), 0.2, 3, 1.0, 3.0


def correlated():
    return chains.of_gaussian(5, 0.05, 0.1 * np.eye(5) + 0.9, seed=4), 0.05, 4, 4.0, 3.0


def p_value(case):
    target, step_size, n_leapfrog, gradient_std, ratio_std_per_distance = case()
    nm_gradient, nm_ratio = gradient_std / (2 * BOUND), ratio_std_per_distance / (2 * BOUND)
    total = CHAINS * ITERATIONS
    gradients, ratios = (total * n_leapfrog + 1) / nm_gradient**2, total / nm_ratio**2
    epsilon = float(dp.privacy.gaussian.epsilon(math.sqrt(gradients + ratios), 1e-6))
    with target.model:
        step = dp.DPHMC(
            epsilon=epsilon,
            delta=1e-6,
            lipschitz=BOUND,
            gradient_share=gradients / (gradients + ratios),
            chains=1,
            clip_fraction=False,
            step_size=step_size,
            n_leapfrog=n_leapfrog,
            adapt_step_size=False,
            debug_seed=1,
        )
    found, accepted = chains.invariance(chains.in_numpy(step, target), target, 1, CHAINS, ITERATIONS)
    assert step.plan.parameters["gradient_noise_multiplier"] == pytest.approx(nm_gradient, rel=0.01)
    assert 0.05 < accepted < 0.95, accepted
    return found


@pytest.mark.parametrize("case", [banana, correlated], ids=lambda f: f.__name__)
def test_records_in_numpy_are_those_of_the_model(case):
    assert chains.agree(case()[0])


@pytest.mark.slow
@pytest.mark.parametrize("case", [banana, correlated], ids=lambda f: f.__name__)
def test_invariance(case):
    assert p_value(case) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("control", ["gradient of the wrong end", "no kinetic energy"])
def test_controls_fail(control, monkeypatch):
    if control == "gradient of the wrong end":
        run, penalty, last = hmc_module.Trajectories.run, kernel.penalty, {}

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
        monkeypatch.setattr(kernel, "penalty", judged)
    else:
        monkeypatch.setattr(hmc_module.Trajectories, "kinetic_energy", lambda self, p: 0.0)
    assert p_value(banana) < FALSE_ALARM
