"""The centre finder arrives where it is hard to, and its parts do what they say."""

import numpy as np
import pymc as pm
import pytest

from pymc_dp.control_variates.by_parameter import ByParameter
from pymc_dp.control_variates.curvature import NoisyCurvature, at_least, inverse_root, prior_curvature
from pymc_dp.control_variates.finder import Finder, Point
from pymc_dp.control_variates.histograms import Histogram
from pymc_dp.control_variates.places import Places
from pymc_dp.control_variates.settings import ControlVariates
from pymc_dp.errors import PrivacyError, TooFewRecordsError
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.mechanisms.randomness import PrivacyRandom
from pymc_dp.records.model import RecordModel
from tests.control_variates.fixed import LogisticRecords
from tests.control_variates.hard_models import Logistic, make

DEFAULT = ControlVariates()
# Records, epsilon, and largest error in posterior standard deviations: about three times that of the noise
# alone (records that tell about the separable model's slopes are rare, and noise is large).
CASES = {
    "banana": (25_000, 9.0, 0.4),
    "straight banana": (25_000, 9.0, 0.2),
    "separable": (25_000, 9.0, 2.5),
    "linear": (25_000, 4.5, 0.6),
    "large sigma": (25_000, 4.5, 0.6),
    "small sigma": (25_000, 4.5, 0.6),
    "groups": (8_000, 25.0, 0.6),
}


def error(name, seed, settings=DEFAULT):
    """Root mean square over parameters of the surrogate's mode minus the exact one, in posterior sd."""
    n, epsilon, _ = CASES[name]
    records, truth = make(name, n, seed)
    squared = float(gaussian.mu(epsilon, 1e-6)) ** 2
    surrogate = Finder(records, settings, squared, PrivacyRandom(seed), 1.0, epsilon)(records.start)
    mode, sd = records.laplace(truth)
    found = mode_of(surrogate, records)
    return float(np.sqrt(np.mean(((found - mode) / sd) ** 2)))


def mode_of(surrogate, records):
    """Of prior times surrogate: steps of Gauss and Newton's."""
    (slope, curvature), theta = surrogate.public(), surrogate.point
    for _ in range(1 if records.coordinates.identity else 20):
        jacobian, delta = records.coordinates.jacobian(theta), records.coordinates(theta) - surrogate.phi
        precision = prior_curvature(records, theta) - jacobian.T @ curvature @ jacobian
        gradient = jacobian.T @ (slope + curvature @ delta) + records.log_prior_gradient(theta)
        theta = theta + np.linalg.solve(precision, gradient)
    return theta


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_centre_is_found(name):
    assert error(name, 1) < CASES[name][2]


def rare_ones(seed, intercept=-3.9):
    """A logistic model with one one in fifty, a prior that does not know that; and the truth."""
    r, beta = np.random.default_rng(seed), np.array([intercept, 0.5, -0.3])
    x = np.column_stack([np.ones(20_000), r.normal(size=(20_000, 2))])
    y = (r.random(20_000) < 1 / (1 + np.exp(-x @ beta))).astype(float)
    return Logistic(x, y, 2.0), beta


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_rare_ones_are_found(seed):
    """Posteriors were 8 sd off, of records without the ones; within 4.9 of their own sd now."""
    records, truth = rare_ones(seed)
    mode, _ = records.laplace(truth)
    squared = float(gaussian.mu(4.0, 1e-6)) ** 2
    surrogate = Finder(records, DEFAULT, squared, PrivacyRandom(seed), 1.0, 4.0)(records.start)
    precision = surrogate.precision(prior_curvature(records, surrogate.point), np.eye(3))
    z = (mode_of(surrogate, records) - mode) / np.sqrt(np.diag(np.linalg.inv(precision)))
    assert np.abs(z).max() < 4.9
    assert not np.any(
        ByParameter(surrogate, prior_curvature(records, surrogate.point), np.eye(3)).shown() < 0.75
    )


@pytest.mark.slow
def test_rare_ones_that_are_not_looked_for_are_refused(monkeypatch):
    """Control, and what is left when the search does not find them: hardly any information is shown."""
    monkeypatch.setattr("pymc_dp.control_variates.tails.Tail.expect", lambda *_: None)
    refused = 0
    for seed in range(4):
        records, truth = rare_ones(seed, -5.5)
        squared = float(gaussian.mu(1.0, 1e-6)) ** 2
        try:
            surrogate = Finder(records, DEFAULT, squared, PrivacyRandom(seed), 1.0, 1.0)(records.start)
        except PrivacyError:
            continue
        mode, sd = records.laplace(truth)
        assert abs(mode_of(surrogate, records) - mode)[0] > 5 * sd[0]
        shown = ByParameter(surrogate, prior_curvature(records, surrogate.point), np.eye(3)).shown()
        assert shown.min() < 0.05
        refused += 1
    assert refused


