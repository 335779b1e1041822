"""Steps with control variates: stationary law, one surrogate a call, refusals, copies."""

import inspect
import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.control_variates.finder import Finder
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.control_variates.surrogate import Surrogate
from pymc_dp.privacy.budget import facts
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from tests.conftest import NUMBA, logistic_model
from tests.control_variates.fixed import LogisticRecords
from tests.remote.parts import walk

ALPHA = 1e-6
QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}


def step_of(cls=dp.DPPenaltyMH, *, chains=1, epsilon=1000.0, **kwargs):
    kwargs.setdefault("model", logistic_model(n=150))
    return cls(epsilon=epsilon, delta=1e-6, chains=chains, control_variates=True, **kwargs)


# the law of a chain

N = 80
X = np.random.default_rng(4).uniform(-1, 1, size=N) * 1.5
Y = (np.random.default_rng(5).random(N) < 1 / (1 + np.exp(-0.8 * X))).astype(float)
# A surrogate that is bad on purpose: away from the mode, noisy, most of its curvature clipped away.
POINT, BOUND, HESSIAN_BOUND, NOISE = 0.6, 0.28, 0.006, 1.5
DRAWS, THIN = 4_900, 12  # correlated by a tenth or less


def derivatives():
    p = 1 / (1 + np.exp(-X * POINT))
    return (Y - p) * X, -p * (1 - p) * X**2


def bad_surrogate(tempering, metric=0.3):
    g, h = derivatives()
    gradient = np.clip(g, -BOUND / metric, BOUND / metric).sum() + 0.9
    hessian = np.maximum(h, -HESSIAN_BOUND / metric**2).sum()
    return Surrogate(
        point=np.array([POINT]),
        phi=np.array([POINT]),
        metric=np.array([[metric]]),
        centre=np.zeros(1),
        gradient_bound=BOUND,
        hessian_bound=HESSIAN_BOUND,
        gradient=np.array([gradient]),
        gradient_noise=np.array([[NOISE]]),
        hessian=np.array([[hessian]]),
        hessian_noise=0.0,
        tempering=tempering,
    )


def exact_cdf(tempering, residuals=True, metric=0.3):
    """Distribution function of prior times surrogate times what it leaves, on a grid."""
    g, h = derivatives()
    released = bad_surrogate(tempering)
    g_released, h_released = released.gradient[0], released.hessian[0, 0]
    information, noise = -tempering * h_released, tempering**2 * NOISE
    kept = information / (information + noise)
    grid = np.linspace(-3, 4, 4001)
    delta = grid - POINT
    log = -(grid**2) / 8 + kept * tempering * (g_released * delta + 0.5 * h_released * delta**2)
    if residuals:
        t = grid[:, None] * X
        likelihood = (Y * t - np.logaddexp(0, t)).sum(axis=1)
        clipped_g = np.clip(g, -BOUND / metric, BOUND / metric).sum()
        clipped_h = np.maximum(h, -HESSIAN_BOUND / metric**2).sum()
        log = log + tempering * (likelihood - clipped_g * delta - 0.5 * clipped_h * delta**2)
    density = np.exp(log - log.max())
    cumulative = np.cumsum(density) / density.sum()
    return lambda x: np.interp(x, grid, cumulative)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:The surrogate's mode is:pymc_dp.errors.SurrogateWarning"
)  # bad on purpose
@pytest.mark.parametrize("cls", [dp.DPPenaltyMH, dp.DPBarker, dp.DPFastMH])
def test_the_chain_has_the_exact_law(cls):
    """Given what was released, the law is known exactly; without the residuals' test it would be another."""
    tempering = 0.9
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2)
        pm.Bernoulli("y", logit_p=X * beta, observed=Y)
    settings = ControlVariates(chain=0.7, early=(0.5,), late=(0.2, 0.8))
    step = cls(
        epsilon=1e6, delta=1e-6, chains=1, control_variates=settings, tempering=tempering,
        clip_fraction=False, model=model, compile_kwargs=NUMBA, debug_seed=1,
    )  # fmt: skip
    step._call.slots.once(bad_surrogate(tempering).to_json)
    step.setup_chain(np.random.default_rng(3), 0, DRAWS)
    thin = walk(step, model, DRAWS)[0].ravel()[100::THIN]
    assert stats.kstest(thin, exact_cdf(tempering)).pvalue > ALPHA
    assert stats.kstest(thin, exact_cdf(tempering, residuals=False)).pvalue < ALPHA  # control


# a bound of third derivatives

THIRD = 0.0963 * float(np.max(np.abs(X))) ** 3  # |sigmoid''| is below .0963


