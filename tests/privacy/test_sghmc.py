"""What DPSGHMC's friction costs and what a budget makes of it: Lode's tables, and balance."""

import math
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution
from scipy import optimize, stats
from scipy.linalg import solve_discrete_lyapunov

import pymc_dp.privacy as privacy
from pymc_dp.errors import BudgetError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.plan import Call
from pymc_dp.privacy.budget.pricing import friction as price
from pymc_dp.privacy.mechanisms.gradients import Dynamics
from pymc_dp.privacy.mechanisms.randomness import PoissonBatches

BATCHES = PoissonBatches(0.01)


def injected(plan):
    return np.broadcast_to(plan.mechanism.noise_multipliers, plan.length)


def lode(clip_bound, friction, beta):
    """Lode 2019, section 6.5: the gradient of a batch's own posterior, so tempering is q."""
    return Dynamics(BATCHES, clip_bound, beta, friction=friction, tempering=0.01)


def call(epsilon=1.0, delta=1e-6, relation="add_remove", chains=2, tune=20, draws=40):
    return Call(epsilon, delta, relation, chains, tune, draws)


# ---- the source's figures, from the events that a step is charged


def test_lode_table_6_3a():
    plan = price(call(2.0, 1e-5, chains=1, tune=0, draws=200), lode(0.7, 1.0, 3.0), 10)
    assert len(plan.iteration) == 200 and sum(plan.events.counts.values()) == 2000
    table = {1e-6: 0.881, 1e-5: 0.763, 1e-4: 0.629, 1e-3: 0.473, 1e-2: 0.273}
    for delta, epsilon in table.items():
        assert plan.epsilon_at(delta) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("iterations", "epsilon"), [(100, 0.609), (500, 1.040), (1000, 1.324)])
def test_lode_table_6_3b(iterations, epsilon):
    plan = price(call(5.0, 1e-5, chains=1, tune=0, draws=iterations), lode(0.7, 1.0, 3.0), 10)
    assert plan.epsilon_at(1e-5) == pytest.approx(epsilon, rel=3e-3)


@pytest.mark.slow
def test_lode_run_of_1500_iterations():
    plan = price(call(30.0, 1e-5, chains=1, tune=0, draws=1500), lode(0.8, 0.7, 3.0), 10)
    assert plan.epsilon_at(1e-5) == pytest.approx(2.248, rel=3e-3)


