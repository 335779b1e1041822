"""dp.sample with epsilon=: a released likelihood, sampled with its prior."""

import warnings
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_dp as dp
from pymc_dp.errors import WeakGuaranteeWarning
from pymc_dp.likelihood.draws import draw
from pymc_dp.likelihood.mixtures import Message
from pymc_dp.likelihood.rounds import Found
from pymc_dp.likelihood.search import Search
from pymc_dp.records.model import RecordModel
from pymc_dp.releasing import Opened

N = 1000
QUIET = {"progressbar": False, "cores": 1}


def model():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 2))
    with pm.Model(coords={"feature": ["a", "b"]}) as made:
        beta = pm.Normal("beta", 0, 1, dims="feature")
        logit = pm.Deterministic("logit", pm.Data("x", x) @ beta)
        pm.Deterministic("total", beta.sum())
        pm.Bernoulli("y", logit_p=logit, observed=rng.random(N) < 1 / (1 + np.exp(-x @ [0.5, -0.5])))
    return made


@pytest.fixture(scope="module")
def made():
    return model()


@pytest.fixture(scope="module")
def idata(made):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return dp.sample(200, epsilon=1, model=made, chains=2, random_seed=1, target_accept=0.9, **QUIET)


@pytest.mark.slow
def test_what_is_released(idata, tmp_path):
    assert set(idata.posterior.data_vars) == {"beta", "total"}
    assert idata.posterior["beta"].shape == (2, 200, 2)
    assert list(idata.posterior["feature"].values) == ["a", "b"]
    assert set(idata.children) == {"posterior", "sample_stats"}
    assert not [name for name in idata.sample_stats.data_vars if "counter" in str(name)]
    report = dp.privacy_report(idata)
    text = str(report)
    assert "at no cost" in text and "logit (reads rows)" in text and "Verdict" in text
    assert "Right if" in text
    assert report.plan.delta == 1e-5  # the largest power of ten below 1 / (10 n)
    assert report.plan.epsilon_at(1e-5) == pytest.approx(1, rel=1e-6)
    assert not report.changed and not report.not_released
    again = dp.release(idata)
    np.testing.assert_array_equal(again.posterior["beta"], idata.posterior["beta"])
    idata.to_netcdf(tmp_path / "a.nc")
    assert not dp.privacy_report(xr.open_datatree(tmp_path / "a.nc")).changed


@pytest.mark.slow
def test_an_error_after_payment_carries_the_likelihood(made, tmp_path):
    ledger = dp.Ledger(tmp_path / "a.db", epsilon=1, delta=1e-6)
    with pytest.raises(dp.errors.NotSampledError, match="Nothing is lost") as caught:
        dp.sample(20, epsilon=1, model=made, ledger=ledger, init="nonsense", **QUIET)
    assert isinstance(caught.value.likelihood, dp.Likelihood)
    assert [entry.status for entry in ledger.entries()] == ["confirmed"]


def no_matrix(self, start):
    raise np.linalg.LinAlgError


def no_number(self, start):
    nothing = Message.nothing(len(start))
    unknown = np.full((len(start), len(start)), np.nan)
    return Found(start, nothing, [], [], unknown, unknown, np.zeros_like(start))


@pytest.mark.parametrize("fail", [no_matrix, no_number])
def test_numbers_that_no_matrix_is_behind_say_nothing(made, monkeypatch, fail):
    """After payment there is a likelihood, whatever noise made: here one without information."""
    monkeypatch.setattr(Search, "__call__", fail)
    likelihood = dp.release_likelihood(made, epsilon=1)
    assert not np.any(likelihood.information) and not np.any(likelihood.gradient)
    assert {said["verdict"] for said in likelihood.facts["verdict"].values()} == {"says little"}


def test_where_there_is_no_posterior_that_is_said_at_once(monkeypatch):
    """Chains ran for two minutes, and more tuning was the advice."""
    monkeypatch.setattr(Search, "__call__", no_number)
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("a"), 1, observed=np.arange(50.0))
    with pytest.raises(dp.errors.NotSampledError, match="the prior of a is flat") as caught:
        dp.sample(20, epsilon=1, model=model, **QUIET)
    assert "tune=" not in str(caught.value) and isinstance(caught.value.likelihood, dp.Likelihood)


def test_a_variable_that_is_left_out_may_be_asked_for(made):
    """It was an error of PyMC's, after the payment."""
    public = dp.release_likelihood(made, epsilon=1)
    for names, there in ((["beta", "logit"], {"beta"}), (["logit"], {"beta", "total"})):
        found = draw(public, 20, 20, {"var_names": names, "chains": 1, **QUIET})
        assert set(found["posterior"].data_vars) == there


