"""Accountants against the sources' tables, `dp_accounting`, quadrature, and each other."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm, poisson

import pymc_dp.privacy as privacy
from pymc_dp.privacy.accounting import composition, costs, gaussian, loss_distribution, poisson_mixture
from pymc_dp.privacy.accounting import events as ev
from pymc_dp.privacy.accounting.sampled_gaussian import SampledGaussian
from pymc_dp.privacy.budget.plan import Call
from pymc_dp.privacy.budget.pricing import penalty
from pymc_dp.privacy.mechanisms.randomness import FixedSizeBatches

Many = dp_event.SelfComposedDpEvent


def sampled(q, nm, count=1):
    return Many(dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(float(nm))), count)


def lode(lipschitz, friction, beta, iterations, steps, q=0.01):
    """Lode 2019, section 6.3: noise of each of his iterations."""
    t = np.arange(1, iterations + 1)
    nm = np.sqrt(2 * friction / (beta * t ** (-1 / 3) * lipschitz**2))
    return [sampled(q, one, steps) for one in nm]


# ---- the tables of the sources


@pytest.mark.parametrize(
    ("delta", "epsilon"), [(1e-6, 0.881), (1e-5, 0.763), (1e-4, 0.629), (1e-3, 0.473), (1e-2, 0.273)]
)
def test_lode_table_6_3(delta, epsilon):
    if not hasattr(test_lode_table_6_3, "guarantee"):
        test_lode_table_6_3.guarantee = privacy.compose(lode(0.7, 1.0, 3.0, 200, 10), "add_remove")
    assert test_lode_table_6_3.guarantee.epsilon(delta) == pytest.approx(epsilon, abs=1e-3)


@pytest.mark.parametrize(
    ("nm", "epsilon", "delta", "renyi", "exact", "decisions"),
    [(100.0, 1.0, 1e-5, 611, 718, 1110), (30.0, 4.0, 1e-6, 559, 631, 966)],
)
def test_iterations_allowed(nm, epsilon, delta, renyi, exact, decisions):
    def says(name, k):
        return privacy.compose(Many(dp_event.GaussianDpEvent(nm), k), "substitute").by_accountant(delta)[name]

    assert says("RDP", renyi) <= epsilon < says("RDP", renyi + 1)
    assert says("exact Gaussian", exact) <= epsilon < says("exact Gaussian", exact + 1)
    for event, least in ((dp_event.GaussianDpEvent(nm), exact), (ev.PenaltyDecisionDpEvent(nm), decisions)):
        allowed = privacy.iterations_allowed(event, epsilon, delta, neighboring_relation="substitute")
        assert least <= allowed < 1.02 * least


def test_barker_example():
    allowed = privacy.iterations_allowed(
        ev.BoundedRangeDecisionDpEvent(0.01), 1.0, 1e-5, neighboring_relation="substitute"
    )
    assert 2850 <= allowed <= 2870
    assert privacy.iterations_allowed(
        dp_event.GaussianDpEvent(150.0), 1.0, 1e-5, neighboring_relation="substitute"
    ) == pytest.approx(1616, abs=2)


# ---- dp_accounting


@pytest.mark.slow
def test_conventions_of_dp_accounting_that_differ_under_replacement():
    """Its RDP takes noise relative to the sensitivity, its PLD to the clip bound. Ours: sensitivity."""
    event = Many(dp_event.GaussianDpEvent(2.0), 10)
    add, replace = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
    for accountant, epsilon in (
        (RdpAccountant(neighboring_relation=add), 8.08),
        (PLDAccountant(add), 7.51),
        (PLDAccountant(replace), 17.86),
        (RdpAccountant(neighboring_relation=replace), 8.08),
    ):
        assert accountant.compose(event).get_epsilon(1e-5) == pytest.approx(epsilon, abs=6e-3)
    for relation in ("substitute", "add_remove"):
        rows = privacy.compose(event, relation).by_accountant(1e-5)
        assert rows["exact Gaussian"] == pytest.approx(7.51, abs=6e-3)
        assert rows["RDP"] == pytest.approx(8.08, abs=1e-2)
    doubled = privacy.compose(Many(dp_event.GaussianDpEvent(1.0), 10), "substitute").epsilon(1e-5)
    assert doubled == pytest.approx(17.86, abs=6e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "nm", "count"), [(0.01, 1.0, 1000), (0.2, 0.8, 10), (1e-3, 0.6, 20_000), (0.9, 5.0, 50)]
)
def test_loss_distribution_agrees_with_dp_accounting(q, nm, count):
    theirs = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(sampled(q, nm, count))
    ours = loss_distribution.LossDistribution(
        composition.losses(privacy.EventSet(sampled(q, nm, count), "add_remove").counts, "add_remove")
    )
    for delta in (1e-3, 1e-6):
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon(delta), rel=2e-3, abs=1e-4)


@pytest.mark.parametrize("nm", [0.7, 2.0])
def test_loss_distribution_is_above_the_exact_curve_of_one_step(nm):
    """Hockey-stick divergences of the two mixtures by quadrature, in both directions."""
    q, mu = 0.1, 1 / nm
    event = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(nm))
    (mechanism,) = composition.losses({event: 1}, "add_remove")
    ours = loss_distribution.LossDistribution({mechanism: 1})
    for epsilon in (0.01, 0.05, 0.3, 1.0):

        def gap(x, sign, epsilon=epsilon):
            mixture, plain = (1 - q) * norm.pdf(x) + q * norm.pdf(x - mu), norm.pdf(x)
            first, second = (mixture, plain) if sign > 0 else (plain, mixture)
            return max(first - math.exp(epsilon) * second, 0.0)

        exact = max(quad(gap, -9, 9 + mu, args=(sign,), limit=500, points=[0, mu])[0] for sign in (1, -1))
        assert exact - 1e-8 <= ours.delta(epsilon) <= exact * 1.01 + 1e-6


@pytest.mark.parametrize("kind", ["poisson substitute", "fixed substitute"])
def test_profiles_under_substitution_are_above_explicit_pairs(kind):
    """Replacing +C by -C in a sum; for a fixed batch, also by 0 (the record that another one displaces)."""
    q, mu = 0.2, 0.8
    one = SampledGaussian(q, mu, kind)
    x = np.linspace(-12, 12, 20_001)
    here, there = norm.pdf(x - mu / 2), norm.pdf(x + mu / 2)
    rest = norm.pdf(x)
    p, r = (1 - q) * rest + q * here, (1 - q) * rest + q * there
    for epsilon in (0.02, 0.1, 0.3):
        exact = np.maximum(p - math.exp(epsilon) * r, 0).sum() * (x[1] - x[0])
        bounds = np.exp(one.log_profiles(np.array([epsilon])))
        assert np.all(bounds >= exact * (1 - 1e-6))  # the sum's error
        assert kind != "poisson substitute" or np.all(bounds <= (1 + 1e-4) * exact)


def test_losses_that_are_not_tilted_have_no_delta_below_their_own_errors():
    one = SampledGaussian(0.01, 1.0, "poisson add_remove")
    for ours in loss_distribution._composed({one: 100}, 2e-4, 1.0, None):
        assert ours.epsilon(1e-9) < ours.epsilon(1e-15) == math.inf
        assert ours.delta(400.0) > 1e-15


# ---- Renyi curves


def test_theorem_9_against_dp_accounting():
    """dp_accounting implements a stronger theorem for Gaussians: ours is above, and not far."""
    event = FixedSizeBatches(10_000, 100).gaussian_event(2.0)
    theirs = RdpAccountant([4.0, 8.0, 16.0], NeighboringRelation.REPLACE_ONE).compose(event).rdp
    ours = [costs.event_rdp(event, order, "substitute") for order in (4.0, 8.0, 16.0)]
    assert np.all(ours >= theirs * (1 - 1e-9))
    assert np.all(ours <= 2.5 * theirs)


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "jump", "cap"), [(0.5, 0.7, 5), (0.02, 1.5, 3)])
@pytest.mark.parametrize("order", [1.5, 4.0])
def test_poisson_mixture_divergences(mean, jump, cap, order):
    with mp.workdps(18):
        weights = [mp.e**-mean * mp.mpf(mean) ** k / mp.factorial(k) for k in range(cap)]
        weights.append(1 - sum(weights))

        def density(x):
            return sum(w * mp.npdf(x, k * jump, 1) for k, w in enumerate(weights))

        for present_first in (True, False):
            a = order if present_first else 1 - order
            end = cap * jump * order + 12
            points = np.linspace(-12, end, 12)
            f = mp.quad(lambda x, a=a: density(x) ** a * mp.npdf(x) ** (1 - a), points)
            exact = float(mp.log(f) / (order - 1))
            ours = poisson_mixture._divergence(mean, jump, cap, order, present_first)
            assert exact * (1 - 1e-9) <= ours <= exact * (1 + 1e-6)


def present(w, rate, bound, s, x, cap):
    """Density of the noisy contribution of a record with clipped ratio w, at most `cap` times."""
    mean = rate + (bound - w) / 2
    k = np.arange(cap + 1)
    jump = math.log1p(w / mean)
    weights = poisson.pmf(k, mean)
    weights[-1] = poisson.sf(cap - 1, mean)
    return (weights * norm.pdf(x[:, None], k * jump, s)).sum(axis=1)


@pytest.mark.parametrize(
    ("rate", "bound", "s"), [(0.05, 0.02, 0.7), (1.0, 2.0, 1.0), (0.1, 1.0, 2.0), (2.0, 0.1, 0.2)]
)
def test_poisson_mixture_bound_covers_every_pair_of_ratios(rate, bound, s):
    """Hockey-stick and Renyi divergences on a grid of ratios, away from the tail where Renyi diverges."""
    cap, _ = poisson_mixture.largest_multiplicity(rate, bound)
    reach = 10 * s + 3 * cap * math.log1p(bound / rate)
    x = np.linspace(-reach, reach, 4001)
    dx = x[1] - x[0]
    ratios = np.linspace(-bound, bound, 9)
    densities = {w: present(w, rate, bound, s, x, cap) for w in ratios}
    absent = norm.pdf(x, 0, s)
    worst = densities[-bound]
    for order in (1.5, 3.0):
        add = poisson_mixture.poisson_mixture_rdp(rate, bound, s, order, False)
        swap = poisson_mixture.poisson_mixture_rdp(rate, bound, s, order, True)

        def divergence(p, q, order=order):
            seen = (p > 1e-290) & (q > 1e-290)
            exponent = order * np.log(p[seen]) + (1 - order) * np.log(q[seen])
            return (logsumexp(exponent) + math.log(dx)) / (order - 1)

        against_absent = (max(divergence(p, absent), divergence(absent, p)) for p in densities.values())
        assert max(against_absent) <= add * (1 + 1e-6)
        pairs = itertools.product(densities.values(), repeat=2)
        assert max(divergence(p, q) for p, q in pairs) <= swap
    # Theorem 7: -B is the worst ratio against an absent record, at every epsilon and in both directions.
    for epsilon in (0.0, 0.05, 0.5):
        for p in densities.values():
            for first, second, a, b in ((p, absent, worst, absent), (absent, p, absent, worst)):
                gap = np.maximum(first - math.exp(epsilon) * second, 0).sum() * dx
                assert gap <= np.maximum(a - math.exp(epsilon) * b, 0).sum() * dx + 1e-9


def test_capping_costs_delta_and_too_small_a_delta_is_refused():
    event = Many(ev.PoissonMixtureDpEvent(0.01, 0.001, 1.0), 1000)
    assert privacy.compose(event, "substitute").epsilon(1e-9) < 2
    assert privacy.compose(event, "substitute").epsilon(1e-22) == math.inf
    cap, probability = poisson_mixture.largest_multiplicity(0.01, 0.001)
    exact = sum(math.exp(-0.011) * 0.011**k / math.factorial(k) for k in range(cap + 1, cap + 30))
    assert exact <= probability <= 1e-22


# ---- composition


EVENTS = st.sampled_from(
    [
        dp_event.GaussianDpEvent(20.0),
        ev.PenaltyDecisionDpEvent(50.0),
        ev.FixedScalePenaltyDecisionDpEvent(1.0, 0.05),
        ev.BoundedRangeDecisionDpEvent(0.02),
        ev.PoissonMixtureDpEvent(0.01, 0.001, 1.0),
        ev.BarkerMinibatchDpEvent(1000, 10**6),
        FixedSizeBatches(10**5, 100).gaussian_event(1.0),
    ]
)


@given(
    st.lists(st.tuples(EVENTS, st.integers(1, 300)), min_size=1, max_size=3), EVENTS, st.floats(1e-8, 1e-2)
)
@settings(max_examples=15, deadline=None)
@pytest.mark.slow
def test_more_events_never_cost_less(events, extra, delta):
    some = privacy.EventSet([Many(event, count) for event, count in events], "substitute")
    more = some + privacy.EventSet([extra], "substitute")
    less, total = privacy.compose(some), privacy.compose(more)
    # The decision bounds are within 2e-4 of their suprema, and the orders tried are a grid. Each accountant
    # is compared with itself: the limit of many events may have a bound for more events and none for fewer.
    before, after = less.by_accountant(delta), total.by_accountant(delta)
    assert "RDP" in before and "RDP" in after
    for name in before.keys() & after.keys():
        assert after[name] >= before[name] * (1 - 2e-3)
    epsilon = total.epsilon(delta)
    # The part of delta that is set aside is searched for, as the splits of a replacement are, and not
    # found again to the last digit.
    assert total.delta(epsilon * (1 + 1e-6)) <= delta * (1 + 5e-3)


@pytest.mark.parametrize("count", [1, 10**4, 10**8])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 100.0])
def test_extremes(count, delta, epsilon):
    nm = penalty(Call(epsilon, delta, "substitute", 1, 0, count), clip_fraction=False).noise_multiplier
    exact = math.sqrt(count) / float(gaussian.mu(epsilon, delta)) * (1 + 1e-8)
    guarantee = privacy.compose(Many(ev.PenaltyDecisionDpEvent(nm), count), "substitute")
    assert guarantee.epsilon(delta) <= epsilon
    assert 0.5 * exact < nm <= exact
    assert guarantee.epsilon(delta) <= gaussian.epsilon(math.sqrt(count) / nm, delta) * (1 + 1e-9)


def test_a_mixed_run_is_cheaper_than_its_gaussians_and_dearer_than_its_parts():
    decisions, gradients = (
        Many(ev.PenaltyDecisionDpEvent(100.0), 800),
        Many(dp_event.GaussianDpEvent(30.0), 20),
    )
    both = privacy.compose([decisions, gradients], "substitute", reference_delta=1e-5)
    assert both.accountant == "Gaussian limit"
    assert both.epsilon(1e-5) > privacy.compose(decisions, "substitute").epsilon(1e-5)
    assert both.epsilon(1e-5) < gaussian.epsilon(math.sqrt(800 / 100**2 + 20 / 30**2), 1e-5)


def test_every_accountant_is_above_what_is_exact():
    events = privacy.EventSet(Many(dp_event.GaussianDpEvent(40.0), 300), "substitute")
    found = privacy.compose(events).by_accountant(1e-5)
    exact = float(gaussian.epsilon(math.sqrt(300) / 40, 1e-5))
    assert [*found] == ["exact Gaussian", "PLD", "RDP"]
    assert all(value >= exact for value in found.values())


def test_nothing_and_everything():
    assert privacy.compose([], "substitute").epsilon(1e-5) == 0
    assert privacy.compose([dp_event.NoOpDpEvent()], "substitute").delta(0.0) == 0
    spoiled = privacy.compose([dp_event.GaussianDpEvent(5.0), dp_event.NonPrivateDpEvent()], "substitute")
    assert spoiled.epsilon(1e-5) == math.inf and spoiled.delta(100.0) == 1
    assert privacy.compose([dp_event.GaussianDpEvent(0.0)], "substitute").epsilon(1e-5) == math.inf
    silent = privacy.compose(
        [dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(0.0))], "add_remove"
    )
    assert silent.epsilon(1e-5) == math.inf


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-3, math.nan])
def test_bad_delta_is_refused(delta):
    guarantee = privacy.compose([dp_event.GaussianDpEvent(5.0)], "substitute")
    with pytest.raises(ValueError):
        guarantee.epsilon(delta)
    with pytest.raises(ValueError):
        guarantee.by_accountant(delta)
    with pytest.raises(ValueError):
        guarantee.delta(math.nan)


def test_profile_falls_and_meets_epsilon():
    events = Many(ev.PenaltyDecisionDpEvent(50.0), 500)
    guarantee = privacy.compose(events, "substitute", reference_delta=1e-5)
    deltas = [guarantee.delta(epsilon) for epsilon in np.linspace(0, 3, 8)]
    assert np.all(np.diff(deltas) <= 0) and deltas[0] <= 1
    assert guarantee.delta(guarantee.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-3)


def test_pure_dp_decisions_have_a_pure_bound():
    guarantee = privacy.compose(Many(ev.BoundedRangeDecisionDpEvent(0.5), 2), "substitute")
    assert guarantee.epsilon(1e-30) == pytest.approx(1.0, rel=1e-5)
    assert guarantee.delta(1.0001) < 1e-9


# ---- calibration


@pytest.mark.slow
@given(
    st.floats(0.05, 20),
    st.floats(1e-9, 1e-3),
    st.integers(1, 5000),
    st.sampled_from(["penalty", "barker", "subsampled"]),
)
@settings(max_examples=8, deadline=None)
def test_calibration_is_never_over_budget(epsilon, delta, count, kind):
    build, ends = {
        "penalty": (ev.PenaltyDecisionDpEvent, (1e-2, 1e6)),
        "barker": (ev.BoundedRangeDecisionDpEvent, (1e-7, 50.0)),
        "subsampled": (FixedSizeBatches(10_000, 100).gaussian_event, (0.2, 300.0)),
    }[kind]

    def events(x):
        return Many(build(x), count)

    low, high = ends
    x = privacy.calibrate(
        events, epsilon, delta, neighboring_relation="substitute", low=low, high=high, tolerance=1e-4
    )
    spent = privacy.compose(events(x), "substitute").epsilon(delta)
    assert spent <= epsilon
    if x not in ends:  # the accountant may change from one parameter to the next, so only roughly
        assert spent >= 0.99 * epsilon or kind == "subsampled"


def test_calibration_refuses_what_cannot_be():
    def events(x):
        return dp_event.GaussianDpEvent(x)

    with pytest.raises(ValueError, match="no value"):
        privacy.calibrate(events, 1e-3, 1e-6, neighboring_relation="substitute", low=0.1, high=1.0)
    with pytest.raises(ValueError):
        privacy.calibrate(events, 1.0, 1e-6, neighboring_relation="substitute", low=-1.0, high=1.0)
    for bad in ({"epsilon": 0.0}, {"delta": 0.0}):
        with pytest.raises(ValueError):
            budget = {"epsilon": 1.0, "delta": 1e-5} | bad
            privacy.calibrate(events, **budget, neighboring_relation="substitute", low=0.1, high=1.0)


@pytest.mark.slow
def test_known_scale_needs_less_noise():
    free, known, exact = (
        penalty(Call(1.0, 1e-5, "substitute", 1, 0, 1000), clip_fraction=False, **more).noise_multiplier
        for more in ({}, {"noise_std": 1.0}, {"release": "noisy_ratio"})
    )
    assert known < 0.85 * free < 0.85 * exact
    used = Many(ev.FixedScalePenaltyDecisionDpEvent(1.0, 1.0 / known), 1000)
    assert privacy.compose(used, "substitute").epsilon(1e-5) == pytest.approx(1.0, rel=1e-4)


def test_running_epsilon_bounds_every_iteration():
    event = ev.PenaltyDecisionDpEvent(60.0)
    once = [dp_event.GaussianDpEvent(200.0)]
    running = privacy.running_epsilon(
        event, 300, 1e-5, neighboring_relation="substitute", chains=2, once=once
    )
    assert np.all(np.diff(running) >= 0)
    for t in (1, 7, 150, 300):
        exact = privacy.compose([Many(event, 2 * t), *once], "substitute").epsilon(1e-5)
        assert exact <= running[t - 1] <= 1.1 * exact
    assert running[-1] == exact


def test_a_wrong_accountant_is_seen():
    """Control: half of the noise, or a tenth of the sampling probability, is far outside the tolerances."""
    right = privacy.compose(sampled(0.01, 1.0, 1000), "add_remove").epsilon(1e-5)
    assert privacy.compose(sampled(0.01, 0.5, 1000), "add_remove").epsilon(1e-5) > 2 * right
    assert privacy.compose(sampled(0.001, 1.0, 1000), "add_remove").epsilon(1e-5) < 0.5 * right


# ---- loss distributions of Poisson mixtures


def poisson_mixture_density(x, rate, clip_bound, noise_std, w):
    """A record with the clipped ratio w in a noisy sum; None for no record."""
    if w is None:
        return norm.pdf(x, 0, noise_std)
    mean, jump = rate + (clip_bound - w) / 2, math.log1p(w / (rate + (clip_bound - w) / 2))
    return sum(poisson.pmf(k, mean) * norm.pdf(x, k * jump, noise_std) for k in range(60))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "clip_bound", "noise_std"), [(0.1, 0.05, 0.5), (0.01, 0.02, 1.0), (2.0, 0.4, 0.6)]
)
def test_one_poisson_mixture_is_above_its_pairs(rate, clip_bound, noise_std):
    event = ev.PoissonMixtureDpEvent(rate, clip_bound, noise_std)
    x = np.linspace(-25, 25, 20_001) * noise_std
    laws = {
        w: poisson_mixture_density(x, rate, clip_bound, noise_std, w)
        for w in (None, -clip_bound, 0.0, clip_bound)
    }
    for relation in ("add_remove", "substitute"):
        curve = loss(event, relation)
        for epsilon in (0.01, 0.1, 0.4):
            worst = 0.0
            for a, b in itertools.permutations(laws, 2):
                if (relation == "add_remove") == (a is None or b is None):
                    gap = np.maximum(laws[a] - math.exp(epsilon) * laws[b], 0.0)
                    worst = max(worst, float(gap.sum() * (x[1] - x[0])))
            bound = curve.delta(epsilon)
            assert worst <= bound + 1e-12
            if relation == "add_remove":
                assert bound <= 1.02 * worst + 1e-9
                # Control: a jump that is a tenth smaller is below what is found.
                less = loss(ev.PoissonMixtureDpEvent(rate, clip_bound, noise_std / 0.9), relation)
                assert less.delta(epsilon) < worst or worst < 1e-9


def loss(event, relation):
    return composition.privacy_loss_distribution(privacy.EventSet(event, relation))


def test_poisson_mixtures_composed():
    """Under add/remove: the law of five sums of a removed record on a grid of log-ratios."""
    rate, clip_bound, noise_std, count, epsilon = 0.3, 0.2, 0.8, 5, 0.6
    x = np.linspace(-14, 14, 20_001) * noise_std
    present, absent = (
        poisson_mixture_density(x, rate, clip_bound, noise_std, w) for w in (-clip_bound, None)
    )
    step = 2e-3
    value = np.log(present / absent)
    size = 2**14
    mass = np.bincount(
        np.floor(value / step).astype(int) % size, weights=present * (x[1] - x[0]), minlength=size
    )
    total = np.fft.irfft(np.fft.rfft(mass) ** count, size)  # losses are rounded down
    losses = np.where(np.arange(size) < size // 2, np.arange(size), np.arange(size) - size) * step
    least = float(total @ np.maximum(-np.expm1(epsilon - losses), 0.0))
    event = ev.PoissonMixtureDpEvent(rate, clip_bound, noise_std)
    bound = loss(Many(event, count), "add_remove").delta(epsilon)
    assert least < bound < 1.1 * least
    # A replaced record costs more than either, and with Gaussian releases besides more still.
    both = loss(Many(event, count), "substitute")
    assert both.delta(epsilon) > 2 * bound
    more = composition.privacy_loss_distribution(
        privacy.EventSet([Many(event, count), dp_event.GaussianDpEvent(10.0)], "substitute")
    )
    assert both.epsilon(1e-5) < more.epsilon(1e-5) < both.epsilon(1e-5) + 1.0


def test_halves_of_gaussians_are_a_gaussian():
    """Next to a mixture that costs nothing, the halves of a Gaussian cost no less than the whole."""
    nothing = ev.PoissonMixtureDpEvent(1e-3, 1e-6, 1e3)
    events = privacy.EventSet([nothing, dp_event.GaussianDpEvent(2.0)], "substitute")
    whole = float(gaussian.epsilon(0.5, 1e-5))
    assert whole <= composition.privacy_loss_distribution(events).epsilon(1e-5) < 1.4 * whole
