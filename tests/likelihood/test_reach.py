"""Searches that start far from the parameters."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.reach import LONGEST_STEP, Reach, longest_step


def test_a_reach_doubles_until_the_direction_turns_and_then_halves():
    reach, far, one, short = Reach(), 0.9, np.array([3.0, 0.0]), np.array([0.1, 0.0])
    assert reach.step(far, short, one) is None
    found = [reach.step(far, short, sign * one)[0] for sign in (1, 1, -1, -1, 1)]
    assert found == [0.5, 1.0, -0.5, -0.5, 0.25]
    assert reach.step(far, one, one) is None, "what is believed is farther"


def test_nearby_steps_go_by_what_is_believed():
    reach, one = Reach(), np.full(1, 0.2)
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


def observed():
    """Outcomes of several laws, by name."""
    shares, means, zero = pm.Dirichlet("shares", np.ones(2)), pm.Normal("means", shape=2), np.zeros(4)
    parts = [pm.Normal.dist(0, 1), pm.StudentT.dist(nu=3)]
    pm.NormalMixture("mixture", w=shares, mu=means, sigma=1.0, observed=zero)
    pm.Mixture("of several", w=shares, comp_dists=parts, observed=zero)
    pm.ZeroInflatedPoisson("zero-inflated", 0.5, 3.0, observed=zero.astype(int))
    pm.HurdlePoisson("hurdle", 0.5, 3.0, observed=zero.astype(int))
    pm.TruncatedNormal("truncated", means[0], 1.0, lower=0, observed=zero)
    pm.Truncated("truncated gamma", pm.Gamma.dist(2, 1), upper=9.0, observed=zero + 1)
    pm.Normal("usual", means[0], 1.0, observed=zero)


def test_steps_are_short_where_a_likelihood_has_several_modes_or_a_ridge():
    with pm.Model() as model:
        observed()
    found = {one.name: longest_step([one]) for one in model.observed_RVs}
    assert {name for name, step in found.items() if step < 0.2} == {"mixture", "of several"}
    assert {name for name, step in found.items() if 0.2 < step < 1} == {"truncated", "truncated gamma"}
    assert found["usual"] == found["hurdle"] == LONGEST_STEP
    assert longest_step(model.observed_RVs) == found["mixture"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
@pytest.mark.parametrize("short", [True, False])
def test_a_mixture_whose_components_start_as_one_is_found(short, monkeypatch):
    """Without noise; control: longer steps throw one component out of all records, and it stays there."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(500) < 0.7, rng.normal(1, 1, 500), rng.normal(4, 1, 500))
    with pm.Model() as model:
        start = {"transform": pm.distributions.transforms.ordered, "initval": [-1.0, 1.0]}
        means, sigma = pm.Normal("means", 0, 10, shape=2, **start), pm.HalfNormal("sigma", 5)
        pm.NormalMixture("y", w=pm.Dirichlet("w", np.ones(2)), mu=means, sigma=sigma, observed=y)
    if not short:
        monkeypatch.setattr("pymc_dp.likelihood.public_model.longest_step", lambda laws: LONGEST_STEP)
    likelihood = dp.release_likelihood(model, epsilon=np.inf, delta=1e-6, debug_seed=0)
    most = likelihood.point + np.linalg.solve(likelihood.information, likelihood.gradient)
    found = dict(zip(likelihood.labels, most, strict=True))
    assert (abs(found["sigma_log__"]) < 0.15 and abs(found["means_ordered__[0]"] - 1) < 0.3) == short
