"""What a call may run is counted before a row is read, across processes."""

import multiprocessing
import os
import pickle
from dataclasses import replace

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from pymc.sampling.parallel import ParallelSamplingError

import pymc_dp as dp
from pymc_dp.privacy.budget.call import CallBudget
from pymc_dp.privacy.mechanisms.iterations import Penalty, Unlimited
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from tests.conftest import logistic_model
from tests.remote import processes

ARGS = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0}


@pytest.fixture
def reads(monkeypatch):
    """Count how often private rows are read in this process while sampling."""
    from pymc_dp.records.sums import FullBatch

    count = []
    for name in ("__call__", "at"):
        original = getattr(FullBatch, name)

        def spy(self, *args, _original=original):
            count.append(1)
            return _original(self, *args)

        monkeypatch.setattr(FullBatch, name, spy)
    return count


def make(model, chains=2, **kwargs):
    with model:
        return dp.DPPenaltyMH(chains=chains, **{**ARGS, **kwargs})


def test_more_or_fewer_chains_than_declared_are_refused_before_a_read(logistic, quiet, reads):
    step = make(logistic)
    reads.clear()
    for chains in (1, 3):
        for cores in (1, 2):
            with logistic, pytest.raises(dp.errors.BudgetError, match="chains=2"):
                pm.sample(20, tune=10, chains=chains, cores=cores, step=step, **quiet)
    assert not reads


class OverItsBudget(dp.DPPenaltyMH):
    """A step of somebody else's, whose price is wrong."""

    def _price(self, call):
        return self.wrong(super()._price(call))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda plan: replace(plan, mechanism=Penalty(plan.noise_multiplier / 3)),
        lambda plan: replace(plan, mechanism=Penalty(0.999 * plan.noise_multiplier)),
        lambda plan: replace(plan, mechanism=Unlimited()),
        lambda plan: replace(plan, tune=0, draws=1, mechanism=Penalty(plan.noise_multiplier / 3)),
        lambda plan: replace(plan, epsilon=100.0, mechanism=Penalty(plan.noise_multiplier / 3)),
        lambda plan: replace(plan, delta=0.1, mechanism=Penalty(plan.noise_multiplier / 3)),
    ],
)
def test_a_price_over_the_budget_is_refused_before_a_read(logistic, reads, wrong):
    with logistic:
        step = OverItsBudget(chains=1, **ARGS)
    reads.clear()
    step.wrong = wrong
    for priced in (step.cost, lambda *call: step.setup_chain(np.random.default_rng(0), *call)):
        with pytest.raises(dp.errors.BudgetError, match=r"OverItsBudget\._price"):
            priced(20, 10)
    assert not reads
    step.wrong = lambda plan: replace(plan, mechanism=Penalty(1.001 * plan.noise_multiplier))  # control
    step.setup_chain(np.random.default_rng(0), 20, 10)


@pytest.mark.slow
def test_second_call_is_refused_with_advice_before_a_read(logistic, quiet, reads):
    step = make(logistic)
    with logistic:
        pm.sample(20, tune=10, chains=2, cores=1, step=step, random_seed=1, **quiet)
        reads.clear()
        for seed in (1, 2, None):  # the same seed looks like the same chains again
            with pytest.raises(dp.errors.BudgetError, match=r"already used.*Make a new step"):
                pm.sample(20, tune=10, chains=2, cores=1, step=step, random_seed=seed, **quiet)
    assert not reads


@pytest.mark.slow
def test_a_chain_too_many_is_refused_by_the_chain_itself(logistic, reads):
    """Not only by the progress bar's early check, which PyMC might stop making."""
    step = make(logistic)
    reads.clear()
    rngs = np.random.default_rng(0).spawn(3)
    for rng in rngs[:2]:
        step.setup_chain(rng, 5, 5)
    with pytest.raises(dp.errors.BudgetError, match="covers 2 chain"):
        step.setup_chain(rngs[2], 5, 5)
    with pytest.raises(dp.errors.BudgetError, match="setup_chain"):
        step.step(logistic.initial_point(0))
    assert not reads


def test_chains_of_different_length_are_refused(logistic):
    step = make(logistic)
    rngs = np.random.default_rng(0).spawn(2)
    step.setup_chain(rngs[0], 5, 5)
    with pytest.raises(dp.errors.BudgetError, match="same numbers"):
        step.setup_chain(rngs[1], 5, 6)


