"""DPFastMH, one step at a time: what is drawn and paid, poison, arguments, the published algorithm."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from benchmarks.published_fast_mh import PublishedFastMH
from pymc_dp.kernels.metropolis import Move, State
from pymc_dp.privacy.accounting.event_sets import EventSet
from pymc_dp.privacy.accounting.events import BoundedRangeDecisionDpEvent, PenaltyDecisionDpEvent
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom, TunaBatches
from pymc_dp.ratios import tuna
from pymc_dp.ratios.all_records import AllRecords
from pymc_dp.ratios.tuna import TunaBatch
from tests.conftest import NUMBA, logistic_model, simple_data

N = 4000
ARGS = {"epsilon": 1.0, "delta": 1e-6, "lipschitz": 1.0, "batch_size": N / 4, "chains": 1}


@pytest.fixture(scope="module")
def large():
    """Enough records for batches."""
    return logistic_model(N)


def made(model, **kwargs):
    with model:
        return dp.DPFastMH(**{**ARGS, **kwargs})


def started(model, tune=0, draws=200, seed=0, **kwargs):
    step = made(model, **kwargs)
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    return step


def run(step, point, iterations):
    found = []
    for _ in range(iterations):
        point, (stat,) = step.step(point)
        found.append(stat)
    return step.records.ravel(point), found


@pytest.mark.slow
@pytest.mark.parametrize("test", ["barker", "penalty"])
@pytest.mark.parametrize("relation", ["substitute", "add_remove"])
def test_draws_what_it_pays_for(large, test, relation, monkeypatch):
    """Batches of the event's rate and bound, no move beyond the bound, and never the size of a batch."""
    public = {"public_n": 3800} if relation == "add_remove" else {}
    step = started(large, test=test, neighboring_relation=relation, step_size=9.0, draws=120, **public)
    ((event, count),) = step.plan.iteration[0].counts.items()
    assert count == 1
    drawn, bounds = [], []
    draw, log_ratio = TunaBatches.draw, tuna.log_ratio

    def counting(self, random, n):
        index = draw(self, random, n)
        assert (self.rate, self.clip_bound) == (event.rate, event.clip_bound)
        drawn.append(index.size)
        return index

    def bounded(ratios, bound, batches, uniforms):
        bounds.append(bound)
        return log_ratio(ratios, bound, batches, uniforms)

    monkeypatch.setattr(TunaBatches, "draw", counting)
    monkeypatch.setattr(tuna, "log_ratio", bounded)
    _, all_stats = run(step, large.initial_point(0), 120)
    assert max(bounds) <= event.clip_bound
    assert min(bounds) > 0.999 * event.clip_bound  # all moves shortened to the longest
    mean = N * (event.rate + event.clip_bound)  # the true number of records, under add/remove as well
    assert np.mean(drawn) == pytest.approx(mean, abs=6 * math.sqrt(mean / 120))
    assert len(set(drawn)) > 30
    expected = (3800 if public else N) * (event.rate + event.clip_bound)
    (reported,) = {s["batch_size"] for s in all_stats}
    assert reported == pytest.approx(expected, rel=1e-12)
    noise = {s["noise_std"] for s in all_stats}
    assert noise == {0.0} if test == "barker" else max(noise) <= event.noise_std
    assert step.facts()["n"] == (None if public else N)


@pytest.mark.slow
def test_shorter_moves_have_less_noise_in_proportion_to_the_largest_term(large):
    step = started(large, test="penalty", proposal="gaussian", draws=50)
    _, all_stats = run(step, large.initial_point(0), 50)
    batches = step._chain.ratio.batches
    longest = tuna.largest_term(batches.clip_bound, batches)
    noise = step.plan.parameters["noise_std"]
    for stat in all_stats:
        term = tuna.largest_term(min(stat["clip_bound"], batches.clip_bound), batches)
        assert stat["noise_std"] == pytest.approx(noise * term / longest, rel=1e-9)
    assert len({s["noise_std"] for s in all_stats}) > 20


@pytest.mark.slow
def test_what_is_priced_is_what_draws(large):
    """One object: nobody can change it between its price and its use."""
    step = started(large, draws=123)
    mechanism = step.plan.mechanism
    assert step._chain.ratio.batches is mechanism.batches
    assert step.plan.iteration == (EventSet(mechanism.batches.barker_event(), "substitute"),)
    for target, name in ((mechanism, "batches"), (mechanism.batches, "inclusion"), (step.plan, "mechanism")):
        with pytest.raises(FrozenInstanceError):
            setattr(target, name, getattr(target, name))
    step.plan.parameters["inclusion"] *= 1.1  # for a reader; a copy
    assert step.plan.parameters["inclusion"] == mechanism.batches.inclusion


