"""DPBarker, one step at a time: what is priced is what is done, on all records and on batches."""

import math

import numpy as np
import pymc as pm
import pytest
from dp_accounting import dp_event
from scipy import stats
from scipy.special import erfc, expit

import pymc_dp as dp
from pymc_dp.kernels import metropolis as kernel
from pymc_dp.privacy import BarkerMinibatchDpEvent, BoundedRangeDecisionDpEvent, EventSet
from pymc_dp.privacy.accounting.decisions import subset_barker_rdp
from pymc_dp.privacy.budget import pricing
from pymc_dp.privacy.budget.plan import Call
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches
from pymc_dp.ratios import barker_correction
from tests import barker_law
from tests.conftest import logistic_model, simple_data

ARGS = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0, "chains": 1}
POISON = (1e300, -1e300, np.nan, np.inf, -np.inf)


def started(model, tune=0, draws=100, seed=0, **kwargs):
    with model:
        step = dp.DPBarker(**{**ARGS, **kwargs})
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    return step


def run(step, point, iterations):
    all_stats = []
    for _ in range(iterations):
        point, (stat,) = step.step(point)
        all_stats.append(stat)
    return point, all_stats


# what is priced


@pytest.mark.parametrize(
    "kwargs", [{}, {"neighboring_relation": "add_remove"}, {"tempering": 0.3}, {"lipschitz": 7.0}]
)
def test_the_bound_is_what_the_budget_buys_and_moves_keep_to_it(logistic, kwargs):
    step = started(logistic, tune=40, draws=60, **kwargs)
    step.moves.step_size = 100.0  # every move would be longer than allowed
    moves, move = [], step.moves.move
    step.moves.move = lambda rng: moves.append(move(rng)) or moves[-1]
    _, all_stats = run(step, logistic.initial_point(0), 100)
    sensitivity = 1 if kwargs.get("neighboring_relation") == "add_remove" else 2
    (event,) = step.plan.iteration[0].counts
    bound = all_stats[0]["clip_bound"]
    assert {s["clip_bound"] for s in all_stats} == {bound}
    eta = step.tempering * sensitivity * bound
    assert eta <= event.eta == pytest.approx(eta, rel=1e-9)
    assert 0.999 * 2.0 < step.plan.epsilon_at(1e-6) <= 2.0
    lengths = [math.sqrt(m @ m) for m in moves]
    assert max(lengths) * step.clip.constant <= bound
    assert min(lengths) * step.clip.constant == pytest.approx(bound, rel=1e-9)
    assert step._chain.clipped == 0 or kwargs.get("lipschitz", 1.0) < 1
    assert {s["noise_std"] for s in all_stats} == {0.0}


def test_a_given_bound_fixes_the_price(logistic):
    step = started(logistic, lipschitz=None, clip_bound=0.01, tempering=0.5)
    assert step.plan.iteration == (EventSet(BoundedRangeDecisionDpEvent(0.01), "substitute"),)
    assert step.plan.epsilon_at(1e-6) < 2.0


def test_a_bound_that_does_not_fit_is_refused_with_advice_before_a_read(logistic, monkeypatch):
    with logistic:
        step = dp.DPBarker(**{**ARGS, "lipschitz": None, "clip_bound": 3.0})
    monkeypatch.setattr(step.records, "full_batch", None)
    message = r"cost epsilon = .*budget is 2: \d+ iterations would fit. clip_bound = ([\d.]+) would fit"
    with pytest.raises(dp.errors.BudgetError, match=message) as error:
        step.setup_chain(np.random.default_rng(0), 100, 900)
    advised = float(str(error.value).split("clip_bound = ")[1].split()[0])
    with logistic:
        fits = dp.DPBarker(**{**ARGS, "lipschitz": None, "clip_bound": advised}).cost(900, 100)
    assert 1.9 < fits.epsilon_at(1e-6) <= 2.0


def test_batches_are_priced_by_their_sizes(logistic):
    step = started(logistic, batch_size=20, tempering=0.1, epsilon=50.0, draws=30)
    assert step.plan.iteration == (EventSet(BarkerMinibatchDpEvent(20, 60), "substitute"),)
    assert step.plan.parameters["clip_bound"] == pytest.approx(math.sqrt(20) / (60 * 0.1), rel=1e-15)
    assert step.plan.guarantee.accountant == "RDP"
    _, all_stats = run(step, logistic.initial_point(0), 30)
    # Neither the noise that was added nor anything else that the batch decides.
    assert {(s["noise_std"], s["batch_size"]) for s in all_stats} == {(math.sqrt(2), 20.0)}
    assert all(math.isnan(s["clip_fraction"]) for s in all_stats)
    assert "approximate" in step.facts()["approximation"]


