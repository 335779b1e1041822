"""Chains of DPFastMH started from the exact posterior stay there, with batches that make the test noisy.

Chains start at independent exact posterior draws and make 25 iterations; see `chains.p_value`. The controls
must fail. (That the log-ratio must be an inverse hyperbolic tangent shows in tests/test_tuna.py, not here: a
linear one moves this posterior by less than so many chains can tell.)
"""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.kernels import metropolis as kernel
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import PrivacyPlan
from pymc_dp.privacy.budget.remaining import Budget
from pymc_dp.privacy.mechanisms.iterations import Barker, OnTunaBatches
from pymc_dp.privacy.mechanisms.randomness import TunaBatches
from pymc_dp.ratios import tuna
from tests.statistical import chains
from tests.statistical.chains import FALSE_ALARM

CHAINS, ITERATIONS = 1250, 25
pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")  # debug_seed


def of_laplace():
    """Skewed; a record's ratio is plus or minus the Lipschitz bound unless it is crossed: coarse batches."""
    y = np.array([-0.5, 0.0, 0.2, 1.5, 3.5, 4.0])
    with pm.Model() as model:
        theta = pm.Gumbel("theta", 0.0, 1.5)
        pm.Laplace("y", theta, 1.0, observed=y)
    grid = np.linspace(-15, 25, 200_001)
    log_likelihood = -np.abs(y[:, None] - grid).sum(axis=0)
    return chains.on_a_line(model, lambda t: -np.abs(y - t), 0.0, 1.5, log_likelihood, grid, 1.0)


def laplace():
    return of_laplace(), {"lipschitz": 1.0, "step_size": 1.0}, (1.6, 0.25)


def laplace_with_constant_clip():
    """The same; noise of the penalty test then has one size."""
    return of_laplace(), {"clip_bound": 4.0, "step_size": 1.0}, (4.0, 0.25)


def curved():
    """Banana in two dimensions, with a clip that clips nothing."""
    target = chains.of_banana()
    return target, {"clip_bound": 1.5, "step_size": target.step_size}, (1.5, 0.3)


def p_value(case, monkeypatch, *, epsilon=1.0, on_batches=True, **kwargs):
    """With batches that no budget would choose."""
    target, settings, (bound, rate) = case()
    noise_std = 3.0 if kwargs.get("test") == "penalty" else 0.0 if np.isinf(epsilon) else None
    batches = TunaBatches(rate + bound, bound)
    mechanism = OnTunaBatches(batches, 1, noise_std=noise_std) if on_batches else Barker(np.inf, bound)
    monkeypatch.setattr(
        pricing, "fast_mh", lambda call, **_: Budget(replace(call, epsilon=np.inf)).plan(mechanism)
    )
    # What such batches cost is nobody's budget: this is about the law of what runs.
    monkeypatch.setattr(PrivacyPlan, "checked", lambda plan, call, who: plan)
    with target.model:
        step = dp.DPFastMH(
            epsilon=epsilon,
            delta=1e-6,
            chains=1,
            proposal="gaussian",
            adapt_step_size=False,
            debug_seed=1,
            **settings,
            **kwargs,
        )
    found, accepted = chains.invariance(chains.in_numpy(step, target), target, 1, CHAINS, ITERATIONS)
    assert 0.05 < accepted < 0.9, "the chains hardly move, or the step is tiny"
    return found


@pytest.mark.parametrize("case", [laplace, curved], ids=lambda f: f.__name__)
def test_records_in_numpy_are_those_of_the_model(case):
    assert chains.agree(case()[0])


@pytest.mark.slow
@pytest.mark.parametrize("case", [laplace, curved], ids=lambda f: f.__name__)
def test_barker_on_batches(case, monkeypatch):
    assert p_value(case, monkeypatch) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "kwargs"),
    [
        (laplace_with_constant_clip, {"test": "penalty"}),
        (laplace, {"epsilon": np.inf}),
        (laplace, {"on_batches": False}),
    ],
    ids=["penalty", "TunaMH", "Barker on all records"],
)
def test_other_tests(case, kwargs, monkeypatch):
    assert p_value(case, monkeypatch, **kwargs) > FALSE_ALARM


def keeping_alike(ratios, bound, batches, uniforms):
    """Draws are kept with the same probability whatever their ratio."""
    w = np.clip(ratios, -bound, bound)
    kept = uniforms < batches.spread / (2 * batches.inclusion)
    return float(np.sum(2 * np.arctanh(w[kept] / batches.spread)))


@pytest.mark.slow
def test_controls_fail(monkeypatch):
    """Draws kept alike, whatever their ratio; noise that the test does not correct for."""
    right = kernel.penalty
    with monkeypatch.context() as patched:
        patched.setattr(tuna, "log_ratio", keeping_alike)
        assert p_value(laplace, patched) < FALSE_ALARM
    with monkeypatch.context() as patched:
        patched.setattr(kernel, "penalty", lambda ratio, variance, draw: right(ratio, 0.0, draw))
        assert p_value(laplace_with_constant_clip, patched, test="penalty") < FALSE_ALARM
