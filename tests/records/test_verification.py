"""The second line after row typing: made-up records, of which one moves."""

import numpy as np
import pymc as pm
import pytest

from pymc_dp.errors import PrivacyError
from pymc_dp.records import verification
from pymc_dp.records.model import RecordModel


def of_rows(records, mode):
    """Sums of a record's own numbers."""
    return lambda *given: np.add.reduce([np.asarray(v, float).reshape(len(v), -1).sum(1) for v in given[1:]])


def of_the_row_before(records, mode):
    """As if a rule had taken a shift for each record's own."""
    return lambda *given: np.roll(of_rows(records, mode)(*given), 1)


@pytest.mark.parametrize("values", [np.arange(90.0), np.arange(90) % 2], ids=["real", "whole"])
def test_the_second_line_moves_made_up_records(values, monkeypatch):
    """It notices a row that moves with another record, and reads none of the data."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("b") * values, 1, observed=np.zeros(90))
    records = RecordModel(model, verify=False)
    monkeypatch.setattr(type(records), "data_of", lambda *_: pytest.fail("a row was read"))
    verification.separable(records)
    monkeypatch.setattr(verification, "_by_position", lambda *_: None)
    monkeypatch.setattr(verification, "compiled_rows", of_rows)
    verification.separable(records)  # control
    monkeypatch.setattr(verification, "compiled_rows", of_the_row_before)
    with pytest.raises(PrivacyError, match="moved another's row"):
        verification.separable(records)