@pytest.mark.slow
def test_third_derivatives_bound_what_is_left():
    """No residual ratio is beyond the bound, some are near it, and half of it would clip."""
    step = third_step(THIRD)
    step.setup_chain(np.random.default_rng(0), 0, 20)
    step.residuals.target.expand(full_surrogate().expansion(step.records))
    target, rng = step.residuals.target, np.random.default_rng(1)
    shares = []
    for width in (0.01, 0.1, 1.0, 5.0):
        for _ in range(20):
            points = POINT + width * rng.normal(size=(2, 1))
            points[rng.integers(2)] = POINT  # the two remainders may not cancel
            cubes = sum(abs(point[0] - POINT) ** 3 for point in points)
            shares.append(np.max(np.abs(target.ratios(*points, np.arange(N)))) / (THIRD * cubes / 6))
    assert 0.5 < max(shares) <= 1 + 1e-6


@pytest.mark.slow
@pytest.mark.usefixtures("little_tuning")
def test_noise_goes_by_distance():
    step = third_step(THIRD)
    step._call.slots.once(full_surrogate().to_json)
    step.setup_chain(np.random.default_rng(0), 0, 20)
    point, nm = {"beta": np.array(POINT)}, step.plan.noise_multiplier
    assert list(step.plan.iteration[0].counts) == [dp.privacy.PenaltyDecisionDpEvent(nm)]
    seen = []
    for _ in range(20):
        before = step.records.ravel(point)
        step.rng = np.random.default_rng(len(seen))
        proposals = np.random.default_rng(len(seen))
        new = step._chain.memory.transitions(proposals, before) if seen else None
        point, (stat,) = step.step(point)
        assert stat["noise_std"] == pytest.approx(2 * nm * stat["clip_bound"])
        if new is not None:
            cubes = abs(before[0] - POINT) ** 3 + abs(new[0] - POINT) ** 3
            assert stat["clip_bound"] == pytest.approx(THIRD * cubes / 6)
        seen.append(stat["clip_bound"])
    assert len(set(seen)) == 20 and "delta" in step._clip_name()


def third_step(third):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2)
        pm.Bernoulli("y", logit_p=X * beta, observed=Y)
    settings = ControlVariates(chain=0.7, early=(0.5,), late=(0.2, 0.8), third_derivative_bound=third)
    return dp.DPPenaltyMH(
        epsilon=20_000.0, delta=1e-6, chains=1, control_variates=settings, clip_fraction=False, model=model
    )


def full_surrogate():
    """Nothing is clipped; a noisy gradient."""
    g, h = derivatives()
    return Surrogate(
        point=np.array([POINT]), phi=np.array([POINT]), metric=np.array([[0.3]]), centre=np.zeros(1),
        gradient_bound=10.0, hessian_bound=10.0, gradient=np.array([g.sum() + 0.9]),
        gradient_noise=np.array([[NOISE]]), hessian=np.array([[h.sum()]]), hessian_noise=0.0, tempering=1.0,
    )  # fmt: skip


@pytest.mark.parametrize("cls", [dp.DPBarker, dp.DPFastMH])
def test_third_derivatives_are_for_the_penalty_test(cls):
    with pytest.raises(ValueError, match="third_derivative_bound"):
        cls(epsilon=1.0, delta=1e-6, control_variates=ControlVariates(third_derivative_bound=1.0),
            model=logistic_model())  # fmt: skip


# one surrogate a call


@pytest.mark.slow
@pytest.mark.usefixtures("little_tuning")
def test_two_chains_share_a_surrogate_and_its_price(tmp_path):
    ledger = dp.Ledger(tmp_path / "l.db", epsilon=2000.0, delta=1e-5)
    step = step_of(chains=2, ledger=ledger)
    model = step.model
    with model:
        idata = pm.sample(15, tune=0, step=step, cores=2, chains=2, random_seed=1, **QUIET)
    seen = surrogates(idata)
    assert len(seen) == 2 and seen[0] is not None and seen[0] == seen[1]
    assert Surrogate.from_json(seen[0]).point.shape == (2,)
    (entry,) = ledger.entries()
    assert entry.events == step.cost(draws=15, tune=0).events


def surrogates(idata):
    stored = idata["sample_stats"][facts.STAT]
    return [facts.decode(np.asarray(stored.isel(chain=c, draw=3)))["surrogate"] for c in range(2)]


@pytest.mark.slow
@pytest.mark.usefixtures("little_tuning")
def test_resuming_goes_on_from_the_same_place():
    step = step_of(debug_seed=1, compile_kwargs=None)
    rng = np.random.default_rng(0)
    step.setup_chain(rng, 0, 6)
    point = step.model.initial_point(0)
    for _ in range(3):
        point, _ = step.step(point)
    released, state = step.surrogate, step.sampling_state
    step.sampling_state = state
    before = step.records.ravel(point)
    point, (found,) = step.step(point)
    assert step.surrogate.to_json() == released.to_json()
    if not found["accepted"]:
        np.testing.assert_array_equal(step.records.ravel(point), before)
    np.testing.assert_array_equal(step._arrive(step._chain, before).theta, before)  # no new start