@pytest.mark.slow
def test_batches_that_do_not_fit_are_refused_with_advice_before_a_read():
    model = logistic_model(n=400)
    with model:
        step = dp.DPBarker(**ARGS, batch_size=300)
    step.records.ratios = None
    with pytest.raises(
        dp.errors.BudgetError, match=r"iterations would fit. batch_size = \d+ would fit"
    ) as error:
        step.setup_chain(np.random.default_rng(0), 0, 100)
    advised = int(str(error.value).split("batch_size = ")[1].split()[0])
    with model:
        assert dp.DPBarker(**ARGS, batch_size=advised).cost(100, 0).epsilon_at(1e-6) <= 2.0
        with pytest.raises(dp.errors.BudgetError, match="No smaller batch fits"):
            dp.DPBarker(**{**ARGS, "epsilon": 1e-3}, batch_size=15).cost(100, 0)


@pytest.mark.slow
def test_the_whole_call_never_exceeds_the_budget(quiet):
    with logistic_model(n=200):
        for kwargs in ({}, {"batch_size": 50}):
            step = dp.DPBarker(**{**ARGS, "chains": 2, "epsilon": 4.0}, **kwargs)
            idata = dp.sample(step, draws=30, tune=20, cores=1, random_seed=1, **quiet)
            assert idata.sample_stats["epsilon_spent"].values[:, -1].max() <= 4.0
            report = str(dp.privacy_report(idata))
            assert "DPBarker" in report and ("approximate: the error" in report.replace("\n", " ")) == bool(
                kwargs
            )


# what is done


@pytest.fixture
def decisions(monkeypatch):
    """Log-ratios that Barker's test judged; all are rejected, so that the chain stays where it is."""
    seen = []
    monkeypatch.setattr(kernel, "barker", lambda ratio, *draws: bool(seen.append(ratio)))
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("kwargs", [{}, {"neighboring_relation": "add_remove"}, {"tempering": 0.2}])
def test_no_record_moves_the_log_ratio_by_more_than_eta(decisions, kwargs):
    """Replace a record by anything: prior and proposals are the same, the ratio moves by at most eta."""
    x, y = simple_data()
    ratios = {}
    for poison in (None, *POISON[1:4]):
        data = x.copy()
        if poison is not None:
            data[5] = poison
        decisions.clear()
        step = started(logistic_model(x=data, y=y), step_size=50.0, draws=20, **kwargs)
        run(step, {"beta": np.array([0.5, -1.0])}, 20)
        ratios[poison] = np.array(decisions)
    (event,) = step.plan.iteration[0].counts
    # Under add/remove a replacement is one removal and one addition.
    replaced = 2 if kwargs.get("neighboring_relation") == "add_remove" else 1
    largest = max(np.max(np.abs(ratios[p] - ratios[None])) for p in ratios if p)
    assert 0 < largest <= replaced * event.eta * (1 + 1e-9)


@pytest.mark.parametrize("tempering", [1.0, 0.3])
def test_the_log_ratio_is_that_of_the_posterior(logistic, decisions, tempering):
    """Up to the grid: the sum over all records and the prior."""
    step = started(logistic, draws=10, tempering=tempering)
    moves, move = [], step.moves.move
    step.moves.move = lambda rng: moves.append(move(rng)) or moves[-1]
    theta = np.array([0.5, -1.0])
    _, all_stats = run(step, {"beta": theta}, 10)
    grid = 60 * tempering * all_stats[0]["clip_bound"] * 2.0**-21
    for displacement, ratio in zip(moves, decisions, strict=True):
        exact = tempering * step.records.ratios(theta, theta + displacement, np.arange(60)).sum()
        exact += step.records.log_prior(theta + displacement) - step.records.log_prior(theta)
        assert abs(exact) > 1e-3 > grid
        assert ratio == pytest.approx(exact, abs=grid + 1e-12)


def test_without_the_clip_the_poison_would_show(decisions):
    """Control of the test above."""
    x, y = simple_data()
    data = x.copy()
    data[5] = 1e3 if y[5] else -1e3
    step = started(logistic_model(x=data, y=y), step_size=50.0, draws=20)
    (event,) = step.plan.iteration[0].counts
    step._chain.clip_bound = step._chain.ratio.largest = 1e3  # as good as none
    run(step, {"beta": np.array([0.5, -1.0])}, 20)
    assert max(abs(r) for r in decisions) > 20 * event.eta


