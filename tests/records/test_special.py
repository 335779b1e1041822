"""Derivatives of log gamma in compiled code, against mpmath; and that PyTensor uses them."""

import mpmath
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import special as scipy_special

from pymc_dp.records import special

POINTS = np.r_[10.0 ** np.arange(-6, 8.01, 0.25), 0.5, 1.0, 1.5, 2.0, 19.9999, 20.0, 20.0001, 1.4616321449]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_against_mpmath(order):
    with mpmath.workdps(40):
        expected = np.array([float(mpmath.polygamma(order, mpmath.mpf(float(x)))) for x in POINTS])
    found = np.array([special.polygamma(order, x) for x in POINTS])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if order == 1:
        np.testing.assert_array_equal([special.trigamma(x) for x in POINTS], found)


def test_digamma_against_mpmath():
    with mpmath.workdps(40):
        expected = np.array([float(mpmath.digamma(mpmath.mpf(float(x)))) for x in POINTS])
    np.testing.assert_allclose([special.digamma(x) for x in POINTS], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("x", [-0.5, -3.7, -20.25])
def test_negative_numbers_as_scipy(x):
    for order in (1, 2, 3):
        expected = scipy_special.polygamma(order, x)
        assert special.polygamma(order, x) == pytest.approx(expected, rel=1e-10)


def test_where_there_is_no_value():
    assert special.trigamma(0.0) == np.inf and special.trigamma(-2.0) == np.inf
    assert np.isnan(special.trigamma(np.nan)) and np.isnan(special.digamma(-3.0))
    assert np.isnan(special.trigamma(-1e9)) and special.trigamma(np.inf) == 0.0


def test_pytensor_uses_them(recwarn):
    """In object mode the backend warns, and takes a hundred times as long."""
    x = pt.vector("x", dtype="float64")
    function = pytensor.function([x], [pt.tri_gamma(x), pt.polygamma(2, x)], mode="NUMBA")
    values = np.array([0.1, 2.0, 30.0])
    first, second = function(values)
    np.testing.assert_allclose(first, scipy_special.polygamma(1, values), rtol=1e-12)
    np.testing.assert_allclose(second, scipy_special.polygamma(2, values), rtol=1e-12)
    assert not [w for w in recwarn if "object mode" in str(w.message)]
