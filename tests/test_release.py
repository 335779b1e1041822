"""What a result contains, and what of it may be published."""

import io
import json
import logging

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_dp as dp
from tests.conftest import logistic_model, simple_data

# Decisions and settings: nothing else that a step computes may leave.
RELEASED_STATS = {
    "accepted", "acceptance_rate", "step_size", "noise_std", "clip_bound", "batch_size", "clip_fraction",
    "epsilon_spent", "is_private",
}  # fmt: skip
ARGS = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0, "chains": 2}
PATIENTS = [f"patient-{i:04d}" for i in range(60)]


def private_model():
    x, y = simple_data()
    coords = {"patient": PATIENTS, "feature": ["age", "dose"]}
    with pm.Model(coords=coords) as model:
        data = pm.Data("x", x, dims=("patient", "feature"))
        beta = pm.Normal("beta", 0, 2, dims="feature")
        pm.Deterministic("total", beta.sum())
        pm.Deterministic("mu", data @ beta, dims="patient")
        pm.Bernoulli("y", logit_p=data @ beta, observed=y, dims="patient")
    return model, x


@pytest.fixture(scope="module")
def raw():
    """A plain pm.sample result, of a model with identifiers and a Deterministic that reads rows."""
    model, x = private_model()
    with model:
        step = dp.DPPenaltyMH(**ARGS)
        idata = pm.sample(
            120, tune=30, chains=2, cores=1, step=step, progressbar=False, quiet=True,
            discard_tuned_samples=False, random_seed=12345, compute_convergence_checks=False,
        )  # fmt: skip
    return idata, x


@pytest.fixture(scope="module")
def released(raw):
    return dp.release(raw[0])


def test_release_holds_what_is_allowed_and_nothing_else(raw, released):
    assert {"observed_data", "constant_data"} <= set(raw[0].children)
    assert set(released.children) == {"posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats"}
    assert set(released.posterior.data_vars) == {"beta", "total"}
    assert set(released.posterior.coords) == {"chain", "draw", "feature"}
    assert set(released.sample_stats.data_vars) == RELEASED_STATS
    assert set(released.sample_stats.coords) == {"chain", "draw"}
    for node in released.subtree:
        assert set(node.attrs) <= {
            "created_at", "inference_library", "inference_library_version", "tuning_steps", "privacy_facts",
            "privacy_digest", "privacy",
        }  # fmt: skip


def file_of(idata, tmp_path):
    path = tmp_path / "result.nc"
    idata.to_netcdf(path, engine="netcdf4")
    return path


def test_no_data_value_or_identifier_is_in_the_saved_file(raw, released, tmp_path):
    idata, x = raw
    needles = [v.tobytes() for v in x.ravel()] + [p.encode() for p in PATIENTS]
    saved = file_of(released, tmp_path).read_bytes()
    assert not any(needle in saved for needle in needles)
    # Control: the same search finds them in what PyMC stores (uncompressed; identifiers are stored as text).
    leaky = file_of(xr.DataTree.from_dict({"c": idata["constant_data"].to_dataset()}), tmp_path).read_bytes()
    assert all(needle in leaky for needle in needles)


def test_the_seed_is_not_in_the_result(raw, released):
    text = json.dumps(released.to_dict(), default=str)
    assert "12345" not in text


