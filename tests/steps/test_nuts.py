"""DPNUTS: a likelihood that is released once, sampled by PyMC's NUTS from a step."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.results import draws_of, facts_of

# A debug seed makes noise known.
pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")
N = 400
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
Y = np.random.default_rng(1).normal(0.3, 1.0, size=N)
BUDGET = {"epsilon": 4.0, "delta": 1e-6}


def model_of(y=Y):
    with pm.Model(coords={"side": ["left", "right"]}) as model:
        mean, sigma = pm.Normal("mean", 0, 2), pm.HalfNormal("sigma", 2)
        pm.Deterministic("of_rows", mean + pm.Data("y_again", y))
        pm.Deterministic("both", pm.math.stack([mean, -mean]), dims="side")
        pm.Normal("y", mean, sigma, observed=y)
    return model


@pytest.fixture(scope="module")
def model():
    return model_of()


@pytest.fixture(scope="module")
def step(model):
    return dp.DPNUTS(model=model, target_accept=0.9, debug_seed=2, **BUDGET)


@pytest.fixture(scope="module")
def raw(model, step):
    return pm.sample(300, tune=300, model=model, step=step, chains=2, cores=1, random_seed=1, **QUIET)


@pytest.mark.slow
def test_draws_are_of_the_likelihood_that_release_likelihood_gives(model, step, raw):
    likelihood = dp.release_likelihood(model, debug_seed=2, **BUDGET)
    for name in ("point", "gradient", "information"):
        np.testing.assert_array_equal(getattr(step.likelihood, name), getattr(likelihood, name))
    idata = dp.release(raw)
    other = dp.sample(
        300, tune=300, model=model, debug_seed=2, chains=2, cores=1, random_seed=3, **BUDGET, **QUIET
    )
    for name in ("mean", "sigma"):
        ours, theirs = idata.posterior[name].to_numpy(), other.posterior[name].to_numpy()
        # A fifth of the draws as effective; false alarms: below 1e-6. The control is half as far.
        off = abs(ours.mean() - theirs.mean()) / theirs.std()
        assert off < 5 * np.sqrt(2 / (ours.size / 5)) < 0.7
        assert ours.std() / theirs.std() == pytest.approx(1, rel=0.35)
        assert ours.std() < 0.5 * (2 if name == "mean" else 1.2)  # control: the prior is wider


def test_what_is_released(raw):
    assert {"of_rows"} < set(raw.posterior.data_vars) and "observed_data" in raw.children
    idata = dp.release(raw)
    assert set(idata.children) == {"posterior", "sample_stats"}
    assert set(idata.posterior.data_vars) == {"mean", "sigma", "both"}
    assert list(idata.posterior["side"].values) == ["left", "right"]
    np.testing.assert_array_equal(idata.posterior["mean"], raw.posterior["mean"])
    np.testing.assert_allclose(idata.posterior["both"][..., 1], -raw.posterior["mean"])
    stats = set(idata.sample_stats.data_vars)
    assert {"epsilon_spent", "diverging", "lp", "n_steps"} < stats <= set(raw.sample_stats.data_vars)
    for name in stats:
        np.testing.assert_array_equal(idata.sample_stats[name], raw.sample_stats[name])
    assert not [name for name in stats if "counter" in name or "process" in name]
    report = dp.privacy_report(raw)
    assert set(report.not_released) == {"observed_data", "constant_data", "of_rows"}
    assert "of each chain, at no cost" in str(report) and not dp.privacy_report(idata).not_released


def test_draws_that_something_else_moved_are_refused(raw):
    moved = raw.copy(deep=True)
    moved.posterior["mean"].values[0, 7] += 0.1
    with pytest.raises(dp.errors.PrivacyError, match="not those that the private step left"):
        dp.release(moved)
    twice = raw.isel(draw=[3, 3, 4])
    with pytest.raises(dp.errors.PrivacyError, match="holds draws twice"):
        dp.release(twice)


def test_a_copy_holds_no_record(step):
    """Nor the model: PyMC's steps keep the arguments that they were made with."""
    copied = cloudpickle.dumps(step)
    assert not [y for y in Y if y.tobytes() in copied]
    assert step.likelihood.point.tobytes() in copied  # control
    assert Y[5].tobytes() in cloudpickle.dumps(
        dp.DPPenaltyMH(model=model_of(), lipschitz=1.0, chains=1, **BUDGET)
    )  # control
    again = cloudpickle.loads(copied)
    assert [v.name for v in again.vars] == ["mean", "sigma_log__"]


