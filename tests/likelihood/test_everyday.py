"""Everyday models, released and sampled: finite, without a warning, and the truth is where they say."""

import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from benchmarks.gallery import counts, groups, regressions, shapes  # noqa: F401
from benchmarks.gallery.gallery import GALLERY
from pymc_dp.records.model import RecordModel
from pymc_dp.records.twins import Twins

# Posterior standard deviations: with fixed seeds nothing is left to chance.
FAR = 6.0


def made(name, n=1000):
    return GALLERY[name](np.random.default_rng(1), n)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["linear", "far_start", "student_t", "hurdle_poisson", "slopes_by_group", "censored_survival"]
)
def test_a_release_and_its_posterior(name):
    model, truth = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dp.NotPrivateWarning)  # a debug seed
        likelihood = dp.release_likelihood(model, epsilon=4, delta=1e-6, debug_seed=1)
        sampled = pm.sample(
            300,
            tune=500,
            model=likelihood.model(),
            chains=2,
            cores=1,
            random_seed=1,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
    posterior = sampled["posterior"]
    for parameter, true in truth.items():
        values = posterior[parameter].to_numpy().reshape(-1, *np.shape(true))
        assert np.all(np.isfinite(values))
        apart = np.abs(values.mean(axis=0) - true) / values.std(axis=0)
        assert np.max(apart) < FAR, parameter


@pytest.mark.parametrize(("name", "most"), [("student_t", 3), ("slopes_by_group", 3), ("linear", 5)])
def test_coordinates_that_a_unit_touches(name, most):
    """A look-up touches one."""
    assert Twins(RecordModel(made(name, 60)[0], verify=False)).touched == most


def test_two_lookups_in_one_table_touch_two():
    """Intercept and slope of a county: what two look-ups do not touch is more than there is."""
    twins = Twins(RecordModel(made("radon_with_lkj", 60)[0], verify=False))
    assert sum(len(place) - 1 for place in twins.lookups) >= twins.size
    assert 2 < twins.touched <= twins.size
