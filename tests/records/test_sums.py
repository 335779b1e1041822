"""No record moves a sum by more than the stated sensitivity, whatever it holds."""

import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from pymc_dp.records.model import RecordModel
from pymc_dp.records.sums import GRID, guarded
from tests.conftest import NUMBA

N = 30
# 1e-290 is that of a move that underflows; the others, but one, are the least and the largest of a user's.
BOUNDS = [1e-290, 1e-100, 1e-3, 1e100]
POISON = [0.0, 1.0, -7.0, 1e300, -1e300, np.inf, -np.inf, np.nan]


def linear(x, y):
    b, s = pm.Normal("b", shape=2), pm.HalfNormal("s")
    pm.Normal("y", x @ b, s, observed=y)


def student(x, y):
    pm.StudentT("y", nu=3, mu=x @ pm.Normal("b", shape=2), sigma=1, observed=y)


def poisson(x, y):
    pm.Poisson("y", pm.math.exp(x @ pm.Normal("b", shape=2)), observed=np.abs(np.round(y)))


def logistic(x, y):
    pm.Bernoulli("y", logit_p=x @ pm.Normal("b", shape=2), observed=(y > 0).astype(int))


def scale(x, y):
    pm.Normal("y", 0, pm.math.exp(x @ pm.Normal("b", shape=2)) + x[:, 0], observed=y)


def model_of(declare, x, y):
    with pm.Model() as model:
        data = pm.Data("x", x)
        declare(data, y)
    return model


@pytest.mark.parametrize("mode", [{}, NUMBA], ids=["py", "numba"])
@pytest.mark.parametrize("declare", [linear, student, poisson, logistic, scale], ids=lambda f: f.__name__)
def test_poison_moves_the_sum_by_at_most_the_sensitivity(declare, mode):
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(N, 2)), rng.normal(size=N)
    model = model_of(declare, x, y)
    records = RecordModel(model, compile_kwargs=mode)
    full = records.full_batch
    here, there = rng.normal(size=records.d), rng.normal(size=records.d)
    seen = {bound: [] for bound in BOUNDS}
    for value in POISON:
        changed = x.copy()
        changed[11] = value
        model["x"].set_value(changed)  # behind the step's back: the compiled function reads it
        old, new = full.rows(here), full.rows(there)
        for bound, totals in seen.items():
            forth, back = full(there, old, bound), full(here, new, bound)
            assert forth.total == -back.total, "clipping must be odd"
            assert forth.total == np.round(forth.total) and abs(forth.total) <= N * GRID
            totals.append(forth.total)
    for totals in seen.values():
        assert max(totals) - min(totals) <= 2 * GRID
    least = min(seen[1e-3])
    assert max(seen[1e-3]) > least, "the poison did not reach the sum: this test would test nothing"


def test_an_unclipped_sum_would_fail_this():
    """Control: the same poison moves the raw sum of ratios without bound."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(N, 2)), rng.normal(size=N)
    model = model_of(linear, x, y)
    records = RecordModel(model)
    here, there = rng.normal(size=records.d), rng.normal(size=records.d)
    sums = []
    for value in (0.0, 1e9):
        changed = x.copy()
        changed[11] = value
        model["x"].set_value(changed)
        sums.append((records.full_batch.rows(there) - records.full_batch.rows(here)).sum() / 1e-3 * GRID)
    assert abs(sums[1] - sums[0]) > 2 * GRID


@pytest.mark.slow
@pytest.mark.parametrize("mode", [{}, NUMBA], ids=["py", "numba"])
def test_the_sum_is_exact(mode):
    """Equal to the integer sum in any order, clipped ratios and their number included."""
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(500, 2)), rng.normal(size=500)
    here, there = rng.normal(size=3), rng.normal(size=3)
    totals = []
    for order in (np.arange(500), rng.permutation(500)):
        with pm.Model() as model:
            linear(x[order], y[order])
        full = RecordModel(model, compile_kwargs=mode).full_batch
        ratio = full.rows(there) - full.rows(here)
        result = full(there, full.rows(here), 0.7)
        assert result.total == np.round(np.clip(ratio / 0.7, -1, 1) * GRID).sum()
        assert result.clipped == np.count_nonzero(np.abs(ratio) > 0.7) > 0
        totals.append(result.total)
    assert totals[0] == totals[1]


def test_not_a_number_counts_as_clipped_and_adds_nothing():
    x, y = np.ones((N, 2)), np.zeros(N)
    model = model_of(linear, x, y)
    records = RecordModel(model)
    changed = x.copy()
    changed[3] = np.nan
    model["x"].set_value(changed)
    theta = np.array([0.1, 0.2, 0.3])
    result = records.full_batch(theta, records.full_batch.rows(theta), 1.0)
    assert (result.total, result.clipped) == (0.0, 1.0)


def test_too_many_records():
    from pymc_dp.records.sums import FullBatch

    with pytest.raises(ValueError, match=r"2\*\*33"):
        FullBatch(SimpleNamespace(n=2**33 + 1))


def test_no_warning_of_a_private_function_comes_out():
    """Whatever filters there are, and those are as before."""

    def speaks(value):
        warnings.warn(f"row {value}", UserWarning, stacklevel=2)
        return np.log(value)

    for action in ("error", "always"):
        with warnings.catch_warnings(record=action == "always") as told:
            warnings.simplefilter(action)
            kept, filters = warnings.filters, list(warnings.filters)
            assert np.isnan(guarded(speaks, np.array(-1.0)))
            assert not told
            assert warnings.filters is kept and list(kept) == filters
            with pytest.raises(UserWarning) if action == "error" else nullcontext():  # control
                speaks(np.array(1.0))
            assert action == "error" or len(told) == 1