def test_what_cannot_succeed_is_refused_before_it_is_paid(made, tmp_path):
    ledger = dp.Ledger(tmp_path / "a.db", epsilon=1, delta=1e-6)
    with pytest.raises(TypeError, match="neither it nor"):
        dp.sample(20, epsilon=1, model=made, ledger=ledger, nonsense=1)
    with pytest.raises(ValueError, match="epsilon"):
        dp.sample(20, epsilon=-1, delta=1e-6, model=made)
    with pytest.raises(TypeError, match="public_n"):
        dp.sample(20, epsilon=1, model=made, neighboring_relation="add_remove")
    with pytest.raises(TypeError, match="delta is missing"):
        dp.release_likelihood(made, epsilon=1, neighboring_relation="add_remove", public_n=1000)
    with pytest.raises(ValueError, match="privacy unit"):
        dp.release_likelihood(made, epsilon=1, ledger=ledger, privacy_unit=np.arange(N) // 2)
    for name, values in {
        "return_inferencedata": [False, None],
        "var_names": [["nope"], "beta"],
        "nuts_sampler": ["foo", 3],
        "cores": [0, "a"],
        "model": [3],
    }.items():
        for value in values:
            with pytest.raises((TypeError, ValueError), match=name):
                dp.sample(20, **{"epsilon": 1, "model": made, "ledger": ledger, **QUIET, name: value})
    for public_n in (0, -1, np.inf, np.nan, "x", 1e-9, True):
        with pytest.raises(ValueError, match="public_n must be a finite number"):
            dp.release_likelihood(
                made, epsilon=1, delta=1e-6, neighboring_relation="add_remove", public_n=public_n
            )
    for delta in ("x", np.nan, 0):
        with pytest.raises(ValueError, match="delta must lie"):
            dp.release_likelihood(made, epsilon=1, delta=delta)
    other = SimpleNamespace(privacy_unit=None, records=lambda model, **settings: RecordModel(model))
    for data in (other, "visits.db"):
        with pytest.raises(TypeError, match="data= takes"):
            dp.release_likelihood(made, epsilon=1, ledger=ledger, data=data)
    with made, pytest.raises(TypeError, match="data= takes"):
        dp.DPPenaltyMH(epsilon=1, delta=1e-6, lipschitz=1, data="visits.db")
    assert not ledger.entries()


def test_whatever_fails_after_payment_carries_the_likelihood(tmp_path):
    """Of complex numbers there is no R-hat."""
    ledger = dp.Ledger(tmp_path / "a.db", epsilon=1, delta=1e-6)
    with pm.Model():
        mean = pm.Normal("mean")
        pm.Deterministic("z", mean.astype("complex128"))
        pm.Normal("y", mean, 1, observed=np.linspace(-1, 1, N))
        with pytest.raises(dp.errors.NotSampledError, match="could not be looked at") as caught:
            dp.sample(100, tune=50, chains=4, epsilon=1, ledger=ledger, **QUIET)
    assert isinstance(caught.value.likelihood, dp.Likelihood) and len(ledger.entries()) == 1


@pytest.mark.parametrize(
    "epsilon, delta, said", [(30, 1e-6, "above 20"), (1, 0.5, "not below 1 / n"), (1, 1e-6, "")]
)
def test_a_weak_guarantee_is_said_at_every_door(made, epsilon, delta, said, monkeypatch):
    """Before a row is used, with the words that a step has."""

    def stop(*args):
        raise InterruptedError

    monkeypatch.setattr(Opened, "search", stop)
    with made:
        for call in (dp.release_likelihood, dp.sample, dp.DPNUTS):
            with warnings.catch_warnings(record=True) as caught, pytest.raises(InterruptedError):
                warnings.simplefilter("always")
                call(epsilon=epsilon, delta=delta)
            texts = [str(one.message) for one in caught if one.category is WeakGuaranteeWarning]
            assert [said in text for text in texts] == [True] * bool(said)
            assert all(one.filename == __file__ for one in caught if one.category is WeakGuaranteeWarning)


def of_start(initval):
    with pm.Model() as made:
        pm.Normal(
            "y", pm.Normal("mean"), pm.HalfNormal("sd", initval=initval), observed=np.linspace(-1, 1, N)
        )
    return made


@pytest.mark.parametrize("initval", [0.0, np.nan, pytest.param(-1.0, marks=pytest.mark.exhaustive)])
def test_a_start_that_is_not_finite_is_refused_before_it_is_paid(initval, tmp_path):
    ledger, made = dp.Ledger(tmp_path / "a.db", epsilon=1, delta=1e-6), of_start(initval)
    owner = dp.Owner("north", of_start, initval, epsilon=1.0, delta=1e-6, ledger=tmp_path / "north.db")
    with made:
        for call in (
            lambda: dp.release_likelihood(epsilon=1, ledger=ledger),
            lambda: dp.sample(20, epsilon=1, ledger=ledger, **QUIET),
            lambda: dp.DPNUTS(epsilon=1, ledger=ledger),
            lambda: dp.release_likelihood(epsilon=1, ledger=ledger, data=dp.Shards(of_start, [initval])),
            lambda: dp.release_likelihood(owners=[owner]),
        ):
            with pytest.raises(ValueError, match=r"starting value of sd_log__ is not finite(?s:.*)no ledger"):
                call()
    assert not ledger.entries() and not (tmp_path / "north.db").exists()


@pytest.mark.parametrize("far", [0, 1])
def test_a_start_at_which_the_likelihood_has_no_finite_expression_is_refused(far):
    """Whichever of two expressions it is."""
    with pm.Model():
        for k in (0, 1):
            value = 1e200 if k == far else 1.0
            mean = pm.Normal(f"a{k}", initval=value) * pm.Normal(f"b{k}", initval=value)
            pm.Normal(f"y{k}", mean, 1, observed=np.linspace(-1, 1, N))
        with pytest.raises(ValueError, match="starting value of"):
            dp.release_likelihood(epsilon=1)


def sampled(monkeypatch, agrees, **kwargs):
    """Acceptance rates that were asked for; chains agree where `agrees` says so of them."""
    asked = []

    def sample(draws, chains, **settings):
        asked.append(settings.get("target_accept"))
        apart = 0.0 if agrees(asked[-1]) else 9.0
        values = np.random.default_rng(1).normal(size=(chains, draws)) + apart * np.arange(chains)[:, None]
        posterior = xr.Dataset({"beta": (["chain", "draw"], values)})
        stats = xr.Dataset({"lp": (["chain", "draw"], values)})
        return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})

    monkeypatch.setattr(pm, "sample", sample)
    return asked, lambda likelihood: draw(likelihood, 500, None, dict(kwargs))


