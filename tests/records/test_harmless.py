"""Draws of many records at once, with parameters at the ends of their ranges."""

import itertools

import numpy as np
import pymc as pm
import pytensor
import pytest
from pymc.distributions import continuous

from pymc_dp.records.harmless import RANGES, harmless, missing, present


@pytest.mark.parametrize("kind", [continuous.SkewNormalRV, continuous.RiceRV, continuous.MoyalRV])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scipys_samplers_draw_whatever_is_in_range(kind):
    """They take arrays: record by record a release took ten times as long."""
    ends = [{r.low, r.high, r.safe, max(r.low, 0.0), max(r.low, 5e-324), 1.0} for r in RANGES[kind]]
    parameters = np.array(list(itertools.product(*ends))).T
    for seed in range(20):
        drawn = kind.rng_fn(np.random.default_rng(seed), *parameters, None)
        assert drawn.shape == parameters.shape[1:]
    with pytest.raises(ValueError, match="Domain error"):  # a control: out of range they raise
        kind.rng_fn(np.random.default_rng(0), *[np.array([1.0, np.nan])] * len(parameters), None)


def test_parameters_of_other_shapes_are_compared_as_they_broadcast():
    """A lower end for each record beside a mode and an upper end of all."""
    drawn = pm.Triangular.dist(lower=np.array([0.0, 1.0, 3.0]), c=2.0, upper=4.0)
    _, fit, _ = harmless(drawn.owner.op, drawn.owner.op.dist_params(drawn.owner))
    np.testing.assert_array_equal(fit.eval(), [True, True, False])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32", "bool"])
def test_a_zero_is_a_draw_that_was_made(dtype):
    """Of unsigned numbers it stood for one that was not: a Poisson of such a type had no zeros."""
    made = pytensor.shared(np.array([0, 1], dtype=dtype))
    assert present(made).eval().all()
    assert dtype == "bool" or not present(pytensor.shared(np.full(2, missing(dtype), dtype))).eval().any()
