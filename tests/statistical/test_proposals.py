"""Proposals with parts and with a memory leave the exact posterior invariant.

As in `test_invariance`: 2,000 chains of 50 iterations from exact draws; false-alarm rate 1e-6 a comparison.
The directions of a guided walk go on from chain to chain, as independent of the next start as uniform ones.
"""

import numpy as np
import pymc as pm
import pytest

from pymc_dp.proposals import Blocks, GuidedWalk
from tests.statistical.test_invariance import FALSE_ALARM, banana, correlated, p_values, skewed


def two_scales():
    """A skewed and a symmetric coordinate, of scales 1 and .1, with a gamma prior on the log scale."""
    y = np.random.default_rng(5).exponential(size=3)
    with pm.Model() as model:
        pm.Exponential("y", pm.Gamma("rate", 1.0, 1.0), observed=y)
        pm.Normal("z", pm.Normal("m", 0.0, 0.1), 1.0, observed=np.zeros(3))

    def draws(size, rng):
        rate = rng.gamma(1.0 + y.size, 1 / (1.0 + y.sum()), size=size)
        return np.column_stack([np.log(rate), rng.normal(0, (100 + 3) ** -0.5, size)])

    return model, draws, 0.8, {}


TARGETS = [
    (banana, GuidedWalk()),
    (two_scales, GuidedWalk([1.5, 0.15], scan="systematic")),
    (correlated, Blocks([[0, 2], [1], [3, 4]], scale=2.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "proposal"), TARGETS, ids=lambda x: getattr(x, "__name__", type(x).__name__)
)
def test_invariance(target, proposal):
    assert p_values(target(), proposal, seed=2) > FALSE_ALARM


class AlwaysTurned(GuidedWalk):
    """Control: the direction is turned after every move."""

    def decided(self, move, accepted, tune):
        super().decided(move, False, tune)


@pytest.mark.slow
def test_control_fails():
    assert p_values(skewed(), AlwaysTurned(), seed=2) < FALSE_ALARM
