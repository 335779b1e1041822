"""Many different noise scales: a few for many, one composition, calibration."""

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import irfft, rfft
from scipy.stats import norm

import pymc_dp.privacy as privacy
from pymc_dp.privacy.accounting import calibration, composed_losses, composition, loss_distribution
from pymc_dp.privacy.accounting.composition import losses, privacy_loss_distribution
from pymc_dp.privacy.accounting.costs import total_curve
from pymc_dp.privacy.accounting.poisson_mixture import PoissonMixture
from pymc_dp.privacy.accounting.sampled_gaussian import SampledGaussian, strongest

KINDS = ["poisson add_remove", "poisson substitute", "fixed substitute"]
EACH = 2e-4, 1.0


def sampled(q, nm, count=1):
    return dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(float(nm))), count
    )


def falling(first, iterations, steps=10, q=0.01, decay=1 / 6):
    """Noise multipliers of step sizes that fall like t^(-2 decay)."""
    return [sampled(q, first * t**decay, steps) for t in range(1, iterations + 1)]


def epsilon(composed, delta):
    return max(one.epsilon(delta) for one in composed)


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.floats(1e-6, 1.0),
    st.floats(1e-4, 12.0),
    st.lists(st.floats(1.0, 3.0), min_size=1, max_size=6, unique=True),
    st.floats(1.0, 3.0),
)
@settings(max_examples=60, deadline=None)
def test_what_is_charged_in_the_place_of_others_is_above_them(kind, q, mu, factors, ratio):
    members = [SampledGaussian(q, mu * factor, kind) for factor in factors]
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 50.0, 60)])
    found = strongest(members, ratio)
    assert found.keys() == set(members)
    for one, charged in found.items():
        assert one.spread <= charged.spread <= ratio * one.spread * (1 + 1e-12)
        exact, bound = (np.exp(np.stack(each.log_profiles(grid))) for each in (one, charged))
        # 1e-9: the slack of `gaussian.log_delta`.
        assert np.all(bound >= exact * (1 - 1e-9) - 1e-300)


def test_the_weaker_one_would_not_do():
    """Control: charged the other way round, what is charged is below."""
    weak, strong = (SampledGaussian(0.1, mu, KINDS[0]) for mu in (0.75, 1.0))
    assert strongest([weak, strong], 2.5)[weak] == strong
    grid = np.geomspace(1e-6, 1.0, 50)
    assert np.any(weak.log_profiles(grid)[0] < strong.log_profiles(grid)[0])


def test_poisson_mixtures_are_charged_as_others_with_as_many_draws():
    weak, strong, other = PoissonMixture(0.3, 0.2), PoissonMixture(0.3, 0.202), PoissonMixture(0.31, 0.203)
    assert strongest([weak, other, strong], 1.1) == {weak: strong, strong: strong, other: other}
    grid = np.geomspace(1e-6, 0.25, 50)
    for exact, bound in zip(weak.log_profiles(grid), strong.log_profiles(grid), strict=True):
        assert np.all(bound > exact)


def test_renyi_curves_of_many_scales_are_above_and_close():
    decision = privacy.PenaltyDecisionDpEvent(5.0)
    events = privacy.EventSet([*(sampled(0.02, 1 + 0.002 * k, 3) for k in range(60)), decision], "add_remove")
    charged = composition._coarsened(events)
    assert charged.keys() < events.counts.keys() and len(charged) < 20 and charged[decision] == 1
    assert sum(charged.values()) == sum(events.counts.values())
    for order in (1.5, 8.0, 40.0):
        exact, bound = (total_curve(counts, "add_remove")(order) for counts in (events.counts, charged))
        assert exact < bound < 1.1 * exact


def hockey_stick(first, second, q, alpha):
    """Delta of a record with gradient `first` replaced by one with `second`, by quadrature in the plane."""
    axis = np.arange(-9.0, 9.0, 0.05)
    x, y = np.meshgrid(axis, axis)
    rest = norm.pdf(x) * norm.pdf(y)
    here, there = (norm.pdf(x - g[0]) * norm.pdf(y - g[1]) for g in (first, second))
    gap = (1 - q) * rest + q * here - alpha * ((1 - q) * rest + q * there)
    return np.maximum(gap, 0.0).sum() * 0.05**2


