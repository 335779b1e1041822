"""Arrays of records whose numbers PyMC looks at, while a model or a density is written: they are refused."""

import numpy as np
import pymc as pm
import pytest

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.model import RecordModel

N = 40
ROWS = np.full((N, 3), 0.33333)  # their sums are not one
OTHER = np.where(np.arange(N)[:, None] == 7, [0.5, 0.25, 0.25], 1 / 3)
X = np.linspace(-1, 1, N)


def categories(p):
    """Of guesses beside what a covariate tells."""
    with pm.Model() as model:
        weight, slopes = pm.Beta("w", 1, 1), pm.Normal("b", 0, 1, shape=3)
        told = pm.Categorical.dist(logit_p=X[:, None] * slopes)
        guesses = pm.Categorical.dist(p=p() if callable(p) else p)
        weights = pm.math.stack([weight, 1 - weight])
        pm.Mixture("y", weights, [guesses, told], observed=np.arange(N) % 3)
    return model


def counts(p):
    with pm.Model() as model:
        weight, slopes = pm.Beta("w", 1, 1), pm.Normal("b", 0, 1, shape=3)
        told = pm.Multinomial.dist(n=2, p=pm.math.softmax(X[:, None] * slopes, axis=-1))
        guesses = pm.Multinomial.dist(n=2, p=p() if callable(p) else p)
        weights = pm.math.stack([weight, 1 - weight])
        pm.Mixture("y", weights, [guesses, told], observed=np.tile([1, 1, 0], (N, 1)))
    return model


@pytest.mark.filterwarnings("ignore:`p` parameters sum to")
@pytest.mark.parametrize("make", [categories, counts])
def test_probabilities_that_pymc_may_divide_are_refused(make):
    """With any numbers: one record decides whether all are divided. Not as data, or public ones."""
    for p in (ROWS, OTHER, np.full((N, 3), 1 / 3)):
        with pytest.raises(ModelRefusedError, match="Probabilities of a Categorical or Multinomial"):
            RecordModel(make(p), verify=False)
    for public in (lambda: pm.Data("p", np.full((N, 3), 1 / 3)), np.full(3, 1 / 3)):
        assert RecordModel(make(public), verify=False).n == N


def truncated(upper):
    """PyMC leaves out an infinite bound when the density is derived, which only then has the array."""

    def logp(value, mean, spread):
        law = pm.Truncated.dist(pm.LogNormal.dist(mean, spread, shape=N), lower=0.0, upper=upper)
        return pm.logp(law, value)

    with pm.Model() as model:
        pm.CustomDist("y", pm.Normal("a"), pm.HalfNormal("s"), logp=logp, observed=np.exp(X))
    return model


def test_an_array_that_a_function_of_a_density_brings_along_is_refused():
    """But one that PyMC leaves out as it is infinite everywhere: docs/limits."""
    with pytest.raises(ModelRefusedError, match="is inside of an operation"):
        RecordModel(truncated(np.where(np.arange(N) == 7, 9.0, np.inf)), verify=False)
    assert RecordModel(truncated(9.0), verify=False).n == N
