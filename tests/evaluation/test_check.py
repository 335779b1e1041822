"""Checks: sensitivity, the law under the right model, what wrong models look like, what is refused."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.evaluation import check as module
from pymc_dp.evaluation.check import Check, Pit, counts_of, distribution_functions, masses, pit_of
from pymc_dp.privacy.mechanisms.randomness import histogram_sensitivity
from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID
from tests.evaluation.fits import N, data, pair

RNG = np.random.default_rng(5)
# Lower and upper ends of a record: points, intervals, all of [0, 1], and what is none of these.
ENDS = [
    (0.0, 0.0), (1.0, 1.0), (0.5, 0.5), (0.31, 0.31), (0.0, 1.0), (0.2, 0.3), (0.05, 0.95), (1 / 3, 2 / 3),
    (0.1, 0.1 + 1e-12), (0.7, 0.2), (np.nan, np.nan), (0.2, np.nan), (-1.0, 2.0), (np.inf, np.inf), (0.0,
    1.1),
]  # fmt: skip


def counts(ends, cells, unit_of_row=None, n=None, mass=masses):
    lower, upper = (np.array(side, dtype=float) for side in zip(*ends, strict=True))
    lower, upper = (np.stack([side, side[::-1]], axis=1) for side in (lower, upper))  # two entries a row
    return counts_of(mass(Pit(lower, upper), cells), unit_of_row, len(ends) if n is None else n)


def largest(relation, cells, persons, mass=masses):
    """Largest squared move of the counts by one record; of rows 0 and 1 together if they are a person's."""
    others = [(p, p) for p in RNG.random(5)]
    found = []
    for first in ENDS:
        for second in ENDS if persons else [None]:
            rows = [first, *([second] if persons else []), *others]
            units = np.r_[0, 0, np.arange(1, 6)] if persons else None
            lower, upper = (np.array(side, dtype=float)[:, None] for side in zip(*rows, strict=True))
            found.append(counts_of(mass(Pit(lower, upper), cells), units, 6))
    rest = np.array([p for p, _ in others])[:, None]
    base = [counts_of(mass(Pit(rest, rest), cells), None, 5)] if relation == "add_remove" else found
    return max(float(np.sum((a - b) ** 2)) for a in found for b in base) / GRID**2


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
@pytest.mark.parametrize("cells", [2, 10])
def test_one_record_moves_the_counts_by_their_sensitivity_at_most(relation, cells, persons):
    most = largest(relation, cells, persons)
    allowed = histogram_sensitivity(relation) ** 2
    assert 0.99 * allowed < most <= allowed * (1 + 1e-12)


def test_entries_that_are_added_up_would_be_noticed():
    """Control: two entries of a row in one cell each."""
    ends = np.array([[0.1, 0.1], [0.9, 0.9]])
    first, second = (masses(Pit(e[None], e[None]), 10) * 2 for e in ends)
    assert np.sum((first - second) ** 2) > 2 * GRID**2


def test_mass_of_a_row_is_at_most_one():
    lower = RNG.random((2000, 3))
    upper = lower + RNG.random((2000, 3)) * (1 - lower)
    found = masses(Pit(lower, upper), 7)
    assert np.all(found.sum(axis=1) <= GRID) and np.all(found.sum(axis=1) > GRID - 10)
    assert np.all(found == np.round(found))
    # Half of [0.2, 0.6] is in [0.2, 0.4].
    np.testing.assert_allclose(
        masses(Pit(np.array([[0.2]]), np.array([[0.6]])), 5)[0] / GRID, [0, 0.5, 0.5, 0, 0], atol=1e-5
    )


@pytest.fixture(scope="module")
def counted():
    """A model of numbers and one of counts, whose arrays can be written into."""
    x, y = data()
    with pm.Model() as model:
        inputs = pm.Data("x", x)
        pm.Normal("y", pm.Normal("b") * inputs, 0.5, observed=pm.Data("y_data", y))
        pm.Poisson(
            "k", pm.math.exp(pm.Normal("a") * inputs), observed=pm.Data("k_data", np.abs(y).astype("int32"))
        )
    return model, RecordModel(model)