@pytest.mark.slow
def test_small_data_use_all_records():
    model = logistic_model(300)
    barker, penalty = (started(model, batch_size=None, test=test) for test in ("barker", "penalty"))
    for step, event in ((barker, BoundedRangeDecisionDpEvent), (penalty, PenaltyDecisionDpEvent)):
        assert isinstance(step._chain.ratio, AllRecords)
        assert [type(e) for e in step.plan.iteration[0].counts] == [event]
        _, all_stats = run(step, model.initial_point(0), 20)
        assert all(math.isnan(s["batch_size"]) for s in all_stats)
        assert "sum of clipped" in step.facts()["mechanism"]
        assert all(s["clip_bound"] <= step.plan.parameters["clip_bound"] for s in all_stats)
    noise = penalty.plan.parameters["noise_std"]
    assert all(0 < s["noise_std"] <= noise for s in all_stats)
    assert isinstance(started(logistic_model(N), batch_size=0.6 * N)._chain.ratio, AllRecords)


@pytest.mark.slow
def test_both_forms_estimate_the_same_ratio(large):
    """E exp(l) is the exact ratio; tempering multiplies it. 6 standard errors."""
    for tempering in (1.0, 0.5):
        step = started(large, tempering=tempering, draws=77)
        batches, bound = step._chain.ratio.batches, tempering * step.plan.parameters["clip_bound"]
        theta = np.array([0.1, 0.2])
        new = theta + np.array([0.6, -0.8]) * step.moves.longest
        full = AllRecords(step.records, tempering)
        random, ratio = PrivacyRandom(1), step._chain.ratio
        move = Move(new, bound / tempering, None)
        exact = full(State(theta, *full.at(theta)), move, random).value
        rows = [step.records.full_batch.rows(point) for point in (theta, new)]
        assert exact == pytest.approx(tempering * np.sum(rows[1] - rows[0]), abs=1e-3 * bound * math.sqrt(N))
        values = np.exp([ratio(State(theta, None, 0.0), move, random).value for _ in range(300)])
        error = values.std() / math.sqrt(values.size)
        assert error < 0.3 * math.exp(exact)
        assert values.mean() == pytest.approx(math.exp(exact), abs=6 * error)
        assert isinstance(step._chain.ratio, TunaBatch) and batches.clip_bound == bound


@pytest.mark.slow
@pytest.mark.parametrize("bad", [1e300, -1e300, np.nan, np.inf])
def test_a_poisoned_record_moves_the_ratio_by_its_own_draws_only(bad):
    """Same batch, one record replaced: at most two largest terms for each of its two draws."""
    x, y = simple_data(N)
    other = x.copy()
    other[7] = bad
    index = np.array([7, 3, 7, 9, 100])
    ratios = []
    for data in (x, other):
        step = started(logistic_model(x=data, y=y), draws=88)
        batches = step._chain.ratio.batches
        bound = step.plan.parameters["clip_bound"]
        theta, new = np.zeros(2), np.array([1.0, 0.0]) * step.moves.longest
        raw = step.records.ratios(theta, new, index)
        ratios.append([tuna.log_ratio(raw, bound, batches, np.full(5, u)) for u in (0.0, 0.3, 0.9)])
    most = 2 * tuna.largest_term(bound, batches) * (1 + 1e-9)
    assert np.all(np.isfinite(ratios))
    assert np.all(np.abs(np.subtract(*ratios)) <= 2 * most)
    final, all_stats = run(started(logistic_model(x=other, y=y), draws=89), {"beta": np.zeros(2)}, 50)
    assert np.all(np.isfinite(final))
    assert 0 < sum(s["accepted"] for s in all_stats) < 50