def by_quadrature(noise_multipliers, q, points=10**6, bound=20.0, delta=1e-5):
    """Epsilon by sums over the density of the privacy loss on a grid, and that density's mass; remove one.

    The density is infinite at log(1 - q), more sharply the smaller the noise.
    """
    x = np.linspace(-bound, bound, points, endpoint=False)
    above = x > math.log(1 - q)
    transform = np.zeros(points // 2 + 1, dtype=complex)
    for nm, count in noise_multipliers.items():
        ratio = np.exp(x[above])
        y = nm**2 * np.log((ratio - (1 - q)) / q) + 0.5
        density = np.zeros(points)
        density[above] = (1 - q) * stats.norm.pdf(y, 0, nm) + q * stats.norm.pdf(y, 1, nm)
        density[above] *= nm**2 * ratio / (ratio - (1 - q))
        transform += count * np.log(np.fft.rfft(np.fft.ifftshift(density) * 2 * bound / points))
    mass = np.fft.fftshift(np.fft.irfft(np.exp(transform), points))

    def excess(epsilon):
        tail = x > epsilon
        return -np.expm1(epsilon - x[tail]) @ mass[tail] - delta

    return optimize.brentq(excess, 0, bound - 0.01), mass.sum()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_figure_of_lode_that_is_an_error_of_quadrature():
    """His 9.789 of section 6.3 is what a million points on [-20, 20) give: their mass is 2.2, not 1.

    `dp_accounting`, with noise rounded down to few levels, is an upper bound below it.
    """
    plan = price(call(30.0, 1e-5, chains=1, tune=0, draws=1500), lode(1.0, 0.15, 1.7), 10)
    noise = np.array([event.event.noise_multiplier for one in plan.iteration for event in one.counts])
    edges = np.unique(np.geomspace(1, 1501, 31).astype(int)) - 1
    parts = [noise[a:b] for a, b in pairwise(edges)]
    epsilon, mass = by_quadrature({np.sqrt(np.mean(part**2)): 10 * part.size for part in parts}, 0.01)
    assert epsilon == pytest.approx(9.789, abs=0.01) and mass > 2
    upper = None
    for part in parts:
        one = privacy_loss_distribution.from_gaussian_mechanism(
            part.min(), sampling_prob=0.01, value_discretization_interval=5e-3
        ).self_compose(10 * part.size)
        upper = one if upper is None else upper.compose(one)
    assert 0.96 * upper.get_epsilon_for_delta(1e-5) < plan.epsilon_at(1e-5)
    assert plan.epsilon_at(1e-5) < upper.get_epsilon_for_delta(1e-5) < 9.5


def test_a_wrong_clip_bound_would_be_seen():
    """Control for the tables: a tenth more sensitivity is far outside their tolerance."""
    plan = price(call(2.0, 1e-5, chains=1, tune=0, draws=200), lode(0.77, 1.0, 3.0), 10)
    assert plan.epsilon_at(1e-5) > 1.08 * 0.763


# ---- what a budget makes of it


@pytest.mark.parametrize("relation", ["add_remove", "substitute"])
@pytest.mark.parametrize("friction", [0.0, 20.0])
def test_budget_is_spent_and_not_exceeded(relation, friction):
    dynamics = Dynamics(BATCHES, 2.0, 0.03, friction=friction)
    plan = price(call(relation=relation), dynamics, 5)
    assert 0.999 <= plan.epsilon_at(1e-6) <= 1.0
    assert sum(plan.events.counts.values()) == 2 * 60 * 5
    noise = injected(plan)
    own = dynamics.noise_multipliers(60, relation)
    # The floor, and nothing else, differs from what the friction gives by itself.
    assert np.array_equal(noise, np.maximum(own, noise.min())) and noise.min() > own.min()
    assert plan.noise_multiplier == noise.min()


@pytest.mark.parametrize(("relation", "records"), [("add_remove", 1), ("substitute", 2)])
def test_noise_friction_and_step_size_are_in_balance(relation, records):
    dynamics = Dynamics(BATCHES, 2.0, 0.1, offset=3.0, decay=0.4, friction=5.0, tempering=0.5)
    plan = price(call(relation=relation), dynamics, 5)
    noise = injected(plan)
    eta, friction = dynamics.realized(noise, relation)
    # Noise on the sum over the batch, as charged, times what makes an estimate of it ...
    on_gradient = noise * records * 2.0 * 0.5 / 0.01
    # ... is, on the momentum, what the friction dissipates.
    np.testing.assert_allclose((eta * on_gradient) ** 2, 2 * friction * eta, rtol=1e-12)
    np.testing.assert_allclose(eta, 0.1 * (3.0 + np.arange(1, 61)) ** -0.4, rtol=1e-14)
    assert np.all(friction >= 5.0 * (1 - 1e-12)) and friction.max() > 5.5


def test_no_friction_of_its_own_means_equal_noise():
    dynamics = Dynamics(BATCHES, 2.0, 0.03)
    plan = price(call(), dynamics, 5)
    assert len(plan.iteration) == 1
    noise = injected(plan)
    assert noise.shape == (60,) and np.all(noise == noise[0])
    less = dp_event.GaussianDpEvent(noise[0] * (1 - 1e-3))
    steps = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(0.01, less), 600)
    assert privacy.compose(steps, "add_remove").epsilon(1e-6) > 1.0


def test_a_schedule_within_the_budget_is_left_alone():
    dynamics = Dynamics(BATCHES, 2.0, 0.001, friction=300.0)
    plan = price(call(5.0), dynamics, 5)
    assert plan.epsilon_at(1e-6) < 4.0
    np.testing.assert_array_equal(injected(plan), dynamics.noise_multipliers(60, "add_remove"))


def test_the_full_batch_has_the_exact_price():
    dynamics = Dynamics(PoissonBatches(1.0), 2.0, 0.03)
    plan = price(call(relation="substitute", delta=1e-40), dynamics, 5)
    assert plan.guarantee.accountant == "exact Gaussian"
    mu = float(gaussian.mu(1.0, 1e-40))
    assert injected(plan)[0] == pytest.approx(math.sqrt(600) / mu, rel=1e-4)


def test_no_privacy_keeps_the_dynamics():
    dynamics = Dynamics(BATCHES, 2.0, 0.03, friction=5.0)
    plan = price(call(math.inf), dynamics, 5)
    assert not plan.is_private
    _, friction = dynamics.realized(injected(plan), "add_remove")
    np.testing.assert_allclose(friction, 5.0)
    naive = Dynamics(BATCHES, 2.0, 0.03)
    assert np.all(injected(price(call(math.inf), naive, 5)) == 0)


