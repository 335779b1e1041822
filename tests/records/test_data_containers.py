"""Models whose observed values and covariates are `pm.Data`, of which no type says how long they are."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from benchmarks.families.models import FAMILIES
from benchmarks.families.others import OTHERS
from pymc_dp.records import draws
from pymc_dp.records.model import RecordModel

N = 40
ALL = FAMILIES | OTHERS


def is_drawn(model):
    """Whether outcomes of every observed variable are drawn record by record, from the graph alone."""
    records = RecordModel(model, verify=False)
    for rv in records.reading.opaque.observed.values():
        draw = draws.draw_of(records.reading, rv, {})
        assert draw.outcome.type.dtype == rv.type.dtype
        assert len(draw.generators) > 0


def mixtures():
    share = pm.Beta("share", 1, 1)
    weights = pm.math.stack([share, 1 - share])
    return {
        "stacked weights": lambda y: pm.NormalMixture(
            "y", w=weights, mu=pm.Normal("mu", shape=2), sigma=pm.HalfNormal("sigma"), observed=y
        ),
        "weights of a Dirichlet": lambda y: pm.NormalMixture(
            "y", w=pm.Dirichlet("w", np.ones(2)), mu=[-1.0, 1.0], sigma=[1.0, 2.0], observed=y
        ),
        "Poisson": lambda y: pm.Mixture(
            "y", weights, pm.Poisson.dist(pm.Gamma("rate", 2, 1, shape=2), shape=(2,)), observed=y
        ),
        "two Poissons": lambda y: pm.Mixture(
            "y", weights, [pm.Poisson.dist(pm.Gamma("rate", 2, 1)), pm.Poisson.dist(3.0)], observed=y
        ),
    }


@pytest.mark.parametrize("name", ["stacked weights", "weights of a Dirichlet", "Poisson", "two Poissons"])
def test_mixtures_are_drawn(name):
    """Their weights are as many as records, by a size that PyMC computes."""
    with pm.Model() as model:
        mixtures()[name](pm.Data("data", np.zeros(N, dtype="int64" if "Poisson" in name else "float64")))
    is_drawn(model)


def test_what_records_share_is_not_drawn():
    """One draw for all of them, beside data of some other length."""
    with pm.Model() as model:
        other = pm.Data("other", np.zeros(7))

        def shifted(mu, other, size):
            return pm.Normal.dist(mu, 1, size=size) + pm.Normal.dist(0, 1, size=other.shape).sum()

        pm.CustomDist("y", pm.Normal("mu"), other, dist=shifted, observed=pm.Data("data", np.zeros(N)))
    with pytest.raises((draws.NotGenerativeError, dp.errors.ModelRefusedError)):
        is_drawn(model)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_family_is_drawn(name):
    """Those of the benchmarks, with covariates and observed values as `pm.Data`."""
    define, covariates = ALL[name]
    x = covariates(np.random.default_rng(0), N)
    with pm.Model() as simulator:
        define(x, None)
    with pm.Model() as model:
        define(pm.Data("x", x), pm.Data("data", np.zeros(N, dtype=simulator["y"].type.dtype)))
    is_drawn(model)