@pytest.mark.slow
@pytest.mark.parametrize("name", ["separable", "large sigma"])
def test_one_round_would_not_do(name):
    """Control: it is the rounds that find it."""
    with pytest.raises((AssertionError, TooFewRecordsError)):
        assert error(name, 1, ControlVariates(early=(1.0,))) < CASES[name][2]


def test_bounds_of_the_user_are_limits_of_clip_bounds():
    metric, centre = np.diag([3.0, 0.5]), np.array([0.1, 2.0])
    at = Point(np.zeros(2), np.zeros(2), metric, centre)

    def limited(gradient, hessian):
        settings = ControlVariates(hessian_bound=hessian)
        finder = Finder(LogisticRecords(n=50), settings, 1.0, PrivacyRandom(0), 1.0, 1.0, lipschitz=gradient)
        return finder._limited(at, 10.0, 10.0)

    assert limited(None, None) == (10.0, 10.0)
    assert limited(100.0, 100.0) == (10.0, 10.0)
    assert limited(0.7, None) == (pytest.approx(3 * 0.7 + np.hypot(0.3, 1.0)), 10.0)
    assert limited(None, 0.2) == (10.0, pytest.approx(9 * 0.2))
    # and no record is beyond: gradients of norm 0.7, Hessians of norm 0.2
    r = np.random.default_rng(0)
    g = r.normal(size=(1000, 2))
    g *= 0.7 / np.linalg.norm(g, axis=1)[:, None]
    assert np.linalg.norm((g - centre) @ metric, axis=1).max() <= limited(0.7, None)[0]
    h = r.normal(size=(1000, 2, 2))
    h *= 0.2 / np.linalg.norm(h, axis=(1, 2))[:, None, None]
    assert np.linalg.norm(metric @ h @ metric, axis=(1, 2)).max() <= limited(None, 0.2)[1]


def test_a_pair_is_shared_once_and_at_its_turn():
    finder = Finder(LogisticRecords(n=50), ControlVariates(), 1.0, PrivacyRandom(0), 1.0, 1.0)
    with pytest.raises(PrivacyError, match="a pair is shared once"):
        finder.releases.split(0.5)
    finder.releases._left = [("pair", 0.6)]
    for share in (0.0, 1.0, np.nan):
        with pytest.raises(PrivacyError, match="a pair is shared once"):
            finder.releases.split(share)
    finder.releases.split(0.25)
    assert finder.releases._left == [("hessian", 0.15), ("gradient", pytest.approx(0.45))]
    with pytest.raises(PrivacyError, match="a pair is shared once"):
        finder.releases.split(0.5)


# histograms


def filled(norms, cells=4, std=1.0):
    histogram = Histogram(cells, std)
    histogram.add(norms)
    return histogram


def test_the_top_of_a_histogram():
    norms = np.r_[np.full(1000, 1.1), np.full(100, 3.0), 50.0]
    histogram = filled(norms)
    bound = histogram.edge(histogram.top(5.0) + 1)
    assert 3.0 < bound <= 3.0 * 2**0.25
    assert filled(np.full(4, 1.0)).top(5.0) is None
    # six in each of eight cells: no cell stands out of noise of 2, all together do
    spread = filled(2.0 ** (np.repeat(np.arange(8), 6) / 4 + 0.1), std=2.0)
    assert spread.top(5.0) is not None and spread.edge(spread.top(5.0) + 1) >= 2.0 ** (7 / 4 + 0.1)


# curvatures


def test_curvatures_are_positive_definite_and_right_without_noise():
    r = np.random.default_rng(0)
    metric = np.diag([0.5, 2.0, 1.0]) + 0.1
    truth = r.normal(size=(3, 3))
    truth = truth @ truth.T + np.eye(3)
    exact = NoisyCurvature(metric @ truth @ metric.T, 0.0, metric, 0.8)
    for matrix in (exact.absolute(), exact.positive(), exact.weakest()):
        np.testing.assert_allclose(matrix, 0.8 * truth, rtol=1e-9)
    level = 0.25
    noisy = NoisyCurvature(np.diag([9.0, -4.0, 0.01]), level, np.eye(3), 1.0)
    np.testing.assert_allclose(np.diag(noisy.absolute()), [9.0, 4.0, level])
    np.testing.assert_allclose(np.diag(noisy.positive()), [9.0, level, level])
    np.testing.assert_allclose(np.diag(noisy.weakest()), [9.0, level**2 / 9, 0.01])


