"""The penalty test on sufficient statistics has the conjugate posterior as its stationary law.

Chains start at independent draws from the conjugate posterior and make 40 iterations with much noise; each
coordinate is compared with its exact distribution (`chains.of_scores`). The controls must fail.
"""

import math

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit, logit

import pymc_dp as dp
from pymc_dp.records.statistics import GRID
from tests.conftest import NUMBA
from tests.statistical.chains import FALSE_ALARM, of_scores

CHAINS, ITERATIONS = 1000, 40
pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")  # debug_seed


def beta_bernoulli():
    """Seven of ten, uniform prior: a Beta(8, 4) posterior."""
    with pm.Model() as model:
        pm.Bernoulli("y", p=pm.Beta("p", 1, 1), observed=np.repeat([1, 0], [7, 3]))
    posterior = stats.beta(8, 4)
    starts = lambda size, rng: logit(posterior.rvs((size, 1), random_state=rng))  # noqa: E731
    return model, starts, lambda theta: [(expit(theta[:, 0]), posterior.cdf)], 1.0, 0.9


def normal():
    """Mean and variance unknown, normal-inverse-gamma prior."""
    y = np.array([-0.3, 0.4, 1.1, 2.0, 0.2, 0.9])
    n = y.size
    shape, place = 2 + n / 2, y.sum() / (n + 1)
    scale = 1.5 + np.sum((y - y.mean()) ** 2) / 2 + n * y.mean() ** 2 / (2 * (n + 1))
    with pm.Model() as model:
        v = pm.InverseGamma("v", 2, 1.5)
        pm.Normal("y", pm.Normal("m", 0, pm.math.sqrt(v)), pm.math.sqrt(v), observed=y)
    variance = stats.invgamma(shape, scale=scale)
    mean = stats.t(2 * shape, place, math.sqrt(scale / shape / (n + 1)))

    def starts(size, rng):
        v = variance.rvs(size, random_state=rng)
        return np.column_stack([np.log(v), rng.normal(place, np.sqrt(v / (n + 1)))])

    return model, starts, lambda x: [(np.exp(x[:, 0]), variance.cdf), (x[:, 1], mean.cdf)], [2.5, 5.0], 0.3


def p_values(target, noise_multiplier, spoil=lambda ratios: None):
    """Smallest p-value over coordinates; tempering 1, substitute."""
    model, starts, exact, bound, step_size = target
    iterations = CHAINS * ITERATIONS
    epsilon = float(dp.privacy.gaussian.epsilon(math.sqrt(iterations) / noise_multiplier, 1e-6))
    with model:
        step = dp.DPPenaltyMH(
            epsilon=epsilon,
            delta=1e-6,
            sufficient_statistics="auto",
            clip_bound=bound,
            proposal="gaussian",
            chains=1,
            step_size=step_size,
            clip_fraction=False,
            debug_seed=1,
            compile_kwargs=NUMBA,
        )
    rng = np.random.default_rng(1)
    step.setup_chain(rng, 0, iterations)
    ends, accepted, noise, chain = [], 0, [], step._chain
    for start in starts(CHAINS, rng):
        chain.state = step._arrive(chain, start)
        if not ends:
            spoil(chain.ratio)
            chain.state = step._arrive(chain, start)
        for _ in range(ITERATIONS):
            now, stat = step._iterate(chain)
            accepted += now
            noise.append(stat["noise_std"])
        ends.append(chain.state.theta)
    assert np.median(noise) > 0.5, "hardly any noise"
    assert 0.1 < accepted / iterations < 0.9, "the chains hardly move, or the step is tiny"
    return min(of_scores(stats.norm.ppf(cdf(x))) for x, cdf in exact(np.array(ends)))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "noise_multiplier"), [(beta_bernoulli, 0.7), (normal, 0.35)])
def test_invariance(target, noise_multiplier):
    assert p_values(target(), noise_multiplier) > FALSE_ALARM


def one_record_more(ratios):
    """Control: the sum of one record, a one, too many."""
    ratios._sum = ratios._sum._replace(total=ratios._sum.total + GRID)


@pytest.mark.slow
def test_control_fails():
    assert p_values(beta_bernoulli(), 0.7, one_record_more) < FALSE_ALARM
