"""Missing values that `pm.set_data` brings: PyMC stores a masked array, at which compiled functions stop."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from benchmarks.visited_files import SAMPLERS
from pymc_dp.evaluation.compare import observed_values
from pymc_dp.records.model import RecordModel
from tests.evaluation.fits import QUIET, fit, line

pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")

N = 300
HOLE = np.arange(N) == 7
_RNG = np.random.default_rng(0)
DATA = {"x": _RNG.normal(size=N), "seen": _RNG.normal(size=N), "group": _RNG.integers(0, 3, N)}


def model(new):
    """A model whose data were changed by `pm.set_data`."""
    with pm.Model() as made:
        data = {name: pm.Data(name, values) for name, values in DATA.items()}
        mu = pm.Normal("level", shape=3)[data["group"]] + pm.Normal("slope") * data["x"]
        pm.Normal("y", mu, pm.HalfNormal("s"), observed=data["seen"])
        pm.set_data(new)
    return made


def hole(name, under=np.nan):
    return np.where(HOLE, under, DATA[name])


#: Data with a mask, and the array that they are read as.
CASES = {
    "covariate": ({"x": hole("x")}, hole("x")),
    "outcome": ({"seen": hole("seen")}, hole("seen")),
    "a number under the mask": ({"x": np.ma.masked_array(hole("x", 5.0), HOLE)}, hole("x")),
    "whole numbers": ({"group": np.ma.masked_array(DATA["group"], HOLE)}, DATA["group"]),
}


@pytest.fixture(params=list(CASES))
def two(request):
    """Models of the same numbers, in a masked array and in a plain one."""
    given, read_as = CASES[request.param]
    ((name, _),) = given.items()
    masked, plain = model(given), model({})
    plain[name].set_value(read_as.astype(plain[name].type.dtype))
    yield masked, plain
    assert isinstance(masked[name].get_value(borrow=True), np.ma.MaskedArray)  # not changed


def same(a, b):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert not isinstance(a, np.ma.MaskedArray)


@pytest.mark.parametrize("mode", ["NUMBA", "CVM", None])
def test_a_masked_record_is_one_that_is_not_a_number(two, mode):
    """To the last bit: all rows, some of them, gradients."""
    records = [RecordModel(one, compile_kwargs={"mode": mode}) for one in two]
    theta, units = records[0]._start + 0.3, np.arange(20)
    same(*(r.full_batch.rows(theta) for r in records))
    same(*(r.ratios(theta, theta + 0.1, units) for r in records))
    same(*(r.gradients(theta, 0.5)[0] for r in records))


def test_a_likelihood_is_released(two):
    same(*(dp.release_likelihood(one, epsilon=2, debug_seed=1).information for one in two))


def test_observed_values(two):
    same(*(observed_values(one)["y"] for one in two))


@pytest.mark.parametrize("two", ["covariate"], indirect=True)
@pytest.mark.parametrize("name", SAMPLERS)
def test_steps_take_it(two, name):
    kind, kwargs = SAMPLERS[name]
    arguments = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0, "chains": 1, "debug_seed": 5, **kwargs}
    found = []
    for one in two:
        with one:
            idata = dp.sample(kind(**arguments), draws=3, tune=2, random_seed=1, **QUIET)
        found.append(idata.posterior["slope"].values)
    same(*found)


def test_a_result_is_checked_compared_and_predicted(monkeypatch):
    """Of models that are masked, and at public inputs of which one is not a number."""
    made, held, predict = [], [], pm.sample_posterior_predictive
    for slope in (True, False):
        one = line(np.zeros(400), np.random.default_rng(1).normal(size=400), slope)
        with one:
            pm.set_data({"x": np.where(np.arange(400) == 7, np.nan, np.linspace(-1, 1, 400))})
        made.append((fit(one), one))
    (idata, model), _ = made
    dp.check(idata, model, epsilon=50, delta=1e-6)
    dp.compare(dict(zip(["slope", "none"], made, strict=True)), epsilon=50, delta=1e-6)

    def spy(*args, **kwargs):  # what PyMC compiles: with Numba where tests do not
        held.append(pm.modelcontext(None)["x"].get_value(borrow=True))
        return predict(*args, **kwargs)

    monkeypatch.setattr(pm, "sample_posterior_predictive", spy)
    for inputs in ([0.0, np.nan], np.ma.masked_array([0.0, 5.0], [False, True])):
        y = dp.predict(idata, model, inputs={"x": inputs}).predictions["y"]
        assert np.all(np.isnan(y.values) == [False, True])
        same(held[-1], [0.0, np.nan])


def test_the_public_model_has_a_plain_array():
    with pm.Model() as made:
        b = pm.Normal("b")
        pm.Deterministic("line", b * pm.Data("grid", np.zeros(3)))
        pm.Normal("y", b, 1, observed=DATA["seen"])
        pm.set_data({"grid": np.array([1.0, np.nan, 2.0])})
    same(dp.release_likelihood(made, epsilon=1).model()["grid"].get_value(), [1.0, np.nan, 2.0])


@pytest.mark.parametrize("two", ["covariate"], indirect=True)
def test_parts_take_it(two):
    _, plain = two
    released = [
        dp.release_likelihood(plain, epsilon=2, debug_seed=1, data=dp.Shards(lambda part: part, [one]))
        for one in two
    ]
    same(*(one.information for one in released))
