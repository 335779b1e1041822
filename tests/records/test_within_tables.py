"""No position that a record has makes compiled code read beyond a table."""

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_dp.records.model import RecordModel

N = 40
CODES = np.random.default_rng(0).integers(0, 3, N)


def rows(codes):
    with pm.Model() as model:
        level = pm.Normal("level", shape=3)
        table = pytensor.shared(np.array([0.5, -0.5, 2.0]), shape=(3,))
        pm.Normal("y", level[codes] + table[codes], 1, observed=np.linspace(-1, 1, N))
    return RecordModel(model).full_batch.rows(np.array([0.1, -0.2, 0.3]))


@pytest.mark.parametrize(("code", "entry"), [(3, 2), (2**40, 2), (-1, 2), (-3, 0), (-4, 0), (-(2**60), 0)])
def test_a_position_beyond_a_table_is_its_end(code, entry):
    """Compiled, 2**40 ended the process, and 3 read whatever lay behind the table."""
    odd, even = CODES.copy(), CODES.copy()
    odd[7], even[7] = code, entry
    np.testing.assert_array_equal(rows(odd), rows(even))
