"""Predictions of new persons, where effects of persons were integrated; and what is refused."""

import numpy as np
import pymc as pm
import pytensor
import pytest

import pymc_dp as dp
from pymc_dp.results import facts_of
from tests.conftest import NUMBA

pytestmark = pytest.mark.slow  # a whole call
PERSONS, ROWS = 200, 3


@pytest.fixture(scope="module")
def fitted():
    """Normal outcomes, with more persons in the model than in the data, and names for all."""
    r = np.random.default_rng(1)
    ids = np.repeat(np.arange(PERSONS), ROWS)
    names = [f"name {k}" for k in range(PERSONS + 5)]
    with pm.Model(coords={"who": names}) as model:
        person, x = pm.Data("person", ids), pm.Data("x", r.normal(size=len(ids)))
        slope, tau = pm.Normal("slope", 0, 1), pm.LogNormal("tau", 0, 0.2)
        z = pm.Normal("z", 0, 1, dims="who")
        own = pm.Deterministic("own", 10 * tau * z, dims="who")
        y = 0.5 * x.get_value() + 10 * r.normal(size=PERSONS)[ids] + r.normal(size=len(ids))
        pm.Normal("y", slope * x + own[person], 1, observed=y, shape=x.shape)
        quiet = {"quiet": True, "random_seed": 1}
        with pytensor.config.change_flags(**NUMBA):
            idata = dp.sample(200, tune=200, chains=2, epsilon=4, delta=1e-5, privacy_unit="person", **quiet)
    return model, idata


def test_predictions_are_of_new_persons(fitted):
    """Two rows of one person are alike, those of two are not; no person's own effect is in them."""
    model, idata = fitted
    inputs = {"person": [7, 7, 8], "x": [0.0, 0.0, 0.0]}
    found = dp.predict(idata, model, inputs=inputs, random_seed=1)
    y = found.predictions["y"].values.reshape(-1, 3)
    assert np.corrcoef(y.T)[0, 1] > 0.9 > 0.5 > abs(np.corrcoef(y.T)[0, 2])
    tau = 10 * float(idata.posterior["tau"].mean())
    np.testing.assert_allclose(y.std(axis=0), tau, rtol=0.25)
    assert np.all(np.abs(y.mean(axis=0)) < 5 * tau / np.sqrt(len(y)))
    again = dp.predict(idata, model, inputs={**inputs, "person": [1, 1, 2]}, random_seed=1)
    assert abs(np.corrcoef(y[:, 0], again.predictions["y"].values.reshape(-1, 3)[:, 0])[0, 1]) < 0.5


def test_names_of_persons_are_not_in_predictions(fitted):
    model, idata = fitted
    found = dp.predict(idata, model, inputs={"person": [0], "x": [0.0]}, var_names=["own"], random_seed=1)
    np.testing.assert_array_equal(found.predictions["own"].coords["who"], np.arange(PERSONS + 5))


def test_predictions_at_the_ids_of_rows_are_refused(fitted):
    """Also with covariates that are public: who has how many rows is not."""
    model, idata = fitted
    with pytest.raises(dp.errors.ModelRefusedError, match="private rows"):
        dp.predict(idata, model, inputs={"x": [0.0]})
    rows = {"person": model["person"].get_value(borrow=True), "x": np.zeros(PERSONS * ROWS)}
    with pytest.raises(
        dp.errors.ModelRefusedError, match=r"as many entries as there are rows|are rows of the model"
    ):
        dp.predict(idata, model, inputs=rows)


def test_what_needs_a_likelihood_of_rows_is_refused_before_it_is_paid(fitted, tmp_path):
    model, idata = fitted
    assert facts_of(idata)["integrated"] == ["z"]
    ledger = dp.Ledger(tmp_path / "ledger", epsilon=9, delta=1e-4, privacy_unit="person")
    given = {"epsilon": 1.0, "delta": 1e-6, "privacy_unit": "person", "ledger": ledger}
    with pytest.raises(dp.errors.ModelRefusedError, match="'z' was integrated"):
        dp.check(idata, model, **given)
    with pytest.raises(dp.errors.ModelRefusedError, match="'z' was integrated"):
        dp.compare({"a": (idata, model), "b": (idata, model)}, **given)
    assert not ledger.entries()


def test_a_model_without_the_effect_is_another(fitted):
    _, idata = fitted
    with pm.Model() as other:
        pm.Normal("slope", 0, 1)
        pm.Normal("more", 0, 1)
        pm.Normal("y", pm.LogNormal("tau", 0, 0.2), 1, observed=np.zeros(9))
    with pytest.raises(dp.errors.PrivacyError, match="another model"):
        dp.predict(idata, other)
