"""Epsilon along a run of releases on Poisson batches: computed at some iterations."""

import numpy as np
import pytest
from dp_accounting import dp_event

from pymc_dp import privacy


def on_batches(noise_multiplier):
    return privacy.EventSet(
        dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(noise_multiplier)), "add_remove"
    )


def test_sampled_gaussians_are_followed():
    """At every iteration above its part of the run, but for the two bounds' own looseness, and near it."""
    steps = [on_batches(1 + 0.01 * t).repeated(10) for t in range(60)]
    once = [dp_event.GaussianDpEvent(300.0)]
    running = privacy.running_epsilon(steps, 60, 1e-5, once=once, neighboring_relation="add_remove")
    assert running.shape == (60,) and np.all(np.diff(running) >= 0)
    for t in (1, 5, 33, 60):
        part = privacy.compose(privacy.EventSet([*steps[:t], *once], "add_remove")).epsilon(1e-5)
        assert part * (1 - 1e-3) <= running[t - 1] <= 1.2 * part
    assert running[-1] == part


@pytest.mark.parametrize("delta", [1e-5, 1e-13])
def test_decisions_in_between_and_a_small_delta(delta):
    """Each of the compositions is an upper bound."""
    decision = privacy.BoundedRangeDecisionDpEvent(0.01)
    step = on_batches(2.0) if delta < 1e-9 else privacy.EventSet([on_batches(2.0), decision], "add_remove")
    running = privacy.running_epsilon(step, 60, delta)
    assert np.all(np.isfinite(running)) and np.all(np.diff(running) >= 0)
    assert running[4] < 0.95 * running[-1], "control: not only the total"
    for t in (1, 10, 60):
        assert running[t - 1] >= privacy.compose(step.repeated(t)).epsilon(delta) * (1 - 1e-3)
