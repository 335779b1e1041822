"""The study example: what it prepares, and that its model fits the same ledger. It is not sampled here."""

import importlib.util
from pathlib import Path

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
def test_scales_are_good_and_the_model_fits_what_is_left(study, tmp_path):
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
    assert rows.notna().all().all() and (rows["income"].abs() < 10).all()
    model = study.build({name: rows[name].to_numpy() for name in rows}, 3)
    with model:
        step = dp.DPPenaltyMH(
            epsilon=study.FOR_MODEL, delta=study.DELTA, control_variates=True, chains=2, ledger=ledger
        )
    assert ledger.fits(step.cost(500).events)
    assert not ledger.fits(step.cost(500).events.repeated(2))  # control