@pytest.mark.parametrize(
    ("b", "n", "tempering"), [(11, 11, 1.0), (12, 60, 0.3), (50, 1000, 1e-3), (40, 41, 1.0)]
)
def test_a_batch_keeps_to_what_theorem_4_assumes(b, n, tempering):
    """For anything in the batch: the ratio moves by at most 2 / sqrt(b), its variance is at most 1."""
    rng = np.random.default_rng(b)
    bound = barker_correction.clip_bound(b, n, tempering)
    values = np.array([*POISON, 0.0, bound, -bound, 0.3 * bound])
    most = 2 / math.sqrt(b) * (1 + 1e-12)
    for _ in range(300):
        batch = rng.choice(values, b)
        ratio, variance = barker_correction.batch_ratio(batch, n, tempering)
        assert 0 <= variance <= 1
        other = batch.copy()
        other[0] = rng.choice(values)
        assert abs(barker_correction.batch_ratio(other, n, tempering)[0] - ratio) <= most
        clean = np.clip(np.nan_to_num(batch, nan=0.0, posinf=bound, neginf=-bound), -bound, bound)
        assert ratio == pytest.approx(n * tempering / b * clean.sum(), rel=1e-5, abs=1e-5)
        # The variance with divisor b, less what sampling without replacement takes off.
        of_batch = (n * tempering) ** 2 / b * clean.var()
        assert variance <= of_batch * (1 + 1e-4) + 1e-5
    edge = np.full(b, bound)
    flipped = np.where(np.arange(b) == 0, -bound, edge)
    change = [barker_correction.batch_ratio(r, n, tempering)[0] for r in (edge, flipped)]
    assert change[0] - change[1] == pytest.approx(2 / math.sqrt(b), rel=1e-12)


@pytest.mark.parametrize(("b", "n"), [(12, 100), (12, 16)])
def test_the_variance_is_that_of_the_batches(b, n):
    """Mean of the estimate over batches; unbiased where b is not far below sqrt(n) (here 10 and 4)."""
    rng = np.random.default_rng(0)
    ratios = rng.uniform(-1, 1, n) * barker_correction.clip_bound(b, n, 1.0)
    pairs = [
        barker_correction.batch_ratio(ratios[rng.choice(n, b, replace=False)], n, 1.0) for _ in range(10_000)
    ]
    total, variance = np.array(pairs).T
    assert total.mean() == pytest.approx(ratios.sum(), abs=0.05)
    assert variance.mean() == pytest.approx(total.var(), rel=0.05)


def two_values(n=200):
    """Half the records at 1, half at -1: a move by t from -t / 2 has ratios of plus and minus t."""
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1)
        pm.Normal("y", theta, 1, observed=np.where(np.arange(n) % 2, 1.0, -1.0))
    return model


@pytest.mark.slow
def test_every_batch_is_new_and_its_noise_completes_it(monkeypatch):
    """The largest variance that a batch can have and the noise make N(0, 2); Kolmogorov-Smirnov at 1e-6.

    Control: noise of variance 2 that takes no account of the batch fails.
    """
    model, b, n, tempering, draws = two_values(), 50, 200, 0.05, 10_000
    step = started(model, batch_size=b, tempering=tempering, epsilon=np.inf, draws=2 * draws)
    batches, ratios, noise = [], [], []
    draw, normal = FixedSizeBatches.draw, type(step._chain.random).normals

    def recording(self, random):
        batches.append(draw(self, random))
        return batches[-1]

    monkeypatch.setattr(FixedSizeBatches, "draw", recording)
    monkeypatch.setattr(
        type(step._chain.random),
        "normals",
        lambda self, size=None: noise.append(normal(self, size)) or noise[-1],
    )
    step._chain.accept = lambda ratio, noise_std, random: bool(ratios.append(ratio))
    monkeypatch.setattr(step.records, "full_batch", None)  # never read
    bound = barker_correction.clip_bound(b, n, tempering)
    step.moves.move = lambda rng: np.array([bound])
    run(step, {"theta": np.array(-bound / 2)}, draws)
    ratios = np.array(ratios)
    assert stats.kstest(ratios / math.sqrt(2), "norm").pvalue > 1e-6
    values = np.where(np.arange(n) % 2, 1.0, -1.0)
    of_batch = np.array([values[batch].sum() / math.sqrt(b) for batch in batches])
    assert of_batch.var() == pytest.approx(0.75, rel=0.1)
    unaware = of_batch + math.sqrt(2) * np.array(noise)
    assert stats.kstest(unaware / math.sqrt(2), "norm").pvalue < 1e-6
    assert all(len(set(batch)) == b for batch in batches)
    assert len({tuple(sorted(batch)) for batch in batches}) == draws
    # Pairs: the number of batches with both of two neighbours.
    inside = np.zeros((draws, n), dtype=bool)
    np.put_along_axis(inside, np.array(batches), True, axis=1)
    both = (inside & np.roll(inside, 1, axis=1)).sum(0)
    p = b * (b - 1) / (n * (n - 1))
    assert np.all([stats.binomtest(int(k), draws, p).pvalue > 1e-6 / n for k in both])


