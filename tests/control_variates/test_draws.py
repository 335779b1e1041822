"""What is stored of a surrogate, and draws from it."""

import numpy as np
import pymc as pm
import pytest
from xarray import open_datatree

import pymc_dp as dp
from pymc_dp.records.model import RecordModel
from pymc_dp.records.public_density import PublicDensity
from tests.conftest import logistic_model

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
DRAWS = 1200


@pytest.fixture(scope="module")
def result():
    model = logistic_model(n=400)
    model.add_coords({"effect": ["slope", "other"]})
    model.named_vars_to_dims["beta"] = ("effect",)
    step = dp.DPPenaltyMH(epsilon=200.0, delta=1e-6, chains=1, control_variates=True, model=model)
    return model, step, dp.sample(step, draws=8, tune=0, random_seed=1, cores=1, model=model, **QUIET)


@pytest.mark.slow
@pytest.mark.usefixtures("little_tuning")
def test_a_surrogate_survives_release_and_a_file(result, tmp_path):
    _, step, idata = result
    dp.release(idata).to_netcdf(tmp_path / "released.nc", engine="netcdf4")
    from_file = open_datatree(tmp_path / "released.nc", engine="netcdf4")
    for stored in (idata, dp.release(idata), from_file):
        found = dp.surrogate_of(stored)
        for name, value in vars(step.surrogate).items():
            np.testing.assert_array_equal(getattr(found, name), value)
    assert "surrogate (noisy gradient" in " ".join(str(dp.privacy_report(from_file)).split())


@pytest.mark.slow
def test_draws_are_of_prior_times_surrogate(result):
    """Moments against quadrature, z scores with the chain's effective size taken as a fifth of the draws."""
    model, step, idata = result
    draws = dp.surrogate_draws(idata, model, DRAWS, random_seed=3)
    assert draws.attrs["target"].startswith("prior times released surrogate")
    (name,) = draws.data_vars
    assert draws[name].dims == idata.posterior[name].dims == ("chain", "draw", "effect")
    assert list(draws["effect"].values) == ["slope", "other"] and draws.sizes["draw"] == len(draws["draw"])
    x = draws[name].to_numpy()
    assert x.shape == (1, DRAWS, 2)
    mean, sd = moments(step.surrogate)
    z = (x[0].mean(axis=0) - mean) / (sd / np.sqrt(DRAWS / 5))
    assert np.all(np.abs(z) < 5)  # false alarms: below 1e-6
    np.testing.assert_allclose(x[0].std(axis=0), sd, rtol=0.15)
    # controls: the likelihood alone, or the prior alone, would be noticed
    assert not np.allclose(x[0].std(axis=0), 2.0, rtol=0.15)
    assert np.abs((x[0].mean(axis=0) - mean - 0.5 * sd) / (sd / np.sqrt(DRAWS / 5))).min() > 5


@pytest.mark.slow
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.usefixtures("little_tuning")
def test_other_data_in_the_model_change_no_draw(result, both):
    """After `pm.set_data`, also where inputs to predict at have another length than what was observed."""
    _, _, idata = result
    known = dp.surrogate_draws(idata, result[0], 20, random_seed=3)
    with pm.Model() as model:
        x = pm.Data("x", np.ones((400, 2)))
        y = pm.Data("y_seen", np.zeros(400, int))
        beta = pm.Normal("beta", 0, 2, shape=2)
        pm.Bernoulli("y", logit_p=x @ beta, observed=y, shape=x.shape[0])
        pm.set_data({"x": np.zeros((7, 2)), "y_seen": np.zeros(7, int)} if both else {"x": np.zeros((7, 2))})
    found = dp.surrogate_draws(idata, model, 20, random_seed=3)
    np.testing.assert_array_equal(found["beta"], known["beta"])


def test_a_density_adds_nothing_to_the_model_in_context():
    """Chains one after another in `with model:` were refused: moves had put variables into it."""
    model = logistic_model(n=20)
    names = set(model.named_vars)
    with model:
        assert "theta" in PublicDensity(RecordModel(model)).model.named_vars
    assert set(model.named_vars) == names


def moments(surrogate):
    """Gaussian prior N(0, 2^2) times the quadratic."""
    slope, curvature = surrogate.public()
    precision = np.eye(2) / 4 - curvature
    mean = np.linalg.solve(precision, slope - curvature @ surrogate.point)
    return mean, np.sqrt(np.diag(np.linalg.inv(precision)))


def test_other_results_are_refused(result, monkeypatch):
    _, _, idata = result
    with pm.Model() as other:
        beta = pm.Normal("beta", 0, 2, shape=3)
        pm.Bernoulli("y", logit_p=np.ones((400, 3)) @ beta, observed=np.arange(400) % 2)
    with pytest.raises(dp.PrivacyError, match="another model"):
        dp.surrogate_draws(idata, other)
    with pytest.raises(ValueError, match="draws"):
        dp.surrogate_draws(idata, other, 0)
    monkeypatch.setattr("pymc_dp.more_draws.facts_of", lambda idata: {})
    with pytest.raises(dp.PrivacyError, match="no surrogate"):
        dp.surrogate_of(idata)
