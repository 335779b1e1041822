"""Searches that start far from the parameters."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.reach import Reach


def test_a_reach_doubles_until_the_direction_turns_and_then_halves():
    reach, far, one = Reach(), 0.9, np.array([3.0, 0.0])
    assert reach.step(far, np.array([0.1, 0.0]), one) is None
    found = [reach.step(far, one, sign * one)[0] for sign in (1, 1, -1, -1, 1)]
    assert found == [0.5, 1.0, -0.5, -0.5, 0.25]


def test_nearby_steps_go_by_what_is_believed():
    reach, one = Reach(), np.ones(1)
    assert all(reach.step(0.45, one, one) is None for _ in range(4))
    assert reach.step(0.6, one, one) is None
    assert reach.step(0.3, one, one) is None, "one round alone says little: a ridge may start like this"
    assert reach.step(0.6, one, one) is None
    assert reach.step(0.6, one, one) is not None
    assert reach.step(0.3, one, one) is not None, "it stays until few records pull"
    assert reach.step(0.1, one, one) is None


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
@pytest.mark.parametrize("mean", [200, 500])
def test_counts_in_the_hundreds_are_found(mean, monkeypatch):
    """With steps in units of what one record tells all was paid for nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=5_000)
    with pm.Model() as model:
        rate = pm.math.exp(pm.Normal("a", 0, 5) + pm.Normal("b", 0, 1) * x)
        pm.Poisson("y", rate, observed=rng.poisson(mean * np.exp(0.3 * x)))

    def release():
        return dp.release_likelihood(model, epsilon=1, delta=1e-6, debug_seed=0)

    likelihood = release()
    covariance = np.linalg.inv(likelihood.information + np.diag([1 / 25, 1]))
    found = covariance @ (likelihood.information @ likelihood.point + likelihood.gradient)
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(found - [np.log(mean), 0.3]) < 4.5 * sd)
    assert np.all(sd < 0.01)
    monkeypatch.setattr(Reach, "step", lambda *_: None)  # control
    assert not release().information.any()
