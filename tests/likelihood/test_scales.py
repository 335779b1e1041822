"""What noisy counts of octaves show: nothing where there is nothing, and what is public of look-ups."""

from types import SimpleNamespace

import numpy as np

from pymc_dp.likelihood.mixtures import Normal
from pymc_dp.likelihood.octaves import LOWEST, OCTAVES, Scales
from pymc_dp.likelihood.search import Search

GROUPS, SLOPES, N, NOISE = 60, 5, 2000, 20.0
SIZE = GROUPS + SLOPES
LOOKUP = np.arange(GROUPS)[:, None]


def test_noise_alone_does_not_stand_out():
    """Of 65 coordinates with 81 octaves each: with four standard deviations a third of releases had one.

    In 30 releases .03 are expected; this seed has none.
    """
    random = np.random.default_rng(0)
    for _ in range(30):
        counts = random.normal(0, NOISE, (SIZE, OCTAVES))
        information, touched = Scales(counts, NOISE).sizes([LOOKUP])
        assert not touched.any() and not information.any()
    counts[3, LOWEST] = 10 * NOISE  # control
    _, touched = Scales(counts, NOISE).sizes([LOOKUP])
    assert np.flatnonzero(touched).tolist() == [3]


def test_a_look_up_that_does_not_stand_out_touches_one_coordinate_a_record():
    """Or a metric would take each group for one that all records are in, and clip what shows the others."""
    source = SimpleNamespace(lookups=[LOOKUP], sums=[], size=SIZE, rank=1, touched=1 + SLOPES)
    nothing = Scales(np.zeros((SIZE, OCTAVES)), NOISE)
    measured = SimpleNamespace(source=source, left=1.0, scales=lambda phi, twins, share: nothing)
    search = Search(measured, N, 0.8, Normal(np.eye(SIZE), np.zeros(SIZE)))
    search._point = np.zeros(SIZE)
    search._scale()
    np.testing.assert_allclose(search._touched, [N / GROUPS] * GROUPS + [N] * SLOPES)
    np.testing.assert_allclose(search._touches, 1 + SLOPES)
