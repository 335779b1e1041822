"""Coordinates of which noise hides how many records touch them."""

from itertools import islice

import numpy as np
import pymc as pm
import pytest

from pymc_dp.likelihood import beliefs
from pymc_dp.likelihood.hidden_sizes import noise_of_sizes
from tests.conftest import NUMBA
from tests.likelihood.releases import several

BEFORE = 4.0


def posterior_variance(mean, sd, score, noise, point):
    """By sums over a grid of slopes and one of parameters, with the prior N(0, 4)."""
    slopes, thetas = np.linspace(0, mean + 8 * sd, 2001), np.linspace(-20, 20, 4001)
    of_slope = np.exp(-0.5 * ((slopes - mean) / sd) ** 2)
    errors = (score - slopes[:, None] * (thetas - point)) / noise
    density = (of_slope[:, None] * np.exp(-0.5 * errors**2)).sum(0) * np.exp(-0.5 * thetas**2 / BEFORE)
    density /= density.sum()
    return density @ thetas**2 - (density @ thetas) ** 2


def with_noise_of_sizes(mean, sd, score, noise, point, monkeypatch):
    """The posterior variance where the slope is taken to be the mean, and the result is added."""
    monkeypatch.setattr("pymc_dp.likelihood.hidden_sizes._OF_DRAWS", 1.0)
    one = np.ones(1)
    told = mean**2 / noise**2
    variance = 1 / (told + 1 / BEFORE)
    found = variance * told * (point + score / mean)
    posterior, prior = np.array([found * one, variance * one]), np.array([0 * one, BEFORE * one])
    added = noise_of_sizes(np.array([[mean], [sd]]), mean * one, posterior, prior, point * one)
    return 1 / (1 / (1 / told + added[0]) + 1 / BEFORE)


@pytest.mark.parametrize("score", [0.0, 30.0])
def test_a_slope_that_may_be_zero_says_little(score, monkeypatch):
    """The mixture over smaller slopes; larger ones than assumed are not counted as more."""
    unsure = with_noise_of_sizes(60.0, 60.0, score, 25.0, 0.5, monkeypatch)
    exact = posterior_variance(60.0, 60.0, score, 25.0, 0.5)
    sure = with_noise_of_sizes(60.0, 3.0, score, 25.0, 0.5, monkeypatch)
    assert 0.8 * exact < unsure < 1.4 * exact
    np.testing.assert_allclose(sure, posterior_variance(60.0, 3.0, score, 25.0, 0.5), rtol=0.1)
    assert unsure > 3 * sure


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_a_group_without_records_is_openly_unknown(monkeypatch):
    """It was "usable" with a standard deviation of a tenth of the prior's, anywhere."""
    rng = np.random.default_rng(4)
    group = rng.integers(0, 5, 2000)
    with pm.Model() as model:
        level = pm.Normal("level", 0, 2, shape=6)
        pm.Normal("y", level[group], pm.HalfNormal("sigma"), observed=rng.normal(0.3 * group, 1))

    def deviation(one):
        prior = np.diag([0.25 if name.startswith("level") else 0.0 for name in one.labels])
        sizes = np.sqrt(np.diag(np.linalg.inv(one.information + prior)))
        return sizes[one.labels.index("level[5]")]

    seeds = (2, 3, 6, 7)
    found = map(deviation, several(model, (*seeds, *seeds), compile_kwargs=NUMBA))
    assert min(islice(found, len(seeds))) > 1.1
    monkeypatch.setattr(beliefs, "untold", lambda one, *_: np.zeros((len(one.point), 1)))  # the control
    assert max(found) < 0.95