def decide(step, ratio):
    chain = step._chain
    return chain.accept(ratio, math.nan, chain.random)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [-3.0, -0.5, 0.0, 1.0, 4.0])
def test_acceptance_law(logistic, ratio):
    """Binomial at 1e-6; Metropolis' test, and V left out, fail where they differ enough."""
    draws = 40_000
    step = started(logistic, draws=1, debug_seed=1)
    exact = sum(decide(step, ratio) for _ in range(draws))
    assert stats.binomtest(exact, draws, expit(ratio)).pvalue > 1e-6
    if abs(ratio) <= 1:
        assert stats.binomtest(exact, draws, min(1.0, math.exp(ratio))).pvalue < 1e-6
    batch = started(logistic, draws=1, debug_seed=1, batch_size=20, epsilon=np.inf)
    noise = math.sqrt(2) * np.random.default_rng(2).standard_normal(draws)
    accepted = sum(decide(batch, ratio + e) for e in noise)
    law = float(barker_law.cdf(ratio))
    assert stats.binomtest(accepted, draws, law).pvalue > 1e-6
    assert abs(law - expit(ratio)) <= barker_correction.LARGEST_ERROR
    if abs(ratio) >= 0.5:
        assert stats.binomtest(accepted, draws, stats.norm.cdf(ratio / math.sqrt(2))).pvalue < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("kwargs", [{}, {"batch_size": 20, "epsilon": 100.0}])
def test_a_proposal_without_density_is_rejected(logistic, monkeypatch, kwargs):
    for impossible in (-math.inf, math.nan):
        step = started(logistic, draws=30, debug_seed=0, **kwargs)
        assert not any(decide(step, impossible) for _ in range(1000))


@pytest.mark.parametrize("kwargs", [{}, {"batch_size": 20, "epsilon": 100.0}])
def test_a_chain_on_poisoned_records_runs_like_any_other(kwargs):
    x, y = simple_data()
    x[3], x[4] = np.nan, np.inf
    point, all_stats = run(started(logistic_model(x=x, y=y), **kwargs), {"beta": np.zeros(2)}, 100)
    assert np.all(np.isfinite(point["beta"]))
    assert 0 < sum(s["accepted"] for s in all_stats) < 100


def test_infinite_epsilon_says_so(logistic):
    step = started(logistic, epsilon=np.inf, step_size=0.3)
    _, all_stats = run(step, logistic.initial_point(0), 100)
    assert all(np.isinf(s["epsilon_spent"]) and not s["is_private"] for s in all_stats)
    assert np.ptp([s["clip_bound"] for s in all_stats]) < 1e-12  # L times the fixed radius


def test_tuning_aims_at_barkers_rate_and_stops(logistic):
    step = started(logistic, tune=200, draws=20, epsilon=np.inf, lipschitz=None, clip_bound=10.0)
    assert step.moves.target_accept == pytest.approx(0.16, abs=0.01)
    point, tuned = run(step, logistic.initial_point(0), 200)
    assert tuned[-1]["step_size"] > 3 * tuned[0]["step_size"]
    step.stop_tuning()
    _, after = run(step, point, 20)
    assert len({s["step_size"] for s in after}) == 1


