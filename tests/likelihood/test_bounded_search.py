"""A search stays where the parameters may be; what it finds may be beyond."""

import numpy as np
import pytest

from pymc_dp.errors import NotPrivateWarning
from pymc_dp.likelihood.identified import IdentifiedCoordinates
from pymc_dp.likelihood.measurements import Measurements
from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.likelihood.near_zero import NO_SPREADS
from pymc_dp.likelihood.points import UNBOUNDED
from pymc_dp.likelihood.releases import Public, search_from
from pymc_dp.likelihood.sources import RecordsHere
from pymc_dp.privacy.accounting import gaussian
from pymc_dp.privacy.budget.spending import Spending
from pymc_dp.records.twins import Chunk, TermScores

RECORDS = 2_000


class Slopes:
    """Outcomes that are normal around ``a + b x``; phi is (a, b). Notes the points that are asked for."""

    size, touched, rank = 2, 2, 2
    lookups, sums = (), [[(1, np.array([0]))], [(1, np.array([1]))]]

    def __init__(self, a, b, seed):
        self.apart, self.asked, self.doubtful = [self], [], {}
        rng = np.random.default_rng(seed)
        self._x = rng.normal(size=RECORDS)
        self._own = a + b * self._x + rng.normal(size=RECORDS)

    def __call__(self, points, twins, random, each):
        points = np.atleast_2d(points)
        self.asked += list(points)
        mean = points.mean(axis=0) @ [np.ones(RECORDS), self._x]
        (generator,) = random.generators(1)
        y = np.vstack([self._own, generator.normal(mean, size=(twins, RECORDS))]) - mean
        scores = np.stack([y, y * self._x], axis=2)
        yield lambda: Chunk(slice(0, RECORDS), [TermScores(scores[0], scores, None, None)])


def found(b, bounds):
    """Mean and standard deviation of b without a prior, and the points that were asked for."""
    source, spending = Slopes(0.3, b, 1), Spending(1.0, 1e-6, [1.0], "substitute", debug_seed=1)
    with pytest.warns(NotPrivateWarning):
        spending.pay()
    measurements = Measurements(RecordsHere(source, spending.random), spending)
    mu, prior = float(gaussian.mu(1.0, 1e-6)), Normal(np.eye(2), np.array([0.0, 0.7]))
    start = np.array([0.0, 1.0])
    whole, _ = search_from(measurements, RECORDS, mu, Public(prior, start, NO_SPREADS, bounds=bounds))
    covariance = np.linalg.inv(whole.message.information)
    return (covariance @ whole.message.vector)[1], covariance[1, 1] ** 0.5, np.array(source.asked)


@pytest.mark.parametrize("b", [-0.05, 0.0, 0.02])
def test_no_point_is_beyond_a_bound_and_the_likelihood_is_right(b):
    positive = np.array([[-np.inf, 1e-6], [np.inf, np.inf]])
    mean, sd, asked = found(b, positive)
    assert asked[:, 1].min() >= 1e-6 and asked[:, 0].min() < asked[:, 0].max()
    assert abs(mean - b) < 5 * sd and sd < 0.2
    assert found(b, UNBOUNDED)[2][:, 1].min() < 0  # a control: it would go there


def test_a_sum_with_what_is_left_out_has_no_bound():
    """Levels beside an intercept: what is kept is their sum, which may be anywhere."""

    class Levels(Slopes):
        size, touched = 4, 2
        lookups, sums = [], [[(1, np.array([0])), (1, np.array([1, 2]))], [(1, np.array([3]))]]

        def __init__(self):
            pass

    seen = IdentifiedCoordinates(Levels(), Normal(np.eye(4), np.zeros(4)))
    within = seen.within(np.array([[0.0] * 4, [1.0] * 4]))
    assert seen.left == [0]
    np.testing.assert_array_equal(within, [[-np.inf, -np.inf, 0.0], [np.inf, np.inf, 1.0]])
