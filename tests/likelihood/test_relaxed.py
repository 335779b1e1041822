"""Beliefs that are computed from themselves: they settle where the computation leaves them as they are."""

import numpy as np
import pytest

from pymc_dp.likelihood.mixtures import Relaxed

SETTLED, START = np.array([1.0, -2.0, 0.5]), np.array([2.0, 0.0, -0.5])


def computed(mean, covariance, slope):
    """A posterior on the other side of where beliefs settle, and `slope` times as far away as they are."""
    deviations = 0.1 * (1 - 0.3 * slope * (np.sqrt(np.diag(covariance)) / 0.1 - 1))
    return SETTLED - slope * (mean - SETTLED), np.diag(deviations**2)


@pytest.mark.parametrize(
    "slope, steps",
    [
        (1.5, 6),  # beliefs would alternate, ever farther apart
        (0.9, 5),  # for a long time
        (0.1, 5),
        (-0.5, 20),  # slowly, from one side: steps are never longer than what is computed
        (0.0, 2),
    ],
)
def test_beliefs_settle(slope, steps):
    beliefs = Relaxed(START, 0.02 * np.eye(3))
    apart = [beliefs.step(*computed(beliefs.mean, beliefs.covariance, slope)) for _ in range(steps)]
    assert apart[-1] < 0.01 < apart[0]
    np.testing.assert_allclose(beliefs.mean, SETTLED, atol=0.002)
    np.testing.assert_allclose(np.diag(beliefs.covariance), 0.01, rtol=0.01)


def test_without_relaxation_they_would_alternate():
    """The control: what is computed is what is believed next."""
    mean, covariance = START, 0.02 * np.eye(3)
    for _ in range(5):
        mean, covariance = computed(mean, covariance, 1.5)
    assert np.abs(mean - SETTLED).max() > 10
