"""Proposals with parts and with a memory leave the exact posterior invariant.

As in `test_invariance`.
The directions of a guided walk go on from chain to chain, as independent of the next start as uniform ones.
"""

import numpy as np
import pymc as pm
import pytest

from pymc_dp.proposals import GuidedWalk, OneAtATime
from tests.statistical import chains
from tests.statistical.chains import FALSE_ALARM
from tests.statistical.test_invariance import TARGETS, p_value

pytestmark = pytest.mark.filterwarnings("ignore::pymc_dp.errors.NotPrivateWarning")  # debug_seed


def two_scales():
    """A skewed and a symmetric coordinate, of scales 1 and .1, with a gamma prior on the log scale."""
    y, skewed = np.random.default_rng(5).exponential(size=3), chains.of_rate()
    with pm.Model() as model:
        pm.Exponential("y", pm.Gamma("rate", 1.0, 1.0), observed=y)
        pm.Normal("z", pm.Normal("m", 0.0, 0.1), 1.0, observed=np.zeros(3))

    def draws(size, rng):
        rate = rng.gamma(1.0 + y.size, 1 / (1.0 + y.sum()), size=size)
        return np.column_stack([np.log(rate), rng.normal(0, (100 + 3) ** -0.5, size)])

    def rows(theta):
        return skewed.rows(theta[:1]) - 0.5 * theta[1] ** 2

    return chains.Target(model, draws, rows, lambda x: skewed.log_prior(x[:1]) - 50 * x[1] ** 2, 0.8)


CASES = [
    (TARGETS["banana"], GuidedWalk()),
    (two_scales, GuidedWalk([1.5, 0.15], scan="systematic")),
    (TARGETS["correlated"], OneAtATime(2.0, scan="systematic")),
]


def test_records_in_numpy_are_those_of_the_model():
    assert chains.agree(two_scales())


@pytest.mark.slow
@pytest.mark.parametrize(("target", "proposal"), CASES, ids=["banana", "two scales", "correlated"])
def test_invariance(target, proposal):
    assert p_value(target(), proposal) > FALSE_ALARM


class AlwaysTurned(GuidedWalk):
    """Control: the direction is turned after every move."""

    def decided(self, accepted):
        super().decided(False)


@pytest.mark.slow
def test_control_fails():
    assert p_value(TARGETS["skewed"](), AlwaysTurned()) < FALSE_ALARM
