"""dp.inspect: how a model is read, and that steps read it in the same way."""

import re

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse
import pytensor.tensor as pt
import pytest
import scipy.sparse

import pymc_dp as dp
from pymc_dp.errors import ModelRefusedError
from pymc_dp.records.model import RecordModel

N = 60
RNG = np.random.default_rng(0)
X, Y, GROUP, INCOME = RNG.normal(size=(N, 3)), RNG.normal(size=N), RNG.integers(0, 7, N), RNG.normal(size=7)


def hierarchy():
    with pm.Model(coords={"person": np.arange(N) + 1000, "group": list("abcdefg")}) as model:
        group = pm.Data("group_of", GROUP, dims="person")
        level = pm.Normal("level", pm.Data("income", INCOME, dims="group"), 1, dims="group")
        mu = pm.Deterministic("mu", level[group] + X @ pm.Normal("b", shape=3))
        pm.Normal("y", mu, 1, observed=Y, dims="person")
    return model


def test_arrays_variables_and_refusals():
    found = dp.inspect(hierarchy())
    assert {a.label: (a.shape, a.kind, a.axis) for a in found.arrays} == {
        "y": ((N,), "private rows", 0),
        "income": ((7,), "taken as public", None),
        "group_of": ((N,), "private rows", 0),
        "y.array_1": ((N, 3), "private rows", 0),
    }
    roles = {v.name: v.role for v in found.variables}
    assert roles == {"level": "sampled", "b": "sampled", "mu": "left out", "y": "likelihood"}
    assert found.accepted and "mu     left out    reads rows: not released" in str(found)
    assert found.withheld_dims == ["person"]
    fine = dp.inspect(hierarchy(), exclude_deterministics=["mu"])
    assert fine.accepted and "mu" in str(fine) and "withheld" in str(fine)
    assert not any(f"{value:.4f}" in str(found) for value in np.concatenate([Y, X.ravel(), INCOME]))


def test_a_step_reports_what_was_taken_as_public():
    step = dp.DPPenaltyMH(
        epsilon=1,
        delta=1e-6,
        lipschitz=1,
        chains=1,
        model=hierarchy(),
    )
    step.plan = step.cost(draws=10, tune=0)
    assert step.facts()["public_arrays"] == [("income", [7], "taken as public")]
    assert step.facts()["left_out_deterministics"] == ["mu"]


def test_public_names_an_array_of_as_many_entries():
    with pm.Model() as model:
        trend = pm.Data("calendar", np.arange(float(N)))
        pm.Deterministic("season", pt.sin(pm.Normal("w") * trend))
        pm.Normal("y", pm.Normal("m"), 1, observed=Y)
    assert [v.role for v in dp.inspect(model).variables if v.name == "season"] == ["left out"]
    found = dp.inspect(model, public=["calendar"])
    assert [v.role for v in found.variables if v.name == "season"] == ["released"]
    assert found.accepted and ("calendar", "public, as declared") in [(a.label, a.kind) for a in found.arrays]
    with pytest.raises(ValueError, match="calender"):
        dp.inspect(model, public=["calender"])
    assert "observed values" in str(dp.inspect(model, public=["y"]))


@pytest.mark.parametrize("shared", [False, True])
def test_sparse_designs(shared):
    """By the non-zero entries of each row: the same rows, gradients and batches as the dense matrix."""
    S = scipy.sparse.random(N, 9, density=0.2, format="csr", random_state=1)
    records = []
    for dense in (False, True):
        with pm.Model() as model:
            b = pm.Normal("b", shape=9)
            design = S.toarray() if dense else pytensor.shared(S, name="S") if shared else S
            mu = design @ b if dense else pytensor.sparse.dot(design, b)
            pm.Normal("y", mu, 1, observed=Y)
        records.append(RecordModel(model))
    theta, some = np.random.default_rng(2).normal(size=9), np.array([4, 7, 4])
    np.testing.assert_allclose(*(r.full_batch.rows(theta) for r in records))
    np.testing.assert_allclose(*(r.ratios(theta, -theta, some) for r in records))
    np.testing.assert_allclose(*(r.gradients(theta, 50.0).total for r in records), atol=1e-4)


def test_the_number_of_records_is_private_where_they_are_added_or_removed():
    def declare(value):
        with pm.Model() as model:
            data = pm.Data("data", Y)
            m = pm.Normal("m") * (data.shape[0] if value else 1.0) + pt.zeros(data.shape[0])
            pm.Normal("y", m, 1, observed=data)
        return model

    assert dp.inspect(declare(False), neighboring_relation="add_remove").accepted
    assert not dp.inspect(declare(True), neighboring_relation="add_remove").accepted
    assert dp.inspect(declare(True)).accepted


def test_the_length_of_a_dimension_of_records_is_not_released():
    """A Deterministic of `model.dim_lengths` says how many records there are, by its value or its shape."""
    with pm.Model(coords={"row": np.arange(103)}) as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1, observed=np.zeros(103), dims="row")
        pm.Deterministic("total", mu * model.dim_lengths["row"])
    (total,) = (
        v for v in dp.inspect(model, neighboring_relation="add_remove").variables if v.name == "total"
    )
    assert total.role == "left out"


def of_ones_own(effect):
    """A density of which nothing says how to draw."""
    with pm.Model() as model:
        person, m = pm.Data("person", np.arange(N) // 2), pm.Normal("m")
        mu = m + pm.Normal("own", 0, 1, shape=N // 2)[person] if effect else m + 0 * person
        pm.CustomDist("y", mu, logp=lambda y, mu: -0.5 * (y - mu) ** 2, observed=Y)
    return model


def test_what_only_a_release_refuses_is_said():
    found = dp.inspect(of_ones_own(effect=False), privacy_unit="person")
    assert found.accepted and not found.widths
    with pytest.raises(ModelRefusedError) as refused:
        dp.release_likelihood(of_ones_own(effect=False), epsilon=1, delta=1e-6, privacy_unit="person")
    assert str(found.no_release) == str(refused.value) and str(refused.value) in str(found)
    assert dp.inspect(hierarchy()).no_release is None


def test_with_effects_of_persons_there_is_no_step_that_takes_it():
    found = dp.inspect(of_ones_own(effect=True), privacy_unit="person")
    with pytest.raises(ModelRefusedError) as refused:
        dp.release_likelihood(of_ones_own(effect=True), epsilon=1, delta=1e-6, privacy_unit="person")
    assert not found.accepted and [str(one) for one in found.refusals] == [str(refused.value)]


@pytest.mark.parametrize(
    ("observe", "words"),
    [
        (lambda m: pm.Normal("y", 0 * m, 1, observed=Y), "No record's likelihood depends on a parameter"),
        (lambda m: pm.Normal("y", 0, 1, observed=Y), "No record's likelihood depends on a parameter"),
        (
            lambda m: pm.CustomDist("y", m, logp=lambda y, m: -0.5 * (y - m) ** 2, observed=Y),
            r"a density, and nothing that draws it",
        ),
    ],
)
def test_what_would_be_paid_for_nothing_is_refused(observe, words):
    """A likelihood without parameters was released, and inspected with an error of arithmetic."""
    with pm.Model() as model:
        observe(pm.Normal("m"))
    assert re.search(words, str(dp.inspect(model).no_release))
    with pytest.raises(ModelRefusedError, match=words):
        dp.release_likelihood(model, epsilon=1, delta=1e-6)
