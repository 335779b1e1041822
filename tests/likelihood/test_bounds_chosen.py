"""What is reckoned that bounds leave, beside what they leave of records, compared as a release does it."""

import math
import warnings

import numpy as np
import pymc as pm

import pymc_dp as dp
from pymc_dp.likelihood import efficiency, search
from pymc_dp.likelihood.comparisons import SLOPE_GRID, VARIANCE_WEIGHT, Bounds, Totals, compare

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
        found.append((np.trace(totals.slope) * area, totals.variances.sum() * area / VARIANCE_WEIGHT))
    return np.array(found[0]) / found[1][0]


def test_bounds_leave_what_is_reckoned():
    """Of normal scores as unequal as that: within 6%. A control: of scores that are alike they leave more."""
    for rank, clip, most in ((1, 1.2, 3.0), (2, 0.4, 1.5), (5, 1.2, 2.0)):
        said = efficiency.efficiencies(clip, SIZE, rank)[efficiency._OF_SLOPES.index(most)]
        bounds = Bounds(clip * math.sqrt(SIZE), said.bound)
        found = left(bounds, efficiency._UNEQUAL, rank)
        np.testing.assert_allclose((said.slope, said.variance), found, rtol=NEAR)
        assert left(bounds, 0.0, rank)[0] > (1 + NEAR) * said.slope


def apart(model, mean, sd):
    """Largest difference of a release without noise, in sds, and the largest of ratios of sds less 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.NotPrivateWarning)
        found = dp.release_likelihood(model, epsilon=math.inf, delta=1e-6, debug_seed=3, fit_test=False)
    covariance = np.linalg.inv(found.information + np.eye(3))
    apart = found.point + covariance @ (found.gradient - found.point) - mean
    return np.abs(apart / sd).max(), np.abs(np.sqrt(np.diag(covariance)) / sd - 1).max()


def test_without_noise_it_is_the_posterior(monkeypatch):
    """Within .15 sd and 3%: 1,024 twins move it by .03. A control: within bounds of a search they are not."""
    rng = np.random.default_rng(3)
    x = rng.standard_t(3, size=(600, 3))
    y = x @ [1.0, 2.0, -1.0] + rng.normal(size=600)
    with pm.Model() as model:
        pm.Normal("y", x @ pm.Normal("beta", 0, 1, shape=3), 1, observed=y)
    covariance = np.linalg.inv(x.T @ x + np.eye(3))
    exact = covariance @ x.T @ y, np.sqrt(np.diag(covariance))
    mean, sd = apart(model, *exact)
    assert mean < 0.15 and sd < 0.03
    usual = efficiency.sharpest_bounds(600, math.inf, 3, 1, 1.0)
    monkeypatch.setattr(search, "wide_bounds", lambda size: usual)
    mean, sd = apart(model, *exact)
    assert mean > 0.3 and sd > 0.03
