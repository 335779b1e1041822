import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_dp.privacy.accounting import gaussian

mp.mp.dps = 60


def exact_log_delta(mu, epsilon):
    mu, epsilon = mp.mpf(float(mu)), mp.mpf(float(epsilon))
    return mp.log(mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("mu", [1e-4, 1e-2, 0.3, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-60, 1e-12, 1e-5, 0.1])
def test_epsilon_is_the_exact_one_rounded_up(mu, delta):
    epsilon = float(gaussian.epsilon(mu, delta))
    if epsilon == 0:
        assert exact_log_delta(mu, 1e-12) <= mp.log(delta)
        return
    assert exact_log_delta(mu, epsilon) <= mp.log(delta)
    assert exact_log_delta(mu, epsilon * (1 - 1e-9)) > mp.log(delta)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-5, 0.01])
def test_mu_is_the_exact_one_rounded_down(epsilon, delta):
    mu = float(gaussian.mu(epsilon, delta))
    assert exact_log_delta(mu, epsilon) <= mp.log(delta)
    assert exact_log_delta(mu * (1 + 1e-8), epsilon) > mp.log(delta)


@given(st.floats(1e-3, 100), st.floats(-300, -0.1), st.integers(1, 10**8))
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_calibrated_releases_stay_within_budget(epsilon, log10_delta, compositions):
    delta = 10.0**log10_delta
    noise_multiplier = np.sqrt(compositions) / gaussian.mu(epsilon, delta)
    spent = np.sqrt(compositions) / (noise_multiplier * (1 + 1e-9))
    assert gaussian.epsilon(gaussian.mu(epsilon, delta), delta) <= epsilon
    assert gaussian.epsilon(spent, delta) <= epsilon
    assert gaussian.delta(spent, epsilon) <= delta


@given(st.floats(1e-4, 20), st.floats(1.0001, 2), st.floats(1e-12, 0.5))
@settings(max_examples=50, deadline=None)
@pytest.mark.slow
def test_epsilon_grows_with_mu_and_falls_with_delta(mu, ratio, delta):
    assert gaussian.epsilon(mu * ratio, delta) >= gaussian.epsilon(mu, delta)
    assert gaussian.epsilon(mu, delta / ratio) >= gaussian.epsilon(mu, delta)


def test_edges():
    assert gaussian.epsilon(0.0, 1e-5) == 0
    assert gaussian.epsilon(np.inf, 1e-5) == np.inf
    assert gaussian.mu(np.inf, 1e-5) == np.inf
    assert gaussian.delta(0.0, 0.0) == 0
    assert gaussian.delta(1.0, np.inf) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: gaussian.epsilon(-1.0, 1e-5),
        lambda: gaussian.epsilon(np.nan, 1e-5),
        lambda: gaussian.epsilon(1.0, 0.0),
        lambda: gaussian.epsilon(1.0, 1.0),
        lambda: gaussian.epsilon(1.0, np.nan),
        lambda: gaussian.mu(0.0, 1e-5),
        lambda: gaussian.mu(-1.0, 1e-5),
        lambda: gaussian.mu(np.nan, 1e-5),
        lambda: gaussian.delta(1.0, -1e-9),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(ValueError):
        call()
