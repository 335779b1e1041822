"""Arrays that are not rows are public only if `public=` says so, unless they are small."""

import ast
import re

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_dp as dp
from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.checks import SMALL
from pymc_dp.records.model import RecordModel

N = 100
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 2)), RNG.gamma(2.0, size=N)
# What the times of the censored may be: a refusal is the same for all.
TIMES = [RNG.gamma(2.0, size=40), np.full(40, 1e300), np.full(40, 5e-324), np.full(40, -np.inf)]


def survival(rate, times):
    return -rate * times


def potential(times):
    rate = pm.HalfNormal("rate")
    pm.Exponential("died", rate, observed=Y)
    pm.Potential("censored", survival(rate, times).sum())


def data(times):
    rate = pm.HalfNormal("rate")
    pm.Exponential("died", rate, observed=Y)
    pm.Potential("censored", survival(rate, pm.Data("times", times)).sum())


def closure(times):
    rate = pm.HalfNormal("rate")
    alive = times
    pm.CustomDist("died", rate, logp=lambda y, r: pt.log(r) - r * y + survival(r, alive).sum(), observed=Y)


def prior(times):
    pm.Exponential("died", pm.HalfNormal("rate", pt.constant(times).mean()), observed=Y)


def deterministic(times):
    rate = pm.HalfNormal("rate")
    pm.Exponential("died", rate, observed=Y)
    pm.Deterministic("mean_survival", pt.exp(survival(rate, times)).mean())


def initial_value(times):
    rate = pm.HalfNormal("rate", initval=pt.constant(times).mean())
    pm.Exponential("died", rate, observed=Y)


STYLES = [potential, data, closure, prior, deterministic, initial_value]


@pytest.mark.parametrize("declare", STYLES, ids=lambda f: f.__name__)
def test_a_part_of_the_rows_is_not_taken_as_public(declare):
    said = []
    for times in TIMES:
        with pm.Model() as model:
            declare(times)
        with pytest.raises(ModelRefusedError, match=r"with 40 entries, .* 100 records") as found:
            RecordModel(model)
        said.append(str(found.value))
        assert not dp.inspect(model).accepted
        with model, pytest.raises(ModelRefusedError, match="40 entries"):
            dp.DPPenaltyMH(epsilon=1.0, delta=1e-6, lipschitz=1.0)
    assert len(set(said)) == 1
    for advice in ("public=[", "pm.Censored", "mask a row"):
        assert advice in said[0]


def test_the_same_model_by_rows_is_accepted():
    """What the refusal advises: every row, and a mask."""
    censored = RNG.random(N) < 0.4
    with pm.Model() as by_mask:
        rate = pm.HalfNormal("rate")

        def logp(y, rate, censored):
            return pt.switch(censored, survival(rate, y), pt.log(rate) - rate * y)

        pm.CustomDist("y", rate, censored, logp=logp, observed=Y)
    with pm.Model() as by_bounds:
        upper = pm.Data("upper", np.where(censored, Y, np.inf))
        pm.Censored("y", pm.Exponential.dist(pm.HalfNormal("rate")), lower=None, upper=upper, observed=Y)
    for model in (by_mask, by_bounds):
        assert dp.inspect(model).accepted


@pytest.mark.parametrize("shape", [(SMALL + 1,), (8, 4), (2, 4, 4)], ids=str)
def test_so_many_entries_are_small(shape):
    """Control: one entry less, and the model is taken."""
    small = np.zeros(shape).ravel()[:SMALL]
    for table, accepted in ((np.zeros(shape), False), (small, True)):
        with pm.Model() as model:
            pm.Normal("y", pm.Normal("b") * pm.Data("table", table).sum(), 1, observed=Y)
        assert dp.inspect(model).accepted is accepted
        assert dp.inspect(model, public=["table"]).accepted


# models of every day, with the numbers that are public in them


def spline():
    knots = np.linspace(-3, 3, 40)
    height = pm.Normal("height", shape=40)
    basis = pt.exp(-((pm.Data("x", X[:, 0])[:, None] - knots) ** 2))
    pm.Normal("y", basis @ height, 1, observed=Y)


