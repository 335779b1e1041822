"""A step and a ledger: the whole call is charged before a row is read, once, and stays charged."""

import multiprocessing
import time

import numpy as np
import pymc as pm
import pytest
from dp_accounting import dp_event

import pymc_dp as dp
from tests.conftest import logistic_model

ARGS = {"delta": 1e-6, "lipschitz": 1.0, "chains": 2}


@pytest.fixture
def ledger(tmp_path):
    return dp.Ledger(tmp_path / "study.db", epsilon=2.5, delta=1e-6)


def make(model, ledger, epsilon=2.0, **kwargs):
    with model:
        return dp.DPPenaltyMH(epsilon=epsilon, ledger=ledger, **{**ARGS, **kwargs})


def test_a_call_is_one_entry_confirmed_at_its_end(logistic, quiet, ledger):
    dp.sample(make(logistic, ledger), draws=20, tune=10, cores=1, **quiet)
    (entry,) = ledger.entries()
    assert entry.status == "confirmed" and entry.label == "DPPenaltyMH"
    assert ledger.spent().epsilon(1e-6) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.slow
def test_report_of_a_ledger(logistic, quiet, ledger):
    ledger.record(dp_event.GaussianDpEvent(20.0), label="a histogram")
    dp.sample(make(logistic, ledger, epsilon=1.0), draws=20, tune=10, cores=1, **quiet)
    assert [e.label for e in ledger.entries()] == ["a histogram", "DPPenaltyMH"]
    spent = ledger.spent()
    assert 1.0 < spent.epsilon(ledger.delta) <= ledger.epsilon and ledger.remaining() > 0
    assert spent.by_accountant()[spent.accountant] == pytest.approx(spent.epsilon(ledger.delta))
    for text in (str(ledger), ledger._repr_html_()):
        assert "a histogram" in text and "DPPenaltyMH" in text


@pytest.mark.slow
def test_over_budget_is_refused_before_a_read_with_advice(logistic, quiet, ledger, monkeypatch):
    from pymc_dp.records.sums import FullBatch

    dp.sample(make(logistic, ledger), draws=20, tune=10, cores=1, **quiet)
    step = make(logistic, ledger)
    monkeypatch.setattr(FullBatch, "__call__", lambda *_: pytest.fail("a row was read"))
    monkeypatch.setattr(FullBatch, "at", lambda *_: pytest.fail("a row was read"))
    with pytest.raises(dp.errors.PrivacyBudgetExceeded, match=r"would fit") as caught:
        dp.sample(step, draws=20, tune=10, cores=1, **quiet)
    assert caught.value.spent == pytest.approx(2.0, rel=1e-3) and 0 < caught.value.remaining < 2
    assert len(ledger.entries()) == 1


def test_an_interrupted_call_stays_reserved(logistic, quiet, ledger):
    step = make(logistic, ledger, chains=1)

    def stop(trace, draw):
        if draw.draw_idx == 50:
            raise KeyboardInterrupt

    with logistic:
        pm.sample(60, tune=10, chains=1, cores=1, step=step, callback=stop, **quiet)
    assert [entry.status for entry in ledger.entries()] == ["reserved"]


@pytest.mark.slow
@pytest.mark.parametrize("kwargs", [{"epsilon": np.inf}, {"debug_seed": 1}])
def test_what_is_not_private_does_not_fit_any_ledger(logistic, quiet, ledger, kwargs):
    with pytest.raises(dp.errors.PrivacyBudgetExceeded):
        dp.sample(make(logistic, ledger, **kwargs), draws=10, tune=5, cores=1, **quiet)


def test_relations_must_agree(logistic, ledger):
    with pytest.raises(ValueError, match="neighboring_relation"):
        make(logistic, ledger, neighboring_relation="add_remove")


def call_after_call(path, out):
    """Sample again and again, each call for 0.05, until killed."""
    model = logistic_model()
    ledger = dp.Ledger(path)
    while True:
        step = make(model, ledger, epsilon=0.05, chains=1)

        def note(trace, draw, step=step):
            # What has come out so far: a draw of a call that costs 0.05.
            with open(out, "a") as file:
                file.write(step._call.name + chr(10))
                file.flush()

        with model:
            pm.sample(
                30, tune=5, chains=1, cores=1, step=step, callback=note, progressbar=False, quiet=True,
                compute_convergence_checks=False,
            )  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_killed_runs_never_show_less_than_they_released(tmp_path):
    """SIGKILL at random moments of real sampling: every call that let out a draw is in the ledger."""
    path, out = str(tmp_path / "study.db"), str(tmp_path / "released.txt")
    open(out, "w").close()
    ledger = dp.Ledger(path, epsilon=50, delta=1e-6)
    rng, context = np.random.default_rng(0), multiprocessing.get_context("fork")
    for _ in range(5):
        process = context.Process(target=call_after_call, args=(path, out))
        process.start()
        before = len(ledger.entries())
        deadline = time.monotonic() + 120
        while len(ledger.entries()) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 1.5))
        process.kill()
        process.join()
        with open(out) as file:
            released = set(file.read().split())
        assert released <= {entry.key for entry in ledger.entries()}
    assert released, "nothing was released: the test tested nothing"
