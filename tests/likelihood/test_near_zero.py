"""Spreads near zero: the coordinates in which they are released, and whether the truth is where they say."""

import numpy as np
import pytest

from pymc_dp.errors import NotPrivateWarning
from pymc_dp.likelihood.beliefs import Beliefs
from pymc_dp.likelihood.fit import CELLS
from pymc_dp.likelihood.fit import Spread as Spread_
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.mixtures import Message, Normal
from pymc_dp.likelihood.near_zero import NO_SPREADS, NearZero
from pymc_dp.likelihood.releases import Public, look_at_fit, search_from
from pymc_dp.likelihood.rounds import Found
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.spreads import Spread
from pymc_dp.records.twins import Chunk, TermScores
from tests.likelihood.test_rounds import taken_at

DEVIATION, BELOW, SHAPE = (
    Spread(2.0, offset=0.7),
    Spread(2.0, upper=5.0, offset=3.0),
    Spread(-1.0, offset=0.2),
)


@pytest.mark.parametrize("spread", [DEVIATION, BELOW, SHAPE])
def test_slopes_and_the_way_back_are_those_of_the_coordinate(spread):
    near_zero = NearZero({1: spread}, unit=np.array([2.0, 0.5]))
    for phi in np.array([[0.3, -2.0], [-1.0, 0.4], [2.0, 3.0]]):
        apart = np.array([0.0, 1e-6])
        slope = (near_zero.psi(phi + apart) - near_zero.psi(phi - apart)) / 2e-6
        np.testing.assert_allclose(near_zero.slopes(phi), [1.0, slope[1]], rtol=1e-6)
        np.testing.assert_allclose(near_zero.phi(near_zero.psi(phi)), phi, rtol=1e-9)
    expected = np.log(spread.numbers(np.array(-1.0)) ** spread.power + spread.offset)
    assert 0.5 * near_zero.psi(np.array([0.0, -2.0]))[1] == pytest.approx(expected)


@np.errstate(all="ignore")
def test_numbers_that_overflow_raise_nothing():
    """After payment: a walk may be anywhere."""
    for spread in (DEVIATION, BELOW, SHAPE):
        for far in (-800.0, 800.0):
            NearZero({0: spread}).slopes(np.array([far]))


@pytest.mark.parametrize("spread", [DEVIATION, BELOW, SHAPE])
def test_what_noise_says_beyond_a_bound_is_taken_for_nearly_the_bound(spread):
    """No power is above log(upper^k + c), and none below log(c): psi may be anywhere, and has a slope."""
    near_zero = NearZero({0: spread})
    for psi in (-800.0, -5.0, 3.5, 40.0, 800.0):
        phi = near_zero.phi(np.array([psi]))
        slope = near_zero.slopes(phi)
        assert np.isfinite(phi).all() and np.isfinite(1 / slope).all() and (slope * spread.power > 0).all()


def test_the_fit_is_looked_at_in_the_metric_of_what_is_released():
    """A score by log tau is that by psi times its slope: the norm of a record's score is the same."""
    near_zero = NearZero({1: Spread(2.0, offset=3.0)})
    asked = []

    class Kept(Measurements):
        def __init__(self):
            self.kept = {"spread": 0.1}

        def spread(self, phi, metric):
            asked.append((phi, metric))
            return Spread_(np.full(CELLS, 100.0), 1.0)

    information, prior = np.diag([50.0, 20.0]), Normal(np.eye(2), np.zeros(2))
    psi = near_zero.psi(np.array([0.5, -1.0]))
    message = Message(information, (information + np.eye(2)) @ psi)
    found = Found(psi, message, [], [], information, information, np.zeros_like(psi))
    look_at_fit(Kept(), found, prior, near_zero)
    ((phi, metric),) = asked
    np.testing.assert_allclose(phi, [0.5, -1.0])
    by_psi = np.array([0.3, -0.7])
    by_phi = by_psi * near_zero.slopes(phi)
    expected = by_psi @ np.linalg.inv(information + np.eye(2)) @ by_psi
    assert np.sum((metric @ by_phi) ** 2) == pytest.approx(expected)


def test_a_round_says_the_same_of_the_released_coordinates():
    """Its information is that of phi over the slopes; too little of it would only be too wide."""
    near_zero = NearZero({1: DEVIATION})
    learnt = Beliefs(Normal(np.eye(2), np.zeros(2)), near_zero, [], [])
    one = taken_at(np.array([[[4.0, 1.0], [1.0, 2.0]]]), np.full(2, 4.0), metric=np.diag([0.5, 3.0]))
    learnt.learn(one, True)
    learnt.result(1.0)
    slopes = near_zero.slopes(one.point)
    np.testing.assert_allclose(learnt.rounds[0].mean, one.mean / np.outer(slopes, slopes))
    np.testing.assert_allclose(learnt.rounds[0].point, near_zero.psi(one.point))


