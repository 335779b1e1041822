"""DPPenaltyMH, one step at a time: noise, state, arguments."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.kernels import metropolis as kernel
from pymc_dp.ratios import subsets as batch_ratio
from pymc_dp.records.sums import GRID
from tests.conftest import logistic_model

ARGS = {"epsilon": 2.0, "delta": 1e-6, "lipschitz": 1.0, "chains": 1}


def started(model, tune=0, draws=100, seed=0, **kwargs):
    with model:
        step = dp.DPPenaltyMH(**{**ARGS, **kwargs})
    step.setup_chain(np.random.default_rng(seed), tune, draws)
    return step


def run(step, point, iterations):
    points, stats_ = [], []
    for _ in range(iterations):
        point, (stat,) = step.step(point)
        points.append(step.records.ravel(point))
        stats_.append(stat)
    return np.array(points), stats_


@pytest.mark.slow
@pytest.mark.parametrize("kwargs", [{}, {"neighboring_relation": "add_remove"}, {"tempering": 0.3}])
def test_noise_has_the_stated_law(logistic, monkeypatch, kwargs):
    """Kolmogorov-Smirnov at a false-alarm rate of 1e-6; controls with the noise 10% off fail.

    Records are read for a hundred moves, whose sums the other moves have, too.
    """
    step = started(logistic, draws=20_000, proposal="fixed_radius", **kwargs)
    seen = []
    monkeypatch.setattr(kernel, "penalty", lambda ratio, variance, exponential: seen.append(ratio) or False)
    full = step.records.full_batch
    exact, found = [], []

    def recording(theta, old, bound):
        if len(found) < 100:
            found.append(full(theta, old, bound))
        result = found[len(exact) % 100]
        change = result.log_prior - step._chain.state.log_prior
        exact.append(step.tempering * bound * result.total / GRID + change)
        return result

    recording.at = full.at
    monkeypatch.setattr(step.records, "full_batch", recording)
    _, (first,) = step.step(logistic.initial_point(0))
    for _ in range(19_999):
        step._iterate(step._chain)
    noise = np.array(seen) - np.array(exact)
    sensitivity = 1.0 if kwargs.get("neighboring_relation") == "add_remove" else 2.0
    std = step.tempering * step.plan.noise_multiplier * sensitivity * first["clip_bound"]
    assert len(noise) == 20_000 and first["noise_std"] == pytest.approx(std, rel=1e-12)
    assert stats.kstest(noise / std, "norm").pvalue > 1e-6
    for wrong in (0.9, 1.1):
        assert stats.kstest(noise / std / wrong, "norm").pvalue < 1e-6


@pytest.mark.slow
def test_poison_only_changes_decisions(logistic):
    """A chain on data with a NaN and an infinite record runs like any other."""
    x = logistic_x()
    x[3], x[4] = np.nan, np.inf
    points, all_stats = run(started(logistic_model(x=x)), logistic.initial_point(0), 100)
    assert np.all(np.isfinite(points))
    assert all(np.isfinite(s["noise_std"]) for s in all_stats)


def logistic_x():
    return np.random.default_rng(2).uniform(-1, 1, size=(60, 2)) / np.sqrt(2)


def test_a_chain_is_not_resumed(logistic):
    """Its noise is never stored, and no state buys iterations."""
    step = started(logistic)
    point, _ = run(step, logistic.initial_point(0), 2)
    step.sampling_state = step.sampling_state
    with pytest.raises(dp.errors.BudgetError, match="setup_chain"):
        step.step(point)


@pytest.mark.slow
def test_random_seed_does_not_control_the_noise(logistic):
    chains = [run(started(logistic, draws=300, seed=5), logistic.initial_point(0), 300)[0] for _ in range(2)]
    assert not np.array_equal(*chains)


@pytest.mark.slow
def test_tuning_uses_decisions_alone(logistic):
    step = started(logistic, tune=200, draws=10)
    rng = np.random.default_rng(3)
    decisions = rng.random(200) < 0.5
    sizes = []
    for _ in range(2):
        step.moves.step_size = 0.1
        for iteration, accepted in enumerate(decisions, start=1):
            step.moves.learn(bool(accepted), iteration)
        sizes.append(step.moves.step_size)
    assert sizes[0] == sizes[1] > 0.1  # accepted more often than the target: longer steps


@pytest.mark.slow
def test_step_size_is_fixed_after_tuning(logistic):
    step = started(logistic, tune=50, draws=50)
    point = logistic.initial_point(0)
    for _ in range(50):
        point, _ = step.step(point)
    step.stop_tuning()
    _, all_stats = run(step, point, 50)
    assert len({s["step_size"] for s in all_stats}) == 1


def test_infinite_epsilon_is_plain_metropolis_and_says_so(logistic):
    step = started(logistic, epsilon=np.inf, draws=50)
    _, all_stats = run(step, logistic.initial_point(0), 50)
    assert all(
        s["noise_std"] == 0 and np.isinf(s["epsilon_spent"]) and not s["is_private"] for s in all_stats
    )


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"epsilon": 0}, "epsilon must be a positive"),
        ({"epsilon": -1}, "epsilon must be a positive"),
        ({"epsilon": np.nan}, "epsilon must be a positive"),
        ({"epsilon": "2"}, "epsilon must be a positive"),
        ({"delta": 0}, "delta must lie strictly"),
        ({"delta": 1}, "delta must lie strictly"),
        ({"delta": np.nan}, "delta must lie strictly"),
        ({"lipschitz": None}, "Give exactly one of lipschitz= and clip_bound="),
        ({"clip_bound": 1.0}, "Give exactly one of lipschitz= and clip_bound="),
        ({"lipschitz": 0.0}, "lipschitz must be positive"),
        ({"lipschitz": -1.0}, "lipschitz must be positive"),
        ({"lipschitz": np.inf}, "lipschitz must be positive"),
        ({"lipschitz": None, "clip_bound": np.nan}, "clip_bound must be positive"),
        ({"chains": 0}, "chains must be an integer"),
        ({"chains": 1.5}, "chains must be an integer"),
        ({"tempering": 0}, "tempering must lie"),
        ({"tempering": 1.5}, "tempering must lie"),
        ({"neighboring_relation": "swap"}, "neighboring_relation must be one of"),
        ({"proposal": "levy"}, "unknown proposal 'levy'; known: fixed_radius, gaussian"),
        ({"proposal": 3}, "a proposal is one of"),
        ({"release": "ratio"}, "release must be"),
        ({"step_size": 0}, "step_size must be positive"),
        ({"target_accept": 1}, "target_accept must lie"),
        ({"privacy_unit": [1, 2]}, "privacy_unit must have one id"),
    ],
)
def test_bad_arguments(logistic, kwargs, message):
    with logistic, pytest.raises(ValueError, match=message):
        dp.DPPenaltyMH(**{**ARGS, **kwargs})


def test_epsilon_is_required(logistic):
    with logistic, pytest.raises(TypeError, match="epsilon"):
        dp.DPPenaltyMH(delta=1e-6, lipschitz=1.0)


@pytest.mark.slow
def test_default_chains_are_two(logistic):
    """On every machine: each is paid for."""
    with logistic:
        assert dp.DPPenaltyMH(**{k: v for k, v in ARGS.items() if k != "chains"}).chains == 2


def test_a_step_must_own_every_free_variable(logistic):
    with logistic:
        pm.Normal("extra")
        with pytest.raises(dp.errors.ModelRefusedError, match="does not sample extra"):
            dp.DPPenaltyMH([logistic["beta"]], **ARGS)
        with pytest.raises(dp.errors.ModelRefusedError, match="does not sample"):
            dp.DPPenaltyMH(blocked=False, **ARGS)


def test_fixed_radius_needs_two_dimensions():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("m"), 1, observed=np.zeros(20))
    with pytest.raises(ValueError, match="one dimension"):
        started(model, proposal="fixed_radius")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kwargs", "known"),
    [
        ({"lipschitz": None, "clip_bound": 0.01}, "shift"),
        ({"lipschitz": None, "clip_bound": 0.01, "tempering": 0.5, "proposal": "gaussian"}, "shift"),
        ({"adapt_step_size": False}, "noise_std"),
        ({"adapt_step_size": False, "step_size": 0.01}, "shift"),
        ({"adapt_step_size": False, "proposal": "gaussian"}, None),
        ({}, None),
    ],
)
def test_noise_of_one_public_size_is_charged_as_such(logistic, kwargs, known):
    """The scale that the accountant is told is the scale of the noise that is added, at every iteration."""
    step = started(logistic, tune=20, draws=20, **kwargs)
    _, all_stats = run(step, logistic.initial_point(0), 40)
    sizes = np.array([s["noise_std"] for s in all_stats])
    if known is None:
        assert "noise_std" not in step.plan.parameters and np.ptp(sizes) > 0
    else:
        np.testing.assert_allclose(sizes, step.plan.parameters["noise_std"], rtol=1e-9)
        free = started(logistic, tune=20, draws=20).plan.noise_multiplier
        assert step.plan.noise_multiplier < free


@pytest.mark.slow
def test_on_batches_the_noise_is_what_was_priced(logistic, monkeypatch):
    """One new batch an iteration, noise of nm times the sensitivity there, and the test corrects for it."""
    step = started(logistic, batch_size=20, tempering=0.1, draws=2000)
    seen, batches = [], []
    ratios = step.records.ratios

    def recording(theta, new, units):
        batches.append(tuple(sorted(units)))
        return ratios(theta, new, units)

    def judge(ratio, variance, exponential):
        seen.append((ratio, variance))
        return False

    monkeypatch.setattr(step.records, "ratios", recording)
    monkeypatch.setattr(kernel, "penalty", judge)
    monkeypatch.setattr(step.records, "full_batch", None)  # never read
    _, all_stats = run(step, logistic.initial_point(0), 2000)
    assert len(set(batches)) > 1900 and all(len(set(b)) == 20 for b in batches)
    bound, noise_std = all_stats[0]["clip_bound"], all_stats[0]["noise_std"]
    sensitivity = bound * batch_ratio.sensitivity(bound, 20, 60, 0.1)
    assert noise_std == pytest.approx(step.plan.noise_multiplier * sensitivity, rel=1e-12)
    assert all(variance == pytest.approx(noise_std**2, rel=1e-9) for _, variance in seen)
    # The noise dominates the ratios here: standard deviation within 1e-6 quantiles of chi-square.
    spread = np.std([ratio for ratio, _ in seen]) / noise_std
    low, high = np.sqrt(stats.chi2.ppf([5e-7, 1 - 5e-7], 1999) / 1999)
    assert low < spread < 1.02 * high
    assert "clip_fraction" in all_stats[-1] and np.isnan(all_stats[-1]["clip_fraction"])
    assert step.plan.epsilon_at(1e-6) <= 2.0


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"batch_size": 0}, "batch_size must be"),
        ({"batch_size": 61}, "larger than the number of records"),
        ({"batch_size": 2.5}, "batch_size must be"),
        ({"batch_size": 20, "neighboring_relation": "add_remove"}, "substitute"),
    ],
)
def test_bad_batches(logistic, kwargs, message):
    with logistic, pytest.raises(ValueError, match=message):
        dp.DPPenaltyMH(**{**ARGS, **kwargs})