@pytest.mark.slow
def test_processes_and_a_ledger_that_pays_once(model, tmp_path):
    ledger = dp.Ledger(tmp_path / "a.db", epsilon=4, delta=1e-6)
    step = dp.DPNUTS(model=model, ledger=ledger, **BUDGET)
    found = [
        dp.release(pm.sample(30, tune=40, model=model, step=step, chains=k, cores=2, **QUIET)) for k in (2, 3)
    ]
    found.append(dp.sample(step, draws=30, tune=40, model=model, chains=3, cores=1, **QUIET))
    assert [idata.posterior["mean"].shape for idata in found] == [(2, 30), (3, 30), (3, 30)]
    assert [entry.status for entry in ledger.entries()] == ["confirmed"]
    assert np.unique(found[0].posterior["mean"]).size > 30  # chains of their own
    for idata in found:
        assert np.all(idata.sample_stats["epsilon_spent"] == pytest.approx(4, rel=1e-6))


def test_a_chain_goes_on_from_its_state(model, step):
    step.setup_chain(np.random.default_rng(0), 5, 5)
    point = model.initial_point(0)
    for _ in range(3):
        point, _ = step.step(point)
    state = step.sampling_state
    one, _ = step.step(point)
    step.sampling_state = state
    two, _ = step.step(point)
    assert all(np.array_equal(one[name], two[name]) for name in one)
    with pytest.raises(dp.errors.PrivacyError, match="Something other than this step"):
        step.step(point | {"mean": point["mean"] + 1e-9})


def test_it_samples_alone(model, step):
    for others in ([step, pm.Slice([model["mean"]], model=model)], [pm.Slice(model=model), step]):
        with pytest.raises(dp.errors.PrivacyError, match="not alone"):
            pm.sample(2, tune=2, model=model, step=others, chains=1, cores=1, **QUIET)
    with pytest.raises(ValueError, match="not assigned to another step"):  # it would sample the rows
        pm.sample(2, tune=2, model=model, step=step, nuts_sampler="numpyro", **QUIET)
    with pytest.raises(dp.errors.ModelRefusedError, match="does not sample sigma"):
        dp.DPNUTS([model["mean"]], model=model, **BUDGET)


def test_what_is_refused_before_it_is_paid(tmp_path):
    ledger = dp.Ledger(tmp_path / "a.db", epsilon=4, delta=1e-6)
    with pm.Model() as model:
        k = pm.Poisson("k", 2)
        pm.Normal("y", k, 1, observed=Y)
    with pytest.raises(dp.errors.ModelRefusedError, match="NUTS does not sample k"):
        dp.DPNUTS(model=model, ledger=ledger, **BUDGET)
    with pytest.raises(TypeError, match="'lipschitz'"):
        dp.DPNUTS(model=model, ledger=ledger, lipschitz=1.0, **BUDGET)
    assert not ledger.entries()


def test_an_error_after_payment_carries_the_likelihood(model):
    with pytest.raises(dp.errors.NotSampledError, match="Nothing is lost") as caught:
        dp.DPNUTS(model=model, scaling="x", **BUDGET)
    assert isinstance(caught.value.likelihood, dp.Likelihood)


def test_it_runs_inside_a_call(model):
    step = dp.DPNUTS(model=model, **BUDGET)
    with pytest.raises(dp.errors.BudgetError, match=r"inside pm\.sample"):
        step.step(model.initial_point(0))
    with pytest.raises(ValueError, match="another model"):
        dp.sample(step, model=model_of())


def test_draws_know_their_chain(raw):
    known = facts_of(raw)
    slots = draws_of(raw, known)["posterior"].header["slot"]
    assert len(np.unique(slots)) == 2 and np.all(slots == slots[:, :1])