def test_a_curvature_of_at_least_another():
    other = np.array([[2.0, 0.5], [0.5, 1.0]])
    raised = at_least(0.1 * other, other, 0.5)
    np.testing.assert_allclose(raised, 0.5 * other)
    np.testing.assert_allclose(at_least(3 * other, other, 0.5), 3 * other)
    np.testing.assert_allclose(inverse_root(other) @ other @ inverse_root(other), np.eye(2), atol=1e-12)


def test_an_indefinite_curvature_without_noise_bounds_another_from_below():
    r = np.random.default_rng(1)
    turn = np.linalg.qr(r.normal(size=(4, 4)))[0]
    indefinite = NoisyCurvature(turn @ np.diag([3e7, 1e6, -2e6, -4e7]) @ turn.T, 0.0, np.eye(4), 1.0)
    other = 1e7 * np.eye(4)
    raised = at_least(other, indefinite.surely(), 1.0)
    # A floor of 1e-12 beside 3e7 made roots of rounding errors: eigenvalues of 0, steps of any length.
    np.testing.assert_allclose(np.linalg.eigvalsh(raised), [1e7, 1e7, 1e7, 3e7], rtol=1e-3)


@pytest.mark.parametrize("name", ["linear", "small sigma"])
def test_without_noise_the_mode_is_found(name):
    records, truth = make(name, 3000, 0)
    surrogate = Finder(records, DEFAULT, np.inf, PrivacyRandom(0), 1.0, np.inf)(records.start)
    mode, sd = records.laplace(truth)
    assert np.all(np.abs(mode_of(surrogate, records) - mode) < 0.05 * sd)


def test_what_gradients_show_is_their_products():
    """With little noise: the whole matrix, at the surrogate's point and in its metric."""
    records, _ = make("linear", 20_000, 0)
    surrogate = Finder(records, DEFAULT, 1e6, PrivacyRandom(0), 1.0, 100.0)(records.start)
    parts = records.derivatives(surrogate.phi)
    products = sum((v := part.gradient @ surrogate.metric.T).T @ v for part in parts)
    np.testing.assert_allclose(surrogate.seen, products, rtol=1e-3, atol=4.9 * surrogate.seen_noise)
    assert np.abs(products - np.diag(np.diag(products))).max() > 5 * surrogate.seen_noise


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "small sigma", "groups"])
def test_what_hessians_lose_is_less_than_what_is_said(name):
    """Fails where what is beyond the bound is not said, and where ten times as much is."""
    n, epsilon, _ = CASES[name]
    records, _ = make(name, n, 0)
    squared = float(gaussian.mu(epsilon, 1e-6)) ** 2
    surrogate = Finder(records, DEFAULT, squared, PrivacyRandom(0), 1.0, epsilon)(records.start)
    lost = np.zeros_like(surrogate.metric)
    for part in records.derivatives(surrogate.phi, True):
        inside = surrogate.metric @ part.hessian @ surrogate.metric.T
        norms = np.linalg.norm(inside, axis=(1, 2))
        lost += np.tensordot(1 - np.minimum(1, surrogate.hessian_bound / norms), inside, axes=1)
    really = np.linalg.norm(lost)
    assert 0 < really < surrogate.hessian_left < 10 * really


def centred_groups():
    """Eighty equal groups at the start: the prior's density is infinite where their scale is 0."""
    r = np.random.default_rng(1)
    group, level = r.integers(80, size=4000), 0.7 * r.normal(size=80)
    y = (r.random(4000) < 1 / (1 + np.exp(-level[group]))).astype(int)
    with pm.Model() as model:
        mean, scale = pm.Normal("mean"), pm.HalfNormal("scale", 1)
        pm.Bernoulli("y", logit_p=pm.Normal("level", mean, scale, shape=80)[group], observed=y)
    return RecordModel(model), level


@pytest.mark.slow
def test_a_centred_hierarchy_does_not_fall_together(monkeypatch):
    records, level = centred_groups()
    make = Finder(records, ControlVariates(), np.inf, PrivacyRandom(0), 1.0, np.inf)
    point = records.unravel(make(records._start).point)
    assert 0.4 < np.exp(point["scale_log__"]) < 1 and np.corrcoef(point["level"], level)[0, 1] > 0.8
    # control: with steps of any length
    monkeypatch.setattr(Places, "held", lambda self, theta, step: step)
    make = Finder(records, ControlVariates(), np.inf, PrivacyRandom(0), 1.0, np.inf)
    with pytest.raises(TooFewRecordsError):
        make(records._start)
