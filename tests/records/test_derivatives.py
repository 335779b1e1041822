"""Per-record gradients and Hessians against finite differences of the rows."""

import numpy as np
import pymc as pm
import pytest

from pymc_dp.errors import ModelRefusedError
from pymc_dp.records import derivatives
from pymc_dp.records.model import RecordModel
from tests.records.families import families

QUICK = ("logit", "columns", "negbin")
SLOW = ("hier", "softmax", "mvn", "mixture", "zip_", "studentt", "two_obs", "gamma")


def collected(records, theta, hessians=True):
    """Derivatives by theta, by the chain rule from those in likelihood coordinates."""
    phi = records.coordinates
    parts = list(records.derivatives(phi(theta), hessians))
    covered = np.concatenate([np.arange(records.n)[p.units] for p in parts])
    assert np.array_equal(covered, np.arange(records.n)), "each unit once"
    gradient, jacobian = np.concatenate([p.gradient for p in parts]), phi.jacobian(theta)
    if not hessians:
        return gradient @ jacobian, None
    h = 1e-5 * np.eye(records.d)
    bent = np.stack([(phi.jacobian(theta + e) - phi.jacobian(theta - e)) / 2e-5 for e in h], axis=2)
    hessian = jacobian.T @ np.concatenate([p.hessian for p in parts]) @ jacobian
    return gradient @ jacobian, hessian + np.einsum("np,pij->nij", gradient, bent)


def numerical(records, theta, h=1e-4):
    rows = records.full_batch.rows
    basis = h * np.eye(records.d)

    def slope(at, e):
        return (rows(at + e) - rows(at - e)) / (2 * h)

    gradient = np.stack([slope(theta, e) for e in basis], axis=1)
    second = [[(slope(theta + f, e) - slope(theta - f, e)) / (2 * h) for f in basis] for e in basis]
    return gradient, np.moveaxis(np.array(second), 2, 0)


def check(model, privacy_unit=None, seed=0):
    records = RecordModel(model, privacy_unit=privacy_unit)
    theta = records._start + 0.3 * np.random.default_rng(seed).standard_normal(records.d)
    gradient, hessian = collected(records, theta)
    expected = numerical(records, theta)
    np.testing.assert_allclose(gradient, expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(hessian, expected[1], rtol=1e-4, atol=2e-5)
    assert np.any(np.abs(gradient) > 1e-2), "the test sees something"
    return records, theta, gradient


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
@pytest.mark.slow
def test_against_finite_differences(name, monkeypatch):
    monkeypatch.setattr(derivatives, "_ROWS", 16)  # several chunks
    with pm.Model() as model:
        families()[name]()
    check(model)


@pytest.mark.slow
def test_at_a_kink_of_the_fast_form():
    """All linear predictors are zero at the start, where the fast form of softplus is not smooth."""
    with pm.Model() as model:
        families()["logit"]()
    records = RecordModel(model)
    theta = np.zeros(3)
    gradient, hessian = collected(records, theta)
    expected = numerical(records, theta)
    np.testing.assert_allclose(gradient, expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(hessian, expected[1], rtol=1e-3, atol=1e-4)
    assert np.all(np.linalg.norm(hessian, axis=(1, 2)) > 1e-6)


@pytest.mark.slow
def test_rows_of_a_person_are_added(monkeypatch):
    monkeypatch.setattr(derivatives, "_ROWS", 7)
    ids = np.random.default_rng(1).integers(0, 12, 40)
    with pm.Model() as model:
        families()["logit"]()
    _, theta, gradient = check(model, privacy_unit=ids)
    rows, _ = collected(RecordModel(model), theta, hessians=False)
    persons = np.array([*dict.fromkeys(ids)])
    np.testing.assert_allclose(gradient, [rows[ids == p].sum(0) for p in persons], rtol=1e-10)


def test_an_op_without_second_derivatives_is_refused():
    """The Bessel function of VonMises has a first derivative only."""
    r = np.random.default_rng(0)
    with pm.Model() as model:
        kappa = pm.LogNormal("kappa", 0.5, 0.5)
        pm.VonMises("y", mu=0.0, kappa=kappa, observed=r.vonmises(0, 2, size=50))
    with pytest.raises(ModelRefusedError, match="no derivative of I1e"):
        RecordModel(model).derivatives  # noqa: B018