@pytest.mark.slow
def test_report_of_every_form_of_the_result(raw, released, tmp_path):
    reports = [dp.privacy_report(raw[0]), dp.privacy_report(released)]
    reports.append(dp.privacy_report(xr.open_datatree(file_of(released, tmp_path), engine="netcdf4")))
    raw_file = tmp_path / "raw.nc"
    raw[0].to_netcdf(raw_file, engine="netcdf4")
    reports.append(dp.privacy_report(xr.open_datatree(raw_file, engine="netcdf4")))
    reports.append(dp.privacy_report(raw[0].isel(draw=slice(100, None, 3))))
    for report in reports:
        values = report.to_dict()
        assert json.loads(json.dumps(values)) == json.loads(report.to_json())
        assert values["epsilon_at_delta"] <= 2.0
        assert values["iterations"] == 300
        assert values["released_variables"] == ["beta", "total"]
        curve = [values["epsilon_of_delta"][f"{d:g}"] for d in (1e-3, 1e-6, 1e-9)]
        assert curve == sorted(curve)
        for part in (
            "Guarantee",
            "substitute",
            "30 tuning + 120 sampling",
            "noise multiplier",
            "mu",
            "pymc-dp",
        ):
            assert part in str(report)
        assert "<table" in report._repr_html_()
    assert {"observed_data", "constant_data", "mu"} <= set(reports[0].not_released)
    assert "DO NOT PUBLISH" in str(reports[0]) and "DO NOT PUBLISH" not in str(reports[1])
    assert "Right if" not in str(reports[1])  # of twins: a step has none


def test_clip_fraction_is_released_once_a_chain(released):
    share = released.sample_stats["clip_fraction"].values
    assert np.all(np.isnan(share[:, :-1])) and np.all(np.isfinite(share[:, -1]))
    assert dp.privacy_report(released).clip_fractions == [float(v) for v in share[:, -1]]


def test_epsilon_spent_ends_at_the_report_and_never_above_the_target(raw, released):
    spent = np.concatenate(
        [released.warmup_sample_stats["epsilon_spent"], released.sample_stats["epsilon_spent"]], axis=1
    )
    assert np.all(np.diff(spent, axis=1) >= 0)
    plan = dp.privacy_report(released).plan
    assert np.all(spent[:, -1] == plan.epsilon_at(1e-6)) and plan.epsilon_at(1e-6) <= 2.0
    # An upper bound on the cost of that many iterations of every chain: rounded up along the run.
    for t in (1, 7, 60, 149):
        part = dp.privacy.compose(plan.iteration[0], "substitute").events.repeated(2 * t)
        part = dp.privacy.compose(part).epsilon(1e-6)
        assert part <= spent[0, t - 1] <= 1.4 * part


def test_arviz_reads_the_release(released):
    assert list(az.summary(released).index) == ["beta[age]", "beta[dose]", "total"]
    assert az.rhat(released)["beta"].shape == (2,)
    assert az.ess(released)["beta"].shape == (2,)
    for plot in (az.plot_trace, az.plot_rank, az.plot_forest):
        plot(released, backend="none")


def test_front_door(quiet):
    model, _ = private_model()
    with model:
        step = dp.DPPenaltyMH(exclude_deterministics=["total"], **ARGS)
    idata = dp.sample(step, draws=20, tune=10, cores=1, **quiet)  # outside the model's context
    assert set(idata.posterior.data_vars) == {"beta"} and "patient" not in idata.posterior.dims
    report = dp.privacy_report(idata)
    assert report.plan.tune == 10
    assert "not released: mu (reads rows), total (excluded)" in str(report)


@pytest.mark.parametrize("name", ["trace", "nuts_sampler", "return_inferencedata", "idata_kwargs"])
def test_front_door_takes_no_argument_that_could_store_exact_values(logistic, name):
    with logistic:
        step = dp.DPPenaltyMH(**ARGS)
    with pytest.raises(TypeError, match=name):
        dp.sample(step, **{name: None})


def test_front_door_checks_its_step_and_chains(logistic):
    with logistic:
        step = dp.DPPenaltyMH(**ARGS)
        with pytest.raises(TypeError, match="private step"):
            dp.sample(pm.Slice())
    with pytest.raises(ValueError, match="chains=2"):
        dp.sample(step, chains=3)