def test_a_variance_below_zero_is_nearly_zero():
    near_zero = NearZero({0: DEVIATION})
    phi = near_zero.phi(np.array([np.log(0.7) - 1.0]))
    assert np.exp(2 * phi[0]) == pytest.approx(0.7e-6)


def test_a_step_to_a_larger_variance_is_one_in_the_variance():
    near_zero = NearZero({0: DEVIATION, 2: SHAPE}, unit=np.array([2.0, 1.0, 0.5]))
    step = near_zero.step(np.array([3.0, 7.0, -2.0]))
    np.testing.assert_allclose(step, [np.log(1 + 2 * 6) / 2 / 2, 7.0, -np.log(1 + 1) / 0.5])
    np.testing.assert_allclose(near_zero.step(np.array([-3.0, 7.0, 2.0])), [-3.0, 7.0, 2.0])


@pytest.mark.parametrize("drawn", [True, False])
def test_a_prior_of_the_walk_is_that_of_what_is_released(drawn):
    draws = np.random.default_rng(0).normal([1.0, -0.5], [2.0, 0.1], size=(4000, 2))
    near_zero = NearZero({1: DEVIATION})
    released = Normal.like(near_zero.psi(draws), np.zeros(2))
    found = near_zero.of_walk(released if drawn else released._replace(draws=None))
    np.testing.assert_allclose(found.mean, [1.0, -0.5], atol=0.1)
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(found.precision))), [2.0, 0.1], rtol=0.1)


PERSONS, ROWS = 1_000, 6


class Means:
    """Means of a person's rows: normal, around b, of variance ``tau^2 + 1 / ROWS``; phi is (b, log tau)."""

    size, touched, rank = 2, 2, 2
    lookups, sums = (), [[(1, np.array([0]))], [(1, np.array([1]))]]

    def __init__(self, b, tau, seed):
        self.apart, self.doubtful = [self], {}
        self._own = np.random.default_rng(seed).normal(b, np.sqrt(tau**2 + 1 / ROWS), size=PERSONS)

    def __call__(self, points, twins, random, each):
        b, log_tau = np.atleast_2d(points).mean(axis=0)
        v = np.exp(2 * log_tau)
        whole = v + 1 / ROWS
        (generator,) = random.generators(1)
        y = np.vstack([self._own, generator.normal(b, np.sqrt(whole), size=(twins, PERSONS))])
        scores = np.stack([(y - b) / whole, v * ((y - b) ** 2 / whole - 1) / whole], axis=2)
        yield lambda: Chunk(slice(0, PERSONS), [TermScores(scores[0], scores, None, None)])


def distance(tau, near_zero, seed):
    """Squared, of the truth from what is released, in its standard deviations: about two."""
    draws = np.random.default_rng(0).normal(size=(1000, 2))
    draws[:, 1] = np.log(10 * np.abs(draws[:, 1]))
    prior, start = Normal.like(near_zero.psi(draws), np.zeros(2)), near_zero.psi(np.log([1.0, 10.0]))
    spending = Spending(1.0, 1e-6, [1.0], "substitute", debug_seed=seed)
    with pytest.warns(NotPrivateWarning):
        spending.pay()
    measurements = Measurements(RecordsHere(Means(0.3, tau, seed), spending.random), spending)
    mu = float(gaussian.mu(1.0, 1e-6))
    message = search_from(measurements, PERSONS, mu, Public(prior, start, near_zero))[0].message
    mean = np.linalg.pinv(message.information, hermitian=True) @ message.vector
    apart = near_zero.psi(np.array([0.3, np.log(tau)])) - mean
    return apart @ message.information @ apart


HUNDRED = NearZero({1: Spread(2.0, offset=100.0)})


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_the_truth_is_where_a_release_says(tau):
    """Of 6 data sets; beyond 60 with a probability of 2e-8. The way begins at 10."""
    assert sum(distance(tau, HUNDRED, k) for k in range(6)) < 60


def test_near_zero_a_normal_likelihood_of_the_logarithm_would_be_wrong():
    """Of 11 data sets; beyond 75 with a probability of 1e-7. The same, said of the logarithm, are."""
    assert sum(distance(0.02, HUNDRED, k) for k in range(11)) < 75
    assert sum(distance(0.02, NO_SPREADS, k) for k in range(11)) > 75