def test_distribution_functions_are_right_and_of_one_record_each(counted):
    model, records = counted
    x, y = data()
    k, points = np.abs(y).astype("int32"), np.array([[0.3, -0.2], [1.0, 0.5]])
    normal = distribution_functions(records, "y")
    poisson = distribution_functions(records, "k")
    order = [v.name for v in model.value_vars]
    b, a = (points[:, order.index(name), None] for name in ("b", "a"))
    found = pit_of(normal, points, N)
    np.testing.assert_allclose(found.upper[:, 0], stats.norm.cdf(y, b * x, 0.5).mean(0), atol=1e-12)
    np.testing.assert_array_equal(found.lower, found.upper)
    found = pit_of(poisson, points, N)
    np.testing.assert_allclose(found.upper[:, 0], stats.poisson.cdf(k, np.exp(a * x)).mean(0), atol=1e-12)
    np.testing.assert_allclose(found.lower[:, 0], stats.poisson.cdf(k - 1, np.exp(a * x)).mean(0), atol=1e-12)
    base = [pit_of(f, points, N).upper for f in (normal, poisson)]
    try:
        for value_x, value_y, value_k in [(np.nan, 0, 1), (np.inf, np.nan, 10**8), (1e300, -np.inf, -7)]:
            for name, array, value in (("x", x, value_x), ("y_data", y, value_y), ("k_data", k, value_k)):
                changed = array.copy()
                changed[7] = value
                model[name].set_value(changed)
            for function, before in zip((normal, poisson), base, strict=True):
                after = pit_of(function, points, N).upper
                np.testing.assert_array_equal(np.delete(after, 7, 0), np.delete(before, 7, 0))
    finally:
        for name, array in (("x", x), ("y_data", y), ("k_data", k)):
            model[name].set_value(array)


def result(pits, noise=20.0, cells=10):
    counts = np.histogram(pits, bins=cells, range=(0, 1))[0] + noise * RNG.normal(size=cells)
    facts = {"is_private": True, "ledger": False, "neighboring_relation": "substitute", "unit": "row",
             "epsilon_at_delta": 1.0, "delta": 1e-6}  # fmt: skip
    return Check("y", counts, noise, len(pits), False, facts)


def test_p_values_are_uniform_under_the_right_model():
    """Kolmogorov-Smirnov at 1e-7; with the noise left out of the p-value it would fail by far."""
    found = [result(RNG.random(2000)) for _ in range(1000)]
    assert stats.kstest([one.p_value for one in found], "uniform").pvalue > 1e-7
    ignored = [Check("y", one.counts, 0.0, 2000, False, one.facts).p_value for one in found]
    assert stats.kstest(ignored, "uniform").pvalue < 1e-20  # control


def test_wrong_models_show():
    narrow = result(stats.norm.cdf(1.3 * RNG.normal(size=5000)))
    assert narrow.p_value < 1e-6 and narrow.counts[0] > narrow.expected < narrow.counts[-1]
    assert "p-value" in str(narrow) and narrow.variable == "y"


@pytest.mark.slow
def test_check_of_a_fit(tmp_path, monkeypatch):
    idata, model = pair()["slope"]
    ledger, seen = dp.Ledger(tmp_path / "study.db", 10, 1e-6), []

    def spy(*args):
        seen.append([entry.status for entry in ledger.entries()])
        return pit_of(*args)

    monkeypatch.setattr(module, "pit_of", spy)
    found = dp.check(idata, model, epsilon=5.0, ledger=ledger, cells=4)
    assert seen == [["reserved"]] and ledger.entries()[0].status == "confirmed"
    assert (
        found.p_value > 1e-6 and found.n == N and found.counts.sum() == pytest.approx(N, abs=10 * found.noise)
    )
    assert dp.privacy.compose(ledger.entries()[0].events).epsilon(1e-6) <= 5.0
    none = dp.check(*pair()["none"], epsilon=5.0, delta=1e-6, cells=4)
    assert none.counts.sum() == pytest.approx(N, abs=10 * none.noise)
    with pytest.raises(dp.errors.TooFewRecordsError, match="Nothing was spent"):
        dp.check(idata, model, epsilon=0.2, ledger=ledger, cells=50)
    with pytest.raises(dp.errors.PrivacyBudgetExceeded):
        dp.check(idata, model, epsilon=9.9, ledger=ledger)
    assert len(seen) == 2
    for kwargs, match in [({"cells": 1}, "cells"), ({"var_name": "z"}, "var_name"), ({"draws": 1}, "draws")]:
        with pytest.raises(ValueError, match=match):
            dp.check(idata, model, epsilon=5.0, delta=1e-6, **kwargs)