@pytest.mark.parametrize("kwargs", [{"epsilon": np.inf}, {"debug_seed": 3}])
def test_what_is_not_private_says_so_everywhere(logistic, quiet, kwargs):
    with logistic:
        step = dp.DPPenaltyMH(**{**ARGS, **kwargs})
    with pytest.warns(dp.errors.NotPrivateWarning, match="NOT PRIVATE"):
        idata = dp.sample(step, draws=20, tune=10, cores=1, **quiet)
    assert not idata.sample_stats["is_private"].values.any()
    assert "THIS RUN IS NOT PRIVATE" in str(dp.privacy_report(idata))
    assert not dp.privacy_report(idata).to_dict()["is_private"]
    if "epsilon" in kwargs:
        assert "NOT PRIVATE" in str(step.cost())


def test_results_of_other_samplers_have_no_report(logistic, quiet):
    with logistic:
        idata = pm.sample(10, tune=5, chains=1, step=pm.Slice(), **quiet)
    for function in (dp.release, dp.privacy_report):
        with pytest.raises(dp.errors.PrivacyError, match="private step"):
            function(idata)


@pytest.mark.slow
def test_damaged_facts_are_refused(raw):
    idata = raw[0].copy(deep=True)
    idata["sample_stats"]["privacy_facts"][:] = 7
    with pytest.raises(dp.errors.PrivacyError, match="damaged"):
        dp.privacy_report(idata)


@pytest.mark.slow
def test_nothing_printed_or_logged_speaks_of_the_data(logistic, capsys, caplog):
    """A NaN or infinite record leaves no trace in warnings (errors in this suite), logs or output."""
    x, _ = simple_data()
    outputs = []
    for poison in (None, np.nan, np.inf):
        data = x.copy()
        if poison is not None:
            data[5] = poison
        model = logistic_model(x=data)
        with caplog.at_level(logging.DEBUG, logger="pymc"), model:
            step = dp.DPPenaltyMH(**ARGS)
            pm.sample(
                30, tune=10, chains=2, cores=1, step=step, progressbar=False, compute_convergence_checks=False
            )
        outputs.append([r.getMessage() for r in caplog.records if "took" not in r.getMessage()])
        caplog.clear()
    assert outputs[0] == outputs[1] == outputs[2]
    assert capsys.readouterr().out == ""


def test_a_failing_likelihood_shows_no_values(monkeypatch, logistic):
    with logistic:
        step = dp.DPPenaltyMH(**{**ARGS, "chains": 1})
    step.setup_chain(np.random.default_rng(0), 0, 5)

    def fail(*args):
        raise ValueError("secret 1.2345")

    monkeypatch.setattr(step.records.full_batch, "_function", fail)
    with pytest.raises(dp.errors.PrivacyError) as caught:
        step.step(logistic.initial_point(0))
    error = caught.value
    assert "secret" not in str(error) and error.__cause__ is None and error.__context__ is None


def test_progress_bar_shows_acceptance_and_epsilon(logistic, monkeypatch):
    from rich.console import Console

    console = Console(file=io.StringIO(), force_terminal=True, width=140)
    with logistic:
        step = dp.DPPenaltyMH(**ARGS)
    columns, stats = step._progressbar_config(2)
    assert set(stats) == {"acceptance_rate", "epsilon_spent"}
    console.print([c.get_table_column().header for c in columns])
    assert "ε spent" in console.file.getvalue()
    (update,) = step._make_progressbar_update_functions()
    assert update({"acceptance_rate": 0.3, "epsilon_spent": 1.0, "other": 2}) == {
        "acceptance_rate": 0.3,
        "epsilon_spent": 1.0,
    }