@pytest.mark.parametrize(("q", "bound"), [(0.1, 0.4), (0.3, 1.5)])
def test_no_pair_of_gradients_is_worse_than_opposite_ones(q, bound):
    one = SampledGaussian(q, 2 * bound, "poisson substitute")
    rng = np.random.default_rng(20)
    for epsilon in (0.0, 0.05, 0.4):
        curve = float(np.exp(one.log_profiles(np.array([epsilon]))[0][0]))
        opposite = hockey_stick((bound, 0.0), (-bound, 0.0), q, np.exp(epsilon))
        assert curve == pytest.approx(opposite, rel=2e-3)  # the grid's error at the kink
        for _ in range(10):
            angle, (r, s) = rng.uniform(0, 2 * np.pi), bound * np.sqrt(rng.uniform(size=2))
            other = (s * np.cos(angle), s * np.sin(angle))
            assert hockey_stick((r, 0.0), other, q, np.exp(epsilon)) <= curve
    # Control: a bound for gradients a tenth shorter is too small.
    shorter = SampledGaussian(q, 1.8 * bound, "poisson substitute")
    assert float(np.exp(shorter.log_profiles(np.array([epsilon]))[0][0])) < 0.9 * opposite


@given(st.floats(1e-5, 1.0), st.floats(1e-2, 8.0), st.floats(0.0, 60.0))
@settings(max_examples=60, deadline=None)
def test_curve_of_a_replacement_is_right_in_many_digits(q, shift, epsilon):
    """The same curve, with sixty digits, from its definition at the best threshold."""
    one = SampledGaussian(q, 2 * shift, "poisson substitute")
    ours = float(one.log_profiles(np.array([epsilon]))[0][0])
    with mp.workdps(60):
        w, a, e = mp.mpf(q), mp.mpf(one.mu / 2), mp.mpf(epsilon)
        x = (e / 2 + mp.asinh((1 - w) / w * mp.exp(a**2 / 2) * mp.sinh(e / 2))) / a
        exact = (1 - w) * (1 - mp.exp(e)) * mp.ncdf(-x) + w * mp.ncdf(a - x) - w * mp.exp(e) * mp.ncdf(-a - x)
        if exact > mp.mpf("1e-300"):
            assert 0 <= ours - float(mp.log(exact)) <= 1e-8


@pytest.mark.parametrize("relation", ["add_remove", "substitute"])
@pytest.mark.parametrize(
    ("first", "decay"), [(1.2, 1 / 6), pytest.param(0.6, 0.35, marks=pytest.mark.slow)], ids=["usual", "wide"]
)
def test_few_noise_scales_are_above_many_and_close(relation, first, decay):
    counts = privacy.EventSet(falling(first, 60, decay=decay), relation).counts
    mechanisms = losses(counts, relation)
    fine = loss_distribution.LossDistribution(mechanisms)
    coarse = loss_distribution.LossDistribution(mechanisms, coarse=True)
    for delta in (1e-8, 1e-5, 1e-2):
        exact = epsilon(
            loss_distribution._composed(mechanisms, *EACH, delta if delta < 1e-6 else None), delta
        )
        assert exact * (1 - 1e-7) <= fine.epsilon(delta) <= 1.004 * exact
        assert exact <= coarse.epsilon(delta) <= 1.1 * exact


@pytest.mark.slow
def test_different_scales_agree_with_dp_accounting():
    events = [sampled(0.02, nm, count) for nm, count in ((0.8, 20), (1.0, 50), (1.3, 300), (1.35, 100))]
    theirs = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(dp_event.ComposedDpEvent(events))
    ours = privacy.compose(events, "add_remove")
    for delta in (1e-7, 1e-4):
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon(delta), rel=1e-3)


@pytest.mark.slow
def test_different_scales_of_replaced_records_agree_with_dp_accounting():
    """Its noise multiplier is relative to the clip bound under replacement, ours to the sensitivity."""
    scales = ((0.8, 20), (1.0, 50), (1.3, 300))
    theirs = PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(
        dp_event.ComposedDpEvent([sampled(0.02, 2 * nm, count) for nm, count in scales])
    )
    ours = privacy.compose([sampled(0.02, nm, count) for nm, count in scales], "substitute")
    for delta in (1e-7, 1e-4):
        exact = theirs.get_epsilon(delta)
        assert ours.epsilon(delta) == pytest.approx(exact, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [None, 1e-12])
