"""Everyday models are read as people first write them, and have the derivatives that a release needs."""

import numpy as np
import pymc as pm
import pytensor
import pytest

import pymc_dp as dp
from pymc_dp.records import other_records
from pymc_dp.records.model import RecordModel
from tests.records.everyday import EVERYDAY, POSITIVE, PUBLIC, YES

# Whose first derivatives exist and whose second ones do not, or that once crashed.
WHOLE = ("von_mises", "hurdle_negative_binomial", "gaussian_process_on_a_public_box", "ordinal_regression")


def declared(name):
    with pm.Model() as model:
        EVERYDAY[name]()
    return model


@pytest.mark.parametrize("name", EVERYDAY)
def test_it_is_read(name):
    records = RecordModel(declared(name), verify=False, public=PUBLIC.get(name, ()))
    roles = {v.role for v in records.reading.variables}
    assert roles <= {"sampled", "likelihood", "released", "left out", "Potential"}
    assert {"sampled", "likelihood"} <= roles
    _, rows = other_records.symbolic_rows(records._terms, records._roots, records.n_rows)
    (slope,) = pytensor.grad(rows.sum(), [records._theta])
    assert slope.type.ndim == 1


@pytest.mark.parametrize("name", WHOLE)
def test_what_inspect_says_a_step_finds(name):
    found = dp.inspect(declared(name))
    assert found.accepted and found.no_release is None
    assert RecordModel(declared(name)).released_variables == [
        v.name for v in found.variables if v.role in ("sampled", "released")
    ]


def test_records_may_stand_on_another_axis_of_a_term():
    """PyMC puts an axis before them where a density of numbers is given a table."""
    records = RecordModel(declared("survival_by_time_and_event"))
    theta = np.array([0.3, -0.2])
    shape, scale = np.exp(theta)
    hazard = np.log(shape / scale) + (shape - 1) * np.log(POSITIVE / scale)
    expected = YES * hazard - (POSITIVE / scale) ** shape
    np.testing.assert_allclose(records.full_batch.rows(theta), expected)
