"""The plots draw the numbers of the guarantee."""

import numpy as np
import pymc as pm
import pytest
from arviz_plots import PlotCollection
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent, SelfComposedDpEvent

import pymc_dp as dp
from pymc_dp.plots import plot_privacy_profile, plot_privacy_spend
from pymc_dp.privacy import compose
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.ledger_file import Ledger
from tests.conftest import logistic_model

EPSILON, DELTA, TUNE, DRAWS = 2.0, 1e-6, 12, 20


@pytest.fixture(scope="module")
def idata():
    with logistic_model():
        step = dp.DPPenaltyMH(epsilon=EPSILON, delta=DELTA, clip_bound=1.0, chains=2)
        return pm.sample(
            DRAWS,
            tune=TUNE,
            step=step,
            chains=2,
            cores=1,
            discard_tuned_samples=False,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )


def drawn(collection, visual):
    return collection.viz[visual].dataset


def releases(count, noise=50.0):
    return compose(SelfComposedDpEvent(GaussianDpEvent(noise), count), "substitute")


def test_profile_of_one_guarantee():
    deltas = [1e-3, 1e-9, 1e-6]
    collection = plot_privacy_profile(releases(100), deltas, backend="none")
    line = drawn(collection, "profile")["profile"].item()
    np.testing.assert_allclose(line["x"], gaussian.epsilon(0.2, [1e-3, 1e-6, 1e-9]), rtol=1e-9)
    np.testing.assert_allclose(line["y"], [-3, -6, -9])
    assert drawn(collection, "ylabel")["profile"].item()["string"] == "log₁₀ δ"
    assert isinstance(collection, PlotCollection) and not [
        n for n in collection.viz.children if "legend" in n
    ]


@pytest.mark.slow
def test_profile_of_everything_that_has_a_guarantee(idata, tmp_path):
    ledger = Ledger(tmp_path / "study.db", 4, 1e-5)
    ledger.record(GaussianDpEvent(5.0))
    objects = {
        "ledger": ledger,
        "run": idata,
        "released": dp.release(idata),
        "report": dp.privacy_report(idata),
        "plan": dp.privacy_report(idata).plan,
        "events": compose(GaussianDpEvent(5.0), "substitute"),
    }
    collection = plot_privacy_profile(objects, [DELTA], backend="none")
    lines = {
        name: float(drawn(collection, "profile")["profile"].sel(guarantee=name).item()["x"][0])
        for name in objects
    }
    assert lines["ledger"] == lines["events"] == pytest.approx(float(gaussian.epsilon(0.2, DELTA)))
    assert lines["run"] == lines["released"] == lines["report"] == lines["plan"]
    assert lines["run"] == pytest.approx(EPSILON, rel=1e-3)
    colors = {drawn(collection, "profile")["profile"].sel(guarantee=name).item()["color"] for name in objects}
    assert len(colors) == len(objects)
    assert "legend" in collection.viz.children


@pytest.mark.parametrize(
    ("obj", "deltas", "error", "message"),
    [
        ("text", None, TypeError, "str has no guarantee"),
        ({}, None, ValueError, "something to plot"),
        (releases(1), [0.0, 1e-3], ValueError, "strictly between"),
        (releases(1), [np.nan], ValueError, "strictly between"),
        (compose(NonPrivateDpEvent(), "substitute"), None, ValueError, "no epsilon is finite"),
    ],
)
def test_nothing_to_plot(obj, deltas, error, message):
    with pytest.raises(error, match=message):
        plot_privacy_profile(obj, deltas, backend="none")


def test_spend(idata):
    collection = plot_privacy_spend(idata, backend="none")
    line = drawn(collection, "spent")["spent"].item()
    np.testing.assert_array_equal(line["x"], np.arange(1, TUNE + DRAWS + 1))
    expected = dp.privacy_report(idata).plan.running_epsilon()
    np.testing.assert_array_equal(line["y"], expected)
    assert drawn(collection, "target")["spent"].item()["y"] == EPSILON >= line["y"][-1]
    assert drawn(collection, "tuning")["spent"].item()["x"] == TUNE + 0.5
    assert "ε = 2" in drawn(collection, "title")["spent"].item()["string"]


def test_spend_shows_warm_up_that_was_not_kept(idata):
    kept = dp.release(idata)
    del kept["warmup_sample_stats"], kept["warmup_posterior"]
    collection = plot_privacy_spend(kept.isel(draw=slice(None, None, 5)), backend="none")
    line = drawn(collection, "spent")["spent"].item()
    np.testing.assert_array_equal(line["x"], np.arange(1, TUNE + DRAWS + 1))


@pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
def test_nothing_is_spent_without_privacy():
    with logistic_model():
        step = dp.DPPenaltyMH(epsilon=np.inf, delta=DELTA, clip_bound=1.0, chains=1)
        free = pm.sample(2, tune=0, step=step, chains=1, progressbar=False, quiet=True,
                         compute_convergence_checks=False)  # fmt: skip
    with pytest.raises(ValueError, match="no epsilon is finite"):
        plot_privacy_spend(free, backend="none")