@pytest.fixture(scope="module")
def likelihood():
    with pm.Model() as small:
        pm.Normal("y", pm.Normal("beta"), 1, observed=np.linspace(-1, 1, N))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp.release_likelihood(small, epsilon=1)


def test_draws_that_are_no_posterior_are_made_once_more_with_care(likelihood, monkeypatch):
    """Horseshoes, whose scales are near zero: sampling what is released costs nothing."""
    asked, run = sampled(monkeypatch, lambda accept: accept == 0.99)
    found = run(likelihood)
    assert set(found.posterior.data_vars) == {"beta"}
    assert asked == [None, 0.99]
    # Of five draws one is kept, so that there are as many as were asked for.
    assert found.posterior.sizes["draw"] == found.sample_stats.sizes["draw"] == 500


def test_draws_that_are_a_posterior_are_made_once(likelihood, monkeypatch):
    asked, run = sampled(monkeypatch, lambda accept: True)
    run(likelihood)
    assert asked == [None]


def test_a_second_failure_is_said(likelihood, monkeypatch):
    asked, run = sampled(monkeypatch, lambda accept: False)
    with pytest.raises(dp.errors.NotSampledError, match="R-hat") as caught:
        run(likelihood)
    assert asked == [None, 0.99] and caught.value.likelihood is likelihood


@pytest.mark.parametrize("chosen", [{"target_accept": 0.9}, {"nuts_sampler": "numpyro"}, {"step": None}])
def test_what_the_user_has_chosen_is_not_changed(likelihood, monkeypatch, chosen):
    asked, run = sampled(monkeypatch, lambda accept: False, **chosen)
    with pytest.raises(dp.errors.NotSampledError, match="R-hat"):
        run(likelihood)
    assert asked == [chosen.get("target_accept")]


def test_more_records_than_sums_are_exact_for_are_refused(made, monkeypatch):
    monkeypatch.setattr(RecordModel, "lengths", {2**29 + 1})
    with pytest.raises(ValueError, match=r"more than 2\*\*29 records"):
        dp.release_likelihood(made, epsilon=1)
