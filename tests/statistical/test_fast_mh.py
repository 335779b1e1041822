"""Chains of DPFastMH started from the exact posterior stay there, with batches that make the test noisy.

Chains start at independent exact posterior draws and make 25 iterations; each coordinate is compared with its
exact distribution by Kolmogorov-Smirnov. False-alarm rate 1e-6 a comparison. The controls must fail. (That
the log-ratio must be an inverse hyperbolic tangent shows in tests/test_tuna.py, not here: a linear one moves
this posterior by less than so many chains can tell.)
"""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.kernels import acceptance
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.mechanisms.drawn_batches import TunaBatches
from pymc_dp.privacy.mechanisms.iterations import Barker, OnTunaBatches
from pymc_dp.ratios import tuna
from tests.conftest import NUMBA
from tests.statistical.test_invariance import banana

CHAINS, ITERATIONS = 2500, 25
FALSE_ALARM = 1e-6


def laplace():
    """Skewed; a record's ratio is plus or minus the Lipschitz bound unless it is crossed: coarse batches."""
    y = np.array([-0.5, 0.0, 0.2, 1.5, 3.5, 4.0])
    with pm.Model() as model:
        theta = pm.Gumbel("theta", 0.0, 1.5)
        pm.Laplace("y", theta, 1.0, observed=y)
    grid = np.linspace(-15, 25, 200_001)
    log_density = stats.gumbel_r(0, 1.5).logpdf(grid) - np.abs(y[:, None] - grid).sum(axis=0)
    cdf = np.cumsum(np.exp(log_density - log_density.max()))

    def draws(size, rng):
        return np.interp(rng.random(size), cdf / cdf[-1], grid)[:, None]

    return model, draws, {"lipschitz": 1.0, "step_size": 1.0}, (1.6, 0.25)


def laplace_with_constant_clip():
    """The same; noise of the penalty test then has one size."""
    model, draws, _, _ = laplace()
    return model, draws, {"clip_bound": 4.0, "step_size": 1.0}, (4.0, 0.25)


def curved():
    """Banana in two dimensions, with a clip that clips nothing."""
    model, draws, step_size, _ = banana()
    return model, draws, {"clip_bound": 1.5, "step_size": step_size}, (1.5, 0.3)


def p_values(target, monkeypatch, *, epsilon=1.0, on_batches=True, **kwargs):
    """Smallest p-value over coordinates, with batches that no budget would choose."""
    model, draws, settings, (bound, rate) = target()
    noise_std = 3.0 if kwargs.get("test") == "penalty" else 0.0 if np.isinf(epsilon) else None
    batches = TunaBatches(rate + bound, bound)
    mechanism = OnTunaBatches(batches, 1, noise_std=noise_std) if on_batches else Barker(np.inf, bound)
    monkeypatch.setattr(
        pricing, "fast_mh", lambda call, **_: pricing.plan_of(replace(call, epsilon=np.inf), mechanism)
    )
    with model:
        step = dp.DPFastMH(
            epsilon=epsilon,
            delta=1e-6,
            chains=1,
            proposal="gaussian",
            adapt_step_size=False,
            compile_kwargs=NUMBA,
            **settings,
            **kwargs,
        )
    rng = np.random.default_rng(1)
    step.setup_chain(rng, 0, CHAINS * ITERATIONS)
    ends, accepted = [], 0
    for start in draws(CHAINS, rng):
        step._chain.state = step._arrive(step._chain, start)
        for _ in range(ITERATIONS):
            accepted += step._iterate(step._chain)[0]
        ends.append(step._chain.state.theta)
    assert 0.05 < accepted / (CHAINS * ITERATIONS) < 0.9, "the chains hardly move, or the step is tiny"
    ends, exact = np.array(ends), draws(50_000, rng)
    return min(stats.ks_2samp(ends[:, j], exact[:, j]).pvalue for j in range(exact.shape[1]))


@pytest.mark.slow
@pytest.mark.parametrize("target", [laplace, curved], ids=lambda f: f.__name__)
def test_barker_on_batches(target, monkeypatch):
    assert p_values(target, monkeypatch) > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "kwargs"),
    [
        (laplace_with_constant_clip, {"test": "penalty"}),
        (laplace, {"epsilon": np.inf}),
        (laplace, {"on_batches": False}),
    ],
    ids=["penalty", "TunaMH", "Barker on all records"],
)
def test_other_tests(target, kwargs, monkeypatch):
    assert p_values(target, monkeypatch, **kwargs) > FALSE_ALARM


def keeping_alike(ratios, bound, batches, uniforms):
    """Draws are kept with the same probability whatever their ratio."""
    w = np.clip(ratios, -bound, bound)
    kept = uniforms < batches.spread / (2 * batches.inclusion)
    return float(np.sum(2 * np.arctanh(w[kept] / batches.spread)))


@pytest.mark.slow
def test_controls_fail(monkeypatch):
    """Draws kept alike, whatever their ratio; noise that the test does not correct for."""
    right = acceptance.penalty
    with monkeypatch.context() as patched:
        patched.setattr(tuna, "log_ratio", keeping_alike)
        assert p_values(laplace, patched) < FALSE_ALARM
    with monkeypatch.context() as patched:
        patched.setattr(acceptance, "penalty", lambda ratio, variance, draw: right(ratio, 0.0, draw))
        assert p_values(laplace_with_constant_clip, patched, test="penalty") < FALSE_ALARM
