"""The door for noise: grid, law, and that what leaves is on the grid."""

import math

import numpy as np
import pytest
from scipy import stats

import pymc_dp as dp
from pymc_dp.privacy.mechanisms.randomness import DECIDED, RELEASED, ExactSum, Gaussian, PrivacyRandom
from tests.conftest import logistic_model

FALSE_ALARM = 1e-6


def on_grid(values, grid):
    values = np.asarray(values)
    return grid > 0 and np.all(values / grid == np.round(values / grid))


@pytest.mark.parametrize("std", [1e-9, 0.3, 1.0, 1.999, 2.0, 700.0, 1e12])
@pytest.mark.parametrize("bits", [RELEASED, DECIDED])
def test_the_grid_is_a_power_of_two_and_a_fixed_part_of_the_noise(std, bits):
    grid = Gaussian(std, bits).grid
    assert math.frexp(grid)[0] == 0.5
    assert std / 2 ** (bits + 1) < grid <= std / 2**bits


@pytest.mark.parametrize("bits", [RELEASED, DECIDED])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_what_comes_out_is_on_the_grid_in_the_sums_unit(bits, shape):
    noise, random = Gaussian(0.7, bits), PrivacyRandom(1)
    total = np.arange(1, 1 + int(np.prod(shape))).reshape(shape) / 3 if shape else 1 / 3
    for _ in range(100):
        found = noise.release(ExactSum(total, 0.25), random)
        assert np.shape(found) == shape and on_grid(found, 0.25 * noise.grid)
    assert not on_grid(np.asarray(total) + 0.7 * 0.3, noise.grid)  # control: full precision
    without = Gaussian(0.0)
    assert without.grid == 0 and without.release(ExactSum(1 / 3, 2.0), random) == 2 / 3


def test_its_law():
    """Kolmogorov-Smirnov between grid points, at 1e-6; controls with the noise 5% off fail."""
    noise, random, size = Gaussian(1.5, DECIDED), PrivacyRandom(2), 40_000
    found = noise.release(ExactSum(np.full(size, 10.0)), random)
    z = (found - 10.0) / 1.5
    assert stats.kstest(z, "norm").pvalue > FALSE_ALARM
    for wrong in (0.95, 1.05):
        assert stats.kstest(z / wrong, "norm").pvalue < FALSE_ALARM


def test_rounding_of_what_leaves_adds_little():
    """A variance of w^2 / 12, at most s^2 / 3072."""
    noise = Gaussian(1.0)
    assert noise.grid == 1 / 16 and noise.grid**2 / 12 == pytest.approx(1 / 3072)
    cells = np.round((np.arange(-80_000, 80_001) / 10_000) / noise.grid) * noise.grid
    weights = stats.norm.pdf(np.arange(-80_000, 80_001) / 10_000) / 10_000
    assert cells**2 @ weights == pytest.approx(1 + 1 / 3072, rel=1e-5)


def test_a_record_moves_a_sum_by_twice_the_bound_or_once():
    assert ExactSum.sensitivity("substitute") == 2.0 and ExactSum.sensitivity("add_remove") == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "kwargs"), [(dp.DPHMC, {}), (dp.DPSGHMC, {"sampling_probability": 0.5})], ids=["HMC", "SGHMC"]
)
def test_gradients_that_leave_are_on_the_grid(cls, kwargs, monkeypatch):
    released, right = [], Gaussian.release

    def release(self, total, random):
        released.append((self, right(self, total, random)))
        return released[-1][1]

    monkeypatch.setattr(Gaussian, "release", release)
    with logistic_model():
        step = cls(epsilon=2.0, delta=1e-6, lipschitz=1.0, chains=1, **kwargs)
    step.setup_chain(np.random.default_rng(0), 0, 3)
    point = step.model.initial_point(0)
    for _ in range(3):
        point, _ = step.step(point)
    gradients = [(noise, value) for noise, value in released if np.ndim(value)]
    assert len(gradients) > 10
    assert all(noise.bits == RELEASED and on_grid(value, noise.grid) for noise, value in gradients)
