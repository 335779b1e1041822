"""Small fits: what is tested is not how good they are."""

import functools

import numpy as np
import pymc as pm

import pymc_dp as dp
from tests.known_noise import known_noise

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}
N = 400


def data(seed=3):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=N)
    return x, 1.5 * x + rng.normal(size=N)


def line(x, y, slope=True):
    """A regression through zero, or its standard deviation alone."""
    with pm.Model() as model:
        inputs = pm.Data("x", x)
        b = pm.Normal("b", 0, 2) if slope else 0.0
        sd = pm.HalfNormal("sd", 2)
        pm.Normal("y", b * inputs, sd, observed=y, shape=inputs.shape[0])
    return model


def fit(model, draws=60, **kwargs):
    """A short chain, near the truth, with little noise."""
    settings = {"epsilon": 50.0, "delta": 1e-6, "clip_bound": 0.3, "chains": 1, "step_size": 0.05, **kwargs}
    settings.setdefault("release", "noisy_ratio")  # its price is found at once
    with model:
        step = dp.DPPenaltyMH(adapt_step_size=False, **settings)
    start = {rv.name: np.ones(()) for rv in model.free_RVs}
    return dp.sample(step, draws=draws, tune=0, initvals=start, random_seed=1, **QUIET)


@functools.cache
def pair():
    """The regression and its smaller neighbour, fitted."""
    x, y = data()
    models = {"slope": line(x, y), "none": line(x, y, slope=False)}
    with known_noise("pair"):
        return {name: (fit(model), model) for name, model in models.items()}
