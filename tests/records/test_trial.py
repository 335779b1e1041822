"""Models whose own outcomes have no derivatives are refused before payment, whatever the records are."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.records.model import RecordModel

N = 203
RNG = np.random.default_rng(5)
SHARES = RNG.beta(2.0, 3.0, N)
SHARES[:20], SHARES[20:50] = 0.0, 1.0


def point_masses(y):
    """Zeros and ones as parts of a mixture: their derivatives by the beta's parameters do not exist."""
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        mean, size = pm.Beta("mean", 2, 2), pm.Gamma("size", 2, 0.1)
        parts = [pm.DiracDelta.dist(0.0), pm.DiracDelta.dist(1.0), pm.Beta.dist(mu=mean, nu=size)]
        pm.Mixture("y", weights, parts, observed=y)
    return model


def hurdle(y):
    with pm.Model() as model:
        pm.HurdleGamma("y", pm.Beta("psi", 1, 1), 2.0, pm.HalfNormal("rate"), observed=y)
    return model


def categories(y):
    with pm.Model() as model:
        pm.Categorical("y", pm.Dirichlet("p", np.ones(3)), observed=y)
    return model


def compositions(y):
    """Probabilities that do not add up to one for made-up records: nothing can be drawn for these."""
    rows = RNG.dirichlet(np.ones(3), N)
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones(4), shape=(3, 4))
        pm.Multinomial("y", 20, pm.math.dot(pm.Data("rows", rows), shares), observed=y)
    return model


def at_edge(y):
    """An initial value at which the density of a twin has no derivative."""
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1, initval=0.0)
        pm.Normal("y", 0.0, pm.math.sqrt(slope**2), observed=y)
    return model


def refusal(model):
    with pytest.raises(dp.errors.ModelRefusedError, match="no finite derivative") as caught:
        RecordModel(model, verify=False).twins.refuse_without_scores()
    return str(caught.value)


@pytest.mark.parametrize("build", [point_masses, at_edge])
def test_outcomes_without_derivatives_are_refused(build):
    assert "initval" in refusal(build(SHARES))


def test_refusal_does_not_depend_on_the_records():
    others = [np.zeros(N), np.where(np.arange(N) % 2, np.inf, -3.0)]
    assert len({refusal(point_masses(y)) for y in [SHARES, *others]}) == 1


@pytest.mark.parametrize(
    "model",
    [
        hurdle(np.where(SHARES < 0.3, 0.0, SHARES)),
        categories(RNG.integers(3, size=N)),
        compositions(RNG.multinomial(20, np.full(4, 0.25), N)),
    ],
    ids=["hurdle", "categories", "compositions"],
)
def test_usual_models_pass(model):
    RecordModel(model, verify=False).twins.refuse_without_scores()


def test_nothing_is_paid_for(tmp_path):
    ledger = dp.Ledger(tmp_path / "ledger.db", epsilon=2.0, delta=1e-5)
    with pytest.raises(dp.errors.ModelRefusedError, match="no finite derivative"):
        dp.release_likelihood(point_masses(SHARES), epsilon=1.0, ledger=ledger)
    assert ledger.remaining() == pytest.approx(2.0)
    assert "no finite derivative" in str(dp.inspect(point_masses(SHARES)).no_release)