@pytest.mark.slow
def test_noisy_ratios_are_stored_only_when_they_are_paid_for(quiet, raw):
    model = logistic_model()
    with model:
        step = dp.DPPenaltyMH(release="noisy_ratio", **ARGS)
        idata = pm.sample(40, tune=10, chains=2, cores=1, step=step, **quiet)
    released = dp.release(idata)
    assert np.all(np.isfinite(released.sample_stats["noisy_log_ratio"]))
    plan = dp.privacy_report(released).plan
    assert plan.guarantee.accountant == "exact Gaussian" and "noisy log-ratios" in str(
        dp.privacy_report(released)
    )
    with model:
        decisions = dp.DPPenaltyMH(**ARGS).cost(40, 10)
    assert plan.noise_multiplier > 1.1 * decisions.noise_multiplier
    # A stat that the run did not pay for is not released, whatever put it there.
    leaky = raw[0].copy(deep=True)
    leaky["sample_stats"]["noisy_log_ratio"] = leaky["sample_stats"]["step_size"]
    assert "noisy_log_ratio" not in dp.release(leaky).sample_stats
    assert "noisy_log_ratio" in dp.privacy_report(leaky).not_released


def test_a_stat_that_only_a_users_step_declares_is_not_released(logistic, quiet):
    """Nobody has shown that it may leave, nor charged for it: here an exact sum over records."""

    class Leaky(dp.DPPenaltyMH):
        stats_dtypes_shapes = {**dp.DPPenaltyMH.stats_dtypes_shapes, "total": (float, [])}  # noqa: RUF012

        def _stats(self, chain, info):
            return super()._stats(chain, info) | {"total": chain.clipped}

    with logistic:
        idata = pm.sample(4, tune=2, chains=2, cores=1, step=Leaky(**ARGS), **quiet)
    assert "total" in idata.sample_stats, "control: PyMC stores it"
    assert set(dp.release(idata).sample_stats.data_vars) == RELEASED_STATS
    assert dp.privacy_report(idata).not_released[-1] == "total"


@pytest.mark.parametrize("private", [0.0, -7e300, np.nan], ids=str)
@pytest.mark.parametrize("released_before", [False, True], ids=["raw", "release"])
def test_groups_added_later_are_dropped_with_a_warning(raw, released, released_before, private):
    """Predictions at private covariates contain them; log-likelihoods are exact statistics."""
    idata = (released if released_before else raw[0]).copy()
    for name in ("posterior_predictive", "log_likelihood", "predictions", "prior"):
        idata[name] = xr.DataTree(raw[0]["observed_data"].to_dataset() * private)
    named = r"also holds log_likelihood, posterior_predictive, predictions, prior, .* dp\.predict"
    with pytest.warns(dp.errors.NotPrivateWarning, match=named):
        again = dp.release(idata)
    assert set(again.children) == set(released.children)
    assert {"posterior_predictive", "log_likelihood"} <= set(dp.privacy_report(idata).not_released)
    for said in ("pm.sample_posterior_predictive", "predict at, or evaluate, the private rows", "dp.predict"):
        assert said in again.attrs["privacy"]


def test_predictions_by_pymc_alone_are_no_result(raw):
    """What pm.sample_posterior_predictive returns says nothing of the result that it was made from."""
    alone = xr.DataTree.from_dict({"posterior_predictive": raw[0]["observed_data"].to_dataset()})
    with pytest.raises(dp.errors.PrivacyError, match=r"rows of the model: do not publish it.*dp\.predict"):
        dp.release(alone)


@pytest.mark.slow
def test_names_of_persons_are_not_released(quiet):
    """An effect over persons that is not one person's alone is sampled; the names stay here."""
    ids = np.repeat(np.arange(12), 5)
    _, y = simple_data()
    with pm.Model(coords={"person": [f"patient{i}" for i in range(12)]}) as model:
        effect = pm.ZeroSumNormal("effect", 1, dims="person")
        pm.Bernoulli("y", logit_p=effect[ids], observed=y)
        step = dp.DPPenaltyMH(privacy_unit=ids, **ARGS)
        idata = pm.sample(20, tune=5, chains=2, cores=1, step=step, **quiet)
    assert "patient3" in idata.posterior["person"].values, "control: PyMC stores them"
    released = dp.release(idata)
    assert released.posterior["effect"].sizes["person"] == 12
    assert "person" not in released.posterior.coords
    assert model is step.model
