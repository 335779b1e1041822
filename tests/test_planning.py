"""expected_accuracy and expected_width: from simulated rows or from numbers alone, and what then happens."""

import math

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.likelihood.mixtures import Message
from pymc_dp.likelihood.rounds import Found
from pymc_dp.planning import Releases
from pymc_dp.plots import plot_accuracy

SETTINGS = {
    "exclude_deterministics": (),
    "public": (),
    "trusted_ops": (),
    "neighboring_relation": "substitute",
}


def simulate(n, rng):
    x = rng.uniform(-1, 1, n)
    return {"x": x, "y": (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)}


def build(rows):
    with pm.Model() as model:
        b = pm.Normal("b", 0, 2)
        pm.Bernoulli("y", logit_p=b * rows["x"], observed=rows["y"])
    return model


@pytest.mark.slow
def test_a_release_without_noise_is_the_posterior_without_privacy():
    """What widths are compared with: mode and curvature of a logistic regression, in closed form."""
    rows = simulate(3000, np.random.default_rng(3))
    releases = Releases(build(rows), 3000, 1e-6, SETTINGS)
    (found, _), x, y, b = releases(math.inf, 1), rows["x"], rows["y"], 0.0
    for _ in range(20):
        p = 1 / (1 + np.exp(-b * x))
        information = x**2 @ (p * (1 - p)) + 0.25
        b += (x @ (y - p) - b / 4) / information
    covariance = np.linalg.inv(found.message.information + releases.prior.precision)
    mean = covariance @ (found.message.vector + releases.prior.precision @ releases.prior.mean)
    # Records whose slope is beyond its bound weigh less, and the estimate is another, a little.
    assert mean[0] == pytest.approx(b, abs=0.3 / math.sqrt(information))
    assert covariance[0, 0] == pytest.approx(1 / information, rel=0.05)


@pytest.mark.slow
def test_what_is_expected_happens():
    """The table, and the formula, beside a release from other rows; and that less budget is worse."""
    table = dp.expected_accuracy(build, simulate, n=4000, epsilons=(0.3, 2.0), repeats=2)
    few, row = table.itertuples()
    assert list(table.columns) == ["n", "epsilon", "parameter", "wider", "moved", "verdict", "seconds"]
    assert (few.epsilon, few.parameter, few.n, row.epsilon) == (0.3, "b", 4000, 2.0)
    assert row.seconds > 0 and 0 < row.moved < 2 and row.verdict == "usable"
    assert few.wider > 1.1 * row.wider > 1.1
    model = build(simulate(4000, np.random.default_rng(99)))
    with pytest.warns(dp.errors.NotPrivateWarning):
        released = dp.release_likelihood(model, epsilon=2.0, delta=1e-5, debug_seed=1)
    assert 1 / 1.2 < released.facts["verdict"]["b"]["wider"] / row.wider < 1.2
    assert 1 / 1.2 < dp.expected_width(4000, 1, 2.0, 1e-5) / row.wider < 1.2
    assert dp.inspect(model).widths[1.0] == dp.expected_width(4000, 1, 1.0)
    again = dp.expected_accuracy(build, simulate, n=4000, epsilons=(0.3, 2.0), repeats=2)
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), table.drop(columns="seconds"))


def test_verdicts_are_those_that_the_report_gives(monkeypatch):
    """They left out what other sums say of the bounds of censoring."""
    releases = Releases(build(simulate(300, np.random.default_rng(3))), 300, 1e-6, SETTINGS)
    information = np.eye(1)
    message = Message(100 * information, np.zeros(1))
    found = Found(np.zeros(1), message, [], [], message.information, 0 * information, np.zeros(1))
    for in_doubt, verdict in ((True, "in doubt: see Censoring"), (False, "usable")):
        said = found, {"censoring": {"in_doubt": in_doubt}}
        monkeypatch.setattr(Releases, "__call__", lambda *given, said=said: said)
        (rows,) = releases.compare([1.0], [0, 1])
        assert list(rows.verdict) == [verdict]


def test_expected_widths():
    """From numbers alone: less with more of everything but parameters; 1 without noise."""
    widths = [dp.expected_width(n, 6, 1) for n in (1_000, 5_000, 50_000)]
    assert widths == sorted(widths, reverse=True) and 1.6 < widths[0] < 2.5 and widths[-1] < 1.12
    assert dp.expected_width(5_000, 12, 1) > widths[1] > dp.expected_width(5_000, 6, 4)
    assert dp.expected_width(5_000, 6, 1, neighboring_relation="add_remove") < widths[1]
    assert dp.expected_width(5_000, 6, math.inf) == 1
    for bad in ((0, 6, 1), (100, 0, 1), (100, 1, -1)):
        with pytest.raises(ValueError):
            dp.expected_width(*bad)


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
        with pytest.raises((dp.errors.ModelRefusedError, ValueError)):
            dp.expected_accuracy(leak, simulate, n=1000)
    same = simulate(50, np.random.default_rng(5))
    with pytest.raises(dp.errors.ModelRefusedError, match="50 records"):
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
        (n, e, p, 1 + 1 / (e * k), 1 / e, "usable", 3.0)
        for n in (1000, 2000)
        for e in (1.0, 4.0)
        for k, p in ((1, "a"), (2, "b"))
    ]
    table = pd.DataFrame(rows, columns=["n", "epsilon", "parameter", "wider", "moved", "verdict", "seconds"])
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
