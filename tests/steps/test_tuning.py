"""Step sizes: the optimum against simulation, the adaptation against its target."""

import numpy as np
import pytest

from pymc_dp.kernels.tuning import optimal_walk
from pymc_dp.proposals.walk import adapted


def test_known_optima():
    assert optimal_walk(7, True) == pytest.approx((2.38, 0.234), rel=0.01)
    rates = [optimal_walk(d, False)[1] for d in (1, 2, 5, 10, 1000)]
    assert rates == pytest.approx([0.44, 0.35, 0.28, 0.26, 0.234], abs=0.01)


@pytest.mark.parametrize("d", [1, 3])
def test_no_other_step_moves_farther(d):
    """Simulated penalty tests between points of equal density: common random numbers, 3% allowed."""
    rng = np.random.default_rng(0)
    z, noise, u = (
        rng.standard_normal((100_000, d)),
        rng.standard_normal(100_000),
        rng.exponential(size=100_000),
    )

    def distance(noise_std):
        s = noise_std * np.sqrt((z**2).sum(axis=1) / d)
        return np.mean(s**2 * (-u < s * noise - s**2 / 2))

    best, rate = optimal_walk(d, False)
    s = best * np.sqrt((z**2).sum(axis=1) / d)
    assert np.mean(-u < s * noise - s**2 / 2) == pytest.approx(rate, abs=0.01)
    assert all(distance(best * factor) < 1.03 * distance(best) for factor in (0.5, 0.7, 1.4, 2.0))
    assert distance(best * 2) < 0.9 * distance(best), "the comparison could not tell"


@pytest.mark.parametrize("target", [0.234, 0.44])
def test_adaptation_finds_its_target(target):
    rng = np.random.default_rng(1)
    step = 30.0
    for t in range(1, 3001):
        step = adapted(step, bool(rng.random() < np.exp(-step)), target, t)
    assert np.exp(-step) == pytest.approx(target, abs=0.03)