@pytest.mark.slow
def test_tuning_stays_within_the_longest_move(large):
    """Decisions alone move the step size; accepted longest moves do not make it grow."""
    step = started(large, tune=100, draws=100)
    before = step.moves.step_size
    step.moves.move(step.rng)
    step.moves.learn(True, 1)
    longest = step.moves.longest / step.moves.unit_length
    assert before <= longest * (1 + 1e-9)
    for iteration in range(2, 100):
        step.moves.move(step.rng)
        step.moves.learn(True, iteration)
    assert step.moves.step_size <= 1.5 * longest
    step.moves.move(step.rng)
    step.moves.learn(False, 100)
    assert step.moves.step_size < 1.5 * longest


def test_infinite_epsilon_is_plain_tunamh_and_says_so(large):
    step = started(large, epsilon=np.inf, draws=60, test="penalty", batch_size=None)
    assert isinstance(step._chain.ratio, TunaBatch)
    _, all_stats = run(step, large.initial_point(0), 60)
    assert all(s["noise_std"] == 0 and not s["is_private"] for s in all_stats)
    assert "Metropolis test" in step.facts()["mechanism"]
    assert {s["batch_size"] for s in all_stats} == {1000}


@pytest.mark.slow
def test_sample_release_and_report(large, quiet):
    with large:
        step = dp.DPFastMH(**{**ARGS, "chains": 2})
    result = dp.sample(step, 30, tune=10, random_seed=1, cores=1, **quiet)
    assert result.posterior["beta"].shape == (2, 30, 2)
    report = dp.privacy_report(result)
    assert "Poisson batches" in str(report) and "Barker's test" in str(report)
    assert report.plan.epsilon_at(1e-6) <= 1.0
    assert np.all(result.sample_stats["batch_size"].values == step.plan.parameters["batch_size"])


def test_the_price_needs_no_data(large, monkeypatch):
    step = made(large)

    def read(*args):
        raise AssertionError("a record was read")

    monkeypatch.setattr(step.records, "full_batch", read)
    monkeypatch.setattr(step.records, "ratios", read)
    assert step.cost(draws=500, tune=100).epsilon_at(1e-6) <= 1.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive"),
        ({"epsilon": np.nan}, "epsilon must be a positive"),
        ({"delta": 1}, "delta must lie strictly"),
        ({"lipschitz": None}, "Give exactly one of lipschitz= and clip_bound="),
        (
            {"clip_bound": 1.0, "step_size": 0.1},
            "Give exactly one of lipschitz= and clip_bound=",
        ),
        ({"lipschitz": None, "clip_bound": 1.0}, "clip_bound= needs step_size="),
        ({"lipschitz": np.ones(N)}, "lipschitz must be positive"),
        ({"lipschitz": -1.0}, "lipschitz must be positive"),
        ({"batch_size": N + 1}, "larger than n = 4000"),
        ({"batch_size": 0}, "batch_size must be positive"),
        ({"batch_size": np.nan}, "batch_size must be positive"),
        ({"batch_size": "100"}, "batch_size must be positive"),
        ({"batch_size": True}, "batch_size must be positive"),
        ({"test": "metropolis"}, "test must be one of barker, penalty, got"),
        ({"noise_std": 0.0, "test": "penalty"}, "noise_std must be positive"),
        ({"neighboring_relation": "add_remove"}, "give public_n="),
        ({"neighboring_relation": "add_remove", "public_n": -5}, "public_n must be positive"),
        ({"target_accept": 1.0}, "target_accept must lie"),
        ({"step_size": np.inf}, "step_size must be positive"),
        ({"tempering": 0}, "tempering must lie"),
    ],
)
def test_bad_arguments_are_refused_at_construction(large, kwargs, message):
    with pytest.raises(ValueError, match=message):
        made(large, **kwargs)


@pytest.mark.slow
def test_no_lambda_and_no_budget_are_refused_before_a_row_is_read(large):
    clipped = {"lipschitz": None, "step_size": 0.01}
    for kwargs, error, message in (
        ({"clip_bound": 0.1, "batch_size": 0.1 * N}, ValueError, "leaves no lambda"),
        ({"clip_bound": 0.5, "batch_size": None}, dp.errors.BudgetError, "Take clip_bound = "),
        ({"clip_bound": 0.01, "batch_size": 0.012 * N}, dp.errors.BudgetError, "Take a larger batch_size"),
    ):
        step = made(large, **clipped, **kwargs)
        step.records.full_batch = step.records._batches = None  # reading would fail in another way
        for call in (step.cost, lambda s=step: s.setup_chain(np.random.default_rng(0), 0, 1000)):
            with pytest.raises(error, match=message):
                call()


# the published algorithm


