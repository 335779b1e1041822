"""A ledger is for one privacy unit: rows, or what the ids are of. Nothing is read for another one."""

import numpy as np
import pymc as pm
import pytest

import pymc_dp as dp
from pymc_dp.privacy import Ledger
from pymc_dp.records import model as model_module
from pymc_dp.records import units as units_module
from pymc_dp.records.units import unit_of
from pymc_dp.remote.owner import DataOwner
from pymc_dp.remote.shard import Recipe
from tests.conftest import logistic_model

IDS = np.repeat(np.arange(30), 2)
# What calls give as privacy_unit, and the unit that is.
UNITS = {"row": None, "id": IDS, "patient": {"patient": IDS}, "household": {"household": IDS}}
OTHERS = [(ledger, call) for ledger in UNITS for call in UNITS if ledger != call]


def opened(path, unit):
    return Ledger(path / f"{unit}.db", epsilon=20.0, delta=1e-6, privacy_unit=unit)


@pytest.fixture
def unread(monkeypatch):
    """Nothing may be read: no id, no row, no column."""

    def fail(*args, **kwargs):
        pytest.fail("something was read")

    monkeypatch.setattr(units_module, "ids_of", fail)
    monkeypatch.setattr(model_module.RecordModel, "__init__", fail)
    monkeypatch.setattr("pymc_dp.prepare.transformer.columns_of", fail)
    monkeypatch.setattr("pymc_dp.evaluation.check.fitted", fail)
    monkeypatch.setattr("pymc_dp.evaluation.compare.fitted", fail)


@pytest.mark.parametrize(("unit", "other"), OTHERS, ids=str)
def test_a_call_for_another_unit_is_refused_before_anything_is_read(tmp_path, unread, unit, other):
    ledger, given = opened(tmp_path, unit), UNITS[other]
    text = f"for the privacy unit '{unit}', and this call for '{other}'"
    with pytest.raises(ValueError, match=text), logistic_model():
        dp.DPPenaltyMH(epsilon=1.0, delta=1e-6, lipschitz=1.0, ledger=ledger, privacy_unit=given)
    shards = dp.Shards(lambda part: None, [1, 2], privacy_unit=given)
    with pytest.raises(ValueError, match=text), logistic_model():
        dp.DPPenaltyMH(epsilon=1.0, delta=1e-6, lipschitz=1.0, ledger=ledger, data=shards)
    with pytest.raises(ValueError, match=text):
        dp.Prepare({"x": "numeric"}, epsilon=0.2, ledger=ledger).fit({"x": IDS}, privacy_unit=given)
    with pytest.raises(ValueError, match=text):
        dp.check(None, pm.Model(), epsilon=1.0, ledger=ledger, var_name=None, privacy_unit=given)
    with pytest.raises(ValueError, match=text):
        dp.compare({"a": (None, None)}, epsilon=1.0, ledger=ledger, privacy_unit=given)
    assert ledger.entries() == ()


@pytest.mark.parametrize("unit", UNITS)
def test_a_call_for_its_unit_is_charged(tmp_path, unit, quiet):
    ledger = opened(tmp_path, unit)
    with logistic_model():
        step = dp.DPPenaltyMH(
            epsilon=1.0, delta=1e-6, lipschitz=1.0, chains=1, ledger=ledger, privacy_unit=UNITS[unit]
        )
    assert step.records.n == (60 if unit == "row" else 30)
    dp.sample(step, draws=2, tune=0, **quiet)
    dp.Prepare({"x": "numeric"}, epsilon=0.2, ledger=ledger)
    assert [entry.status for entry in Ledger(ledger.path).entries()] == ["confirmed"]


@pytest.mark.parametrize("unit", ["id", "patient", "household"])
def test_an_owners_ledger_of_another_unit_is_refused(tmp_path, unit):
    opened(tmp_path, unit)
    terms = dp.Owner("a", lambda part: None, None, 1.0, 1e-6, lipschitz=1.0).terms("substitute")
    owner = DataOwner(Recipe(lambda part: None, None), terms, str(tmp_path / f"{unit}.db"))
    asked = '["begin", {"chains": 1, "tune": 0, "draws": 10}]'
    assert owner.answer(asked) == '{"refused": "unit"}'
    named = dp.Owner("a", None, None, 1.0, 1e-6, lipschitz=1.0, privacy_unit={unit: len}).terms("substitute")
    assert named.unit == unit


def test_the_unit_is_in_the_file_and_said(tmp_path):
    opened(tmp_path, "patient")
    again = Ledger(tmp_path / "patient.db")
    assert again.privacy_unit == "patient" and "privacy unit: patient" in str(again)
    assert Ledger(tmp_path / "rows.db", 1.0, 1e-6).privacy_unit == "row"
    for wrong in ("row", "id", "patients"):
        with pytest.raises(dp.errors.LedgerError, match=f"privacy_unit = 'patient', not '{wrong}'"):
            Ledger(tmp_path / "patient.db", privacy_unit=wrong)


@pytest.mark.parametrize(
    "wrong", [{}, {"row": IDS}, {"a": IDS, "b": IDS}, {1: IDS}, {"patient": None}], ids=lambda w: str(list(w))
)
def test_a_name_without_ids_is_refused(wrong):
    with pytest.raises(ValueError, match="one name with its ids"):
        unit_of(wrong)
