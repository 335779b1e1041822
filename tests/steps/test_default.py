"""The step that `dp.sample` makes where it is given none."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.steps import default


@pytest.fixture
def model():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 2)
        pm.Normal("y", mean, 1, observed=np.zeros(20_000))
    return model


@pytest.mark.parametrize(
    ("many", "relation", "kind"),
    [(20_000, "substitute", dp.DPPenaltyMH), (19_999, "substitute", dp.DPFastMH)],
)
def test_batches_where_records_are_many(model, monkeypatch, caplog, many, relation, kind):
    monkeypatch.setattr(default, "MANY", many)
    kwargs = {"model": model, "label": "study", "neighboring_relation": relation, "random_seed": 1}
    with caplog.at_level("INFO", logger="pymc"):
        step = default.default_step(1.0, 1e-6, kwargs, quiet=False)
    assert type(step) is kind
    assert (step.epsilon, step.delta, step.chains, step.label) == (1.0, 1e-6, 2, "study")
    assert step.residuals is not None
    assert kwargs == {"model": model, "random_seed": 1}
    assert kind.__name__ in caplog.text
    assert ("batch" in caplog.text) is (kind is dp.DPFastMH)


def test_what_is_given_wins_and_quiet_is_quiet(model, caplog):
    with caplog.at_level("INFO", logger="pymc"):
        step = default.default_step(2.0, 1e-6, {"model": model, "chains": 1}, quiet=True)
    assert step.chains == 1
    assert repr(step) == "<DPPenaltyMH with control variates: epsilon=2.0, delta=1e-06, chains=1>"
    assert not caplog.text


def test_arguments_that_do_not_go_together(model):
    step = default.default_step(1.0, 1e-6, {"model": model}, quiet=True)
    with pytest.raises(TypeError, match="a step has its own"):
        dp.sample(step, epsilon=1.0)
    with pytest.raises(TypeError, match="a number of draws and a private step"):
        dp.sample("1000", epsilon=1.0, model=model)
    with pytest.raises(TypeError, match="neither it nor"):
        dp.sample(10, epsilon=1.0, temperature=2, model=model)
    with pytest.raises(TypeError, match="needs epsilon="):
        dp.sample(model=model)
