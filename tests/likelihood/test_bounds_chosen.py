"""What is reckoned that bounds leave, beside what they leave of records, compared as a release does it."""

import math

import numpy as np

from pymc_dp.likelihood import efficiency
from pymc_dp.likelihood.comparisons import SLOPE_GRID, Bounds, Totals, compare, trace_weight

RECORDS, POINTS, SIZE = 4_000, 33, 5
# Of 4,000 records, and of simulated ones, a standard deviation is 1 to 2% of what is left.
NEAR = 0.06


def left(bounds, unequal, rank):
    """What bounds leave of slope and variance of normal scores, by `compare`."""
    rng = np.random.default_rng(3)
    group = rng.normal(size=(POINTS, RECORDS, rank))
    # Predictors at right angles; the first has all coordinates that are left.
    rows = np.zeros((rank, RECORDS, SIZE))
    rows[np.arange(1, rank), :, np.arange(1, rank)] = 1.0
    free = [0, *range(rank, SIZE)]
    rows[0, :, free] = rng.normal(size=(len(free), RECORDS))
    rows *= np.exp(rng.normal(-(unequal**2), unequal, (RECORDS, 1)))
    found = []
    for one in (bounds, Bounds(50.0, 500.0)):
        totals = Totals(SIZE)
        compare(group[0], group, None, rows, one, totals)
        area = one.slope / SLOPE_GRID
        found.append((np.trace(totals.slope) * area, totals.trace[0] * area / trace_weight(SIZE)))
    return np.array(found[0]) / found[1][0]


def test_bounds_leave_what_is_reckoned():
    """Of normal scores as unequal as that: within 6%. A control: of scores that are alike they leave more."""
    for rank, clip, most in ((1, 1.2, 3.0), (2, 0.4, 1.5), (5, 1.2, 2.0)):
        said = efficiency.efficiency(clip, SIZE, rank, most)
        bounds = Bounds(clip * math.sqrt(SIZE), said.bound)
        found = left(bounds, efficiency._UNEQUAL, rank)
        np.testing.assert_allclose((said.slope, said.variance), found, rtol=NEAR)
        assert left(bounds, 0.0, rank)[0] > (1 + NEAR) * said.slope