@pytest.mark.slow
@pytest.mark.usefixtures("little_tuning")
def test_a_copy_holds_no_private_factors_and_a_copied_chain_goes_on():
    runs = []
    for copied in (False, True):
        step = step_of(debug_seed=1)
        step.setup_chain(np.random.default_rng(0), 0, 4)
        point = step.model.initial_point(0)
        for _ in range(4):
            if copied and step.iteration == 2:
                assert any(np.any(f.get_value()) for f in step.residuals.target._factors)
                copy = pickle.loads(cloudpickle.dumps(step))
                assert not any(np.any(f.get_value()) for f in copy.residuals.target._factors)
                assert copy._chain is None
                with pytest.raises(dp.BudgetError):
                    copy.step(point)
            point, _ = step.step(point)
        runs.append(step.records.ravel(point))
    np.testing.assert_array_equal(*runs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_dp.sampling.NotPrivateWarning")
@pytest.mark.usefixtures("little_tuning")
def test_without_privacy_and_with_units():
    model = logistic_model(n=150)
    step = step_of(epsilon=np.inf, model=model, privacy_unit=np.arange(150) % 70, tempering=0.5)
    idata = dp.sample(step, draws=40, tune=0, cores=1, random_seed=1, model=model, **QUIET)
    assert not idata.sample_stats["is_private"].any()
    assert 0.5 < float(idata.sample_stats["accepted"].mean())
    assert step.surrogate.gradient_noise.max() == 0


# refusals


def finder(n, epsilon, mu_squared):
    return Finder(LogisticRecords(n=n), ControlVariates(), mu_squared, PrivacyRandom(2), 1.0, epsilon)


def test_too_few_records():
    with pytest.raises(dp.TooFewRecordsError, match="epsilon") as refused:
        finder(100, 0.2, 0.003)(np.zeros(2))
    assert isinstance(refused.value, dp.PrivacyError)
    finder(100, np.inf, np.inf)(np.zeros(2))  # control: it is the noise


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"cls": dp.DPFastMH, "neighboring_relation": "add_remove"}, "public_n"),
        ({"tempering": 2.0}, "tempering"),
        ({"clip_bound": 1.0, "batch_size": 9}, "clip_bound=, batch_size=: no meaning with control_variates="),
        ({"proposal": "gaussian"}, "proposal="),
        ({"release": "noisy_ratio"}, "release="),
        ({"adapt_step_size": False}, "adapt_step_size="),
        ({"cls": dp.DPFastMH, "test": "penalty"}, "test="),
        ({"cls": dp.DPHMC, "n_leapfrog": 3}, "n_leapfrog="),
        ({"cls": dp.DPBarker, "step_size": 1.0}, "step_size="),
    ],
)
def test_bad_arguments(kwargs, match, logistic):
    with pytest.raises(ValueError, match=match):
        step_of(**{"model": logistic, **kwargs})


@pytest.mark.slow
@pytest.mark.parametrize("cls", [dp.DPPenaltyMH, dp.DPBarker, dp.DPFastMH, dp.DPHMC])
@pytest.mark.usefixtures("little_tuning")
def test_it_is_an_argument_of_its_step(cls, tmp_path):
    """Of this class, under its own name, in the ledger too; nothing is special about the class without it."""
    ledger = dp.Ledger(tmp_path / "l.db", epsilon=2000.0, delta=1e-5)
    step = step_of(cls, ledger=ledger, label="study 7")
    assert type(step) is cls and "control_variates" in inspect.signature(cls).parameters
    step.setup_chain(np.random.default_rng(0), 0, 4)
    assert step.title == step.facts()["step"] == f"{cls.__name__} with control variates"
    assert step.surrogate is None
    step.step(step.model.initial_point(0))
    assert [entry.label for entry in ledger.entries()] == ["study 7"]
    assert isinstance(step.surrogate, Surrogate)
    plain = cls(epsilon=1.0, delta=1e-6, lipschitz=1.0, chains=1, control_variates=False, model=step.model)
    assert plain.title == cls.__name__ and plain.default_tune_steps == 500
    assert plain.setup_chain(np.random.default_rng(0), 1, 4) is None and plain.surrogate is None


def test_bad_settings(logistic):
    for changes in ({"chain": 0.0}, {"chain": 0.9}, {"noise_std": np.inf}, {"line_steps": ()}):
        with pytest.raises(ValueError):
            ControlVariates(**changes)
    with pytest.raises(ValueError, match="control_variates"):
        dp.DPPenaltyMH(epsilon=1.0, delta=1e-6, chains=1, control_variates=3, model=logistic)
    assert sum(share for _, share in ControlVariates().schedule()) == pytest.approx(0.98)