@pytest.mark.slow
def test_an_interrupted_chain_stays_paid(logistic, quiet):
    step = make(logistic, chains=1)

    def stop(trace, draw):
        if draw.draw_idx == 50:
            raise KeyboardInterrupt

    with logistic:
        pm.sample(60, tune=10, chains=1, cores=1, step=step, callback=stop, **quiet)
        with pytest.raises(dp.errors.BudgetError, match="already used"):
            pm.sample(20, tune=10, chains=1, cores=1, step=step, **quiet)


def test_a_lost_file_refuses(logistic):
    step = make(logistic)
    os.unlink(step._call.path)
    with pytest.raises(dp.errors.BudgetError, match="cannot be opened"):
        step.setup_chain(np.random.default_rng(0), 5, 5)


def test_no_more_iterations_than_paid(logistic):
    step = make(logistic, chains=1)
    step.setup_chain(np.random.default_rng(0), 2, 3)
    point = logistic.initial_point(0)
    for _ in range(5):
        point, _ = step.step(point)
    with pytest.raises(dp.errors.BudgetError, match="5 iterations"):
        step.step(point)


def test_another_step_on_the_same_variables_is_noticed(logistic, quiet):
    step = make(logistic)
    with logistic, pytest.raises(dp.errors.PrivacyError, match="other than this step"):
        pm.sample(200, tune=10, chains=2, cores=1, step=[step, pm.Slice([logistic["beta"]])], **quiet)


def _claim(slots, call, chain, results):
    try:
        results.put(slots.claim(call, chain, 5, 5))
    except dp.errors.BudgetError:
        results.put(None)


def test_processes_racing_for_the_last_slots():
    slots = CallBudget(3, "substitute")
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_claim, args=(slots, "call", str(i), results)) for i in range(8)]
    for worker in workers:
        worker.start()
    got = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert sorted(x for x in got if x is not None) == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", processes.CONTEXT], ids=["fork", "pickled"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_processes(quiet, method, tmp_path):
    """They share what may run, and one entry of a ledger; a second call finds it taken, in any process."""
    model, ledger = logistic_model(), dp.Ledger(tmp_path / "study.db", epsilon=2.5, delta=1e-6)
    step = make(model, ledger=ledger)
    run = {"draws": 60, "tune": 20, "cores": 2, "model": model, **quiet}
    idata = dp.sample(step, mp_ctx=method, random_seed=3, **run)
    assert idata.posterior.sizes["chain"] == 2
    assert dp.privacy_report(idata).plan.iterations == 160
    assert not np.array_equal(idata.sample_stats["accepted"][0], idata.sample_stats["accepted"][1])
    assert [entry.status for entry in ledger.entries()] == ["confirmed"]
    with pytest.raises(ParallelSamplingError) as caught:
        pm.sample(chains=2, step=step, mp_ctx="fork", **run)
    assert isinstance(caught.value.__cause__, dp.errors.BudgetError)
    assert len(ledger.entries()) == 1


def test_copies_carry_no_noise_no_rows_and_no_paid_chain(logistic):
    step = make(logistic, chains=2)
    step.setup_chain(np.random.default_rng(0).spawn(1)[0], 5, 5)
    step.step(logistic.initial_point(0))
    copy = cloudpickle.loads(cloudpickle.dumps(step))
    assert copy._chain is None
    with pytest.raises(dp.errors.BudgetError):
        copy.step(logistic.initial_point(0))
    assert "_chain" not in vars(make(logistic)), "nothing of a chain before its set-up"
    for private in (step._chain, step._chain.random, step._chain.budget):
        with pytest.raises(TypeError, match="never copied"):
            pickle.dumps(private)


def test_a_forked_child_cannot_use_the_parents_noise():
    random = PrivacyRandom()
    child = os.fork()
    if child == 0:
        try:
            random.normals()
        except dp.errors.PrivacyError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_noise_streams_differ():
    assert len({PrivacyRandom().normals() for _ in range(5)}) == 5
    assert PrivacyRandom(3, 0).normals() != PrivacyRandom(3, 1).normals()
    assert PrivacyRandom(3, 1).normals() == PrivacyRandom(3, 1).normals()