# arguments


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive"),
        ({"epsilon": np.nan}, "epsilon must be a positive"),
        ({"delta": 1}, "delta must lie strictly"),
        ({"lipschitz": None}, "Give exactly one of lipschitz= and clip_bound="),
        ({"clip_bound": 1.0}, "Give exactly one of lipschitz= and clip_bound="),
        ({"lipschitz": 0.0}, "lipschitz must be positive"),
        ({"lipschitz": np.nan}, "lipschitz must be positive"),
        ({"lipschitz": None, "clip_bound": -1.0}, "clip_bound must be positive"),
        ({"chains": 0}, "chains must be an integer"),
        ({"tempering": 1.5}, "tempering must lie"),
        ({"neighboring_relation": "swap"}, "neighboring_relation must be one of"),
        ({"proposal": "levy"}, "unknown proposal 'levy'"),
        ({"step_size": -1}, "step_size must be positive"),
        ({"target_accept": 1}, "target_accept must lie"),
        ({"privacy_unit": [1, 2]}, "privacy_unit must have one id"),
        ({"epsilon": np.inf}, "step_size= is missing"),
        ({"batch_size": 0}, "batch_size must be an integer"),
        ({"batch_size": 20.5}, "batch_size must be an integer"),
        ({"batch_size": True}, "batch_size must be an integer"),
        ({"batch_size": 61}, "larger than the number of records"),
        ({"batch_size": 10}, "batch_size must be above 10"),
        ({"batch_size": 20, "lipschitz": None}, "goes with lipschitz="),
        ({"batch_size": 20, "lipschitz": None, "clip_bound": 1.0}, "goes with lipschitz="),
        ({"batch_size": 20, "clip_bound": 1.0}, "goes with lipschitz="),
        ({"batch_size": 20, "neighboring_relation": "add_remove"}, "n must be public"),
    ],
)
def test_bad_arguments(logistic, kwargs, message):
    with logistic, pytest.raises(ValueError, match=message):
        dp.DPBarker(**{**ARGS, **kwargs})


def test_a_step_must_own_every_free_variable(logistic):
    with logistic:
        pm.Normal("extra")
        with pytest.raises(dp.errors.ModelRefusedError, match="does not sample extra"):
            dp.DPBarker([logistic["beta"]], **ARGS)


@pytest.mark.slow
def test_the_clip_fraction_is_released_and_charged(logistic):
    step = started(logistic, draws=40)
    gaussians = [e for e in step.plan.events.counts if isinstance(e, dp_event.GaussianDpEvent)]
    assert len(gaussians) == 1
    _, all_stats = run(step, logistic.initial_point(0), 40)
    assert [math.isnan(s["clip_fraction"]) for s in all_stats] == [True] * 39 + [False]


# docs/barker.md


def squared_distance(acceptance, precision, lengths):
    """Largest expected squared jump when the log-ratio of a move has variance precision * length^2."""
    return max(length**2 * acceptance(precision * length**2, length) for length in lengths)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "iterations"), [(1.0, 300), (2.0, 2500)])
def test_barker_and_penalty_move_about_as_far(epsilon, iterations):
    call = Call(epsilon, 1e-6, "substitute", 1, 0, iterations)
    longest = pricing.barker(call).clip_bound  # L = T = 1
    normal = stats.norm.ppf((np.arange(500) + 0.5) / 500)

    def barker(variance, length):
        return expit(np.sqrt(variance) * normal - variance / 2).mean()

    for fixed, row in (
        ({}, (0.97, 1.01, 1.07, 1.13, 0.91)),
        ({"noise_std": 2.38}, (0.86, 0.90, 0.98, 1.07, 0.89)),
    ):
        noise = 2 * pricing.penalty(call, **fixed).noise_multiplier

        def penalty(variance, length, noise=noise):
            return erfc(np.sqrt((variance + (noise * length) ** 2) / 8))

        for variance, stated in zip((0.0, 0.3, 1.0, 3.0, 10.0), row, strict=True):
            precision = variance / longest**2
            ours = squared_distance(barker, precision, longest * np.linspace(0.1, 1, 40))
            theirs = squared_distance(penalty, precision, longest * np.geomspace(0.05, 5, 400))
            assert ours / theirs == pytest.approx(stated, abs=0.02)


def test_length_of_the_longest_moves():
    call = Call(2.0, 1e-6, "substitute", 1, 500, 2000)
    assert pricing.barker(call).clip_bound == pytest.approx(0.0090, abs=5e-5)
    call = Call(1.0, 1e-6, "substitute", 1, 500, 2000)
    assert pricing.barker(call).clip_bound == pytest.approx(0.0047, abs=5e-5)
    assert barker_correction.clip_bound(1000, 10**5, 1.0) == pytest.approx(0.0003, abs=5e-5)
    # Squared length per unit of rho: (b / n^2) / rho, and (eta / 2)^2 / (eta^2 / 8) = 2. Half are accepted.
    b, n = 10_000, 10**6
    assert b / n**2 / (subset_barker_rdp(b, n, 2.0) / 2) / 2 == pytest.approx(0.4, abs=0.02)
