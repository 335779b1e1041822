"""expected_accuracy: from simulated rows alone, and about what then happens."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pymc_dp.control_variates import Surrogate

import pymc_dp as dp
from pymc_dp import planning
from pymc_dp.planning import effects, of_records
from pymc_dp.plots import plot_accuracy
from pymc_dp.records.model import RecordModel

SIZE = 6_000


def simulate(n, rng):
    x = rng.uniform(-1, 1, n)
    return {"x": x, "y": (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)}


def build(rows):
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2)
        pm.Bernoulli("y", logit_p=b * rows["x"], observed=rows["y"])
    return model


@pytest.fixture(scope="module")
def records():
    return RecordModel(build(simulate(400, np.random.default_rng(0))))


def surrogate(records, noise, gradient=0.0):
    """Information 4 in units of the metric 1/2, as the noise of the gradient is."""
    return Surrogate(
        point=np.zeros(1),
        phi=np.zeros(1),
        metric=np.array([[0.5]]),
        centre=np.zeros(1),
        gradient_bound=1.0,
        hessian_bound=1.0,
        gradient=np.array([gradient]),
        gradient_noise=np.array([[noise]]),
        hessian=np.array([[-4.0]]),
        hessian_noise=0.0,
        tempering=1.0,
    )


@pytest.mark.parametrize("noise", [0.0, 0.5, 4.0])
def test_effects_against_the_law_of_the_gradient(records, noise):
    """Prior variance 4, likelihood N(g / 4, 1 / 4): widths in closed form, means by many noisy gradients."""
    wider, moved = effects(surrogate(records, noise), records)
    exact, widened = 1 / (4 + 0.25), 1 / (1 / (0.25 + noise / 16) + 0.25)
    assert wider[0] == pytest.approx(np.sqrt(widened / exact), rel=1e-6)
    rng = np.random.default_rng(1)
    means = [
        widened * surrogate(records, noise, g).public()[0][0] for g in rng.normal(0, np.sqrt(noise), 4000)
    ]
    # A standard deviation of 4000 values is known to 1.1 per cent: 6 of these.
    assert moved[0] == pytest.approx(np.std(means) / np.sqrt(exact), rel=0.067, abs=1e-12)
    if noise:
        other = effects(surrogate(records, 1.5 * noise), records)[1][0]
        assert other != pytest.approx(np.std(means) / np.sqrt(exact), rel=0.067)  # control


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_is_expected_happens(monkeypatch):
    """The table, and the line of the price, beside a release from other rows (ten models: docs/planning)."""
    monkeypatch.setattr(planning, "_TIMED", 4)
    (row,) = dp.expected_accuracy(
        build, simulate, n=SIZE, epsilons=(2.0,), repeats=1, draws=10, chains=1
    ).itertuples()
    assert row.refused == 0 and row.seconds > 0 and 0 < row.moved < 1
    model = build(simulate(SIZE, np.random.default_rng(99)))
    with model:
        step = dp.DPPenaltyMH(epsilon=2.0, delta=1e-6, control_variates=True, chains=1)
    wider, _, _ = of_records(step, 2.0, 1e-6, 7)
    assert 1 / 1.3 < wider[0] / row.wider < 1.3
    plan = step.cost(draws=10)
    said = float(str(plan).split("expect posteriors about ")[1].split()[0])
    assert 1 / 1.3 < said / row.wider < 1.3
    assert plan == type(plan).from_dict(plan.to_dict()) and "expects" not in plan.to_dict()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"build": 3}, TypeError),
        ({"simulate": simulate(100, np.random.default_rng(0))}, TypeError),
        ({"n": 10}, ValueError),
        ({"n": 1e4}, (TypeError, ValueError)),
        ({"epsilons": ()}, ValueError),
        ({"epsilons": (np.inf,)}, ValueError),
        ({"repeats": 0}, ValueError),
        ({"ledger": None}, TypeError),
        ({"data": None}, TypeError),
        ({"privacy_unit": None}, TypeError),
    ],
)
def test_arguments(arguments, error):
    with pytest.raises(error):
        dp.expected_accuracy(**({"build": build, "simulate": simulate, "n": 1000} | arguments))


def test_rows_from_elsewhere_are_noticed():
    """A build that holds records of its own, whatever is simulated: two numbers of rows do not fit."""
    own = simulate(1000, np.random.default_rng(5))
    for leak in (lambda rows: build(own), lambda rows: build({**rows, "x": np.zeros(50)})):
        with pytest.raises((dp.ModelRefusedError, ValueError)):
            dp.expected_accuracy(leak, simulate, n=1000)
    same = simulate(50, np.random.default_rng(5))
    with pytest.raises(dp.ModelRefusedError, match="50 records"):
        dp.expected_accuracy(lambda rows: build(same), simulate, n=1000)
    with pytest.raises(TypeError, match=r"pymc\.Model"):
        dp.expected_accuracy(lambda rows: None, simulate, n=1000)


def test_rows_from_the_prior():
    def covariates(n, rng):
        return {"x": rng.uniform(-1, 1, n)}

    rows = dp.FromPrior(build, covariates)(2000, np.random.default_rng(0))
    assert set(rows) == {"x", "y"} and rows["y"].shape == (2000,) and set(np.unique(rows["y"])) == {0, 1}
    again = dp.FromPrior(build, covariates)(2000, np.random.default_rng(0))
    np.testing.assert_array_equal(rows["y"], again["y"])
    other = dp.FromPrior(build, covariates)(2000, np.random.default_rng(1))
    assert (rows["y"] != other["y"]).any()


def test_plot():
    rows = [
        (n, e, p, 1 + 1 / (e * k), 1 / e, 3.0, 0.0, "")
        for n in (1000, 2000)
        for e in (1.0, 4.0)
        for k, p in ((1, "a"), (2, "b"))
    ]
    table = pd.DataFrame(
        rows, columns=["n", "epsilon", "parameter", "wider", "moved", "seconds", "refused", "why"]
    )
    for quantity in ("wider", "moved"):
        collection = plot_accuracy(table, quantity=quantity, backend="none")
        line = collection.viz["lines"].dataset["accuracy"].sel(n=1000, parameter="b").item()
        found = table[(table["n"] == 1000) & (table["parameter"] == "b")]
        np.testing.assert_allclose(line["x"], found["epsilon"])
        np.testing.assert_allclose(line["y"], found[quantity])
    with pytest.raises(ValueError, match="wider"):
        plot_accuracy(table, quantity="n")
    with pytest.raises(ValueError, match="expected_accuracy"):
        plot_accuracy(table.drop(columns="wider"))
