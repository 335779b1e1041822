"""The study example: what it prepares, and what its model releases from the same ledger."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pymc_dp as dp

FILE = Path(__file__).parent.parent / "examples" / "study.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("study", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_scales_are_good_and_what_is_left_buys_the_model(study, tmp_path):
    """Errors of the scale: at most a fifth (a clipped tail: 6 to 11 per cent; noise: 2)."""
    study.make_file(tmp_path / "patients.csv")
    table = pd.read_csv(tmp_path / "patients.csv")
    ledger = dp.Ledger(tmp_path / "study.db", epsilon=study.TOTAL, delta=study.DELTA)
    prepare = dp.Prepare(study.declared(), epsilon=study.FOR_COLUMNS, ledger=ledger)
    rows = prepare.fit_transform(table)
    rows["again"] = table["again"]
    errors = study.compare(prepare, table)
    assert errors["relative error of scale"].abs().max() < 0.2
    assert prepare.coords["region"] == ["(other)", "east", "north", "south"]
    assert rows.notna().all().all() and (rows["income"].abs() < 15).all()
    model = study.build({name: rows[name].to_numpy() for name in rows}, 3)
    settings = {"epsilon": study.FOR_MODEL, "delta": study.DELTA, "ledger": ledger}
    released = dp.release_likelihood(model, **settings)
    # Truths of age and smoking; the columns are scaled by what was released of them.
    precision = released.information + np.eye(5)
    mean = np.linalg.solve(precision, released.gradient + released.information @ released.point)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert np.all(np.abs(mean - [-1.0, 0.5, -0.4, 0.6, 0.3])[[1, 3]] < 0.1 + 6 * sd[[1, 3]])
    assert sd.max() < 0.1
    assert all("usable" in said["verdict"] for said in released.facts["verdict"].values())
    with pytest.raises(dp.errors.PrivacyBudgetExceeded):  # it was what was left
        dp.release_likelihood(model, **settings)