def adjacency():
    matrix = np.diag(np.ones(8), 1) + np.diag(np.ones(8), -1)
    effect = pm.ICAR("effect", W=matrix)
    pm.Normal("y", effect[RNG.integers(0, 9, N)], 1, observed=Y)


def groups():
    uranium = pm.Data("uranium", np.linspace(-1, 1, 85))
    level = pm.Normal("level", pm.Normal("slope") * uranium, 1, shape=85)
    pm.Normal("y", level[RNG.integers(0, 85, N)], 1, observed=Y)


def prior_means():
    level = pm.Normal("level", np.zeros(50), np.ones(50))
    pm.Normal("y", level[RNG.integers(0, 50, N)], 1, observed=Y)


def hilbert_space():
    gp = pm.gp.HSGP(m=[40], L=[5.0], cov_func=pm.gp.cov.ExpQuad(1, pm.HalfNormal("length")))
    gp._X_center = np.zeros(1)
    phi, root = gp.prior_linearized(pm.Data("x", X[:, :1]))
    pm.Normal("y", phi @ (pm.Normal("b", shape=40) * root), 1, observed=Y)


def covariance():
    chol, _, _ = pm.LKJCholeskyCov("chol", n=9, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0, shape=9))
    b = pm.MvNormal("b", np.zeros(9), chol=chol)
    pm.Normal("y", b[RNG.integers(0, 9, N)], 1, observed=Y)


def grid():
    slope = pm.Normal("slope", shape=2)
    pm.Deterministic("curve", np.linspace(-1, 1, 62).reshape(31, 2) @ slope)
    pm.Normal("y", X @ slope, 1, observed=Y)


@pytest.mark.parametrize(
    "declare",
    [spline, adjacency, groups, prior_means, hilbert_space, covariance, grid],
    ids=lambda f: f.__name__,
)
def test_public_numbers_are_named_as_the_refusal_says(declare):
    with pm.Model() as model:
        declare()
    named: list[str] = []
    while refusals := dp.inspect(model, public=named).refusals:
        (labels,) = re.findall(r"public=(\[[^]]*\])", str(refusals[0]))
        labels = ast.literal_eval(labels)
        assert not set(labels) & set(named)
        named += labels
    kinds = {array.label: array.kind for array in dp.inspect(model, public=named).arrays}
    assert {kinds[label] for label in named} <= {"public, as declared"} and len(named) <= 4
    assert RecordModel(model, public=named).n == N


def test_one_refusal_names_all_arrays():
    """They were refused one after the other: three calls, each with one name more."""
    counts = np.arange(31)
    with pm.Model() as model:
        rate, nu = pm.Normal("rate"), pm.LogNormal("nu")
        logits = (rate * X[:, :1]) * counts - nu * np.log1p(counts)
        pm.Categorical("y", logit_p=logits, observed=np.zeros(N, dtype=int))
    (refusal,) = dp.inspect(model).refusals
    (labels,) = re.findall(r"public=(\[[^]]*\])", str(refusal))
    assert len(ast.literal_eval(labels)) > 1
    assert dp.inspect(model, public=ast.literal_eval(labels)).accepted


def test_an_array_may_be_named_by_itself():
    knots = np.linspace(-3, 3, 40)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("b") * pt.as_tensor(knots).sum(), 1, observed=Y)
    assert dp.inspect(model, public=[knots]).accepted
    with pytest.raises(ModelRefusedError, match=r"public=\['y.array_1'\]"):
        RecordModel(model)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("b") * pt.as_tensor(knots, name="knots").sum(), 1, observed=Y)
    assert dp.inspect(model, public=["knots"]).accepted


def test_an_array_of_groups_that_is_read_in_two_graphs_is_named_once():
    counties, of_row = RNG.normal(size=40), np.arange(N) % 40
    with pm.Model() as model:
        level = pm.Normal("level", pm.Normal("slope") * pm.Data("uranium", counties), 1, shape=40)
        pm.Normal("y", level[of_row], 1, observed=Y)
    with pytest.raises(ModelRefusedError, match=re.escape("public=['uranium'].")):
        RecordModel(model)
    assert RecordModel(model, public=["uranium"]).n == N
