"""Data in parts, and the model of a part, for processes that import this file."""

from itertools import pairwise

import numpy as np
import pymc as pm

import pymc_dp as dp
from tests.conftest import simple_data

SECRET = 31415926


def build(part):
    x, y = part
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return model


def build_that_fails(part):
    raise ValueError(f"row with the value {SECRET}")


def made_up():
    """Model of a few rows that are nobody's."""
    return build(simple_data(n=6, seed=99))


def split(part, k):
    """Parts of unequal sizes."""
    n = len(part[0])
    cuts = [0, *(n * np.arange(1, k) // k + np.arange(1, k)), n]
    return [tuple(array[a:b] for array in part) for a, b in pairwise(cuts)]


def make_step(model, draws=80, tune=0, seed=0, **kwargs):
    """A started step whose decisions are far from certain."""
    budget = {"epsilon": 50.0, "delta": 1e-6, "lipschitz": 1.0}
    if "owners" in kwargs:
        budget = {}
    with model:
        step = dp.DPPenaltyMH(**{**budget, "chains": 1, "step_size": 0.3, **kwargs})
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    return step


def walk(step, model, iterations, before=None):
    """Draws, shape (iterations, d), and whether each was accepted."""
    point, draws, accepted = model.initial_point(0), [], []
    for i in range(iterations):
        if before is not None:
            before(i)
        point, (stats,) = step.step(point)
        draws.append(step.records.ravel(point))
        accepted.append(stats["accepted"])
    return np.array(draws), np.array(accepted)