def test_the_bound_of_rounding_covers_it(monkeypatch, delta):
    """The same composition with transforms in extended precision."""
    events = [*falling(1.0, 30), dp_event.GaussianDpEvent(50.0)]
    mechanisms = losses(privacy.EventSet(events, "add_remove").counts, "add_remove")
    ours, *_ = loss_distribution._composed(mechanisms, *EACH, delta)
    if np.finfo(np.longdouble).eps == np.finfo(float).eps:
        pytest.skip("this platform has no extended precision")
    monkeypatch.setattr(composed_losses, "rfft", lambda x: rfft(x.astype(np.longdouble)))
    monkeypatch.setattr(composed_losses, "irfft", irfft)
    exact, *_ = loss_distribution._composed(mechanisms, *EACH, delta)
    assert exact.mass.dtype == np.longdouble
    weights = np.exp(ours.tilt * ours.losses)  # the error is that of the tilted law
    assert np.sum(np.abs(ours.mass - exact.mass) * weights) <= math.exp(ours.log_error)


def test_there_is_no_floor_of_delta():
    """Gaussian releases are exact; a hundred as loss distributions are hardly more, at any delta."""
    hundred = {SampledGaussian(1.0, 0.1, "all records"): 100}
    curve = loss_distribution.LossDistribution(hundred)
    for delta in (1e-5, 1e-9, 1e-14, 1e-20):
        exact = float(privacy.gaussian.epsilon(1.0, delta))
        assert exact <= curve.epsilon(delta) <= exact * (1 + 5e-4)
        assert delta <= curve.delta(exact) <= 1.02 * delta
        # Control: of one release less it is below.
        (one,) = hundred
        assert loss_distribution.LossDistribution({one: 99}).epsilon(delta) < exact
    # Without a tilt there is a floor, which grows with the number of releases.
    assert epsilon(loss_distribution._composed(hundred, *EACH, None), 1e-15) == math.inf


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "substitute"])
def test_calibration_of_many_scales_takes_few_compositions(relation, monkeypatch):
    composed = {True: 0, False: 0}
    accountant = calibration.privacy_loss_distribution

    def counted(events, coarse=False):
        composed[coarse] += 1
        return accountant(events, coarse)

    monkeypatch.setattr(calibration, "privacy_loss_distribution", counted)
    x = privacy.calibrate(
        lambda x: falling(x, 200), 0.5, 1e-5, neighboring_relation=relation, low=0.3, high=30.0
    )
    spent = privacy.compose(falling(x, 200), relation).epsilon(1e-5)
    assert 0.999 * 0.5 <= spent <= 0.5
    assert composed[False] <= 4 and composed[True] <= 16


@pytest.mark.slow
@given(st.floats(0.1, 8.0), st.sampled_from([1e-8, 1e-4]), st.integers(9, 60), st.floats(0.0, 0.4))
@settings(max_examples=6, deadline=None)
def test_calibration_of_many_scales_is_never_over_budget(budget, delta, iterations, decay):
    def events(x):
        return falling(x, iterations, decay=decay)

    x = privacy.calibrate(events, budget, delta, neighboring_relation="substitute", low=0.2, high=100.0)
    spent = privacy.compose(events(x), "substitute").epsilon(delta)
    assert spent <= budget
    assert x == 0.2 or spent >= 0.995 * budget


@pytest.mark.parametrize(("q", "nm", "k"), [(0.1755, 0.309, 2000), (0.1755, 0.3, 2000), (0.1755, 0.2, 500)])
def test_losses_beyond_floating_point_are_not_free(q, nm, k):
    """Sums of exp(-loss) that underflow once said epsilon = 0 for a run that tells nearly everything."""
    event = dp_event.PoissonSampledDpEvent(q, dp_event.GaussianDpEvent(nm))
    for events in (event, privacy.BatchPenaltyDecisionDpEvent(round(q * 10_000), 10_000, nm)):
        relation = "add_remove" if events is event else "substitute"
        run = privacy_loss_distribution(privacy.EventSet([(events, k)], relation))
        for delta in (1e-10, 1e-5, 1e-3):
            found = run.epsilon(delta)
            assert found > 300 and (math.isinf(found) or run.delta(found) <= delta * (1 + 1e-6))


def test_a_composed_loss_beyond_floating_point():
    """All mass at one loss: epsilon is just below it."""
    for loss in (650.0, 700.0, 712.0, 740.0, 800.0, 5000.0):
        grid = loss + np.arange(-3.0, 1.0)
        one = composed_losses.Composed(grid, np.array([0.0, 0.0, 0.0, 1.0]), 0.0, -math.inf, 0.0)
        assert loss - 1e-3 < one.epsilon(1e-5) or math.isinf(one.epsilon(1e-5))
        assert one.delta(min(one.epsilon(1e-5), 1e4)) <= 1e-5 * (1 + 1e-6)