def two_records(ratio):
    """A move from 0 to 1 changes the log-likelihood of the first of two records by `ratio`."""
    slope = np.array([ratio, 0.0])
    with pm.Model() as model:
        theta = pm.Flat("theta")
        pm.CustomDist("y", theta, logp=lambda value, theta: value * theta, observed=slope)
    return model


PUBLISHED = {"epsilon": 0.05, "delta": 1e-5}


def rejections(model, size=2000, cls=PublishedFastMH, **kwargs):
    """How often a move from 0 to 1 is rejected."""
    with model:
        step = cls(chains=1, compile_kwargs=NUMBA, **kwargs)
    step.setup_chain(np.random.default_rng(0), 0, 10)
    step.moves.move = lambda rng: np.ones(1)
    start, count = step._arrive(step._chain, np.zeros(1)), 0
    for _ in range(size):
        step._chain.state = start
        count += not step._iterate(step._chain)[0]
    return count / size


@pytest.mark.slow
def test_the_published_free_branch_rejects_under_one_neighbour_only():
    """Both branches at their thresholds, where Algorithm 2 adds no noise; Barker's test rejects always."""
    full = {"lipschitz": 0.025, "largest_batch": 1, "base_batch": 50.0}
    assert rejections(two_records(0.0), **PUBLISHED, **full) == 0
    found = rejections(two_records(-0.025), **PUBLISHED, **full)
    assert found == pytest.approx(1 - math.exp(-0.025), abs=6 * math.sqrt(0.025 / 2000))
    assert found > 300 * PUBLISHED["delta"]
    bound = 0.5 * 50 * math.expm1(0.05 / 600)  # C M at the threshold epsilon / (3 K), for K = 100
    mini = {"lipschitz": 0.999 * bound, "largest_batch": 100, "base_batch": 50.0}
    assert rejections(two_records(0.0), **PUBLISHED, **mini) == 0
    # Expected 16 of 8,000; none with probability 1e-7.
    assert rejections(two_records(-bound), size=8000, **PUBLISHED, **mini) > 10 * PUBLISHED["delta"]
    private = {"epsilon": 1.0, "delta": 1e-5, "lipschitz": None, "clip_bound": 0.025, "step_size": 1.0}
    for ratio in (0.0, -0.025):
        assert rejections(two_records(ratio), size=500, cls=dp.DPFastMH, **private) == pytest.approx(
            0.5, abs=0.14
        )


def test_the_published_algorithm_adds_noise_beyond_the_threshold():
    """Of the article's standard deviation, in both branches."""
    with two_records(0.0):
        step = PublishedFastMH(chains=1, lipschitz=1.0, **PUBLISHED, largest_batch=100)
    ratio, random = step.ratio, PrivacyRandom(1)
    state, new = State(np.zeros(1), None, 0.0), np.ones(1)
    assert ratio.base == 50 and ratio.total == 2
    assert ratio(state, Move(new, ratio.largest_free, None), random).noise_std == 0
    noisy = ratio(state, Move(new, 0.02, None), random)
    share = 100 * 1.0 / 2
    stated = 6 * share * math.sqrt(2 * math.log(2.5 * share / 1e-5)) / 0.05
    assert noisy.noise_std == pytest.approx(stated * 2 * math.log1p(2 * 0.02 / 50))
    full = ratio(state, Move(new, 1000.0, None), random)
    assert full.noise_std == pytest.approx(math.sqrt(2 * math.log(1.25e5)) / 0.05 * 2 * 1000.0)


def test_the_published_algorithm_reports_no_guarantee(large, quiet):
    with large, pytest.raises(ValueError, match="lipschitz must be positive"):
        PublishedFastMH(**PUBLISHED, chains=1, lipschitz=np.zeros(N))
    with large:
        step = PublishedFastMH(
            **PUBLISHED, chains=1, lipschitz=np.linspace(0.5, 1.0, N), compile_kwargs=NUMBA
        )
    with pytest.warns(dp.errors.NotPrivateWarning):
        result = dp.sample(step, 20, tune=0, random_seed=1, cores=1, **quiet)
    report = dp.privacy_report(result)
    assert "NONE. THIS RUN IS NOT PRIVATE" in str(report) and "Algorithm 2, as published" in str(report)
    assert not result.sample_stats["is_private"].values.any()
    assert np.all(np.isinf(result.sample_stats["epsilon_spent"].values))
