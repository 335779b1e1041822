"""Predictions at public inputs, and what says that it must not be published."""

import importlib
import warnings

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_dp as dp
from pymc_dp.results import facts_of
from pymc_dp.sampling import notice
from tests.evaluation.fits import N, data, fit, pair

GRID = [-1.0, 0.0, 1.0]


def with_coords(x, y, **kwargs):
    with pm.Model(coords={"patient": np.arange(N)}) as model:
        inputs = pm.Data("x", x, dims="patient")
        b = pm.Normal("b", 0, 2)
        pm.Deterministic("mu", b * inputs, dims="patient")
        pm.Deterministic("twice", 2 * b)
        pm.Normal("y", b * inputs, 1, observed=y, dims="patient")
    return model, fit(model, exclude_deterministics=["mu"], **kwargs)


@pytest.fixture(scope="module")
def fitted():
    return with_coords(*data())


@pytest.fixture(scope="module")
def predicted(fitted):
    model, idata = fitted
    return dp.predict(
        idata,
        model,
        inputs={"x": GRID},
        coords={"patient": ["a", "b", "c"]},
        var_names=["y", "mu"],
        random_seed=1,
    )


def test_predictions_are_of_released_draws_with_dims_and_coords(fitted, predicted):
    model, idata = fitted
    mu, b = predicted.predictions["mu"], idata.posterior["b"]
    assert mu.dims == ("chain", "draw", "patient") and list(mu.coords["patient"].values) == ["a", "b", "c"]
    np.testing.assert_allclose(mu, b.values[..., None] * GRID)
    y = predicted.predictions["y"]
    assert 0.5 < float((y - mu).std()) < 2 and y.sizes == mu.sizes
    np.testing.assert_array_equal(predicted.predictions_constant_data["x"], GRID)
    np.testing.assert_array_equal(model["x"].get_value(), data()[0])  # not changed
    np.testing.assert_array_equal(model.dim_lengths["patient"].eval(), N)


def test_predictions_carry_the_guarantee(predicted, tmp_path):
    file = tmp_path / "predictions.nc"
    predicted.to_netcdf(file, engine="netcdf4")
    for tree in (predicted, xr.open_datatree(file, engine="netcdf4"), dp.release(predicted)):
        report = dp.privacy_report(tree)
        assert report.not_released == [] and not report.changed and "Predictions" in str(report)
        assert "(50, 1e-06)-differential privacy" in tree.attrs["privacy"]
    other = predicted.copy(deep=True)
    other["predictions"]["y"].values[...] = 0.0
    assert dp.privacy_report(other).changed


def test_default_is_the_observed_variables(fitted):
    model, idata = fitted
    found = dp.predict(idata, model, inputs={"x": GRID})
    assert list(found.predictions.data_vars) == ["y"]
    assert dp.predict(idata, model, var_names=["twice"]).predictions["twice"].shape == (1, 60)


def test_private_rows_are_refused_before_anything_is_computed(fitted, monkeypatch):
    model, idata = fitted
    monkeypatch.setattr(pm, "sample_posterior_predictive", None)
    for kwargs, match in [
        ({}, "'y' reads private rows"),
        ({"var_names": ["twice", "mu"]}, "'mu' reads private rows: one value for each record"),
        ({"inputs": {"x": np.zeros(N)}}, "as many entries as there are rows"),
    ]:
        with pytest.raises(dp.errors.ModelRefusedError, match=match):
            dp.predict(idata, model, **kwargs)
    with pytest.raises(ValueError, match="inputs names"):
        dp.predict(idata, model, inputs={"z": GRID})
    with pytest.raises(ValueError, match="var_names"):
        dp.predict(idata, model, inputs={"x": GRID}, var_names=["b"])
    with pytest.raises(dp.errors.PrivacyError, match="another model"):
        dp.predict(idata, pair()["slope"][1], inputs={"x": GRID})


def test_python_code_is_refused():
    _, y = data()
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2)

        def logp(value, b):
            return -0.5 * (value - b) ** 2

        pm.CustomDist("y", b, logp=logp, random=lambda *args, **kwargs: y[:3], observed=y)
    with pytest.raises(dp.errors.ModelRefusedError, match="may hold data"):
        dp.predict(fit(model), model)


def test_the_number_of_rows_is_refused_where_it_is_private():
    _, y = data()
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("b", 0, 2), 1, observed=y)
    dp.predict(fit(model), model)  # n is public
    with pytest.raises(dp.errors.ModelRefusedError, match="would be at private rows"):
        dp.predict(fit(model, neighboring_relation="add_remove"), model)


def test_what_pymc_adds_to_a_result_is_found(fitted, tmp_path):
    model, idata = fitted
    idata = idata.copy()
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pm.compute_log_likelihood(idata, progressbar=False)
        pm.sample_posterior_predictive(idata, extend_inferencedata=True, progressbar=False)
    for said in ("Any other group is NOT covered", "pm.sample_posterior_predictive", "dp.predict"):
        assert said in idata.attrs["privacy"]
    file = tmp_path / "more.nc"
    idata.to_netcdf(file, engine="netcdf4")
    for tree in (idata, xr.open_datatree(file, engine="netcdf4")):
        report = dp.privacy_report(tree)
        assert {"log_likelihood", "posterior_predictive"} <= set(report.not_released)
        assert "DO NOT PUBLISH" in str(report)
        with pytest.warns(
            dp.errors.NotPrivateWarning, match=r"log_likelihood, .*posterior_predictive.*dp\.predict"
        ):
            assert set(dp.release(tree).children) == {"posterior", "sample_stats"}
    # A group that only predictions have is no part of a posterior's release.
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forged = fitted[1].copy()
        pm.sample_posterior_predictive(forged, predictions=True, extend_inferencedata=True, progressbar=False)
    assert "predictions" in dp.privacy_report(forged).not_released


def other_likelihood(names):
    """The same parameter; what is predicted reads no row, but has as many entries as there are rows."""
    with pm.Model(coords={"patient": names}) as model:
        b = pm.Normal("b", 0, 2)
        pm.Normal("y", b, 1, observed=data()[1], dims="patient")
    return model


def test_names_of_rows_are_not_predicted(fitted):
    """Coordinates of a dimension of records, which the release withholds, do not come with a prediction."""
    model = other_likelihood([f"patient {k}" for k in range(N)])
    for coords in (None, {"patient": [f"patient {k}" for k in range(N)]}):  # ignored: no input has it
        found = dp.predict(fitted[1], model, coords=coords).predictions["y"]
        np.testing.assert_array_equal(found.coords["patient"], np.arange(N))


def test_a_private_number_of_rows_is_no_shape_of_a_prediction(fitted, monkeypatch):
    """Said by the length of a dimension, which no static shape shows."""
    module = importlib.import_module("pymc_dp.evaluation.predict")
    monkeypatch.setattr(module, "_counts_are_public", lambda known: False)
    with pytest.raises(dp.errors.ModelRefusedError, match="whose number is private"):
        dp.predict(fitted[1], other_likelihood(np.arange(N)))
    found = dp.predict(fitted[1], fitted[0], inputs={"x": GRID})  # control
    assert found.predictions["y"].shape[2:] == (3,)


def test_no_notice_rounds_epsilon_down():
    known = facts_of(pair()["slope"][0])
    for epsilon in (0.90282137, 1.2345678, 0.5):
        text = notice({**known, "plan": {**known["plan"], "epsilon": epsilon}}, ["posterior"])
        assert float(text[1:].split(",")[0]) >= epsilon