def test_plot(monkeypatch):
    collection = dp.plots.plot_check(result(RNG.random(2000)), backend="none")
    band = collection.viz["band"].dataset["y"].item()
    assert len(collection.viz["counts"].dataset["y"].item()["x"]) == 20 and band is not None
    with pytest.raises(ValueError, match="band_prob"):
        dp.plots.plot_check(result(RNG.random(2000)), band_prob=1.0)


def test_what_has_no_distribution_function_is_refused():
    _, y = data()
    with pm.Model() as model:
        m = pm.Normal("m")
        pm.NormalMixture("y", w=[0.5, 0.5], mu=pm.math.stack([m, -m]), sigma=1.0, observed=y)
    records = RecordModel(model)
    with pytest.raises(dp.errors.ModelRefusedError, match="mixture"):
        distribution_functions(records, "y")
    with pm.Model() as model:
        pm.MvNormal("y", pm.Normal("m", shape=2), np.eye(2), observed=np.stack([y, y], axis=1))
    with pytest.raises(dp.errors.ModelRefusedError, match="no distribution function"):
        distribution_functions(RecordModel(model), "y")


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyMC: it derives without a shape
def test_a_distribution_function_that_brings_an_array_along_is_refused():
    """Of which nothing may be left, where it simplifies. Control: without it."""
    x, y = data()

    def records(own):
        def logcdf(value, mean):
            return pm.logcdf(pt.exp(pm.Normal.dist(mean + own(), 1.0)), pt.exp(value))

        with pm.Model() as model:
            law = {"logp": lambda value, mean: -0.5 * (value - mean) ** 2, "logcdf": logcdf}
            pm.CustomDist("y", pm.Normal("m") * x, **law, observed=y)
        return RecordModel(model)

    for own in (x.copy(), x[:35].copy(), np.arange(3.0 * len(x))):
        for behind in (pt.as_tensor, pytensor.shared):
            with pytest.raises(dp.errors.ModelRefusedError, match="no distribution function"):
                distribution_functions(records(lambda own=own, behind=behind: behind(own).mean()), "y")
    assert distribution_functions(records(lambda: pt.as_tensor(np.arange(5.0)).mean()), "y")


def test_arguments_that_are_no_numbers_and_simulated_data_that_need_no_delta():
    idata, model = pair()["slope"]
    for function in (
        lambda **kwargs: dp.check(idata, model, **kwargs),
        lambda **kwargs: dp.compare({"slope": (idata, model)}, **kwargs),
    ):
        for wrong in ("1", None, np.nan, True):
            with pytest.raises(ValueError, match="epsilon must be a positive number"):
                function(epsilon=wrong, delta=1e-6)
        with pytest.raises(ValueError, match="delta must lie"):
            function(epsilon=1, delta="x")
        with pytest.raises(TypeError, match="delta is missing"):
            function(epsilon=1)
    with pytest.warns(dp.errors.NotPrivateWarning):
        assert "NOT PRIVATE" in str(dp.check(idata, model, epsilon=np.inf))
    with pytest.warns(dp.errors.WeakGuaranteeWarning, match="above 20"):
        dp.check(idata, model, epsilon=50, delta=1e-6)