def test_epsilon_along_the_run():
    dynamics = Dynamics(BATCHES, 2.0, 0.02, friction=30.0)
    plan = price(call(), dynamics, 5)
    once = plan.once
    running = plan.running_epsilon()
    assert np.all(np.diff(running) >= 0)
    assert running[-1] == plan.epsilon_at(1e-6)
    for t in (1, 10, 35):
        part = privacy.EventSet([one.repeated(2) for one in plan.iteration[:t]]) + once
        assert privacy.compose(part).epsilon(1e-6) * (1 - 5e-4) <= running[t - 1]


def test_a_plan_survives_storage():
    dynamics = Dynamics(BATCHES, 2.0, 0.03, friction=20.0)
    plan = price(call(), dynamics, 5)
    copy = pickle.loads(pickle.dumps(plan))
    np.testing.assert_array_equal(injected(copy), injected(plan))
    assert "noise multiplier" in str(plan)


def test_too_small_a_delta_is_refused():
    with pytest.raises(BudgetError, match="delta"):
        price(call(delta=1e-200, relation="substitute"), Dynamics(BATCHES, 2.0, 0.03), 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip_bound": 0.0},
        {"step_size": -1.0},
        {"step_size": math.inf},
        {"offset": -0.5},
        {"decay": math.nan},
        {"friction": -1.0},
        {"tempering": 1.5},
        {"tempering": 0.0},
    ],
)
def test_bad_dynamics_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Dynamics(**({"batches": BATCHES, "clip_bound": 1.0, "step_size": 0.1} | wrong))


@pytest.mark.parametrize("n_steps", [0, 2.5, True])
def test_a_bad_number_of_steps_is_refused(n_steps):
    with pytest.raises(ValueError, match="n_steps"):
        price(call(), Dynamics(BATCHES, 1.0, 0.1), n_steps)


# ---- friction at the midpoint (docs/proofs/sampled_gaussians, Proposition 3)


def transition(eta, friction, precision, explicit=False):
    """Of neighbouring middle points on a Gaussian target, and how far noise on the gradient moves them."""
    half = friction * eta / 2
    keep, kick = (1 - 2 * half, eta) if explicit else ((1 - half) / (1 + half), eta / (1 + half))
    return np.array([[1 + keep - eta * kick * precision, -keep], [1.0, 0.0]]), eta * kick


def stationary(matrix, noise_std):
    """Variance of draws, the means of neighbouring middle points; autocorrelation time of the latter."""
    covariance = solve_discrete_lyapunov(matrix, np.diag([noise_std**2, 0.0]))
    time = (noise_std / (1 - matrix[0].sum())) ** 2 / covariance[0, 0]
    return (covariance[0, 0] + covariance[0, 1]) / 2, time


@pytest.mark.parametrize(("eta", "friction"), [(0.05, 0.3), (0.3, 20.0), (0.7, 1.0), (0.5, 4.0), (0.5, 6.0)])
def test_draws_have_the_right_variance_at_every_friction(eta, friction):
    precision = 4.0
    matrix, gain = transition(eta, friction, precision)
    variance, time = stationary(matrix, gain * math.sqrt(2 * friction / eta))
    assert variance == pytest.approx(1 / precision, rel=1e-9)
    assert time == pytest.approx(2 * friction / eta * (1 - eta**2 * precision / 4) / precision, rel=1e-7)
    # Controls: noise for another friction heats the chain; explicit friction has no stationary law beyond 2.
    hot, _ = stationary(matrix, gain * math.sqrt(2.4 * friction / eta))
    assert hot == pytest.approx(1.2 / precision, rel=1e-9)
    explicit, _ = transition(eta, friction, precision, explicit=True)
    assert (np.abs(np.linalg.eigvals(explicit)).max() >= 1) == (friction * eta + eta**2 * precision / 2 >= 2)


def test_a_shorter_call_at_the_same_noise_has_a_price():
    """What a full ledger's refusal advises; each iteration of this schedule has a noise of its own."""
    plan = price(call(2.0, 1e-5, chains=1, tune=0, draws=200), lode(0.7, 1.0, 3.0), 10)
    shorter = replace(plan, draws=plan.draws - 7)
    assert len(plan.iteration) > 1 and shorter.iteration == plan.iteration[: shorter.length]
    assert shorter.epsilon_at(1e-5) < plan.epsilon_at(1e-5)
